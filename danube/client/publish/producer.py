"""`Producer` and its builder, for a plain topic or for the partitions of one."""

import asyncio
import logging
from collections.abc import AsyncIterable, Callable, Iterable
from copy import copy
from types import TracebackType
from typing import Any, Self

from danube.client.connection.connection import Connection
from danube.client.metrics import Metrics
from danube.client.publish.accumulator import Router
from danube.client.publish.pipelines import BatchPipeline, Item, OnSent, OutgoingRecord, Records, Source, send_each
from danube.client.publish.sender import OnStored
from danube.client.publish.topic_producer import ProducerSettings, TopicProducer
from danube.client.schemas import SchemaRegistryClient
from danube.client.settings import ProducerOptions
from danube.model.calls.client import SchemaReference
from danube.model.calls.stream import ProducerAccess
from danube.model.errors import InvalidRequestError, UnrecoverableError, UnsupportedError
from danube.model.limits.broker import CLIENT_SENDS_IN_FLIGHT_MAX, PARTITIONS_MAX
from danube.model.topic import DispatchStrategy, TopicName
from danube.runtime.tasks import TaskScope
from danube.storage.batches.compression import codec_of

__all__ = ["Producer", "ProducerBuilder", "ProducerOptions"]

_log = logging.getLogger(__name__)

_NEEDS_BATCHES = (
    "the broker takes no batches, so it knows neither exclusive producers nor de-duplication: use a newer one, or do"
    " without them"
)


