"""A producer of one concrete topic: a plain topic or one partition."""

import asyncio
import itertools
from collections.abc import Mapping
from dataclasses import dataclass

from danube.client.connection import paths
from danube.client.connection.address import BrokerAddress
from danube.client.connection.attached_call import AttachedCalls
from danube.client.connection.attachment import Attachment
from danube.client.connection.connection import Connection
from danube.client.connection.session import Link, Session
from danube.client.publish.batch_stream import BatchStream, OnStored
from danube.client.publish.producer_state import ProducerIdentity
from danube.client.schemas import SchemaRegistryClient
from danube.client.settings import ProducerOptions
from danube.model.calls.client import (
    FIRST_REQUEST_ID,
    NO_ATTRIBUTES,
    AccessMode,
    ClientKind,
    CreateProducer,
    HealthStatus,
    OutgoingMessage,
    SchemaReference,
)
from danube.model.calls.stream import ProducerAccess, PublishOpen
from danube.model.errors import AlreadyExistsError, MessageTooLargeError, UnrecoverableError
from danube.model.limits.broker import CLIENT_SENDS_IN_FLIGHT_MAX, MESSAGE_BYTES_MAX
from danube.model.topic import DispatchStrategy, TopicName
from danube.runtime.tasks import TaskScope
from danube.wire import client_messages, decode, encode


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerSpec:
    """What a producer was built with."""

    topic: TopicName
    name: str
    strategy: DispatchStrategy
    schema: SchemaReference | None
    options: ProducerOptions
    access: ProducerAccess = ProducerAccess.SHARED
    deduplicates: bool = False


class TopicProducer:
    """Sends to one topic; keeps itself attached while messages are sent."""

    def __init__(self, connection: Connection, spec: ProducerSpec, scope: TaskScope) -> None:
        self._connection = connection
        self._spec = spec
        self._request_ids = itertools.count(FIRST_REQUEST_ID + 1)
        self._room = asyncio.Semaphore(CLIENT_SENDS_IN_FLIGHT_MAX)
        self._schema_id: int | None = None
        self._schema_version: int | None = None
        self._producer_identity = self._new_standing()
        options = spec.options
        session = Session(
            connection.service_url,
            first=options.policy(options.connect_total_s),
            again=options.policy(options.retry_total_s),
            rng=connection.rng,
            creates=True,
        )
        self._attachment = Attachment(f"the producer on {spec.topic}", self, session, scope, connection.clock)
        self._calls = AttachedCalls(self._attachment, connection, options)

    def open(self) -> None:
        """Begin to attach, also after having given up: the topic is created if it is not there."""
        self._attachment.open(may_create=True)

    async def ready(self) -> None:
        """Return once attached. Raises DanubeError when that was given up."""
        await self._attachment.ready()

    async def send(self, data: bytes, attributes: Mapping[str, str] | None, routing_key: str | None) -> int:
        """Send one message and answer its request id once the broker has it. Raises DanubeError.

        Waits its turn while 256 others are unanswered.
        """
        self._attachment.open()
        message = self._message(data, attributes or NO_ATTRIBUTES)._replace(
            request_id=next(self._request_ids), routing_key=routing_key
        )
        async with self._room:
            return await self._calls.run(lambda link: self._send_on(link, message))

    def batch_stream(self, attributes: Mapping[str, str], told: OnStored) -> BatchStream:
        """A way to send batches, all their messages with these attributes. A topic that is not reliable has none."""
        self._attachment.open()
        spec = self._spec
        opening = PublishOpen(topic=spec.topic, producer_name=spec.name, strategy=spec.strategy, schema=spec.schema)
        message = self._message(b"", attributes)

        def shared(link: Link, publish_time_ms: int) -> bytes:
            return encode.send_message(self._addressed(message._replace(publish_time_ms=publish_time_ms), link))

        return BatchStream(
            self._connection, self._calls, opening, shared, told, producer_identity=self._producer_identity
        )

    async def close(self) -> None:
        """Stop; sends under way are told, and so is the broker."""
        link = self._attachment.link
        await self._attachment.close()
        if link is not None:
            await self._connection.close_producer(link)

    async def _send_on(self, link: Link, message: OutgoingMessage) -> int:
        request = encode.send_message(self._addressed(message, link))
        if len(request) > MESSAGE_BYTES_MAX:
            raise MessageTooLargeError(
                f"the message takes {len(request):,} bytes with its attributes and the limit is "
                f"{MESSAGE_BYTES_MAX:,}: send it in parts, or send where it is kept"
            )
        return decode.echo(await self._connection.transport.call(link.address, paths.SEND_MESSAGE, request))

    def _message(self, payload: bytes, attributes: Mapping[str, str]) -> OutgoingMessage:
        return OutgoingMessage(
            request_id=0,
            producer_id=0,
            topic=str(self._spec.topic),
            broker_addr="",
            payload=payload,
            publish_time_ms=self._connection.clock.now_ms(),
            producer_name=self._spec.name,
            attributes=attributes,
        )

    def _addressed(self, message: OutgoingMessage, link: Link) -> OutgoingMessage:
        return message._replace(
            producer_id=link.member_id,
            broker_addr=link.address.broker_url,
            schema_id=self._schema_id,
            schema_version=self._schema_version,
        )

    # What the attachment asks for.

    async def look_up(self, url: str) -> BrokerAddress:
        return await self._connection.lookup.locate(url, self._spec.topic)

    def _new_standing(self) -> ProducerIdentity:
        return ProducerIdentity(self._spec.access, self._connection.rng, deduplicates=self._spec.deduplicates)

    async def attach(self, address: BrokerAddress, *, may_create: bool) -> int:
        if may_create:
            self._producer_identity = (
                self._new_standing()
            )  # a new topic knows nothing of numbers and epochs of the old one
        call = CreateProducer(
            request_id=FIRST_REQUEST_ID if may_create else next(self._request_ids),
            topic=self._spec.topic,
            producer_name=self._spec.name,
            strategy=self._spec.strategy,
            access_mode=AccessMode.EXCLUSIVE if self._producer_identity.is_exclusive else AccessMode.SHARED,
            schema=self._spec.schema,
        )
        request = client_messages.CREATE_PRODUCER.encode(call)
        try:
            answer = await self._connection.transport.call(address, paths.CREATE_PRODUCER, request)
        except AlreadyExistsError as error:
            raise UnrecoverableError(f"the producer cannot be created: {error}") from error
        if self._spec.schema is not None and self._schema_id is None:
            await self._resolve(self._spec.schema)
        return client_messages.PRODUCER_CREATED.decode(answer).producer_id

    async def _resolve(self, schema: SchemaReference) -> None:
        registry = SchemaRegistryClient(self._connection.transport, self._connection.service_url)
        info = await registry.resolve(schema)
        self._schema_id, self._schema_version = info.schema_id, info.version

    async def check_health(self, link: Link) -> HealthStatus:
        return await self._connection.check_health(ClientKind.PRODUCER, link)

    async def leave(self, link: Link) -> None:  # noqa: ARG002 - a producer has nothing that it must read to its end
        return
