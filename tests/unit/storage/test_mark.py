"""An end of the journal that is missing is noticed, and one that was never promised is not missed."""

import asyncio
import errno
from typing import Any

import pytest

from danube.model.errors import DamagedDataError
from danube.model.limits.broker import BUSY_MARK_FILE_DELAY_S, IDLE_MARK_FILE_DELAY_S, MARK_RETRY_DELAY_S
from danube.storage.journal.folder import index_path
from danube.storage.journal.format import Mark, decode_mark, encode_mark
from danube.testing.simulated.clock import SimClock, settle
from danube.testing.simulated.disk import MachineOffError, Operation, SimDisk
from tests.unit.storage.journal_world import (
    FIRST_FILE,
    MARK,
    SECOND_FILE,
    World,
    append,
    content,
    log_in,
    open_journal,
    sim_disk,
    store,
)

TOPIC = 5
RECORDS = [b"%d" % number * 60 for number in range(6)]
FIRST_INDEX, SECOND_INDEX = index_path(1), index_path(2)


async def left_by(*several: bytes, **settings: Any) -> dict[str, bytes]:
    """What a journal leaves that was closed."""
    world = World(**settings)
    await store(log_in(await world.open(), TOPIC, 1), *several)
    await world.close()
    return world.disk.contents()


async def found_in(files: dict[str, bytes], **more: Any) -> list[bytes]:
    world = World(sim_disk(files))
    try:
        return await content(log_in(await world.open(**more), TOPIC, 2))
    finally:
        await world.close()


async def refusal_of(files: dict[str, bytes], **more: Any) -> str:
    disk = sim_disk(files)
    with pytest.raises(DamagedDataError) as refused:
        await open_journal(disk, SimClock(), **more)
    assert disk.contents() == files  # it is left as it was found
    return str(refused.value)


def mark_of(disk: SimDisk) -> Mark:
    mark = decode_mark(disk.contents()[MARK])
    assert mark is not None
    return mark


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :]


def without(files: dict[str, bytes], *names: str) -> dict[str, bytes]:
    return {name: data for name, data in files.items() if name not in names}


async def test_every_truncation_of_what_was_closed_is_refused_with_its_place() -> None:
    files = await left_by(*RECORDS, file_bytes_max=600)
    last = max(name for name in files if name.endswith(".journal"))
    for length in range(len(files[last])):
        assert f"{last} is damaged at byte" in await refusal_of({**files, last: files[last][:length]}), length


async def test_a_last_file_that_is_gone_is_named() -> None:
    files = await left_by(*RECORDS, file_bytes_max=600)
    last = max(name for name in files if name.endswith(".journal"))
    assert f"{last} is damaged at byte 0: the file is missing" in await refusal_of(without(files, last))
    journals = [name for name in files if name.endswith(".journal")]
    assert "journal/ is damaged: none of the journal's files" in await refusal_of(without(files, *journals))


async def test_a_journal_that_is_gone_altogether_is_not_begun_again() -> None:
    assert "journal/ is damaged: none of the journal's files" in await refusal_of({}, has_begun=True)
    disk = SimDisk()
    with pytest.raises(DamagedDataError, match=r"^journal/ is damaged: the folder is missing"):
        await open_journal(disk, SimClock(), has_begun=True)
    assert (disk.list(""), await found_in({})) == ([], [])


@pytest.mark.parametrize("left_bytes", [0, 1, 30])
async def test_a_first_file_that_is_emptied_with_its_mark_is_no_new_journal(left_bytes: int) -> None:
    files = await left_by(b"a")
    emptied = {**files, FIRST_FILE: files[FIRST_FILE][:left_bytes], MARK: b""}
    assert f"{FIRST_FILE} is damaged at byte 0: its header" in await refusal_of(emptied, has_begun=True)


async def test_what_was_acknowledged_behind_the_mark_may_be_torn(world: World) -> None:
    log = log_in(await world.open(), TOPIC, 1)
    await store(log, b"a")
    await world.clock.run_for(10)
    marked = mark_of(world.disk).synced_to
    await store(log, b"b")
    files = world.disk.contents()
    assert await found_in({**files, FIRST_FILE: files[FIRST_FILE][:-1]}) == [b"a"]
    await refusal_of({**files, FIRST_FILE: files[FIRST_FILE][: marked - 1]})


async def test_the_mark_is_moved_by_an_idle_journal_a_new_file_and_the_end_and_by_no_append(world: World) -> None:
    journal = await world.open()
    log, marks = log_in(journal, TOPIC, 1), [mark_of(world.disk)]
    for record in RECORDS:
        await store(log, record)
        await world.clock.run_for(0.4)
    assert mark_of(world.disk) == marks[0]
    await world.clock.run_for(10)
    marks.append(mark_of(world.disk))
    await store(log, *RECORDS)
    await journal.rotate()
    marks.append(mark_of(world.disk))
    await store(log, *RECORDS)
    end = journal.end_position
    await world.close()
    marks.append(mark_of(world.disk))
    assert [mark.sequence for mark in marks] == [1, 1, 2, 2]
    assert marks[0].synced_to < marks[1].synced_to < marks[2].synced_to < end < marks[3].synced_to


