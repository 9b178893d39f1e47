"""The consumers of a simulation, and the subscriptions that one life of a broker serves them by."""

from collections.abc import Callable
from dataclasses import dataclass, field

from danube.broker.dispatch.driver import DispatchDriver
from danube.broker.dispatch.events import SkipRange
from danube.model.errors import DanubeError
from danube.rpc.carrier import Caller
from lab.kernel.history import Delivered, Event
from lab.storage.world import SubscriptionPlan, TopicPlan, decode_record

_WINDOW = 10


class SimConsumer:
    """A consumer and its stream. It reads at once what it is sent, unless it stalls, and acknowledges when told to."""

    def __init__(self, note: Callable[[Event], None], topic: str, subscription: str, consumer_id: int) -> None:
        self.consumer_id = consumer_id
        self.stalled = False
        self.attached = False
        self.unanswered: dict[int, None] = {}
        self._note = note
        self._topic = topic
        self._subscription = subscription

    @property
    def caller(self) -> Caller:
        return Caller(address="memory")

    @property
    def room(self) -> int:
        return 0 if self.stalled else 1_000_000

    def open(self) -> None:
        return None

    def write(self, message: bytes) -> None:
        offset, text = decode_record(message)
        self.unanswered[offset] = None
        self._note(Delivered(self._topic, self._subscription, offset, text))

    def finish(self) -> None:
        self.attached = False

    def fail(self, error: DanubeError) -> None:  # noqa: ARG002 - what the protocol gives
        self.attached = False

    def pause_reading(self) -> None:
        return None

    def resume_reading(self) -> None:
        return None


@dataclass(slots=True)
class ServedSubscription:
    """A subscription that this life serves."""

    topic: TopicPlan
    plan: SubscriptionPlan
    driver: DispatchDriver
    consumers: list[SimConsumer] = field(default_factory=list)

    @property
    def is_done(self) -> bool:
        """Whether everything durable is acknowledged."""
        return not self.driver.engine.lag

    def attach(self, consumer: SimConsumer) -> None:
        """Open the consumer's stream, unless it is open."""
        if not consumer.attached:
            consumer.attached = True
            self.driver.attach(consumer.consumer_id, consumer, _WINDOW)

    def detach(self, consumer: SimConsumer) -> None:
        """Break the consumer's stream: what it has not answered is sent again."""
        if consumer.attached:
            consumer.attached = False
            consumer.unanswered.clear()
            self.driver.detach(consumer.consumer_id)

    def break_off(self, consumer_id: int) -> None:
        """Break the stream of the consumer with this id."""
        for consumer in self.consumers:
            if consumer.consumer_id == consumer_id:
                self.detach(consumer)

    def unstall(self, consumer: SimConsumer) -> None:
        """Have the consumer read again."""
        consumer.stalled = False
        if consumer.attached:
            self.driver.ready(consumer.consumer_id)

    def pass_over(self, start_offset: int) -> None:
        """Retention has let the messages below go: the subscription goes on behind them."""
        position = self.driver.engine.position
        if position < start_offset:
            self.driver.handle(SkipRange(position, start_offset))
