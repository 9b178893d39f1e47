"""Situations: what clients do, and what a verdict on them has to say."""

from collections.abc import Iterator
from dataclasses import replace

from danube.client import Consumer, Message, SubType
from danube.model.lag.verdict import LagCause, LagStatus
from danube.model.policies import FailurePolicy, PoisonPolicy
from danube.model.subscription import SubscriptionType
from danube.runtime.clock import sleep_for
from lab.lag.stage import Handle, Situation, Stage, acknowledge, after
from lab.lag.truth import BEHIND, FINE, STOOD, Phase

TURN_S = 90.0
"""Until then all is well, in most situations."""
END_S = 285.0
WINDOW_S = 45.0
"""A silence is known to be one after so long."""
HOURLY_S = tuple(1_785.0 + 3_600.0 * hour for hour in range(5))
HOURLY_READS_S = 180.0
HOURLY_MESSAGES_S = 20.0
GIVES_NEVER_UP = FailurePolicy(max_redelivery_count=1_000, max_redelivery_delay_ms=5_000)
GIVES_UP_AT_ONCE = FailurePolicy(max_redelivery_count=0, poison=PoisonPolicy.BLOCK)
WELL = Phase(begins_s=0.0)
_CATCHES_UP = frozenset({None, LagCause.CATCHING_UP})


def turned(cause: LagCause, statuses: frozenset[LagStatus], evidence_s: float = 0.0) -> tuple[Phase, ...]:
    """All is well, and then it is not."""
    return (
        WELL,
        Phase(begins_s=TURN_S, statuses=statuses, causes=frozenset({cause}), evidence_s=evidence_s),
    )


def too_slow_at_once() -> tuple[Phase, ...]:
    """A consumer is too slow from the begin on, of which little is known at first."""
    causes = frozenset({LagCause.TOO_SLOW})
    return (
        Phase(begins_s=0.0, statuses=FINE | {LagStatus.UNKNOWN}, causes=causes | {None}),
        Phase(begins_s=20.0, statuses=BEHIND, causes=causes, evidence_s=WINDOW_S),
    )


async def healthy(stage: Stage) -> None:
    """Each message is read at once."""
    producer = await stage.subscription()
    stage.spawn(stage.read(await stage.consumer()))
    stage.spawn(stage.produce(producer, 1, every_s=0.25))


async def gone(stage: Stage) -> None:
    """The only consumer leaves."""
    producer = await stage.subscription()
    consumer = await stage.consumer()
    stage.spawn(stage.produce(producer, 8))
    stage.spawn(stage.read(consumer))
    await stage.until(TURN_S)
    await consumer.close()


async def poison(stage: Stage) -> None:
    """One message is refused again and again, and others are read."""
    producer = await stage.subscription(policy=GIVES_NEVER_UP)
    stage.spawn(stage.read(await stage.consumer(), _refuses_one()))
    stage.spawn(stage.produce(producer, 8))


async def blocked(stage: Stage) -> None:
    """A message failed as often as it may, and nothing new is sent."""
    producer = await stage.subscription(policy=GIVES_UP_AT_ONCE)
    stage.spawn(stage.read(await stage.consumer(), _refuses_one()))
    stage.spawn(stage.produce(producer, 8))


async def idle(stage: Stage) -> None:
    """All was read long ago."""
    producer = await stage.subscription()
    stage.spawn(stage.read(await stage.consumer()))
    await stage.publish(producer, 40)


async def unread(stage: Stage) -> None:
    """Nobody ever reads."""
    producer = await stage.subscription()
    stage.spawn(stage.produce(producer, 8))


async def catching_up(stage: Stage) -> None:
    """A backlog is read faster than more arrives."""
    producer = await stage.subscription()
    await stage.publish(producer, 1_000)
    stage.spawn(stage.read(await stage.consumer(), after(0.1)))
    stage.spawn(stage.produce(producer, 4))


async def periodic_reader(stage: Stage) -> None:
    """A consumer comes every half a minute and reads all."""
    producer = await stage.subscription()
    stage.spawn(stage.produce(producer, 8))
    for visit in range(20):
        await stage.until(5.0 + 30.0 * visit)
        consumer = await stage.consumer()
        stage.spawn(stage.read(consumer))
        await sleep_for(stage.world.clock, 5.0)
        await consumer.close()


async def hourly_job(stage: Stage) -> None:
    """A consumer comes every hour for three minutes and reads all."""
    producer = await stage.subscription()
    stage.spawn(stage.produce(producer, 4, every_s=HOURLY_MESSAGES_S))
    for begins_s in HOURLY_S:
        await stage.until(begins_s)
        consumer = await stage.consumer()
        stage.spawn(stage.read(consumer))
        await sleep_for(stage.world.clock, HOURLY_READS_S)
        await consumer.close()


