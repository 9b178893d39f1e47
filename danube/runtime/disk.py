"""Files, behind a protocol that a simulation can give instead. The only fsync in the project is here.

A `Disk` is rooted at one folder; names are relative to it, with `/` between parts. All calls block.
"""

import contextlib
import errno
import fcntl
import os
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Protocol

Buffer = bytes | bytearray | memoryview

PARTIAL_SUFFIX = ".new"
"""Ends the names of files that are being written and do not count yet."""

_REWRITE_BYTES = 1 << 20  # at a time
_SYNCED_BYTES = 1 << 20  # of a new file at once: others' syncs wait for all that is written and not synced
_EXPECTED_BYTES = 1 << 20  # in one hint: of a longer one Linux may heed only the beginning
_FULL = {errno.ENOSPC, errno.EDQUOT}
_OUT_OF_DESCRIPTORS = {errno.EMFILE, errno.ENFILE}
_WITHOUT_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS}  # what file systems without hard links answer
_IOV_MAX = 1024  # Linux refuses more buffers in one writev


def is_full(error: OSError) -> bool:
    """True if a disk, or a quota on it, had no room."""
    return error.errno in _FULL


def was_full(error: BaseException | None) -> bool:
    """True if a full disk is behind this error."""
    while error is not None and not (isinstance(error, OSError) and is_full(error)):
        error = error.__cause__
    return error is not None


_NEXT_STEPS = {
    errno.EACCES: "check its owner and permissions",
    errno.EPERM: "check its owner and permissions",
    errno.EROFS: "mount its disk for writing",
    errno.ENAMETOOLONG: "choose a shorter path",
    errno.ELOOP: "check its symbolic links",
    **dict.fromkeys(_FULL, "make room on its disk"),
    **dict.fromkeys(_OUT_OF_DESCRIPTORS, "raise the limit of open files (ulimit -n)"),
}


def is_environment(error: OSError) -> bool:
    """True if a path, a permission or a limit is in the way, which says nothing about the file's content."""
    return error.errno in _NEXT_STEPS


def next_step_of(error: OSError) -> str:
    """The advice for a failed operation of the disk."""
    return _NEXT_STEPS.get(error.errno or 0, "check the data folder and its disk")


def is_out_of_descriptors(error: OSError) -> bool:
    """True if no more files may be open: nothing was read, written or synced, and it may work a moment later."""
    return error.errno in _OUT_OF_DESCRIPTORS


@dataclass(frozen=True, slots=True)
class DiskRoom:
    """The size of a disk and its free space, roughly."""

    free_bytes: int
    """Bytes that can still be written before it is full."""
    total_bytes: int
    """The whole disk, with what is on it."""


class DiskLock(Protocol):
    """A held lock; the operating system drops it when the process dies."""

    def release(self) -> None:
        """Give the lock up."""


class File(Protocol):
    """An open file. What was appended survives a power cut only after `sync()` returned."""

    def append(self, chunks: Sequence[Buffer]) -> None:
        """Write all of `chunks` at the end. Raises OSError; then any part of them may have been written."""

    def read(self, position: int, length: int) -> bytes:
        """Up to `length` bytes from `position`; fewer at the end of the file."""

    def expect(self, position: int, length: int) -> None:
        """Have the disk begin to read this, and from now on nothing of the file that was not asked for. Only a hint."""

    def size(self) -> int:
        """Length in bytes, written but unsynced bytes included."""

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes; as volatile as a write until synced."""

    def sync(self) -> None:
        """Return once everything written so far survives a power cut. After an OSError nothing is known of it."""

    def close(self) -> None:
        """Close the file; nothing is synced by it."""


class Disk(Protocol):
    """A folder of files."""

    def create(self, name: str) -> File:
        """Create a file for appending. Raises FileExistsError. The entry survives only after `sync_folder`."""

    def open_append(self, name: str) -> File:
        """Open an existing file for appending. Raises FileNotFoundError."""

    def open_read(self, name: str) -> File:
        """Open an existing file for reading. Raises FileNotFoundError."""

    def exists(self, name: str) -> bool:
        """True if a file or folder has this name."""

    def list(self, folder: str) -> list[str]:
        """The names in `folder`, sorted, without the folder's own. Raises FileNotFoundError."""

    def make_folder(self, name: str) -> None:
        """Create the folder and its parents where missing, and sync their entries, even of those that are there.

        Whoever made them may have died before their entries were durable.
        """

    def replace_file(self, name: str, data: bytes) -> None:
        """Put `data` under `name` so that after a crash either the old or the new content is there, whole."""

    def create_whole(self, name: str, chunks: Sequence[Buffer]) -> None:
        """Put `chunks` under a name that is free: nobody, not even after a crash, finds a part of them there.

        When this returns they are durable. Raises FileExistsError when the name is taken; on a file system with hard
        links also when another machine or process took it in the same moment. What an interruption leaves has a name
        that ends with PARTIAL_SUFFIX.
        """

    def rewrite(self, name: str, position: int) -> None:
        """Write a file's bytes from `position` on once more, the same in the same place, and sync them.

        After a sync that failed the system takes for written what may never reach the disk, and a later sync of it does
        nothing; this makes it durable. A crash in the midst changes nothing of what programs see.
        """

    def remove(self, name: str) -> None:
        """Remove a file. Raises FileNotFoundError."""

    def remove_folder(self, name: str) -> None:
        """Remove an empty folder, durably. Raises FileNotFoundError; OSError when there is something in it."""

    def sync_folder(self, name: str) -> None:
        """Return once the entries of the folder survive a power cut; "" is the root."""

    def lock(self, name: str) -> DiskLock:
        """Take the exclusive lock kept in file `name`. Raises BlockingIOError when another process holds it."""

    def has_links(self) -> bool:
        """True if hard links work: without them, `create_whole` cannot tell when two take a name at once.

        Tried out with a file in the root. Raises OSError.
        """

    def room(self) -> DiskRoom:
        """Free and total bytes of the disk. Raises OSError."""


