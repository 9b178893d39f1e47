"""A consumer of one concrete topic: a plain topic or one partition."""

import itertools
from dataclasses import dataclass

from danube.client.connection import paths
from danube.client.connection.address import BrokerAddress
from danube.client.connection.attached_call import AttachedCalls
from danube.client.connection.attachment import Attachment
from danube.client.connection.connection import Connection
from danube.client.connection.session import Link, Session
from danube.client.consume.message_queue import MessageQueue
from danube.client.message import Message
from danube.client.settings import ConsumerOptions
from danube.model.calls.client import (
    Acknowledge,
    ClientKind,
    HealthStatus,
    NegativeAcknowledge,
    Receive,
    Subscribe,
)
from danube.model.errors import AlreadyExistsError, DanubeError, UnrecoverableError
from danube.model.limits.broker import CLIENT_CLOSE_GRACE_S, CLIENT_RETRY_TOTAL_S
from danube.model.subscription import SubscriptionType
from danube.model.topic import TopicName
from danube.rpc.carrier import ClientStream
from danube.runtime.clock import sleep_for
from danube.runtime.tasks import TaskScope
from danube.wire import client_messages, decode, encode


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSpec:
    """What a consumer was built with."""

    name: str
    subscription: str
    type: SubscriptionType
    key_filters: tuple[str, ...]
    options: ConsumerOptions


class TopicConsumer:
    """Reads one topic into a queue; keeps itself attached until it is closed.

    Whatever ends its stream, it looks the topic up, subscribes and opens another one; the pauses between such attempts
    grow while nothing comes of them.
    """

    def __init__(self, connection: Connection, topic: TopicName, spec: ConsumerSpec, scope: TaskScope) -> None:
        self._connection = connection
        self._topic = topic
        self._spec = spec
        self._request_ids = itertools.count(1)
        self._stream: ClientStream | None = None
        self._reading: Link | None = None
        """On which its stream is open."""
        options = spec.options
        session = Session(
            connection.service_url,
            first=options.policy(options.connect_total_s),
            again=options.policy(options.retry_total_s or CLIENT_RETRY_TOTAL_S),
            rng=connection.rng,
        )
        self._attachment = Attachment(f"the consumer on {topic}", self, session, scope, connection.clock)
        self._calls = AttachedCalls(self._attachment, connection, options)

    def open(self) -> None:
        """Begin to subscribe."""
        self._attachment.open()

    async def ready(self) -> None:
        """Return once subscribed. Raises DanubeError when that was given up."""
        await self._attachment.ready()

    async def read_into(self, queue: MessageQueue) -> None:
        """Put messages into `queue`, in the order of the stream, until cancelled. Raises DanubeError at the end."""
        while True:
            link = await self._attachment.ready()
            self._attachment.lose(link, await self._read(link, queue))

    async def acknowledge(self, message: Message) -> None:
        """Return once the broker has taken note that `message` is done with. Raises DanubeError."""
        received = message.received
        call = Acknowledge(received.request_id, self._topic, self._spec.subscription, received.offset)
        await self._tell(paths.ACKNOWLEDGE, encode.acknowledge(call))

    async def negative_acknowledge(self, message: Message, delay_s: float | None, reason: str | None) -> None:
        """Return once the broker knows that `message` is to be sent again. Raises DanubeError."""
        call = NegativeAcknowledge(
            request_id=message.received.request_id,
            topic=self._topic,
            subscription=self._spec.subscription,
            offset=message.received.offset,
            delay_s=delay_s,
            reason=reason,
        )
        await self._tell(paths.NEGATIVE_ACKNOWLEDGE, encode.negative_acknowledge(call))

    async def close(self, *, in_order: bool = True) -> bool:
        """Stop; acknowledgements under way are told. `in_order` has the broker count nothing received as failed.

        Answers whether the next consumer may try the same: not where the broker is away, or has no such call.
        """
        link = self._reading if in_order else None
        await self._attachment.close()
        if link is None:
            return in_order
        request, call = client_messages.CLOSE_CONSUMER.encode(link.member_id), self._connection.transport.call
        try:
            await call(link.address, paths.CLOSE_CONSUMER, request, timeout_s=CLIENT_CLOSE_GRACE_S)
        except DanubeError:
            return False
        return True

    async def _tell(self, path: str, request: bytes) -> None:
        transport = self._connection.transport
        await self._calls.run(lambda link: transport.call(link.address, path, request))

    async def _read(self, link: Link, queue: MessageQueue) -> DanubeError | None:
        """Answer how the stream ended; None is in good order."""
        request = client_messages.RECEIVE.encode(
            Receive(request_id=next(self._request_ids), consumer_id=link.member_id)
        )
        try:
            stream = await self._connection.transport.open_stream(link.address, paths.RECEIVE_MESSAGES, request)
        except DanubeError as error:
            return error
        self._stream, self._reading = stream, link
        try:
            while (data := await stream.receive()) is not None:
                message = Message(decode.received_message(data))
                self._attachment.note_use(link)
                await queue.put(message)
            return None
        except DanubeError as error:
            return error
        finally:
            self._stream = self._reading = None
            stream.cancel()

    # What the attachment asks for.

    async def look_up(self, url: str) -> BrokerAddress:
        return await self._connection.lookup.locate(url, self._topic)

    async def attach(self, address: BrokerAddress, *, may_create: bool) -> int:  # noqa: ARG002 - it never does
        call = Subscribe(
            request_id=next(self._request_ids),
            topic=self._topic,
            consumer_name=self._spec.name,
            subscription=self._spec.subscription,
            type=self._spec.type,
            key_filters=self._spec.key_filters,
        )
        try:
            answer = await self._connection.transport.call(
                address, paths.SUBSCRIBE, client_messages.SUBSCRIBE.encode(call)
            )
        except AlreadyExistsError as error:
            raise UnrecoverableError(f"the consumer cannot subscribe: {error}") from error
        return client_messages.SUBSCRIBED.decode(answer).consumer_id

    async def check_health(self, link: Link) -> HealthStatus:
        return await self._connection.check_health(ClientKind.CONSUMER, link)

    async def leave(self, link: Link) -> None:  # noqa: ARG002 - the stream of the link of the moment is the only one
        """Let the broker end the stream, as it does after asking to leave, so that nothing on its way is lost."""
        await sleep_for(self._connection.clock, CLIENT_CLOSE_GRACE_S)
        if self._stream is not None:
            self._stream.cancel()
