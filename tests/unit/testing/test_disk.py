"""How the simulated disk misbehaves; what it does when it behaves is in tests/contracts/test_disk.py."""

import errno
from collections.abc import Callable, Iterator

import pytest

from danube.testing.simulated.disk import MachineOffError, Operation, SimDisk, SimFile

SEEDS = range(300)


def put(disk: SimDisk, name: str, *, synced: bytes = b"", unsynced: bytes = b"") -> None:
    """A file whose entry and first bytes are synced."""
    file = disk.create(name)
    file.append([synced])
    file.sync()
    disk.sync_folder(name.rpartition("/")[0])
    file.append([unsynced])
    file.close()


def after_power_cuts(prepare: Callable[[SimDisk], None]) -> Iterator[dict[str, bytes]]:
    """What is left on the disk after a power cut, for every seed."""
    for seed in SEEDS:
        disk = SimDisk(seed)
        prepare(disk)
        yield disk.power_cut().contents()


# Power cuts


def test_what_was_synced_survives_every_power_cut() -> None:
    for left in after_power_cuts(lambda disk: put(disk, "a", synced=b"s" * 700, unsynced=b"u" * 3_000)):
        assert left["a"][:700] == b"s" * 700


def test_an_unsynced_append_is_kept_dropped_or_torn_at_a_sector() -> None:
    seen = {
        left["a"] for left in after_power_cuts(lambda disk: put(disk, "a", synced=b"s" * 100, unsynced=b"u" * 1_000))
    }
    pieces = {data[100:512] + b"|" + data[512:1_024] + b"|" + data[1_024:] for data in seen}
    whole = [b"u" * 412, b"u" * 512, b"u" * 76]
    assert b"|".join(whole) in pieces
    assert b"||" in pieces
    assert b"|".join([whole[0], b"", b""]) in pieces
    assert b"|".join([b"\0" * 412, whole[1], whole[2]]) in pieces
    for data in pieces:
        for piece in data.split(b"|"):
            assert set(piece) <= {ord("u")} or set(piece) == {0}


def test_a_later_unsynced_write_may_survive_an_earlier_one() -> None:
    def prepare(disk: SimDisk) -> None:
        put(disk, "a")
        file = disk.open_append("a")
        file.append([b"1" * 10])
        file.append([b"2" * 10])

    assert b"\0" * 10 + b"2" * 10 in {left["a"] for left in after_power_cuts(prepare)}


def test_an_unsynced_truncate_may_not_have_happened() -> None:
    def prepare(disk: SimDisk) -> None:
        put(disk, "a", synced=b"0123456789")
        file = disk.open_append("a")
        file.truncate(4)
        file.append([b"x"])

    assert {left["a"] for left in after_power_cuts(prepare)} == {
        b"0123456789",
        b"0123",
        b"0123x",
        b"0123x56789",
        b"0123\0",
    }


def test_the_length_of_a_lost_end_may_survive_as_zeros() -> None:
    seen = {left["a"] for left in after_power_cuts(lambda disk: put(disk, "a", synced=b"s", unsynced=b"u" * 20))}
    assert any(data.startswith(b"s\0\0") for data in seen)


def test_unsynced_entries_may_or_may_not_be_there() -> None:
    def prepare(disk: SimDisk) -> None:
        put(disk, "old")
        disk.remove("old")
        disk.create("new").sync()

    assert {tuple(left) for left in after_power_cuts(prepare)} == {(), ("old",), ("new",), ("new", "old")}


def test_synced_entries_and_made_folders_survive() -> None:
    def prepare(disk: SimDisk) -> None:
        disk.make_folder("f/g")
        put(disk, "f/g/a", synced=b"1")
        put(disk, "f/gone")
        disk.remove("f/gone")
        disk.sync_folder("f")

    assert all(left == {"f/g/a": b"1"} for left in after_power_cuts(prepare))


def test_a_folder_whose_entry_is_not_synced_may_be_lost_with_all_that_is_in_it() -> None:
    def prepare(disk: SimDisk) -> None:
        disk.fail(Operation.SYNC_FOLDER, name="")
        with pytest.raises(OSError):
            disk.make_folder("f")
        put(disk, "f/a", synced=b"1")

    assert {tuple(left) for left in after_power_cuts(prepare)} == {(), ("f/a",)}


