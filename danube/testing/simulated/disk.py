"""A disk in memory that misbehaves on request: it loses unsynced writes, tears them, flips bits, fills up, fails.

One `SimDisk` is one life of a process on a machine. `power_cut()` and `process_kill()` end it and answer the disk that
the next life finds; whatever the ended one is asked afterwards raises MachineOffError. All chance is from the seed.
"""

import errno
import itertools
import os
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import partial
from pathlib import PurePosixPath

from danube.runtime.disk import PARTIAL_SUFFIX, Buffer, DiskRoom, File
from danube.testing.simulated.disk_image import FileImage, FolderImage, FolderTree

ROOT = ""
UNBOUNDED_BYTES = 1 << 50
"""Free bytes on a disk without a bound."""


class MachineOffError(BaseException):
    """The power is off or the process is dead: nothing that runs may notice, so no `except Exception` catches it."""


class Operation(StrEnum):
    """A call of a disk, which may fail."""

    APPEND = "append"
    READ = "read"
    SYNC = "sync"
    TRUNCATE = "truncate"
    REWRITE = "rewrite"
    CREATE = "create"
    RENAME = "rename"
    REMOVE = "remove"
    SYNC_FOLDER = "sync_folder"
    MAKE_FOLDER = "make_folder"
    TRANSACT = "transact"
    """Of whoever else writes on this machine, as a metadata store, through `perform`."""
    LOCK = "lock"


@dataclass(slots=True)
class _Fault:
    operation: Operation
    error: int
    pattern: str
    skip: int
    times: int

    def strikes(self, operation: Operation, name: str) -> bool:
        """Count one operation; say whether it has to fail."""
        if operation is not self.operation or not self.times or not fnmatchcase(name, self.pattern):
            return False
        if self.skip:
            self.skip -= 1
            return False
        self.times -= 1
        return True


def _nothing() -> None:
    return None


