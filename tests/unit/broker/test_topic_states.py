"""Topics as administrators see them while they move, and while nobody serves them; and plans of moves."""

import random
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from danube.broker.cluster import log_copy
from danube.metadata.records.catalog import Records
from danube.model.calls.admin import ClusterDescription, TopicDescription, UnservedTopics
from danube.model.errors import DanubeError, PlanRefusedError, TopicNotServedError
from danube.model.ownership import OwnershipState, StorageMode
from danube.model.plans.plan import Effect, Plan, PlanStatus
from danube.model.topic import DispatchStrategy, TopicName
from danube.testing.in_process_broker import Cell
from danube.wire import control_messages
from tests.unit.broker.network import Network, is_served, until

ORDERS = TopicName("default", "orders")
EVENTS = TopicName("default", "events")
MORE = TopicName("default", "more")
TICKS = TopicName("staging", "ticks")


async def test_a_topic_that_waits_for_its_broker_is_described_with_the_reason(network: Network) -> None:
    first, second = await network.start("a"), await network.start("b")
    gone = str(await network.id_of(first))
    await network.put(ORDERS, first)
    await network.put(EVENTS, second)
    await until(partial(is_known, second, ORDERS))
    await network.stop("a")
    await until(lambda: is_unserved(second, ORDERS))
    described = {each.topic: each for each in await second.admin.describe()}
    (named,) = await second.admin.describe(ORDERS)
    assert replace(described[ORDERS], described_ms=named.described_ms) == named
    assert (named.broker_id, named.strategy) == (gone, DispatchStrategy.RELIABLE)
    assert state_of(named) is OwnershipState.WAITING
    reason = f"waits for broker {gone}, which has its messages and does not run: start that broker"
    assert named.state is not None
    assert (named.state.reason, named.state.target_broker_id) == (reason, None)
    assert state_of(described[EVENTS]) is OwnershipState.SERVED
    assert await listed_of(second) == [(ORDERS, OwnershipState.WAITING)]
    told = await cluster_of(second)
    assert (told.storage_mode, told.move_count) == (StorageMode.LOCAL, 0)
    assert told.unserved == (UnservedTopics(state=OwnershipState.WAITING, reason=reason, topics=1),)


async def test_a_topic_of_a_broker_that_has_never_run_is_unassigned_and_every_call_names_nobody_as_its_owner(
    network: Network,
) -> None:
    first = await network.start("a")
    await Records(network.meta_store.store).create_topic(EVENTS, DispatchStrategy.NON_RELIABLE, 1, broker=99)
    await until(partial(is_known, first, EVENTS))
    (described,) = await first.admin.describe(EVENTS)
    assert (described.broker_id, state_of(described)) == (None, OwnershipState.UNASSIGNED)
    assert (await first.admin.topic(EVENTS)).info.broker_id is None
    assert not described.is_served


async def test_a_page_has_topics_that_nobody_serves_between_the_others(network: Network) -> None:
    first = await network.start("a")
    for number in (0, 2):
        await network.put(ORDERS.partition(number), first)
    await Records(network.meta_store.store).create_topic(
        ORDERS.partition(1), DispatchStrategy.NON_RELIABLE, 1, base=ORDERS, broker=99
    )
    await until(partial(is_known, first, ORDERS.partition(1)))
    page = await first.admin.describe_page(namespace="default", page_size=2)
    assert [each.topic for each in page.topics] == [ORDERS.partition(0), ORDERS.partition(1)]
    rest = await first.admin.describe_page(namespace="default", page_size=2, after=page.next)
    assert [each.topic for each in rest.topics] == [ORDERS.partition(2)]
    assert [each.topic for each in await first.admin.describe(ORDERS)] == [ORDERS.partition(n) for n in range(3)]


