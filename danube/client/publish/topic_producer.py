"""A producer of one concrete topic: a plain topic or one partition."""

import asyncio
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from danube.client.connection import paths
from danube.client.connection.attachment import Attachment
from danube.client.connection.connection import Connection
from danube.client.connection.paths import BrokerAddress
from danube.client.connection.session import Link
from danube.client.metrics import NO_METRICS, Metrics
from danube.client.publish.accumulator import ProducerIdentity
from danube.client.publish.sender import BatchForm, BatchStream, OnStored
from danube.client.publish.single_sends import SingleSends
from danube.client.schemas import SchemaRegistryClient
from danube.client.settings import ProducerOptions
from danube.model.calls.client import (
    FIRST_REQUEST_ID,
    NO_ATTRIBUTES,
    AccessMode,
    ClientKind,
    CreateProducer,
    OutgoingMessage,
    SchemaReference,
)
from danube.model.calls.stream import ProducerAccess, PublishOpen
from danube.model.errors import AlreadyExistsError, MessageTooLargeError, UnrecoverableError
from danube.model.limits.broker import CLIENT_SENDS_IN_FLIGHT_MAX, MESSAGE_BYTES_MAX
from danube.model.limits.stream import CLIENT_SENDS_SINGLE_MAX
from danube.model.topic import DispatchStrategy, TopicName
from danube.runtime.tasks import TaskScope, Wakeup
from danube.storage.batches.compression import BatchCodec
from danube.wire import client_messages, decode, encode

if TYPE_CHECKING:
    from danube.client.typed.typed_schema import TypedSchema


@dataclass(kw_only=True)
class ProducerSettings:
    """The settings of a producer, which its builder collects."""

    topic: str = ""
    name: str = ""
    partitions: int = 0
    schema: SchemaReference | None = None
    strategy: DispatchStrategy = DispatchStrategy.NON_RELIABLE
    options: ProducerOptions = field(default_factory=ProducerOptions)
    access: ProducerAccess = ProducerAccess.SHARED
    compression: BatchCodec = BatchCodec.NONE
    batches_sends: bool = True
    metrics: Metrics = NO_METRICS
    deduplicates: bool = False
    typed: "TypedSchema | None" = None
    """Schema of the values that are sent."""
    subject: str = ""
    """Under which that schema is registered; one made of the topic's name where it is empty."""


