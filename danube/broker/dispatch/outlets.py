"""Outlets: the ways from dispatch to one consumer's stream, message by message or in whole batches.

Stored batches become StreamMessages, one per record. A stored message is not parsed again: protobuf takes the last
value of a field, so the encoded offset is appended.

A streaming consumer answers by ranges, and a range may span what it was never sent, or what is still on its way. So
each batch outlet keeps the offsets that its consumer says it has seen and not answered: an answer counts for these.
"""

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Protocol

from danube.broker.dispatch.events import KeyRun, Send
from danube.model.calls.consume import (
    ConsumeAsk,
    ConsumeAssigned,
    ConsumeBatches,
    ConsumeConfirmed,
    ConsumeEvent,
    ConsumeFenced,
    ConsumeMoved,
)
from danube.model.calls.stream import FetchedBatch
from danube.model.errors import ConsumerReplacedError, DanubeError, TopicNotServedError
from danube.model.limits.broker import BATCH_WINDOWS_BYTES_MAX, KEY_CHARS_MAX
from danube.model.limits.stream import (
    CONSUME_ANSWER_BATCHES_MAX,
    CONSUME_ANSWER_BYTES,
    CONSUME_CREDIT_BYTES_MAX,
    CONSUME_CUT_BYTES_MIN,
    CONSUME_MESSAGES_MAX,
    CONSUME_SEEN_RANGES_MAX,
)
from danube.model.ranges import OffsetRange, RangeSet
from danube.rpc.carrier import ServerStream
from danube.storage.batches.batch import RecordKind, RecordView, part_of
from danube.storage.batches.stored_batch import StoredBatch
from danube.wire.decode import effective_key
from danube.wire.encode import record_of_payload, stamp_offset
from danube.wire.stream import consume


class Outlet(ABC):
    """One consumer's stream and the messages that wait to be written to it."""

    def __init__(self) -> None:
        self.waiting: deque[Send] = deque()
        self.paused = False
        self.delayed = False
        """True if what waits was held up, so that some of it may have been answered or taken back meanwhile."""

    @property
    @abstractmethod
    def room(self) -> int:
        """Bytes that may be written now; none at or below 0."""

    @property
    def messages_max(self) -> int:
        """Messages that may be written now."""
        return CONSUME_MESSAGES_MAX

    @abstractmethod
    def write(self, batch: StoredBatch, send: Send) -> tuple[int, int]:
        """Write what this batch has of `send` while there is room; answers the offset after the last one, and bytes."""


class MessageOutlet(Outlet):
    """A stream of single messages, each with a window of the subscription's messages."""

    def __init__(self, stream: ServerStream, window: "BatchWindow") -> None:
        super().__init__()
        self._stream = stream
        self._window = window

    @property
    def room(self) -> int:
        return self._stream.room

    def write(self, batch: StoredBatch, send: Send) -> tuple[int, int]:
        stream, offset, size = self._stream, send.start, 0
        for message in self._window.messages(batch, send.start, min(send.end, batch.end_offset)):
            if stream.room <= 0:
                break
            stream.write(message)
            size += len(message)
            offset += 1
        return offset, size


class CountedStream(ServerStream, Protocol):
    """A stream that counts messages for the subscription's rate."""

    @property
    def messages_max(self) -> int | None:
        """Messages that may be written now, one at least; None is any number."""

    @property
    def unpaced_room(self) -> int:
        """Bytes that may be written now of answers without messages."""

    def write_batch(self, answer: bytes, messages: int) -> None:
        """As `write`, for an answer with so many messages."""

    def end(self) -> None:
        """The stream is over."""