class SimDisk:
    """A `Disk` in memory. Not for several threads."""

    def __init__(self, seed: int = 0) -> None:
        self.chance = random.Random(seed)  # noqa: S311 - a seed is for replay, not for secrets
        self.capacity_bytes: int | None = None
        """Bytes that all files together may hold; None for no bound. Beyond it, ENOSPC after a short write."""
        self.lying_sync = False
        """True for syncs of files that do nothing and report success, as a drive with a careless cache."""
        self.links = True
        """False for a file system without hard links, as some network file systems are."""
        self.changes_done = 0
        """Count of operations other than reads so far: the places where `stop_at` can strike."""
        self.failed = Counter[Operation]()
        """Count of operations that failed because of `fail` or `capacity_bytes`."""
        self._off = False
        self._stop_at: int | None = None
        self._faults: list[_Fault] = []
        self._locked: set[str] = set()
        self._tree = FolderTree(ROOT)

    # What tests ask

    def fail(
        self, operation: Operation, number: int = 1, *, error: int = errno.EIO, name: str = "*", times: int = 1
    ) -> None:
        """Have the `number`-th next `operation` on files that match `name` raise OSError(error), and `times - 1` more.

        An append that fails may have written any part first; a sync that fails leaves the unsynced bytes unknown: the
        next power cut keeps or drops them, and no later sync makes them durable.
        """
        self._faults.append(_Fault(operation, error, name, number - 1, times))

    def clear_faults(self) -> None:
        """Forget what `fail` and `stop_at` asked and has not happened."""
        self._faults.clear()
        self._stop_at = None

    def stop_at(self, number: int) -> None:
        """End this life in the `number`-th next change, which is done, half done or not, and raises MachineOffError."""
        self._stop_at = self.changes_done + number

    @property
    def is_off(self) -> bool:
        """True once this life has ended."""
        return self._off

    def power_cut(self) -> "SimDisk":
        """End this life as a power cut does, and answer what is left."""
        self._tree.lose_power(self.chance)
        for image in self._images().values():
            image.lose_power(self.chance)
        return self._next_life()

    def process_kill(self) -> "SimDisk":
        """End this life as `kill -9` does, and answer what is left: all that was written, as unsynced as it was."""
        return self._next_life()

    def join(self) -> "SimDisk":
        """Another process on the same disk, or another machine on the same shared folder: it ends on its own.

        A power cut is asked of one of them; the others then have to be ended, too.
        """
        disk = SimDisk()
        disk.chance, disk._tree, disk.links = self.chance, self._tree, self.links
        return disk

    def flip_bit(self, name: str, position: int, bit: int = 0) -> None:
        """Turn over one bit of a file, for good. Raises FileNotFoundError."""
        self._image(name).flip(position, 1 << bit)

    def contents(self) -> dict[str, bytes]:
        """Every file with its bytes, as programs see them now."""
        return {name: bytes(image.visible) for name, image in self._images().items()}

    # What the protocol promises

    def create(self, name: str) -> File:
        self._check_on()
        folder, entry = self._parent(name)
        if entry in folder.visible or name in self._folders:
            raise _os_error(errno.EEXIST, name)
        image = FileImage()
        self.perform(Operation.CREATE, name, lambda: folder.change({entry: image}))
        return SimFile(self, name, image)

    def open_append(self, name: str) -> File:
        return SimFile(self, name, self._image(name))

    def open_read(self, name: str) -> File:
        return SimFile(self, name, self._image(name), writable=False)

    def exists(self, name: str) -> bool:
        self._check_on()
        parent, entry = _split(name)
        return name in self._folders or (parent in self._folders and entry in self._folders[parent].visible)

    def list(self, folder: str) -> list[str]:
        inside = self._folder(folder).visible
        prefix = f"{folder}/" if folder else ""
        folders = (name.removeprefix(prefix) for name in self._folders if name and name.startswith(prefix))
        return sorted([*inside, *(name for name in folders if name and "/" not in name)])

    def make_folder(self, name: str) -> None:
        self._check_on()
        parts = [str(part) for part in (*reversed(PurePosixPath(name).parents), PurePosixPath(name))]
        for part in [part for part in parts if part != "."]:
            parent, entry = _split(part)
            if parent in self._folders and entry in self._folders[parent].visible:
                raise _os_error(errno.EEXIST, part)
            if part not in self._folders:
                self.perform(Operation.MAKE_FOLDER, part, partial(self._tree.make, part))
            self.sync_folder(parent)

    def replace_file(self, name: str, data: bytes) -> None:
        self._check_on()
        folder, entry = self._parent(name)
        if f"{entry}.new" in folder.visible:
            self.remove(f"{name}.new")
        file = self.create(f"{name}.new")
        try:
            file.append([data])
            file.sync()
        finally:
            file.close()
        image = folder.visible[f"{entry}.new"]
        self.perform(Operation.RENAME, name, lambda: folder.change({f"{entry}.new": None, entry: image}))
        self.sync_folder(_split(name)[0])

    def create_whole(self, name: str, chunks: Sequence[Buffer]) -> None:
        self._check_on()
        folder, entry = self._parent(name)
        partial_name = f"{name}.{self.chance.getrandbits(64):016x}{PARTIAL_SUFFIX}"
        file = self.create(partial_name)
        image = self._image(partial_name)
        try:
            file.append(chunks)
            file.sync()
            if self.exists(name):
                raise _os_error(errno.EEXIST, name)
            self.perform(Operation.RENAME, name, lambda: folder.change({entry: image}))
        except OSError:
            self.remove(partial_name)
            raise
        finally:
            file.close()
        self.remove(partial_name)
        self.sync_folder(_split(name)[0])

    def rewrite(self, name: str, position: int) -> None:
        image = self._image(name)
        part = partial(image.write_again, position, self.chance)
        self.perform(Operation.REWRITE, name, partial(image.write_again, position), failed=part, stopped=part)
        self.open_append(name).sync()

    def remove(self, name: str) -> None:
        self._image(name)
        folder, entry = self._parent(name)
        self.perform(Operation.REMOVE, name, lambda: folder.change({entry: None}))

    def remove_folder(self, name: str) -> None:
        if self._folder(name).visible or self.list(name):
            raise _os_error(errno.ENOTEMPTY, name)
        self.perform(Operation.REMOVE, name, partial(self._tree.remove, name))
        self.sync_folder(_split(name)[0])

    def sync_folder(self, name: str) -> None:
        self._folder(name)
        self.perform(Operation.SYNC_FOLDER, name, partial(self._tree.sync, name))

    def lock(self, name: str) -> "SimDiskLock":
        self._check_on()
        folder, entry = self._parent(name)
        if name in self._locked:
            raise _os_error(errno.EAGAIN, name)
        if entry not in folder.visible:
            folder.change({entry: FileImage()})
        self.perform(Operation.LOCK, name, lambda: self._locked.add(name))
        return SimDiskLock(self._locked, name)

    def has_links(self) -> bool:
        self._check_on()
        return self.links

    def room(self) -> DiskRoom:
        self._check_on()
        if self.capacity_bytes is None:
            return DiskRoom(UNBOUNDED_BYTES, UNBOUNDED_BYTES)
        used = sum(len(image.visible) for image in self._images().values())
        return DiskRoom(max(0, self.capacity_bytes - used), self.capacity_bytes)

    # What its files ask

    def perform(
        self,
        operation: Operation,
        name: str,
        whole: Callable[[], object],
        *,
        failed: Callable[[], object] = _nothing,
        stopped: Callable[[], object] | None = None,
    ) -> None:
        """Do one change, or `failed` and raise OSError, or `stopped` (else all or nothing) and end this life."""
        self._check_on()
        self.changes_done += 1
        if self._stop_at is not None and self.changes_done >= self._stop_at:
            (stopped or self.chance.choice([whole, _nothing]))()
            self._off = True
            raise MachineOffError
        self.strike(operation, name, failed)
        whole()

    def strike(self, operation: Operation, name: str, failed: Callable[[], object] = _nothing) -> None:
        """Raise the OSError that was asked for this operation, if one was, after doing `failed`."""
        self._check_on()
        struck = [fault for fault in self._faults if fault.strikes(operation, name)]
        if struck:
            self.failed[operation] += 1
            failed()
            raise _os_error(struck[0].error, name)

    def fitting(self, size: int) -> int:
        """The part of `size` more bytes that fits."""
        if self.capacity_bytes is None:
            return size
        room = self.room().free_bytes
        if room < size:
            self.failed[Operation.APPEND] += 1
        return min(room, size)

    # Inside

    @property
    def _folders(self) -> dict[str, FolderImage]:
        return self._tree.visible

    def _next_life(self) -> "SimDisk":
        self._off = True
        disk = SimDisk()
        disk.chance = self.chance
        disk.capacity_bytes, disk.lying_sync = self.capacity_bytes, self.lying_sync
        disk._tree = self._tree
        return disk

    def _check_on(self) -> None:
        if self._off:
            raise MachineOffError

    def _images(self) -> dict[str, FileImage]:
        files = itertools.chain.from_iterable(
            ((f"{folder}/{entry}".lstrip("/"), image) for entry, image in inside.visible.items())
            for folder, inside in self._folders.items()
        )
        return dict(sorted(files, key=lambda file: file[0]))

    def _folder(self, name: str) -> FolderImage:
        self._check_on()
        if name not in self._folders:
            raise _os_error(errno.ENOTDIR if self.exists(name) else errno.ENOENT, name)
        return self._folders[name]

    def _parent(self, name: str) -> tuple[FolderImage, str]:
        parent, entry = _split(name)
        return self._folder(parent), entry

    def _image(self, name: str) -> FileImage:
        folder, entry = self._parent(name)
        if entry not in folder.visible:
            raise _os_error(errno.EISDIR if name in self._folders else errno.ENOENT, name)
        return folder.visible[entry]


