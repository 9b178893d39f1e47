"""Durable state of a journal: the indexes, cursors and recent batches of all topics, and the closed files."""

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable

from danube.model.errors import StorageUnavailableError
from danube.model.limits.broker import JOURNAL_INDEX_TOPICS_AT_ONCE, JOURNAL_INDEXES_WAITING_MAX
from danube.model.plans.durability import Durability
from danube.runtime.blocking import BlockingRunner
from danube.runtime.tasks import TaskScope
from danube.storage.batches.cursors import PendingCursor
from danube.storage.batches.envelope import ENVELOPE_BYTES
from danube.storage.batches.producer_state import StoredProducerStates
from danube.storage.batches.stored_batch import StoredBatch
from danube.storage.journal.contents import FileContents, FileIndex, Recovered
from danube.storage.journal.folder import JournalFolder
from danube.storage.journal.format import FirstFile
from danube.storage.journal.index import (
    ClosedFile,
    FileStart,
    FileTable,
    IndexRun,
    TopicBase,
    TopicIndex,
    TopicSnapshot,
)
from danube.storage.journal.round import PendingBatch, Round, TopicState
from danube.storage.journal.writer import Written

_BATCH_BYTES = 300  # what a kept batch costs besides its body, roughly


class BatchCache:
    """The newest batches of all topics, bounded in bytes: of each an unbroken run up to its durable end."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._batches: OrderedDict[tuple[int, int], StoredBatch] = OrderedDict()
        self.bytes = 0

    def add(self, topic_id: int, batch: StoredBatch) -> None:
        """Keep a topic's next batch; the oldest batches of any topic make room."""
        self.drop(topic_id, batch.base_offset)
        self._batches[topic_id, batch.base_offset] = batch
        self.bytes += _cost(batch)
        while self.bytes > self._bytes_max:
            _, oldest = self._batches.popitem(last=False)
            self.bytes -= _cost(oldest)

    def get(self, topic_id: int, base_offset: int) -> StoredBatch | None:
        """The batch that begins at `base_offset`, when it is still there."""
        return self._batches.get((topic_id, base_offset))

    def drop(self, topic_id: int, base_offset: int) -> bool:
        """Drop one batch; answers whether it was there."""
        batch = self._batches.pop((topic_id, base_offset), None)
        if batch is None:
            return False
        self.bytes -= _cost(batch)
        return True


def _cost(batch: StoredBatch) -> int:
    return len(batch.body) + _BATCH_BYTES


FileClosed = Callable[[FileContents, FileStart], None]
"""Called with the contents of a complete file, and the start of the next one."""


