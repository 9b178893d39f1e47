"""A journal that is acknowledged by the sync of its owner's disk, and uploaded behind that. All of it blocks.

The files on the scratch disk are what counts while that disk is there; the numbered objects are what is left without
it. The objects are a beginning of the files: uploads go in order, and a file leaves disk and store only after all that
was synced is uploaded, `first` too, so that the bucket alone is a sound journal at any time.
"""

import contextlib
import errno
import logging

from danube.model.limits.objects import BATCH_BYTES
from danube.objects.bill import Cause
from danube.objects.retrying import RetryingStore
from danube.objects.store import ObjectInfo
from danube.runtime.disk import Buffer, Disk, content_of, file_size
from danube.storage.journal.folder import first_path
from danube.storage.journal.format import file_name, file_sequence
from danube.storage.object_store.journal_parts import JournalParts, PartTakenError
from danube.storage.object_store.part_format import HEADER_BYTES, Part, PartKind, decode_header, number_of
from danube.storage.object_store.side_by_side import SideBySide

UPLOADED = "uploaded"
"""File beside a journal on the disk: headers of its objects, which a restarted owner need not read again.

It is a hint. What is missing or damaged in it is read from the store.
"""
NOT_UPLOADED = "not-uploaded"
"""File in the folder of a journal on a disk that was taken over before all of it was uploaded: it is kept."""

_log = logging.getLogger(__name__)


