"""Contents of a journal: of one file besides its batches, of the index beside a closed file, of all files. Pure.

The index, version 1, is what a scan of the file finds, without the bodies. It is a cache: one that is missing, or not
what was written, is made again from the file. The layout is drawn in `docs/formats/journal.md`.
"""

import sys
from array import array
from collections import deque
from collections.abc import Container, Mapping
from dataclasses import dataclass, field

from danube.model.limits.stream import DEDUPLICATION_BATCHES_MAX, DEDUPLICATION_PRODUCERS_MAX
from danube.model.subscription import Cursor
from danube.runtime.checksum import refuse_other_version
from danube.runtime.sealed import Sealed
from danube.storage.batches.cursors import CursorKey, decode_cursor
from danube.storage.batches.envelope import ENVELOPE_BYTES, Envelope, Kind
from danube.storage.batches.producer_state import StoredNumbers, StoredProducerStates, sequenced_batch
from danube.storage.journal.index import ClosedFile, FileStart, FileTable, IndexRun, TopicBase, TopicIndex

_NEVER_MS = 2**63 - 1


@dataclass(slots=True)
class FileContents:
    """Contents of a file, gathered while it is written, or read."""

    start: FileStart
    topics: set[int] = field(default_factory=set)
    """Every topic with a record in it."""
    unlisted: set[int] = field(default_factory=set)
    """Those of them with records that were left out when the file was read."""
    bytes_of: dict[int, int] = field(default_factory=dict)
    """By topic, of its records; of a file that was found by its index nothing."""
    cursors: dict[CursorKey, tuple[int, Cursor]] = field(default_factory=dict)
    """The last one of each subscription, and the position of its record."""
    rows: dict[tuple[int, int], deque[StoredNumbers]] = field(default_factory=dict)
    """By topic and row, the last numbered batches; the row that stored nothing for longest comes first.

    As many rows of a topic as its log remembers: a file has room for a million.
    """
    _rows_of: dict[int, dict[int, None]] = field(default_factory=dict, init=False)
    """By topic, its rows in the same order."""
    oldest_append_ms: int = _NEVER_MS
    newest_append_ms: int = 0

    def add_record(self, topic_id: int, append_time_ms: int, record_bytes: int) -> None:
        """A record of the topic is in the file."""
        self.topics.add(topic_id)
        self.bytes_of[topic_id] = self.bytes_of.get(topic_id, 0) + record_bytes
        if append_time_ms != self.newest_append_ms:  # nearly never, within a round
            self.oldest_append_ms = min(self.oldest_append_ms, append_time_ms)
            self.newest_append_ms = max(self.newest_append_ms, append_time_ms)

    def add_numbers(self, topic_id: int, stored: StoredNumbers) -> None:
        """A numbered batch of the topic is in the file."""
        key = topic_id, stored.batch.numbering_id
        row = self.rows.pop(key, None)
        if row is None:
            row = deque(maxlen=DEDUPLICATION_BATCHES_MAX)
        row.append(stored)
        self.rows[key] = row
        rows_of = self._rows_of.setdefault(topic_id, {})
        rows_of.pop(stored.batch.numbering_id, None)
        rows_of[stored.batch.numbering_id] = None
        if len(rows_of) > DEDUPLICATION_PRODUCERS_MAX:
            oldest = next(iter(rows_of))
            del rows_of[oldest], self.rows[topic_id, oldest]

    def closed(self, end_position: int) -> ClosedFile:
        """The file, once it ends there."""
        return ClosedFile(
            sequence=self.start.sequence,
            base_position=self.start.base_position,
            end_position=end_position,
            topics=frozenset(self.topics),
            oldest_append_ms=min(self.oldest_append_ms, self.newest_append_ms),
            newest_append_ms=self.newest_append_ms,
        )


@dataclass(frozen=True, slots=True)
class FileIndex:
    """All that is known of one closed file."""

    journal_id: int
    end_position: int
    last_round: int
    contents: FileContents
    runs: dict[int, IndexRun | None]
    """The batches by topic; None for one that is not listed."""


@dataclass(frozen=True, slots=True)
class _Topic:
    """The batches of a topic, by columns of little-endian numbers; no columns for one that is not listed."""

    topic_id: int
    end_offset: int = 0
    bases: bytes | None = None
    positions: bytes = b""
    times: bytes = b""
    lengths: bytes = b""


@dataclass(frozen=True, slots=True)
class _Cursor:
    topic_id: int
    subscription_id: int
    record_position: int
    cursor: Cursor


@dataclass(frozen=True, slots=True)
class _Index:
    journal_id: int
    start: FileStart
    end_position: int
    last_round: int
    oldest_append_ms: int
    newest_append_ms: int
    topics: tuple[_Topic, ...]
    cursors: tuple[_Cursor, ...]
    numbers: tuple[tuple[int, StoredNumbers], ...]


