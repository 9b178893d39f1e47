"""Deleted topics: nothing of them stays, and nobody else is touched."""

from collections.abc import Sequence
from typing import Any

import pytest

from danube.metadata.records.storage import TopicStorage, add_tombstone
from danube.metadata.transaction_builder import TransactionBuilder, commit_transaction
from danube.model.limits.broker import (
    FLUSH_DELAY_S,
    FLUSH_RETRY_S,
    FLUSH_WAIT_S,
    JOURNAL_FILE_AGE_MIN_S,
    JOURNAL_FILE_DEAD_BYTES,
    JOURNAL_FILE_DEAD_WAIT_S,
)
from danube.storage.retention.rules import Retention
from danube.testing.simulated.disk import Operation
from tests.unit.storage.store.storage_world import StorageWorld, always, fill, flush_all, read_all, storage_settings

GONE, LEFT = 1, 2


async def delete(world: StorageWorld, topic_id: int) -> None:
    """As the broker deletes a topic in metadata."""

    async def change(builder: TransactionBuilder) -> None:
        add_tombstone(builder, topic_id)

    await commit_transaction(world.metadata, world.rng, change)


async def two_topics(world: StorageWorld) -> list[bytes]:
    """Two topics, cut; answers the records of the one that stays."""
    storage = await world.open()
    await fill(storage.topic(GONE, 1), 30)
    kept = await fill(storage.topic(LEFT, 1), 30)
    await flush_all(storage)
    return kept


async def test_a_sweep_removes_the_files_of_deleted_topics_and_of_no_others(world: StorageWorld) -> None:
    kept = await two_topics(world)
    storage = world.storage
    await delete(world, GONE)
    storage.forget(GONE)
    assert await storage.sweep_deleted() == 1
    assert world.files(f"segments/{GONE}") == []
    assert await read_all(storage.topic(LEFT, 1)) == kept
    assert await world.records.deleted() == []


async def test_a_topic_that_was_deleted_while_the_broker_was_down_is_swept_too(world: StorageWorld) -> None:
    await two_topics(world)
    await world.close()
    await delete(world, GONE)
    storage = await world.open(known_topics={LEFT})
    assert await storage.sweep_deleted() == 1
    assert world.files(f"segments/{GONE}") == []


async def test_records_of_a_deleted_topic_hold_no_journal_file(world: StorageWorld) -> None:
    await two_topics(world)
    storage = world.storage
    await fill(storage.topic(GONE, 1), 60, first=30)
    await delete(world, GONE)
    storage.forget(GONE)
    await flush_all(storage)
    assert world.files(f"segments/{GONE}") != []  # until a sweep
    await storage.sweep_deleted()
    assert [name for name in world.files("journal") if name.endswith(".journal")] != []
    assert await read_all(storage.topic(LEFT, 1))


async def test_a_sweep_that_fails_is_done_again(world: StorageWorld, caplog: pytest.LogCaptureFixture) -> None:
    await two_topics(world)
    storage = world.storage
    await delete(world, GONE)
    world.sim.fail(Operation.REMOVE, name=f"segments/{GONE}/*")
    assert await storage.sweep_deleted() == 0
    assert "deleted topic 1 could not be removed" in caplog.text
    assert await storage.sweep_deleted() == 1
    assert world.files(f"segments/{GONE}") == []


async def test_what_cannot_be_removed_is_said_once_tried_again_now_and_then_and_has_no_pass_made_all_the_time(
    world: StorageWorld, caplog: pytest.LogCaptureFixture
) -> None:
    await two_topics(world)
    storage = world.storage
    await delete(world, GONE)
    world.sim.fail(Operation.REMOVE, name=f"segments/{GONE}/*", times=1_000)
    storage.start()
    storage.forget(GONE)
    passes = storage.stats.flush_passes
    await world.clock.run_for(10 * FLUSH_RETRY_S)
    assert caplog.text.count("deleted topic 1 could not be removed") == 1
    assert 10 <= world.sim.failed[Operation.REMOVE] <= 12
    assert storage.stats.flush_passes - passes <= 12
    world.sim.clear_faults()
    await world.clock.run_for(FLUSH_RETRY_S + 2)
    assert world.files(f"segments/{GONE}") == []


async def test_a_topic_that_is_deleted_between_a_cut_and_its_pointer_leaves_no_record(world: StorageWorld) -> None:
    storage = await world.open()
    await fill(storage.topic(GONE, 1), 30)
    await storage.journal.rotate()
    await delete(world, GONE)  # the broker has not heard of it yet
    report = await storage.flush()
    assert (report.topics, report.failed) == (0, 1)
    assert await storage.sweep_deleted() == 1
    assert GONE not in await world.records.all()
    assert world.files(f"segments/{GONE}") == []