def content_of(disk: Disk, name: str) -> bytes:
    """All that is in a file. Raises OSError."""
    with contextlib.closing(disk.open_read(name)) as file:
        return file.read(0, file.size())


def file_size(disk: Disk, name: str) -> int:
    """Length of a file. Raises OSError."""
    with contextlib.closing(disk.open_read(name)) as file:
        return file.size()


class LocalFile:
    """A file of the machine, by descriptor."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._is_expecting = False

    def append(self, chunks: Sequence[Buffer]) -> None:
        for first in range(0, len(chunks), _IOV_MAX):
            self._append_some(chunks[first : first + _IOV_MAX])

    def _append_some(self, chunks: Sequence[Buffer]) -> None:
        total = sum(len(chunk) for chunk in chunks)
        written = os.writev(self._descriptor, chunks)
        if written == total:
            return
        rest = memoryview(b"".join(chunks))[written:]
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]

    def read(self, position: int, length: int) -> bytes:
        return os.pread(self._descriptor, length, position)

    def expect(self, position: int, length: int) -> None:
        with contextlib.suppress(OSError, AttributeError):  # the second: a system that takes no such hints
            if not self._is_expecting:
                os.posix_fadvise(self._descriptor, 0, 0, os.POSIX_FADV_RANDOM)
                self._is_expecting = True
            for begin in range(position, position + length, _EXPECTED_BYTES):
                expected = min(_EXPECTED_BYTES, position + length - begin)
                os.posix_fadvise(self._descriptor, begin, expected, os.POSIX_FADV_WILLNEED)

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def truncate(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)

    def sync(self) -> None:
        os.fdatasync(self._descriptor)

    def close(self) -> None:
        os.close(self._descriptor)


class LocalDiskLock:
    """An `flock`: gone with the process, whatever ended it."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def release(self) -> None:
        os.close(self._descriptor)


def _flocked(descriptor: int, kind: int) -> LocalDiskLock:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return LocalDiskLock(descriptor)


