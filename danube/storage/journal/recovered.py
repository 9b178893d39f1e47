"""Content of a journal, put together record by record or index by index over what segments hold. Pure."""

from collections.abc import Container, Mapping
from dataclasses import dataclass, field

from danube.model.subscription import Cursor
from danube.storage.batches.envelope import ENVELOPE_BYTES, Envelope, Kind
from danube.storage.batches.producer_state import StoredNumbers, StoredProducerStates, sequenced_batch
from danube.storage.journal.contents import FileContents
from danube.storage.journal.file_index import FileIndex
from danube.storage.journal.index import ClosedFile, FileTable, IndexRun, TopicBase, TopicIndex
from danube.storage.log.cursors import CursorKey, decode_cursor


@dataclass(slots=True)
class Recovered:
    """Content of a journal: topics, cursors, producer states."""

    known: Container[int] | None
    """The topics that exist; None for any."""
    bases: Mapping[int, TopicBase]
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
        contents.note(topic_id, envelope.append_time_ms, ENVELOPE_BYTES + envelope.body_bytes)
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
            end = self.topics[topic_id].end_offset
            if topic_id in self.producer_states:
                self.producer_states[topic_id].drop_from(end)
            for subscription_id, cursor in base.cursors.items():
                if self.cursors[topic_id, subscription_id] is cursor:
                    self.cursors[topic_id, subscription_id] = cursor.within(end)

    def _add_batch(self, contents: FileContents, envelope: Envelope, position: int, body: bytes) -> None:
        topic_id, base = envelope.topic_id, envelope.base_offset
        index = self.topics.get(topic_id)
        if index is None:
            index = self.topics[topic_id] = TopicIndex()
        index.add(base, base + envelope.count, position, envelope.body_bytes, envelope.append_time_ms)
        if (sequenced := sequenced_batch(body)) is not None:
            stored = StoredNumbers(sequenced, base)
            self._add_numbers(topic_id, stored)
            contents.note_numbers(topic_id, stored)

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
        return self.known is not None and topic_id not in self.known

    def _covered(self, topic_id: int) -> int:
        base = self.bases.get(topic_id)
        return base.covered.get(self.journal_id, 0) if base is not None else 0


_NOTHING = TopicIndex()


def _in_order(contents: FileContents) -> list[tuple[int, StoredNumbers]]:
    """The numbered batches of a file, of each topic in the order in which they were stored."""
    found = [(key[0], stored) for key, row in contents.rows.items() for stored in row]
    found.sort(key=lambda one: (one[0], one[1].base_offset))
    return found
