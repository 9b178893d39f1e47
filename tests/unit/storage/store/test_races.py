"""What happens in the midst of a cut or of retention: the event loop goes on while the disk is written."""

import asyncio
import errno
import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

import pytest

from danube.metadata.records.storage import TopicStorage
from danube.model.errors import MetadataError, StorageUnavailableError
from danube.model.limits.broker import FLUSH_RETRY_S, FLUSH_WAIT_S, JOURNAL_FILE_AGE_MIN_S
from danube.runtime.blocking import InlineRunner
from danube.storage.disk_space import Watermarks
from danube.storage.flush.manifest_builder import ManifestBuilder, ManifestVersion, TopicFlush
from danube.storage.retention.rules import Retention
from danube.testing.patience import PATIENCE_S
from danube.testing.simulated.clock import settle
from danube.testing.simulated.disk import Operation
from tests.unit.storage.journal_world import BROKER
from tests.unit.storage.store.storage_world import (
    LateAnswer,
    StorageWorld,
    always,
    fill,
    flush_all,
    read_all,
    record_of,
    storage_settings,
)
from tests.unit.storage.store.test_retention import SMALL
from tests.unit.storage.takeover.storages_world import rest

TOPIC = 5
T = TypeVar("T")


class Interrupted(InlineRunner):
    """Has something happen on the event loop before each piece of work that is handed over."""

    def __init__(self) -> None:
        self.meanwhile: Callable[[], object] = lambda: None

    async def run(self, work: Callable[[], T]) -> T:
        self.meanwhile()
        return await super().run(work)


@pytest.fixture
def interrupted(world: StorageWorld) -> Interrupted:
    world.runners["flush_runner"] = runner = Interrupted()
    return runner


async def test_a_topic_that_is_forgotten_while_it_is_cut_gets_no_manifest_without_its_messages(
    world: StorageWorld, interrupted: Interrupted
) -> None:
    storage = await world.open()
    await fill(storage.topic(TOPIC, 1), 60)
    await storage.journal.rotate()
    interrupted.meanwhile = lambda: storage.forget(TOPIC)
    await storage.flush()
    assert (await world.records.get(TOPIC)).manifest_version == 0


async def test_what_a_subscription_needs_that_came_while_a_generation_was_written_stays(
    world: StorageWorld, interrupted: Interrupted
) -> None:
    storage = await world.open()
    log = storage.topic(TOPIC, 1)
    records = await fill(log, 100)
    await flush_all(storage)
    positions: list[int] = []
    interrupted.meanwhile = lambda: positions.append(0)  # it subscribes at the earliest message
    assert await storage.retain(always(SMALL), lambda _: min(positions, default=None)) == 0
    assert await read_all(log, 0) == records


async def test_journal_files_that_could_not_be_removed_are_removed_without_another_flush(world: StorageWorld) -> None:
    storage = await world.open()
    await fill(storage.topic(TOPIC, 1), 60)
    await storage.journal.rotate()
    world.sim.fail(Operation.RENAME, name="journal/first")
    with pytest.raises(StorageUnavailableError, match="could not be removed"):
        await storage.flush()
    storage.start()
    await world.clock.run_for(2 * FLUSH_RETRY_S)
    assert not storage.journal.closed_files()


async def test_a_cut_that_fails_half_way_leaves_no_segments_on_a_disk_that_is_full(world: StorageWorld) -> None:
    storage = await world.open()
    records = await fill(storage.topic(TOPIC, 1), 60)
    await storage.journal.rotate()
    world.sim.fail(Operation.SYNC, number=3, name=f"segments/{TOPIC}/*")
    assert (await storage.flush()).failed == 1
    assert world.files(f"segments/{TOPIC}") == []
    world.clock.advance(FLUSH_RETRY_S)
    await flush_all(storage)
    assert await read_all(storage.topic(TOPIC, 1)) == records


