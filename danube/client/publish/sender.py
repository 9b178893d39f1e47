"""Batch stream: the batches of one `send_many` to one topic, kept until they are acknowledged.

Batches are numbered and sent in order on one stream. When it breaks, another one is opened to the topic's broker, and
unacknowledged batches are sent again in the same order: at least once. With de-duplication the broker recognises what
it has stored already: exactly once.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from danube.client.connection import paths
from danube.client.connection.attachment import Attachment
from danube.client.connection.connection import Connection
from danube.client.connection.session import Link
from danube.client.metrics import NO_METRICS, Metrics
from danube.client.publish.accumulator import BatchAccumulator, ClosedBatch, ProducerIdentity
from danube.model.calls.stream import PublishAcknowledged, PublishBatch, PublishOpen, PublishOpened, PublishRefused
from danube.model.errors import (
    DanubeError,
    DeadlineExceededError,
    InternalError,
    MessageTooLargeError,
    UnavailableError,
    UnsupportedError,
)
from danube.model.limits.broker import (
    CALL_TIMEOUT_S,
    CLIENT_BATCH_BYTES,
    CLIENT_BATCHES_IN_FLIGHT_MAX,
    MESSAGE_BYTES_MAX,
)
from danube.rpc.carrier import PROXY_LIMITS, ClientStream
from danube.runtime.clock import TimerHandle
from danube.runtime.tasks import TaskScope, Wakeup
from danube.storage.batches.compression import BatchCodec
from danube.wire import decode, encode

_FIELD_BYTES_MAX = 6  # tag and length of the payload in a StreamMessage


@dataclass(frozen=True, slots=True)
class StoredRange:
    """Messages that a broker has, in the order in which they were given."""

    topic: str
    """Of a partitioned topic, the partition."""
    first_offset: int
    count: int


OnStored = Callable[[StoredRange], None]
Shared = Callable[[Link, int], bytes]
"""An encoded message without its payload, for the link and the publish time (ms)."""


@dataclass(frozen=True, slots=True)
class BatchForm:
    """Form of the batches of one stream."""

    are_whole: bool = False
    """True if records are whole encoded messages, each with its own key and attributes."""
    codec: BatchCodec = BatchCodec.NONE
    """Used where the broker takes it."""


PLAIN = BatchForm()


class BatchStream:
    """One topic's part of a `send_many`. `open` it, `append` payloads, `finish` it; its scope ends it early."""

    def __init__(
        self,
        connection: Connection,
        attachment: Attachment,
        opening: PublishOpen,
        shared: Shared,
        on_stored: OnStored,
        *,
        identity: ProducerIdentity,
        form: BatchForm = PLAIN,
        on_room: Callable[[], None] = lambda: None,
        metrics: Metrics = NO_METRICS,
    ) -> None:
        """`on_room` is called each time a batch was closed, so that another one can be filled."""
        self._metrics = metrics
        self._form = form
        self._on_room = on_room
        self._codec = BatchCodec.NONE
        self._identity = identity
        self._producer_sequence = identity.acquire_sequence()
        self._sequenced_id = 0
        """The producer id of de-duplicated batches; 0 without de-duplication."""
        self._connection = connection
        self._clock = connection.clock
        self._attachment = attachment
        self._opening = opening
        self._shared = shared
        self._on_stored = on_stored
        self._payload_bytes_max = MESSAGE_BYTES_MAX
        first = self._producer_sequence.next_sequence if self._producer_sequence else 0
        self._accumulator = BatchAccumulator(first, are_whole=form.are_whole)
        self._unacknowledged: deque[ClosedBatch] = deque()
        self._acknowledged = 0
        self._is_last = False
        self._error: Exception | None = None
        self._changed = Wakeup()
        self._opened: asyncio.Future[None] | None = None
        self._work: asyncio.Task[None] | None = None

    async def open(self, scope: TaskScope) -> None:
        """Open a stream. Raises UnsupportedError where the broker has none, and DanubeError as attaching does."""
        self._opened = asyncio.get_running_loop().create_future()
        self._work = scope.spawn(self._run(scope), f"batches to {self._opening.topic}")
        await self._opened

    def append(self, payload: bytes) -> bool:
        """Add a payload if it fits the batch that is being collected; answers whether it did.

        Raises MessageTooLargeError, and what ended the stream.
        """
        if self._error is not None:
            raise self._error
        if len(payload) > self._payload_bytes_max:
            raise MessageTooLargeError(
                f"the payload has {len(payload):,} bytes and the limit is {MESSAGE_BYTES_MAX:,}, with all its fields: "
                "send it in parts, or send where it is kept"
            )
        was_empty = not self._accumulator
        fits = self._accumulator.append(payload, self._clock.now_ms())
        if was_empty:
            self._changed.notify()
        return fits

    async def wait_for_room(self) -> None:
        """Return when the collected batch was sent, or the stream has ended."""
        while self._accumulator and self._error is None:
            await self._changed.wait()

    async def finish(self) -> None:
        """Return when everything appended is stored. Raises what ended the stream before that."""
        self.end()
        await self.ended()
        if self._error is not None:
            raise self._error
        if self._producer_sequence is not None and self._is_done:
            self._producer_sequence.next_sequence = self._accumulator.next_record
            self._identity.release_sequence(self._producer_sequence)

    @property
    def error(self) -> Exception | None:
        """The error that ended it."""
        return self._error

    def end(self) -> None:
        """Append nothing more: it ends when everything is stored, now if it is."""
        self._is_last = True
        self._changed.notify()
        if self._work is not None and self._is_done:
            self._work.cancel()

    async def ended(self) -> None:
        """Return when it has ended, whatever the reason."""
        if self._work is not None:
            await asyncio.wait([self._work])

    @property
    def is_idle(self) -> bool:
        """Tell whether everything appended is stored."""
        return not self._accumulator and not self._unacknowledged

    @property
    def _is_done(self) -> bool:
        return self._is_last and not self._accumulator and not self._unacknowledged

    async def _run(self, scope: TaskScope) -> None:
        try:
            while not self._is_done:
                await self._attachment.call(lambda link: self._converse(link, scope))
        except Exception as error:
            self._error = error  # raised by `open`, `append` and `finish`
            if self._opened is not None and not self._opened.done():
                self._opened.set_exception(error)
                with suppress(Exception):
                    self._opened.result()  # retrieved, so that nothing is logged where nobody waits
            self._changed.notify()

    async def _converse(self, link: Link, scope: TaskScope) -> None:
        """One stream, from its opening to its end; one that stored something and broke counts as a success."""
        before = self._acknowledged
        try:
            await self._exchange(link, scope)
        except DanubeError as error:
            if self._acknowledged == before or not error.retryable:
                raise

    async def _exchange(self, link: Link, scope: TaskScope) -> None:
        self._connection.refuse_without_streams(link.address)
        stream = await self._connection.open_exchange(link.address, paths.PUBLISH)
        state = _StreamState(stream, self._connection)
        try:
            opening = self._identity.opening(self._opening, self._producer_sequence)
            await stream.send(encode.publish_open(opening))
            await self._attach(link, state)
            sender = scope.spawn(self._send_all(link, state), "sender")
            try:
                await self._read_answers(state)
            finally:
                sender.cancel()
                await asyncio.wait([sender])
        except UnsupportedError:
            self._connection.mark_without_streams(link.address)
            raise
        except DanubeError as error:
            raise state.reason or error from error
        finally:
            state.close()

    async def _attach(self, link: Link, state: "_StreamState") -> None:
        answer = await state.answer()
        if not isinstance(answer, PublishOpened):
            raise InternalError(f"the broker answered the opening of a stream with {type(answer).__name__}")
        self._identity.opened(answer, self._producer_sequence)
        if self._form.are_whole and not answer.takes_messages:
            raise UnsupportedError("the broker takes no batches of whole messages")
        self._codec = self._form.codec if self._form.codec in answer.codecs else BatchCodec.NONE
        self._sequenced_id = answer.numbering_id
        state.window_bytes = answer.window_bytes
        if self._producer_sequence is not None:
            state.batches_max = min(state.batches_max, max(answer.batches_max, 1))
        if not self._form.are_whole:
            shared_bytes = len(self._shared(link, self._clock.now_ms()))
            self._payload_bytes_max = MESSAGE_BYTES_MAX - shared_bytes - _FIELD_BYTES_MAX
        if self._opened is not None and not self._opened.done():
            self._opened.set_result(None)

    async def _send_all(self, link: Link, state: "_StreamState") -> None:
        """Send what another stream left unacknowledged, then new batches, as soon as there is room."""
        try:
            for batch in tuple(self._unacknowledged):
                while not state.has_room(len(batch.body)):
                    await self._changed.wait()
                if state.is_full(len(batch.body)) or not await state.send(batch):
                    return await state.finish()
            while True:
                while not (self._accumulator and state.has_room(self._accumulator.bytes)):
                    await self._changed.wait()
                if state.is_full(self._accumulator.bytes) or not await state.send(self._seal(link)):
                    return await state.finish()
        except Exception as error:
            state.give_up(error)  # raised where the answers are read

    def _seal(self, link: Link) -> ClosedBatch:
        shared = self._shared(link, self._accumulator.first_ms)
        producer_id = self._sequenced_id or link.member_id
        batch = self._accumulator.seal(shared, producer_id, self._clock.now_ms(), self._codec)
        self._unacknowledged.append(batch)
        self._changed.notify()
        self._on_room()
        return batch

    async def _read_answers(self, state: "_StreamState") -> None:
        while not self._is_done:
            answer = await state.answer()
            if isinstance(answer, PublishRefused):
                raise answer.error
            if isinstance(answer, PublishAcknowledged):
                self._acknowledge(state, answer)

    def _acknowledge(self, state: "_StreamState", answer: PublishAcknowledged) -> None:
        count = len(answer.base_offsets)
        if not 0 < count <= state.in_flight or self._unacknowledged[count - 1].sequence != answer.sequence:
            raise InternalError("the broker acknowledged batches that it was not sent")
        for offset in answer.base_offsets:
            batch = self._unacknowledged.popleft()
            state.acknowledged(batch)
            self._acknowledged += 1
            self._metrics.sent(str(self._opening.topic), batch.count, (self._clock.now_ms() - batch.first_ms) / 1_000)
            self._on_stored(StoredRange(str(self._opening.topic), offset, batch.count))
        self._changed.notify()


