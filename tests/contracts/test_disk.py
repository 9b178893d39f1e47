"""What every `Disk` promises, asked of the machine's and of the simulated one."""

from pathlib import Path

import pytest

from danube.runtime.disk import Disk, DiskRoom, LocalDisk
from danube.testing.simulated.disk import MachineOffError, SimDisk


@pytest.fixture(params=["local", "sim"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Disk:
    return LocalDisk(tmp_path) if request.param == "local" else SimDisk()


def put(disk: Disk, name: str, data: bytes = b"") -> None:
    file = disk.create(name)
    file.append([data])
    file.close()


def content(disk: Disk, name: str) -> bytes:
    file = disk.open_read(name)
    try:
        return file.read(0, file.size())
    finally:
        file.close()


# What it is


def test_whether_files_may_have_a_second_name_is_said_and_nothing_is_left_of_the_trial(disk: Disk) -> None:
    assert disk.has_links()
    assert disk.list("") == []


# Files


def test_appended_chunks_are_read_back_in_order(disk: Disk) -> None:
    file = disk.create("a")
    file.append([b"one", bytearray(b"two"), memoryview(b"three")])
    file.append([])
    file.append([b""])
    assert (file.size(), file.read(0, 100)) == (11, b"onetwothree")
    file.close()


def test_more_chunks_than_one_system_call_takes_are_written_whole(disk: Disk) -> None:
    chunks = [b"%05d" % number for number in range(3_000)]
    file = disk.create("a")
    file.append(chunks)
    assert file.read(0, file.size()) == b"".join(chunks)
    file.close()


def test_a_read_is_short_at_the_end_and_empty_beyond_it(disk: Disk) -> None:
    put(disk, "a", b"0123456789")
    file = disk.open_read("a")
    assert [file.read(2, 3), file.read(8, 5), file.read(10, 5), file.read(50, 5)] == [b"234", b"89", b"", b""]
    file.close()


def test_every_handle_of_a_file_sees_what_any_of_them_wrote(disk: Disk) -> None:
    first, second = disk.create("a"), disk.open_append("a")
    reader = disk.open_read("a")
    first.append([b"1"])
    second.append([b"2"])
    first.append([b"3"])
    assert (reader.read(0, 9), reader.size(), second.size()) == (b"123", 3, 3)
    for file in (first, second, reader):
        file.close()


def test_opening_for_appending_keeps_what_is_there(disk: Disk) -> None:
    put(disk, "a", b"old")
    file = disk.open_append("a")
    file.append([b"new"])
    file.close()
    assert content(disk, "a") == b"oldnew"


def test_a_truncated_file_goes_on_from_its_new_end(disk: Disk) -> None:
    file = disk.create("a")
    file.append([b"0123456789"])
    file.truncate(4)
    file.append([b"x"])
    assert (file.size(), file.read(0, 9)) == (5, b"0123x")
    file.close()


def test_truncating_beyond_the_end_fills_with_zeros(disk: Disk) -> None:
    file = disk.create("a")
    file.append([b"01"])
    file.truncate(4)
    assert file.read(0, 9) == b"01\0\0"
    file.close()


def test_a_sync_changes_nothing_that_can_be_read(disk: Disk) -> None:
    file = disk.create("a")
    file.append([b"01"])
    file.sync()
    disk.sync_folder("")
    assert (file.read(0, 9), disk.list("")) == (b"01", ["a"])
    file.close()


def test_a_file_opened_for_reading_cannot_be_changed(disk: Disk) -> None:
    put(disk, "a", b"01")
    file = disk.open_read("a")
    with pytest.raises(OSError):
        file.append([b"2"])
    with pytest.raises(OSError):
        file.truncate(0)
    file.close()
    assert content(disk, "a") == b"01"


def test_a_closed_file_answers_nothing(disk: Disk) -> None:
    file = disk.create("a")
    file.close()
    for call in (lambda: file.append([b"x"]), lambda: file.read(0, 1), file.size, lambda: file.truncate(0), file.sync):
        with pytest.raises(OSError):
            call()


def test_a_removed_file_stays_readable_through_its_open_handle(disk: Disk) -> None:
    put(disk, "a", b"01")
    file = disk.open_read("a")
    disk.remove("a")
    assert (disk.exists("a"), file.read(0, 9)) == (False, b"01")
    file.close()


# Names


def test_a_name_is_created_once(disk: Disk) -> None:
    put(disk, "a", b"01")
    disk.make_folder("b")
    for name in ("a", "b"):
        with pytest.raises(FileExistsError):
            disk.create(name)
    assert content(disk, "a") == b"01"


def test_what_is_not_there_cannot_be_opened_listed_synced_or_removed(disk: Disk) -> None:
    for call in (disk.open_append, disk.open_read, disk.list, disk.sync_folder, disk.remove):
        with pytest.raises(FileNotFoundError):
            call("missing")


def test_nothing_is_created_in_a_missing_folder(disk: Disk) -> None:
    for call in (disk.create, disk.lock, lambda name: disk.replace_file(name, b"")):
        with pytest.raises(FileNotFoundError):
            call("missing/a")


def test_files_folders_and_the_root_exist(disk: Disk) -> None:
    put(disk, "a")
    disk.make_folder("b/c")
    assert [disk.exists(name) for name in ("a", "b", "b/c", "", "d", "b/d", "d/e")] == [True] * 4 + [False] * 3


def test_a_folder_lists_its_own_files_and_folders_sorted(disk: Disk) -> None:
    disk.make_folder("f/deep/deeper")
    put(disk, "f/b")
    put(disk, "f/a")
    put(disk, "f/deep/c")
    assert (disk.list("f"), disk.list("f/deep"), disk.list("")) == (["a", "b", "deep"], ["c", "deeper"], ["f"])


def test_a_file_is_no_folder(disk: Disk) -> None:
    put(disk, "a")
    for call in (disk.list, disk.sync_folder):
        with pytest.raises(NotADirectoryError):
            call("a")
    with pytest.raises(FileExistsError):
        disk.make_folder("a")


def test_a_folder_is_no_file(disk: Disk) -> None:
    disk.make_folder("f")
    for call in (disk.open_append, disk.remove):
        with pytest.raises(OSError):
            call("f")
    assert disk.exists("f")


def test_making_a_folder_that_is_there_keeps_its_files(disk: Disk) -> None:
    disk.make_folder("f")
    put(disk, "f/a", b"01")
    disk.make_folder("f")
    disk.make_folder("")
    assert content(disk, "f/a") == b"01"


def test_a_folder_whose_maker_died_before_its_entry_was_durable_is_made_durable_by_the_next_one() -> None:
    for seed in range(20):
        disk = SimDisk(seed)
        disk.stop_at(2)  # the sync of what the folder stands in
        with pytest.raises(MachineOffError):
            disk.make_folder("f")
        disk = disk.process_kill()
        disk.make_folder("f")
        assert disk.power_cut().exists("f")


def test_a_removed_name_is_free_again(disk: Disk) -> None:
    put(disk, "a", b"old")
    disk.remove("a")
    put(disk, "a", b"new")
    assert content(disk, "a") == b"new"


def test_replacing_puts_the_new_content_and_leaves_nothing_else(disk: Disk) -> None:
    disk.make_folder("f")
    disk.replace_file("f/a", b"first")
    assert content(disk, "f/a") == b"first"
    disk.replace_file("f/a", b"second")
    assert (content(disk, "f/a"), disk.list("f")) == (b"second", ["a"])


def test_a_handle_opened_before_a_replacement_sees_the_old_content(disk: Disk) -> None:
    put(disk, "a", b"old")
    file = disk.open_read("a")
    disk.replace_file("a", b"new")
    assert file.read(0, 9) == b"old"
    file.close()


def test_a_replacement_that_was_interrupted_does_not_hinder_the_next(disk: Disk) -> None:
    put(disk, "a", b"old")
    put(disk, "a.new", b"half")
    disk.replace_file("a", b"new")
    assert (content(disk, "a"), disk.list("")) == (b"new", ["a"])


# Files that are whole or not there


def test_a_file_created_whole_has_all_its_chunks_and_leaves_nothing_else(disk: Disk) -> None:
    chunks = [b"%05d" % number for number in range(3_000)]
    disk.make_folder("f")
    disk.create_whole("f/a", [*chunks, bytearray(b"more"), memoryview(b"and more")])
    disk.create_whole("f/b", [])
    assert content(disk, "f/a") == b"".join(chunks) + b"moreand more"
    assert (content(disk, "f/b"), disk.list("f")) == (b"", ["a", "b"])


def test_a_name_that_is_taken_is_not_created_whole(disk: Disk) -> None:
    put(disk, "a", b"old")
    disk.make_folder("b")
    for name in ("a", "b"):
        with pytest.raises(FileExistsError):
            disk.create_whole(name, [b"new"])
    with pytest.raises(FileNotFoundError):
        disk.create_whole("missing/a", [b"new"])
    assert (content(disk, "a"), disk.list("")) == (b"old", ["a", "b"])


def test_an_empty_folder_is_removed_and_one_with_something_in_it_stays(disk: Disk) -> None:
    disk.make_folder("f/deep")
    put(disk, "g")
    for name, error in (("f", OSError), ("missing", FileNotFoundError), ("g", NotADirectoryError)):
        with pytest.raises(error):
            disk.remove_folder(name)
    disk.remove_folder("f/deep")
    assert disk.list("f") == []
    put(disk, "f/a")
    with pytest.raises(OSError):
        disk.remove_folder("f")
    disk.remove("f/a")
    disk.remove_folder("f")
    assert (disk.exists("f"), disk.list("")) == (False, ["g"])


# Locks


@pytest.mark.parametrize("position", [0, 3, 6, 9])
def test_rewriting_changes_nothing_that_can_be_read(disk: Disk, position: int) -> None:
    put(disk, "f", b"abcdef")
    disk.rewrite("f", position)
    file = disk.open_append("f")
    file.append([b"gh"])
    assert file.read(0, 100) == b"abcdefgh"
    file.close()


def test_rewriting_what_is_larger_than_one_piece_keeps_it_whole(disk: Disk) -> None:
    content = bytes(range(256)) * 10_000
    put(disk, "f", content)
    disk.rewrite("f", 1)
    file = disk.open_read("f")
    assert file.read(0, len(content) + 1) == content
    file.close()


def test_rewriting_what_is_not_there_is_an_error(disk: Disk) -> None:
    with pytest.raises(FileNotFoundError):
        disk.rewrite("f", 0)


def test_a_lock_has_one_holder_at_a_time(disk: Disk) -> None:
    held = disk.lock("lock")
    with pytest.raises(BlockingIOError):
        disk.lock("lock")
    other = disk.lock("other")
    held.release()
    again = disk.lock("lock")
    again.release()
    other.release()
    assert disk.list("") == ["lock", "other"]


# Room


def test_a_disk_says_how_much_is_free_of_how_much(disk: Disk) -> None:
    room = disk.room()
    assert 0 < room.free_bytes <= room.total_bytes


def test_what_is_written_is_not_free_any_more() -> None:
    disk = SimDisk()
    disk.capacity_bytes = 1_000
    put(disk, "a", b"x" * 400)
    assert disk.room() == DiskRoom(600, 1_000)
