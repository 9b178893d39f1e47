"""A round of group commit: batches that wait for it, their offsets, and the bytes to write. Pure."""

import logging
from collections import deque
from collections.abc import Callable, Container
from dataclasses import dataclass, field
from datetime import UTC, datetime

from danube.model.errors import MessageTooLargeError, OverloadedError
from danube.model.limits.broker import BATCH_BYTES_MAX, BATCH_RECORDS_MAX, CLAMP_WARNING_INTERVAL_S, CLOCK_STEP_MAX_S
from danube.model.message import SEQUENCED_BIT
from danube.model.plans.durability import Durability
from danube.model.subscription import Cursor
from danube.storage.batches.batch import LENGTH_BYTES, body_bytes, encode_messages
from danube.storage.batches.cursors import CursorKey, PendingCursor, encode_cursor
from danube.storage.batches.envelope import ENVELOPE_BYTES, Kind, encode_data, encode_other
from danube.storage.batches.producer_state import SequencedBatch, StoredNumbers, StoredProducerStates, numbers_of
from danube.storage.batches.stored_batch import AppendDone, StoredBatch
from danube.storage.journal.index import TopicIndex

_WAITER_BYTES = 200  # what a waiting callback and its record's object cost in memory, roughly
_EMPTY_BYTES = body_bytes(0, 0, 0)
_RECORD_BYTES_MAX = BATCH_BYTES_MAX - body_bytes(0, 1, 0)


_log = logging.getLogger(__name__)


class TopicState:
    """State of one topic while the broker runs."""

    __slots__ = ("cursors", "durability", "epoch", "forming", "index", "listeners", "producer_states", "topic_id")

    def __init__(self, topic_id: int, index: TopicIndex | None = None) -> None:
        self.topic_id = topic_id
        self.epoch = 0
        """Of the owner that writes now."""
        self.durability = Durability.FSYNC
        """When its appends are acknowledged."""
        self.index = index
        """None until the topic has data."""
        self.forming: PendingBatch | None = None
        """The batch that single records join."""
        self.listeners: tuple[Callable[[int], None], ...] = ()
        self.cursors: dict[int, Cursor] | None = None
        """As they are on the disk."""
        self.producer_states: StoredProducerStates | None = None
        """None until the topic has a numbered batch."""

    @property
    def durable_end(self) -> int:
        """The offset after the last durable record."""
        return self.index.end_offset if self.index is not None else 0

    @property
    def last_append_time_ms(self) -> int:
        """Append time of the newest durable batch."""
        return self.index.last_append_time_ms if self.index is not None else 0

    def save_cursor(self, subscription_id: int, cursor: Cursor) -> None:
        """Keep a durable cursor."""
        if self.cursors is None:
            self.cursors = {}
        self.cursors[subscription_id] = cursor

    def add_numbers(self, numbers: SequencedBatch, base_offset: int) -> StoredNumbers:
        """Keep the numbers of a durable batch; answers them."""
        if self.producer_states is None:
            self.producer_states = StoredProducerStates()
        self.producer_states.add(numbers, base_offset)
        return StoredNumbers(numbers, base_offset)


@dataclass(slots=True, eq=False)
class PendingBatch:
    """A batch that waits for a round: a client's whole body, or single records."""

    topic: TopicState
    whole_body: bytes | None = None
    count: int = 0
    body_bytes: int = _EMPTY_BYTES
    numbers: SequencedBatch | None = None
    """Of a numbered body."""
    records: list[bytes] = field(default_factory=list)
    waiting: list[AppendDone] = field(default_factory=list)
    """One for each record, or one for the whole body."""

    @property
    def total_bytes(self) -> int:
        """In the journal, envelope included."""
        return ENVELOPE_BYTES + self.body_bytes

    @property
    def cost_bytes(self) -> int:
        """Its share of the backlog's bound."""
        return ENVELOPE_BYTES + self.body_bytes + _WAITER_BYTES * len(self.waiting)

    def body(self) -> bytes:
        """Its body in the journal."""
        return encode_messages(self.records) if self.whole_body is None else self.whole_body


class Backlog:
    """The pending batches of all topics of a journal in order of arrival, bounded in bytes."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._waiting: deque[PendingBatch] = deque()
        self.bytes = 0
        """Accepted and not settled: of batches that wait, and that are being written."""

    def __len__(self) -> int:
        return len(self._waiting)

    def add_record(self, topic: TopicState, record: bytes, done: AppendDone) -> None:
        """Add a single record to the topic's forming batch. Raises OverloadedError, MessageTooLargeError."""
        size = LENGTH_BYTES + len(record)
        if self.bytes + size + _WAITER_BYTES > self._bytes_max:
            self._admit(size + _WAITER_BYTES)
        forming = topic.forming
        if forming is None or forming.count == BATCH_RECORDS_MAX or forming.body_bytes + size > BATCH_BYTES_MAX:
            if len(record) > _RECORD_BYTES_MAX:
                raise MessageTooLargeError(f"a message of {len(record)} bytes fits no batch ({BATCH_BYTES_MAX} bytes)")
            forming = topic.forming = PendingBatch(topic)
            self._waiting.append(forming)
            self.bytes += ENVELOPE_BYTES + _EMPTY_BYTES
        forming.records.append(record)
        forming.waiting.append(done)
        forming.count += 1
        forming.body_bytes += size
        self.bytes += size + _WAITER_BYTES

    def add_batch(self, topic: TopicState, body: bytes, done: AppendDone) -> None:
        """Add a client's checked batch, behind the topic's waiting ones. Raises OverloadedError."""
        numbers = numbers_of(body)
        sequenced = numbers if numbers.numbering_id & SEQUENCED_BIT else None
        batch = PendingBatch(topic, body, numbers.records, len(body), sequenced, waiting=[done])
        self._admit(batch.cost_bytes)
        topic.forming = None
        self._waiting.append(batch)
        self.bytes += batch.cost_bytes

    def pop_round(self, bytes_max: int) -> list[PendingBatch]:
        """The next batches, for a round of at most `bytes_max`, or one batch that is larger."""
        taken: list[PendingBatch] = []
        waiting, room = self._waiting, bytes_max
        while waiting:
            batch = waiting[0]
            room -= ENVELOPE_BYTES + batch.body_bytes
            if room < 0 and taken:
                break
            if batch.topic.forming is batch:
                batch.topic.forming = None
            taken.append(waiting.popleft())
        return taken

    def pop_topics(self, topics: Container[TopicState]) -> list[PendingBatch]:
        """All batches that wait for these topics, to fail them."""
        taken = [batch for batch in self._waiting if batch.topic in topics]
        if taken:
            self._waiting = deque(batch for batch in self._waiting if batch.topic not in topics)
        for batch in taken:
            batch.topic.forming = None
        return taken

    def settle(self, batches: list[PendingBatch]) -> None:
        """Free the bytes of batches that are written, or have failed."""
        self.bytes -= sum(batch.cost_bytes for batch in batches)

    def pop_all(self) -> list[PendingBatch]:
        """All batches, to fail them."""
        taken = list(self._waiting)
        self._waiting.clear()
        return taken

    def _admit(self, cost_bytes: int) -> None:
        if self.bytes and self.bytes + cost_bytes > self._bytes_max:
            raise OverloadedError(
                f"the broker's journal has {self.bytes} bytes waiting to be written, the limit is {self._bytes_max}: "
                "send again later"
            )