class Producer:
    """Sends messages to a topic. Made by `ProducerBuilder.build`; `create` attaches it, or `async with` does.

    A send whose outcome is unknown (a broker that went away) is made again, so a message may be stored twice, never
    lost once `send` has returned. Sends that wait for one another keep their order; those that are under way at the
    same time may be stored in another.

    With de-duplication what `send_many` sends again is recognised by the broker and stored once: through broken
    connections, brokers that restart or are killed, and writes that failed. The broker remembers the last 64 batches of
    each of the last 1,000 producers of a topic; one that was forgotten is refused with a SequenceError. A `send_many`
    that raised, or a program that ended, may have stored what was not confirmed: sent again by another call, that is
    another message to the broker. `send` is not de-duplicated.

    A topic that is deleted while the producer is attached stays deleted: sends raise TopicDeletedError until `create`
    is called again.

    An exclusive producer has the topic while its `send_many` runs, and sends in no other way. Between two of them
    others may publish; once another exclusive producer has come, it is fenced and stores nothing more.
    """

    def __init__(self, connection: Connection, settings: ProducerSettings) -> None:
        self._connection = connection
        self._settings = settings
        self._scope = TaskScope(f"producer {settings.name}")
        self._producers: list[TopicProducer] = []
        self._router = Router(max(1, settings.partitions))
        self._closed = False

    async def create(self) -> None:
        """Attach to the topic's broker, which creates the topic if need be. Raises DanubeError.

        Called again, it attaches anew what was given up; of a topic that was deleted, it makes a new one.
        """
        self._refuse_closed()
        await self._register()
        producers = self._producers or self._topic_producers()
        for producer in producers:
            producer.attachment.open(may_create=True)
        try:
            for producer in producers:
                await producer.attachment.ready()
        except BaseException:
            await asyncio.gather(*(producer.close() for producer in ([] if self._producers else producers)))
            raise
        self._producers = producers
        self._connection.members.add(self)

    async def send(self, data: Any, attributes: dict[str, str] | None = None) -> int:  # noqa: ANN401 - see below
        """Send one message: bytes, or with a schema a value that follows it.

        Of a partitioned topic each partition gets one in turn.
        Answers the message's request id, once the broker has it. Raises DanubeError when no further try is made, and
        InvalidRequestError when the producer is exclusive. Raises PayloadInvalidError for a value that does not follow
        the schema: it is not sent.
        """
        return await self._choose(None).send(self._encode(data), attributes, None)

    async def send_with_key(self, data: Any, attributes: dict[str, str] | None, routing_key: str) -> int:  # noqa: ANN401 - as `send`
        """Send one message with a key: one partition for each key, and of Key-Shared subscriptions one consumer."""
        return await self._choose(routing_key).send(self._encode(data), attributes, routing_key)

    async def send_many(
        self,
        payloads: Iterable[Any] | AsyncIterable[Any],
        attributes: dict[str, str] | None = None,
        *,
        in_flight_max: int = CLIENT_SENDS_IN_FLIGHT_MAX,
        on_sent: OnSent | None = None,
        on_stored: OnStored | None = None,
    ) -> int:
        """Send all of `payloads` without waiting for each, and answer how many there were.

        On a reliable topic whose broker takes batches they are stored in the order given, many with one write, and
        `on_stored` gets the offsets that they have. Elsewhere each is a call of its own, at most `in_flight_max` (1 to
        256) unanswered at a time, and calls may overtake one another: with 1 the order is kept for certain.

        `on_sent` gets each time how many the broker has. Raises the DanubeError of the first that failed; nothing is
        stored after it.
        """
        if not 1 <= in_flight_max <= CLIENT_SENDS_IN_FLIGHT_MAX:
            raise InvalidRequestError(f"in_flight_max must be from 1 to {CLIENT_SENDS_IN_FLIGHT_MAX}")

        def place(data: Any) -> tuple[int, bytes]:  # noqa: ANN401 - as `send`
            self._check_open()
            typed = self._settings.typed
            return self._router.choose(None), data if typed is None else typed.encode(data)

        async def send(data: Any) -> int:  # noqa: ANN401 - as `send`
            return await self.send(data, attributes)

        sent = await self._send_batches(payloads, place, attributes or {}, on_sent=on_sent, on_stored=on_stored)
        return await send_each(send, payloads, in_flight_max, on_sent) if sent is None else sent

    async def send_many_with_keys(
        self,
        messages: Iterable[tuple[str, Any]] | AsyncIterable[tuple[str, Any]],
        attributes: dict[str, str] | None = None,
        *,
        on_sent: OnSent | None = None,
        on_stored: OnStored | None = None,
    ) -> int:
        """As `send_many`, for pairs of key and payload: one partition for each key, in order.

        Where the broker takes no batches of whole messages, it is one call after the other.
        """
        shared = attributes or {}
        if not isinstance(messages, AsyncIterable):
            records: Records = (OutgoingRecord(payload, key, shared) for key, payload in messages)
        else:
            records = (OutgoingRecord(payload, key, shared) async for key, payload in messages)
        return await self.send_records(records, on_sent=on_sent, on_stored=on_stored)

    async def send_records(
        self, records: Records, *, on_sent: OnSent | None = None, on_stored: OnStored | None = None
    ) -> int:
        """As `send_many`, for records that have each its own key and attributes.

        One partition for each key, in order, and for records without a key each in turn. Where the broker takes no
        batches of whole messages, it is one call after the other.
        """

        def place(record: OutgoingRecord) -> tuple[int, bytes]:
            self._check_open()
            index = self._router.choose(record.routing_key)
            data = self._encode(record.data)
            return index, self._producers[index].encoded(data, record.attributes, record.routing_key)

        async def send(record: OutgoingRecord) -> int:
            data, key, attributes = record
            return await self._choose(key).send(self._encode(data), dict(attributes), key)

        sent = await self._send_batches(records, place, None, on_sent=on_sent, on_stored=on_stored)
        return await send_each(send, records, 1, on_sent) if sent is None else sent

    async def flush(self) -> None:
        """Return once every single send that is under way was answered, whatever the answer."""
        for producer in self._producers:
            await producer.flush()

    async def close(self) -> None:
        """Stop; sends under way fail. Idempotent."""
        await self.end(in_order=True)

    async def end(self, *, in_order: bool) -> None:  # noqa: ARG002 - of consumers; a client ends both alike
        """As `close`."""
        self._connection.check_loop()
        self._closed = True
        await asyncio.gather(*(producer.close() for producer in self._producers))
        await self._scope.close()
        self._connection.members.discard(self)

    async def __aenter__(self) -> Self:
        await self.create()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def _register(self) -> None:
        """Register the schema of the values, once."""
        settings = self._settings
        if settings.typed is None or settings.schema is not None:
            return
        from danube.client.typed.typed_schema import register, subject_of  # noqa: PLC0415 - with a schema alone

        registry = SchemaRegistryClient(self._connection)
        topic = TopicName.parse(settings.topic)
        subject = settings.subject or subject_of(str(await self._connection.base_of(topic)))
        settings.schema = await register(registry, settings.typed, subject)

    async def _send_batches(
        self,
        items: Source[Item],
        place: Callable[[Item], tuple[int, bytes]],
        attributes: dict[str, str] | None,
        *,
        on_sent: OnSent | None,
        on_stored: OnStored | None,
    ) -> int | None:
        """Number of messages that were sent in batches; None where they are to be sent one by one.

        `attributes` are those of all messages; None for whole messages, which have their own.
        """
        if self._settings.strategy is not DispatchStrategy.RELIABLE:
            return None
        self._check_open()
        are_whole = attributes is None
        batches = BatchPipeline(
            self._producers, place, attributes or {}, on_sent=on_sent, on_stored=on_stored, are_whole=are_whole
        )
        try:
            await batches.open()
        except UnsupportedError as error:
            if self._needs_streams:
                raise UnsupportedError(_NEEDS_BATCHES) from error
            _log.debug("the broker takes no such batches: messages are sent one by one")
            return None
        try:
            return await batches.run(items)
        except Exception as error:
            self._settings.metrics.send_failed(self._settings.topic, error)
            raise

    def _encode(self, data: Any) -> bytes:  # noqa: ANN401 - as `send`
        return data if self._settings.typed is None else self._settings.typed.encode(data)

    def _choose(self, routing_key: str | None) -> TopicProducer:
        self._check_open()
        if self._settings.access is not ProducerAccess.SHARED:
            raise InvalidRequestError("single messages carry no epoch: an exclusive producer sends with send_many")
        return self._producers[self._router.choose(routing_key)]

    def _refuse_closed(self) -> None:
        self._connection.check_loop()
        if self._closed:
            raise UnrecoverableError("the producer is closed: build another one")

    def _check_open(self) -> None:
        self._refuse_closed()
        if not self._producers:
            raise UnrecoverableError("the producer is not attached yet: call create() first")

    @property
    def _needs_streams(self) -> bool:
        return self._settings.deduplicates or self._settings.access is not ProducerAccess.SHARED

    def _topic_producers(self) -> list[TopicProducer]:
        settings = self._settings
        if self._needs_streams and settings.strategy is not DispatchStrategy.RELIABLE:
            raise InvalidRequestError(
                "only reliable topics have exclusive producers and de-duplication: choose DispatchStrategy.RELIABLE"
            )
        topic, partitions = TopicName.parse(settings.topic), settings.partitions
        if not 0 <= partitions <= PARTITIONS_MAX:
            raise InvalidRequestError(f"a topic has at most {PARTITIONS_MAX} partitions; 0 makes it a plain one")
        names = [(topic.partition(index), f"{settings.name}-{index}") for index in range(partitions)]
        return [
            TopicProducer(self._connection, each, name, settings, self._scope)
            for each, name in names or [(topic, settings.name)]
        ]


