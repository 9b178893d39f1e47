"""Open files of an `ObjectDisk`: a journal's, its fence, and whole objects. All of it blocks."""

from collections.abc import Sequence

from danube.runtime.disk import Buffer, File
from danube.storage.object_store.journal_parts import JournalParts
from danube.storage.object_store.local_parts import LocalParts


class JournalObjectFile:
    """A file of the own journal: what was appended since the last sync becomes one object at the next."""

    def __init__(self, parts: JournalParts, sequence: int, copy: File, *, stored: int) -> None:
        self._parts = parts
        self._sequence = sequence
        self._copy = copy
        self._base = stored
        """Where the next object begins."""
        self._stored = stored
        """Bytes that are stored."""
        self._waiting: list[Buffer] = []

    def append(self, chunks: Sequence[Buffer]) -> None:
        self._copy.append(chunks)
        self._waiting += chunks

    def read(self, position: int, length: int) -> bytes:
        return self._copy.read(position, length)

    def expect(self, position: int, length: int) -> None:
        self._copy.expect(position, length)

    def size(self) -> int:
        return self._copy.size()

    def truncate(self, size: int) -> None:
        self._copy.truncate(size)
        waiting = b"".join(self._waiting)
        if size < self._base:
            self._base, self._waiting = size, []
        else:
            self._waiting = [waiting[: size - self._base]] if size > self._base else []

    def sync(self) -> None:
        if self._base == self._stored and not any(self._waiting):
            return
        length = self._parts.write(self._sequence, self._base, self._waiting)
        self._base = self._stored = self._base + length
        self._waiting = []

    def close(self) -> None:
        self._copy.close()


class LocalJournalFile:
    """A file of the own journal that is durable on the disk, and uploaded behind that."""

    def __init__(self, parts: LocalParts, sequence: int, file: File) -> None:
        self._parts = parts
        self._sequence = sequence
        self._file = file
        self.append, self.read, self.expect = file.append, file.read, file.expect
        self.size, self.truncate, self.close = file.size, file.truncate, file.close

    def sync(self) -> None:
        self._file.sync()
        self._parts.note_synced(self._sequence, self._file.size())


class FixedFile:
    """A file that is only read."""

    def append(self, chunks: Sequence[Buffer]) -> None:
        del chunks
        raise OSError("the file is open for reading")

    def expect(self, position: int, length: int) -> None:
        del position, length

    def truncate(self, size: int) -> None:
        del size
        raise OSError("the file is open for reading")

    def sync(self) -> None:
        return None

    def close(self) -> None:
        return None


class ReadJournalFile(FixedFile):
    """A file of a journal, by its copy; one that grew is read further."""

    def __init__(self, parts: JournalParts, sequence: int, copy: File) -> None:
        self._parts = parts
        self._sequence = sequence
        self._copy = copy

    def read(self, position: int, length: int) -> bytes:
        if not self._parts.owned and position + length > self._copy.size():
            self._parts.refresh()
        return self._copy.read(position, length)

    def expect(self, position: int, length: int) -> None:
        self._copy.expect(position, length)

    def size(self) -> int:
        return self._copy.size()

    def close(self) -> None:
        self._copy.close()


class FenceFile(FixedFile):
    """The fence of a journal as the file that it is elsewhere: any byte in it is a fence.

    Its owner creates it, which claims the journal. Others append to it, and the sync takes the next number.
    """

    def __init__(self, parts: JournalParts, *, claims: bool) -> None:
        self._parts = parts
        self._claims = claims
        self._waiting: list[Buffer] = []

    def append(self, chunks: Sequence[Buffer]) -> None:
        self._waiting += chunks

    def read(self, position: int, length: int) -> bytes:
        if length > 1:
            return self._parts.fence_content()[position : position + length]
        return b"\x01"[: int(self._parts.look())]

    def size(self) -> int:
        return 0

    def sync(self) -> None:
        if self._claims:
            self._parts.claim()
        elif self._waiting:
            self._parts.fence(b"".join(self._waiting))


class WholeFile(FixedFile):
    """A whole object, read at once."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def read(self, position: int, length: int) -> bytes:
        return self._data[position : position + length]

    def size(self) -> int:
        return len(self._data)
