"""Consume stream of one topic: batches in, credit and answers out, through as many streams as it takes."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from danube.client.connection import paths
from danube.client.connection.connection import Connection
from danube.client.connection.paths import BrokerAddress
from danube.client.consume.answers import Answers
from danube.client.consume.fetch import batch_messages
from danube.client.consume.inbox import Inbox, Source
from danube.client.consume.prefetch import Credit
from danube.client.message import Message
from danube.model.calls.client import Subscribe
from danube.model.calls.consume import (
    ConsumeAsk,
    ConsumeBatches,
    ConsumeConfirmed,
    ConsumeFenced,
    ConsumeMoved,
    ConsumeOpen,
    ConsumeOpened,
    ConsumeReport,
    NackedRange,
    TakenRange,
)
from danube.model.calls.stream import FetchFrom, FetchStart
from danube.model.errors import DanubeError, InternalError, UnavailableError, UnsupportedError
from danube.model.limits.broker import CALL_TIMEOUT_S, CLIENT_CLOSE_GRACE_S
from danube.model.ranges import OffsetRange
from danube.rpc.carrier import ClientStream
from danube.runtime.clock import TimerHandle
from danube.runtime.tasks import TaskScope, Wakeup
from danube.wire.stream import consume

if TYPE_CHECKING:
    from danube.client.typed.decoder import PayloadDecoder


class ReportingSource(Source, Protocol):
    """A source that knows what the application has."""

    def held(self) -> tuple[TakenRange, ...]:
        """Messages that the application has and has not answered."""


class ConsumeStream:
    """Streaming consumption of one topic. `open` a stream, `read` it; answers outlive it."""

    def __init__(
        self,
        connection: Connection,
        scope: TaskScope,
        credit: Credit,
        decoder: "PayloadDecoder | None" = None,
    ) -> None:
        self._connection = connection
        self._decoder = decoder
        self._scope = scope
        self._credit = credit
        self._answers = Answers()
        self._stream: ClientStream | None = None
        self._changed = Wakeup()
        self._confirmed = Wakeup()
        self._is_closing = False
        self._error: DanubeError | None = None
        self.is_unsupported = False
        """True while messages come one by one."""
        self.moved: BrokerAddress | None = None
        """The broker that serves the topic now, as far as the last stream said."""

    @property
    def is_open(self) -> bool:
        """Tell whether there is a stream."""
        return self._stream is not None

    async def open(
        self, address: BrokerAddress, wanted: Subscribe, start: FetchStart = FetchFrom.LATEST, *, reads: bool = True
    ) -> int:
        """Subscribe by a new stream; answers the consumer's id. Without `reads` the stream ends at once.

        Raises UnsupportedError where the broker has none, PreconditionFailedError for a topic that has no batches.
        """
        self._connection.refuse_without_streams(address)
        stream = await self._connection.open_exchange(address, paths.CONSUME)
        guard = _Guard(stream, self._connection)
        try:
            self._credit.reset()
            is_first = reads and not self._answers.is_unconfirmed  # else these go first, so that nothing comes again
            size, count = self._credit.give() if is_first else (0, 0)
            opening = ConsumeOpen(
                subscribe=wanted, start=start, credit_bytes=size, credit_messages=count, reports=reads
            )
            with suppress(DanubeError):  # its answer tells why
                await stream.send(consume.open_request(opening))
            opened = await _opened(stream)
            if not reads:
                with suppress(DanubeError):
                    await stream.half_close()
                    await stream.receive()
                stream.cancel()
                return opened.consumer_id
        except BaseException as error:
            stream.cancel()
            if isinstance(error, UnsupportedError):
                self._connection.mark_without_streams(address)
            raise
        finally:
            guard.end()
        self._stream, self.is_unsupported = stream, False
        self._answers.reopened()
        self._confirmed.notify()  # a nack of the former stream is not sent again, so nothing would confirm it
        return opened.consumer_id

    async def read(self, source: ReportingSource, inbox: Inbox) -> DanubeError | None:
        """Read the open stream to its end; answers the error with which it ended, None for a good end."""
        stream = self._stream
        if stream is None:
            return UnavailableError("the stream has ended already")
        inbox.discard(source)
        self.moved = None
        sender = self._scope.spawn(self._send_answers(stream), "answers")
        try:
            while (raw := await stream.receive()) is not None:
                answer = consume.response(raw)
                if isinstance(answer, ConsumeAsk):
                    self._report(source, inbox, give_back=answer.give_back)
                    continue
                error = self._handle(answer, source, inbox, await self._messages(answer))
                if error is not None or self.moved is not None:
                    return error
            return None
        except DanubeError as error:
            return error
        finally:
            self._stream = None
            sender.cancel()
            stream.cancel()
            self._confirmed.notify()

    def consumed(self, size: int, count: int) -> None:
        """The application has consumed so many messages, and batches of so many bytes: others may come."""
        self._credit.released(size, count)
        if self._credit.is_due():
            self._changed.notify()

    def wanted(self) -> None:
        """The application waits for messages."""
        if self._credit.is_held_back:
            self._credit.is_held_back = False
            self._changed.notify()

    def acknowledge(self, spans: Sequence[OffsetRange]) -> int:
        """Acknowledge ranges; answers what to `confirmed` for."""
        for span in spans:
            self._answers.acknowledge(*span)
        self._changed.notify()
        return self._answers.last_sequence

    def nack(self, nacked: NackedRange) -> int:
        """Refuse a range; answers what to `confirmed` for."""
        self._answers.nack(nacked)
        self._changed.notify()
        return self._answers.last_sequence

    @property
    def last_sequence(self) -> int:
        """To be `confirmed` for all answers so far."""
        return self._answers.last_sequence

    async def confirmed(self, sequence: int) -> bool:
        """Return True once the broker has these answers; False where answers go message by message now.

        Raises the DanubeError with which the consumer ended.
        """
        while not self._answers.is_settled(sequence):
            if self._error is not None:
                raise self._error
            if self.is_unsupported:
                return False
            await self._confirmed.wait()
        return True

    def end(self, error: DanubeError) -> None:
        """There will be no other stream."""
        self._error = self._error or error
        self._confirmed.notify()

    def give_up(self) -> None:
        """The broker has no such streams, or the topic no batches."""
        self.is_unsupported = True
        self._confirmed.notify()

    async def close(self) -> None:
        """Leave in good order, with the answers that wait; the broker gets a moment to say that it has them."""
        stream = self._stream
        if stream is None:
            return
        self._is_closing = True
        self._changed.notify()
        with suppress(DanubeError, TimeoutError):
            async with asyncio.timeout(CLIENT_CLOSE_GRACE_S):
                while self._stream is stream:
                    await self._confirmed.wait()

    def cancel(self) -> None:
        """Drop the stream."""
        if self._stream is not None:
            self._stream.cancel()

    async def _messages(self, answer: object) -> Sequence[Sequence[Message]]:
        """The messages of each batch, ready to be decoded where there is a schema."""
        if not isinstance(answer, ConsumeBatches):
            return ()
        found = [batch_messages(batch) for batch in answer.batches]
        return found if self._decoder is None else [await self._decoder.prepared(each) for each in found]

    def _handle(
        self, answer: object, source: Source, inbox: Inbox, received: Sequence[Sequence[Message]]
    ) -> DanubeError | None:
        match answer:
            case ConsumeBatches(generation, batches):
                if generation != self._answers.generation:  # a seek: what came before it is not wanted any more
                    inbox.discard(source)
                    self._credit.drop_waiting()
                self._answers.saw(generation)
                for batch, messages in zip(batches, received, strict=True):
                    self._credit.received(len(batch.body), len(messages))
                    inbox.add(source, messages, len(batch.body))
            case ConsumeConfirmed(sequence):
                self._answers.confirm(sequence)
                self._confirmed.notify()
            case ConsumeMoved(connect_url, broker_url, proxy):
                if connect_url:
                    self.moved = BrokerAddress(connect_url, broker_url, proxy)
            case ConsumeFenced(error):
                return error
        return None

    def _report(self, source: ReportingSource, inbox: Inbox, *, give_back: bool) -> None:
        """Say what the application has; what it has not consumed may go to other consumers."""
        held, is_busy = source.held(), inbox.is_busy
        returned = inbox.discard(source) if give_back else ()
        if give_back:
            self._credit.give_back()
        self._answers.report = ConsumeReport(held, is_busy, give_back, returned)
        self._changed.notify()

    async def _send_answers(self, stream: ClientStream) -> None:
        """Send what there is, again and again: what is answered meanwhile goes together."""
        answers = self._answers
        with suppress(DanubeError):  # whoever reads gets the reason why the stream ended
            while True:
                is_due = answers.report is not None or self._credit.is_due()
                if not (answers.has_answers() or is_due or self._is_closing):
                    await self._changed.wait()
                    continue
                is_last = self._is_closing and not answers.has_answers()
                credit = self._credit.give()
                await stream.send(consume.update_request(answers.update(credit, close=is_last)))
                if is_last:
                    return


class _Guard:
    """Gives a stream up whose opening is not answered in time."""

    def __init__(self, stream: ClientStream, connection: Connection) -> None:
        clock = connection.clock
        self._timer: TimerHandle = clock.call_at(clock.monotonic_s() + CALL_TIMEOUT_S, stream.cancel)

    def end(self) -> None:
        """It was answered."""
        self._timer.cancel()


async def _opened(stream: ClientStream) -> ConsumeOpened:
    raw = await stream.receive()
    if raw is None:
        raise UnavailableError("the broker ended the stream")
    answer = consume.response(raw)
    if not isinstance(answer, ConsumeOpened):
        raise InternalError(f"the broker answered the opening of a stream with {type(answer).__name__}")
    return answer
