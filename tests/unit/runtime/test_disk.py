"""What only the machine's own disk can show; the rest is in tests/contracts/test_disk.py."""

import ctypes
import errno
import mmap
import os
import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from danube.model.limits.broker import KIB, MIB
from danube.runtime.disk import Buffer, LocalDisk


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths of all that was synced, in order."""
    paths = list[str]()

    def note(descriptor: int) -> None:
        paths.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))

    monkeypatch.setattr(os, "fsync", note)
    monkeypatch.setattr(os, "fdatasync", note)
    return paths


def test_a_sync_reaches_the_operating_system(tmp_path: Path, synced: list[str]) -> None:
    disk = LocalDisk(tmp_path)
    file = disk.create("a")
    file.append([b"x"])
    file.sync()
    file.close()
    disk.sync_folder("")
    assert synced == [f"{tmp_path}/a", f"{tmp_path}"]


def test_made_folders_are_synced_into_their_parents(tmp_path: Path, synced: list[str]) -> None:
    LocalDisk(tmp_path).make_folder("a/b")
    assert sorted(synced) == [f"{tmp_path}", f"{tmp_path}/a"]


def test_a_replacement_is_synced_before_it_has_its_name_and_its_name_after(tmp_path: Path, synced: list[str]) -> None:
    LocalDisk(tmp_path).replace_file("a", b"x")
    assert synced == [f"{tmp_path}/a.new", f"{tmp_path}"]


def test_a_file_created_whole_is_synced_before_it_has_its_name_and_its_name_after(
    tmp_path: Path, synced: list[str]
) -> None:
    LocalDisk(tmp_path).create_whole("a", [b"x"])
    partial, folder = synced
    assert re.fullmatch(rf"{tmp_path}/a\.[0-9a-f]{{16}}\.new", partial)
    assert folder == f"{tmp_path}"


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
def test_a_file_that_could_not_be_created_whole_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    def failing(_: int) -> None:
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(os, "fdatasync", failing)
    with pytest.raises(OSError):
        LocalDisk(tmp_path).create_whole("a", [b"x"])
    assert list(tmp_path.iterdir()) == []


def test_a_file_system_without_hard_links_takes_whole_files_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refusing(*_: object, **__: object) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", refusing)
    disk = LocalDisk(tmp_path)
    disk.create_whole("a", [b"first"])
    with pytest.raises(FileExistsError):
        disk.create_whole("a", [b"second"])
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("a", b"first")]


def test_a_short_write_is_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def short(descriptor: int, chunks: Sequence[Buffer]) -> int:
        return os.write(descriptor, b"".join(chunks)[:4])

    monkeypatch.setattr(os, "writev", short)
    file = LocalDisk(tmp_path).create("a")
    file.append([b"012", b"345", b"678"])
    assert file.read(0, 99) == b"012345678"
    file.close()


def test_files_are_for_the_owner_alone(tmp_path: Path) -> None:
    disk = LocalDisk(tmp_path)
    disk.create("a").close()
    disk.replace_file("b", b"")
    disk.lock("c").release()
    disk.create_whole("d", [b""])
    assert {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == dict.fromkeys("abcd", 0o600)


def test_a_lock_ends_with_the_process_that_held_it(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        LocalDisk(tmp_path).lock("lock")
        os.write(writer, b"x")
        os._exit(0)
    os.read(reader, 1)
    os.waitpid(child, 0)
    os.close(reader)
    os.close(writer)
    LocalDisk(tmp_path).lock("lock").release()


@pytest.mark.parametrize("chunks", [[bytes(5 * MIB + 1)], [bytes(300 * KIB)] * 17, [b"", bytes(MIB), b"xy"], [b""], []])
@pytest.mark.parametrize("replaces", [False, True])
def test_of_a_new_file_never_more_than_a_mebibyte_waits_for_a_sync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunks: list[bytes], *, replaces: bool
) -> None:
    """Whoever else syncs meanwhile waits for all of it: the journal, behind a segment of 32 MiB, for 45 ms."""
    sizes = [0]
    monkeypatch.setattr(os, "fdatasync", lambda descriptor: sizes.append(os.fstat(descriptor).st_size))
    if replaces:
        LocalDisk(tmp_path).replace_file("a", b"".join(chunks))
    else:
        LocalDisk(tmp_path).create_whole("a", chunks)
    assert (tmp_path / "a").read_bytes() == b"".join(chunks)
    assert sizes[-1] == len(b"".join(chunks))
    assert len(sizes) > 1
    assert all(after - before <= MIB for before, after in pairwise(sizes))


def test_of_a_file_whose_reader_says_what_it_expects_nothing_else_is_fetched(tmp_path: Path) -> None:
    """What the system guesses beyond it, up to megabytes at once, would stand in the way of the journal's syncs."""
    disk, expected, wanted, piece = LocalDisk(tmp_path), 64 * KIB, MIB, 64 * KIB
    disk.create_whole("a", [bytes(8 * MIB)])
    descriptor = os.open(tmp_path / "a", os.O_RDWR)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    left = bytes_in_memory(descriptor, wanted)
    file = disk.open_read("a")
    file.expect(0, expected)
    assert b"".join(file.read(at, piece) for at in range(0, wanted, piece)) == bytes(wanted)
    assert bytes_in_memory(descriptor, wanted) <= left
    file.close()
    os.close(descriptor)


def bytes_in_memory(descriptor: int, position: int) -> int:
    """How much of a file, from a position on, the system could answer without the disk; it lets go of any at will."""
    page_bytes = mmap.PAGESIZE
    with mmap.mmap(descriptor, 0, flags=mmap.MAP_PRIVATE) as content:
        is_there = (ctypes.c_ubyte * (len(content) // page_bytes))()
        first = ctypes.c_char.from_buffer(content)
        assert ctypes.CDLL(None).mincore(ctypes.byref(first), ctypes.c_size_t(len(content)), is_there) == 0
        del first  # else the map could not be closed
    return page_bytes * sum(flags & 1 for flags in is_there[position // page_bytes :])
