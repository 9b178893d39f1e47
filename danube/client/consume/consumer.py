"""`Consumer` and its builder, for a plain topic or for the partitions of one."""

import asyncio
import logging
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from copy import copy
from functools import partial
from types import TracebackType
from typing import Any, Self

from danube.client.connection.connection import Connection
from danube.client.connection.retry import Failures, delay_before_retry
from danube.client.connection.session import final_error
from danube.client.consume.answers import AckPipeline
from danube.client.consume.inbox import Inbox, MessageQueue
from danube.client.consume.prefetch import Demand
from danube.client.consume.topic_consumer import ConsumerSettings, TopicConsumer
from danube.client.message import Message
from danube.client.metrics import Metrics
from danube.client.settings import ConsumerOptions
from danube.model.calls.stream import FetchStart
from danube.model.errors import DanubeError, InvalidRequestError, TopicNotFoundError, UnrecoverableError
from danube.model.limits.broker import CLIENT_CLOSE_TIMEOUT_S, CLIENT_PARTITIONS_INTERVAL_S
from danube.model.limits.stream import CLIENT_RECEIVE_MANY_MAX
from danube.model.ranges import OffsetRange, RangeSet
from danube.model.subscription import SubscriptionType
from danube.model.topic import TopicName
from danube.runtime.clock import sleep_for
from danube.runtime.tasks import TaskScope

__all__ = ["Consumer", "ConsumerBuilder", "ConsumerOptions"]

_log = logging.getLogger(__name__)