class ProducerBuilder(ProducerSettings):
    """Collects the settings of a producer: `topic` and `name` at least."""

    def __init__(self, connection: Connection) -> None:
        super().__init__()
        self._connection = connection

    def with_topic(self, topic: str) -> Self:
        """Send to `/namespace/topic`."""
        self.topic = topic
        return self

    def with_name(self, name: str) -> Self:
        """Set the producer's name; the same name is the same producer to the broker."""
        self.name = name
        return self

    def with_schema_subject(self, subject: str) -> Self:
        """Write with the latest version of a subject."""
        self.schema = SchemaReference(subject=subject)
        return self

    def with_schema_version(self, subject: str, version: int) -> Self:
        """Write with exactly this version of a subject."""
        self.schema = SchemaReference(subject=subject, pinned_version=version)
        return self

    def with_schema_min_version(self, subject: str, min_version: int) -> Self:
        """Write with the latest version of a subject, which must be `min_version` or newer."""
        self.schema = SchemaReference(subject=subject, min_version=min_version)
        return self

    def with_schema(self, schema: Any, subject: str = "") -> Self:  # noqa: ANN401 - a class of the application
        """Send values of this pydantic model, dataclass, Protobuf class or AvroSchema, which is registered at first.

        Its subject is made of the topic's name where none is given. Raises InvalidRequestError for anything else.
        """
        from danube.client.typed.typed_schema import typed_schema  # noqa: PLC0415 - for producers with a schema alone

        self.typed, self.subject, self.schema = typed_schema(schema), subject, None
        return self

    def with_dispatch_strategy(self, strategy: DispatchStrategy) -> Self:
        """Set how the topic delivers; a topic that is there already must agree."""
        self.strategy = strategy
        return self

    def with_partitions(self, partitions: int) -> Self:
        """Send to this many partitions; 0 means a plain topic."""
        self.partitions = partitions
        return self

    def with_options(self, options: ProducerOptions) -> Self:
        """Set the bounds of retries."""
        self.options = options
        return self

    def with_deduplication(self) -> Self:
        """Have the broker store once what `send_many` sends again. Needs a reliable topic."""
        self.deduplicates = True
        return self

    def with_compression(self, codec: str) -> Self:
        """Compress batches, `lz4` or `zstd`, where the broker takes it. Raises UnsupportedError without the package."""
        self.compression = codec_of(codec)
        return self

    def with_metrics(self, metrics: Metrics) -> Self:
        """Have these hooks called."""
        self.metrics = metrics
        return self

    def with_access(self, access: ProducerAccess) -> Self:
        """Set which other producers may publish. Anything but SHARED needs a reliable topic."""
        self.access = access
        return self

    def build(self) -> Producer:
        """The producer, not yet attached. Raises ValueError without topic or name."""
        if not self.topic:
            raise ValueError("topic must be set")
        if not self.name:
            raise ValueError("producer name must be set")
        return Producer(self._connection, copy(self))
