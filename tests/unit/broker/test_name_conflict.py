"""Two clients under one consumer name: the later one wins, once, and the earlier one does not come back."""

import asyncio

import pytest

from danube.broker.subscriptions.consumer import NameConflict
from danube.client import DanubeClientBuilder
from danube.client.consume.consumer import Consumer
from danube.model.errors import ConsumerReplacedError
from danube.model.limits.broker import NAME_CONFLICT_CALM_S, NAME_CONFLICT_WAIT_MAX_S
from danube.model.subscription import SubscriptionType
from danube.model.topic import TopicName
from danube.testing.in_process_broker import Cell
from danube.testing.patience import PATIENCE_S

TYPES = pytest.mark.parametrize("kind", list(SubscriptionType))


def test_who_comes_back_for_a_place_waits_twice_as_long_each_time() -> None:
    conflict, waits, now_s = NameConflict(), [], 0.0
    assert conflict.wait_s(now_s, is_new=True) == conflict.wait_s(now_s, is_new=False) == 0
    conflict.taken_over(now_s, "first:1")
    for _ in range(9):
        waits.append(conflict.wait_s(now_s, is_new=False))
        conflict.hold_off(now_s, "first:1")
        now_s += waits[-1]
    assert waits == [0.5, 1, 2, 4, 8, 16, NAME_CONFLICT_WAIT_MAX_S, NAME_CONFLICT_WAIT_MAX_S, NAME_CONFLICT_WAIT_MAX_S]
    assert (conflict.takeovers, conflict.held_off, conflict.rival) == (1, 9, "first:1")


def test_new_clients_that_take_the_place_in_turn_wait_too_and_longer_each_time() -> None:
    conflict, waits = NameConflict(), []
    for _ in range(5):
        waits.append(conflict.wait_s(1.0, is_new=True))
        conflict.taken_over(1.0, "some:1")
    assert waits == [0, 0.5, 1, 2, 4]


def test_after_a_calm_nothing_is_held_against_anybody() -> None:
    conflict = NameConflict()
    conflict.taken_over(0.0, "first:1")
    conflict.hold_off(10.0, "first:1")
    assert conflict.is_on(9.0 + NAME_CONFLICT_CALM_S)
    now_s = 10.0 + NAME_CONFLICT_CALM_S
    assert (conflict.is_on(now_s), conflict.wait_s(now_s, is_new=False)) == (False, 0)
    conflict.taken_over(now_s, "other:1")
    assert (conflict.takeovers, conflict.held_off) == (1, 0)


async def consumer_of(cell: Cell, topic: TopicName, kind: SubscriptionType) -> Consumer:
    """A consumer of a client of its own, always by the same name."""
    url = f"http://{cell.broker.addresses.broker}"
    client = await DanubeClientBuilder().service_url(url).with_carrier(cell.carrier).build()
    building = client.new_consumer().with_topic(str(topic)).with_consumer_name("one")
    consumer = building.with_subscription("subscription").with_subscription_type(kind).build()
    await consumer.subscribe()
    return consumer


@TYPES
async def test_the_later_of_two_consumers_of_a_name_has_it_and_the_earlier_one_is_told_and_stays_away(
    cell: Cell, topic: TopicName, kind: SubscriptionType, caplog: pytest.LogCaptureFixture
) -> None:
    producer = await cell.client.create_producer(topic)
    await cell.admin.create_subscription(topic, kind=kind)
    await cell.client.send(topic, producer, b"once each")
    async with asyncio.timeout(PATIENCE_S):
        earlier = await consumer_of(cell, topic, kind)
        queue = await earlier.receive()
        assert (await queue.get()).payload == b"once each"
        later = await consumer_of(cell, topic, kind)
        message = await (await later.receive()).get()
        with pytest.raises(ConsumerReplacedError, match="give each consumer a name of its own"):
            await queue.get()
        await later.ack(message)
        await cell.client.send(topic, producer, b"next")
        assert (await (await later.receive()).get()).payload == b"next"
    (described,) = await cell.admin.describe(topic)
    assert described.subscriptions[0].messages_out == 3
    shown, _ = await cell.admin.connections(topic)
    ((takeovers, held_off, rival),) = [(one.takeovers, one.held_off, one.rival) for one in shown if one.subscription]
    assert (takeovers, held_off) == (1, 0)
    assert rival.startswith("memory:")
    assert "consumer 'one' of subscription 'subscription' on /default/orders: a client at memory:" in caplog.text
    await earlier.close()
    assert (await later.receive()).empty()
    await later.close()


async def test_who_comes_back_is_refused_late_and_goes_on_where_the_place_is_free(
    cell: Cell, topic: TopicName, caplog: pytest.LogCaptureFixture
) -> None:
    await cell.client.create_producer(topic)
    identity = await cell.client.subscribe(topic)
    await cell.client.receive(identity)
    later = await cell.client.receive(await cell.client.subscribe(topic))
    with pytest.raises(ConsumerReplacedError):
        await cell.client.receive(identity)
    assert "wants the place of the one at memory:1 and waits 0.5 s" in caplog.text
    assert [each.held_off for each in (await cell.admin.connections(topic))[0] if each.subscription] == [1]
    coming = asyncio.ensure_future(cell.client.receive(identity))
    await cell.client.partitions(topic)  # it waits now
    later.close()
    async with asyncio.timeout(PATIENCE_S):
        await coming
