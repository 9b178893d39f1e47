"""Files, behind a protocol that a simulation can give instead. The only fsync in the project is here.

A `Disk` is rooted at one folder; names are relative to it, with `/` between parts. All calls block.
"""

import fcntl
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

Buffer = bytes | bytearray | memoryview

_REWRITE_BYTES = 1 << 20  # at a time
_IOV_MAX = 1024  # Linux refuses more buffers in one writev


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
        """Whether a file or folder has this name."""

    def list(self, folder: str) -> list[str]:
        """The names in `folder`, sorted, without the folder's own. Raises FileNotFoundError."""

    def make_folder(self, name: str) -> None:
        """Create the folder and its parents where missing, their entries synced."""

    def replace_file(self, name: str, data: bytes) -> None:
        """Put `data` under `name` so that after a crash either the old or the new content is there, whole."""

    def rewrite(self, name: str, position: int) -> None:
        """Write a file's bytes from `position` on once more, the same in the same place, and sync them.

        After a sync that failed the system takes for written what may never reach the disk, and a later sync of it does
        nothing; this makes it durable. A crash in the midst changes nothing of what programs see.
        """

    def remove(self, name: str) -> None:
        """Remove a file. Raises FileNotFoundError."""

    def sync_folder(self, name: str) -> None:
        """Return once the entries of the folder survive a power cut; "" is the root."""

    def lock(self, name: str) -> DiskLock:
        """Take the exclusive lock kept in file `name`. Raises BlockingIOError when another process holds it."""


class LocalFile:
    """A file of the machine, by descriptor."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

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
        if path.is_dir():
            return
        missing = [path, *(parent for parent in path.parents if not parent.exists())]
        path.mkdir(parents=True, exist_ok=True)
        for folder in missing:
            _sync_path(folder.parent)

    def replace_file(self, name: str, data: bytes) -> None:
        path = self.root / name
        temporary = path.with_name(path.name + ".new")
        temporary.unlink(missing_ok=True)
        file = LocalFile(os.open(temporary, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        try:
            file.append([data])
            file.sync()
        finally:
            file.close()
        temporary.replace(path)
        _sync_path(path.parent)

    def rewrite(self, name: str, position: int) -> None:
        descriptor = os.open(self.root / name, os.O_RDWR | os.O_CLOEXEC)  # O_APPEND would have pwrite append
        try:
            while chunk := os.pread(descriptor, _REWRITE_BYTES, position):
                position += os.pwrite(descriptor, chunk, position)
            os.fdatasync(descriptor)
        finally:
            os.close(descriptor)

    def remove(self, name: str) -> None:
        (self.root / name).unlink()

    def sync_folder(self, name: str) -> None:
        _sync_path(self.root / name)

    def lock(self, name: str) -> DiskLock:
        descriptor = os.open(self.root / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            raise
        return LocalDiskLock(descriptor)

    def _open(self, name: str, flags: int) -> LocalFile:
        return LocalFile(os.open(self.root / name, flags | os.O_CLOEXEC, 0o600))


def _sync_path(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
