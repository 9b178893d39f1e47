"""Opening after crashes and damage: torn ends are cut, damage is refused, nothing that was synced is lost."""

import errno
from contextlib import suppress
from typing import Any

import pytest

from danube.model.errors import DamagedDataError, DataFolderError, StorageError
from danube.model.plans.durability import Durability
from danube.runtime.checksum import with_crc
from danube.storage.batches.batch import HEADER_BYTES as BATCH_HEADER_BYTES
from danube.storage.batches.envelope import ENVELOPE_BYTES
from danube.storage.journal.format import HEADER_BYTES, RoundHeader, decode_round_header, encode_round_header, file_name
from danube.testing.simulated.clock import SimClock
from danube.testing.simulated.disk import MachineOffError, Operation, SimDisk
from tests.unit.storage.journal_world import (
    BROKER,
    FIRST_FILE,
    SECOND_FILE,
    World,
    append,
    content,
    journal_files,
    log_in,
    open_journal,
    sim_disk,
    store,
)

TOPIC = 5
RECORDS = [b"zero", b"one", b"two", b"three"]


async def written(*several: bytes, close: bool = True, **settings: Any) -> dict[str, bytes]:
    """The files of a journal with one record a round."""
    world = World(**settings)
    journal = await world.open()
    await store(log_in(journal, TOPIC, 1), *several)
    files = world.disk.contents()
    await world.close()
    return world.disk.contents() if close else files


async def found_on(disk: SimDisk) -> list[bytes]:
    """What opening it again gives; the journal must then take appends, and give the same at the next opening."""
    world = World(disk)
    try:
        log = log_in(await world.open(), TOPIC, 1)
        found = await content(log)
        assert await store(log, b"next") == [len(found)]
        assert await content(log_in(await world.reopen(), TOPIC, 1)) == [*found, b"next"]
    finally:
        await world.close()
    return found


def without_indexes(files: dict[str, bytes]) -> dict[str, bytes]:
    """What a broker of an earlier version leaves."""
    return {name: data for name, data in files.items() if name.endswith(".journal")}


def round_starts(data: bytes) -> list[int]:
    """Where the rounds of a file begin, and its end."""
    starts = [HEADER_BYTES]
    while starts[-1] < len(data):
        length = int.from_bytes(data[starts[-1] + 40 : starts[-1] + 44], "little")
        starts.append(starts[-1] + HEADER_BYTES + length)
    return starts


async def test_every_truncation_of_a_journal_without_a_mark_recovers_to_the_whole_rounds_before_it() -> None:
    """An earlier version left it; what has a mark is in `test_mark.py`."""
    data = (await written(*RECORDS[:3]))[FIRST_FILE]
    starts = round_starts(data)
    for length in range(len(data)):
        whole = sum(end <= length for end in starts[1:])
        assert await found_on(sim_disk({FIRST_FILE: data[:length]})) == RECORDS[:whole], length


