"""What storage does by itself, in time."""

import errno
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from danube.metadata.records.storage import add_tombstone
from danube.metadata.transaction_builder import TransactionBuilder, commit_transaction
from danube.model.errors import MetadataError, StorageUnavailableError
from danube.model.limits.broker import FLUSH_DELAY_S, FLUSH_FILES_WAIT_MAX, FLUSH_RETRY_S, FLUSH_WAIT_S
from danube.runtime.blocking import InlineRunner
from danube.storage.batches.stored_batch import EncodedBatch
from danube.storage.journal.reader import JournalReader
from danube.testing.simulated.disk import Operation
from tests.unit.storage.store.storage_world import StorageWorld, fill, flush_all, read_all, storage_settings


def journal_files(world: StorageWorld) -> int:
    return len([name for name in world.files("journal") if name.endswith(".journal")])


async def test_closed_journal_files_are_cut_after_a_while(world: StorageWorld) -> None:
    storage = await world.open()
    storage.start()
    log = storage.topic(1, 1)
    records = await fill(log, 20)
    assert journal_files(world) > 1
    await world.clock.run_for(FLUSH_WAIT_S + 3)
    assert journal_files(world) == 1
    assert await read_all(log) == records
    assert storage.stats.segments > 0


async def test_the_flushing_thread_rests_between_small_pieces_of_work(
    world: StorageWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    rests: list[int] = []
    read: list[int] = []
    original = JournalReader._encoded

    def note(reader: JournalReader, topic_id: int, sequence: int, rows: Sequence[Any]) -> list[EncodedBatch]:
        read.append(len(rows))
        return original(reader, topic_id, sequence, rows)

    monkeypatch.setattr(InlineRunner, "rest", lambda _: rests.append(len(read)))
    monkeypatch.setattr(JournalReader, "_encoded", note)
    storage = await world.open()
    await fill(storage.topic(1, 1), 200)
    await flush_all(storage)
    assert sum(read) == 200
    assert rests == list(range(1, len(read) + 1))
    assert len(rests) > 10


async def test_many_closed_files_do_not_wait_for_more(world: StorageWorld) -> None:
    storage = await world.open()
    storage.start()
    await fill(storage.topic(1, 1), 120)
    assert journal_files(world) > FLUSH_FILES_WAIT_MAX
    await world.clock.run_for(FLUSH_DELAY_S + 3)
    assert journal_files(world) == 1


async def test_a_small_file_is_closed_when_it_is_old_where_that_is_set(world: StorageWorld) -> None:
    world.settings = storage_settings(file_bytes_max=1 << 20, journal_file_age_s=60.0)
    storage = await world.open()
    storage.start()
    await fill(storage.topic(1, 1), 3)
    await world.clock.run_for(50)
    assert storage.journal.closed_files() == []
    await world.clock.run_for(12)
    assert len(storage.journal.closed_files()) == 1
    await world.clock.run_for(FLUSH_WAIT_S + 3)
    assert storage.stats.segments == 1


async def test_an_old_file_that_could_not_be_closed_is_closed_soon_after(world: StorageWorld) -> None:
    world.settings = storage_settings(file_bytes_max=1 << 20, journal_file_age_s=3_600.0)
    storage = await world.open()
    storage.start()
    await fill(storage.topic(1, 1), 3)
    world.sim.fail(Operation.CREATE, error=errno.ENOSPC, name="journal/*.journal")
    await world.clock.run_for(3_600 + FLUSH_RETRY_S + 3)
    assert storage.stats.segments == 1  # it has been cut, too


async def test_what_live_readers_have_in_memory_is_not_flushed_under_them(world: StorageWorld) -> None:
    storage = await world.open()
    storage.start()
    log = storage.topic(1, 1)
    await fill(log, 60)
    await world.clock.run_for(FLUSH_DELAY_S / 2)
    assert log.read_hot(0, 1_000) is not None


async def test_what_is_out_of_the_cache_is_flushed_at_once(world: StorageWorld) -> None:
    world.settings = storage_settings(journal={"cache_bytes_max": 4_096})
    storage = await world.open()
    storage.start()
    await fill(storage.topic(1, 1), 180)
    before = journal_files(world)
    await world.clock.run_for(2)
    assert journal_files(world) < before / 2


async def test_what_a_flush_that_died_has_left_is_removed_at_the_start_without_being_asked(world: StorageWorld) -> None:
    storage = await world.open()
    await fill(storage.topic(1, 1), 20)
    await flush_all(storage)
    await storage.close()
    left = f"{7:020d}-{1:010d}.segment"
    world.disk.create_whole(f"segments/1/{left}", [b"that the manifest does not name"])
    storage = await world.open()
    assert left in world.files("segments/1")
    storage.start()
    await world.clock.run_for(1)
    assert left not in world.files("segments/1")


async def test_deleted_topics_are_swept_without_being_asked(world: StorageWorld) -> None:
    storage = await world.open()
    await fill(storage.topic(1, 1), 30)
    await storage.journal.rotate()
    await storage.flush()
    storage.start()

    async def delete(builder: TransactionBuilder) -> None:
        add_tombstone(builder, 1)

    await commit_transaction(world.metadata, world.rng, delete)
    storage.forget(1)
    await world.clock.run_for(2)
    assert world.files("segments/1") == []


async def test_a_metadata_store_that_fails_is_tried_again_later(
    world: StorageWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = await world.open()
    point = world.records.point

    async def fail(_: object) -> None:
        raise MetadataError("the store is away")

    monkeypatch.setattr(world.records, "point", fail)
    storage.start()
    log = storage.topic(1, 1)
    records = await fill(log, 60)
    await world.clock.run_for(FLUSH_WAIT_S + 3)
    assert journal_files(world) > 3
    monkeypatch.setattr(world.records, "point", point)
    await world.clock.run_for(FLUSH_RETRY_S + 3)
    assert journal_files(world) == 1
    assert await read_all(log) == records


async def test_a_fault_of_its_own_does_not_end_the_background_work(
    world: StorageWorld, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    storage = await world.open()

    def fail() -> None:
        raise RuntimeError("a bug")

    with monkeypatch.context() as broken:
        broken.setattr(storage.journal, "closed_files", fail)
        storage.start()
        await world.clock.run_for(2)
    assert "tried again later" in caplog.text
    await fill(storage.topic(1, 1), 60)
    await world.clock.run_for(FLUSH_WAIT_S + FLUSH_RETRY_S)
    assert journal_files(world) == 1


STEPS = ("sweep_deleted", "sweep_orphans", "_end_old_file", "flush", "_tidy")


@pytest.mark.parametrize("failing", STEPS)
@pytest.mark.parametrize("error", [StorageUnavailableError("the disk is full"), RuntimeError("a bug")], ids=type)
async def test_each_step_of_the_background_work_goes_on_while_another_fails(
    world: StorageWorld, monkeypatch: pytest.MonkeyPatch, failing: str, error: Exception
) -> None:
    storage = await world.open()
    await fill(storage.topic(1, 1), 120)
    done: set[str] = set()

    def noting(step: str) -> Callable[[], Awaitable[None]]:
        async def note() -> None:
            if step == failing:
                raise error
            done.add(step)

        return note

    for step in STEPS:
        monkeypatch.setattr(storage, step, noting(step))
    storage.start()
    await world.clock.run_for(FLUSH_WAIT_S + FLUSH_RETRY_S)
    assert done == set(STEPS) - {failing}


async def test_what_a_flush_that_died_has_left_is_looked_for_again_when_that_failed(
    world: StorageWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = await world.open()
    tries: list[None] = []

    async def fail_once() -> None:
        tries.append(None)
        if len(tries) == 1:
            raise MetadataError("the store is away")

    monkeypatch.setattr(storage, "sweep_orphans", fail_once)
    storage.start()
    await world.clock.run_for(3 * FLUSH_RETRY_S)
    assert len(tries) == 2


async def test_a_replay_from_the_start_takes_nothing_out_of_the_cache(world: StorageWorld) -> None:
    storage = await world.open()
    log = storage.topic(1, 1)
    await fill(log, 60)
    await storage.journal.rotate()
    await storage.flush()
    await fill(log, 10, first=60)
    before = storage.stats.journal.cache_bytes
    await read_all(log, 0)
    assert storage.stats.journal.cache_bytes == before
    assert log.read_hot(60, 1_000)
