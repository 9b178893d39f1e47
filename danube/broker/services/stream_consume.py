"""Consume: a consumer that gets batches as they are stored, and answers them by ranges."""

from collections.abc import Callable
from functools import partial

from danube.broker.clients.consumers import Membership
from danube.broker.dispatch.outlets import BatchStream
from danube.broker.policy.pacing import PacedStream
from danube.broker.services.context import ServiceContext
from danube.broker.subscriptions.subscription import ReliableSubscription
from danube.broker.topics.topic import ReliableTopic
from danube.model.calls.consume import ConsumeMoved, ConsumeOpen, ConsumeOpened, ConsumeUpdate
from danube.model.errors import (
    DanubeError,
    InternalError,
    InvalidRequestError,
    PreconditionFailedError,
)
from danube.model.topic import TopicName
from danube.rpc.carrier import ServerStream
from danube.runtime.clock import TimerHandle
from danube.wire.stream import consume


class ConsumeStream:
    """One Consume stream."""

    def __init__(self, context: ServiceContext, stream: ServerStream) -> None:
        self._context = context
        self._stream = stream
        self._opening: ConsumeOpen | None = None
        self._member: Membership | None = None
        self._batches: BatchStream | None = None
        self._early_credit = self._early_messages = 0
        """Given before the consumer was attached."""
        self._to_confirm = 0
        self._is_cancelled = False
        self._timer: TimerHandle | None = None

    def on_message(self, message: bytes) -> None:
        try:
            request = consume.request(message)
            if isinstance(request, ConsumeOpen):
                self._open(request)
            else:
                self._update(request)
        except DanubeError:
            self._leave(is_lost=True)
            raise

    def on_half_close(self) -> None:
        """The consumer leaves: nothing that it sent before is lost."""
        self._leave(is_lost=False)
        self._stream.finish()

    def on_ready(self) -> None:
        if self._to_confirm:
            self._confirm()
        if self._is_attached:
            self._subscription.ready(self._attached.consumer)

    def on_cancel(self) -> None:
        self._leave(is_lost=True)

    def _open(self, wanted: ConsumeOpen) -> None:
        if self._opening is not None:
            raise InvalidRequestError("the stream is open already: open another one for another consumer")
        self._opening = wanted
        self._check_reliable(wanted.subscribe.topic)
        self._context.tasks.spawn(self._subscribe(wanted), "open a consume stream")

    def _check_reliable(self, name: TopicName) -> None:
        topic = self._context.topics.find(str(name))
        if topic is not None and not isinstance(topic, ReliableTopic):
            raise PreconditionFailedError(f"{name} is not reliable: it has no batches, receive single messages of it")

    async def _subscribe(self, wanted: ConsumeOpen) -> None:
        try:
            consumer_id = await self._context.admission.subscribe(wanted.subscribe, wanted.start)
            self._attach_in_turn(consumer_id, wanted)
        except DanubeError as error:
            self._stream.fail(error)
        except BaseException:
            self._stream.fail(InternalError("internal error; the broker's log has the details"))
            raise

    def _attach_in_turn(self, consumer_id: int, wanted: ConsumeOpen) -> None:
        """Attach; clients that share a name take turns, ever more slowly."""
        member = self._context.consumers.get(consumer_id)
        wait_s = member.subscription.hold_off_s(member.consumer, self._stream.caller.address)
        if not wait_s:
            self._attach(consumer_id, wanted)
            return
        clock = self._context.clock
        self._timer = clock.call_at(clock.monotonic_s() + wait_s, partial(self._attach_late, consumer_id, wanted))

    def _attach_late(self, consumer_id: int, wanted: ConsumeOpen) -> None:
        self._timer = None
        try:
            self._attach(consumer_id, wanted)
        except DanubeError as error:
            self._stream.fail(error.with_traceback(None))

    def _attach(self, consumer_id: int, wanted: ConsumeOpen) -> None:
        if self._is_cancelled:
            return
        if self._context.closing is not None:
            raise self._context.closing
        member = self._context.consumers.get(consumer_id)
        self._check_reliable(wanted.subscribe.topic)
        topic, subscription = member.topic, member.subscription
        ready = partial(subscription.ready, member.consumer)
        paced = PacedStream(self._stream, topic, subscription, self._context.clock, ready)
        moved = _where(self._context, wanted.subscribe.topic)
        messages = wanted.credit_messages
        self._batches = BatchStream(
            paced,
            wanted.credit_bytes + self._early_credit,
            moved,
            credit_messages=None if messages is None else messages + self._early_messages,
            reports=wanted.reports,
        )
        self._member = member
        self._stream.write(consume.opened(ConsumeOpened(consumer_id)))
        self._context.consumers.attach(member, self._batches)

    def _update(self, update: ConsumeUpdate) -> None:
        if self._opening is None:
            raise InvalidRequestError("an update came before the stream was opened: open it with the first message")
        if self._batches is None:
            self._early_credit += update.credit_bytes
            self._early_messages += update.credit_messages
        else:
            if update.report is not None and update.report.gave_back:
                self._batches.void_credit()
            self._batches.add_credit(update.credit_bytes, update.credit_messages)
        if self._is_attached:
            self._subscription.answer(self._attached.consumer, update)
        if update.sequence:
            self._to_confirm = update.sequence
            self._confirm()
        if update.close:
            self.on_half_close()

    def _confirm(self) -> None:
        if self._batches is not None and self._is_attached and self._batches.confirm(self._to_confirm):
            self._to_confirm = 0

    @property
    def _attached(self) -> Membership:
        assert self._member is not None  # noqa: S101 - asked only of one that is attached
        return self._member

    @property
    def _subscription(self) -> ReliableSubscription:
        subscription = self._attached.subscription
        assert isinstance(subscription, ReliableSubscription)  # noqa: S101 - other topics are refused
        return subscription

    @property
    def _is_attached(self) -> bool:
        """False once the topic is closed, too: what is answered then is not kept, so it must not be confirmed."""
        member = self._member
        return member is not None and member.consumer.stream is self._batches and not member.topic.is_closed

    def _leave(self, *, is_lost: bool) -> None:
        self._is_cancelled = True
        if self._timer is not None:
            self._timer.cancel()
        if self._member is not None and self._batches is not None:
            self._batches.cancel()
            self._member.subscription.detach(self._member.consumer, self._batches, is_lost=is_lost)


def _where(context: ServiceContext, name: TopicName) -> Callable[[], ConsumeMoved]:
    def moved() -> ConsumeMoved:
        """The broker that serves the topic now, as a lookup would answer; empty where that is not known."""
        record = context.topics.find_remote(name)
        if record is None:
            return ConsumeMoved()
        try:
            server = context.topics.server_of(record)
        except DanubeError:
            return ConsumeMoved()
        connect_url, broker_url = (
            (context.connect_url, context.broker_url) if server is None else (server.connect_url, server.broker_url)
        )
        return ConsumeMoved(connect_url, broker_url, proxy=connect_url != broker_url)

    return moved
