"""What fails fails alone: one topic, one cut, said once and tried again."""

import errno
from typing import Any

import pytest

from danube.metadata.records.storage import EpochRange
from danube.model.errors import DamagedDataError
from danube.model.limits.broker import FLUSH_RETRY_S
from danube.model.topic import TopicName
from danube.storage.tiers.directory import DirectoryTier
from danube.testing.simulated.disk import Operation
from tests.unit.storage.store.storage_world import StorageWorld, fill, flush_all, read_all

BAD, GOOD = 1, 2


async def flush_topics(world: StorageWorld) -> dict[int, list[bytes]]:
    storage = await world.open()
    records = {topic_id: await fill(storage.topic(topic_id, 1), 30) for topic_id in (BAD, GOOD)}
    await flush_all(storage)
    return records


def manifest_of(world: StorageWorld, topic_id: int) -> str:
    (name,) = [name for name in world.files(f"segments/{topic_id}") if name.endswith(".manifest")]
    return f"segments/{topic_id}/{name}"


@pytest.mark.parametrize("harm", ["missing", "flipped"])
async def test_a_topic_whose_manifest_is_harmed_is_refused_and_the_others_are_served(
    world: StorageWorld, harm: str
) -> None:
    records = await flush_topics(world)
    await fill(world.storage.topic(BAD, 1), 5, first=30)
    await world.close()
    name = manifest_of(world, BAD)
    if harm == "missing":
        world.disk.remove(name)
    else:
        world.sim.flip_bit(name, 20)
    storage = await world.open(known_topics={BAD, GOOD})
    with pytest.raises(DamagedDataError, match=name):
        storage.topic(BAD, 2)
    assert await read_all(storage.topic(GOOD, 2)) == records[GOOD]
    assert storage.stats.refused_topics == 1


async def test_the_journal_keeps_what_a_refused_topic_has_in_it(world: StorageWorld) -> None:
    records = await flush_topics(world)
    records[BAD] += await fill(world.storage.topic(BAD, 1), 5, first=30)
    await world.close()
    name = manifest_of(world, BAD)
    world.sim.flip_bit(name, 20)
    storage = await world.open()
    await storage.journal.rotate()
    await storage.flush()
    await world.close()
    world.sim.flip_bit(name, 20)
    assert await read_all((await world.open()).topic(BAD, 3)) == records[BAD]


