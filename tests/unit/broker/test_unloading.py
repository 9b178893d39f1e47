"""Topics and brokers that are unloaded: by plans, and by the calls of the original."""

from dataclasses import replace
from typing import Any

import pytest

from danube.metadata.records.catalog import Records
from danube.model.calls.admin import ActivateBroker, UnloadBroker, UnloadedBroker
from danube.model.calls.client import LookupKind
from danube.model.errors import (
    DanubeError,
)
from danube.model.plans.plan import Effect, Plan
from danube.model.topic import TopicName
from danube.testing.in_process_broker import Cell
from danube.wire import admin_messages
from tests.unit.broker.network import Network, is_served, until

ORDERS = TopicName("default", "orders")
EVENTS = TopicName("default", "events")


async def shared(network: Network, name: str) -> Cell:
    """A broker over the shared folder."""
    folder = network.folder / "shared"
    folder.mkdir(exist_ok=True)
    return await network.start(name, storage={"mode": "shared_fs", "folder": folder}, telemetry_interval_s=0)


async def assign(network: Network, name: TopicName, cell: Cell) -> None:
    records = Records(network.meta_store.store)
    record = await records.topic(name)
    assert record is not None
    assert await records.assign([(record, await network.id_of(cell))]) == 1


async def test_a_topic_and_a_broker_are_unloaded_by_the_original_s_calls(network: Network) -> None:
    first, second = await shared(network, "a"), await shared(network, "b")
    await network.put(ORDERS, first)
    await first.admin.call("/danube_admin.TopicAdmin/UnloadTopic", admin_messages.TOPIC.encode(ORDERS))
    await until(lambda: is_served(second, ORDERS))
    wanted = UnloadBroker(broker_id=str(await network.id_of(second)), dry_run=True)
    assert await unload(first, wanted) == UnloadedBroker(started=False, total=1, pending=1)
    assert await unload(first, replace(wanted, dry_run=False)) == UnloadedBroker(started=True, total=1, pending=1)
    await until(lambda: is_served(first, ORDERS))
    assert await statuses(first) == ["active", "drained"]
    active = ActivateBroker(broker_id=wanted.broker_id)
    await first.admin.call("/danube_admin.BrokerAdmin/ActivateBroker", admin_messages.ACTIVATE_BROKER.encode(active))

    async def are_active() -> bool:
        return await statuses(first) == ["active", "active"]

    await until(are_active)


async def test_moves_that_cannot_be_are_refused_with_the_reason(network: Network) -> None:
    first = await shared(network, "a")
    await network.put(ORDERS, first)
    own = str(await network.id_of(first))
    for operation, arguments, said in (
        ("unload_topic", {"topic": str(EVENTS)}, "there is no topic"),
        ("unload_topic", {"topic": str(ORDERS)}, "no other broker that takes topics"),
        ("unload_topic", {"topic": str(ORDERS), "broker_id": own}, "nothing to move"),
        ("unload_topic", {"topic": str(ORDERS), "broker_id": "7"}, "no broker 7 that runs"),
        ("unload_broker", {"broker_id": own}, "no other broker takes topics"),
        ("unload_broker", {"broker_id": "7"}, "no broker 7 that runs"),
        ("unload_broker", {"broker_id": "x"}, "cannot be planned"),
        ("activate_broker", {"broker_id": "7"}, "no broker 7 that runs"),
    ):
        with pytest.raises(DanubeError, match=said):
            await first.admin.apply(await moved(first, operation, arguments))


async def test_a_move_by_a_plan_says_what_moves_and_where_and_is_refused_once_it_is_old(network: Network) -> None:
    first, second = await shared(network, "a"), await shared(network, "b")
    await network.put(ORDERS, first)
    plan = await first.admin.plan("unload_topic", effect=Effect.MOVE, topic=str(ORDERS))
    ids = [await network.id_of(cell) for cell in (first, second)]
    assert f"/default/orders: broker {ids[0]} to {ids[1]}, 0 bytes." in plan.impact.changes
    await assign(network, ORDERS, second)
    await until(lambda: is_served(second, ORDERS))
    await until(lambda: knows_owner(first, ORDERS))
    with pytest.raises(DanubeError):
        await first.admin.apply(plan)


async def test_partitions_that_move_are_spread_over_the_other_brokers(network: Network) -> None:
    first, *others = [await shared(network, name) for name in ("a", "b", "c")]
    for index in range(4):
        await network.put(ORDERS.partition(index), first)
    plan = await first.admin.plan("unload_topic", effect=Effect.MOVE, topic=str(ORDERS))
    for other in others:
        target = f" to {await network.id_of(other)},"
        assert sum(target in change for change in plan.impact.changes) == 2


async def moved(cell: Cell, operation: str, arguments: dict[str, str]) -> Plan:
    values: dict[str, Any] = dict(arguments)
    return await cell.admin.plan(operation, effect=Effect.MOVE, **values)


async def knows_owner(cell: Cell, name: TopicName) -> bool:
    return (await cell.client.lookup(name)).kind is LookupKind.REDIRECT


async def unload(cell: Cell, wanted: UnloadBroker) -> UnloadedBroker:
    answer = await cell.admin.call(
        "/danube_admin.BrokerAdmin/UnloadBroker", admin_messages.UNLOAD_BROKER.encode(wanted)
    )
    return admin_messages.BROKER_UNLOADED.decode(answer)


async def statuses(cell: Cell) -> list[str]:
    return sorted(info.status for info in await cell.admin.brokers())
