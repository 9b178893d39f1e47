"""Reading another broker's journal, whose owner may still be writing to it. It reads only, and all of it blocks.

What is found is what was asked for: epochs of topics, as the metadata has them. Records outside of them count for
nothing, whatever they hold: an owner that was fenced may have written more, and an attempt to own a topic that failed
leaves records, too.

The *mark* is the highest position that a sound header says was synced. Below it everything must be sound, or the
journal is damaged and refused. What is sound above it may still vanish, with the machine that wrote it.
"""

import contextlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from danube.metadata.records.record_format import EpochRange
from danube.model.errors import DamagedDataError, DataFolderError, StorageUnavailableError
from danube.model.limits.broker import JOURNAL_READ_ATTEMPTS_MAX
from danube.model.subscription import Cursor
from danube.runtime.disk import Disk, File
from danube.storage.batches.envelope import Envelope, Kind
from danube.storage.batches.producer_state import StoredNumbers, sequenced_batch
from danube.storage.journal.folder import JournalFolder, damaged
from danube.storage.journal.format import (
    FIRST_SEQUENCE,
    HEADER_BYTES,
    FileHeader,
    decode_file_header,
    newer_version,
)
from danube.storage.journal.index import FileStart, FileTable, Located, TopicIndex
from danube.storage.journal.scan import FileScan
from danube.storage.log.cursors import decode_cursor

JOURNALS = "journals"
"""The folder of all brokers' journals within a shared folder; each has a folder of its own in it."""

_NAME = re.compile(r"[0-9a-f]{16}")


def journal_folder(journal_id: int) -> str:
    """The folder of a journal, as storages name it."""
    return f"{JOURNALS}/{journal_id:016x}"


def listed_journals(disk: Disk) -> dict[int, str]:
    """The folders that are named as storages name them, by journal id, whatever is in them. Raises OSError."""
    if not disk.exists(JOURNALS):
        return {}
    return {int(name, 16): f"{JOURNALS}/{name}" for name in disk.list(JOURNALS) if _NAME.fullmatch(name)}


@dataclass(frozen=True, slots=True)
class Wanted:
    """One epoch of a topic, or the part of it that is not in segments."""

    topic_id: int
    epoch: EpochRange
    first_offset: int
    """What is below is in segments."""
    position: int = 0
    """What is below in the journal is in segments, or of an attempt to own the topic that failed."""
    last_append_time_ms: int = 0
    """Of the record before."""
    is_newest: bool = False
    """Whether it is the topic's newest: the only one that says where the subscriptions stand."""

    @property
    def is_needed(self) -> bool:
        """Whether it has to be read. Not one that ended and is all in segments, unless cursors are looked for in it."""
        return self.is_newest or self.epoch.end_offset is None or self.epoch.end_offset > self.first_offset


@dataclass(slots=True)
class FoundEpoch:
    """What a journal holds of it."""

    index: TopicIndex
    marked_end: int
    """The offset after the last record below the mark."""
    cursors: dict[int, Cursor] = field(default_factory=dict)
    numbers: list[StoredNumbers] = field(default_factory=list)
    """Of its numbered batches, in their order."""


@dataclass(slots=True)
class FoundJournal:
    """A journal as it was read."""

    folder: str
    journal_id: int
    broker_id: int = 0
    mark: int = 0
    end_position: int = 0
    files: FileTable = field(default_factory=FileTable)
    epochs: dict[tuple[int, int], FoundEpoch] = field(default_factory=dict)
    """By topic id and epoch: all that was asked for, the empty ones too."""


def read_journal(disk: Disk, journal_id: int, wanted: Iterable[Wanted]) -> FoundJournal:
    """Read a journal as far as it is sound.

    Its owner may write, begin files and remove old ones meanwhile: what looks wrong is looked at again, some times.

    Raises:
        DamagedDataError: something below the mark is not what was written, or does not follow, or is not there.
        DataFolderError: the journal is of a newer format.
        StorageUnavailableError: the folder cannot be read.
    """
    folder = journal_folder(journal_id)
    asked: dict[int, list[Wanted]] = {}
    for one in wanted:
        asked.setdefault(one.topic_id, []).append(one)
    for attempt in range(1, JOURNAL_READ_ATTEMPTS_MAX + 1):
        try:
            return _Reading(disk, journal_id, asked).run()
        except (DamagedDataError, FileNotFoundError) as error:
            if attempt == JOURNAL_READ_ATTEMPTS_MAX:
                raise _unavailable(folder, error) if isinstance(error, OSError) else error from error
        except OSError as error:
            raise _unavailable(folder, error) from error
    raise AssertionError