class LocalParts(JournalParts):
    """The objects of a journal whose files on `scratch` are kept over restarts."""

    _synced: dict[int, int]
    """By sequence of a file that this process owns: bytes that are durable on the disk."""
    _leaving: set[int]
    """Files that are not needed any more, and go once `first` is uploaded."""
    _is_first_due: bool
    _headers: dict[int, bytes]
    """By number: headers of objects, as far as they are known."""

    def __init__(
        self,
        folder: str,
        store: RetryingStore,
        rounds: RetryingStore,
        scratch: Disk,
        *,
        writer: int,
        ahead: SideBySide,
    ) -> None:
        super().__init__(folder, store, rounds, scratch, writer=writer, ahead=ahead)
        self._synced, self._leaving, self._is_first_due, self._headers = {}, set(), False, {}
        self._are_headers_read = False

    @property
    def waiting_bytes(self) -> int:
        """Synced on the disk, and not yet uploaded."""
        with self._lock:
            return sum(max(size - self._sizes.get(one, 0), 0) for one, size in self._synced.items())

    @property
    def has_leaving(self) -> bool:
        """True while files that are not needed wait for their removal."""
        return bool(self._leaving) or self._is_first_due

    def refresh(self) -> None:
        if not self._are_headers_read:
            self._read_headers()
        super().refresh()

    def claim(self) -> None:
        super().claim()
        found = self._on_disk()
        if not self.owned:
            lost = {one: size - self._sizes.get(one, 0) for one, size in found.items()}
            if (count := sum(size for size in lost.values() if size > 0)) > 0:
                self._scratch.replace_file(f"{self.folder}/{NOT_UPLOADED}", b"")
                _log.error(
                    "another broker has taken over the topics of %s before its last %d bytes were uploaded: what was"
                    " acknowledged in them is lost to the cluster. They stay on this disk, in that folder of"
                    " object-journal",
                    *(self.folder, count),
                )
            return
        with self._lock:
            self._is_first_due = self._scratch.exists(first_path(self.folder))
            for sequence in found:  # the last is judged by the recovery, which syncs it then
                self._synced[sequence] = found[sequence] if sequence != max(found) else 0
        if found:
            self._rewrite_headers()

    def sequences(self) -> list[int]:
        with self._lock:
            return sorted({*self._sizes, *self._synced} - self._leaving)

    def size(self, sequence: int) -> int | None:
        with self._lock:
            if sequence in self._leaving:
                return None
            sizes = [one[sequence] for one in (self._sizes, self._synced) if sequence in one]
        return max(sizes, default=None)

    def look(self) -> bool:
        """As for any journal; but a store that does not answer stops nobody here."""
        if not self.owned:
            return super().look()
        if self._store.outage.since_s is not None:
            return self.is_fenced
        try:
            return super().look()
        except OSError:
            return self.is_fenced

    def note_synced(self, sequence: int, size: int) -> None:
        """Learn that a file is durable up to here. Raises PartTakenError once the journal is another broker's."""
        if self.is_fenced or not self.owned:
            raise PartTakenError(errno.ESTALE, "another process has taken the next object", self.folder)
        with self._lock:
            if size < self._sizes.get(sequence, 0):
                raise OSError(errno.EIO, "the disk has lost what is in the object store", self.folder)
            self._synced[sequence] = size
            self._is_proved = True  # the disk answers for it, not the store: nothing is looked up in a round

    def note_first(self) -> None:
        """Learn that the file `first` on the disk has changed."""
        self._is_first_due = True

    def remove(self, sequence: int) -> None:
        """Remove a file once `upload` has come to it; one that was never uploaded goes at once."""
        with self._lock:
            if sequence in self._numbers:
                self._leaving.add(sequence)
                return
            self._synced.pop(sequence, None)
        self._drop_copy(sequence)

    def upload(self) -> None:
        """Upload all that is synced by now, then remove what is not needed. Raises PartTakenError, OSError."""
        if not self.owned:
            return
        with self._lock:
            wanted, leaving, is_first_due = sorted(self._synced.items()), sorted(self._leaving), self._is_first_due
        for sequence, size in wanted:
            while (position := self._sizes.get(sequence, 0)) < size:
                self.write(sequence, position, [self._read_copy(sequence, position, size)])
        if is_first_due:
            self._is_first_due = False
            try:
                self._put_first()
            except OSError:
                self._is_first_due = True
                raise
        for sequence in leaving:
            self._drop(sequence)

    def _drop(self, sequence: int) -> None:
        super().remove(sequence)
        self._drop_copy(sequence)
        with self._lock:
            self._synced.pop(sequence, None)
            self._leaving.discard(sequence)
        self._rewrite_headers()

    def _drop_copy(self, sequence: int) -> None:
        name = f"{self.folder}/{file_name(sequence)}"
        if self._scratch.exists(name):
            self._scratch.remove(name)

    def _put_first(self) -> None:
        name = first_path(self.folder)
        self._store.charged_to(Cause.JOURNAL).put(name, [content_of(self._scratch, name)])

    def _read_copy(self, sequence: int, position: int, size: int) -> bytes:
        with contextlib.closing(self._scratch.open_read(f"{self.folder}/{file_name(sequence)}")) as file:
            return file.read(position, min(size - position, BATCH_BYTES))

    def _write_copy(self, sequence: int, position: int, payload: bytes) -> None:
        """Keep what is there: the disk is at least as far as the store, unless it is another disk."""
        name = f"{self.folder}/{file_name(sequence)}"
        if self._scratch.exists(name):
            with contextlib.closing(self._scratch.open_read(name)) as file:
                if file.size() >= position + len(payload):
                    return
        self._scratch.make_folder(self.folder)
        if not self._scratch.exists(name):
            self._scratch.create(name).close()
        with contextlib.closing(self._scratch.open_append(name)) as file:
            file.truncate(position)
            file.append([payload])
            file.sync()

    def write(self, sequence: int, position: int, chunks: list[Buffer]) -> int:
        length = super().write(sequence, position, chunks)
        name = f"{self.folder}/{UPLOADED}"
        with contextlib.suppress(OSError):
            file = self._scratch.open_append(name) if self._scratch.exists(name) else self._scratch.create(name)
            with contextlib.closing(file):
                file.append([self._headers[self._next - 1]])
        return length

    def _note_stored(self, number: int, data: bytes) -> None:
        self._headers[number] = data[:HEADER_BYTES]

    def _got(self, one: ObjectInfo) -> tuple[Part, bytes] | None:
        """As for any journal, but without a request where the bytes are on this disk."""
        number = number_of(one.name)
        part = decode_header(self._headers.get(number, b"")) if number is not None else None
        if part is not None and part.kind == PartKind.DATA and one.size == HEADER_BYTES + part.length:
            with contextlib.suppress(FileNotFoundError):
                if file_size(self._scratch, f"{self.folder}/{file_name(part.sequence)}") >= part.position + part.length:
                    return part, b""
        return super()._got(one)

    def _read_headers(self) -> None:
        self._are_headers_read = True
        name = f"{self.folder}/{UPLOADED}"
        content = content_of(self._scratch, name) if self._scratch.exists(name) else b""
        for at in range(0, len(content), HEADER_BYTES):
            header = content[at : at + HEADER_BYTES]
            if (part := decode_header(header)) is not None:
                self._headers[part.number] = header

    def _rewrite_headers(self) -> None:
        kept = {number for numbers in self._numbers.values() for number in numbers}
        self._headers = {number: header for number, header in self._headers.items() if number in kept}
        with contextlib.suppress(OSError):  # a hint: what is not in it is read from the store
            self._scratch.replace_file(f"{self.folder}/{UPLOADED}", b"".join(self._headers.values()))

    def _on_disk(self) -> dict[int, int]:
        if not self._scratch.exists(self.folder):
            return {}
        found: dict[int, int] = {}
        for name in self._scratch.list(self.folder):
            if (sequence := file_sequence(name)) is not None:
                with contextlib.closing(self._scratch.open_read(f"{self.folder}/{name}")) as file:
                    found[sequence] = file.size()
        return found
