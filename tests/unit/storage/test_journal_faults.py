"""A disk that fills up, fails and comes back: what failed leaves no trace, what is unknown stops the journal."""

import errno
import os

import pytest

from danube.model.errors import DamagedDataError, StorageUnavailableError
from danube.model.plans.durability import Durability
from danube.model.subscription import Cursor
from danube.storage.journal.format import HEADER_BYTES
from danube.testing.simulated.clock import settle
from danube.testing.simulated.disk import Operation, SimDisk
from tests.unit.storage.journal_world import (
    FIRST_FILE,
    SECOND_FILE,
    Told,
    World,
    append,
    content,
    log_in,
    open_journal,
    sim_disk,
    store,
)

TOPIC = 5


async def test_failed_write_is_undone_and_its_offsets_go_to_the_next(world: World) -> None:
    journal = await world.open()
    log = log_in(journal, TOPIC, 1)
    await store(log, b"a")
    before = world.disk.contents()
    world.disk.fail(Operation.APPEND, error=errno.EIO)
    error = await append(log, b"lost").error()
    assert isinstance(error, StorageUnavailableError)
    assert FIRST_FILE in str(error)
    assert (world.disk.contents(), log.durable_end, journal.stopped) == (before, 1, None)
    assert (await store(log, b"b"), await content(log)) == ([1], [b"a", b"b"])


@pytest.mark.parametrize(
    ("error", "advice"), [(errno.EIO, "check the disk"), (errno.ENOSPC, "make room"), (errno.EDQUOT, "make room")]
)
async def test_a_write_that_failed_is_told_with_what_ends_it(world: World, error: int, advice: str) -> None:
    log = log_in(await world.open(), TOPIC, 1)
    world.disk.fail(Operation.APPEND, error=error)
    told = await append(log, b"lost").error()
    assert f"{os.strerror(error)}. Nothing was stored; {advice} and try again" in str(told)


async def test_all_who_were_in_a_failed_round_are_told(world: World) -> None:
    journal = await world.open()
    logs = [log_in(journal, topic_id, 1) for topic_id in range(1, 6)]
    world.disk.fail(Operation.APPEND)
    told = [append(log, b"x") for log in logs]
    assert {(await one.error()).code for one in told} == {"STORAGE_UNAVAILABLE"}
    assert [await store(log, b"y") for log in logs] == [[0]] * 5
    assert journal.stats.failed_rounds == 1


async def test_failed_round_is_gone_from_the_disk_after_a_power_cut(world: World) -> None:
    log = log_in(await world.open(), TOPIC, 1)
    await store(log, b"a")
    world.disk.fail(Operation.APPEND)
    await append(log, b"lost").error()
    await store(log, b"b")
    after = world.after(world.disk.power_cut())
    assert await content(log_in(await after.open(), TOPIC, 1)) == [b"a", b"b"]


async def test_undoing_that_cannot_be_synced_stops_the_journal(world: World) -> None:
    journal = await world.open()
    world.disk.fail(Operation.APPEND)
    world.disk.fail(Operation.SYNC)
    await append(log_in(journal, TOPIC, 1), b"lost").error()
    assert journal.stopped is not None


async def test_undoing_a_round_syncs_what_was_written_before_it() -> None:
    world = World(durability=Durability.OS)
    log = log_in(await world.open(), TOPIC, 1)
    await store(log, b"a")
    world.disk.fail(Operation.APPEND)
    await append(log, b"lost").error()
    await store(log, b"b")
    data = world.disk.contents()[FIRST_FILE]
    disk = sim_disk({FIRST_FILE: data})
    disk.flip_bit(FIRST_FILE, HEADER_BYTES + 60)
    with pytest.raises(DamagedDataError):
        await open_journal(disk, world.clock)
    await world.close()


