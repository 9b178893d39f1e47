"""Walker through a journal's files: it tells sound rounds, a torn end and damage apart. It reads only, and blocks.

A round that fails its checks is damaged or torn by the rules of `danube/logfile/frames.py`. One that is torn is not
missed.

The walk ends at the first damage, which it raises: for recovery, and for a broker that takes topics over. Where damage
is to be gone past, `danube/data_folder/journal_scan.py` overrides what is raised here.
"""

import contextlib
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import NamedTuple, NoReturn

from danube.logfile.frames import FrameReader, Known
from danube.model.errors import DamagedDataError, DataFolderError
from danube.runtime.checksum import other_version
from danube.runtime.disk import File
from danube.storage.batches.envelope import ENVELOPE_BYTES, Envelope, decode, is_body_of
from danube.storage.journal.contents import FileIndex
from danube.storage.journal.folder import (
    ALL_GONE,
    FILE_GONE,
    JournalFolder,
    damaged,
    first_gone,
    first_path,
    folder_path,
    mark_path,
    next_step_in,
)
from danube.storage.journal.format import (
    FIRST_SEQUENCE,
    HEADER_BYTES,
    ROUND,
    VERSION,
    FileHeader,
    FirstFile,
    Mark,
    RoundHeader,
    decode_file_header,
    newer_version,
)
from danube.storage.journal.index import FileStart, FileTable

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
    is_last: bool
    rounds_before: int
    """Rounds of the journal before its first one."""

    @property
    def start(self) -> FileStart:
        """Its place in the journal."""
        return FileStart(self.sequence, self.base_position, self.rounds_before)


class SoundRound(NamedTuple):
    """A round, every byte of it checked."""

    begun: FileBegun
    header: RoundHeader
    entries: list[Entry]

    @property
    def file(self) -> str:
        """The name of its file within the data folder."""
        return self.begun.file

    @property
    def at(self) -> int:
        """The byte of the file at which it begins."""
        return self.header.position - self.begun.base_position

    @property
    def size_bytes(self) -> int:
        """Its length, the header included."""
        return HEADER_BYTES + self.header.content_bytes


