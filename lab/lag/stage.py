"""Stage of one situation: its topic, its clients, and the ledger of what they did."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from danube.client import Consumer, DispatchStrategy, Message, Producer, SubType
from danube.client.consume.consumer import ConsumerBuilder
from danube.model.calls.positions import CreateSubscription
from danube.model.calls.stream import FetchFrom
from danube.model.plans.plan import Effect
from danube.model.policies import FailurePolicy, SetFailurePolicy, SubscriptionName
from danube.model.subscription import SubscriptionType
from danube.model.topic import TopicName
from danube.runtime.clock import sleep_for
from lab.lag.truth import Ledger, Phase
from lab.lag.world import World

SUBSCRIPTION = "readers"

Handle = Callable[["Stage", Consumer, Message], Awaitable[None]]
"""Work of an application on one message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """A course of clients on one topic, and what is true of it."""

    name: str
    play: Callable[["Stage"], Awaitable[None]]
    truth: tuple[Phase, ...]
    is_steady: bool = True
    """True if its rates are, but for its turns."""


class Stage:
    """The place of one situation in a world that it shares with others."""

    def __init__(self, world: World, name: str, begins_s: float) -> None:
        self.world = world
        self.ledger = Ledger()
        self.topic = self.watched = TopicName("default", name)
        """`watched` is the partition that is judged, of a partitioned topic."""
        self._begins_s = begins_s
        self._seen: set[int] = set()

    @property
    def name(self) -> SubscriptionName:
        """The subscription of this situation."""
        return SubscriptionName(topic=self.topic, subscription=SUBSCRIPTION)

    @property
    def now_s(self) -> float:
        """Seconds since the course began."""
        return self.world.clock.monotonic_s() - self._begins_s

    async def until(self, at_s: float) -> None:
        """Wait for a second of the course."""
        await sleep_for(self.world.clock, max(0.0, at_s - self.now_s))

    def spawn(self, work: Awaitable[None]) -> None:
        """An application that goes on by itself."""

        async def run() -> None:
            await work

        self.world.scope.spawn(run(), str(self.topic))

    async def producer(self) -> Producer:
        """A producer; it makes the topic."""
        client = await self.world.client()
        building = client.new_producer().with_topic(str(self.topic)).with_name("producer")
        producer = building.with_dispatch_strategy(DispatchStrategy.RELIABLE).build()
        await producer.create()
        return producer

    async def subscription(
        self, kind: SubscriptionType = SubscriptionType.EXCLUSIVE, policy: FailurePolicy | None = None
    ) -> Producer:
        """A producer, and a subscription that is there before the first message."""
        producer = await self.producer()
        await self.world.admin.create_subscription(
            CreateSubscription(name=self.name, type=kind, start=FetchFrom.EARLIEST)
        )
        if policy is not None:
            await self.world.admin.set_failure_policy(SetFailurePolicy(name=self.name, policy=policy))
        return producer

    async def publish(self, producer: Producer, count: int) -> None:
        """Send some messages together."""
        await producer.send_many(b"12345678" for _ in range(count))
        self.ledger.sent(self.now_s, count)

    async def produce(
        self, producer: Producer, count: int, every_s: float = 2.0, keys: Sequence[str] | None = None
    ) -> None:
        """Send so many every few seconds, for ever; with a key each, if they are given."""
        while True:
            if keys is None:
                await self.publish(producer, count)
            else:
                await producer.send_many_with_keys((key, b"12345678") for key in keys)
                self.ledger.sent(self.now_s, len(keys))
            await sleep_for(self.world.clock, every_s)

    async def consumer(
        self, kind: SubType = SubType.EXCLUSIVE, name: str = "reader", prefetch: int | None = None
    ) -> Consumer:
        """A consumer in a process of its own."""
        building = (await self.world.client()).new_consumer()
        if prefetch is not None:
            building = building.with_prefetch_messages(prefetch)
        return await subscribed(building, self, kind, name)

    async def plan(self, operation: str, effect: Effect = Effect.MOVE, **arguments: object) -> None:
        """An administrator does what takes a plan."""
        await self.world.plan(operation, effect, **arguments)

    def forget(self) -> None:
        """The topic was deleted: another one begins."""
        self.ledger.begin_anew()
        self._seen.clear()

    async def read(self, consumer: Consumer, handle: Handle | None = None) -> None:
        """Handle one message after the other, for ever; without `handle` each is acknowledged at once."""
        async for message in consumer:
            await (handle or acknowledge)(self, consumer, message)

    def is_new(self, message: Message) -> bool:
        """True the first time that a message comes."""
        is_new = message.offset not in self._seen
        self._seen.add(message.offset)
        return is_new


async def subscribed(building: ConsumerBuilder, stage: Stage, kind: SubType, name: str) -> Consumer:
    """A consumer of the stage's subscription."""
    building = building.with_topic(str(stage.topic)).with_subscription(SUBSCRIPTION).with_consumer_name(name)
    consumer = building.with_subscription_type(kind).build()
    await consumer.subscribe()
    return consumer


async def acknowledge(stage: Stage, consumer: Consumer, message: Message) -> None:
    """Acknowledge, and write it down when the broker has confirmed."""
    await consumer.ack(message)
    stage.ledger.acknowledged(stage.now_s, message.offset)


def after(work_s: float | list[float]) -> Handle:
    """Acknowledge after some work, as it is at that moment."""

    async def handle(stage: Stage, consumer: Consumer, message: Message) -> None:
        await sleep_for(stage.world.clock, work_s if isinstance(work_s, float) else work_s[0])
        await acknowledge(stage, consumer, message)

    return handle