class BatchStream:
    """A streaming consumer's stream, with its credit: a `ServerStream` whose ends are events to the consumer."""

    def __init__(
        self,
        stream: CountedStream,
        credit_bytes: int,
        moved: Callable[[], ConsumeMoved],
        *,
        credit_messages: int | None = None,
        reports: bool = False,
    ) -> None:
        """`moved` tells where the topic is served. No credit of messages is any number of them."""
        self._stream = stream
        self._moved = moved
        self._is_assigned = False
        self.credit_bytes = min(credit_bytes, CONSUME_CREDIT_BYTES_MAX)
        """Bytes of bodies that may be sent."""
        self._credit_messages = credit_messages
        self.reports = reports
        """True if the consumer says what its application has."""
        self.caller = stream.caller
        self.open = stream.open
        self.write = stream.write
        self.finish = stream.finish
        self.pause_reading = stream.pause_reading
        self.resume_reading = stream.resume_reading

    @property
    def is_left(self) -> bool:
        return self._stream.is_left

    @property
    def room(self) -> int:
        return self.room_beside(0)

    def room_beside(self, collected_bytes: int) -> int:
        """Room beside what is off the credit and not written yet."""
        if self.credit_bytes <= 0 or self.messages_max <= 0:
            return 0
        return min(self.credit_bytes, self._stream.room - collected_bytes)

    @property
    def is_paced(self) -> bool:
        """True while the subscription has a rate."""
        return self._stream.messages_max is not None

    @property
    def messages_max(self) -> int:
        """Messages that credit and rate allow now."""
        credit, paced = self._credit_messages, self._stream.messages_max
        return min(CONSUME_MESSAGES_MAX if each is None else each for each in (credit, paced))

    def add_credit(self, size: int, messages: int) -> None:
        """The consumer takes so many bytes and messages more."""
        self.credit_bytes = min(self.credit_bytes + size, CONSUME_CREDIT_BYTES_MAX)
        if self._credit_messages is not None:
            self._credit_messages = min(self._credit_messages + messages, CONSUME_MESSAGES_MAX)

    def use_credit(self, size: int, messages: int) -> None:
        """So much is sent."""
        self.credit_bytes -= size
        if self._credit_messages is not None:
            self._credit_messages -= messages

    def void_credit(self) -> None:
        """The consumer gives credit anew."""
        self.credit_bytes = 0
        if self._credit_messages is not None:
            self._credit_messages = 0

    def ask(self, *, give_back: bool) -> None:
        """Ask what the application has; it is little, so it goes whether there is room or not."""
        self._stream.write_batch(consume.event(ConsumeAsk(give_back)), 0)

    def write_batches(self, batches: ConsumeBatches) -> None:
        """Write batches, whose bytes were taken off the credit."""
        messages = sum(batch.end - batch.first for batch in batches.batches)
        self._stream.write_batch(consume.batches(batches), messages)

    def assign(self) -> None:
        """The consumer gets messages from now on; it is notified once."""
        if not self._is_assigned and self._stream.unpaced_room > 0:
            self._is_assigned = True
            self._stream.write_batch(consume.event(ConsumeAssigned()), 0)

    def confirm(self, sequence: int) -> bool:
        """Confirm updates; answers whether there was room."""
        if self._stream.unpaced_room <= 0:
            return False
        self._stream.write_batch(consume.confirmed(ConsumeConfirmed(sequence)), 0)
        return True

    def fail(self, error: DanubeError) -> None:
        """End; a consumer that has to go elsewhere is notified, and its stream ends with OK."""
        match error:
            case ConsumerReplacedError():
                event: ConsumeEvent = ConsumeFenced(error)
            case TopicNotServedError():
                event = self._moved()
            case _:
                self._stream.fail(error)
                return
        if self._stream.unpaced_room <= 0:
            self._stream.fail(error)
            return
        self._stream.write_batch(consume.event(event), 0)
        self._stream.finish()

    def cancel(self) -> None:
        """The stream is over."""
        self._stream.end()


class BatchOutlet(Outlet):
    """A stream of batches. Those of one turn of dispatch leave together."""

    def __init__(self, stream: BatchStream, generation: Callable[[], int], seen: RangeSet | None) -> None:
        """`seen` is what the same consumer saw on an earlier stream and has not answered."""
        super().__init__()
        self._stream = stream
        self._generation = generation
        self._collected: list[FetchedBatch] = []
        self._collected_bytes = 0
        self._spans: list[OffsetRange] = []
        self._answers = 0
        """Sent on this stream."""
        self._on_its_way: deque[tuple[int, list[OffsetRange]]] = deque()
        """The number of each answer that the consumer has not seen yet, and the offsets in it."""
        self.seen = seen or RangeSet()
        """Offsets that the consumer has seen and has not answered."""

    @property
    def room(self) -> int:
        if len(self.seen) + len(self._on_its_way) >= CONSUME_SEEN_RANGES_MAX:
            return 0
        return self._stream.room_beside(self._collected_bytes)

    @property
    def messages_max(self) -> int:
        return self._stream.messages_max

    def write(self, batch: StoredBatch, send: Send) -> tuple[int, int]:
        end = min(send.end, batch.end_offset, send.start + self._stream.messages_max)
        fetched = _part(batch, send.start, end)
        size = len(fetched.body)
        if self._collected and (
            self._collected_bytes + size > CONSUME_ANSWER_BYTES or len(self._collected) >= CONSUME_ANSWER_BATCHES_MAX
        ):
            self.flush()
        self._collected.append(fetched)
        self._collected_bytes += size
        self._stream.use_credit(size, end - send.start)
        self._spans.append(OffsetRange(send.start, end))
        if self._stream.is_paced:
            self.flush()  # which counts it
        return end, size

    def flush(self) -> None:
        """Send what was collected."""
        if self._collected:
            batches, self._collected, self._collected_bytes = tuple(self._collected), [], 0
            self._answers += 1
            self._on_its_way.append((self._answers, self._spans))
            self._spans = []
            self._stream.write_batches(ConsumeBatches(self._generation(), batches))

    def assign(self) -> None:
        """The consumer gets messages from now on."""
        self._stream.assign()

    def ask(self, *, give_back: bool) -> None:
        """Ask what the application has of all that was sent up to now."""
        self.flush()
        self._stream.ask(give_back=give_back)

    def saw(self, answers: int) -> None:
        """The consumer has so many answers of this stream."""
        while self._on_its_way and self._on_its_way[0][0] <= answers:
            for span in self._on_its_way.popleft()[1]:
                self.seen.add(*span)

    def left(self) -> RangeSet:
        """Offsets that may be answered after this stream: a consumer that reports names only what it has."""
        if self._stream.reports:
            self.saw(self._answers)
        return self.seen

    def answered(self, spans: Iterable[OffsetRange]) -> list[OffsetRange]:
        """The parts of these that were seen and not answered before; they are answered now."""
        found = [part for span in spans for part in self.seen.overlap(*span)]
        for part in found:
            self.seen.remove(*part)
        return found

    def forget(self) -> None:
        """Nothing that was sent up to now can be answered any more."""
        self.flush()
        self.seen = RangeSet()
        self._on_its_way.clear()


