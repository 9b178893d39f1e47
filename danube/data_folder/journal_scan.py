"""Going through a journal past whatever is damaged in it. It reads only, a round at a time.

What is sound is told apart from what is damaged and what is torn by the rules of recovery (`journal/recovery.py`), but
where recovery refuses, this goes on: behind damaged bytes the next sound round header is looked for. One counts only
with the journal's id, which nobody outside knows, and its own position, so no payload can pose as one. In what is
damaged, envelopes and bodies are taken one after the other from where the round began, as long as each is sound.

Of a file that is missing its own index tells what was in it. Where there is none, nobody can say what was in bytes that
the next file, or the journal's mark, says were there. A file is missing as well where another one is in its place.
"""

import contextlib
import itertools
from collections import Counter
from collections.abc import Generator, Iterator
from dataclasses import dataclass

from danube.data_folder.findings import Finding, Level
from danube.model.errors import DamagedDataError, DataFolderError
from danube.runtime.disk import Disk, File
from danube.storage.batches.envelope import ENVELOPE_BYTES, Envelope, decode, is_body_of
from danube.storage.journal.file_index import FileIndex
from danube.storage.journal.folder import (
    ALL_GONE,
    FILE_GONE,
    FOLDER,
    FOLDER_GONE,
    JournalFolder,
    first_gone,
    first_path,
    folder_path,
    index_path,
    mark_path,
    path,
)
from danube.storage.journal.format import (
    FIRST_SEQUENCE,
    HEADER_BYTES,
    MARK_BYTES,
    ROUND_MAGIC,
    FileHeader,
    Mark,
    RoundHeader,
    decode_file_header,
    decode_round_header,
    newer_version,
)
from danube.storage.journal.index import FileStart, FileTable
from danube.storage.journal.scan import FileScan, Round

_WINDOW_BYTES = 1024 * 1024  # read at once

Entry = tuple[Envelope, int, bytes]
"""An envelope, its position in the journal, its body."""


@dataclass(frozen=True, slots=True)
class FileBegun:
    """A journal file, before its rounds."""

    sequence: int
    file: str
    base_position: int
    file_bytes: int
    header: FileHeader | None
    """None when it is damaged."""


@dataclass(frozen=True, slots=True)
class SoundRound:
    """A round, every byte of it checked."""

    sequence: int
    file: str
    at: int
    round: Round


@dataclass(frozen=True, slots=True)
class Broken:
    """Bytes that were synced once and are not what was written."""

    sequence: int
    file: str
    at: int
    end: int
    what: str
    kept: tuple[Entry, ...] = ()
    """Records in there that are sound all the same."""
    lost: tuple[tuple[Envelope, int], ...] = ()
    """Of records in there whose bodies are not: the envelope, and at which byte it is."""
    unknown_bytes: int = 0
    """In which nobody can say what was; behind all that is kept or lost in there."""
    unknown_end: int | None = None
    """The position in the journal behind those; None when it is not known."""
    is_open_ended: bool = False
    """Whether there may have been more behind them, nobody can say how much."""
    index: FileIndex | None = None
    """Of a file that is missing: what was in it."""


@dataclass(frozen=True, slots=True)
class Torn:
    """The end of the last file, that was being written when the process or the power went: no promise was made."""

    sequence: int
    file: str
    at: int
    end: int


Seen = FileBegun | SoundRound | Broken | Torn