async def test_while_the_metadata_store_fails_nothing_is_written_twice(
    world: StorageWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = await world.open()
    records = await fill(storage.topic(TOPIC, 1), 60)
    await storage.journal.rotate()

    async def fail(_: object) -> None:
        raise MetadataError("the store is away")

    with monkeypatch.context() as away:
        away.setattr(world.records, "point", fail)
        with pytest.raises(MetadataError):
            await storage.flush()
        written = world.files(f"segments/{TOPIC}")
        with pytest.raises(MetadataError):
            await storage.flush()
        assert world.files(f"segments/{TOPIC}") == written
    await flush_all(storage)
    assert await read_all((await world.reopen()).topic(TOPIC, 2)) == records


async def test_a_generation_that_was_named_though_the_answer_got_lost_is_gone_on_from(
    world: StorageWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = await world.open()
    records = await fill(storage.topic(TOPIC, 1), 60)
    await storage.journal.rotate()
    point = world.records.point

    async def point_and_fail(changes: Sequence[tuple[TopicStorage, int]]) -> list[TopicStorage]:
        await point(changes)
        raise MetadataError("no answer")

    with monkeypatch.context() as away:
        away.setattr(world.records, "point", point_and_fail)
        with pytest.raises(MetadataError):
            await storage.flush()
    assert (await storage.flush()).failed == 1
    assert await read_all(storage.topic(TOPIC, 1)) == records
    world.clock.advance(FLUSH_RETRY_S)
    records += await fill(storage.topic(TOPIC, 1), 5, first=60)
    await flush_all(storage)
    assert await read_all((await world.reopen()).topic(TOPIC, 2)) == records


async def test_a_topic_in_trouble_does_not_have_a_new_journal_file_begun_every_minute(world: StorageWorld) -> None:
    storage = await world.open()
    await fill(storage.topic(TOPIC, 1), 5)
    other = storage.topic(TOPIC + 1, 1)
    await storage.journal.rotate()
    world.sim.fail(Operation.SYNC, name=f"segments/{TOPIC}/*", times=100)
    for number in range(5):
        await fill(other, 1, first=number)
        await storage.flush()
        world.clock.advance(JOURNAL_FILE_AGE_MIN_S + 1)
        await storage.retain(lambda topic_id: Retention(1_000 if topic_id == TOPIC else None, None), lambda _: 0)
    assert len(storage.journal.closed_files()) == 1


async def test_retention_goes_on_while_no_journal_file_can_be_begun(world: StorageWorld) -> None:
    storage = await world.open()
    log = storage.topic(TOPIC, 1)
    await fill(log, 100)
    await flush_all(storage)
    await fill(log, 2, first=100)
    world.clock.advance(JOURNAL_FILE_AGE_MIN_S + 1)
    world.sim.fail(Operation.CREATE, error=errno.ENOSPC, name="journal/*", times=100)
    assert await storage.retain(always(Retention(1_000, None)), lambda _: None) > 0
    assert log.start_offset > 0


async def test_retention_goes_on_from_what_metadata_names_when_an_answer_got_lost(
    world: StorageWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = await world.open()
    log = storage.topic(TOPIC, 1)
    records = await fill(log, 100)
    await flush_all(storage)
    point = world.records.point

    async def point_and_fail(changes: Sequence[tuple[TopicStorage, int]]) -> list[TopicStorage]:
        await point(changes)
        raise MetadataError("no answer")

    with monkeypatch.context() as away:
        away.setattr(world.records, "point", point_and_fail)
        with pytest.raises(MetadataError):
            await storage.retain(always(SMALL), lambda _: None)
    for _ in range(3):  # it is lost, looked up, done
        await storage.retain(always(SMALL), lambda _: None)
        world.clock.advance(FLUSH_RETRY_S)
    assert log.start_offset > 0
    assert storage.stats.quarantined_topics == 0
    assert await read_all(log) == records[log.start_offset :]


async def test_with_little_room_left_a_pass_flushes_one_journal_file(world: StorageWorld) -> None:
    world.settings = storage_settings(watermarks=Watermarks(warn_below_bytes=0, refuse_below_bytes=1_000_000))
    storage = await world.open()
    for topic_id in range(1, 4):
        await fill(storage.topic(topic_id, 1), 30)
    await storage.journal.rotate()
    files = len(storage.journal.closed_files())
    world.sim.capacity_bytes = 500_000
    await storage.check_space()
    assert (await storage.flush()).files == 1
    assert len(storage.journal.closed_files()) == files - 1


@pytest.mark.parametrize("harm", ["flipped", "missing"])
async def test_a_damaged_segment_is_not_merged_and_keeps_no_journal_file(world: StorageWorld, harm: str) -> None:
    storage = await world.open()
    log = storage.topic(TOPIC, 1)
    await fill(log, 3)
    await flush_all(storage)
    (name,) = [name for name in world.files(f"segments/{TOPIC}") if name.endswith(".segment")]
    if harm == "missing":
        world.disk.remove(f"segments/{TOPIC}/{name}")
        storage._writer._tier.close()
    else:
        world.sim.flip_bit(f"segments/{TOPIC}/{name}", 100)
    for number in range(5):
        await fill(log, 3, first=3 + 3 * number)
        await flush_all(storage)
    log = (await world.reopen()).topic(TOPIC, 2)
    assert await read_all(log, 3) == [record_of(TOPIC, number) for number in range(3, 18)]
    assert log.start_offset == 0


async def test_closing_waits_for_the_topic_that_is_being_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    world = StorageWorld(threads=True)
    storage = await world.open()
    records = await fill(storage.topic(TOPIC, 1), 60)
    await storage.journal.rotate()
    loop, begun, go_on = asyncio.get_running_loop(), asyncio.Event(), threading.Event()
    original = ManifestBuilder.flush

    def flush(self: ManifestBuilder, what: TopicFlush) -> ManifestVersion:
        loop.call_soon_threadsafe(begun.set)
        assert go_on.wait(PATIENCE_S)
        return original(self, what)

    monkeypatch.setattr(ManifestBuilder, "flush", flush)
    storage.start()
    await world.clock.run_for(FLUSH_WAIT_S + 3)
    await asyncio.wait_for(begun.wait(), PATIENCE_S)
    closing = asyncio.ensure_future(world.close())
    await settle()
    assert not closing.done()
    go_on.set()
    await closing
    storage = await world.open()
    await flush_all(storage)
    assert await read_all(storage.topic(TOPIC, 2)) == records
    await world.end()


async def test_a_topic_that_is_owned_anew_before_a_flush_of_it_is_answered_has_both_its_epoch_and_its_segments(
    world: StorageWorld,
) -> None:
    storage = await world.open()
    (record,) = await world.records.own([TopicStorage(TOPIC)], BROKER)
    storage.enter(record)
    log = storage.topic(TOPIC, 1)
    records = await fill(log, 30)
    await storage.journal.rotate()
    answer = LateAnswer(world.metadata)
    flushing = asyncio.create_task(storage.flush())
    await rest()
    (owned,) = await world.records.own([await world.records.get(TOPIC)], BROKER)
    storage.enter(owned)
    answer.let_go()
    await flushing
    assert storage.epoch(TOPIC) == 2
    history = storage.topics.histories.get(TOPIC)
    assert history is not None
    assert history.manifest.version == owned.manifest_version > 0
    assert await read_all(log) == records
    records += await fill(log, 30, first=30)
    await flush_all(storage)
    assert await read_all(log) == records
