"""The dispatch rate of subscriptions, over the ports of a whole broker."""

import asyncio
from time import monotonic

import pytest

from danube.model.subscription import SubscriptionType
from danube.model.topic import DispatchStrategy, TopicName
from danube.testing.in_process_broker import Cell
from danube.testing.patience import PATIENCE_S


async def test_a_paced_subscription_gets_everything_in_order_and_no_faster(cell: Cell, topic: TopicName) -> None:
    producer = await cell.client.create_producer(topic)
    inbox = await cell.client.receive(await cell.client.subscribe(topic))
    await cell.admin.set_topic_policies(topic, max_subscription_dispatch_rate=20)
    started_s = monotonic()
    for index in range(30):
        await cell.client.send(topic, producer, b"%d" % index)
    received: list[int] = []
    async with asyncio.timeout(PATIENCE_S):
        while len(received) < 30:
            message = await inbox.next()
            received.append(int(message.payload))
            await cell.client.acknowledge(topic, message.offset)
    assert received == list(range(30))
    assert monotonic() - started_s > 0.4


async def test_consumers_of_a_paced_subscription_share_its_rate(cell: Cell, topic: TopicName) -> None:
    producer = await cell.client.create_producer(topic)
    await cell.admin.set_topic_policies(topic, max_subscription_dispatch_rate=2)
    inboxes = [
        await cell.client.receive(await cell.client.subscribe(topic, "s", name, SubscriptionType.SHARED))
        for name in ("one", "two")
    ]
    started_s = monotonic()
    for index in range(3):
        await cell.client.send(topic, producer, b"%d" % index)
    async with asyncio.timeout(PATIENCE_S):
        first, second = await asyncio.gather(*(inbox.next() for inbox in inboxes))
        third = asyncio.create_task(inboxes[0].next())
        assert {first.payload, second.payload, (await third).payload} == {b"0", b"1", b"2"}
    assert monotonic() - started_s > 0.3


async def test_a_rate_that_is_lifted_holds_nobody_up_any_more(cell: Cell, topic: TopicName) -> None:
    producer = await cell.client.create_producer(topic)
    inbox = await cell.client.receive(await cell.client.subscribe(topic))
    await cell.admin.set_topic_policies(topic, max_subscription_dispatch_rate=1)
    for index in range(3):
        await cell.client.send(topic, producer, b"%d" % index)
    async with asyncio.timeout(PATIENCE_S):
        await inbox.next()
        await cell.admin.set_topic_policies(topic, "max_subscription_dispatch_rate")
        await inbox.take(2)


@pytest.mark.parametrize("strategy", list(DispatchStrategy))
async def test_a_consumer_that_leaves_while_it_is_held_up_leaves_nothing_behind(
    cell: Cell, topic: TopicName, strategy: DispatchStrategy
) -> None:
    producer = await cell.client.create_producer(topic, strategy=strategy)
    inbox = await cell.client.receive(await cell.client.subscribe(topic))
    await cell.admin.set_topic_policies(topic, max_subscription_dispatch_rate=1)
    for index in range(3):
        await cell.client.send(topic, producer, b"%d" % index)
    async with asyncio.timeout(PATIENCE_S):
        await inbox.next()
        inbox.close()
        while (await cell.admin.connections(topic))[1] > 1:
            pass