class TopicProducer:
    """Sends to one topic; keeps itself attached while messages are sent."""

    def __init__(
        self, connection: Connection, topic: TopicName, name: str, settings: ProducerSettings, scope: TaskScope
    ) -> None:
        """`topic` and `name` are those of the settings, or of one partition."""
        self._connection = connection
        self._topic = topic
        self._name = name
        self._settings = settings
        self._request_ids = itertools.count(FIRST_REQUEST_ID + 1)
        self._room = asyncio.Semaphore(CLIENT_SENDS_IN_FLIGHT_MAX)
        self._schema_id: int | None = None
        self._schema_version: int | None = None
        self._identity = self._new_identity()
        self._under_way = 0
        self._answered = Wakeup()
        self._singles = SingleSends(self, scope, connection.clock)
        self.attachment = Attachment(
            connection, ClientKind.PRODUCER, topic, member=self, options=settings.options, scope=scope
        )

    async def send(self, data: bytes, attributes: Mapping[str, str] | None, routing_key: str | None) -> int:
        """Send one message and answer its request id once the broker has it. Raises DanubeError.

        Of many that are under way at once, those to a reliable topic go together in batches. Elsewhere each waits its
        turn while 256 others are unanswered.
        """
        request_id = next(self._request_ids)
        started_s = self._connection.clock.monotonic_s()
        self._under_way += 1
        try:
            is_many = self._under_way > CLIENT_SENDS_SINGLE_MAX and self._may_batch
            if not (is_many and await self._singles.send(data, attributes or NO_ATTRIBUTES, routing_key)):
                await self._send_alone(request_id, data, attributes or NO_ATTRIBUTES, routing_key)
        except Exception as error:
            self._settings.metrics.send_failed(str(self._topic), error)
            raise
        finally:
            self._under_way -= 1
            if not self._under_way:
                self._answered.notify()
        self._settings.metrics.sent(str(self._topic), 1, self._connection.clock.monotonic_s() - started_s)
        return request_id

    async def flush(self) -> None:
        """Return once no single send is under way."""
        while self._under_way:
            await self._answered.wait()

    async def _send_alone(
        self, request_id: int, data: bytes, attributes: Mapping[str, str], routing_key: str | None
    ) -> None:
        self.attachment.open()
        message = self._message(data, attributes)._replace(request_id=request_id, routing_key=routing_key)
        async with self._room:
            await self.attachment.call(lambda link: self._send_on(link, message))

    @property
    def is_attached(self) -> bool:
        """Tell whether it has a broker."""
        return self.attachment.link is not None

    @property
    def _may_batch(self) -> bool:
        settings = self._settings
        return (
            settings.strategy is DispatchStrategy.RELIABLE
            and settings.batches_sends
            and settings.access is ProducerAccess.SHARED
        )

    def batch_stream(
        self,
        attributes: Mapping[str, str],
        on_stored: OnStored,
        *,
        are_whole: bool = False,
        on_room: Callable[[], None] = lambda: None,
        is_counted: bool = False,
    ) -> BatchStream:
        """A stream of batches, all their messages with these attributes; or of whole messages, made by `encoded`.

        A topic that is not reliable has none. With `is_counted` the metrics count each batch.
        """
        self.attachment.open()
        settings = self._settings
        opening = PublishOpen(
            topic=self._topic, producer_name=self._name, strategy=settings.strategy, schema=settings.schema
        )
        message = self._message(b"", attributes)

        def shared(link: Link, publish_time_ms: int) -> bytes:
            return encode.send_message(self._addressed(message._replace(publish_time_ms=publish_time_ms), link))

        form = BatchForm(are_whole, settings.compression)
        return BatchStream(
            self._connection,
            self.attachment,
            opening,
            shared,
            on_stored,
            identity=self._identity,
            form=form,
            on_room=on_room,
            metrics=settings.metrics if is_counted else NO_METRICS,
        )

    def encoded(self, data: bytes, attributes: Mapping[str, str], routing_key: str | None) -> bytes:
        """A whole message for a batch of them. Raises MessageTooLargeError."""
        message = self._message(data, attributes)._replace(routing_key=routing_key)
        link = self.attachment.link
        return _checked(encode.send_message(message if link is None else self._addressed(message, link)))

    async def close(self) -> None:
        """Stop; sends under way fail, and the broker is notified."""
        link = self.attachment.link
        await self.attachment.close()
        if link is not None:
            await self._connection.close_producer(link)

    async def _send_on(self, link: Link, message: OutgoingMessage) -> int:
        request = _checked(encode.send_message(self._addressed(message, link)))
        return decode.echo(await self._connection.call(link.address, paths.SEND_MESSAGE, request))

    def _message(self, payload: bytes, attributes: Mapping[str, str]) -> OutgoingMessage:
        return OutgoingMessage(
            request_id=0,
            producer_id=0,
            topic=str(self._topic),
            broker_addr="",
            payload=payload,
            publish_time_ms=self._connection.clock.now_ms(),
            producer_name=self._name,
            attributes=attributes,
        )

    def _addressed(self, message: OutgoingMessage, link: Link) -> OutgoingMessage:
        return message._replace(
            producer_id=link.member_id,
            broker_addr=link.address.broker_url,
            schema_id=self._schema_id,
            schema_version=self._schema_version,
        )

    async def attach(self, address: BrokerAddress, *, may_create: bool) -> int:
        """As `Member.attach`."""
        if may_create:  # a new topic does not know sequence numbers and epochs of the old one
            self._identity = self._new_identity()
        call = CreateProducer(
            request_id=FIRST_REQUEST_ID if may_create else next(self._request_ids),
            topic=self._topic,
            producer_name=self._name,
            strategy=self._settings.strategy,
            access_mode=AccessMode.EXCLUSIVE if self._identity.is_exclusive else AccessMode.SHARED,
            schema=self._settings.schema,
        )
        request = client_messages.CREATE_PRODUCER.encode(call)
        try:
            answer = await self._connection.call(address, paths.CREATE_PRODUCER, request)
        except AlreadyExistsError as error:
            raise UnrecoverableError(f"the producer cannot be created: {error}") from error
        if self._settings.schema is not None and self._schema_id is None:
            info = await SchemaRegistryClient(self._connection).resolve(self._settings.schema)
            self._schema_id, self._schema_version = info.schema_id, info.version
        return client_messages.PRODUCER_CREATED.decode(answer).producer_id

    async def leave(self) -> None:
        """As `Member.leave`: a producer has nothing that it must read to its end."""

    def _new_identity(self) -> ProducerIdentity:
        settings = self._settings
        return ProducerIdentity(settings.access, self._connection.rng, deduplicates=settings.deduplicates)


def _checked(message: bytes) -> bytes:
    if len(message) > MESSAGE_BYTES_MAX:
        raise MessageTooLargeError(
            f"the message takes {len(message):,} bytes with its attributes and the limit is {MESSAGE_BYTES_MAX:,}: send"
            " it in parts, or send where it is kept"
        )
    return message
