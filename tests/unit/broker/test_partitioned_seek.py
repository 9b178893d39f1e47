"""A subscription is moved on all partitions of a topic, whichever brokers serve them."""

import pytest

from danube.model.calls.stream import FetchFrom
from danube.model.errors import PlanRefusedError, TopicNotServedError
from danube.model.topic import TopicName
from danube.testing.in_process_broker import Cell
from tests.unit.broker.network import Network
from tests.unit.broker.test_positions import MESSAGES, filled, stands

ORDERS = TopicName("default", "orders")


async def three_partitions(network: Network, *cells: Cell) -> list[tuple[Cell, TopicName]]:
    """Partitions with messages that a subscription has not read, on these brokers."""
    made = [(cell, ORDERS.partition(index)) for index, cell in enumerate(cells)]
    for cell, partition in made:
        await network.put(partition, cell)
        await filled(cell, partition)
        await cell.admin.create_subscription(partition, start=FetchFrom.EARLIEST)
    return made


async def test_a_subscription_moves_on_partitions_of_all_brokers_by_one_plan(network: Network) -> None:
    first, second = await network.start("a"), await network.start("b")
    made = await three_partitions(network, first, second, first)
    plan = await first.admin.plan("seek_subscription", topic=str(ORDERS), subscription="subscription", to="latest")
    assert (plan.impact.topic_count, plan.impact.messages) == (3, 3 * MESSAGES)
    assert plan.impact.topics == tuple(str(partition) for _, partition in made)
    await first.admin.apply(plan)
    assert [await stands(cell, partition) for cell, partition in made] == [(MESSAGES, 0)] * 3


async def test_a_plan_over_brokers_is_refused_once_a_partition_of_another_broker_has_another_subscription(
    network: Network,
) -> None:
    first, second = await network.start("a"), await network.start("b")
    made = await three_partitions(network, first, second)
    plan = await first.admin.plan("seek_subscription", topic=str(ORDERS), subscription="subscription", to=2)
    there = made[1][1]
    deletion = await second.admin.plan("unsubscribe", topic=str(there), subscription="subscription")
    await second.admin.apply(deletion)
    await second.admin.create_subscription(there, start=FetchFrom.EARLIEST)
    with pytest.raises(PlanRefusedError):
        await first.admin.apply(plan)
    assert [await stands(cell, partition) for cell, partition in made] == [(0, MESSAGES)] * 2


async def test_a_broker_without_a_partition_leaves_the_plan_to_one_that_has_some(network: Network) -> None:
    first, second, third = await network.start("a"), await network.start("b"), await network.start("c")
    await three_partitions(network, first, second)
    with pytest.raises(TopicNotServedError):
        await third.admin.plan("seek_subscription", topic=str(ORDERS), subscription="subscription", to="latest")