class DurableTopics:
    """Topics of a journal, as recovered and as rounds are written."""

    def __init__(self, recovered: Recovered, cache: BatchCache, end_position: int) -> None:
        self.files: FileTable = recovered.files
        self.cache = cache
        self.end_position = end_position
        """Behind the last durable round."""
        self.on_closed: FileClosed = lambda *_: None
        self.is_in_closed_file: Callable[[int], bool] = lambda _: False
        """True if a file before the last has a record of a topic."""
        self.topics_in_closed_files: Callable[[], Iterable[int]] = tuple
        self._contents = recovered.contents or FileContents(recovered.files.starts[-1])
        self._topics = {topic_id: TopicState(topic_id, index) for topic_id, index in recovered.topics.items()}
        for (topic_id, subscription_id), cursor in recovered.cursors.items():
            self._state(topic_id).save_cursor(subscription_id, cursor)
        for topic_id, producer_states in recovered.producer_states.items():
            self._state(topic_id).producer_states = producer_states

    def start_topic(self, topic_id: int, epoch: int, durability: Durability) -> TopicState:
        """The state of a topic that is written under `epoch`. Raises ValueError for one whose records were left out."""
        if topic_id not in self._topics and (topic_id in self._contents.topics or self.is_in_closed_file(topic_id)):
            raise ValueError(f"topic id {topic_id} has records that were left out: ids are never used again")
        topic = self._state(topic_id)
        topic.epoch, topic.durability = epoch, durability
        return topic

    def adopt(self, base: TopicBase) -> None:
        """Begin a topic of another broker or journal where `base` ends. Raises ValueError when it is open.

        Its records in this journal, if any, are of an epoch that is over.
        """
        if base.topic_id in self._topics:
            raise ValueError(f"topic id {base.topic_id} is kept in this journal already: release it first")
        topic = self._state(base.topic_id)
        topic.index = TopicIndex(base.end_offset, base.last_append_time_ms)
        self._contents.unlisted.add(base.topic_id)  # numbers from before must not count: have the file read
        topic.cursors = dict(base.cursors) or None
        if base.producer_states:
            topic.producer_states = StoredProducerStates()
            topic.producer_states.restore(base.producer_states)

    @property
    def newest_append_ms(self) -> int | None:
        """Append time of the newest batch of all topics, flushed or not; None when there never was one."""
        times = (topic.index.last_append_time_ms for topic in self._topics.values() if topic.index is not None)
        return max(times, default=0) or None

    def bytes_in_last_file(self, is_meant: Callable[[int], bool]) -> int:
        """Bytes of records in the last file, of the topics that are meant."""
        return sum(size for topic_id, size in self._contents.bytes_of.items() if is_meant(topic_id))

    def state(self, topic_id: int) -> TopicState | None:
        """The state of a topic as it is; None for one without records or base."""
        return self._topics.get(topic_id)

    def topic_ids(self) -> set[int]:
        """Topics with a record in any file, or a state."""
        return {*self._topics, *self._contents.topics, *self.topics_in_closed_files()}

    def has_records(self, topic_id: int) -> bool:
        """True if any file has a record of the topic."""
        return topic_id in self._contents.topics or self.is_in_closed_file(topic_id)

    def index(self, topic_id: int) -> TopicIndex | None:
        """The index of a topic; None when it has no batches."""
        topic = self._topics.get(topic_id)
        return topic.index if topic is not None else None

    def drop(self, topic_id: int) -> TopicState | None:
        """Drop a topic for good; answers its state."""
        return self._topics.pop(topic_id, None)

    def forget_cursor(self, topic_id: int, subscription_id: int) -> None:
        """Drop the cursor of a deleted subscription, whose id is never used again."""
        topic = self._topics.get(topic_id)
        if topic is not None and topic.cursors:
            topic.cursors.pop(subscription_id, None)
        self._contents.cursors.pop((topic_id, subscription_id), None)

    def apply(self, written_round: Round, written: Written) -> None:
        """Make a durable round readable."""
        if written.file.sequence != self._contents.start.sequence:
            self._begin_file(written.file)
        self.end_position = written.end_position
        position = written.content_position
        for batch, stored in zip(written_round.batches, written_round.stored, strict=True):
            self._apply_batch(batch, stored, position)
            position += ENVELOPE_BYTES + len(stored.body)
        for (topic_id, subscription_id), pending in written_round.cursors.items():
            self._apply_cursor(topic_id, subscription_id, pending, position)
            record_bytes = ENVELOPE_BYTES + pending.body_bytes
            self._contents.add_record(topic_id, written_round.now_ms, record_bytes)
            position += record_bytes

    def snapshot(self, topic_id: int) -> TopicSnapshot:
        """The topic's durable cursors and producer states; a replay of the journal over them changes nothing."""
        topic = self._topics.get(topic_id)
        if topic is None:
            return TopicSnapshot({}, ())
        return TopicSnapshot(dict(topic.cursors or {}), topic.producer_states.rows() if topic.producer_states else ())

    def run(self, topic_id: int, below_position: int) -> IndexRun:
        """A topic's batches in this journal below the end of a closed file. From any thread."""
        return (self.index(topic_id) or TopicIndex()).between(0, below_position)

    def file_run(self, topic_id: int, contents: FileContents, end_position: int) -> IndexRun | None:
        """A topic's batches in a file that ends at `end_position`; None when some are not indexed any more."""
        topic = self._topics.get(topic_id)
        if topic is None or topic_id in contents.unlisted:
            return None
        index = topic.index or TopicIndex()
        return index.between(contents.start.base_position, end_position)

    def drop_flushed(self, topic_id: int, end_offset: int) -> None:
        """Drop a topic's batches below an offset from its index: they are in segments."""
        index = self.index(topic_id)
        if index is not None:
            index.drop_below(end_offset)

    def topic_below(self, position: int) -> int | None:
        """A topic with batches below a position, or None."""
        for topic_id, topic in self._topics.items():
            start = topic.index.start_position if topic.index is not None else None
            if start is not None and start < position:
                return topic_id
        return None

    def _begin_file(self, start: FileStart) -> None:
        closed, self._contents = self._contents, FileContents(start)
        self.files.add(start)
        self.on_closed(closed, start)

    def _apply_batch(self, batch: PendingBatch, stored: StoredBatch, position: int) -> None:
        topic = batch.topic
        index = topic.index
        if index is None:
            index = topic.index = TopicIndex()
        base, time_ms = stored.base_offset, stored.append_time_ms
        index.add(base, base + stored.count, position, len(stored.body), time_ms)
        self.cache.add(topic.topic_id, stored)
        self._contents.add_record(topic.topic_id, time_ms, ENVELOPE_BYTES + len(stored.body))
        if batch.numbers is not None:
            self._contents.add_numbers(topic.topic_id, topic.add_numbers(batch.numbers, base))

    def _apply_cursor(self, topic_id: int, subscription_id: int, pending: PendingCursor, position: int) -> None:
        if pending.is_gone:
            return
        topic = self._topics.get(topic_id)
        if topic is not None:
            topic.save_cursor(subscription_id, pending.cursor)
        self._contents.cursors[topic_id, subscription_id] = (position, pending.cursor)

    def _state(self, topic_id: int) -> TopicState:
        topic = self._topics.get(topic_id)
        if topic is None:
            topic = self._topics[topic_id] = TopicState(topic_id)
        return topic


_log = logging.getLogger(__name__)