@dataclass(slots=True)
class Round:
    """Records that are written at once. A failed round leaves no gap: its offsets are used once it is written."""

    batches: list[PendingBatch]
    cursors: dict[CursorKey, PendingCursor]
    now_ms: int = 0
    """When it was gathered: the append time of its cursors."""
    stored: list[StoredBatch] = field(default_factory=list)
    """The stored form of `batches`."""
    chunks: list[bytes] = field(default_factory=list)
    content_bytes: int = 0
    envelopes: int = 0
    durabilities: set[Durability] = field(default_factory=set)
    """Of all topics with a batch or a cursor in it."""
    ahead: tuple[int, int] | None = None
    """The topic furthest ahead of the clock, by more than CLOCK_STEP_MAX_S, and the append time it gets."""

    @property
    def must_sync(self) -> bool:
        """True if something in it is stored only after a sync."""
        return Durability.FSYNC in self.durabilities

    @property
    def has_become_strict(self) -> bool:
        """True if a topic in it was set to fsync since it was gathered, so that it has to be synced."""
        return Durability.FSYNC in durabilities_of(self.batches, self.cursors)

    def add(self, envelope: bytes, body: bytes) -> None:
        """Add the bytes of one record."""
        self.chunks += (envelope, body)
        self.content_bytes += ENVELOPE_BYTES + len(body)
        self.envelopes += 1


def durabilities_of(batches: list[PendingBatch], cursors: dict[CursorKey, PendingCursor]) -> set[Durability]:
    """The durabilities, as they are now, of the topics in a round."""
    return {batch.topic.durability for batch in batches} | {cursor.durability for cursor in cursors.values()}


def build_round(batches: list[PendingBatch], cursors: dict[CursorKey, PendingCursor], now_ms: int) -> Round:
    """Lay out a round: each batch follows on its topic's end, and no append time goes back."""
    built = Round(batches, cursors, now_ms, durabilities=durabilities_of(batches, cursors))
    furthest_ms = now_ms + round(CLOCK_STEP_MAX_S * 1_000)
    ends: dict[TopicState, tuple[int, int]] = {}
    for batch in batches:
        topic = batch.topic
        base, earliest_ms = ends.get(topic) or (topic.durable_end, max(now_ms, topic.last_append_time_ms))
        body = batch.body()
        if earliest_ms > furthest_ms:
            built.ahead, furthest_ms = (topic.topic_id, earliest_ms), earliest_ms
        end = base + batch.count
        ends[topic] = (end, earliest_ms)
        built.add(encode_data(topic.topic_id, topic.epoch, range(base, end), earliest_ms, body), body)
        built.stored.append(StoredBatch(base, batch.count, earliest_ms, body))
    for (topic_id, subscription_id), pending in cursors.items():
        body = encode_cursor(subscription_id, pending.cursor)
        pending.body_bytes = len(body)
        built.add(encode_other(Kind.CURSOR, topic_id, pending.epoch, now_ms, body), body)
    return built


class ClampLog:
    """Warns at most once in CLAMP_WARNING_INTERVAL_S that messages get append times the clock has not reached."""

    def __init__(self) -> None:
        self._logged_s = -CLAMP_WARNING_INTERVAL_S

    def warn(self, topic_id: int, newest_ms: int, now_ms: int, now_s: float) -> None:
        """Warn of a topic that ends at `newest_ms`, far ahead of the clock's `now_ms`; `now_s` is monotonic."""
        if now_s - self._logged_s < CLAMP_WARNING_INTERVAL_S:
            return
        self._logged_s = now_s
        _log.warning(
            "topic %d ends with a message of %s, and the clock says %s: append times never go back, so new messages "
            "carry that time until it has come. Check the clock; docs/storage.md says what this means for retention",
            *(topic_id, _shown(newest_ms), _shown(now_ms)),
        )


def _shown(time_ms: int) -> str:
    try:
        return datetime.fromtimestamp(time_ms / 1_000, UTC).isoformat(" ", "seconds")
    except (OverflowError, OSError, ValueError):  # there are no such years
        return f"{time_ms} ms since 1970"