async def bursty(stage: Stage) -> None:
    """Hundreds come at once, every minute."""
    producer = await stage.subscription()
    stage.spawn(stage.read(await stage.consumer(), after(0.05)))
    await stage.until(7.0)
    stage.spawn(stage.produce(producer, 300, every_s=60.0))


async def hangs(stage: Stage) -> None:
    """The only consumer stops answering, and stays."""
    producer = await stage.subscription()
    stage.spawn(stage.read(await stage.consumer(), stops()))
    stage.spawn(stage.produce(producer, 8))


async def storm(stage: Stage) -> None:
    """Each message is refused once."""
    producer = await stage.subscription()
    stage.spawn(stage.read(await stage.consumer(), refuses_each_once()))
    stage.spawn(stage.produce(producer, 8))


async def one_dead(stage: Stage) -> None:
    """One of two consumers hangs."""
    producer = await stage.subscription(SubscriptionType.SHARED)
    stage.spawn(stage.read(await stage.consumer(SubType.SHARED, "one"), stops()))
    stage.spawn(stage.read(await stage.consumer(SubType.SHARED, "two")))
    stage.spawn(stage.produce(producer, 8))


async def slow(stage: Stage) -> None:
    """More arrives than the consumer can do."""
    producer = await stage.subscription()
    stage.spawn(stage.read(await stage.consumer(), after(0.4)))
    stage.spawn(stage.produce(producer, 4))
    await stage.until(TURN_S)
    stage.spawn(stage.produce(producer, 8))


def _hourly_truth() -> Iterator[Phase]:
    """Nobody reads between the visits: records of a few minutes know no hours."""
    away = Phase(
        begins_s=0.0, statuses=STOOD, causes=frozenset({LagCause.NOBODY_READS}), evidence_s=HOURLY_MESSAGES_S + WINDOW_S
    )
    yield away
    for begins_s in HOURLY_S:
        yield Phase(begins_s=begins_s, causes=_CATCHES_UP)
        yield replace(away, begins_s=begins_s + HOURLY_READS_S)


def _refuses_one() -> Handle:
    """The first message of after the turn is refused for ever."""
    refused: list[int] = []

    async def handle(stage: Stage, consumer: Consumer, message: Message) -> None:
        if stage.now_s >= TURN_S and not refused:
            refused.append(message.offset)
        if message.offset in refused:
            await consumer.nack(message)
        else:
            await acknowledge(stage, consumer, message)

    return handle


def refuses_each_once() -> Handle:
    """Each message of after the turn is refused the first time."""

    async def handle(stage: Stage, consumer: Consumer, message: Message) -> None:
        if stage.is_new(message) and stage.now_s >= TURN_S:
            await consumer.nack(message)
        else:
            await acknowledge(stage, consumer, message)

    return handle


def stops() -> Handle:
    """The application hangs from the turn on."""

    async def handle(stage: Stage, consumer: Consumer, message: Message) -> None:
        if stage.now_s >= TURN_S:
            await stage.until(10 * END_S)
        await acknowledge(stage, consumer, message)

    return handle


HOURLY = Situation(name="hourly job", play=hourly_job, truth=(*_hourly_truth(),), is_steady=False)
SITUATIONS = (
    Situation(name="healthy", play=healthy, truth=(WELL,)),
    Situation(name="gone", play=gone, truth=turned(LagCause.NOBODY_READS, STOOD, WINDOW_S)),
    Situation(name="poison", play=poison, truth=turned(LagCause.POISON, STOOD, WINDOW_S)),
    Situation(name="blocked", play=blocked, truth=turned(LagCause.BLOCKED, STOOD, WINDOW_S)),
    Situation(name="idle", play=idle, truth=(WELL,)),
    Situation(
        name="unread",
        play=unread,
        truth=(Phase(begins_s=0.0, statuses=STOOD, causes=frozenset({LagCause.NOBODY_READS}), evidence_s=WINDOW_S),),
    ),
    Situation(name="catching up", play=catching_up, truth=(Phase(begins_s=0.0, causes=_CATCHES_UP),)),
    Situation(
        name="periodic reader",
        play=periodic_reader,
        truth=(Phase(begins_s=0.0, statuses=FINE, causes=frozenset({None, LagCause.NOBODY_READS})),),
        is_steady=False,
    ),
    Situation(name="bursty producer", play=bursty, truth=(Phase(begins_s=0.0, causes=_CATCHES_UP),)),
    Situation(name="hung consumer", play=hangs, truth=turned(LagCause.STUCK, STOOD, WINDOW_S)),
    Situation(name="redelivery storm", play=storm, truth=turned(LagCause.STORM, BEHIND)),
    Situation(name="one dead of a group", play=one_dead, truth=turned(LagCause.MEMBER_STUCK, BEHIND, WINDOW_S)),
    Situation(name="too slow", play=slow, truth=turned(LagCause.TOO_SLOW, BEHIND, WINDOW_S)),
)