class _Reading:
    """One look at the whole journal."""

    def __init__(self, disk: Disk, journal_id: int, wanted: Mapping[int, list[Wanted]]) -> None:
        folder = journal_folder(journal_id)
        self._disk = disk
        self._folder = JournalFolder(disk, folder)
        self._wanted = wanted
        self._round_number = 0
        self._found = FoundJournal(folder, journal_id)
        for one in (one for several in wanted.values() for one in several):
            index = TopicIndex(one.first_offset, one.last_append_time_ms)
            self._found.epochs[one.topic_id, one.epoch.epoch] = FoundEpoch(index, one.first_offset)

    def run(self) -> FoundJournal:
        mark = self._folder.read_mark()  # before what it speaks of: the owner may write a newer one meanwhile
        first = self._folder.read_first()
        sequences = self._folder.sequences()
        if first is not None:
            sequences = [sequence for sequence in sequences if sequence >= first.sequence]
            self._check_begin(first.sequence, first.journal_id)
            self._found.end_position, self._round_number = first.base_position, first.rounds_before
        expected = first.sequence if first is not None else FIRST_SEQUENCE
        if not sequences or sequences != list(range(expected, expected + len(sequences))):
            raise damaged(expected, 0, "a file of the journal is missing", self._found.folder)
        for sequence in sequences:
            with contextlib.closing(self._disk.open_read(self._folder.path(sequence))) as file:
                self._read_file(sequence, file, is_last=sequence == sequences[-1])
        if mark is not None and self._found.end_position < mark.synced_to:
            what = f"the journal ends at position {self._found.end_position}, though {mark.synced_to} was synced"
            raise damaged(mark.sequence, 0, what, self._found.folder)
        for one in (one for several in self._wanted.values() for one in several):
            self._finish(one)
        return self._found

    def _read_file(self, sequence: int, file: File, *, is_last: bool) -> None:
        start = file.read(0, HEADER_BYTES)
        header = decode_file_header(start)
        is_new = is_last and len(self._found.files) > 0
        if header is None and is_new and file.size() <= HEADER_BYTES and newer_version(start) is None:
            return  # it was being created: nothing is in it, and the one before it is complete
        self._enter(sequence, start, header)
        found = self._found
        scan = FileScan(file, found.journal_id, found.end_position)
        base = found.end_position
        while (next_round := scan.next(self._round_number + 1)) is not None:
            self._round_number = next_round.header.number
            found.mark = max(found.mark, next_round.header.synced_to)
            for envelope, position, body in next_round.entries:
                self._take(sequence, base, envelope, position, body)
        found.end_position = base + scan.at
        if scan.at < scan.size and (not is_last or scan.claimed_beyond() is not None):
            raise damaged(sequence, scan.at, "a round is not what was written", found.folder)

    def _enter(self, sequence: int, start: bytes, header: FileHeader | None) -> None:
        found = self._found
        version = newer_version(start)
        if version is not None:
            name = self._folder.path(sequence)
            raise DataFolderError(f"{name} has format version {version}: use the Danube that wrote it")
        if not len(found.files):
            self._check_begin(sequence, header.journal_id if header is not None else None)
            found.broker_id = header.broker_id if header is not None else 0
        expected = (sequence, found.end_position, found.journal_id)
        if header is None or (header.sequence, header.base_position, header.journal_id) != expected:
            raise damaged(sequence, 0, "it does not go on where the file before it ended", found.folder)
        found.files.add(FileStart(sequence, header.base_position, self._round_number))
        found.mark = max(found.mark, header.synced_to)

    def _check_begin(self, sequence: int, journal_id: int | None) -> None:
        """A folder is found by its name: what is in it has to be the journal that is meant."""
        if journal_id != self._found.journal_id:
            what = f"it does not begin the journal {self._found.journal_id:016x}"
            raise damaged(sequence, 0, what, self._found.folder)

    def _take(self, sequence: int, base: int, envelope: Envelope, position: int, body: bytes) -> None:
        for wanted in self._wanted.get(envelope.topic_id, ()):
            if _belongs(envelope, position, wanted):
                try:
                    self._take_in(wanted, envelope, position, body)
                except ValueError as error:
                    what = f"topic {envelope.topic_id}: {error}"
                    raise damaged(sequence, position - base, what, self._found.folder) from error

    def _take_in(self, wanted: Wanted, envelope: Envelope, position: int, body: bytes) -> None:
        found = self._found.epochs[wanted.topic_id, wanted.epoch.epoch]
        if envelope.kind is Kind.CURSOR:
            decoded = decode_cursor(body)
            if decoded is None:
                raise ValueError("a cursor is not what was written")
            found.cursors[decoded[0]] = decoded[1]
            return
        first, end = envelope.base_offset, envelope.base_offset + envelope.count
        found.index.append(Located(first, end, position, envelope.body_bytes, envelope.append_time_ms))
        if (sequenced := sequenced_batch(body)) is not None:
            found.numbers.append(StoredNumbers(sequenced, first))

    def _finish(self, wanted: Wanted) -> None:
        """Note the mark; what was sealed has to be there to its end."""
        found = self._found.epochs[wanted.topic_id, wanted.epoch.epoch]
        marked = found.index.between(0, self._found.mark)
        if marked:
            found.marked_end = marked.end_offset
        end = wanted.epoch.end_offset
        if end is not None and end > found.index.end_offset:
            raise DamagedDataError(
                f"the journal in {self._found.folder} ends at offset {found.index.end_offset} of topic "
                f"{wanted.topic_id}, though its epoch {wanted.epoch.epoch} was sealed at {end}. Restore the folder "
                "from a backup"
            )


def _belongs(envelope: Envelope, position: int, wanted: Wanted) -> bool:
    """Whether a record is of the epoch, and not in segments already."""
    epoch = wanted.epoch
    if envelope.epoch != epoch.epoch or position < wanted.position:
        return False
    if envelope.kind is Kind.DATA:
        within = epoch.end_offset is None or envelope.base_offset < epoch.end_offset
        return within and envelope.base_offset >= wanted.first_offset
    return envelope.kind is Kind.CURSOR


def _unavailable(folder: str, error: OSError) -> StorageUnavailableError:
    reason = error.strerror or error
    return StorageUnavailableError(f"the journal in {folder} cannot be read: {reason}. Check the shared folder")
