"""What is durable and can be found: the indexes, cursors and recent batches of all topics of a journal."""

from collections.abc import Callable

from danube.model.plans.durability import Durability
from danube.storage.batches.envelope import ENVELOPE_BYTES
from danube.storage.batches.producer_state import StoredProducerStates
from danube.storage.journal.backlog import PendingBatch, TopicState
from danube.storage.journal.contents import FileContents
from danube.storage.journal.files import FileStart, FileTable
from danube.storage.journal.index import IndexRun, TopicIndex
from danube.storage.journal.recovered import Recovered
from danube.storage.journal.round import Round
from danube.storage.journal.topic_base import TopicBase, TopicSnapshot
from danube.storage.journal.writer import Written
from danube.storage.log.cache import BatchCache
from danube.storage.log.cursors import PendingCursor, encoded_bytes
from danube.storage.log.protocol import StoredBatch

FileClosed = Callable[[FileContents, FileStart], None]
"""Called with what is in a file that is complete, and where the next one begins."""


class DurableTopics:
    """The topics of a journal, as recovered and as rounds are written."""

    def __init__(self, recovered: Recovered, cache: BatchCache, end_position: int) -> None:
        self.files: FileTable = recovered.files
        self.cache = cache
        self.end_position = end_position
        """Behind the last round that is durable."""
        self.on_file_closed: FileClosed = lambda *_: None
        self.is_in_closed_file: Callable[[int], bool] = lambda _: False
        """Whether a record of a topic is in one of the files before the last."""
        self._contents = recovered.contents or FileContents(recovered.files.starts[-1])
        self._topics = {topic_id: TopicState(topic_id, index) for topic_id, index in recovered.topics.items()}
        for (topic_id, subscription_id), cursor in recovered.cursors.items():
            self._state(topic_id).save_cursor(subscription_id, cursor)
        for topic_id, producer_states in recovered.producer_states.items():
            self._state(topic_id).producer_states = producer_states

    def open(self, topic_id: int, epoch: int, durability: Durability) -> TopicState:
        """The topic's state, to be written to under `epoch`. Raises ValueError for one whose records were left out."""
        if topic_id not in self._topics and (topic_id in self._contents.topics or self.is_in_closed_file(topic_id)):
            raise ValueError(f"topic id {topic_id} has records that were left out: ids are never used again")
        topic = self._state(topic_id)
        topic.epoch, topic.durability = epoch, durability
        return topic

    def adopt(self, base: TopicBase) -> None:
        """Begin a topic where `base` ends, whatever was known of it. Raises ValueError when it is there."""
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
        """Of the newest batch of all topics, let go or not; None when there never was one."""
        times = (topic.index.last_append_time_ms for topic in self._topics.values() if topic.index is not None)
        return max(times, default=0) or None

    def bytes_in_last_file(self, is_meant: Callable[[int], bool]) -> int:
        """Of the records, in the journal's last file, of the topics that are meant."""
        return sum(size for topic_id, size in self._contents.bytes_of.items() if is_meant(topic_id))

    def index(self, topic_id: int) -> TopicIndex | None:
        """Where the topic's batches are; None when it has none."""
        topic = self._topics.get(topic_id)
        return topic.index if topic is not None else None

    def forget(self, topic_id: int) -> TopicState | None:
        """Let go of a topic for good; answers what was kept of it."""
        return self._topics.pop(topic_id, None)

    def forget_cursor(self, topic_id: int, subscription_id: int) -> None:
        """Let go of the cursor of a subscription that was deleted; its id is never used again."""
        topic = self._topics.get(topic_id)
        if topic is not None and topic.cursors:
            topic.cursors.pop(subscription_id, None)
        self._contents.cursors.pop((topic_id, subscription_id), None)

    def take_in(self, written_round: Round, written: Written) -> None:
        """A round is durable: from here on it can be found."""
        if written.file.sequence != self._contents.start.sequence:
            self._begin_file(written.file)
        self.end_position = written.end_position
        position = written.content_position
        for batch, stored in zip(written_round.batches, written_round.stored, strict=True):
            self._take_in_batch(batch, stored, position)
            position += ENVELOPE_BYTES + len(stored.body)
        for (topic_id, subscription_id), pending in written_round.cursors.items():
            self._take_in_cursor(topic_id, subscription_id, pending, position)
            record_bytes = ENVELOPE_BYTES + encoded_bytes(pending.cursor)
            self._contents.note(topic_id, written_round.now_ms, record_bytes)
            position += record_bytes

    def snapshot(self, topic_id: int) -> TopicSnapshot:
        """Where the topic's subscriptions and numberings stand."""
        topic = self._topics.get(topic_id)
        if topic is None:
            return TopicSnapshot({}, ())
        return TopicSnapshot(dict(topic.cursors or {}), topic.producer_states.rows() if topic.producer_states else ())

    def run(self, topic_id: int, contents: FileContents, end_position: int) -> IndexRun | None:
        """A topic's batches in a file that ends there; None when some are not known any more."""
        topic = self._topics.get(topic_id)
        if topic is None or topic_id in contents.unlisted:
            return None
        index = topic.index or TopicIndex()
        return index.between(contents.start.base_position, end_position)

    def let_go(self, topic_id: int, end_offset: int) -> None:
        """Forget where a topic's batches below an offset are."""
        index = self.index(topic_id)
        if index is not None:
            index.drop_below(end_offset)

    def held_below(self, position: int) -> int | None:
        """A topic with batches below a position, or None when there is none."""
        for topic_id, topic in self._topics.items():
            start = topic.index.start_position if topic.index is not None else None
            if start is not None and start < position:
                return topic_id
        return None

    def _begin_file(self, start: FileStart) -> None:
        closed, self._contents = self._contents, FileContents(start)
        self.files.add(start)
        self.on_file_closed(closed, start)

    def _take_in_batch(self, batch: PendingBatch, stored: StoredBatch, position: int) -> None:
        topic = batch.topic
        index = topic.index
        if index is None:
            index = topic.index = TopicIndex()
        base, time_ms = stored.base_offset, stored.append_time_ms
        index.add(base, base + stored.count, position, len(stored.body), time_ms)
        self.cache.add(topic.topic_id, stored)
        self._contents.note(topic.topic_id, time_ms, ENVELOPE_BYTES + len(stored.body))
        if batch.numbers is not None:
            self._contents.note_numbers(topic.topic_id, topic.note_numbers(batch.numbers, base))

    def _take_in_cursor(self, topic_id: int, subscription_id: int, pending: PendingCursor, position: int) -> None:
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