class Consumer:
    """Receives the messages of a subscription. `ConsumerBuilder.build` makes it; `subscribe` or `async with` begins.

    Take messages with `async for`, many at a time with `receive_many`, or from the queue that `receive` answers: one of
    these ways for one consumer. A message that was not acknowledged comes again; a reliable topic delivers at least
    once. When the broker is lost for good, or the topic is deleted, all of them raise. Partitions that the topic gets
    later are joined within CLIENT_PARTITIONS_INTERVAL_S.

    A broker with `danube.stream` sends batches ahead, about what the application works off in a second, and gets
    acknowledgements by ranges. What waits here does not fail. With others it is one call for each message; what the
    methods promise is the same.
    """

    def __init__(self, connection: Connection, settings: ConsumerSettings) -> None:
        self._connection = connection
        self._settings = settings
        self._scope = TaskScope(f"consumer {settings.name}")
        self._consumers: dict[str, TopicConsumer] = {}
        self._demand = Demand(settings.prefetch_messages)
        self._inbox = Inbox(connection.clock, self._demand)
        self._is_reading = False
        self._queue: MessageQueue | None = None
        self._acks = AckPipeline(self._scope)
        self._closed = False

    async def subscribe(self) -> None:
        """Join the subscription on the topic or on all its partitions; the first consumer creates it.

        Raises TopicNotFoundError when the topic does not exist: subscribing never creates one. Raises DanubeError.
        """
        if self._consumers:
            return
        base = TopicName.parse(self._settings.topic)
        topics = await self._find_topics(base)
        self._demand.sources = max(len(topics), 1)
        consumers = {str(topic): self._topic_consumer(topic) for topic in topics}
        for consumer in consumers.values():
            consumer.attachment.open()
        try:
            for consumer in consumers.values():
                await consumer.attachment.ready()
        except BaseException:
            for consumer in consumers.values():
                await consumer.close()
            raise
        self._consumers = consumers
        self._connection.members.add(self)
        if base not in topics:
            self._scope.spawn(self._follow_partitions(base), f"partitions of {base}")

    async def receive(self) -> asyncio.Queue[Message]:
        """Begin to receive and answer the queue of messages; the same queue every time.

        Its `get` raises DanubeError once the consumer is closed or has lost its broker for good. Raises
        UnrecoverableError before `subscribe`.
        """
        if self._queue is None:
            self._begin()
            self._queue = MessageQueue(self._inbox)
        return self._queue

    async def receive_many(
        self, messages_max: int = CLIENT_RECEIVE_MANY_MAX, *, timeout_s: float | None = None
    ) -> list[Message]:
        """The next messages, at least one, as many as are there, all of one topic or partition.

        Empty when none came for `timeout_s`. Raises as the queue of `receive`.
        """
        self._begin()
        if found := self._inbox.take(messages_max):
            return found
        if timeout_s is None:
            return await self._inbox.get(messages_max)
        try:
            async with asyncio.timeout(timeout_s):
                return await self._inbox.get(messages_max)
        except TimeoutError:
            return []

    async def ack(self, message: Message) -> None:
        """Acknowledge `message`; returns once the broker has answered. Raises DanubeError."""
        offset = message.offset
        await self._consumer_of(message).acknowledge([OffsetRange(offset, offset + 1)])

    async def ack_later(self, message: Message) -> None:
        """Acknowledge `message` without waiting for the broker.

        Waits only while 256 of these are on their way, one by one. `flush_acks` and `close` wait for them; one that
        fails is logged, and its message comes again.
        """
        offset = message.offset
        await self._ack_spans(self._consumer_of(message), [OffsetRange(offset, offset + 1)], waits=False)

    async def ack_range(self, first: Message, last: Message, *, waits: bool = True) -> None:
        """Acknowledge what this consumer took from `first` to `last`, both of one topic or partition, and included.

        Without `waits` it does not wait for the broker, as `ack_later`. Raises DanubeError.
        """
        consumer = self._consumer_of(first)
        if self._consumer_of(last) is not consumer:
            raise InvalidRequestError("a range is of one topic or partition: acknowledge the others by themselves")
        await self._ack_spans(consumer, consumer.unanswered(first.offset, last.offset + 1), waits=waits)

    async def ack_up_to(self, message: Message, *, waits: bool = True) -> None:
        """Acknowledge all that this consumer took of the message's topic or partition, up to the message. As above."""
        consumer = self._consumer_of(message)
        await self._ack_spans(consumer, consumer.unanswered(0, message.offset + 1), waits=waits)

    async def ack_many(self, messages: Iterable[Message], *, waits: bool = True) -> None:
        """Acknowledge these messages, of whatever topics. As above."""
        spans: dict[str, RangeSet] = {}
        for message in messages:
            spans.setdefault(message.topic, RangeSet()).add(message.offset, message.offset + 1)
        for topic, ranges in spans.items():
            await self._ack_spans(self._consumer_at(topic), list(ranges), waits=waits)

    async def flush_acks(self) -> None:
        """Return once every acknowledgement has its answer. Raises the first DanubeError among them."""
        for consumer in list(self._consumers.values()):
            await consumer.flush()
        await self._acks.flush()

    async def nack(self, message: Message, delay_ms: int | None = None, reason: str | None = None) -> None:
        """Ask for `message` to be sent again, not before `delay_ms` (milliseconds). Raises DanubeError."""
        await self.nack_range(message, message, delay_ms, reason)

    async def nack_range(
        self, first: Message, last: Message, delay_ms: int | None = None, reason: str | None = None
    ) -> None:
        """As `nack`, for all that this consumer took from `first` to `last` and did not answer."""
        consumer = self._consumer_of(first)
        if self._consumer_of(last) is not consumer:
            raise InvalidRequestError("a range is of one topic or partition: refuse the others by themselves")
        delay_s = None if delay_ms is None else delay_ms / 1000
        if first is last:
            await consumer.negative_acknowledge(OffsetRange(first.offset, first.offset + 1), delay_s, reason)
            return
        for span in consumer.unanswered(first.offset, last.offset + 1):
            await consumer.negative_acknowledge(span, delay_s, reason)

    async def close(self) -> None:
        """Leave: acknowledgements on their way get up to 5 s; what is in the queue will come again. Idempotent.

        While an exception of the application is being handled (at the end of `async with`, in `finally`) the broker is
        not notified that the consumer closes in good order: the message that it had longest counts as failed once.
        """
        await self.end(in_order=not isinstance(sys.exception(), Exception))

    async def end(self, *, in_order: bool) -> None:
        """As `close`, whatever exception is being handled."""
        self._connection.check_loop()
        self._closed = True
        with suppress(DanubeError, TimeoutError):
            async with asyncio.timeout(CLIENT_CLOSE_TIMEOUT_S):
                await self.flush_acks()
        self._inbox.end(UnrecoverableError("the consumer is closed"))
        for consumer in list(self._consumers.values()):
            in_order = await consumer.close(in_order=in_order)
        await self._scope.close()
        self._connection.members.discard(self)

    async def __aenter__(self) -> Self:
        await self.subscribe()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        if self._closed:
            raise StopAsyncIteration
        self._begin()
        if found := self._inbox.take(1):
            return found[0]
        try:
            return (await self._inbox.get(1))[0]
        except UnrecoverableError:
            if self._closed:
                raise StopAsyncIteration from None
            raise

    def _begin(self) -> None:
        """Begin to read, the first time."""
        self._connection.check_loop()
        if self._is_reading:
            return
        if not self._consumers:
            raise UnrecoverableError("the consumer is not subscribed yet: call subscribe() first")
        self._is_reading = True
        for topic, consumer in self._consumers.items():
            self._scope.spawn(self._read(consumer), f"read {topic}")

    async def _ack_spans(self, consumer: TopicConsumer, spans: Sequence[OffsetRange], *, waits: bool) -> None:
        if waits:
            await consumer.acknowledge(spans)
        elif consumer.is_streaming:
            await consumer.acknowledge(spans, waits=False)
        else:
            for span in spans:
                for offset in range(*span):
                    await self._acks.add(partial(consumer.acknowledge, [OffsetRange(offset, offset + 1)]))

    async def _find_topics(self, topic: TopicName) -> tuple[TopicName, ...]:
        """Ask for the partitions, within the bounds of a first connection."""
        connection, options = self._connection, self._settings.options
        policy = options.policy(options.connect_total_s)
        failures = Failures()
        failures.begin(connection.clock.monotonic_s())
        while True:
            try:
                topics = await connection.partitions(topic)
                if topics:
                    return topics
                raise TopicNotFoundError(f"topic {topic} does not exist: create it by producing to it, then subscribe")
            except DanubeError as error:
                failure = failures.add(error, connection.clock.monotonic_s())
                delay = delay_before_retry(policy, failure, connection.rng.uniform(0, 1))
                if delay is None:
                    raise final_error(connection.service_url, failure) from error
            await sleep_for(connection.clock, delay)

    def _topic_consumer(self, topic: TopicName) -> TopicConsumer:
        return TopicConsumer(self._connection, topic, self._settings, self._scope, self._demand)

    async def _follow_partitions(self, base: TopicName) -> None:
        """Join partitions that were not there before: the first time at once, for those made while subscribing."""
        while not self._inbox.ended:
            for topic in await self._new_partitions(base):
                await self._join(self._topic_consumer(topic), topic)
            await sleep_for(self._connection.clock, CLIENT_PARTITIONS_INTERVAL_S)

    async def _new_partitions(self, base: TopicName) -> list[TopicName]:
        try:
            found = await self._connection.partitions(base)
        except DanubeError as error:
            _log.debug("cannot see whether %s has new partitions, asking again later: %s", base, error)
            return []
        return [topic for topic in found if topic != base and str(topic) not in self._consumers]

    async def _join(self, consumer: TopicConsumer, topic: TopicName) -> None:
        consumer.attachment.open()
        try:
            await consumer.attachment.ready()
        except DanubeError as error:
            await consumer.close()
            _log.warning("new partition %s cannot be joined, trying again later: %s", topic, error)
            return
        self._consumers[str(topic)] = consumer
        if self._is_reading:
            self._scope.spawn(self._read(consumer), f"read {topic}")

    async def _read(self, consumer: TopicConsumer) -> None:
        try:
            await consumer.read_into(self._inbox)
        except DanubeError as error:
            self._inbox.end(error)

    def _consumer_of(self, message: Message) -> TopicConsumer:
        return self._consumer_at(message.topic)

    def _consumer_at(self, topic: str) -> TopicConsumer:
        self._connection.check_loop()
        if self._closed:
            raise UnrecoverableError("the consumer is closed: the message will come again")
        consumer = self._consumers.get(topic)
        if consumer is None:
            raise InvalidRequestError(
                f"the message is of topic {topic}, which this consumer does not read: acknowledge it with the consumer"
                " that received it"
            )
        return consumer


