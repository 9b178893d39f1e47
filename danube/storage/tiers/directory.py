"""Segments and manifests as files of a disk: of the broker's data folder, or of one that brokers share."""

import contextlib
from collections import OrderedDict
from collections.abc import Iterator, Sequence

from danube.model.limits.broker import (
    SEGMENT_OPEN_FILES_MAX,
    SEGMENT_READ_BYTES_MAX,
    SEGMENT_READS_AHEAD,
    TOPICS_PER_BROKER_MAX,
)
from danube.runtime.disk import PARTIAL_SUFFIX, Buffer, Disk, File
from danube.storage.tiers.tier import SegmentTier, Take


class DirectoryTier(SegmentTier):
    """Keeps each name as a file; the files read last stay open. Owned by one thread at a time."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._open: OrderedDict[str, File] = OrderedDict()
        self._tidy: set[str] = set()  # folders whose entries are durable, without leftovers of interrupted writers

    def put(self, name: str, chunks: Sequence[Buffer]) -> None:
        folder, _, _ = name.rpartition("/")
        if folder not in self._tidy:
            self._disk.make_folder(folder)
            self._tidy_up(folder)
        if not self._disk.exists(name):
            try:
                self._disk.create_whole(name, chunks)
                return
            except FileExistsError:
                pass  # another writer was faster
            except OSError:
                self._tidy.discard(folder)  # it may have left something
                raise
        if not self._holds(name, chunks):
            raise FileExistsError(f"{name} is there already, with other content")
        self._disk.sync_folder(folder)  # its writer may have died before that

    def read(self, name: str, position: int, length: int) -> bytes:
        return self._file(name).read(position, length)

    def expect(self, name: str, position: int, length: int) -> None:
        with contextlib.suppress(OSError):  # the read raises it
            self._file(name).expect(position, length)

    def read_run(self, name: str, position: int, lengths: Sequence[int]) -> Iterator[bytes]:
        _expect(self._file(name), position, sum(lengths))
        for length in lengths:
            yield self._file(name).read(position, length)
            position += length

    def open_run(self, name: str, position: int, length: int) -> Take:
        file, end = self._file(name), position + length
        _expect(file, position, length)

        def take(count: int) -> bytes:
            nonlocal position
            piece = file.read(position, min(count, end - position))
            position += len(piece)
            return piece

        return take

    def size(self, name: str) -> int:
        return self._file(name).size()

    def list(self, folder: str) -> list[str]:
        try:
            return [name for name in self._disk.list(folder) if not name.endswith(PARTIAL_SUFFIX)]
        except FileNotFoundError:
            return []

    def delete(self, name: str) -> None:
        self._close(name)
        with contextlib.suppress(FileNotFoundError):
            self._disk.remove(name)

    def delete_folder(self, folder: str) -> None:
        self.close_folder(folder)
        self._tidy.discard(folder)
        with contextlib.suppress(FileNotFoundError):
            for name in self._disk.list(folder):
                self.delete(f"{folder}/{name}")
            self._disk.remove_folder(folder)
            return
        with contextlib.suppress(FileNotFoundError):  # its remover may have died before that was durable
            self._disk.sync_folder(folder.rpartition("/")[0])

    def close_folder(self, folder: str) -> None:
        self._tidy.discard(folder)
        for name in [name for name in self._open if name.startswith(f"{folder}/")]:
            self._close(name)

    def close(self) -> None:
        for name in list(self._open):
            self._close(name)

    def _file(self, name: str) -> File:
        file = self._open.get(name)
        if file is None:
            file = self._open[name] = self._disk.open_read(name)
            if len(self._open) > SEGMENT_OPEN_FILES_MAX:
                self._close(next(iter(self._open)))
        self._open.move_to_end(name)
        return file

    def _close(self, name: str) -> None:
        file = self._open.pop(name, None)
        if file is not None:
            with contextlib.suppress(OSError):
                file.close()

    def _holds(self, name: str, chunks: Sequence[Buffer]) -> bool:
        file = self._file(name)
        position = 0
        for chunk in chunks:
            if file.read(position, len(chunk)) != chunk:
                return False
            position += len(chunk)
        return file.size() == position

    def _tidy_up(self, folder: str) -> None:
        """Remove what an interrupted writer left. Another's that is still at it fails, and tries again."""
        if len(self._tidy) >= TOPICS_PER_BROKER_MAX:
            self._tidy.clear()
        for name in self._disk.list(folder):
            if name.endswith(PARTIAL_SUFFIX):
                self.delete(f"{folder}/{name}")
        self._tidy.add(folder)


def _expect(file: File, position: int, length: int) -> None:
    """A reader of long runs reads in order: while it uses one, the disk fetches those after it."""
    is_long = 2 * length > SEGMENT_READ_BYTES_MAX
    file.expect(position, length * (1 + SEGMENT_READS_AHEAD) if is_long else length)