async def test_no_flipped_bit_goes_unseen_where_the_mark_covers_it() -> None:
    data = (await written(b"a", b"b"))[FIRST_FILE]
    mark = round_starts(data)[-2]
    for bit in range(mark * 8):
        disk = sim_disk({FIRST_FILE: data})
        disk.flip_bit(FIRST_FILE, bit // 8, bit % 8)
        with pytest.raises((DamagedDataError, DataFolderError)):
            await open_journal(disk, SimClock())


async def test_flipped_bits_in_the_mark_itself_cost_nothing() -> None:
    data = (await written(b"a", b"b"))[FIRST_FILE]
    for bit in range(round_starts(data)[-2] * 8, len(data) * 8, 7):
        disk = sim_disk({FIRST_FILE: data})
        disk.flip_bit(FIRST_FILE, bit // 8, bit % 8)
        assert await found_on(disk) == [b"a", b"b"]


async def test_last_round_without_a_mark_is_torn_when_it_is_not_sound() -> None:
    data = (await written(*RECORDS, close=False))[FIRST_FILE]
    last = round_starts(data)[-2]
    disk = sim_disk({FIRST_FILE: data})
    disk.flip_bit(FIRST_FILE, last + 70)
    assert await found_on(disk) == RECORDS[:3]


async def test_round_before_the_last_is_damaged_when_it_is_not_sound() -> None:
    data = (await written(*RECORDS, close=False))[FIRST_FILE]
    third = round_starts(data)[2]
    disk = sim_disk({FIRST_FILE: data})
    disk.flip_bit(FIRST_FILE, third + 70)
    with pytest.raises(DamagedDataError, match=rf"{FIRST_FILE} is damaged at byte {third}.*backup"):
        await open_journal(disk, SimClock())


async def test_idle_journal_marks_its_last_round(world: World) -> None:
    journal = await world.open()
    await store(log_in(journal, TOPIC, 1), *RECORDS)
    rounds = len(round_starts(world.disk.contents()[FIRST_FILE]))
    await world.clock.run_for(journal_delay_s(world))
    data = world.disk.contents()[FIRST_FILE]
    assert len(round_starts(data)) == rounds + 1
    disk = sim_disk({FIRST_FILE: data})
    disk.flip_bit(FIRST_FILE, round_starts(data)[-3] + 70)
    with pytest.raises(DamagedDataError):
        await open_journal(disk, SimClock())


async def test_one_mark_is_enough(world: World) -> None:
    journal = await world.open()
    await store(log_in(journal, TOPIC, 1), b"a")
    await world.clock.run_for(10)
    size = journal.stats.size_bytes
    await world.clock.run_for(10)
    for _ in range(3):
        journal = await world.reopen()
        await world.clock.run_for(10)
    assert journal.stats.size_bytes == size


async def test_busy_journal_writes_no_marks(world: World) -> None:
    journal = await world.open()
    log = log_in(journal, TOPIC, 1)
    for _ in range(50):
        await store(log, b"x")
        await world.clock.run_for(journal_delay_s(world) / 5)
    assert len(round_starts(world.disk.contents()[FIRST_FILE])) == 51


async def test_recovered_round_without_a_mark_is_marked_when_idle(world: World) -> None:
    await store(log_in(await world.open(), TOPIC, 1), b"a")
    after = world.after(world.disk.process_kill())
    journal = await after.open()
    size = journal.stats.size_bytes
    await after.clock.run_for(10)
    assert journal.stats.size_bytes == size + HEADER_BYTES


async def test_unsynced_rounds_are_cut_from_the_first_that_is_not_sound() -> None:
    data = (await written(*RECORDS, close=False, durability=Durability.OS))[FIRST_FILE]
    disk = sim_disk({FIRST_FILE: data})
    disk.flip_bit(FIRST_FILE, round_starts(data)[1] + 70)
    assert await found_on(disk) == RECORDS[:1]


async def test_damage_in_a_file_that_is_not_the_last_is_refused() -> None:
    files = without_indexes(await written(*[bytes(200)] * 4, file_bytes_max=600))
    for position in range(0, len(files[FIRST_FILE]), 13):
        disk = sim_disk(files)
        disk.flip_bit(FIRST_FILE, position, position % 8)
        with pytest.raises(StorageError):
            await open_journal(disk, SimClock())


async def test_damage_in_a_file_that_has_an_index_is_refused_when_it_is_read() -> None:
    files = await written(*[bytes(200)] * 4, file_bytes_max=600)
    for position in range(HEADER_BYTES * 2, len(files[FIRST_FILE]), 13):
        disk = sim_disk(files)
        disk.flip_bit(FIRST_FILE, position, position % 8)
        world = World(disk)
        log = log_in(await world.open(), TOPIC, 1)
        with suppress(DamagedDataError):
            assert await content(log) == [bytes(200)] * 4, position
        await world.close()


async def test_missing_shortened_and_swapped_files_are_refused() -> None:
    files = await written(*[bytes(200)] * 6, file_bytes_max=600)
    assert len(files) >= 3
    first, second = files[FIRST_FILE], files[SECOND_FILE]
    for wrong in (
        {**files, FIRST_FILE: first[:-1]},
        {**files, FIRST_FILE: first[: round_starts(first)[-2]]},
        {FIRST_FILE: first[: round_starts(first)[-2]], SECOND_FILE: second[:HEADER_BYTES]},
        {**files, FIRST_FILE: first + b"x"},
        {**files, FIRST_FILE: b""},
        {**files, FIRST_FILE: second, SECOND_FILE: first},
        {name: data for name, data in files.items() if name != SECOND_FILE},
        {name: data for name, data in files.items() if name != FIRST_FILE},
    ):
        with pytest.raises(DamagedDataError):
            await open_journal(sim_disk(wrong), SimClock())


@pytest.mark.parametrize("start", [b"", b"DnJf", bytes(52), b"\xff" * 52])
async def test_file_that_was_only_begun_is_made_anew(start: bytes) -> None:
    assert await found_on(sim_disk({FIRST_FILE: start})) == []
    files = await written(*RECORDS)
    assert await found_on(sim_disk({**files, SECOND_FILE: start})) == RECORDS


async def test_torn_end_before_a_file_that_was_only_begun_is_damage() -> None:
    data = (await written(*RECORDS, close=False))[FIRST_FILE]
    with pytest.raises(DamagedDataError):
        await open_journal(sim_disk({FIRST_FILE: data[:-1], SECOND_FILE: b""}), SimClock())


async def test_file_of_a_newer_format_is_left_alone() -> None:
    data = (await written(*RECORDS))[FIRST_FILE]
    newer = data[:4] + b"\x02" + data[5:]
    disk = sim_disk({FIRST_FILE: newer})
    with pytest.raises(DataFolderError, match="format 2; this one reads 1"):
        await open_journal(disk, SimClock())
    assert disk.contents() == {FIRST_FILE: newer}


async def test_journal_of_another_broker_is_refused() -> None:
    disk = sim_disk(await written(*RECORDS))
    with pytest.raises(DataFolderError, match=f"broker {BROKER}"):
        await open_journal(disk, SimClock(), broker_id=BROKER + 1)


async def test_other_files_in_the_folder_do_not_matter() -> None:
    files = await written(*RECORDS)
    assert (
        await found_on(sim_disk({**files, "journal/README": b"hello", "journal/0000000009.journal.bak": b""}))
        == RECORDS
    )


async def test_payload_cannot_pose_as_a_round_that_claims_a_sync() -> None:
    """Not even one that knows the journal's id, or the place where it will stand; nobody is told the id."""
    before = (await written(b"a", close=False))[FIRST_FILE]
    journal_id = int.from_bytes(before[8:16], "little")
    payload_at = len(before) + HEADER_BYTES + ENVELOPE_BYTES + BATCH_HEADER_BYTES + 4
    for right_id, place in ((journal_id, 77), (4_711, payload_at)):
        claim = encode_round_header(RoundHeader(3, place, 10**6, right_id, 0, 0))
        data = (await written(b"a", claim, close=False))[FIRST_FILE]
        assert data[payload_at : payload_at + len(claim)] == claim
        disk = sim_disk({FIRST_FILE: data})
        disk.flip_bit(FIRST_FILE, round_starts(data)[1] + 60)
        assert await found_on(disk) == [b"a"]


@pytest.mark.parametrize("change", [{"number": 3}, {"number": 1}, {"envelopes": 2}, {"envelopes": 0}])
async def test_round_out_of_turn_or_with_a_wrong_count_is_not_sound(change: dict[str, int]) -> None:
    data = (await written(b"a", b"b", close=False))[FIRST_FILE]
    last = round_starts(data)[1]
    header = decode_round_header(data, last)
    assert header is not None
    wrong = encode_round_header(header._replace(**change))
    disk = sim_disk({FIRST_FILE: data[:last] + wrong + data[last + HEADER_BYTES :]})
    assert await found_on(disk) == [b"a"]


async def test_later_claim_is_found_far_behind_the_damage() -> None:
    data = (await written(b"a", bytes(3_000_000), b"b", close=False))[FIRST_FILE]
    disk = sim_disk({FIRST_FILE: data})
    disk.flip_bit(FIRST_FILE, round_starts(data)[1] + 60)
    with pytest.raises(DamagedDataError):
        await open_journal(disk, SimClock())


async def test_gap_in_the_offsets_of_a_topic_is_damage() -> None:
    data = (await written(b"a", close=False))[FIRST_FILE]
    start = HEADER_BYTES * 2
    envelope = bytearray(data[start : start + ENVELOPE_BYTES - 4])
    envelope[24:32] = (1).to_bytes(8, "little")
    changed = data[:start] + with_crc(bytes(envelope)) + data[start + ENVELOPE_BYTES :]
    with pytest.raises(DamagedDataError, match=f"topic {TOPIC}"):
        await open_journal(sim_disk({FIRST_FILE: changed}), SimClock())


async def test_torn_end_is_cut_and_synced_before_anything_is_appended() -> None:
    data = (await written(*RECORDS, close=False))[FIRST_FILE]
    disk = sim_disk({FIRST_FILE: data[:-1]})
    world = World(disk)
    await world.open()
    assert journal_files(disk.power_cut()) == {FIRST_FILE: data[: round_starts(data)[-2]]}
    await world.close()


async def test_what_was_read_is_synced_before_it_is_shown(world: World) -> None:
    log = log_in(await world.open(), TOPIC, 1)
    await store(log, b"a")
    world.disk.fail(Operation.SYNC)
    await append(log, b"unknown").error()
    killed = world.after(world.disk.process_kill())
    shown = await content(log_in(await killed.open(), TOPIC, 1))
    after = killed.after(killed.disk.power_cut())
    found = await content(log_in(await after.open(), TOPIC, 1))
    assert found == shown


async def test_disk_that_fails_while_opening_is_named() -> None:
    disk = sim_disk(await written(*RECORDS))
    disk.fail(Operation.READ, name=FIRST_FILE)
    with pytest.raises(DataFolderError, match="Input/output error"):
        await open_journal(disk, SimClock())


async def test_a_file_that_may_not_be_read_is_told_by_its_name_and_as_what_it_is() -> None:
    disk = sim_disk(await written(*RECORDS))
    disk.fail(Operation.READ, name=FIRST_FILE, error=errno.EACCES)
    with pytest.raises(DataFolderError) as refused:
        await open_journal(disk, SimClock())
    expected = f"the journal cannot be opened: {FIRST_FILE}: Permission denied. Check its owner and permissions"
    assert str(refused.value) == expected


async def test_damage_met_by_a_later_read_is_refused_with_its_place(world: World) -> None:
    log = log_in(await world.open(), TOPIC, 1)
    await store(log, *RECORDS)
    log.close()
    last = round_starts(world.disk.contents()[FIRST_FILE])[-2] + HEADER_BYTES
    world.disk.flip_bit(FIRST_FILE, last + 90)
    with pytest.raises(DamagedDataError, match=f"{FIRST_FILE} is damaged at byte {last}"):
        await log.read(3, 1_000)
    assert len(await log.read(0, 1)) == 1


def journal_delay_s(world: World) -> float:
    return world.settings.idle_mark_delay_s


async def test_power_cut_at_every_change_loses_nothing_that_was_acknowledged() -> None:
    for cut in range(1, 200):
        for seed in range(3):
            disk = SimDisk(seed)
            disk.stop_at(cut)
            acknowledged, ended = await publish_until_off(disk)
            found = await found_after_crashes(disk.power_cut(), seed)
            assert found[: len(acknowledged)] == acknowledged, (cut, seed)
            assert found == [b"%d" % n * 40 for n in range(len(found))], (cut, seed)
        if ended:
            return
    raise AssertionError("the work never came to its end")


async def publish_until_off(disk: SimDisk) -> tuple[list[bytes], bool]:
    """Publish over several files; answers what was acknowledged, and whether it came to its end."""
    world = World(disk, file_bytes_max=700)
    acknowledged: list[bytes] = []
    try:
        log = log_in(await world.open(), TOPIC, 1)
        for number in range(12):
            record = b"%d" % number * 40
            told = append(log, record)
            await world.clock.run_for(0.01 if number % 4 else 1.0)
            if not told.all:
                return acknowledged, False
            acknowledged.append(record)
        await world.close()
    except MachineOffError:
        return acknowledged, False
    finally:
        await world.close()
    return acknowledged, not disk.is_off


async def found_after_crashes(disk: SimDisk, seed: int) -> list[bytes]:
    """Open it while the power goes again and again, then in peace."""
    for cut in range(1, 3):
        disk.stop_at(cut + seed)
        world = World(disk)
        try:
            await world.open()
        except MachineOffError:
            disk = disk.power_cut()
        else:
            disk.clear_faults()
            await world.close()
    world = World(disk)
    try:
        return await content(log_in(await world.open(), TOPIC, 1))
    finally:
        await world.close()


async def test_kill_at_every_change_and_a_power_cut_later_lose_nothing_that_was_acknowledged() -> None:
    """The next start works on what the killed one wrote and had not synced."""
    for cut in range(1, 200):
        disk = SimDisk(cut)
        disk.stop_at(cut)
        acknowledged, ended = await publish_until_off(disk)
        world = World(disk.process_kill())
        log = log_in(await world.open(), TOPIC, 1)
        shown = await content(log)
        await store(log, b"after")
        later = world.after(world.disk.power_cut())
        assert await content(log_in(await later.open(), TOPIC, 1)) == [*shown, b"after"], cut
        assert shown[: len(acknowledged)] == acknowledged, cut
        await world.close()
        if ended:
            return
    raise AssertionError("the work never came to its end")


async def test_rotation_syncs_the_old_file_even_when_acknowledgements_do_not_wait_for_it() -> None:
    for seed in range(10):
        world = World(SimDisk(seed), durability=Durability.OS, file_bytes_max=600, idle_mark_delay_s=1_000)
        log = log_in(await world.open(), TOPIC, 1)
        await store(log, *[bytes(200)] * 3)
        assert SECOND_FILE in world.disk.contents()
        after = world.after(world.disk.power_cut())
        assert len(await content(log_in(await after.open(), TOPIC, 1))) >= 1
        await world.close()


async def test_names_of_files_sort_as_their_sequences() -> None:
    assert [file_name(sequence) for sequence in (1, 10)] == ["0000000001.journal", "0000000010.journal"]