async def test_full_disk_refuses_and_takes_appends_again_once_there_is_room(world: World) -> None:
    log = log_in(await world.open(), TOPIC, 1)
    await store(log, b"a")
    world.disk.capacity_bytes = sum(map(len, world.disk.contents().values())) + 100
    error = await append(log, bytes(1_000)).error()
    assert "No space left" in str(error)
    world.disk.capacity_bytes = None
    assert await store(log, b"b") == [1]
    assert await content(log_in(await world.reopen(), TOPIC, 1)) == [b"a", b"b"]


async def test_full_disk_is_logged_once_not_once_a_round(world: World, caplog: pytest.LogCaptureFixture) -> None:
    log = log_in(await world.open(), TOPIC, 1)
    world.disk.fail(Operation.APPEND, error=errno.ENOSPC, times=20)
    for _ in range(20):
        await append(log, b"x").error()
    await store(log, b"x")
    assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING"]


async def test_failed_sync_stops_the_journal_and_reads_go_on(world: World) -> None:
    journal = await world.open()
    log = log_in(journal, TOPIC, 1)
    heard = Told()
    log.on_durable(heard)
    await store(log, b"a")
    world.disk.fail(Operation.SYNC)
    error = await append(log, b"unknown").error()
    assert isinstance(error, StorageUnavailableError)
    assert journal.stopped is not None
    assert FIRST_FILE in journal.stopped
    assert "Input/output error" in journal.stopped
    assert (log.durable_end, heard.all, await content(log)) == (1, [1], [b"a"])
    log.close()
    assert await content(log) == [b"a"]
    with pytest.raises(StorageUnavailableError, match=FIRST_FILE):
        append(log, b"more")


async def test_stopped_journal_writes_nothing_more_not_even_on_closing(world: World) -> None:
    journal = await world.open()
    log = log_in(journal, TOPIC, 1)
    log.save_cursor(1, Cursor(1))
    world.disk.fail(Operation.SYNC)
    await append(log, b"unknown").error()
    before = world.disk.changes_done
    refused = Told()
    log.save_cursor(1, Cursor(2), refused)
    await world.clock.run_for(10)
    await journal.close()
    assert isinstance(refused.all[0], StorageUnavailableError)
    assert world.disk.changes_done == before


async def test_everyone_who_waits_is_told_when_the_journal_stops(world: World) -> None:
    journal = await world.open()
    log = log_in(journal, TOPIC, 1)
    world.writes.hold()
    world.disk.fail(Operation.SYNC)
    first = append(log, b"first")
    await settle()
    later, cursor = append(log, b"later"), Told()
    log.save_cursor(1, Cursor(1), cursor)
    log.save_cursor(2, Cursor(1))
    world.writes.release()
    assert {(await told.error()).code for told in (first, later, cursor)} == {"STORAGE_UNAVAILABLE"}
    assert (journal.stats.backlog_bytes, world.clock.next_timer_s()) == (0, None)


async def test_round_whose_sync_failed_is_out_of_sight_for_the_next_start(world: World) -> None:
    """Such bytes may be seen and yet never reach the disk: what is acknowledged behind them would be lost with them."""
    log = log_in(await world.open(), TOPIC, 1)
    await store(log, b"a")
    world.disk.fail(Operation.SYNC)
    await append(log, b"unknown").error()
    killed = world.after(world.disk.process_kill())
    log = log_in(await killed.open(), TOPIC, 1)
    assert await content(log) == [b"a"]
    await store(log, b"b")
    after = killed.after(killed.disk.power_cut())
    assert await content(log_in(await after.open(), TOPIC, 1)) == [b"a", b"b"]


async def test_failed_undo_stops_the_journal(world: World) -> None:
    journal = await world.open()
    log = log_in(journal, TOPIC, 1)
    world.disk.fail(Operation.APPEND, error=errno.ENOSPC)
    world.disk.fail(Operation.TRUNCATE)
    await append(log, b"x").error()
    assert journal.stopped is not None
    assert "No space left" in journal.stopped
    assert "undoing" in journal.stopped


