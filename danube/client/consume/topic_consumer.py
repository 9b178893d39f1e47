"""A consumer of one concrete topic: a plain topic or one partition."""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from danube.client.connection import paths
from danube.client.connection.attachment import Attachment
from danube.client.connection.connection import Connection
from danube.client.connection.paths import BrokerAddress
from danube.client.connection.session import Link
from danube.client.consume.consume_stream import ConsumeStream
from danube.client.consume.inbox import Inbox
from danube.client.consume.prefetch import Credit, Demand, Taken
from danube.client.message import Message
from danube.client.metrics import NO_METRICS, Metrics
from danube.client.schemas import SchemaRegistryClient
from danube.client.settings import ConsumerOptions
from danube.model.calls.client import (
    Acknowledge,
    ClientKind,
    NegativeAcknowledge,
    Receive,
    Subscribe,
)
from danube.model.calls.consume import NackedRange, TakenRange
from danube.model.calls.stream import FetchFrom, FetchStart
from danube.model.errors import (
    AlreadyExistsError,
    DanubeError,
    PreconditionFailedError,
    UnrecoverableError,
    UnsupportedError,
)
from danube.model.limits.broker import CLIENT_CLOSE_GRACE_S
from danube.model.limits.stream import CLIENT_PREFETCH_BYTES, CONSUME_MESSAGES_MAX
from danube.model.ranges import OffsetRange
from danube.model.subscription import SubscriptionType
from danube.model.topic import TopicName
from danube.rpc.carrier import ClientStream
from danube.runtime.clock import sleep_for
from danube.runtime.tasks import TaskScope
from danube.wire import client_messages, decode, encode

if TYPE_CHECKING:
    from danube.client.typed.decoder import PayloadDecoder, WritersSchema
    from danube.client.typed.typed_schema import TypedSchema


@dataclass(kw_only=True)
class ConsumerSettings:
    """The settings of a consumer, which its builder collects."""

    topic: str = ""
    name: str = ""
    subscription: str = ""
    subscription_type: SubscriptionType = SubscriptionType.SHARED
    key_filters: tuple[str, ...] = ()
    options: ConsumerOptions = field(default_factory=ConsumerOptions)
    start: FetchStart = FetchFrom.LATEST
    prefetch_bytes: int = CLIENT_PREFETCH_BYTES
    prefetch_messages: int = CONSUME_MESSAGES_MAX
    streams: bool = True
    metrics: Metrics = NO_METRICS
    schema: "TypedSchema | WritersSchema | None" = None


def _decoder(connection: Connection, schema: "TypedSchema | WritersSchema | None") -> "PayloadDecoder | None":
    if schema is None:
        return None
    from danube.client.typed.decoder import PayloadDecoder  # noqa: PLC0415 - for consumers with a schema alone

    return PayloadDecoder(SchemaRegistryClient(connection), schema)