def _part(batch: StoredBatch, start: int, end: int) -> FetchedBatch:
    """The batch as it is stored; or just what is meant, where that is less than half of it."""
    first, last = start - batch.base_offset, end - batch.base_offset
    if 2 * (last - first) > batch.count or len(batch.body) < CONSUME_CUT_BYTES_MIN:
        return FetchedBatch(batch.base_offset, batch.count, batch.append_time_ms, batch.body, first, last)
    body = part_of(batch.body, first, last)
    return FetchedBatch(start, last - first, batch.append_time_ms, body, 0, last - first)


class BatchWindows:
    """All batch windows of a broker within one bound; beyond it, the oldest are cleared and read again."""

    def __init__(self, bytes_max: int = BATCH_WINDOWS_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._filled: dict[BatchWindow, int] = {}
        self.bytes = 0
        """Of the batches in them; a batch in several windows counts in each."""

    def resize(self, window: "BatchWindow", size: int) -> None:
        """A window has so many bytes now."""
        self.bytes += size - self._filled.pop(window, 0)
        if size:
            self._filled[window] = size
        while self.bytes > self._bytes_max and len(self._filled) > 1:
            next(iter(self._filled)).clear()


class BatchWindow:
    """The batches read last, by offset; slicing the same batch again costs nothing but the slice."""

    def __init__(self, windows: BatchWindows | None = None) -> None:
        self._windows = windows or BatchWindows()
        self._batches: Sequence[StoredBatch] = ()
        self._bases: list[int] = []
        self._view: RecordView | None = None
        self._viewed: StoredBatch | None = None

    def put(self, batches: Sequence[StoredBatch]) -> None:
        """Replace the batches."""
        self._batches = batches
        self._bases = [batch.base_offset for batch in batches]
        self._windows.resize(self, sum(len(batch.body) for batch in batches))

    def clear(self) -> None:
        """Remove all batches."""
        self.put(())
        self._view = self._viewed = None

    def batch_at(self, offset: int) -> StoredBatch | None:
        """The batch with this offset, or None if it is not held."""
        index = bisect_right(self._bases, offset) - 1
        if index < 0:
            return None
        batch = self._batches[index]
        return batch if offset < batch.end_offset else None

    def messages(self, batch: StoredBatch, start: int, end: int) -> Iterator[bytes]:
        """Offsets `[start, end)` of the batch, each as an encoded StreamMessage."""
        view = self._view_of(batch)
        records = view.slice(start - batch.base_offset, end - batch.base_offset)
        if view.header.kind is RecordKind.PAYLOADS:
            records = [record_of_payload(view.shared, record) for record in records]
        return (b"".join((record, stamp_offset(offset))) for offset, record in enumerate(records, start))

    def keys(self, batch: StoredBatch, start: int, end: int) -> tuple[KeyRun, ...]:
        """The keys of offsets `[start, end)` of the batch: one run for payloads of one producer, read once."""
        view = self._view_of(batch)
        if view.header.kind is RecordKind.PAYLOADS:
            return (KeyRun(start, end, dispatch_key(view.shared)),)
        records = view.slice(start - batch.base_offset, end - batch.base_offset)
        runs = []
        for key, run in groupby(map(dispatch_key, records)):
            run_end = start + sum(1 for _ in run)
            runs.append(KeyRun(start, run_end, key))
            start = run_end
        return tuple(runs)

    def _view_of(self, batch: StoredBatch) -> RecordView:
        if self._view is None or self._viewed is not batch:
            self._view, self._viewed = RecordView(batch.body), batch
        return self._view


def dispatch_key(message: bytes) -> str:
    """The effective key of an encoded StreamMessage, as far as dispatch goes by it: the first KEY_CHARS_MAX of it."""
    return effective_key(message)[:KEY_CHARS_MAX]