class _StreamState:
    """One stream and its batches in flight; given up when the broker owes an answer for too long."""

    def __init__(self, stream: ClientStream, connection: Connection) -> None:
        self._stream = stream
        self._clock = connection.clock
        self.reason: Exception | None = None
        """The reason for which this end gave the stream up."""
        self._opening = True
        self._heard_s = self._clock.monotonic_s()
        self._alarm: TimerHandle = self._clock.call_at(self._heard_s + CALL_TIMEOUT_S, self._check)
        self.window_bytes = 0
        self.batches_max = CLIENT_BATCHES_IN_FLIGHT_MAX
        self.in_flight = 0
        self._in_flight_bytes = 0
        self._sent_bytes = self._last_bytes = 0
        self._connection = connection

    def has_room(self, size: int) -> bool:
        """Tell whether a batch of this size may be sent; one alone always may."""
        if not self.in_flight:
            return True
        fits = self._in_flight_bytes + size <= self.window_bytes
        return fits and self.in_flight < self.batches_max

    def is_full(self, size: int) -> bool:
        """Tell whether the way to the broker would end the stream for a further batch of this size."""
        return 0 < self._sent_bytes > self._connection.stream_bytes_max - size

    async def finish(self) -> None:
        """Send nothing more: it ends when the broker has acknowledged what it got, and another one goes on."""
        with suppress(DanubeError):
            await self._stream.half_close()

    async def send(self, batch: ClosedBatch) -> bool:
        """Send a batch, which is in flight from now on. False when the stream has ended: its answers tell why."""
        if not self.in_flight:
            self._heard_s = self._clock.monotonic_s()
        self.in_flight += 1
        self._last_bytes = len(batch.body)
        self._in_flight_bytes += self._last_bytes
        self._sent_bytes += self._last_bytes
        try:
            await self._stream.send(encode.publish_batch(PublishBatch(batch.sequence, batch.body)))
        except DanubeError:
            return False
        return True

    def acknowledged(self, batch: ClosedBatch) -> None:
        """The broker has it."""
        self.in_flight -= 1
        self._in_flight_bytes -= len(batch.body)

    async def answer(self) -> PublishOpened | PublishAcknowledged | PublishRefused:
        """The next answer. Raises DanubeError when the stream ends."""
        try:
            raw = await self._stream.receive()
        except InternalError as error:
            raise self._reset(error) from error
        if raw is None:
            raise UnavailableError("the broker ended the stream")
        self._heard_s = self._clock.monotonic_s()
        self._opening = False
        return decode.publish_response(raw)

    def _reset(self, error: InternalError) -> DanubeError:
        """The error of a stream that was ended after so many bytes: nginx does so at its limit of a request's body."""
        reached, stored = self._sent_bytes, self._sent_bytes - self._in_flight_bytes
        if reached <= CLIENT_BATCH_BYTES:
            return error
        text = f"the stream of batches was ended after {reached:,} bytes ({error})"
        if self._last_bytes == reached:  # a single batch is not split: it is one large message
            return MessageTooLargeError(f"{text}: {PROXY_LIMITS}")
        self._connection.stream_bytes_max = min(max(stored, reached // 2), self._connection.stream_bytes_max)
        return UnavailableError(f"{text}, and shorter ones follow: {PROXY_LIMITS}")

    def give_up(self, reason: Exception) -> None:
        """Drop the stream because of something at this end."""
        self.reason = self.reason or reason
        self._stream.cancel()

    def close(self) -> None:
        """Drop the stream."""
        self._alarm.cancel()
        self._stream.cancel()

    def _check(self) -> None:
        now_s = self._clock.monotonic_s()
        due_s = self._heard_s + CALL_TIMEOUT_S
        if (self._opening or self.in_flight) and now_s >= due_s:
            self.give_up(DeadlineExceededError(f"the broker acknowledged nothing for {CALL_TIMEOUT_S:g} s"))
        else:
            self._alarm = self._clock.call_at(max(due_s, now_s + CALL_TIMEOUT_S / 2), self._check)
