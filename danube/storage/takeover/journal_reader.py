"""The journal of another broker, which may still be writing to it. It is read only, and all of it blocks.

What is found is what was asked for: epochs of topics, as the metadata has them. Records outside of them count for
nothing, whatever they hold: an owner that was fenced may have written more, and an attempt to own a topic that failed
leaves records, too.

The *mark* is the highest position that a sound header says was synced. Below it everything must be sound, or the
journal is damaged and refused. What is sound above it may still vanish, with the machine that wrote it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from danube.metadata.records.record_format import EpochRange
from danube.model.errors import DamagedDataError, StorageUnavailableError
from danube.model.limits.broker import JOURNAL_READ_ATTEMPTS_MAX
from danube.model.subscription import Cursor
from danube.runtime.disk import Disk
from danube.storage.batches.cursors import decode_cursor
from danube.storage.batches.envelope import Envelope, Kind
from danube.storage.batches.producer_state import StoredNumbers, sequenced_batch
from danube.storage.journal.folder import JournalFolder, damaged, journal_folder
from danube.storage.journal.index import FileTable, Located, TopicIndex
from danube.storage.journal.walker import FileBegun, JournalWalker, SoundRound


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
    """True if it is the topic's newest: the only one that says where the subscriptions stand."""

    @property
    def is_needed(self) -> bool:
        """False for an epoch that ended and is all in segments, unless cursors are looked for in it."""
        return self.is_newest or self.epoch.end_offset is None or self.epoch.end_offset > self.first_offset


@dataclass(slots=True)
class FoundEpoch:
    """Content of an epoch in a journal."""

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
        self._walker = JournalWalker(JournalFolder(disk, folder), has_begun=True, journal_id=journal_id)
        self._wanted = wanted
        self._found = FoundJournal(folder, journal_id)
        for one in (one for several in wanted.values() for one in several):
            index = TopicIndex(one.first_offset, one.last_append_time_ms)
            self._found.epochs[one.topic_id, one.epoch.epoch] = FoundEpoch(index, one.first_offset)

    def run(self) -> FoundJournal:
        found, walker = self._found, self._walker
        walker.list_files()
        for event in walker.events():
            if isinstance(event, FileBegun):
                found.broker_id = event.header.broker_id if event.header is not None else 0
            elif isinstance(event, SoundRound):
                for envelope, position, body in event.entries:
                    self._add(event, envelope, position, body)
        found.files, found.mark, found.end_position = walker.files, walker.synced_to, walker.end_position
        for one in (one for several in self._wanted.values() for one in several):
            self._finish(one)
        return found

    def _add(self, found: SoundRound, envelope: Envelope, position: int, body: bytes) -> None:
        begun = found.begun
        for wanted in self._wanted.get(envelope.topic_id, ()):
            if _belongs(envelope, position, wanted):
                try:
                    self._add_to(wanted, envelope, position, body)
                except ValueError as error:
                    what = f"topic {envelope.topic_id}: {error}"
                    raise damaged(begun.sequence, position - begun.base_position, what, self._found.folder) from error

    def _add_to(self, wanted: Wanted, envelope: Envelope, position: int, body: bytes) -> None:
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
    """True for a record of the epoch that is not in segments already."""
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
