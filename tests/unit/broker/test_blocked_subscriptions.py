"""A subscription that waits for an operator says so wherever a broker tells of itself."""

import asyncio
import logging

import pytest
from prometheus_client import generate_latest

from danube.broker.telemetry.metrics import RpcCounts, new_registry
from danube.broker.telemetry.readings import mark_subscription, read_subscription
from danube.model.calls.admin import SubscriptionActivity
from danube.model.calls.stream import FetchFrom
from danube.model.policies import FailurePolicy, PoisonPolicy
from danube.model.records.telemetry import SubscriptionReading
from danube.model.subscription import SubscriptionType
from danube.model.topic import TopicName
from danube.testing.in_process_broker import Cell, StartBroker
from danube.testing.patience import PATIENCE_S
from danube.testing.peers.client import Inbox
from danube.testing.simulated.clock import settle
from tests.unit.broker.keeper import Keeper

BLOCK_AT_ONCE = FailurePolicy(max_redelivery_count=0, poison=PoisonPolicy.BLOCK)


@pytest.fixture
async def cell(keepers: list[Keeper], start_broker: StartBroker) -> Cell:
    return await start_broker()


@pytest.fixture
def keeper(cell: Cell, keepers: list[Keeper]) -> Keeper:
    return keepers[-1]


async def reading(cell: Cell, topic: TopicName, kind: SubscriptionType = SubscriptionType.SHARED) -> Inbox:
    """A consumer of a subscription that blocks at once, with five messages of the topic."""
    producer = await cell.client.create_producer(topic)
    await cell.admin.create_subscription(topic, kind=kind, start=FetchFrom.EARLIEST)
    await cell.admin.set_failure_policy(topic, BLOCK_AT_ONCE)
    for _ in range(5):
        await cell.client.send(topic, producer, b"x")
    return await cell.client.receive(await cell.client.subscribe(topic, kind=kind))


async def refuse(cell: Cell, topic: TopicName, inbox: Inbox, count: int) -> None:
    async with asyncio.timeout(PATIENCE_S):
        for message in await inbox.take(count):
            await cell.client.nack(topic, message.offset)


def metric(keeper: Keeper) -> str:
    text = generate_latest(new_registry(keeper.topics, keeper.storage, RpcCounts())).decode()
    (line,) = (line for line in text.splitlines() if line.startswith("danube_subscription_blocked_messages{"))
    return line


def told(keeper: Keeper, topic: TopicName) -> tuple[SubscriptionReading, tuple[int | None, ...]]:
    """What telemetry says, and what it looks at for a change."""
    served = keeper.topics.get(topic)
    subscription = served.subscription("subscription")
    return read_subscription(served, subscription), mark_subscription(served, subscription)


async def test_every_view_says_that_it_is_blocked_and_that_it_is_free(
    cell: Cell, keeper: Keeper, topic: TopicName
) -> None:
    inbox = await reading(cell, topic)
    labels = 'danube_subscription_blocked_messages{subscription="subscription",topic="/default/orders"}'
    marks = [told(keeper, topic)[1]]
    for state, count in ((SubscriptionActivity.BLOCKED, 2), (SubscriptionActivity.ACTIVE, 0)):
        if count:
            await refuse(cell, topic, inbox, count)
        else:
            await cell.admin.retry_blocked(topic)
        (described,) = (await cell.admin.describe(topic))[0].subscriptions
        assert described.reliable is not None
        assert (described.state, described.reliable.blocked) == (state, count)
        assert metric(keeper) == f"{labels} {count:.1f}"
        assert (await cell.admin.describe_broker()).blocked_subscriptions == bool(count)
        found, mark = told(keeper, topic)
        assert found.blocked == count
        assert mark not in marks
        marks.append(mark)


async def test_subscription_that_nobody_reads_is_idle(cell: Cell, topic: TopicName) -> None:
    (await reading(cell, topic)).close()
    await settle()
    assert (await cell.admin.describe(topic))[0].subscriptions[0].state is SubscriptionActivity.IDLE


async def test_log_tells_once_that_it_is_blocked_and_once_that_it_is_free(
    cell: Cell, topic: TopicName, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "danube.broker.subscriptions.subscription")
    inbox = await reading(cell, topic)
    await refuse(cell, topic, inbox, 3)
    blocked = (
        "subscription 'subscription' on /default/orders is blocked: the message at offset 0 failed as often as it may, "
        "and what follows waits; have it sent again with `danube-admin topics retry-blocked /default/orders -s "
        "subscription`, or give it up with `danube-admin topics skip /default/orders -s subscription`"
    )
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [("WARNING", blocked)]
    await cell.admin.apply(
        await cell.admin.plan("skip_messages", topic=str(topic), subscription="subscription", count=0)
    )
    freed = "subscription 'subscription' on /default/orders is not blocked any more"
    assert [record.getMessage() for record in caplog.records] == [blocked, freed]


async def test_log_says_of_key_shared_that_the_key_waits(
    cell: Cell, topic: TopicName, caplog: pytest.LogCaptureFixture
) -> None:
    inbox = await reading(cell, topic, SubscriptionType.KEY_SHARED)
    await refuse(cell, topic, inbox, 1)
    (record,) = (each for each in caplog.records if each.name == "danube.broker.subscriptions.subscription")
    assert "what follows with its key waits" in record.getMessage()
