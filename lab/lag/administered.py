"""Situations in which an administrator does something: limits, seeks, retention, a topic made anew."""

from danube.client import Consumer, DispatchStrategy, Message
from danube.model.calls.admin import DescribeTopics
from danube.model.lag.verdict import LagCause
from danube.model.plans.plan import Effect
from danube.model.policies import Policies, PolicyChange, SetTopicPolicies
from danube.runtime.clock import sleep_for
from lab.lag.situations import TURN_S, WELL, WINDOW_S, too_slow_at_once, turned
from lab.lag.stage import SUBSCRIPTION, Situation, Stage, acknowledge, after
from lab.lag.truth import BEHIND, STOOD, Phase

POLL_S = 0.5
FIRST_LOSS_S = 90.0
"""About: messages of 30 s, which became a segment when the eighth file of the journal was closed."""


async def throttled(stage: Stage) -> None:
    """The subscription may send half of what arrives."""
    producer = await stage.subscription()
    stage.spawn(stage.read(await stage.consumer()))
    stage.spawn(stage.produce(producer, 8))
    await stage.until(TURN_S)
    await _limit(stage, Policies(max_subscription_dispatch_rate=2))


async def publish_limit(stage: Stage) -> None:
    """The producer may send half of what it has, and the consumer reads all of that."""
    producer = await stage.subscription()
    stage.spawn(stage.read(await stage.consumer()))
    stage.spawn(stage.produce(producer, 8))
    await stage.until(TURN_S)
    await _limit(stage, Policies(max_publish_rate=2))


async def sought(stage: Stage) -> None:
    """A consumer is too slow, and an administrator seeks to the end and has it keep up."""
    producer = await stage.subscription()
    work = [0.5]
    stage.spawn(stage.read(await stage.consumer(), after(work)))
    stage.spawn(stage.produce(producer, 8))
    await stage.until(TURN_S + WINDOW_S)
    work[0] = 0.0
    where = {"topic": str(stage.topic), "subscription": SUBSCRIPTION, "to": "latest"}
    await stage.plan("seek_subscription", Effect.DESTROY, **where)
    stage.ledger.passed_over(stage.now_s, len(stage.ledger.sent_s))


async def retention(stage: Stage) -> None:
    """Nobody reads, and retention may delete what is unread."""
    producer = await stage.subscription()
    await stage.plan(
        "set_topic_retention",
        Effect.DESTROY,
        topic=str(stage.topic),
        time_s=30,
        bytes=None,
        drops_unread=True,
        clear=False,
    )
    stage.spawn(stage.produce(producer, 8))
    while True:
        await sleep_for(stage.world.clock, POLL_S)
        (described,) = (
            await stage.world.admin.describe_topics(DescribeTopics(topics=(stage.topic,), page_size=1))
        ).topics
        stage.ledger.passed_over(stage.now_s, described.start_offset)


async def partitioned(stage: Stage) -> None:
    """A consumer of both partitions answers none of the second any more."""
    base = stage.topic
    stage.watched = base.partition(1)
    client = await stage.world.client()
    building = client.new_producer().with_topic(str(base)).with_name("producer").with_partitions(2)
    producer = building.with_dispatch_strategy(DispatchStrategy.RELIABLE).build()
    await producer.create()
    consumer = await stage.consumer()

    async def handle(stage: Stage, consumer: Consumer, message: Message) -> None:
        if message.topic == str(base.partition(0)):
            await consumer.ack(message)
        elif stage.now_s < TURN_S:
            await acknowledge(stage, consumer, message)

    stage.spawn(stage.read(consumer, handle))
    while True:
        await producer.send_many(b"12345678" for _ in range(8))
        stage.ledger.sent(stage.now_s, 4)
        await sleep_for(stage.world.clock, 2.0)


async def made_anew(stage: Stage) -> None:
    """The topic is deleted and made anew, with its subscription, and read on."""
    producer = await stage.subscription()
    consumer = await stage.consumer()
    stage.spawn(stage.read(consumer))
    for _ in range(40):
        await stage.publish(producer, 8)
        await sleep_for(stage.world.clock, 2.0)
    await consumer.close()
    await producer.close()
    await stage.plan("delete_topic", Effect.DESTROY, topic=str(stage.topic))
    stage.forget()
    producer = await stage.subscription()
    stage.spawn(stage.read(await stage.consumer()))
    stage.spawn(stage.produce(producer, 8))


async def _limit(stage: Stage, limits: Policies) -> None:
    await stage.world.admin.set_topic_policies(SetTopicPolicies(topic=stage.topic, change=PolicyChange(given=limits)))


ADMINISTERED = (
    Situation(name="throttled", play=throttled, truth=turned(LagCause.THROTTLED, BEHIND, WINDOW_S)),
    Situation(name="publish limit", play=publish_limit, truth=(WELL,)),
    Situation(
        name="sought", play=sought, truth=(*too_slow_at_once(), Phase(begins_s=TURN_S + WINDOW_S)), is_steady=False
    ),
    Situation(
        name="retention",
        play=retention,
        truth=(
            Phase(begins_s=0.0, statuses=STOOD, causes=frozenset({LagCause.NOBODY_READS})),
            Phase(begins_s=FIRST_LOSS_S, statuses=STOOD, causes=frozenset({LagCause.DATA_LOSS})),
        ),
        is_steady=False,
    ),
    Situation(name="partition stuck", play=partitioned, truth=turned(LagCause.STUCK, STOOD, WINDOW_S)),
    Situation(name="made anew", play=made_anew, truth=(WELL,), is_steady=False),
)