async def test_files_that_one_topic_holds_do_not_keep_the_others_from_being_cut(
    world: StorageWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("danube.storage.flush.flush_plan.FLUSH_FILES_MAX", 1)
    storage = await world.open()
    records: dict[int, list[bytes]] = {BAD: [], GOOD: []}
    for number in range(20):
        for topic_id, kept in records.items():
            kept += await fill(storage.topic(topic_id, 1), 2, first=2 * number)
    await storage.journal.rotate()
    files = len(storage.journal.closed_files())
    world.sim.fail(Operation.SYNC, name=f"segments/{BAD}/*", times=100)
    for _ in range(files):
        await storage.flush()
    good = storage.topics.histories.get(GOOD)
    assert good is not None
    assert good.manifest.end_offset == 40
    assert len(storage.journal.closed_files()) == files
    world.sim.clear_faults()
    world.clock.advance(FLUSH_RETRY_S)
    await flush_all(storage)
    for topic_id, kept in records.items():
        assert await read_all(storage.topic(topic_id, 1)) == kept


async def test_a_refused_topic_can_be_deleted_and_then_holds_no_journal_file(world: StorageWorld) -> None:
    await flush_topics(world)
    await fill(world.storage.topic(BAD, 1), 5, first=30)
    await world.close()
    world.sim.flip_bit(manifest_of(world, BAD), 20)
    storage = await world.open()
    storage.forget(BAD)
    await flush_all(storage)
    assert storage.stats.refused_topics == 0
    with pytest.raises(ValueError, match="never used again"):
        storage.topic(BAD, 2)


async def test_a_segment_that_is_damaged_stops_only_its_topic(world: StorageWorld) -> None:
    records = await flush_topics(world)
    segment = next(name for name in world.files(f"segments/{BAD}") if name.endswith(".segment"))
    world.sim.flip_bit(f"segments/{BAD}/{segment}", 100)
    with pytest.raises(DamagedDataError, match=segment):
        await read_all(world.storage.topic(BAD, 1))
    assert await read_all(world.storage.topic(GOOD, 1)) == records[GOOD]


async def test_files_that_one_topic_cannot_get_rid_of_do_not_keep_those_of_others(
    world: StorageWorld, caplog: pytest.LogCaptureFixture
) -> None:
    storage = await world.open()
    world.sim.fail(Operation.REMOVE, name=f"segments/{BAD}/*.manifest", times=100)
    for number in range(6):
        for topic_id in (BAD, GOOD):
            await fill(storage.topic(topic_id, 1), 2, first=2 * number)
        await flush_all(storage)
    manifest = storage.topics.histories.get(GOOD).manifest  # type: ignore[union-attr]
    assert len(world.files(f"segments/{GOOD}")) == len(manifest.segments) + 1
    assert caplog.text.count("could not be removed") == 5  # once for each cut of it


@pytest.mark.parametrize("step", ["list", "delete"])
async def test_what_flushes_left_of_one_topic_and_cannot_be_removed_does_not_keep_that_of_others(
    world: StorageWorld, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = await world.open()
    for topic_id in (BAD, GOOD):
        await fill(storage.topic(topic_id, 1), 2)
    await flush_all(storage)
    left = f"{7:020d}-{1:010d}.segment"
    for topic_id in (BAD, GOOD):
        world.disk.create_whole(f"segments/{topic_id}/{left}", [b"that the manifest does not name"])
    original = getattr(DirectoryTier, step)

    def fail(self: DirectoryTier, name: str) -> Any:
        if name.startswith(f"segments/{BAD}"):
            raise OSError(errno.EIO, "Input/output error", name)
        return original(self, name)

    monkeypatch.setattr(DirectoryTier, step, fail)
    await storage.sweep_orphans()
    assert left not in world.files(f"segments/{GOOD}")


async def test_a_topic_that_cannot_be_flushed_is_said_once_and_tried_again_later(
    world: StorageWorld, caplog: pytest.LogCaptureFixture
) -> None:
    storage = await world.open()
    records = {topic_id: await fill(storage.topic(topic_id, 1), 30) for topic_id in (BAD, GOOD)}
    await storage.journal.rotate()
    world.sim.fail(Operation.SYNC, name=f"segments/{BAD}/*", error=errno.EIO, times=2)
    assert (await storage.flush()).failed == 1
    assert (await storage.flush()).topics == 0  # it is not its time yet
    world.clock.advance(FLUSH_RETRY_S)
    assert (await storage.flush()).failed == 1
    assert caplog.text.count("what is stored of topic 1 stays as it is") == 1
    assert world.storage.stats.quarantined_topics == 1
    world.clock.advance(FLUSH_RETRY_S)
    await flush_all(storage)
    assert storage.stats.quarantined_topics == 0
    for topic_id, expected in records.items():
        assert await read_all(storage.topic(topic_id, 1)) == expected


async def test_a_topic_in_trouble_is_called_by_its_name_where_that_is_known(
    world: StorageWorld, caplog: pytest.LogCaptureFixture
) -> None:
    await flush_topics(world)
    name = manifest_of(world, BAD)
    world.sim.fail(Operation.SYNC, name=f"segments/{GOOD}/*", error=errno.EIO)
    await fill(world.storage.topic(GOOD, 1, name=TopicName("default", "clicks")), 30, first=30)
    await world.storage.journal.rotate()
    assert (await world.storage.flush()).failed == 1
    assert f"what is stored of topic /default/clicks (id {GOOD}) stays as it is" in caplog.text
    world.clock.advance(FLUSH_RETRY_S)
    await flush_all(world.storage)
    assert f"the storage of topic /default/clicks (id {GOOD}) is kept in order again" in caplog.text
    await world.close()
    world.disk.remove(name)
    await world.open(names={BAD: TopicName("default", "orders")})
    assert f"topic /default/orders (id {BAD}) cannot be served: {name}" in caplog.text


async def test_a_topic_that_somebody_took_over_is_not_cut_any_more(
    world: StorageWorld, caplog: pytest.LogCaptureFixture
) -> None:
    records = await flush_topics(world)
    storage = world.storage
    records[BAD] += await fill(storage.topic(BAD, 1), 30, first=30)
    await storage.journal.rotate()
    record = await world.records.get(BAD)
    await world.records.seal(record, (EpochRange(2, 77, 60, None),))
    for _ in range(3):
        await storage.flush()
        world.clock.advance(FLUSH_RETRY_S)
    assert "another broker has taken it over" in caplog.text
    assert (await world.records.get(BAD)).manifest_version == record.manifest_version
    assert await read_all(storage.topic(BAD, 1)) == records[BAD]


async def test_a_record_that_was_rewritten_by_nobody_else_is_looked_up_again(world: StorageWorld) -> None:
    records = await flush_topics(world)
    storage = world.storage
    records[BAD] += await fill(storage.topic(BAD, 1), 30, first=30)
    record = await world.records.get(BAD)
    await world.records.seal(record, ())  # as an outcome that was never learned leaves it
    await storage.journal.rotate()
    assert (await storage.flush()).failed == 1
    world.clock.advance(FLUSH_RETRY_S)
    await flush_all(storage)
    assert await read_all(storage.topic(BAD, 1)) == records[BAD]
    assert storage.stats.quarantined_topics == 0
