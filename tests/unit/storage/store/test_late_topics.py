"""A topic that cannot be cut is tried again on its own: what the others wrote since is cut meanwhile."""

from collections import Counter
from typing import Any

import pytest

from danube.model.errors import MetadataError
from danube.model.limits.broker import FLUSH_RETRY_S
from danube.storage.flush.segment_flusher import SegmentFlusher
from danube.storage.store import Storage
from danube.storage.stored_topics import StoredTopics
from danube.testing.simulated.disk import Operation
from tests.unit.storage.store.storage_world import StorageWorld, fill, flush_all, read_all

BAD, GOOD = 1, 2


def sealed_to(storage: Storage, topic_id: int) -> int:
    history = storage.topics.histories.get(topic_id)
    return history.manifest.end_offset if history is not None else 0


async def with_damage(world: StorageWorld) -> Storage:
    """A storage with one message of BAD in the journal's first file, which cannot be read."""
    storage = await world.open()
    await fill(storage.topic(BAD, 1), 1)
    (name,) = [name for name in world.files("journal") if name.endswith(".journal")]
    world.sim.flip_bit(f"journal/{name}", world.sim.contents()[f"journal/{name}"].index(b"1/0/") + 20)
    return storage


async def test_a_damaged_topic_does_not_keep_the_others_from_being_cut_however_long_it_holds_its_file(
    world: StorageWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("danube.storage.flush.flush_plan.FLUSH_FILES_MAX", 1)
    storage = await with_damage(world)
    storage.start()
    log = storage.topic(GOOD, 1)
    files = int(1.5 * FLUSH_RETRY_S)  # one pass a second goes through so many only if it never begins anew
    for number in range(files):
        await fill(log, 2, first=2 * number)
        await storage.journal.rotate()
    await world.clock.run_for(20 * FLUSH_RETRY_S)
    assert len(storage.journal.closed_files()) == files
    assert sealed_to(storage, GOOD) == log.durable_end == 2 * files


async def test_a_damaged_topic_has_no_pass_made_but_when_it_is_tried_again(world: StorageWorld) -> None:
    storage = await with_damage(world)
    storage.start()
    for number in range(10):
        await fill(storage.topic(GOOD, 1), 2, first=2 * number)
        await storage.journal.rotate()
    await world.clock.run_for(20 * FLUSH_RETRY_S)
    passes = storage.stats.flush_passes
    await world.clock.run_for(20 * FLUSH_RETRY_S)
    assert 15 <= storage.stats.flush_passes - passes <= 20


async def test_a_topic_that_is_late_goes_alone_through_what_it_holds_in_steps_as_others_do(
    world: StorageWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("danube.storage.flush.flush_plan.FLUSH_FILES_MAX", 1)
    storage = await world.open()
    records: dict[int, list[bytes]] = {BAD: [], GOOD: []}
    for number in range(3):
        for topic_id, kept in records.items():
            kept += await fill(storage.topic(topic_id, 1), 2, first=2 * number)
        await storage.journal.rotate()
    world.sim.fail(Operation.SYNC, name=f"segments/{BAD}/*")
    assert [(await storage.flush()).failed for _ in range(3)] == [1, 0, 0]  # once, and then it is left out
    assert (sealed_to(storage, BAD), sealed_to(storage, GOOD)) == (0, 6)
    world.clock.advance(FLUSH_RETRY_S)
    for left in (2, 1, 0):
        assert storage._flusher.is_due
        report = await storage.flush()
        assert (report.files, report.topics, len(storage.journal.closed_files())) == (0, 1, left)
    assert not storage._flusher.is_due
    for topic_id, kept in records.items():
        assert await read_all(storage.topic(topic_id, 1)) == kept


async def test_a_topic_that_is_late_takes_its_steps_also_when_it_is_in_the_next_file(
    world: StorageWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("danube.storage.flush.flush_plan.FLUSH_FILES_MAX", 1)
    storage = await world.open()
    world.sim.fail(Operation.SYNC, name=f"segments/{BAD}/*")
    for number in range(4):
        for topic_id in (BAD, GOOD):
            await fill(storage.topic(topic_id, 1), 2, first=2 * number)
        await storage.journal.rotate()
        if number < 3:
            assert (await storage.flush()).failed == int(number == 0)
    world.clock.advance(FLUSH_RETRY_S)
    await storage.flush()
    assert (sealed_to(storage, BAD), sealed_to(storage, GOOD)) == (2, 8)
    for sealed in (4, 6, 8):
        await storage.flush()
        assert sealed_to(storage, BAD) == sealed
    assert not storage.journal.closed_files()


async def test_a_topic_that_stays_late_does_not_keep_another_one_late(
    world: StorageWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("danube.storage.flush.flush_plan.FLUSH_FILES_MAX", 1)
    storage = await with_damage(world)
    await storage.journal.rotate()
    for number in range(3):
        await fill(storage.topic(GOOD, 1), 2, first=2 * number)
        await storage.journal.rotate()
    world.sim.fail(Operation.SYNC, name=f"segments/{GOOD}/*")
    assert [(await storage.flush()).failed for _ in range(4)] == [1, 1, 0, 0]
    assert sealed_to(storage, GOOD) == 0
    storage.start()
    await world.clock.run_for(FLUSH_RETRY_S + 10)
    assert sealed_to(storage, GOOD) == 6
    assert storage.stats.quarantined_topics == 1


async def test_a_topic_that_caught_up_though_the_metadata_failed_first_is_cut_with_the_others_again(
    world: StorageWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = await world.open()
    for topic_id in (BAD, GOOD):
        await fill(storage.topic(topic_id, 1), 2)
    await storage.journal.rotate()
    world.sim.fail(Operation.SYNC, name=f"segments/{BAD}/*")
    assert (await storage.flush()).failed == 1
    world.clock.advance(FLUSH_RETRY_S)

    async def fail(_: object) -> None:
        raise MetadataError("the store is away")

    with monkeypatch.context() as away:
        away.setattr(world.records, "point", fail)
        with pytest.raises(MetadataError):
            await storage.flush()
    for topic_id in (BAD, GOOD):
        await fill(storage.topic(topic_id, 1), 2, first=2)
    await storage.journal.rotate()
    assert (await storage.flush()).topics == 3  # BAD is named as it was, and then cut with the next file
    assert not storage.journal.closed_files()


async def test_topics_that_are_late_are_not_looked_at_in_every_file(
    world: StorageWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics, files = range(1, 11), 40
    storage = await world.open()
    for number in range(files):
        for topic_id in topics:
            await fill(storage.topic(topic_id, 1), 1, first=number, size=10)
        await storage.journal.rotate()
    world.sim.fail(Operation.SYNC, name="segments/*", times=1_000)
    assert (await storage.flush()).failed == len(topics)
    world.clock.advance(FLUSH_RETRY_S)
    looks = Counter[str]()
    for owner, name in ((SegmentFlusher, "_covered_to"), (StoredTopics, "is_owned")):
        original = getattr(owner, name)

        def count(self: Any, topic_id: int, name: str = name, original: Any = original) -> Any:
            looks[name] += 1
            return original(self, topic_id)

        monkeypatch.setattr(owner, name, count)
    assert (await storage.flush()).failed == len(topics)
    assert max(looks.values()) < len(topics) * files / 2


async def test_a_topic_that_is_late_and_gone_is_not_waited_for(world: StorageWorld) -> None:
    storage = await with_damage(world)
    await storage.journal.rotate()
    assert (await storage.flush()).failed == 1
    world.clock.advance(FLUSH_RETRY_S)
    assert storage._flusher.is_due
    storage.forget(BAD)
    await flush_all(storage)
    assert not storage._flusher.is_due