async def test_a_copy_of_a_log_is_shown_with_its_progress_by_the_owner_and_the_next_one(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_copy, "CARRY_PIECE_BYTES_MAX", 16)
    first, second = await network.start("a"), await network.start("b", move_rate_bytes_s=1_600)
    await network.put(ORDERS, first)
    producer = await first.client.create_producer(ORDERS)
    for _ in range(20):
        await first.client.send(ORDERS, producer, random.randbytes(2_000))
    await first.admin.apply(await moving(first, "unload_topic", topic=str(ORDERS)))
    ids = [str(await network.id_of(cell)) for cell in (first, second)]
    for cell in (first, second):
        await until(partial(is_copied_by, cell))
        told = await cluster_of(cell)
        (move,) = told.moves
        assert (told.move_count, move.broker_id, move.target_broker_id) == (1, *ids)
    (described,) = await first.admin.describe(ORDERS)
    assert described.state is not None
    assert (described.state.state, described.state.target_broker_id) == (OwnershipState.MOVING, ids[1])
    assert 0 < (described.state.copied_bytes or 0) < (described.state.log_bytes or 0)
    with pytest.raises(TopicNotServedError, match="is served by broker"):
        await second.admin.describe(ORDERS)


async def test_a_plan_of_a_move_has_size_and_place_and_holds_while_messages_come(network: Network) -> None:
    first, second = await network.start("a"), await network.start("b")
    await network.put(ORDERS, first)
    producer = await first.client.create_producer(ORDERS)
    await first.client.send(ORDERS, producer, b"1")
    ids = [await network.id_of(cell) for cell in (first, second)]
    plan = await moving(first, "unload_topic", topic=str(ORDERS), broker_id=None)
    assert f"{ORDERS}: broker {ids[0]} to {ids[1]}, {plan.impact.bytes} bytes." in plan.impact.changes
    assert any(each.startswith("The logs of 1 topic are copied") for each in plan.impact.changes)
    for _ in range(200):
        await first.client.send(ORDERS, producer, b"more than a tenth")
    assert (await first.admin.apply(plan)).status(0) is PlanStatus.APPLIED
    await until(lambda: is_served(second, ORDERS))


async def test_a_plan_of_a_drain_lists_every_topic_and_counts_what_other_brokers_hold(network: Network) -> None:
    first, second = await network.start("a"), await network.start("b")
    await first.admin.create_namespace("staging")
    for name in (ORDERS, EVENTS, TICKS):
        await network.put(name, first)
        await until(partial(is_known, second, name))
    ids = [await network.id_of(cell) for cell in (first, second)]
    plan = await moving(second, "unload_broker", broker_id=str(ids[0]), namespaces_exclude=["staging"], max_parallel=2)
    assert plan.impact.topics == (str(EVENTS), str(ORDERS))
    assert plan.impact.changes[0] == f"Have 2 topics leave broker {ids[0]}, 2 at a time."
    assert f"{EVENTS}: broker {ids[0]} to {ids[1]}, 0 bytes." in plan.impact.changes
    assert (plan.impact.messages, plan.impact.bytes) == (0, 0)
    await network.put(MORE, first)
    await until(partial(is_known, second, MORE))
    with pytest.raises(PlanRefusedError, match="has changed"):
        await second.admin.apply(plan)


async def moving(cell: Cell, operation: str, **arguments: Any) -> Plan:
    return await cell.admin.plan(operation, effect=Effect.MOVE, **arguments)


async def cluster_of(cell: Cell) -> ClusterDescription:
    answer = await cell.admin.call("/danube.control.Cluster/DescribeCluster", b"")
    return control_messages.CLUSTER_DESCRIPTION.decode(answer)


async def listed_of(cell: Cell) -> list[tuple[TopicName, OwnershipState]]:
    """Topics of the namespace default that are not simply served."""
    request = control_messages.LIST_TOPIC_STATES.encode("default")
    answer = await cell.admin.call("/danube.control.Inspection/ListTopicStates", request)
    return [(each.topic, each.state) for each in control_messages.TOPIC_STATES.decode(answer).topics]


def state_of(topic: TopicDescription) -> OwnershipState | None:
    return topic.state.state if topic.state else None


async def is_known(cell: Cell, name: TopicName) -> bool:
    return name in {info.topic for info in await cell.admin.topics(name.namespace)}


async def is_unserved(cell: Cell, name: TopicName) -> bool:
    try:
        (described,) = await cell.admin.describe(name)
    except DanubeError:
        return False
    return not described.is_served


async def is_copied_by(cell: Cell) -> bool:
    """True once a broker knows that a part of a log is copied."""
    return any(each.copied_bytes for each in (await cluster_of(cell)).moves)
