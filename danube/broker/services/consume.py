"""Calls of consumers: subscribe, receive, acknowledge."""

from collections.abc import Awaitable, Callable
from functools import partial

from danube.broker.clients.consumers import Membership
from danube.broker.policy.pacing import PacedStream
from danube.broker.services.context import ServiceContext
from danube.broker.topics.topic import AnyTopic
from danube.model.calls.client import ClientKind, Subscribe, Subscribed
from danube.model.errors import AcknowledgeError, DanubeError, SubscriptionNotFoundError
from danube.model.limits.broker import RECEIVE_FAILURE_DELAY_S
from danube.model.topic import TopicName
from danube.rpc.carrier import ServerStream, UnaryCall, UnaryHandler
from danube.runtime.clock import TimerHandle
from danube.wire import client_messages, decode, encode


def subscribe(context: ServiceContext) -> Callable[[Subscribe], Awaitable[Subscribed]]:
    """Join a subscription."""

    async def join(wanted: Subscribe) -> Subscribed:
        identity = await context.admission.subscribe(wanted)
        return Subscribed(request_id=wanted.request_id, consumer_id=identity, consumer_name=wanted.consumer_name)

    return join


def acknowledge(context: ServiceContext) -> UnaryHandler:
    """Acknowledge one message."""

    def handle(request: bytes, call: UnaryCall) -> bytes:  # noqa: ARG001 - answered at once
        done = decode.acknowledge(request)
        topic = _topic(context, done.topic)
        if topic is None:
            return encode.echo(done.request_id)
        try:
            topic.acknowledge(done.subscription, done.offset)
        except SubscriptionNotFoundError as error:
            raise AcknowledgeError(f"error acknowledging message: {error}") from None
        return encode.echo(done.request_id)

    return handle


def negative_acknowledge(context: ServiceContext) -> UnaryHandler:
    """Negatively acknowledge one message, which is then sent again."""

    def handle(request: bytes, call: UnaryCall) -> bytes:  # noqa: ARG001 - answered at once
        refused = decode.negative_acknowledge(request)
        topic = _topic(context, refused.topic)
        if topic is None:
            return encode.echo(refused.request_id)
        try:
            topic.nack(refused.subscription, refused.offset, refused.delay_s, refused.reason or "")
        except SubscriptionNotFoundError as error:
            raise AcknowledgeError(f"error negatively acknowledging message: {error}") from None
        return encode.echo(refused.request_id)

    return handle


def _topic(context: ServiceContext, name: TopicName) -> AnyTopic | None:
    """The topic; None for one that has moved. A late acknowledgement is no failure: the message is sent again.

    An error would surface in the application, which can do nothing about it.
    """
    topic = context.topics.find(str(name))
    if topic is None and not context.topics.is_unloaded(name) and context.topics.find_remote(name) is None:
        raise AcknowledgeError(f"error acknowledging message: there is no topic {name} on this broker")
    return topic


class ReceiveStream:
    """One ReceiveMessages stream.

    A stream that fails is answered late: official clients open it again at once, without a pause.
    """

    def __init__(self, context: ServiceContext, stream: ServerStream) -> None:
        self._context = context
        self._stream = stream
        self._member: Membership | None = None
        self._paced: PacedStream | None = None
        self._timer: TimerHandle | None = None

    def on_message(self, message: bytes) -> None:
        try:
            self._open(client_messages.RECEIVE.decode(message).consumer_id)
        except DanubeError as error:
            # A traceback would hold this object.
            self._schedule(RECEIVE_FAILURE_DELAY_S, partial(self._stream.fail, error.with_traceback(None)))

    def _open(self, consumer_id: int) -> None:
        if self._context.is_foreign(ClientKind.CONSUMER, consumer_id):
            raise self._context.disconnected_clients.receive_refusal(consumer_id, is_foreign=True)
        member = self._context.consumers.get(consumer_id)
        wait_s = member.subscription.hold_off_s(member.consumer, self._stream.caller.address)
        if wait_s:
            self._schedule(wait_s, partial(self._open_late, consumer_id))
        else:
            self._attach(member)

    def _open_late(self, consumer_id: int) -> None:
        self._timer = None
        try:
            self._attach(self._context.consumers.get(consumer_id))
        except DanubeError as error:
            self._stream.fail(error.with_traceback(None))

    def _attach(self, member: Membership) -> None:
        topic, subscription = member.topic, member.subscription
        ready = partial(subscription.ready, member.consumer)
        self._paced = PacedStream(self._stream, topic, subscription, self._context.clock, ready)
        self._member = member
        self._context.consumers.attach(member, self._paced)

    def on_half_close(self) -> None:
        """Nothing follows the request."""

    def on_ready(self) -> None:
        if self._member is not None and self._member.consumer.stream is self._paced:
            self._member.subscription.ready(self._member.consumer)

    def on_cancel(self) -> None:
        """Official clients leave by cancelling their stream: one that dies takes its connection with it."""
        if self._timer is not None:
            self._timer.cancel()
        if self._member is not None and self._paced is not None:
            self._paced.end()
            self._member.subscription.detach(self._member.consumer, self._paced, is_lost=not self._stream.is_left)

    def _schedule(self, seconds: float, callback: Callable[[], None]) -> None:
        clock = self._context.clock
        self._timer = clock.call_at(clock.monotonic_s() + seconds, callback)