_INDEX = Sealed(b"DnJx", _Index)
INDEX_START_BYTES = 5
"""Magic and version, in every version."""


def encode_index(index: FileIndex) -> bytes:
    """The bytes of the file beside the journal file."""
    contents = index.contents
    return _INDEX.seal(
        _Index(
            index.journal_id,
            contents.start,
            index.end_position,
            index.last_round,
            contents.oldest_append_ms,
            contents.newest_append_ms,
            tuple(_encoded_run(topic_id, run) for topic_id, run in index.runs.items()),
            tuple(_Cursor(*key, position, cursor) for key, (position, cursor) in contents.cursors.items()),
            tuple((key[0], stored) for key, row in contents.rows.items() for stored in row),
        )
    )


def refuse_other_index(name: str, encoded: bytes) -> None:
    """Raise NewerDataFolderError for an index of another version."""
    refuse_other_version(name, encoded, _INDEX.magic, _INDEX.version)


def is_other_index(start: bytes) -> bool:
    """True for the first bytes of an index of another version, if that is what they are of."""
    return start[:4] == _INDEX.magic and start[4:INDEX_START_BYTES] != bytes([_INDEX.version])


def decode_index(encoded: bytes) -> FileIndex | None:
    """Content of an index, or None when it is not a valid one."""
    try:
        found = _INDEX.unseal(encoded)
        runs = {topic.topic_id: _decoded_run(topic) for topic in found.topics}
    except ValueError:
        return None
    contents = FileContents(found.start)
    contents.oldest_append_ms, contents.newest_append_ms = found.oldest_append_ms, found.newest_append_ms
    contents.topics.update(runs)
    contents.unlisted.update(topic_id for topic_id, run in runs.items() if run is None)
    for one in found.cursors:
        contents.cursors[one.topic_id, one.subscription_id] = (one.record_position, one.cursor)
    for topic_id, stored in found.numbers:
        contents.add_numbers(topic_id, stored)
    return FileIndex(found.journal_id, found.end_position, found.last_round, contents, runs)


def _encoded_run(topic_id: int, run: IndexRun | None) -> _Topic:
    if run is None:
        return _Topic(topic_id)
    columns = (_little_endian(one).tobytes() for one in (run.bases, run.positions, run.times, run.lengths))
    return _Topic(topic_id, run.end_offset, *columns)


def _decoded_run(topic: _Topic) -> IndexRun | None:
    """Raises ValueError for columns of different lengths."""
    if topic.bases is None:
        return None
    bases, positions, times = (_column("Q", one) for one in (topic.bases, topic.positions, topic.times))
    lengths = _column("I", topic.lengths)
    if not len(bases) == len(positions) == len(times) == len(lengths):
        raise ValueError("columns of different lengths")
    return IndexRun(bases, positions, times, lengths, topic.end_offset)


def _column(code: str, encoded: bytes) -> "array[int]":
    column: array[int] = array(code)
    column.frombytes(encoded)
    return _little_endian(column)


def _little_endian(column: "array[int]") -> "array[int]":
    if sys.byteorder == "big":
        column = column[:]
        column.byteswap()
    return column