async def test_a_start_marks_what_it_found(world: World) -> None:
    await store(log_in(await world.open(), TOPIC, 1), *RECORDS)
    after = world.after(world.disk.process_kill())
    journal = await after.open()
    assert mark_of(after.disk).synced_to == journal.end_position


async def test_a_mark_that_is_not_what_was_written_costs_nothing_and_is_made_again() -> None:
    files = await left_by(*RECORDS)
    wrong = [files[MARK][:length] for length in range(len(files[MARK]))]
    wrong += [flipped(files[MARK], at) for at in range(len(files[MARK]))]
    for data in wrong:
        world = World(sim_disk({**files, MARK: data}))
        assert await content(log_in(await world.open(), TOPIC, 2)) == RECORDS
        assert world.disk.contents()[MARK] == files[MARK]
        await world.close()


async def test_a_mark_of_another_journal_is_refused() -> None:
    files = await left_by(*RECORDS)
    mark = decode_mark(files[MARK])
    assert mark is not None
    other = encode_mark(Mark(mark.journal_id + 1, mark.sequence, mark.synced_to))
    assert "another journal" in await refusal_of({**files, MARK: other})


async def test_an_index_tells_that_a_file_is_missing_behind_it(world: World) -> None:
    """The mark of the new file could not be written, but that of the start is there."""
    journal = await world.open()
    world.disk.fail(Operation.RENAME, name=MARK, times=99)
    for _ in range(2):
        await store(log_in(journal, TOPIC, 1), b"a")
        await journal.rotate()
    await store(log_in(journal, TOPIC, 1), b"b")
    files = world.disk.contents()
    assert {FIRST_INDEX, SECOND_INDEX} < set(files)
    third = max(name for name in files if name.endswith(".journal"))
    assert f"{third} is damaged at byte 0: the file is missing" in await refusal_of(without(files, third))
    unmarked = without(files, third, SECOND_FILE, MARK)
    assert f"{SECOND_FILE} is damaged at byte 0: the file is missing" in await refusal_of(unmarked)


async def test_a_file_that_is_marked_stays_though_nothing_is_in_it_yet(world: World) -> None:
    journal = await world.open()
    await store(log_in(journal, TOPIC, 1), b"a")
    await journal.rotate()
    journal = await world.reopen()
    assert [file.sequence for file in journal.closed_files()] == [1]
    assert await content(log_in(journal, TOPIC, 2)) == [b"a"]


@pytest.mark.parametrize("operation", [Operation.CREATE, Operation.APPEND, Operation.SYNC, Operation.RENAME])
async def test_a_mark_that_cannot_be_written_stops_nothing(world: World, operation: Operation) -> None:
    journal = await world.open()
    log, before = log_in(journal, TOPIC, 1), mark_of(world.disk)
    world.disk.fail(operation, name=f"{MARK}*", times=99)
    await store(log, b"a")
    await world.clock.run_for(10)
    await journal.rotate()
    await store(log, b"b")
    assert (journal.stopped, mark_of(world.disk)) == (None, before)
    assert await content(log_in(await world.reopen(), TOPIC, 2)) == [b"a", b"b"]


async def test_a_mark_file_that_could_not_be_written_once_is_written_later_by_an_idle_journal(world: World) -> None:
    journal = await world.open()
    await store(log_in(journal, TOPIC, 1), b"a")
    world.disk.fail(Operation.APPEND, name=f"{MARK}*")
    await world.clock.run_for(2)
    assert mark_of(world.disk).synced_to < journal.end_position
    await world.clock.run_for(MARK_RETRY_DELAY_S)
    assert mark_of(world.disk).synced_to == journal.end_position
    assert world.clock.next_timer_s() is None


async def test_a_mark_file_that_a_start_could_not_write_is_written_later_by_an_idle_journal(world: World) -> None:
    await store(log_in(await world.open(), TOPIC, 1), b"a")
    await world.clock.run_for(IDLE_MARK_FILE_DELAY_S / 2)
    after = world.after(world.disk.process_kill())
    after.disk.fail(Operation.APPEND, name=f"{MARK}*")
    journal = await after.open()
    await after.clock.run_for(MARK_RETRY_DELAY_S)
    assert mark_of(after.disk).synced_to == journal.end_position