class ClosedFiles:
    """Closed files: they get their index, and are removed from the front. The disk is used in the runner's thread."""

    def __init__(
        self,
        closed: list[ClosedFile],
        durable: DurableTopics,
        folder: JournalFolder,
        runner: BlockingRunner,
        journal_id: int,
    ) -> None:
        self._closed = closed
        self._durable = durable
        self._folder = folder
        self._runner = runner
        self._journal_id = journal_id
        self._listeners: list[Callable[[], None]] = []
        self._waiting: deque[tuple[FileContents, FileStart]] = deque()
        self._settled = asyncio.Event()
        self._settled.set()
        self._removing = asyncio.Lock()
        self._first_sequence: FileStart | None = None
        """Begin of the journal that the disk may name, though a removal failed; it never goes back behind that."""
        self._tasks = TaskScope("journal files")
        self._work: asyncio.Task[None] | None = None
        self._writes: set[asyncio.Task[None]] = set()
        """Indexes that are being written."""

    @property
    def all(self) -> list[ClosedFile]:
        """All of them, oldest first."""
        return list(self._closed)

    def has_topic(self, topic_id: int) -> bool:
        """True if a record of the topic is in one of them, or in one that is being closed."""
        if any(topic_id in file.topics for file in self._closed):
            return True
        return any(topic_id in contents.topics for contents, _ in self._waiting)

    def topic_ids(self) -> set[int]:
        """Topics with a record in one of them, or in one that is being closed."""
        waiting = [contents.topics for contents, _ in self._waiting]
        return set().union(*(file.topics for file in self._closed), *waiting)

    def on_closed(self, listener: Callable[[], None]) -> None:
        """Have `listener` called with every further one."""
        self._listeners.append(listener)

    def add(self, contents: FileContents, following: FileStart) -> None:
        """Add a complete file, and the start of the one that follows."""
        self._waiting.append((contents, following))
        self._settled.clear()
        if self._work is None or self._work.done():
            self._work = self._tasks.spawn(self._make_indexes(), "indexes")

    async def settled(self) -> None:
        """Wait until every complete file is among `all`."""
        await self._settled.wait()

    async def remove(self, below_sequence: int) -> int:
        """Remove the files before this one; answers the bytes that this frees.

        Raises ValueError when a topic's index still has batches in them, StorageUnavailableError when the disk fails:
        then it can be done again.
        """
        async with self._removing:
            await self._written()
            first = self._start_of(below_sequence)
            if first is None:
                return 0
            self._first_sequence = first
            begin = FirstFile(self._journal_id, first.sequence, first.base_position, first.rounds_before)
            try:
                freed = await self._runner.run(lambda: self._folder.remove_before(begin))
            except OSError as error:
                raise StorageUnavailableError(f"journal files could not be removed: {error}. Check the disk") from error
            self._durable.files.drop_below(first.base_position)
            self._closed = [file for file in self._closed if file.sequence >= first.sequence]
            return freed

    async def close(self) -> None:
        """Write the indexes that are still missing."""
        if self._work is not None:
            await asyncio.wait([self._work])
        await self._written()
        await self._tasks.close()

    def _start_of(self, below_sequence: int) -> FileStart | None:
        """Begin of the journal once the files before that one are removed; None when it begins there already."""
        below = max(below_sequence, self._first_sequence.sequence if self._first_sequence is not None else 0)
        closed_to = self._closed[-1].sequence + 1 if self._closed else 0
        starts = [one for one in self._durable.files.starts if one.sequence <= min(below, closed_to)]
        if len(starts) <= 1:
            return None
        topic_id = self._durable.topic_below(starts[-1].base_position)
        if topic_id is not None:
            raise ValueError(f"topic {topic_id} has batches in journal files below {starts[-1].sequence}")
        return starts[-1]

    async def _make_indexes(self) -> None:
        while self._waiting:
            contents, following = self._waiting[0]
            runs = await self._gather(contents, following.base_position)
            self._closed.append(contents.closed(following.base_position))
            self._waiting.popleft()
            if not self._waiting:
                self._settled.set()
            self._notify()
            if len(self._writes) < JOURNAL_INDEXES_WAITING_MAX:
                self._write(
                    FileIndex(self._journal_id, following.base_position, following.rounds_before, contents, runs)
                )

    def _notify(self) -> None:
        for listener in self._listeners:
            try:
                listener()
            except Exception:
                _log.exception("a callback of the journal failed: %r", listener)

    def _write(self, index: FileIndex) -> None:
        writing = self._tasks.spawn(self._runner.run(lambda: self._folder.write_index(index)), "index")
        self._writes.add(writing)
        writing.add_done_callback(self._writes.discard)

    async def _written(self) -> None:
        """Wait for the indexes that are being written."""
        if self._writes:
            await asyncio.wait(self._writes)

    async def _gather(self, contents: FileContents, end_position: int) -> dict[int, IndexRun | None]:
        """Copy the indexes of a file's batches, letting other tasks run in between."""
        runs: dict[int, IndexRun | None] = {}
        for number, topic_id in enumerate(sorted(contents.topics), 1):
            runs[topic_id] = self._durable.file_run(topic_id, contents, end_position)
            if number % JOURNAL_INDEX_TOPICS_AT_ONCE == 0:
                await asyncio.sleep(0)
        return runs
