"""A consumer of one concrete topic: a plain topic or one partition."""

import itertools
from dataclasses import dataclass, field

from danube.client.connection import paths
from danube.client.connection.address import BrokerAddress
from danube.client.connection.attachment import Attachment
from danube.client.connection.connection import Connection
from danube.client.connection.session import Link
from danube.client.consume.pipelines import MessageQueue
from danube.client.message import Message
from danube.client.settings import ConsumerOptions
from danube.model.calls.client import (
    Acknowledge,
    ClientKind,
    NegativeAcknowledge,
    Receive,
    Subscribe,
)
from danube.model.errors import AlreadyExistsError, DanubeError, UnrecoverableError
from danube.model.limits.broker import CLIENT_CLOSE_GRACE_S
from danube.model.subscription import SubscriptionType
from danube.model.topic import TopicName
from danube.rpc.carrier import ClientStream
from danube.runtime.clock import sleep_for
from danube.runtime.tasks import TaskScope
from danube.wire import client_messages, decode, encode


@dataclass(kw_only=True)
class ConsumerSettings:
    """The settings of a consumer, which its builder collects."""

    topic: str = ""
    name: str = ""
    subscription: str = ""
    subscription_type: SubscriptionType = SubscriptionType.SHARED
    key_filters: tuple[str, ...] = ()
    options: ConsumerOptions = field(default_factory=ConsumerOptions)


class TopicConsumer:
    """Reads one topic into a queue; keeps itself attached until it is closed.

    When its stream ends it looks the topic up, subscribes and opens another one. Pauses grow while attempts fail.
    """

    def __init__(self, connection: Connection, topic: TopicName, settings: ConsumerSettings, scope: TaskScope) -> None:
        self._connection = connection
        self._topic = topic
        self._settings = settings
        self._request_ids = itertools.count(1)
        self._stream: ClientStream | None = None
        self._reading: Link | None = None
        """The link of its stream."""
        self.attachment = Attachment(
            connection, ClientKind.CONSUMER, topic, member=self, options=settings.options, scope=scope
        )

    async def read_into(self, queue: MessageQueue) -> None:
        """Put messages into `queue`, in the order of the stream, until cancelled. Raises DanubeError at the end."""
        while True:
            link = await self.attachment.ready()
            self.attachment.lose(link, await self._read(link, queue))

    async def acknowledge(self, message: Message) -> None:
        """Return once the broker has acknowledged `message`. Raises DanubeError."""
        received = message.received
        call = Acknowledge(received.request_id, self._topic, self._settings.subscription, received.offset)
        await self._call(paths.ACKNOWLEDGE, encode.acknowledge(call))

    async def negative_acknowledge(self, message: Message, delay_s: float | None, reason: str | None) -> None:
        """Return once the broker will send `message` again. Raises DanubeError."""
        call = NegativeAcknowledge(
            request_id=message.received.request_id,
            topic=self._topic,
            subscription=self._settings.subscription,
            offset=message.received.offset,
            delay_s=delay_s,
            reason=reason,
        )
        await self._call(paths.NEGATIVE_ACKNOWLEDGE, encode.negative_acknowledge(call))

    async def close(self, *, in_order: bool = True) -> bool:
        """Stop; acknowledgements under way fail. `in_order` has the broker count nothing received as failed.

        Answers whether the next consumer may try the same: not where the broker is unreachable, or has no such call.
        """
        link = self._reading if in_order else None
        await self.attachment.close()
        if link is None:
            return in_order
        request, call = client_messages.CLOSE_CONSUMER.encode(link.member_id), self._connection.call
        try:
            await call(link.address, paths.CLOSE_CONSUMER, request, timeout_s=CLIENT_CLOSE_GRACE_S)
        except DanubeError:
            return False
        return True

    async def _call(self, path: str, request: bytes) -> None:
        await self.attachment.call(lambda link: self._connection.call(link.address, path, request))

    async def _read(self, link: Link, queue: MessageQueue) -> DanubeError | None:
        """Read one stream; answers the error with which it ended, None for a good end."""
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
                message = Message(decode.received_message(data))
                self.attachment.mark_used(link)
                await queue.put(message)
            return None
        except DanubeError as error:
            return error
        finally:
            self._stream = self._reading = None
            stream.cancel()

    async def attach(self, address: BrokerAddress, *, may_create: bool) -> int:  # noqa: ARG002 - it never does
        """As `Member.attach`."""
        call = Subscribe(
            request_id=next(self._request_ids),
            topic=self._topic,
            consumer_name=self._settings.name,
            subscription=self._settings.subscription,
            type=self._settings.subscription_type,
            key_filters=self._settings.key_filters,
        )
        try:
            answer = await self._connection.call(address, paths.SUBSCRIBE, client_messages.SUBSCRIBE.encode(call))
        except AlreadyExistsError as error:
            raise UnrecoverableError(f"the consumer cannot subscribe: {error}") from error
        return client_messages.SUBSCRIBED.decode(answer).consumer_id

    async def leave(self) -> None:
        """As `Member.leave`: the broker ends the stream soon after CLOSE, so nothing on its way is lost."""
        await sleep_for(self._connection.clock, CLIENT_CLOSE_GRACE_S)
        if self._stream is not None:
            self._stream.cancel()