@dataclass(frozen=True, slots=True)
class Torn:
    """The end of the last file, that was being written when the process or the power went: no promise was made.

    From byte 0 on when the file holds no round: its creation was cut off, or its sync failed. Then even a header that
    looks sound may never reach the disk.
    """

    sequence: int
    file: str
    at: int
    end: int


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes that were synced once and are not what was written. A walk that ends at damage raises it instead."""

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
    """True if there may have been more behind them; how much is unknown."""
    index: FileIndex | None = None
    """Of a file that is missing: what was in it."""


Event = FileBegun | SoundRound | Torn | Damage


class RoundReader(FrameReader[RoundHeader]):
    """The rounds of one file, from the first on."""

    def __init__(self, file: File, begun: FileBegun, journal_id: int) -> None:
        super().__init__(
            file,
            ROUND,
            lambda header: header.journal_id == journal_id,
            start=HEADER_BYTES,
            base_position=begun.base_position,
        )
        self._begun = begun

    def next(self, number: int) -> SoundRound | None:
        """The next round, which must have this number; None at the end of what is sound."""
        header = self.header()
        if header is None or header.number != number:
            return None
        entries = _entries(header, *self.content(header))
        if entries is None:
            return None
        self.go_past(header)
        return SoundRound(self._begun, header, entries)


def _entries(header: RoundHeader, window: bytes, at: int) -> list[Entry] | None:
    """The records of a round whose content begins at a byte of the window; None when they are not what was written."""
    entries: list[Entry] = []
    end, to_position = at + header.content_bytes, header.position + HEADER_BYTES - at
    while at < end:
        envelope = decode(window, at)
        if envelope is None:
            return None
        following = at + envelope.total_bytes
        body = window[at + ENVELOPE_BYTES : following]
        if following > end or not is_body_of(envelope, body):
            return None
        entries.append((envelope, to_position + at, body))
        at = following
    return entries if len(entries) == header.envelopes else None


class JournalWalker:
    """One pass over a journal that has to be whole. `list_files`, then `events`, which are gone through once.

    Both raise DamagedDataError at the first damage, DataFolderError for a file of a later version, and OSError.
    """

    def __init__(
        self, folder: JournalFolder, *, has_begun: bool = False, broker_id: int | None = None, journal_id: int = 0
    ) -> None:
        """`has_begun` says that there was a journal once: then one that is not there is missing.

        `broker_id` is of the one broker that may have written it, `journal_id` the journal that is meant, where known.
        """
        self._folder = folder
        self._has_begun = has_begun
        self._broker_id = broker_id
        self._meant_id = journal_id
        self.is_mark_unknown = False
        """True if there is a mark that cannot be read, at least not now."""
        self._is_passed_over = False
        self._number: int | None = 0
        """Of the last round; None behind damage in which there may have been any number of them."""
        self._position: int | None = 0
        """Where the next file begins; None while that is not known."""
        self.journal_id = journal_id
        self.mark: Mark | None = None
        """How far the journal is synced at least, as the file beside it says."""
        self.first: FirstFile | None = None
        self.first_sequence = FIRST_SEQUENCE
        """Of the file with which the journal begins."""
        self.sequences: list[int] = []
        self.indexed: list[int] = []
        """Of the files that have an index, whether they are there or not."""
        self.last_sequence = 0
        """Of the last file that there is, or was."""
        self.files = FileTable()
        self.synced_to = 0
        """The highest position that a sound header says was synced."""

    @property
    def end_position(self) -> int:
        """The end of what was walked through."""
        return self._position or 0

    def _last(self) -> int:
        """The last file that there is or was: that of the mark, and one behind each that has an index.

        The index of a file is made when the next one is there.
        """
        last = self.sequences[-1] if self.sequences else self.first_sequence - 1
        if not self.sequences and (self._has_begun or self.first is not None):
            last = self.first_sequence
        marked = [self.mark.sequence] if self.mark is not None else []
        return max([last, *marked, *(each + 1 for each in self.indexed)])

    def list_files(self) -> None:
        """Find the files that count, and refuse the journal when some are missing.

        The mark is read before what it speaks of, as a file and its index are before the file behind it: the journal's
        owner may be writing meanwhile.
        """
        self.mark = self._read_mark()
        self.first = self._folder.read_first()
        if self.first is not None:
            self._begin_at(self.first)
        self.indexed = self._folder.indexed_sequences()
        self.sequences = [one for one in self._folder.sequences() if one >= self.first_sequence]
        if self._meant_id:
            if self.first is not None and self.first.journal_id != self._meant_id:
                self._refuse(self.first_sequence, 0, self._other_journal)
        elif self.first is None:
            self._check_beginning([*self.sequences, *self.indexed])
        self.last_sequence = self._last()
        missing = set(range(self.first_sequence, self.last_sequence + 1)).difference(self.sequences)
        if missing:
            self._refuse(min(missing), 0, FILE_GONE)

    def _check_beginning(self, spoken_of: list[int]) -> None:
        """Without `first`, the journal begins with its first file, and has files when it has begun."""
        if not self.sequences and (self._has_begun or self.mark is not None or spoken_of):
            raise self.gone(folder_path(self._folder.name), ALL_GONE, "folder")
        if spoken_of and min(spoken_of) > FIRST_SEQUENCE:
            raise self.gone(first_path(self._folder.name), first_gone(min(spoken_of)), "file")

    def events(self) -> Iterator[Event]:
        """The events in order."""
        for sequence in self.sequences:
            yield from self._file(sequence)
        mark = self.mark
        if mark is None or not self.files:
            return
        if mark.journal_id != self.journal_id:
            self._refuse(self.sequences[0], 0, f"{mark_path(self._folder.name)} is of another journal")
        if self.end_position < mark.synced_to:
            last = self.files.starts[-1]
            self._refuse(last.sequence, self.end_position - last.base_position, self._short_of_mark(last.base_position))

    def pass_over(self, last_round: int) -> None:
        """Leave out the rounds of the file that has just begun, of which this is the last: they are known."""
        self._is_passed_over = True
        self._number = last_round

    def _read_mark(self) -> Mark | None:
        mark = self._folder.mark.read()
        self.is_mark_unknown = mark is None and self._folder.mark.exists
        return mark

    def _begin_at(self, first: FirstFile) -> None:
        self.first_sequence, self.journal_id = first.sequence, first.journal_id
        self._position, self._number = first.base_position, first.rounds_before

    def _file(self, sequence: int) -> Iterator[Event]:
        name = self._folder.path(sequence)
        with contextlib.closing(self._folder.disk.open_read(name)) as file:
            start, size = file.read(0, HEADER_BYTES + 1), file.size()
            if (version := newer_version(start)) is not None:
                raise other_version(name, version, VERSION)
            header = decode_file_header(start)
            if self._is_bare(sequence, start, header):
                self._check_bare(sequence, header)
                yield Torn(sequence, name, 0, size)
            else:
                yield from self._enter(sequence, file, header)

    def _is_bare(self, sequence: int, start: bytes, header: FileHeader | None) -> bool:
        """True for a last file without rounds, unless it was synced before something spoke of it.

        So it was if the journal is said to have begun with it, to begin with it now, or to be marked in it; or may be,
        as long as the mark cannot be read. Metadata may name the journal id of the first one.
        """
        said = {one.sequence for one in (self.first, self.mark) if one is not None}
        if sequence != self.last_sequence or len(start) > HEADER_BYTES or sequence in said:
            return False
        is_first = sequence == FIRST_SEQUENCE
        return not (self._has_begun and is_first) and not ((is_first or self.is_mark_unknown) and header is not None)

    def _check_bare(self, sequence: int, header: FileHeader | None) -> None:
        if header is not None:
            self._check_header(sequence, header)
            self.synced_to = max(self.synced_to, header.synced_to)

    def _enter(self, sequence: int, file: File, header: FileHeader | None) -> Iterator[Event]:
        header = self._check_header(sequence, header)
        self.journal_id = header.journal_id
        yield from self._rounds(self._begun(sequence, file, header.base_position, header), file)

    def _check_header(self, sequence: int, header: FileHeader | None) -> FileHeader:
        """A file's header, which has to go on where the file before it ended."""
        journal_id, position = self.journal_id or (header.journal_id if header is not None else 0), self.end_position
        if not self.files and self._meant_id and (header is None or header.journal_id != self._meant_id):
            self._refuse(sequence, 0, self._other_journal)
        if header is None:
            self._refuse(sequence, 0, "its header is not what was written")
        if self._broker_id not in {None, header.broker_id}:
            raise DataFolderError(
                f"{self._folder.path(sequence)} belongs to broker {header.broker_id}, this is broker "
                f"{self._broker_id}: give each broker a data folder of its own"
            )
        missing_bytes = header.base_position - position
        if self.files and (header.sequence, header.journal_id) == (sequence, journal_id) and missing_bytes > 0:
            before = self.files.starts[-1]
            what = f"the file ends {missing_bytes} bytes too early"
            self._refuse(before.sequence, position - before.base_position, what)
        if (header.sequence, header.base_position, header.journal_id) != (sequence, position, journal_id):
            self._refuse(sequence, 0, "it does not go on where the file before it ended")
        return header

    def _begun(self, sequence: int, file: File, base_position: int, header: FileHeader | None) -> FileBegun:
        begun = FileBegun(
            sequence=sequence,
            file=self._folder.path(sequence),
            base_position=base_position,
            file_bytes=file.size(),
            header=header,
            is_last=sequence == self.last_sequence,
            rounds_before=self._number or 0,
        )
        self.files.add(begun.start)
        self.synced_to = max(self.synced_to, header.synced_to if header is not None else 0)
        return begun

    def _rounds(self, begun: FileBegun, file: File) -> Iterator[Event]:
        """The file and its rounds."""
        yield begun
        if self._is_passed_over:
            self._is_passed_over, self._position = False, begun.base_position + begun.file_bytes
            return
        reader, is_over = RoundReader(file, begun, self.journal_id), False
        self._find_number(reader)
        while not is_over:
            while (found := reader.next((self._number or 0) + 1)) is not None:
                header = found.header
                self._number = header.number
                self.synced_to = max(self.synced_to, header.synced_to)
                yield found
            if reader.at >= reader.size:
                break
            fault = self._fault_at(begun, reader)
            if fault is None:
                yield Torn(begun.sequence, begun.file, reader.at, reader.size)
                break
            is_over = yield from self._past(begun, reader, fault)
        self._position = reader.position

    def _find_number(self, reader: RoundReader) -> None:
        """Know the number of the round before the file, whatever was before it."""

    def _fault_at(self, begun: FileBegun, reader: RoundReader) -> str | None:
        """The damage at the first byte that is not sound; None where it is torn."""
        mark = self.mark if self.mark is not None and self.mark.journal_id == self.journal_id else None
        fault = reader.fault(is_last=begun.is_last, marked_to=mark.synced_to if mark is not None else None)
        if fault is None:
            return None
        if fault.known is Known.LATER_FILE:
            return "a round is not what was written, and later files exist"
        if fault.known is Known.LATER_FRAME:
            return f"a round is not what was written, though byte {fault.synced_to} was synced"
        return self._short_of_mark(begun.base_position)

    def _past(self, begun: FileBegun, reader: RoundReader, fault: str) -> Generator[Event, None, bool]:
        """Go past what is damaged; answers whether there is nothing sound behind it."""
        self._refuse(begun.sequence, reader.at, fault)

    def _short_of_mark(self, base_position: int) -> str:
        byte = self.mark.synced_to - base_position if self.mark is not None else 0
        return f"what is sound ends here, though byte {byte} was synced"

    @property
    def _other_journal(self) -> str:
        return f"it does not begin the journal {self._meant_id:016x}"

    def _refuse(self, sequence: int, at: int, what: str) -> NoReturn:
        raise damaged(sequence, at, what, self._folder.name)

    def gone(self, name: str, what: str, lost: str) -> DamagedDataError:
        """The error for what is not there; `lost` is what kind of thing that is."""
        return DamagedDataError(f"{name} is damaged: {what}. {next_step_in(self._folder.name, None, lost)}")