async def test_a_topic_that_is_deleted_while_it_is_cut_is_not_remembered_and_not_said_to_be_in_trouble(
    world: StorageWorld, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    storage = await world.open()
    await fill(storage.topic(GONE, 1), 30)
    await storage.journal.rotate()
    point = world.records.point

    async def delete_first(changes: Sequence[tuple[TopicStorage, int]]) -> list[TopicStorage]:
        await delete(world, GONE)
        storage.forget(GONE)
        return await point(changes)

    monkeypatch.setattr(world.records, "point", delete_first)
    await storage.flush()
    assert (storage.stats.topics, storage.stats.quarantined_topics) == (0, 0)
    assert "stays as it is" not in caplog.text
    assert await storage.sweep_deleted() == 1
    assert world.files(f"segments/{GONE}") == []


@pytest.mark.parametrize("step", ["cut", "retain", "trim", "look up"])
async def test_nothing_is_remembered_of_a_topic_that_is_deleted_in_the_midst_of_work(
    world: StorageWorld, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = await world.open(known_topics=set())
    await fill(storage.topic(GONE, 1), 100)
    await flush_all(storage)
    await fill(storage.topic(GONE, 1), 5, first=100)
    await storage.journal.rotate()
    if step == "look up":
        storage.topics.stale.add(GONE)
    method = "settled" if step == "look up" else "point"
    original = getattr(world.records, method)

    async def delete_first(*arguments: Any) -> Any:
        await delete(world, GONE)
        storage.forget(GONE)
        return await original(*arguments)

    monkeypatch.setattr(world.records, method, delete_first)
    run = world.runners["flush_runner"].run

    async def delete_then_run(work: Any) -> Any:
        await delete(world, GONE)
        storage.forget(GONE)
        return await run(work)

    if step == "trim":
        monkeypatch.setattr(world.records, method, original)
        world.runners["flush_runner"].run = delete_then_run  # type: ignore[method-assign]
    if step == "cut":
        await storage.flush()
    else:
        world.clock.advance(60)
        await storage.retain(always(Retention(1_000, 1_000)), lambda _: None)
    topics = storage.topics
    assert GONE not in {
        *topics.stale,
        *topics.histories._of,
        *topics.histories._beginnings,
        *topics.quarantine._entries,
    }
    assert await storage.sweep_deleted() == 1


async def test_a_deleted_topic_is_never_opened_again(world: StorageWorld) -> None:
    await two_topics(world)
    world.storage.forget(GONE)
    with pytest.raises(ValueError, match="never used again"):
        world.storage.topic(GONE, 2)


# What is in the journal's open file


CUT_S = FLUSH_WAIT_S + FLUSH_DELAY_S + 2


async def two_topics_in_one_file(world: StorageWorld, size: int = 200) -> bytes:
    """Two topics, of which nothing is cut; answers a record of the one that goes."""
    world.settings = storage_settings(file_bytes_max=1 << 30)
    storage = await world.open()
    storage.start()
    gone = await fill(storage.topic(GONE, 1), 3, size=size)
    await fill(storage.topic(LEFT, 1), 3)
    return gone[0]


def is_on_the_disk(world: StorageWorld, record: bytes) -> bool:
    return any(record in content for content in world.sim.contents().values())


async def test_little_of_a_deleted_topic_leaves_the_disk_of_a_quiet_broker_within_hours(world: StorageWorld) -> None:
    record = await two_topics_in_one_file(world)
    world.storage.forget(GONE)
    await world.clock.run_for(JOURNAL_FILE_DEAD_WAIT_S - 2)
    assert is_on_the_disk(world, record)
    await world.clock.run_for(JOURNAL_FILE_AGE_MIN_S + CUT_S)
    assert not is_on_the_disk(world, record)
    assert len(await read_all(world.storage.topic(LEFT, 1))) == 3


async def test_much_of_it_leaves_within_minutes(world: StorageWorld) -> None:
    record = await two_topics_in_one_file(world, JOURNAL_FILE_DEAD_BYTES)
    world.storage.forget(GONE)
    await world.clock.run_for(JOURNAL_FILE_AGE_MIN_S + CUT_S)
    assert not is_on_the_disk(world, record)


async def test_what_was_deleted_while_the_broker_was_down_leaves_too(world: StorageWorld) -> None:
    record = await two_topics_in_one_file(world)
    await delete(world, GONE)
    storage = await world.reopen(known_topics={LEFT})
    storage.topic(LEFT, 2)
    storage.start()
    await world.clock.run_for(JOURNAL_FILE_DEAD_WAIT_S + JOURNAL_FILE_AGE_MIN_S + CUT_S)
    assert not is_on_the_disk(world, record)


async def test_a_journal_without_records_of_deleted_topics_goes_on_in_its_file(world: StorageWorld) -> None:
    await two_topics_in_one_file(world)
    world.storage.forget(GONE)
    await world.clock.run_for(JOURNAL_FILE_DEAD_WAIT_S + JOURNAL_FILE_AGE_MIN_S + CUT_S)
    await fill(world.storage.topic(LEFT, 1), 1, first=3)
    before = [name for name in world.files("journal") if name.endswith(".journal")]
    await world.clock.run_for(5 * JOURNAL_FILE_DEAD_WAIT_S)
    assert [name for name in world.files("journal") if name.endswith(".journal")] == before


async def test_topics_that_come_and_go_all_the_time_have_a_file_closed_once_an_hour(world: StorageWorld) -> None:
    await two_topics_in_one_file(world)
    closed: list[object] = []
    world.storage.journal.on_file_closed(lambda: closed.append(None))
    for topic_id in range(10, 10 + 5 * 12):
        await fill(world.storage.topic(topic_id, 1), 1)
        world.storage.forget(topic_id)
        await world.clock.run_for(JOURNAL_FILE_DEAD_WAIT_S / 12)
    assert 4 <= len(closed) <= 5