class LocalDisk:
    """A folder of the machine."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def create(self, name: str) -> File:
        return self._open(name, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL)

    def open_append(self, name: str) -> File:
        return self._open(name, os.O_RDWR | os.O_APPEND)

    def open_read(self, name: str) -> File:
        return self._open(name, os.O_RDONLY)

    def exists(self, name: str) -> bool:
        return (self.root / name).exists()

    def list(self, folder: str) -> list[str]:
        return sorted(path.name for path in (self.root / folder).iterdir())

    def make_folder(self, name: str) -> None:
        path = self.root / name
        missing = [folder for folder in (path, *path.parents) if not folder.is_dir()]
        inside = len(PurePosixPath(name).parts)
        for folder in reversed((path, *path.parents)[: max(len(missing), inside)]):
            folder.mkdir(exist_ok=True)
            _sync_path(folder.parent)
        if not missing and not inside:
            with contextlib.suppress(PermissionError):  # what the data folder stands in need not be ours to read
                _sync_path(path.parent)

    def replace_file(self, name: str, data: bytes) -> None:
        path = self.root / name
        temporary = path.with_name(path.name + ".new")
        temporary.unlink(missing_ok=True)
        _write_synced(temporary, [data])
        temporary.replace(path)
        _sync_path(path.parent)

    def create_whole(self, name: str, chunks: Sequence[Buffer]) -> None:
        path = self.root / name
        partial = path.with_name(f"{path.name}.{secrets.token_hex(8)}{PARTIAL_SUFFIX}")
        try:
            _write_synced(partial, chunks)
            _name(partial, path)
        finally:
            partial.unlink(missing_ok=True)
        _sync_path(path.parent)

    def rewrite(self, name: str, position: int) -> None:
        with _opened(self.root / name, os.O_RDWR) as descriptor:  # O_APPEND would have pwrite append
            while chunk := os.pread(descriptor, _REWRITE_BYTES, position):
                position += os.pwrite(descriptor, chunk, position)
            os.fdatasync(descriptor)

    def remove(self, name: str) -> None:
        (self.root / name).unlink()

    def remove_folder(self, name: str) -> None:
        path = self.root / name
        path.rmdir()
        _sync_path(path.parent)

    def sync_folder(self, name: str) -> None:
        _sync_path(self.root / name)

    def lock(self, name: str) -> DiskLock:
        return _flocked(os.open(self.root / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), fcntl.LOCK_EX)

    def lock_to_read(self, name: str) -> DiskLock | None:
        """The same lock, shared by readers, on a disk that cannot be written; None where nobody has made the file.

        Raises BlockingIOError when another process holds it.
        """
        try:
            descriptor = os.open(self.root / name, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        return _flocked(descriptor, fcntl.LOCK_SH)

    def has_links(self) -> bool:
        first = self.root / f"links.{secrets.token_hex(8)}{PARTIAL_SUFFIX}"
        second = first.with_name(f"{first.stem}.second{PARTIAL_SUFFIX}")
        first.touch(0o600, exist_ok=False)
        try:
            second.hardlink_to(first)
        except OSError as error:
            if error.errno not in _WITHOUT_LINKS:
                raise
            return False
        else:
            return True
        finally:
            second.unlink(missing_ok=True)
            first.unlink(missing_ok=True)

    def room(self) -> DiskRoom:
        found = os.statvfs(self.root)
        return DiskRoom(found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize)

    def _open(self, name: str, flags: int) -> LocalFile:
        return LocalFile(os.open(self.root / name, flags | os.O_CLOEXEC, 0o600))


def preallocate(path: Path, size: int) -> None:
    """Make a file that takes so many bytes of the disk, or none at all. Raises OSError."""
    with _opened(path, os.O_RDWR | os.O_CREAT | os.O_EXCL) as descriptor:
        try:
            os.posix_fallocate(descriptor, 0, size)
        except BaseException:
            path.unlink()
            raise


def _write_synced(path: Path, chunks: Sequence[Buffer]) -> None:
    """Write a new file and sync it, little by little."""
    with _opened(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL) as descriptor:
        file = LocalFile(descriptor)
        for part in _parts(chunks, _SYNCED_BYTES):
            file.append(part)
            file.sync()


def _parts(chunks: Sequence[Buffer], bytes_max: int) -> Iterator[list[Buffer]]:
    """The chunks, in order, in parts that have at most so many bytes; one, without any, when there is nothing."""
    part: list[Buffer] = []
    room = bytes_max
    for chunk in chunks:
        rest = chunk
        while len(rest) > room:
            yield [*part, memoryview(rest)[:room]]
            part, rest, room = [], memoryview(rest)[room:], bytes_max
        part.append(rest)
        room -= len(rest)
    yield part


def _name(partial: Path, path: Path) -> None:
    """Give a file its final name. A link fails where something is, and a renaming puts the file in the place of it."""
    try:
        path.hardlink_to(partial)
    except OSError as error:
        if error.errno not in _WITHOUT_LINKS:
            raise
        if path.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from None
        partial.replace(path)


def _sync_path(folder: Path) -> None:
    with _opened(folder, os.O_RDONLY | os.O_DIRECTORY) as descriptor:
        os.fsync(descriptor)


@contextlib.contextmanager
def _opened(path: Path, flags: int) -> Iterator[int]:
    descriptor = os.open(path, flags | os.O_CLOEXEC, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