class TopicConsumer:
    """Reads one topic into an inbox; keeps itself attached until it is closed.

    When its stream ends it looks the topic up, subscribes and opens another one. Pauses grow while attempts fail.
    Where the broker streams batches they come whole and are answered by ranges; elsewhere by one call a message.
    """

    def __init__(
        self,
        connection: Connection,
        topic: TopicName,
        settings: ConsumerSettings,
        scope: TaskScope,
        demand: Demand,
    ) -> None:
        self._connection = connection
        self._topic = topic
        self._settings = settings
        self._request_ids = itertools.count(1)
        self._decoder = _decoder(connection, settings.schema)
        self._stream: ClientStream | None = None
        self._reading: Link | None = None
        """The link of its stream of single messages."""
        credit = Credit(max(settings.prefetch_bytes // demand.sources, 1), demand)
        self._demand = demand
        self._batches = ConsumeStream(connection, scope, credit, self._decoder)
        self._has_streamed = False
        self._taken = Taken()
        self.attachment = Attachment(
            connection, ClientKind.CONSUMER, topic, member=self, options=settings.options, scope=scope
        )

    async def read_into(self, inbox: Inbox) -> None:
        """Put messages into `inbox`, in the order of the stream, until cancelled. Raises DanubeError at the end."""
        inbox.sources[self] = None
        try:
            while True:
                link = await self.attachment.ready()
                error = await self._read(link, inbox)
                self.attachment.lose(link, error, self._batches.moved)
        except DanubeError as error:
            self._batches.end(error)
            raise
        finally:
            del inbox.sources[self]

    def consumed(self, messages: Sequence[Message], size: int) -> None:
        """As `Source.consumed`."""
        self._taken.add(messages[0].offset, messages[-1].offset + 1, self._demand.now_s)
        self._settings.metrics.received(str(self._topic), messages)
        self._batches.consumed(size, len(messages))

    def wanted(self) -> None:
        """As `Source.wanted`."""
        self._batches.wanted()

    def held(self) -> tuple[TakenRange, ...]:
        """As `ReportingSource.held`."""
        return self._taken.report(self._connection.clock.monotonic_s())

    def unanswered(self, start: int, end: int) -> list[OffsetRange]:
        """The parts of a range that the application has and has not answered."""
        return self._taken.unanswered.overlap(start, end)

    async def acknowledge(self, spans: Sequence[OffsetRange], *, waits: bool = True) -> None:
        """Acknowledge ranges; returns once the broker has that, if it `waits`. Raises DanubeError."""
        for span in spans:
            self._taken.unanswered.remove(*span)
        self._settings.metrics.acknowledged(str(self._topic), sum(end - start for start, end in spans))
        if self.is_streaming:
            sequence = self._batches.acknowledge(spans)
            if not waits or await self._batches.confirmed(sequence):
                return
        for offset in _offsets(spans):
            call = Acknowledge(next(self._request_ids), self._topic, self._settings.subscription, offset)
            await self._call(paths.ACKNOWLEDGE, encode.acknowledge(call))

    async def negative_acknowledge(self, span: OffsetRange, delay_s: float | None, reason: str | None) -> None:
        """Return once the broker will send these again. Raises DanubeError."""
        self._taken.unanswered.remove(*span)
        self._settings.metrics.nacked(str(self._topic), span.end - span.start)
        if self.is_streaming:
            sequence = self._batches.nack(NackedRange(*span, delay_s, reason or ""))
            if await self._batches.confirmed(sequence):
                return
        for offset in range(*span):
            call = NegativeAcknowledge(
                request_id=next(self._request_ids),
                topic=self._topic,
                subscription=self._settings.subscription,
                offset=offset,
                delay_s=delay_s,
                reason=reason,
            )
            await self._call(paths.NEGATIVE_ACKNOWLEDGE, encode.negative_acknowledge(call))

    async def flush(self) -> None:
        """Return once the broker has all answers so far. Raises DanubeError."""
        if self.is_streaming:
            await self._batches.confirmed(self._batches.last_sequence)

    async def close(self, *, in_order: bool = True) -> bool:
        """Stop; acknowledgements under way fail. `in_order` has the broker count nothing received as failed.

        Answers whether the next consumer may try the same: not where the broker is unreachable, or has no such call.
        """
        if in_order and self._batches.is_open:
            await self._batches.close()
        link = self._reading if in_order else None
        await self.attachment.close()
        self._batches.end(UnrecoverableError("the consumer is closed: the message will come again"))
        if link is None:
            return in_order
        request, call = client_messages.CLOSE_CONSUMER.encode(link.member_id), self._connection.call
        try:
            await call(link.address, paths.CLOSE_CONSUMER, request, timeout_s=CLIENT_CLOSE_GRACE_S)
        except DanubeError:
            return False
        return True

    @property
    def is_streaming(self) -> bool:
        """Tell whether answers go by ranges."""
        return self._has_streamed and not self._batches.is_unsupported

    async def _call(self, path: str, request: bytes) -> None:
        await self.attachment.call(lambda link: self._connection.call(link.address, path, request))

    async def _read(self, link: Link, inbox: Inbox) -> DanubeError | None:
        """Read one stream; answers the error with which it ended, None for a good end."""
        if self._settings.streams:
            try:
                await self._batches.open(link.address, self._subscribe())
            except (UnsupportedError, PreconditionFailedError):
                self._batches.give_up()
            except DanubeError as error:
                return error
            else:
                self._has_streamed = True
                self.attachment.mark_used(link)
                return await self._batches.read(self, inbox)
        return await self._read_messages(link, inbox)

    async def _read_messages(self, link: Link, inbox: Inbox) -> DanubeError | None:
        request = client_messages.RECEIVE.encode(
            Receive(request_id=next(self._request_ids), consumer_id=link.member_id)
        )
        try:
            stream = await self._connection.open_stream(link.address, paths.RECEIVE_MESSAGES, request)
        except DanubeError as error:
            return error
        self._stream, self._reading = stream, link
        try:
            while (data := await stream.receive()) is not None:
                message = await self._message(data)
                self.attachment.mark_used(link)
                await inbox.add_single(self, message)
            return None
        except DanubeError as error:
            return error
        finally:
            self._stream = self._reading = None
            stream.cancel()

    async def _message(self, data: bytes) -> Message:
        message = Message(decode.received_message(data))
        if self._decoder is None:
            return message
        (prepared,) = await self._decoder.prepared((message,))
        return prepared

    async def attach(self, address: BrokerAddress, *, may_create: bool) -> int:  # noqa: ARG002 - it never does
        """As `Member.attach`."""
        call = self._subscribe()
        try:
            if self._settings.start is not FetchFrom.LATEST:  # each time: a topic made anew has no subscription yet
                return await self._batches.open(address, call, self._settings.start, reads=False)
            answer = await self._connection.call(address, paths.SUBSCRIBE, client_messages.SUBSCRIBE.encode(call))
        except AlreadyExistsError as error:
            raise UnrecoverableError(f"the consumer cannot subscribe: {error}") from error
        return client_messages.SUBSCRIBED.decode(answer).consumer_id

    async def leave(self) -> None:
        """As `Member.leave`: the broker ends the stream soon after CLOSE, so nothing on its way is lost."""
        await sleep_for(self._connection.clock, CLIENT_CLOSE_GRACE_S)
        self._batches.cancel()
        if self._stream is not None:
            self._stream.cancel()

    def _subscribe(self) -> Subscribe:
        return Subscribe(
            request_id=next(self._request_ids),
            topic=self._topic,
            consumer_name=self._settings.name,
            subscription=self._settings.subscription,
            type=self._settings.subscription_type,
            key_filters=self._settings.key_filters,
        )


def _offsets(spans: Iterable[OffsetRange]) -> Iterable[int]:
    return (offset for span in spans for offset in range(*span))