class ConsumerBuilder(ConsumerSettings):
    """Collects the settings of a consumer: `topic`, `name` and `subscription` at least."""

    def __init__(self, connection: Connection) -> None:
        super().__init__()
        self._connection = connection

    def with_topic(self, topic: str) -> Self:
        """Receive from `/namespace/topic`; of a partitioned topic, from all its partitions."""
        self.topic = topic
        return self

    def with_consumer_name(self, name: str) -> Self:
        """Set the consumer's name; the same name is the same consumer to the broker."""
        self.name = name
        return self

    def with_subscription(self, subscription: str) -> Self:
        """Set the subscription; its place in the topic stays when no consumer is there."""
        self.subscription = subscription
        return self

    def with_subscription_type(self, sub_type: SubscriptionType) -> Self:
        """Set which of the subscription's consumers gets the next message."""
        self.subscription_type = sub_type
        return self

    def with_options(self, options: ConsumerOptions) -> Self:
        """Set the bounds of retries."""
        self.options = options
        return self

    def with_start(self, start: FetchStart) -> Self:
        """Set where a subscription begins that this consumer creates: an offset, a time, or an end of the topic.

        Without it that is the end. An existing subscription goes on where it is. Needs a broker with `danube.stream`.
        """
        self.start = start
        return self

    def with_prefetch_bytes(self, size: int) -> Self:
        """Set the most that a broker may send ahead of the application, in bytes of batches, all partitions together.

        The client asks for less where the application is slow, and for one message at least.
        """
        self.prefetch_bytes = size
        return self

    def with_prefetch_messages(self, count: int) -> Self:
        """The same in messages, from 1 on."""
        if count < 1:
            raise InvalidRequestError(f"a prefetch of {count} messages brings none: use 1 or more")
        self.prefetch_messages = count
        return self

    def with_streams(self, enabled: bool) -> Self:  # noqa: FBT001 - as the other builders of this client
        """Set whether batches are streamed where the broker can. True, unless you say otherwise."""
        self.streams = enabled
        return self

    def with_metrics(self, metrics: Metrics) -> Self:
        """Have these hooks called."""
        self.metrics = metrics
        return self

    def with_schema(self, schema: Any = None) -> Self:  # noqa: ANN401 - a class of the application
        """Decode payloads: `message.value` is a value of this pydantic model, dataclass, Protobuf class or AvroSchema.

        Without one it is what the writer's schema says, as plain values of Python. Raises InvalidRequestError.
        """
        from danube.client.typed.decoder import WritersSchema  # noqa: PLC0415 - for consumers with a schema alone
        from danube.client.typed.typed_schema import typed_schema  # noqa: PLC0415 - as above

        self.schema = WritersSchema() if schema is None else typed_schema(schema)
        return self

    def with_key_filter(self, pattern: str) -> Self:
        """Receive keys that match this pattern too (`*` any run, `?` one byte); for Key-Shared subscriptions."""
        self.key_filters = (*self.key_filters, pattern)
        return self

    def with_key_filters(self, patterns: list[str]) -> Self:
        """Receive keys that match any of these patterns too; for Key-Shared subscriptions."""
        self.key_filters = (*self.key_filters, *patterns)
        return self

    def build(self) -> Consumer:
        """The consumer, not yet subscribed. Raises ValueError when topic, name or subscription are missing."""
        if not self.topic or not self.name or not self.subscription:
            raise ValueError("topic, consumer_name, and subscription are required")
        return Consumer(self._connection, copy(self))
