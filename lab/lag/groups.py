"""Situations of groups: keys, standbys, partitions, batches of commits, and two causes at once."""

from danube.client import Consumer, Message, SubType
from danube.model.lag.verdict import LagCause
from danube.model.subscription import SubscriptionType
from danube.runtime.clock import sleep_for
from lab.lag.situations import TURN_S, WELL, WINDOW_S, refuses_each_once, stops, too_slow_at_once, turned
from lab.lag.stage import Handle, Situation, Stage, after
from lab.lag.truth import BEHIND, STOOD, Phase

_HALF_S = 45.0
KEYS = tuple("abcdefghijklmnop")


async def one_dead_of_keys(stage: Stage) -> None:
    """One of two consumers of a Key-Shared subscription hangs: its keys wait."""
    producer = await stage.subscription(SubscriptionType.KEY_SHARED)
    stage.spawn(stage.read(await stage.consumer(SubType.KEY_SHARED, "one"), stops()))
    stage.spawn(stage.read(await stage.consumer(SubType.KEY_SHARED, "two")))
    stage.spawn(stage.produce(producer, len(KEYS), keys=KEYS))


async def two_dead(stage: Stage) -> None:
    """Two of three consumers hang."""
    producer = await stage.subscription(SubscriptionType.SHARED)
    stage.spawn(stage.read(await stage.consumer(SubType.SHARED, "one"), stops()))
    stage.spawn(stage.read(await stage.consumer(SubType.SHARED, "two"), stops()))
    stage.spawn(stage.read(await stage.consumer(SubType.SHARED, "three")))
    stage.spawn(stage.produce(producer, 9))


async def standby(stage: Stage) -> None:
    """The active consumer leaves, and the other goes on."""
    producer = await stage.subscription(SubscriptionType.FAILOVER)
    active = await stage.consumer(SubType.FAILOVER, "one")
    stage.spawn(stage.read(active))
    stage.spawn(stage.read(await stage.consumer(SubType.FAILOVER, "two")))
    stage.spawn(stage.produce(producer, 8))
    await stage.until(TURN_S)
    await active.close()


async def active_hangs(stage: Stage) -> None:
    """The active consumer hangs, and the standby gets nothing."""
    producer = await stage.subscription(SubscriptionType.FAILOVER)
    stage.spawn(stage.read(await stage.consumer(SubType.FAILOVER, "one"), stops()))
    stage.spawn(stage.read(await stage.consumer(SubType.FAILOVER, "two")))
    stage.spawn(stage.produce(producer, 8))


async def commits_in_bursts(stage: Stage) -> None:
    """A consumer reads all the time and acknowledges every 20 s."""
    producer = await stage.subscription()
    stage.spawn(stage.read(await stage.consumer(), _commits_every(20.0)))
    stage.spawn(stage.produce(producer, 8))


async def dead_in_a_storm(stage: Stage) -> None:
    """One of two consumers hangs, and the other refuses each message once."""
    producer = await stage.subscription(SubscriptionType.SHARED)
    stage.spawn(stage.read(await stage.consumer(SubType.SHARED, "one"), stops()))
    stage.spawn(stage.read(await stage.consumer(SubType.SHARED, "two"), refuses_each_once()))
    stage.spawn(stage.produce(producer, 8))


async def slow_then_gone(stage: Stage) -> None:
    """A consumer is too slow, and then it leaves."""
    producer = await stage.subscription()
    consumer = await stage.consumer()
    stage.spawn(stage.read(consumer, after(0.5)))
    stage.spawn(stage.produce(producer, 8))
    await stage.until(TURN_S + _HALF_S)
    await consumer.close()


async def large_bursts(stage: Stage) -> None:
    """A thousand come at once, which takes 50 s, every 100 s."""
    producer = await stage.subscription()
    stage.spawn(stage.read(await stage.consumer(), after(0.05)))
    await stage.until(7.0)
    stage.spawn(stage.produce(producer, 1_000, every_s=100.0))


