"""Publish stream: batches from one producer into a reliable topic, in order, within a window of bytes.

While the window or the journal's backlog is full, nothing further is read. The acknowledgements of one journal round
are one answer. The first refused batch ends the stream, once everything before it is settled.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Protocol

from danube.broker.schemas.gate import Pair, Payloads
from danube.broker.topics.deduplication import SequencedStream
from danube.broker.topics.topic import ReliableTopic
from danube.model.calls.stream import PublishAcknowledged, PublishBatch, PublishRefused
from danube.model.errors import (
    DanubeError,
    InvalidBatchError,
    InvalidRequestError,
    MessageTooLargeError,
    OverloadedError,
)
from danube.model.limits.broker import MESSAGE_BYTES_MAX
from danube.model.limits.stream import PUBLISH_BATCH_COST_BYTES, PUBLISH_RETRY_S, PUBLISH_WINDOW_BYTES
from danube.model.message import SEQUENCED_BIT
from danube.runtime.clock import Clock, TimerHandle
from danube.storage.batches.batch import BatchHeader, CheckedBody, RecordKind, RecordView, check
from danube.storage.batches.compression import BatchCodec
from danube.storage.batches.placeholder import PLACEHOLDER_PRODUCER_ID, is_placeholder
from danube.storage.batches.stored_batch import AppendDone
from danube.wire.decode import message_topic, schema_of_messages, shared_schema, shared_topic

_FIELD_BYTES_MAX = 6  # tag and length of the payload in a StreamMessage


class PublishOutlet(Protocol):
    """Answers to the producer."""

    @property
    def room(self) -> int:
        """As `ServerStream.room`."""

    def acknowledge(self, answer: PublishAcknowledged) -> None:
        """Report stored batches."""

    def refuse(self, answer: PublishRefused) -> None:
        """Report a batch that is not stored, and end the stream."""

    def finish(self) -> None:
        """End the stream: everything is answered."""

    def pause_reading(self) -> None:
        """As `ServerStream.pause_reading`."""

    def resume_reading(self) -> None:
        """As `ServerStream.resume_reading`."""


def check_batch(body: bytes, topic: str) -> BatchHeader:
    """Check a producer's batch: it must be whole, and every record a message that any client can receive.

    Answers its header. Raises InvalidBatchError, MessageTooLargeError.
    """
    header = check(body)
    if is_placeholder(body):  # consumers would never get it
        raise InvalidBatchError(
            f"the batch has producer id {PLACEHOLDER_PRODUCER_ID}, which stands for lost messages: use the one that"
            " this broker gave the producer"
        )
    view = RecordView(body)
    if header.kind is RecordKind.PAYLOADS:
        _check_topic(shared_topic(view.shared), topic)
        room = MESSAGE_BYTES_MAX - header.shared_bytes - _FIELD_BYTES_MAX
    else:
        for record in view.slice(0, header.count):
            _check_topic(message_topic(record), topic)
        room = MESSAGE_BYTES_MAX
    is_short = len(body) <= room and header.codec is BatchCodec.NONE  # no long record then: most are settled by that
    if not is_short and view.longest > room:
        raise MessageTooLargeError(
            f"a message of {view.longest} bytes is larger than consumers could receive ({MESSAGE_BYTES_MAX} bytes with "
            "all its fields): send it in parts, or send a reference to it"
        )
    return header


def _check_topic(named: str, topic: str) -> None:
    if named != topic:
        raise InvalidBatchError(f"the batch names topic {named[:300]!r} and its stream was opened for {topic}")


class PublishSession:
    """Batches of one stream, from arrival to answer."""

    def __init__(
        self,
        topic: ReliableTopic,
        outlet: PublishOutlet,
        clock: Clock,
        *,
        sequenced: SequencedStream | None = None,
        window_bytes: int = PUBLISH_WINDOW_BYTES,
        ended: Callable[[], None] = lambda: None,
    ) -> None:
        """With `sequenced` batches are de-duplicated. `ended` is called once, at the end."""
        self._topic = topic
        self._outlet = outlet
        self._clock = clock
        self._sequenced = sequenced
        self._window_bytes = window_bytes
        self._on_end = ended
        self._next_sequence: int | None = None
        self._admitted = -1
        """The last batch that passed the schema gate."""
        self._admission: asyncio.Task[None] | None = None
        """Of the first batch that waits, while the gate takes its time."""
        self._waiting: deque[tuple[PublishBatch, int]] = deque()
        """Checked, with their counts, and not appended because the journal's backlog is full."""
        self._appended = 0
        """Batches the journal has and has not settled."""
        self._stored: list[int] = []
        """Base offsets to be acknowledged."""
        self._stored_cost = 0
        self._last_stored = 0
        self._held_cost = 0
        """Of everything that arrived and is not acknowledged."""
        self._refusal: PublishRefused | None = None
        self._half_closed = self._ended = self._paused = self._answer_due = False
        self._retry: TimerHandle | None = None
        topic.streams.add(self)

    def add(self, batch: PublishBatch) -> None:
        """Append a batch that arrived; its answer, or an earlier refusal, goes to the outlet."""
        if self._refusal is not None or self._ended:
            return
        self._held_cost += _cost(batch)
        try:
            self._check_sequence(batch.sequence)
            count = self._check(batch.body)
        except DanubeError as error:
            self._refuse(batch.sequence, error)
        else:
            self._waiting.append((PublishBatch(batch.sequence, CheckedBody(batch.body)), count))
            self._append_waiting()
        self._regulate()

    def half_close(self) -> None:
        """End the stream when all batches are answered: no batch follows."""
        self._half_closed = True
        self._answer_soon()

    def ready(self) -> None:
        """Continue: the outlet has room again."""
        self._answer()

    def stop(self, error: DanubeError) -> None:
        """Accept nothing further; appended batches are still answered, then the stream is refused with `error`."""
        if self._waiting:
            self._refuse(self._waiting[0][0].sequence, error)
        else:
            self._refuse(self._next_sequence or 0, error)
        self._regulate()

    def cancel(self) -> None:
        """Drop the answers: the producer disconnected. Appended batches stay."""
        if self._ended:
            return
        self._ended = True
        self._on_end()
        self._waiting.clear()
        if self._admission is not None:
            self._admission.cancel()
        self._topic.streams.discard(self)
        if self._retry is not None:
            self._retry.cancel()

    def _check_sequence(self, sequence: int) -> None:
        if self._next_sequence not in {None, sequence}:
            raise InvalidRequestError(
                f"batch {self._next_sequence} was due and {sequence} came: number batches one by one, and send them so"
            )
        self._next_sequence = sequence + 1

    def _check(self, body: bytes) -> int:
        header = check_batch(body, self._topic.name)
        if self._sequenced is not None:
            self._sequenced.check(header)
        elif header.producer_id & SEQUENCED_BIT:
            raise InvalidBatchError("the batch is numbered, and its stream was opened without a deduplication_key")
        return header.count

    def _append_waiting(self) -> None:
        while self._waiting:
            batch, count = self._waiting[0]
            try:
                if not self._is_admitted(batch, count):
                    return
            except OverloadedError:
                self._try_again_later()
                return
            except DanubeError as error:
                self._refuse(batch.sequence, error)
                return
            self._appended += 1  # a batch that is stored already may be settled before the call returns
            try:
                self._append(batch.body, count, partial(self._settled, batch.sequence, _cost(batch)))
            except OverloadedError:
                self._appended -= 1
                self._try_again_later()
                return
            except DanubeError as error:
                self._appended -= 1
                self._refuse(batch.sequence, error)
                return
            self._waiting.popleft()

    def _is_admitted(self, batch: PublishBatch, count: int) -> bool:
        """Check a batch against the topic's schema, once; false while that takes its time, and goes on by itself."""
        gate = self._topic.gate
        if self._admission is not None:
            return False
        if gate is not None and self._admitted != batch.sequence:
            later = partial(self._admitted_later, batch.sequence)
            self._admission = gate.admit(self, *_to_check(batch.body, count), later)
            if self._admission is None:
                self._admitted = batch.sequence
        return self._admission is None

    def _admitted_later(self, sequence: int, error: DanubeError | None) -> None:
        self._admission = None
        if error is None:
            self._admitted = sequence
        else:
            self._refuse(sequence, error)
        self._append_waiting()
        self._regulate()

    def _append(self, body: bytes, count: int, settled: AppendDone) -> None:
        if self._sequenced is None:
            self._topic.publish_batch(body, count, settled)
        else:
            self._topic.sequences.publish(body, settled)

    def _try_again_later(self) -> None:
        if self._retry is None:
            self._retry = self._clock.call_at(self._clock.monotonic_s() + PUBLISH_RETRY_S, self._try_again)

    def _try_again(self) -> None:
        self._retry = None
        self._append_waiting()
        self._regulate()

    def _settled(self, sequence: int, cost: int, result: int | DanubeError) -> None:
        self._appended -= 1
        if isinstance(result, DanubeError):
            self._refuse(sequence, result)
        elif self._refusal is None or sequence < self._refusal.sequence:
            self._stored.append(result)
            self._stored_cost += cost
            self._last_stored = sequence
        self._answer_soon()

    def _refuse(self, sequence: int, error: DanubeError) -> None:
        """The earliest refusal counts: nothing after it may be stored."""
        if self._refusal is None or sequence < self._refusal.sequence:
            self._refusal = PublishRefused(sequence, error)
        while self._waiting and self._waiting[-1][0].sequence >= self._refusal.sequence:
            self._waiting.pop()
        self._answer_soon()

    def _answer_soon(self) -> None:
        """Answer in a later turn, when the rest of the round is settled too."""
        if not self._answer_due and not self._ended:
            self._answer_due = True
            asyncio.get_running_loop().call_soon(self._answer)

    def _answer(self) -> None:
        self._answer_due = False
        if self._ended or self._outlet.room <= 0:
            return
        if self._stored:
            self._held_cost -= self._stored_cost
            self._outlet.acknowledge(PublishAcknowledged(self._last_stored, tuple(self._stored)))
            self._stored, self._stored_cost = [], 0
        if self._appended or self._waiting:
            self._regulate()
        elif self._refusal is not None:
            self.cancel()
            self._outlet.refuse(self._refusal)
        elif self._half_closed:
            self.cancel()
            self._outlet.finish()
        else:
            self._regulate()

    def _regulate(self) -> None:
        """Pause or resume reading."""
        full = bool(self._waiting) or self._held_cost >= self._window_bytes or self._refusal is not None
        if full != self._paused and not self._ended:
            self._paused = full
            if full:
                self._outlet.pause_reading()
            else:
                self._outlet.resume_reading()


def _cost(batch: PublishBatch) -> int:
    return len(batch.body) + PUBLISH_BATCH_COST_BYTES


def _to_check(body: bytes, count: int) -> tuple[Pair, int, Payloads]:
    """A batch as the schema gate asks for it."""
    view = RecordView(body)
    if view.header.kind is RecordKind.PAYLOADS:
        return shared_schema(view.shared), count, lambda: view.slice(0, count)
    pair, payloads = schema_of_messages(view.slice(0, count))
    return pair, count, lambda: payloads