def test_a_folder_that_is_made_again_survives() -> None:
    def prepare(disk: SimDisk) -> None:
        disk.fail(Operation.SYNC_FOLDER, name="")
        with pytest.raises(OSError):
            disk.make_folder("f")
        disk.make_folder("f/g")
        put(disk, "f/g/a", synced=b"1")

    assert all(left == {"f/g/a": b"1"} for left in after_power_cuts(prepare))


def test_a_removed_folder_may_come_back_as_it_was_until_that_is_synced() -> None:
    def prepare(disk: SimDisk) -> None:
        disk.make_folder("f")
        put(disk, "f/a", synced=b"1")
        disk.remove("f/a")
        disk.fail(Operation.SYNC_FOLDER, name="")
        with pytest.raises(OSError):
            disk.remove_folder("f")

    assert {tuple(left) for left in after_power_cuts(prepare)} == {(), ("f/a",)}


def test_a_replacement_cut_off_anywhere_leaves_the_old_or_the_new_content() -> None:
    seen = set[bytes]()
    for seed in SEEDS:
        disk = SimDisk(seed)
        put(disk, "a", synced=b"old")
        disk.stop_at(seed % 5 + 1)
        with pytest.raises(MachineOffError):
            disk.replace_file("a", b"new")
        seen.add(disk.power_cut().contents()["a"])
    assert seen == {b"old", b"new"}


def test_a_finished_replacement_survives() -> None:
    def prepare(disk: SimDisk) -> None:
        put(disk, "a", synced=b"old")
        disk.replace_file("a", b"new")

    assert all(left == {"a": b"new"} for left in after_power_cuts(prepare))


def test_the_same_seed_loses_the_same_bytes() -> None:
    def prepare(disk: SimDisk) -> None:
        put(disk, "a", synced=b"s" * 100, unsynced=b"u" * 5_000)
        put(disk, "b", unsynced=b"u" * 5_000)

    assert list(after_power_cuts(prepare)) == list(after_power_cuts(prepare))


# Kills


def test_a_kill_keeps_what_was_written_and_drops_locks() -> None:
    disk = SimDisk()
    disk.lock("lock")
    put(disk, "a", synced=b"s", unsynced=b"u")
    disk = disk.process_kill()
    disk.lock("lock").release()
    assert disk.contents() == {"a": b"su", "lock": b""}


def test_what_a_killed_process_left_unsynced_a_power_cut_still_takes() -> None:
    left = list[bytes]()
    for seed in SEEDS:
        disk = SimDisk(seed)
        put(disk, "a", synced=b"s", unsynced=b"u")
        left.append(disk.process_kill().power_cut().contents()["a"])
    assert {b"s", b"su"} <= set(left)


def test_after_the_end_nothing_can_be_done_to_what_is_left() -> None:
    disk = SimDisk()
    lock = disk.lock("lock")
    file = disk.create("a")
    disk.process_kill()
    for call in (lambda: file.append([b"x"]), file.sync, file.size, lambda: disk.list(""), lambda: disk.exists("a")):
        with pytest.raises(MachineOffError):
            call()
    file.close()
    lock.release()


def test_a_life_ends_within_the_change_that_was_named() -> None:
    lengths = set[int]()
    for seed in SEEDS:
        disk = SimDisk(seed)
        file = disk.create("a")
        disk.stop_at(2)
        file.append([b"01"])
        with pytest.raises(MachineOffError):
            file.append([b"23456789"])
        assert disk.is_off
        lengths.add(len(disk.process_kill().contents()["a"]))
    assert lengths == set(range(2, 11))


# Faults


def test_the_named_call_fails_and_no_other() -> None:
    disk = SimDisk()
    first, second = disk.create("x-1"), disk.create("y-1")
    disk.fail(Operation.READ, 2, name="y-*", times=2)
    second.read(0, 1)
    for _ in range(2):
        first.read(0, 1)
        with pytest.raises(OSError, match="Input/output error") as caught:
            second.read(0, 1)
        assert caught.value.errno == errno.EIO
    second.read(0, 1)


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
def test_a_failed_append_may_have_written_any_part(error: int) -> None:
    lengths = set[int]()
    for seed in SEEDS:
        disk = SimDisk(seed)
        file = disk.create("a")
        disk.fail(Operation.APPEND, error=error)
        with pytest.raises(OSError) as caught:
            file.append([b"0123"])
        assert caught.value.errno == error
        lengths.add(file.size())
    assert lengths == set(range(5))


