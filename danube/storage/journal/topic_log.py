"""One topic's log in the broker's journal: appends go to the group commit, reads to memory, then to the files."""

from collections.abc import Callable, Container
from dataclasses import dataclass

from danube.model.errors import StorageUnavailableError
from danube.model.plans.durability import Durability
from danube.model.subscription import Cursor
from danube.runtime.blocking import BlockingRunner
from danube.storage.batches.producer_state import SequencedBatch
from danube.storage.journal.commit import GroupCommit
from danube.storage.journal.index import FileTable, TopicIndex
from danube.storage.journal.reader import JournalReader
from danube.storage.journal.round import TopicState
from danube.storage.log.cache import BatchCache
from danube.storage.log.protocol import AppendDone, Saved, StoredBatch

_EMPTY = TopicIndex()


class JournalReads:
    """Finds batches by offset: memory first, then the files, in a thread that the writer does not wait for.

    Only what is in an index is found, and only what is durable gets there.
    """

    def __init__(self, cache: BatchCache, files: FileTable, reader: JournalReader, runner: BlockingRunner) -> None:
        self._cache = cache
        self._files = files
        self._reader = reader
        self._runner = runner
        self._closed = False

    def hot(self, topic: TopicState, offset: int, bytes_max: int) -> list[StoredBatch] | None:
        """As `BatchLog.read_hot`."""
        index = topic.index
        if index is None or offset >= index.end_offset:
            return []
        if offset < index.start_offset:
            return None
        found: list[StoredBatch] = []
        room = bytes_max
        for number in range(index.find(offset), len(index)):
            batch = self._cache.get(topic.topic_id, index.base_offset(number))
            if batch is None:
                break
            room -= len(batch.body)
            if found and room < 0:
                break
            found.append(batch)
        return found or None

    async def read(self, topic: TopicState, offset: int, bytes_max: int) -> list[StoredBatch]:
        """As `BatchLog.read`; an offset that is not in the journal any more raises StorageUnavailableError."""
        found = self.hot(topic, offset, bytes_max)
        if found is not None:
            return found
        if self._closed:
            raise StorageUnavailableError("the journal is closed: open it to read")
        if topic.index is None:
            return []
        try:
            run = topic.index.run_at(offset, bytes_max)
        except IndexError as error:  # of a deleted topic: its files may go while somebody still reads
            raise StorageUnavailableError(f"offset {offset} of topic id {topic.topic_id} is gone: {error}") from error
        return await self._runner.run(lambda: self._reader.read_run(topic.topic_id, run, self._files))

    def drop_cached(self, topic: TopicState) -> None:
        """Drop a topic's batches from memory."""
        number = len(topic.index) - 1 if topic.index is not None else -1
        while topic.index is not None and number >= 0:
            if not self._cache.drop(topic.topic_id, topic.index.base_offset(number)):
                return
            number -= 1

    async def close_files(self, below_sequence: int) -> None:
        """Close files that were removed."""
        if not self._closed:
            await self._runner.run(lambda: self._reader.close_below(below_sequence))

    async def close(self) -> None:
        """Close the files; batches in memory stay readable."""
        self._closed = True
        await self._runner.run(self._reader.close)


@dataclass(frozen=True, slots=True)
class JournalAccess:
    """The parts of a journal that its topics' logs use."""

    commit: GroupCommit
    reads: JournalReads
    forget_cursor: Callable[[int, int], None]
    """Called with the ids of a topic and of a subscription whose cursor is not needed any more."""


class JournalTopicLog:
    """A view of one topic of a journal, a `BatchLog` and a `LogPart`; any number of them may be open."""

    def __init__(self, topic: TopicState, journal: JournalAccess) -> None:
        self._topic = topic
        self._journal = journal
        self._listeners: list[Callable[[int], None]] = []

    @property
    def _index(self) -> TopicIndex:
        return self._topic.index if self._topic.index is not None else _EMPTY

    @property
    def topic_id(self) -> int:
        return self._topic.topic_id

    @property
    def start_offset(self) -> int:
        return self._index.start_offset

    @property
    def durable_end(self) -> int:
        return self._topic.durable_end

    end_offset = durable_end

    @property
    def body_bytes(self) -> int:
        return self._index.body_bytes

    def append_record(self, record: bytes, done: AppendDone) -> None:
        self._journal.commit.append_record(self._topic, record, done)

    def append_batch(self, body: bytes, done: AppendDone) -> None:
        self._journal.commit.append_batch(self._topic, body, done)

    def set_durability(self, durability: Durability | None) -> None:
        commit = self._journal.commit
        commit.set_durability(self._topic, commit.durability if durability is None else durability)

    def confirm(self, offset: int, done: AppendDone) -> None:
        self._journal.commit.confirm(self._topic, offset, done)

    def read_hot(self, offset: int, bytes_max: int) -> list[StoredBatch] | None:
        return self._journal.reads.hot(self._topic, offset, bytes_max)

    async def read(self, offset: int, bytes_max: int) -> list[StoredBatch]:
        return await self._journal.reads.read(self._topic, offset, bytes_max)

    def offset_in_journal(self, append_time_ms: int) -> int:
        """As `offset_at`, at once, of what is in the journal only."""
        return self._index.offset_at(append_time_ms)

    async def offset_at(self, append_time_ms: int) -> int:
        return self._index.offset_at(append_time_ms)

    def append_time_at_hand(self, offset: int) -> int | None:
        return self._index.append_time_ms(offset)

    async def append_time_ms(self, offset: int) -> int | None:
        return self._index.append_time_ms(offset)

    def save_cursor(self, subscription_id: int, cursor: Cursor, saved: Saved | None = None) -> None:
        self._journal.commit.save_cursor(self._topic, subscription_id, cursor, saved)

    def cursor(self, subscription_id: int) -> Cursor | None:
        return self._topic.cursors.get(subscription_id) if self._topic.cursors else None

    def forget_cursor(self, subscription_id: int) -> None:
        self._journal.commit.forget_cursor(self._topic, subscription_id)
        self._journal.forget_cursor(self._topic.topic_id, subscription_id)

    def forget_other_cursors(self, subscription_ids: Container[int]) -> None:
        for subscription_id in [each for each in self._topic.cursors or () if each not in subscription_ids]:
            self.forget_cursor(subscription_id)

    def next_sequence(self, numbering_id: int) -> int:
        return self._topic.producer_states.next_sequence(numbering_id) if self._topic.producer_states else 0

    def offset_of(self, batch: SequencedBatch) -> int | None:
        return self._topic.producer_states.offset_of(batch) if self._topic.producer_states else None

    def on_durable(self, listener: Callable[[int], None]) -> None:
        self._listeners.append(listener)
        self._topic.listeners = (*self._topic.listeners, listener)

    def close(self) -> None:
        mine = self._listeners
        self._topic.listeners = tuple(one for one in self._topic.listeners if one not in mine)
        self._listeners = []
        self._journal.reads.drop_cached(self._topic)