class SimFile:
    """An open file of a `SimDisk`."""

    def __init__(self, disk: SimDisk, name: str, image: FileImage, *, writable: bool = True) -> None:
        self._disk = disk
        self._name = name
        self._image = image
        self._writable = writable
        self._open = True

    def append(self, chunks: Sequence[Buffer]) -> None:
        self._check_writable(errno.EBADF)
        data = b"".join(chunks)
        self._disk.perform(
            Operation.APPEND,
            self._name,
            lambda: self._write(data),
            failed=lambda: self._write_part(data),
            stopped=lambda: self._write_part(data),
        )

    def read(self, position: int, length: int) -> bytes:
        self._check_open()
        self._disk.strike(Operation.READ, self._name)
        return bytes(self._image.visible[position : position + length])

    def expect(self, position: int, length: int) -> None:
        """Nothing: memory has all of it at hand."""

    def size(self) -> int:
        self._check_open()
        return len(self._image.visible)

    def truncate(self, size: int) -> None:
        self._check_writable(errno.EINVAL)
        self._disk.perform(Operation.TRUNCATE, self._name, lambda: self._image.cut(size))

    def sync(self) -> None:
        self._check_open()
        self._disk.perform(
            Operation.SYNC,
            self._name,
            _nothing if self._disk.lying_sync else self._image.sync,
            failed=self._image.fail_sync,
        )

    def close(self) -> None:
        self._open = False

    def _write(self, data: bytes) -> None:
        fits = data[: self._disk.fitting(len(data))]
        if fits:
            self._image.write(fits)
        if len(fits) < len(data):
            raise _os_error(errno.ENOSPC, self._name)

    def _write_part(self, data: bytes) -> None:
        part = data[: self._disk.chance.randint(0, len(data))]
        if part:
            self._image.write(part)

    def _check_open(self) -> None:
        if self._disk.is_off:
            raise MachineOffError
        if not self._open:
            raise _os_error(errno.EBADF, self._name)

    def _check_writable(self, otherwise: int) -> None:
        self._check_open()
        if not self._writable:
            raise _os_error(otherwise, self._name)


class SimDiskLock:
    """A held lock of a `SimDisk`."""

    def __init__(self, locked: set[str], name: str) -> None:
        self._locked = locked
        self._name = name

    def release(self) -> None:
        self._locked.discard(self._name)


def _split(name: str) -> tuple[str, str]:
    parent, _, entry = name.rpartition("/")
    return parent, entry


def _os_error(number: int, name: str) -> OSError:
    return OSError(number, os.strerror(number), name)