async def test_after_a_stop_a_restart_goes_on_with_what_was_acknowledged(world: World) -> None:
    log = log_in(await world.open(), TOPIC, 1)
    await store(log, b"a", b"b")
    world.disk.fail(Operation.SYNC)
    await append(log, b"unknown").error()
    after = world.after(world.disk.power_cut())
    log = log_in(await after.open(), TOPIC, 1)
    found = await content(log)
    assert found in ([b"a", b"b"], [b"a", b"b", b"unknown"])
    assert await store(log, b"c") == [len(found)]


@pytest.mark.parametrize("operation", [Operation.CREATE, Operation.APPEND])
async def test_file_that_cannot_be_begun_is_taken_away_and_tried_again(operation: Operation) -> None:
    world = World(file_bytes_max=600)
    journal = await world.open()
    log = log_in(journal, TOPIC, 1)
    await store(log, bytes(300))
    world.disk.fail(operation, error=errno.ENOSPC, name=SECOND_FILE)
    assert SECOND_FILE in str(await append(log, bytes(300)).error())
    assert SECOND_FILE not in world.disk.contents()
    assert await store(log, bytes(300)) == [1]
    assert SECOND_FILE in world.disk.contents()
    after = world.after(world.disk.power_cut())
    assert log_in(await after.open(), TOPIC, 1).durable_end == 2
    await world.close()


@pytest.mark.parametrize("operation", [Operation.SYNC, Operation.SYNC_FOLDER])
async def test_sync_that_fails_for_a_new_file_stops_the_journal(operation: Operation) -> None:
    world = World(file_bytes_max=600)
    journal = await world.open()
    log = log_in(journal, TOPIC, 1)
    await store(log, bytes(300))
    world.disk.fail(operation, name=SECOND_FILE if operation is Operation.SYNC else "journal")
    await append(log, bytes(300)).error()
    assert journal.stopped is not None
    after = world.after(world.disk.power_cut())
    log = log_in(await after.open(), TOPIC, 1)
    assert await content(log) == [bytes(300)]
    assert await store(log, bytes(300)) == [1]
    await world.close()


@pytest.mark.parametrize("operation", [Operation.CREATE, Operation.SYNC_FOLDER])
async def test_a_new_file_that_finds_too_many_open_is_taken_away_and_tried_again(operation: Operation) -> None:
    """The folder is opened to be synced: when that fails, no sync has."""
    for seed in range(10):
        world = World(SimDisk(seed), file_bytes_max=600)
        log = log_in(await world.open(), TOPIC, 1)
        await store(log, bytes(300))
        name = SECOND_FILE if operation is Operation.CREATE else "journal"
        world.disk.fail(operation, error=errno.EMFILE, name=name)
        error = str(await append(log, bytes(300)).error())
        assert f"{SECOND_FILE} could not be created: Too many open files. Nothing was stored; have the system" in error
        assert SECOND_FILE not in world.disk.contents()
        assert await store(log, b"small", bytes(300)) == [1, 2]
        after = world.after(world.disk.power_cut())
        assert log_in(await after.open(), TOPIC, 1).durable_end == 3
        await world.close()


async def test_new_file_that_cannot_be_taken_away_stops_the_journal() -> None:
    world = World(file_bytes_max=600)
    journal = await world.open()
    log = log_in(journal, TOPIC, 1)
    await store(log, bytes(300))
    world.disk.fail(Operation.APPEND, error=errno.ENOSPC, name=SECOND_FILE)
    world.disk.fail(Operation.REMOVE)
    await append(log, bytes(300)).error()
    assert journal.stopped is not None
    assert SECOND_FILE in journal.stopped
    after = world.after(world.disk.power_cut())
    assert log_in(await after.open(), TOPIC, 1).durable_end == 1
    await world.close()