@dataclass(slots=True)
class Recovered:
    """Content of a journal: topics, cursors, producer states."""

    known: Container[int] | None
    """The topics that exist; None for any."""
    bases: Mapping[int, TopicBase]
    detached: dict[int, int] | None = None
    """Gets the topics whose first record here does not follow on their base, and its offset; None where that is damage:
    metadata may be older than a deletion, and the topic's other files are gone."""
    journal_id: int = 0
    files: FileTable = field(default_factory=FileTable)
    closed: list[ClosedFile] = field(default_factory=list)
    """All but the last one."""
    contents: FileContents | None = None
    """Of the last file."""
    topics: dict[int, TopicIndex] = field(default_factory=dict)
    cursors: dict[CursorKey, Cursor] = field(default_factory=dict)
    producer_states: dict[int, StoredProducerStates] = field(default_factory=dict)
    """By topic, of those that have numbered batches."""

    def begin(self) -> None:
        """Begin with what the bases say."""
        for topic_id, base in self.bases.items():
            self.topics[topic_id] = TopicIndex(base.end_offset, base.last_append_time_ms)
            for subscription_id, cursor in base.cursors.items():
                self.cursors[topic_id, subscription_id] = cursor
            if base.producer_states:
                self.producer_states[topic_id] = StoredProducerStates()
                self.producer_states[topic_id].restore(base.producer_states)

    def add_record(self, contents: FileContents, envelope: Envelope, position: int, body: bytes) -> None:
        """Add the next record of a file. Raises ValueError when it cannot follow."""
        topic_id = envelope.topic_id
        contents.add_record(topic_id, envelope.append_time_ms, ENVELOPE_BYTES + envelope.body_bytes)
        if not self._counts(topic_id, position):
            contents.unlisted.add(topic_id)
        elif envelope.kind is Kind.DATA:
            self._add_batch(contents, envelope, position, body)
        elif envelope.kind is Kind.CURSOR:
            decoded = decode_cursor(body)
            if decoded is None:
                raise ValueError("a cursor is not what was written")
            self.cursors[topic_id, decoded[0]] = decoded[1]
            contents.cursors[topic_id, decoded[0]] = (position, decoded[1])

    def add_index(self, index: FileIndex) -> bool:
        """Add a whole file by its index; answers whether it follows on what is there. If not, nothing changed."""
        runs: dict[int, IndexRun] = {}
        for topic_id, run in index.runs.items():
            if self._is_unknown(topic_id) or self._covered(topic_id) >= index.end_position:
                continue
            if run is None:
                return False
            runs[topic_id] = run.above(self._covered(topic_id))
            if runs[topic_id] and self._detaches(topic_id, runs[topic_id].bases[0]):
                del runs[topic_id]
                continue
            if not self.topics.get(topic_id, _NOTHING).fits(runs[topic_id]):
                return False
        for topic_id, run in runs.items():
            if run:
                self.topics.setdefault(topic_id, TopicIndex()).extend(run)
        self._add_contents(index.contents, index.end_position)
        return True

    def run(self, topic_id: int, contents: FileContents, end_position: int) -> IndexRun | None:
        """A topic's batches in a file that ends there; None when some were left out."""
        if topic_id in contents.unlisted:
            return None
        return self.topics.get(topic_id, _NOTHING).between(contents.start.base_position, end_position)

    def finish(self) -> None:
        """Take back what a base says of records that are gone: it may be newer than what the disk kept."""
        for topic_id, base in self.bases.items():
            if topic_id in (self.detached or ()):
                continue
            end = self.topics[topic_id].end_offset
            if topic_id in self.producer_states:
                self.producer_states[topic_id].drop_from(end)
            for subscription_id, cursor in base.cursors.items():
                if self.cursors[topic_id, subscription_id] is cursor:
                    self.cursors[topic_id, subscription_id] = cursor.within(end)

    def _add_batch(self, contents: FileContents, envelope: Envelope, position: int, body: bytes) -> None:
        topic_id, base = envelope.topic_id, envelope.base_offset
        if self._detaches(topic_id, base):
            contents.unlisted.add(topic_id)
            return
        index = self.topics.get(topic_id)
        if index is None:
            index = self.topics[topic_id] = TopicIndex()
        index.add(base, base + envelope.count, position, envelope.body_bytes, envelope.append_time_ms)
        if (sequenced := sequenced_batch(body)) is not None:
            stored = StoredNumbers(sequenced, base)
            self._add_numbers(topic_id, stored)
            contents.add_numbers(topic_id, stored)

    def _add_contents(self, contents: FileContents, end_position: int) -> None:
        for (topic_id, subscription_id), (position, cursor) in contents.cursors.items():
            if self._counts(topic_id, position):
                self.cursors[topic_id, subscription_id] = cursor
        for topic_id, numbers in _in_order(contents):
            if not self._is_unknown(topic_id) and self._covered(topic_id) < end_position:
                self._add_numbers(topic_id, numbers)

    def _add_numbers(self, topic_id: int, stored: StoredNumbers) -> None:
        producer_states = self.producer_states.get(topic_id)
        if producer_states is None:
            producer_states = self.producer_states[topic_id] = StoredProducerStates()
        producer_states.add(stored.batch, stored.base_offset)

    def _counts(self, topic_id: int, position: int) -> bool:
        return not self._is_unknown(topic_id) and position >= self._covered(topic_id)

    def _is_unknown(self, topic_id: int) -> bool:
        return (self.known is not None and topic_id not in self.known) or topic_id in (self.detached or ())

    def _detaches(self, topic_id: int, first_offset: int) -> bool:
        """True if a topic's first batch here does not follow on what is before: from now on it is left out."""
        index = self.topics.get(topic_id, _NOTHING)
        if self.detached is None or len(index) or first_offset <= index.end_offset:
            return False
        self.detached[topic_id] = first_offset
        self.topics.pop(topic_id, None)
        return True

    def _covered(self, topic_id: int) -> int:
        base = self.bases.get(topic_id)
        return base.covered.get(self.journal_id, 0) if base is not None else 0


_NOTHING = TopicIndex()


def _in_order(contents: FileContents) -> list[tuple[int, StoredNumbers]]:
    """The numbered batches of a file, of each topic in the order in which they were stored."""
    found = [(key[0], stored) for key, row in contents.rows.items() for stored in row]
    found.sort(key=lambda one: (one[0], one[1].base_offset))
    return found
