"""One topic's log, kept in the broker's journal."""

from collections.abc import Callable, Container
from typing import TYPE_CHECKING, Protocol

from danube.model.plans.durability import Durability
from danube.model.subscription import Cursor
from danube.storage.batches.producer_state import SequencedBatch
from danube.storage.log.protocol import AppendDone, Saved, StoredBatch

if TYPE_CHECKING:  # the journal makes these logs
    from danube.storage.journal.backlog import TopicState
    from danube.storage.journal.reads import JournalReads


class JournalAppends(Protocol):
    """What a topic's log asks of the journal's writing side."""

    @property
    def durability(self) -> Durability:
        """Of topics that have none of their own."""

    def append_record(self, topic: "TopicState", record: bytes, done: AppendDone) -> None:
        """As `TopicLog.append_record`."""

    def append_batch(self, topic: "TopicState", body: bytes, done: AppendDone) -> None:
        """As `TopicLog.append_batch`."""

    def set_durability(self, topic: "TopicState", durability: Durability) -> None:
        """As `TopicLog.set_durability`."""

    def confirm(self, topic: "TopicState", offset: int, done: AppendDone) -> None:
        """As `TopicLog.confirm`."""

    def save_cursor(self, topic: "TopicState", subscription_id: int, cursor: Cursor, saved: Saved | None) -> None:
        """As `TopicLog.save_cursor`."""

    def forget_cursor(self, topic: "TopicState", subscription_id: int) -> None:
        """Write no more cursors of this subscription."""


class JournalTopicLog:
    """A view of one topic of a journal; as many as one likes may be open."""

    def __init__(
        self,
        topic: "TopicState",
        appends: JournalAppends,
        reads: "JournalReads",
        forget_cursor: Callable[[int, int], None],
    ) -> None:
        """`forget_cursor` gets the ids of a topic and of a subscription whose cursor is not asked for any more."""
        self._topic = topic
        self._forget_cursor = forget_cursor
        self._appends = appends
        self._reads = reads
        self._listeners: list[Callable[[int], None]] = []

    @property
    def topic_id(self) -> int:
        return self._topic.topic_id

    @property
    def start_offset(self) -> int:
        return self._topic.index.start_offset if self._topic.index is not None else 0

    @property
    def durable_end(self) -> int:
        return self._topic.durable_end

    @property
    def body_bytes(self) -> int:
        index = self._topic.index
        return index.body_bytes if index is not None else 0

    def body_bytes_from(self, position: int) -> int:
        """Of its batches at this position of the journal and behind it."""
        index = self._topic.index
        return index.body_bytes_from(position) if index is not None else 0

    def first_append_ms_from(self, position: int) -> int | None:
        """When the first of these was appended; None when there is none."""
        index = self._topic.index
        return index.first_append_ms_from(position) if index is not None else None

    def append_record(self, record: bytes, done: AppendDone) -> None:
        self._appends.append_record(self._topic, record, done)

    def append_batch(self, body: bytes, done: AppendDone) -> None:
        self._appends.append_batch(self._topic, body, done)

    def set_durability(self, durability: Durability | None) -> None:
        """As `TopicLog.set_durability`."""
        self._appends.set_durability(self._topic, self._appends.durability if durability is None else durability)

    def confirm(self, offset: int, done: AppendDone) -> None:
        self._appends.confirm(self._topic, offset, done)

    def read_hot(self, offset: int, bytes_max: int) -> list[StoredBatch] | None:
        return self._reads.hot(self._topic, offset, bytes_max)

    async def read(self, offset: int, bytes_max: int) -> list[StoredBatch]:
        return await self._reads.read(self._topic, offset, bytes_max)

    def offset_at(self, append_time_ms: int) -> int:
        """The offset of the first record appended at this time or later; `durable_end` when there is none."""
        index = self._topic.index
        if index is None:
            return 0
        number = index.find_time(append_time_ms)
        return index.end_offset if number == len(index) else index.base_offset(number)

    def save_cursor(self, subscription_id: int, cursor: Cursor, saved: Saved | None = None) -> None:
        self._appends.save_cursor(self._topic, subscription_id, cursor, saved)

    def cursor(self, subscription_id: int) -> Cursor | None:
        return self._topic.cursors.get(subscription_id) if self._topic.cursors else None

    def forget_cursor(self, subscription_id: int) -> None:
        self._appends.forget_cursor(self._topic, subscription_id)
        self._forget_cursor(self._topic.topic_id, subscription_id)

    def forget_other_cursors(self, subscription_ids: Container[int]) -> None:
        for subscription_id in [each for each in self._topic.cursors or () if each not in subscription_ids]:
            self.forget_cursor(subscription_id)

    def next_sequence(self, numbering_id: int) -> int:
        return self._topic.producer_states.next_sequence(numbering_id) if self._topic.producer_states else 0

    def offset_of(self, batch: SequencedBatch) -> int | None:
        return self._topic.producer_states.offset_of(batch) if self._topic.producer_states else None

    def append_time_ms(self, offset: int) -> int | None:
        index = self._topic.index
        if index is None or not index.start_offset <= offset < index.end_offset:
            return None
        return index[index.find(offset)].append_time_ms

    def on_durable(self, listener: Callable[[int], None]) -> None:
        self._listeners.append(listener)
        self._topic.listeners = (*self._topic.listeners, listener)

    def close(self) -> None:
        mine = self._listeners
        self._topic.listeners = tuple(one for one in self._topic.listeners if one not in mine)
        self._listeners = []
        self._reads.release(self._topic)