async def test_file_that_was_taken_away_does_not_come_back_to_accuse_the_one_before_it() -> None:
    for seed in range(30):
        world = World(SimDisk(seed), file_bytes_max=600)
        log = log_in(await world.open(), TOPIC, 1)
        await store(log, bytes(200))
        world.disk.fail(Operation.APPEND, error=errno.ENOSPC, name=SECOND_FILE)
        await append(log, bytes(300)).error()
        world.disk.stop_at(1)
        append(log, b"small")
        await settle()
        after = world.after(world.disk.power_cut())
        assert log_in(await after.open(), TOPIC, 1).durable_end in {1, 2}
        await world.close()


async def test_failed_interval_sync_stops_the_journal() -> None:
    world = World(durability=Durability.INTERVAL, sync_interval_s=0.5)
    journal = await world.open()
    await store(log_in(journal, TOPIC, 1), b"a")
    world.disk.fail(Operation.SYNC)
    await world.clock.run_for(0.5)
    assert journal.stopped is not None
    await world.close()


async def test_mark_that_finds_no_room_harms_nothing(world: World) -> None:
    journal = await world.open()
    log = log_in(journal, TOPIC, 1)
    await store(log, b"a")
    world.disk.capacity_bytes = sum(map(len, world.disk.contents().values()))
    await world.clock.run_for(1)
    world.disk.capacity_bytes = None
    assert (journal.stopped, await store(log, b"b")) == (None, [1])


async def test_fault_of_the_program_itself_stops_the_journal_and_tells_everyone(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    journal = await world.open()
    log = log_in(journal, TOPIC, 1)

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr("danube.storage.journal.commit.build_round", broken)
    assert isinstance(await append(log, b"x").error(), StorageUnavailableError)
    assert journal.stopped is not None
    await settle()
    assert "a fault of ours" in caplog.text


async def test_unreadable_file_is_said_and_only_the_read_fails(world: World) -> None:
    log = log_in(await world.open(), TOPIC, 1)
    await store(log, b"a")
    log.close()
    world.disk.fail(Operation.READ)
    with pytest.raises(StorageUnavailableError, match=FIRST_FILE):
        await log.read(0, 1_000)
    assert await content(log) == [b"a"]


async def test_what_waits_behind_a_failed_append_of_its_topic_fails_with_it(world: World) -> None:
    journal = await world.open()
    log, other = log_in(journal, TOPIC, 1), log_in(journal, 6, 1)
    world.writes.hold()
    first = append(log, b"1")
    await settle()
    second, elsewhere = append(log, b"2"), append(other, b"x")
    world.disk.fail(Operation.APPEND)
    world.writes.release()
    assert isinstance(await first.error(), StorageUnavailableError)
    assert isinstance(await second.error(), StorageUnavailableError)
    assert await elsewhere.offset() == 0
    assert (await store(log, b"1", b"2"), await content(log)) == ([0, 1], [b"1", b"2"])
    assert journal.stats.backlog_bytes == 0


async def test_a_torn_round_whose_undoing_failed_does_not_come_back_behind_a_later_one() -> None:
    """Its end was cut and the cut never synced: the next start has to cut there once more, though nothing is torn."""
    for seed in range(30):
        world = World(SimDisk(seed))
        journal = await world.open()
        await store(log_in(journal, TOPIC, 1), b"a", b"b")
        world.disk.fail(Operation.APPEND)
        world.disk.fail(Operation.SYNC, name=FIRST_FILE)
        await append(log_in(journal, TOPIC, 1), bytes(2_000)).error()
        again = world.after(world.disk.process_kill())
        journal = await again.open()
        await store(log_in(journal, TOPIC, 2), b"c")
        await journal.rotate()
        await store(log_in(journal, TOPIC, 2), b"d")
        after = again.after(again.disk.power_cut())
        assert await content(log_in(await after.open(), TOPIC, 3)) == [b"a", b"b", b"c", b"d"]
        await world.close()