def test_a_failed_truncate_has_not_happened() -> None:
    disk = SimDisk()
    put(disk, "a", synced=b"0123")
    disk.fail(Operation.TRUNCATE)
    file = disk.open_append("a")
    with pytest.raises(OSError):
        file.truncate(0)
    assert file.size() == 4


def test_every_change_to_the_folder_can_fail() -> None:
    disk = SimDisk()
    put(disk, "a", synced=b"old")
    for operation, call in (
        (Operation.CREATE, lambda: disk.create("b")),
        (Operation.REMOVE, lambda: disk.remove("a")),
        (Operation.RENAME, lambda: disk.replace_file("a", b"new")),
        (Operation.SYNC_FOLDER, lambda: disk.sync_folder("")),
        (Operation.MAKE_FOLDER, lambda: disk.make_folder("f")),
    ):
        disk.fail(operation, error=errno.ENOSPC)
        with pytest.raises(OSError, match="No space left"):
            call()
    assert disk.contents() == {"a": b"old", "a.new": b"new"}


def test_a_full_disk_takes_what_fits_and_has_room_again_after_a_removal() -> None:
    disk = SimDisk()
    put(disk, "a", synced=b"0123")
    disk.capacity_bytes = 10
    file = disk.create("b")
    with pytest.raises(OSError, match="No space left"):
        file.append([b"012345678"])
    assert file.size() == 6
    disk.remove("a")
    file.append([b"6789"])
    assert file.read(0, 99) == b"0123456789"[:6] + b"6789"


def test_a_later_sync_does_not_save_what_an_earlier_one_failed_on() -> None:
    def prepare(disk: SimDisk) -> None:
        put(disk, "a")
        file = disk.open_append("a")
        file.append([b"lost?"])
        disk.fail(Operation.SYNC)
        with pytest.raises(OSError):
            file.sync()
        file.append([b"safe"])
        file.sync()

    seen = {left["a"] for left in after_power_cuts(prepare)}
    assert {b"lost?safe", b"\0" * 5 + b"safe"} <= seen
    assert all(data.endswith(b"safe") for data in seen)


def test_a_synced_truncate_undoes_what_a_sync_failed_on() -> None:
    def prepare(disk: SimDisk) -> None:
        put(disk, "a", synced=b"s")
        file = disk.open_append("a")
        file.append([b"undone"])
        disk.fail(Operation.SYNC)
        with pytest.raises(OSError):
            file.sync()
        file.truncate(1)
        file.sync()

    assert {left["a"] for left in after_power_cuts(prepare)} == {b"s"}


def test_a_lying_sync_saves_nothing() -> None:
    def prepare(disk: SimDisk) -> None:
        put(disk, "a")
        disk.lying_sync = True
        file = disk.open_append("a")
        file.append([b"x"])
        file.sync()

    assert b"" in {left["a"] for left in after_power_cuts(prepare)}


def test_a_flipped_bit_stays_flipped() -> None:
    disk = SimDisk()
    put(disk, "a", synced=b"\x00\x00")
    disk.flip_bit("a", 1, bit=3)
    file = disk.open_append("a")
    assert file.read(0, 2) == b"\x00\x08"
    file.append([b"x"])
    file.sync()
    assert disk.power_cut().contents() == {"a": b"\x00\x08x"}


def test_faults_can_be_called_off() -> None:
    disk = SimDisk()
    disk.fail(Operation.CREATE)
    disk.stop_at(1)
    disk.clear_faults()
    assert isinstance(disk.create("a"), SimFile)


def test_rewriting_makes_durable_what_a_failed_sync_left_behind() -> None:
    for seed in range(20):
        disk = SimDisk(seed)
        disk.make_folder("d")
        disk.sync_folder("")
        file = disk.create("d/f")
        disk.sync_folder("d")
        file.append([b"kept after all"])
        disk.fail(Operation.SYNC)
        with pytest.raises(OSError):
            file.sync()
        disk.rewrite("d/f", 0)
        assert disk.power_cut().contents() == {"d/f": b"kept after all"}
