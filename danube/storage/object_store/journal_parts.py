"""The numbered objects of one journal, and the copy of its files on a scratch disk. All of it blocks.

A number is taken once, by a put that succeeds only where there is no object. So the owner's sync, its claim at a start
and a new owner's fence all do the same: they take the next number. The one that comes second sees that it does.
"""

import contextlib
import errno
import logging
import threading
from collections.abc import Iterable

from danube.model.errors import DamagedDataError
from danube.model.limits.objects import OBJECT_READS_AHEAD, TAKE_ATTEMPTS_MAX
from danube.objects.bill import Cause
from danube.objects.retrying import RetryingStore
from danube.objects.store import ObjectInfo
from danube.runtime.disk import Buffer, Disk
from danube.storage.journal.format import file_name
from danube.storage.object_store.part_format import (
    HEADER_BYTES,
    Part,
    PartKind,
    decode_header,
    decode_part,
    encode_part,
    log_prefix,
    number_of,
    part_name,
    refuse_other_part,
)
from danube.storage.object_store.side_by_side import SideBySide

_log = logging.getLogger(__name__)


class PartTakenError(OSError):
    """Another process took the next number of the journal: this one writes nothing more to it."""


class JournalParts:
    """The objects of the journal in `folder`. `rounds` sends what its owner writes, `store` all else."""

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
        self.folder = folder
        self._store = store
        self._rounds = rounds
        self._scratch = scratch
        self._writer = writer
        self._ahead = ahead
        self._lock = threading.RLock()
        self._next = 0
        self._numbers: dict[int, list[int]] = {}
        """By sequence of a file: its objects."""
        self._sizes: dict[int, int] = {}
        """By sequence of a file: the bytes that are stored of it."""
        self._fences: list[bytes] = []
        self._is_proved = False
        """True if the last put showed that there was no fence, and nobody has looked since."""
        self.owned = False
        """True if this process has claimed the journal."""
        self.taken = False
        """True if another process took a number after that."""

    @property
    def is_fenced(self) -> bool:
        """True as soon as this process knows of a fence, or of another process that writes."""
        return self.taken or bool(self._fences)

    # Reading

    def refresh(self) -> None:
        """Read the objects that were added since, and bring the copy of the files up to them.

        Raises OSError, DamagedDataError.
        """
        with self._lock:
            if self.owned:
                return
            for part, payload in self._read(self._listed(self._next)):
                self._enter(part, payload)

    def sequences(self) -> list[int]:
        """Files of the journal, as last read."""
        with self._lock:
            return sorted(self._sizes)

    def size(self, sequence: int) -> int | None:
        """Stored bytes of a file, as last read; None when there is no such file."""
        with self._lock:
            return self._sizes.get(sequence)

    def exists(self) -> bool:
        """True if the journal has any object. Raises OSError."""
        return self.owned or self._next > 0 or bool(self._listed(0))

    def look(self) -> bool:
        """True if there is a fence now. The answer of a put since the last look is enough. Raises OSError."""
        with self._lock:
            if self.is_fenced:
                return True
            if self.owned and self._is_proved:
                self._is_proved = False
                return False
        return self._is_next_taken() if self.owned else self._ends_with_fence()

    def fence_content(self) -> bytes:
        """Records of the new owners. Raises OSError, FileNotFoundError for a journal without objects."""
        listed = self._listed(0)
        if not listed:
            raise FileNotFoundError(errno.ENOENT, "there is no journal", self.folder)
        found: list[bytes] = []
        for one in reversed(listed):
            decoded = self._decoded(one, self._store.get(one.name))
            if decoded[0].kind != PartKind.FENCE:
                break
            found.append(decoded[1])
        return b"".join(reversed(found))

    # Writing

    def claim(self) -> None:
        """Own the journal: read it, and take the next number, unless it is fenced. Raises OSError."""
        for _ in range(TAKE_ATTEMPTS_MAX):
            self.refresh()
            if self._fences or self.owned:
                return
            data = encode_part(PartKind.CLAIM, self._next, self._writer)
            try:
                self._store.charged_to(Cause.FENCE).put_if_absent(part_name(self.folder, self._next), [data])
            except FileExistsError:
                continue
            with self._lock:
                self._next += 1
                self.owned = self._is_proved = True
            return
        raise PartTakenError(errno.EBUSY, "another process writes to it all the time", self.folder)

    def fence(self, payload: bytes) -> None:
        """Take the next number for a new owner. Idempotent but for the payload. Raises OSError."""
        listed = self._listed(0)
        number = _after(listed)
        store = self._store.charged_to(Cause.FENCE)
        for attempt in range(number, number + TAKE_ATTEMPTS_MAX):
            data = encode_part(PartKind.FENCE, attempt, self._writer, payload)
            with contextlib.suppress(FileExistsError):  # the owner was faster: what it wrote will be read
                store.put_if_absent(part_name(self.folder, attempt), [data])
                return
        raise PartTakenError(errno.EBUSY, "its owner writes all the time", self.folder)

    def write(self, sequence: int, position: int, chunks: list[Buffer]) -> int:
        """Store bytes of a file as one object; answers how many. Raises PartTakenError, OSError."""
        payload = b"".join(chunks)
        if self.is_fenced or not self.owned:
            raise PartTakenError(errno.ESTALE, "another process has taken the next object", self.folder)
        number = self._next
        data = encode_part(PartKind.DATA, number, self._writer, payload, sequence=sequence, position=position)
        try:
            self._rounds.put_if_absent(part_name(self.folder, number), [data])
        except FileExistsError as error:
            self.taken = True
            raise PartTakenError(errno.ESTALE, "another process has taken the next object", self.folder) from error
        self._note_stored(number, data)
        with self._lock:
            self._next = number + 1
            self._numbers.setdefault(sequence, []).append(number)
            self._sizes[sequence] = position + len(payload)
            self._is_proved = True
        return len(payload)

    def remove(self, sequence: int) -> None:
        """Delete the objects of a file of this process's own journal. Raises OSError."""
        with self._lock:
            numbers = self._numbers.get(sequence, [])
        self._store.charged_to(Cause.SEGMENT).delete(part_name(self.folder, one) for one in numbers)
        with self._lock:
            self._numbers.pop(sequence, None)
            self._sizes.pop(sequence, None)

    def remove_all(self) -> None:
        """Delete all but the last object, which is the fence: a late owner must never find its number free."""
        names = [one.name for one in self._listed(0)]
        self._store.charged_to(Cause.SEGMENT).delete(names[:-1])

    # Inside

    def _listed(self, first: int) -> list[ObjectInfo]:
        after = part_name(self.folder, first - 1) if first else ""
        found = self._store.listing(log_prefix(self.folder), after)
        return [one for one in found if number_of(one.name) is not None]

    def _read(self, listed: list[ObjectInfo]) -> Iterable[tuple[Part, bytes]]:
        for first in range(0, len(listed), OBJECT_READS_AHEAD):
            some = listed[first : first + OBJECT_READS_AHEAD]
            for found in self._ahead.run([lambda one=one: self._got(one) for one in some]):  # type: ignore[misc]
                if found is not None:  # else its owner has removed it meanwhile, with the file that it was of
                    yield found

    def _got(self, one: ObjectInfo) -> tuple[Part, bytes] | None:
        try:
            data = self._store.get(one.name)
        except FileNotFoundError:
            return None
        found = self._decoded(one, data)
        self._note_stored(found[0].number, data)
        return found

    def _decoded(self, one: ObjectInfo, data: bytes) -> tuple[Part, bytes]:
        decoded = decode_part(data, one.name)
        if decoded is None:
            raise DamagedDataError(
                f"the object {one.name} is damaged: it is not what was written. Restore it from a backup, or by the"
                " versions that the bucket keeps"
            )
        return decoded

    def _enter(self, part: Part, payload: bytes) -> None:
        """Apply the next object. A file with a hole is none: its owner was about to remove it."""
        self._next = part.number + 1
        if part.kind == PartKind.FENCE:
            self._fences.append(payload)
        if part.kind != PartKind.DATA:
            return
        sequence, size = part.sequence, self._sizes.get(part.sequence, 0)
        if part.position > size:
            if sequence in self._sizes:
                _log.warning("%s of %s lacks an object before number %d", file_name(sequence), self.folder, part.number)
            self._sizes.pop(sequence, None)
            return
        self._write_copy(sequence, part.position, payload)
        self._numbers.setdefault(sequence, []).append(part.number)
        self._sizes[sequence] = part.position + part.length

    def _note_stored(self, number: int, data: bytes) -> None:
        """Learn what is in an object; nothing is kept of it here."""

    def _write_copy(self, sequence: int, position: int, payload: bytes) -> None:
        name = f"{self.folder}/{file_name(sequence)}"
        if sequence not in self._sizes:
            self._scratch.make_folder(self.folder)
            if self._scratch.exists(name):
                self._scratch.remove(name)
            self._scratch.create(name).close()
        with contextlib.closing(self._scratch.open_append(name)) as file:
            if file.size() > position:
                file.truncate(position)
            file.append([payload])

    def _is_next_taken(self) -> bool:
        """Look at the next number. What is there may be of this process: another thread may be about to write it."""
        name = part_name(self.folder, self._next)
        try:
            header = decode_header(self._store.charged_to(Cause.FENCE).get(name, 0, HEADER_BYTES))
        except FileNotFoundError:
            return False
        if header is not None and header.writer == self._writer:
            return False
        self.taken = True
        return True

    def _ends_with_fence(self) -> bool:
        """Look at the last object alone. Raises NewerDataFolderError, FileNotFoundError for no object."""
        listed = self._listed(0)
        if not listed:
            raise FileNotFoundError(errno.ENOENT, "there is no journal", self.folder)
        start = self._store.charged_to(Cause.FENCE).get(listed[-1].name, 0, HEADER_BYTES)
        refuse_other_part(listed[-1].name, start)
        header = decode_header(start)
        return header is not None and header.kind == PartKind.FENCE


def _after(listed: list[ObjectInfo]) -> int:
    """The number after the last object."""
    return (number_of(listed[-1].name) or 0) + 1 if listed else 0