async def test_a_mark_file_that_a_new_file_could_not_write_is_written_later_by_an_idle_journal(world: World) -> None:
    journal = await world.open()
    await store(log_in(journal, TOPIC, 1), b"a")
    await world.clock.run_for(IDLE_MARK_FILE_DELAY_S * 2)
    world.disk.fail(Operation.APPEND, name=f"{MARK}*")
    await journal.rotate()
    await world.clock.run_for(MARK_RETRY_DELAY_S)
    assert mark_of(world.disk).sequence == 2


async def test_a_mark_round_that_could_not_be_written_once_is_written_later_by_an_idle_journal(world: World) -> None:
    """So damage of the last round that was acknowledged is not taken for a torn end."""
    log = log_in(await world.open(), TOPIC, 1)
    await store(log, b"a", b"b")
    world.disk.fail(Operation.APPEND, name=FIRST_FILE, error=errno.ENOSPC)
    world.disk.fail(Operation.APPEND, name=f"{MARK}*", times=99)
    length = len(world.disk.contents()[FIRST_FILE])
    await world.clock.run_for(2 + MARK_RETRY_DELAY_S)
    disk = world.disk.process_kill()
    disk.flip_bit(FIRST_FILE, length - 3)
    with pytest.raises(DamagedDataError, match="though byte"):
        await open_journal(disk, SimClock())


async def test_marks_on_a_disk_that_stays_full_are_tried_seldom_and_said_once(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    journal = await world.open()
    await store(log_in(journal, TOPIC, 1), b"a")
    world.disk.fail(Operation.APPEND, error=errno.ENOSPC, times=999)
    syncs = journal.stats.syncs
    await world.clock.run_for(20 * MARK_RETRY_DELAY_S)
    assert 10 < journal.stats.syncs - syncs <= 21
    warnings = [record.message for record in caplog.records]
    assert (len(warnings), sum(f"{MARK} could not be written" in one for one in warnings)) == (2, 1)


async def test_a_first_start_that_was_interrupted_anywhere_starts_again() -> None:
    for step in range(1, 30):
        for seed in range(4):
            disk = SimDisk(seed)
            disk.stop_at(step)
            world = World(disk)
            try:
                await world.open()
            except MachineOffError:
                after = world.after(disk.power_cut())
                assert await append(log_in(await after.open(), TOPIC, 1), b"a").offset() == 0
                await world.close()
            else:
                disk.clear_faults()
                await world.close()
                return
    raise AssertionError("the start never came to its end")


async def test_crashes_around_a_new_file_lose_and_miss_nothing() -> None:
    """A mark that speaks of a file is written when the file is durable, and no index stays beside the last one."""
    for step in range(1, 20):
        for seed in range(6):
            disk = SimDisk(seed)
            world = World(disk)
            journal = await world.open()
            await store(log_in(journal, TOPIC, 1), b"a")
            disk.stop_at(step)
            rotating = asyncio.create_task(journal.rotate())
            await settle()
            rotating.cancel()
            after = world.after(disk.power_cut() if seed % 2 else disk.process_kill())
            await after.open()
            again = after.after(after.disk.power_cut())
            log = log_in(await again.open(), TOPIC, 2)
            assert await content(log) == [b"a"], (step, seed)
            await store(log, b"b")
            await world.close()


async def test_a_journal_that_is_never_idle_is_marked_all_the_same_and_not_with_each_message() -> None:
    world = World()
    log = log_in(await world.open(), TOPIC, 1)
    pause_s, marks = IDLE_MARK_FILE_DELAY_S * 0.9, set()
    turns = round(3.5 * BUSY_MARK_FILE_DELAY_S / pause_s)
    for number in range(turns):
        await store(log, b"%d" % number)
        await world.clock.run_for(pause_s)
        marks.add(mark_of(world.disk).synced_to)
    assert 3 <= len(marks) <= 5
    assert max(marks) > len(world.disk.contents()[FIRST_FILE]) * 0.6
    await world.close()


async def test_a_file_that_a_mark_names_stays_also_when_the_mark_cannot_be_read_for_once(world: World) -> None:
    """Or it would be missed by the next start, if none of the marks in between could be written."""
    journal = await world.open()
    await store(log_in(journal, TOPIC, 1), b"a")
    await journal.rotate()
    after = world.after(world.disk.process_kill())
    after.disk.fail(Operation.READ, name=MARK)
    after.disk.fail(Operation.RENAME, name=MARK, times=99)
    await after.open()
    again = after.after(after.disk.process_kill())
    assert await content(log_in(await again.open(), TOPIC, 2)) == [b"a"]


async def test_a_mark_that_cannot_be_read_says_nothing_and_the_journal_opens(caplog: pytest.LogCaptureFixture) -> None:
    disk = sim_disk(await left_by(*RECORDS))
    disk.fail(Operation.READ, name=MARK)
    world = World(disk)
    assert await content(log_in(await world.open(), TOPIC, 2)) == RECORDS
    await world.close()
    assert any(f"{MARK} could not be read" in record.message for record in caplog.records)