async def burst_on_load(stage: Stage) -> None:
    """A steady load, and once five hundred more, which takes 85 s."""
    producer = await stage.subscription()
    stage.spawn(stage.read(await stage.consumer(), after(0.1)))
    stage.spawn(stage.produce(producer, 8))
    await stage.until(TURN_S)
    await stage.publish(producer, 500)


async def even_batches(stage: Stage) -> None:
    """Two for every telemetry record, the second a moment before it: which is first at one moment threads decide."""
    producer = await stage.subscription()
    stage.spawn(stage.read(await stage.consumer()))
    await sleep_for(stage.world.clock, (-stage.world.clock.monotonic_s() - 0.01) % 5.0)
    stage.spawn(stage.produce(producer, 2, every_s=2.5))


async def slow_with_small_prefetch(stage: Stage) -> None:
    """More arrives than a consumer can do that has one message ahead."""
    producer = await stage.subscription()
    stage.spawn(stage.read(await stage.consumer(prefetch=1), after(0.4)))
    stage.spawn(stage.produce(producer, 4))
    await stage.until(TURN_S)
    stage.spawn(stage.produce(producer, 8))


def _commits_every(every_s: float) -> Handle:
    waiting: list[Message] = []

    async def handle(stage: Stage, consumer: Consumer, message: Message) -> None:
        waiting.append(message)
        if len(waiting) == 1:
            stage.spawn(commit(stage, consumer))

    async def commit(stage: Stage, consumer: Consumer) -> None:
        await sleep_for(stage.world.clock, every_s)
        done = list(waiting)
        waiting.clear()
        await consumer.ack_many(done)
        for message in done:
            stage.ledger.acknowledged(stage.now_s, message.offset)

    return handle


_STORM_OR_DEAD = frozenset({LagCause.MEMBER_STUCK, LagCause.STORM})
_EVEN = frozenset({None, LagCause.CATCHING_UP})
GROUPS = (
    Situation(name="one dead of keys", play=one_dead_of_keys, truth=turned(LagCause.MEMBER_STUCK, BEHIND, WINDOW_S)),
    Situation(name="two dead of a group", play=two_dead, truth=turned(LagCause.MEMBER_STUCK, BEHIND, WINDOW_S)),
    Situation(name="standby", play=standby, truth=(WELL,)),
    Situation(name="active hangs", play=active_hangs, truth=turned(LagCause.STUCK, STOOD, WINDOW_S)),
    Situation(
        name="commits in bursts", play=commits_in_bursts, truth=(Phase(begins_s=0.0, causes=_EVEN),), is_steady=False
    ),
    Situation(
        name="dead in a storm",
        play=dead_in_a_storm,
        truth=(
            WELL,
            Phase(begins_s=TURN_S, statuses=BEHIND, causes=_STORM_OR_DEAD),
            Phase(begins_s=TURN_S + WINDOW_S, statuses=BEHIND, causes=_STORM_OR_DEAD),
        ),
    ),
    Situation(
        name="slow then gone",
        play=slow_then_gone,
        truth=(
            *too_slow_at_once(),
            Phase(
                begins_s=TURN_S + _HALF_S,
                statuses=BEHIND,
                causes=frozenset({LagCause.NOBODY_READS}),
            ),
            Phase(
                begins_s=TURN_S + _HALF_S + WINDOW_S,
                statuses=STOOD,
                causes=frozenset({LagCause.NOBODY_READS}),
            ),
        ),
    ),
    Situation(name="large bursts", play=large_bursts, truth=(Phase(begins_s=0.0, causes=_EVEN),), is_steady=False),
    Situation(name="burst on load", play=burst_on_load, truth=(Phase(begins_s=0.0, causes=_EVEN),)),
    Situation(name="even batches", play=even_batches, truth=(WELL,)),
    Situation(
        name="small prefetch",
        play=slow_with_small_prefetch,
        truth=turned(LagCause.TOO_SLOW, BEHIND, WINDOW_S),
    ),
)
