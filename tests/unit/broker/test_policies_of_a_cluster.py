"""Policies that take a plan are planned at any broker, for topics of all brokers."""

from typing import Any

import pytest

from danube.model.calls.stream import FetchFrom
from danube.model.errors import PlanRefusedError
from danube.model.plans.plan import Plan
from danube.model.policies import FailurePolicy, PoisonPolicy
from danube.model.topic import DispatchStrategy, TopicName
from danube.testing.in_process_broker import Cell
from tests.unit.broker.network import Network
from tests.unit.broker.test_partitioned_seek import ORDERS, three_partitions
from tests.unit.broker.test_positions import MESSAGES

WANTED: list[tuple[str, dict[str, Any]]] = [
    ("retention", {"bytes": 1, "drops_unread": True}),
    ("message_ttl", {"ttl_s": 1}),
    ("durability", {"durability": "os"}),
]


async def planned(cell: Cell, policy: str, arguments: dict[str, Any], *, of_namespace: bool) -> Plan:
    if of_namespace:
        return await cell.admin.plan(f"set_namespace_{policy}", namespace="default", **arguments)
    return await cell.admin.plan(f"set_topic_{policy}", topic=str(ORDERS), **arguments)


@pytest.mark.parametrize("of_namespace", [False, True], ids=["topic", "namespace"])
@pytest.mark.parametrize(("policy", "arguments"), WANTED, ids=[each[0] for each in WANTED])
async def test_each_broker_makes_the_same_plan_for_topics_of_all_brokers(
    network: Network, policy: str, arguments: dict[str, Any], *, of_namespace: bool
) -> None:
    cells = [await network.start(name) for name in "abc"]
    made = await three_partitions(network, *cells[:2])
    await network.put(TopicName("default", "passing"), cells[2], DispatchStrategy.NON_RELIABLE)
    plans = [await planned(cell, policy, arguments, of_namespace=of_namespace) for cell in cells]
    first = plans[0].impact
    assert all(plan.impact == first for plan in plans)
    assert (first.topics, first.topic_count) == (tuple(str(partition) for _, partition in made), 2)
    if policy == "retention":
        assert (first.messages, first.subscription_count) == (2 * MESSAGES, 2)
    applied = await cells[2].admin.apply(plans[2])
    assert applied.plan_id == plans[2].plan_id
    for cell in cells[:2]:
        shown = (await cell.admin.topic_policies(ORDERS.partition(cells.index(cell)))).holding
        assert {
            "retention": shown.retention_bytes == 1,
            "message_ttl": shown.message_ttl_s == 1,
            "durability": shown.durability == 2,
        }[policy]


async def test_a_plan_is_refused_once_a_topic_of_another_broker_would_lose_what_it_does_not_name(
    network: Network,
) -> None:
    first, second = await network.start("a"), await network.start("b")
    made = await three_partitions(network, first, second)
    plan = await planned(first, "retention", {"bytes": 1, "drops_unread": True}, of_namespace=True)
    await second.admin.create_subscription(made[1][1], "later", start=FetchFrom.EARLIEST)
    with pytest.raises(PlanRefusedError):
        await first.admin.apply(plan)


async def test_a_policy_that_drops_is_set_by_a_plan(network: Network) -> None:
    first = await network.start("a")
    ((_, partition),) = await three_partitions(network, first)
    arguments: dict[str, Any] = {
        "topic": str(partition),
        "max_redelivery_count": 2,
        "ack_timeout_ms": 1_000,
        "base_redelivery_delay_ms": 0,
        "max_redelivery_delay_ms": 0,
        "backoff_strategy": "fixed",
    }
    for subscription in ("subscription", "not-yet"):
        plan = await first.admin.plan("set_subscription_drop_policy", subscription=subscription, **arguments)
        assert "is passed over for good" in plan.impact.irreversible[0]
        await first.admin.apply(plan)
        policy, _ = await first.admin.failure_policy(partition, subscription)
        assert isinstance(policy, FailurePolicy)
        assert (policy.poison, policy.max_redelivery_count) == (PoisonPolicy.DROP, 2)