class JournalScan:
    """One pass over a journal. `events` is gone through once; what is known then stands in the attributes.

    `has_begun` says that there was a journal once: then one that is not there is missing.
    """

    def __init__(self, disk: Disk, folder: str = FOLDER, *, has_begun: bool = False) -> None:
        self._disk = disk
        self._folder = folder
        self._has_begun = has_begun
        self._number: int | None = 0
        """Of the last round; None behind bytes in which there may have been any number of them."""
        self._position: int | None = None
        """Where the next file begins; None while that is not known."""
        self._said: int | None = None
        """The file that `first` names: it was synced before that was said."""
        self._is_empty = False
        """Whether there is no file at all that counts."""
        self._missing: list[int] = []
        """The files before the next one that are not there."""
        self._strangers: dict[int, tuple[int, str]] = {}
        """In whose places another file is: its bytes, and what it is."""
        self.journal_id = 0
        self.first_sequence = FIRST_SEQUENCE
        """Of the file with which the journal begins."""
        self.files = FileTable()
        self.mark: Mark | None = None
        """How far the journal is synced at least, as the file beside it says."""
        self.notes: list[Finding] = []
        """What is harmless."""
        self.end_position = 0
        self.synced_to = 0
        """As the headers say."""

    def events(self) -> Iterator[Seen]:
        """What there is, in order. Raises OSError, and DataFolderError for a journal of a later version."""
        sequences = yield from self._sequences()
        self._is_empty = not sequences
        self.journal_id = self.journal_id or self._identity(sequences)
        yield from self._read_mark()
        expected, last = self.first_sequence, self._last(sequences)
        for sequence in sequences:
            self._missing += range(expected, sequence)
            yield from self._file(sequence, is_last=sequence == last)
            expected = sequence + 1
        self._missing += range(expected, last + 1)
        yield from self._end(sequences)
        self.end_position = self._position or 0

    def _last(self, sequences: list[int]) -> int:
        """The last file that there is or was: that of the mark, and one behind each that has an index.

        Without a mark the last file may have an index all the same, as in recovery.
        """
        last = sequences[-1] if sequences else self.first_sequence - 1
        if not sequences and (self._has_begun or self._said is not None):
            last = self.first_sequence
        folder = JournalFolder(self._disk, self._folder)
        indexed = folder.indexed_sequences() if self._disk.exists(self._folder) else []
        spoken_of = [each for each in indexed if each > last]
        if self.mark is not None:
            spoken_of += [self.mark.sequence, *(each + 1 for each in indexed)]
        return max([last, *spoken_of])

    def _read_mark(self) -> Iterator[Seen]:
        folder, name = JournalFolder(self._disk, self._folder), mark_path(self._folder)
        mark = folder.read_mark()
        if mark is None and folder.has_mark:
            what = "this mark is not what was written: it is made again at the next start"
            self.notes.append(Finding(level=Level.NOTE, file=name, at=0, end=_size(self._disk, name), what=what))
        elif mark is not None and self.journal_id not in {0, mark.journal_id}:
            yield Broken(0, name, 0, MARK_BYTES, "it is of another journal", is_open_ended=True)
        else:
            self.mark = mark
            self.journal_id = self.journal_id or (mark.journal_id if mark is not None else 0)

    def _sequences(self) -> Generator[Seen, None, list[int]]:
        """The files that count, in order."""
        folder = JournalFolder(self._disk, self._folder)
        found = folder.sequences() if self._disk.exists(self._folder) else []
        try:
            first = folder.read_first()
        except DamagedDataError:
            name = first_path(self._folder)
            yield Broken(0, name, 0, _size(self._disk, name), "it should say where the journal begins")
            indexed = folder.indexed_sequences()  # a file that is not there any more may have been the first
            self.first_sequence = min([*found, *indexed], default=FIRST_SEQUENCE)
            return found
        if first is None:
            self._position = 0
            return found
        self.first_sequence = self._said = first.sequence
        self.journal_id = first.journal_id
        self._position, self._number = first.base_position, first.rounds_before
        what = "it was about to be removed: the next start removes it"
        leftovers = [path(one, self._folder) for one in found if one < first.sequence]
        self.notes += [Finding(level=Level.NOTE, file=name, at=0, end=0, what=what) for name in leftovers]
        return [one for one in found if one >= first.sequence]

    def _gone(self, end_position: int | None, *, is_open_ended: bool = False) -> Iterator[Broken]:
        """The files that are not there, up to a position; what no index of theirs explains was in the first without."""
        indexes = {sequence: self._index(sequence) for sequence in self._missing}
        explained = sum(one.end_position - one.contents.start.base_position for one in indexes.values() if one)
        is_known = end_position is not None and self._position is not None
        unknown = max((end_position or 0) - (self._position or 0) - explained, 0) if is_known else 0
        bare = [sequence for sequence, index in indexes.items() if index is None]
        nameless = self._nameless(bare)
        for sequence in self._missing[max(len(nameless) - 1, 0) :]:
            size, stranger = self._strangers.get(sequence, (0, FILE_GONE))
            file, what = (
                self._where_gone(nameless) if sequence in nameless else (path(sequence, self._folder), stranger)
            )
            yield Broken(
                sequence,
                file,
                0,
                size,
                what,
                unknown_bytes=unknown if sequence == (nameless[-1:] or bare or self._missing)[0] else 0,
                unknown_end=end_position,
                is_open_ended=sequence == self._missing[-1] and (is_open_ended or (bool(bare) and not is_known)),
                index=indexes[sequence],
            )
        self._missing.clear()
        self._number = None

    def _nameless(self, bare: list[int]) -> list[int]:
        """The missing files at the beginning that may be those that were cut and removed: nothing speaks of them."""
        if self._said is not None or self._missing[0] != FIRST_SEQUENCE:
            return []
        indexed = JournalFolder(self._disk, self._folder).indexed_sequences() if self._disk.exists(self._folder) else []
        silent = [one for one in bare if one not in self._strangers and one not in indexed]
        return [one for one, expected in zip(silent, itertools.count(FIRST_SEQUENCE), strict=False) if one == expected]

    def _where_gone(self, nameless: list[int]) -> tuple[str, str]:
        """What is missing instead of those: the journal as a whole, or what says where it begins."""
        if self._is_empty:
            return folder_path(self._folder), ALL_GONE if self._disk.exists(self._folder) else FOLDER_GONE
        return first_path(self._folder), first_gone(nameless[-1] + 1)

    def _index(self, sequence: int) -> FileIndex | None:
        """What was in a file that is not there."""
        try:
            size = _size(self._disk, index_path(sequence, self._folder))
        except OSError:
            return None
        index = JournalFolder(self._disk, self._folder).read_index(sequence, size)
        is_own = index is not None and (index.journal_id, index.contents.start.sequence) == (self.journal_id, sequence)
        return index if is_own else None

    def _end(self, sequences: list[int]) -> Iterator[Broken]:
        """What is missing at the end."""
        marked = self.mark.synced_to if self.mark is not None else None
        if self._missing:
            yield from self._gone(marked, is_open_ended=True)
        elif marked is not None and self._position is not None and self._position < marked:
            yield self._cut_short(sequences[-1], marked, is_open_ended=True)

    def _identity(self, sequences: list[int]) -> int:
        """The id that most files name; where no header is sound, that of the first round."""
        named: Counter[int] = Counter()
        for sequence in sequences:
            with contextlib.closing(self._disk.open_read(path(sequence, self._folder))) as file:
                header = decode_file_header(file.read(0, HEADER_BYTES))
                begun = decode_round_header(file.read(HEADER_BYTES, HEADER_BYTES))
            if header is not None:
                named[header.journal_id] += 2
            elif begun is not None:
                named[begun.journal_id] += 1
        return named.most_common(1)[0][0] if named else 0

    def _file(self, sequence: int, *, is_last: bool) -> Iterator[Seen]:
        name = path(sequence, self._folder)
        with contextlib.closing(self._disk.open_read(name)) as file:
            start, size = file.read(0, HEADER_BYTES + 1), file.size()
            if (version := newer_version(start)) is not None:
                raise DataFolderError(f"{name} has format version {version}: use the Danube that wrote it")
            marked = self.mark.sequence if self.mark is not None else None
            if is_last and size <= HEADER_BYTES and sequence not in {self._said, marked}:
                was_made = self._has_begun and sequence == FIRST_SEQUENCE and decode_file_header(start) is None
                yield self._emptied(sequence, size) if was_made else Torn(sequence, name, 0, size)  # it was being made
                return
            header = decode_file_header(start)
            if header is not None and (stranger := self._stranger(header, sequence)) is not None:
                self._missing.append(sequence)
                self._strangers[sequence] = size, stranger
                return
            base, trouble = self._base(header, file)
            if self._missing:
                yield from self._gone(base)
            elif header is not None and base is not None and self._position is not None and base > self._position:
                is_first = sequence == self.first_sequence
                yield self._begun_late(sequence, base) if is_first else self._cut_short(sequence - 1, base)
                self._number = None
            if base is None:
                yield Broken(sequence, name, 0, size, trouble, unknown_bytes=size, is_open_ended=is_last)
                self._position = self._number = None
                return
            if trouble:
                is_bare = is_last and size <= HEADER_BYTES  # nobody can say how much was behind what is marked
                yield Broken(sequence, name, 0, min(HEADER_BYTES, size), trouble, is_open_ended=is_bare)
            yield FileBegun(sequence, name, base, size, header)
            self.files.add(FileStart(sequence, base, self._number or 0))
            self.synced_to = max(self.synced_to, header.synced_to if header is not None else 0)
            yield from self._rounds(_Reading(sequence, name, file, base, is_last))

    def _stranger(self, header: FileHeader, sequence: int) -> str | None:
        """What a file is that is not the one of this name: then that one is missing, and its own index speaks for it.

        It may be a copy of one that stands in its own place, too: nothing in it is to be counted twice.
        """
        if header.journal_id != self.journal_id:
            return "it belongs to another journal"
        return f"it is file {header.sequence} of the journal" if header.sequence != sequence else None

    def _base(self, header: FileHeader | None, file: File) -> tuple[int | None, str]:
        """The position of a file's first byte, None when nothing says it; and what is wrong with its header."""
        if header is not None and (self._position is None or header.base_position >= self._position):
            return header.base_position, ""
        begun = decode_round_header(file.read(HEADER_BYTES, HEADER_BYTES))
        if begun is not None and begun.journal_id == self.journal_id and self._is_later(begun.position):
            return begun.position - HEADER_BYTES, "its header is not what was written"
        return None if self._missing else self._position, "its header is not what was written"

    def _is_later(self, position: int) -> bool:
        """Whether what is there is behind the file before, and not of a copy of that one or of an earlier one."""
        return not self.files.starts or position > self.files.starts[-1].base_position + HEADER_BYTES

    def _begun_late(self, sequence: int, base_position: int) -> Broken:
        """The first file, where the journal is said to begin before it."""
        missing_bytes = base_position - (self._position or 0)
        what = f"the journal begins {missing_bytes} bytes before it"
        name = path(sequence, self._folder)
        return Broken(sequence, name, 0, 0, what, unknown_bytes=missing_bytes, unknown_end=base_position)

    def _cut_short(self, sequence: int, end_position: int, *, is_open_ended: bool = False) -> Broken:
        name = path(sequence, self._folder)
        size, missing_bytes = _size(self._disk, name), end_position - (self._position or 0)
        what = f"the file ends {missing_bytes} bytes too early"
        return Broken(
            sequence,
            name,
            size,
            size,
            what,
            unknown_bytes=missing_bytes,
            unknown_end=end_position,
            is_open_ended=is_open_ended,
        )

    def _emptied(self, sequence: int, size: int) -> Broken:
        """The first file of a journal that was begun, and nothing tells what was in it."""
        what = "its header is not what was written"
        return Broken(sequence, path(sequence, self._folder), 0, size, what, is_open_ended=True)

    def _rounds(self, reading: "_Reading") -> Iterator[Seen]:
        scan = FileScan(reading.file, self.journal_id, reading.base)
        if self._number is None:
            following = next(self._headers(reading, scan.at, scan.size), None)
            self._number = following[1].number - 1 if following is not None else 0
        while True:
            at = scan.at
            while (found := scan.next((self._number or 0) + 1)) is not None:
                self._number = found.header.number
                self.synced_to = max(self.synced_to, found.header.synced_to)
                yield SoundRound(reading.sequence, reading.name, at, found)
                at = scan.at
            if at >= scan.size:
                break
            marked = self.mark.synced_to if self.mark is not None else 0
            if reading.is_last and reading.base + at >= marked and scan.claimed_beyond() is None:
                yield Torn(reading.sequence, reading.name, at, scan.size)
                break
            following = next(self._headers(reading, at + 1, scan.size), None)
            end = following[0] if following is not None else scan.size
            yield self._broken(reading, at, end)
            scan.at = end
            self._number = following[1].number - 1 if following is not None else None
            if following is None:
                break
        self._position = reading.base + scan.at

    def _headers(self, reading: "_Reading", start: int, size: int) -> Iterator[tuple[int, RoundHeader]]:
        """The sound headers of later rounds from a byte on, and where they are."""
        while start < size:
            content = reading.file.read(start, _WINDOW_BYTES)
            found = content.find(ROUND_MAGIC)
            while found >= 0:
                header = decode_round_header(reading.file.read(start + found, HEADER_BYTES))
                own = (self.journal_id, reading.base + start + found)
                if (
                    header is not None
                    and (header.journal_id, header.position) == own
                    and header.number > (self._number or 0)
                ):
                    yield start + found, header
                found = content.find(ROUND_MAGIC, found + 1)
            if len(content) < _WINDOW_BYTES:
                return
            start += len(content) - len(ROUND_MAGIC) + 1

    def _broken(self, reading: "_Reading", start: int, end: int) -> Broken:
        kept: list[Entry] = []
        lost: list[tuple[Envelope, int]] = []
        at = start + HEADER_BYTES
        while at + ENVELOPE_BYTES <= end:
            envelope = decode(reading.file.read(at, ENVELOPE_BYTES))
            if envelope is None:
                break
            body = reading.file.read(at + ENVELOPE_BYTES, min(envelope.body_bytes, end - at - ENVELOPE_BYTES))
            if is_body_of(envelope, body):
                kept.append((envelope, reading.base + at, body))
            else:
                lost.append((envelope, at))
            at += envelope.total_bytes
        return Broken(
            reading.sequence,
            reading.name,
            start,
            end,
            "a round is not what was written",
            tuple(kept),
            tuple(lost),
            max(end - min(at, end), 0),
            unknown_end=reading.base + end,
        )


@dataclass(frozen=True, slots=True)
class _Reading:
    """The file that is being gone through."""

    sequence: int
    name: str
    file: File
    base: int
    is_last: bool


def _size(disk: Disk, name: str) -> int:
    with contextlib.closing(disk.open_read(name)) as file:
        return file.size()
