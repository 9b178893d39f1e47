"""Several brokers over one metadata store, in this process: each serves its own topics, all know of all."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import danube.admin.grpc_gateway.gateway  # noqa: F401 - `open_gateway` would load it in the loop
from danube.admin.access import Guard
from danube.admin.execution import Session, execute
from danube.admin.grpc_gateway import open_gateway
from danube.admin.operations.cluster.plans_and_audit import AUDIT, AuditParams
from danube.admin.target import Target
from danube.client import DanubeClientBuilder
from danube.metadata.records.cluster import decode_registration, encode_registration
from danube.metadata.store import MetadataStore
from danube.model.calls.admin import UNREACHABLE, BrokerState
from danube.model.calls.client import LookupKind
from danube.model.errors import (
    DataFolderError,
    InvalidRequestError,
    LimitReachedError,
    NotFoundError,
    PlanRefusedError,
    TopicDeletedError,
    TopicExistsError,
    TopicNotFoundError,
    TopicNotServedError,
)
from danube.model.plans.durability import Durability
from danube.model.plans.plan import Caller, Effect, Face
from danube.model.records.audit import AuditEntry, Outcome
from danube.model.topic import DispatchStrategy, TopicName
from danube.rpc.grpc.carrier import GrpcCarrier
from danube.runtime.clock import SystemClock
from danube.testing.alone_metadata import open_alone
from danube.testing.in_process_broker import Cell, running_broker
from danube.testing.patience import PATIENCE_S
from danube.wire import control_messages
from tests.unit.broker.network import Network, is_served, until

ORDERS = TopicName("default", "orders")


async def test_each_broker_lists_all_and_one_of_them_leads(network: Network) -> None:
    cells = [await network.start(name) for name in "abc"]

    async def all_agree() -> bool:
        lists = [await cell.admin.brokers() for cell in cells]
        roles = [sorted(info.role for info in found) for found in lists]
        return all(found == ["Cluster_Follower", "Cluster_Follower", "Cluster_Leader"] for found in roles)

    await until(all_agree)
    leaders = {await cell.admin.leader() for cell in cells}
    assert len(leaders) == 1
    (leader,) = leaders
    assert leader in {info.broker_id for info in await cells[0].admin.brokers()}


async def test_a_lookup_of_another_s_topic_answers_where_it_is(network: Network) -> None:
    first, second = await network.start("a"), await network.start("b")
    await network.put(ORDERS, second)
    answer = await first.client.lookup(ORDERS)
    assert answer.kind is LookupKind.REDIRECT
    own = await second.client.lookup(ORDERS)
    assert own.kind is LookupKind.CONNECT
    assert (answer.broker_url, answer.connect_url, answer.proxy) == (own.broker_url, own.connect_url, own.proxy)


async def test_what_nobody_has_is_not_found_anywhere(network: Network) -> None:
    first, _ = await network.start("a"), await network.start("b")
    with pytest.raises(TopicNotFoundError):
        await first.client.lookup(ORDERS)
    assert await first.client.partitions(ORDERS) == ()


async def test_partitions_are_those_of_the_whole_cluster(network: Network) -> None:
    first, second = await network.start("a"), await network.start("b")
    await second.admin.create_partitioned_topic(ORDERS, 2)
    with suppress(TopicNotServedError):  # it was made, and is another broker's
        await first.client.create_producer(ORDERS.partition(2), "p-2")
    expected = (ORDERS.partition(0), ORDERS.partition(1), ORDERS.partition(2))

    async def both_know() -> bool:
        return [await cell.client.partitions(ORDERS) for cell in (first, second)] == [expected, expected]

    await until(both_know)


async def test_producers_and_consumers_on_the_wrong_broker_are_told_to_look_it_up_again(network: Network) -> None:
    first, second = await network.start("a"), await network.start("b")
    await network.put(ORDERS, second)
    with pytest.raises(TopicNotServedError, match="is served by broker"):
        await first.client.create_producer(ORDERS)
    with pytest.raises(TopicNotServedError):
        await first.client.subscribe(ORDERS, "s", "c")


async def test_a_topic_is_made_once_of_all_who_make_it_at_the_same_time(network: Network) -> None:
    cells = [await network.start(name) for name in "abc"]
    results = await asyncio.gather(*(cell.client.create_producer(ORDERS) for cell in cells), return_exceptions=True)
    assert {type(result).__name__ for result in results if isinstance(result, Exception)} <= {"TopicNotServedError"}
    await until(lambda: one_serves(cells, ORDERS))
    with pytest.raises(TopicExistsError):
        await cells[0].admin.create_topic(ORDERS, DispatchStrategy.RELIABLE)


async def test_topic_lists_and_details_are_the_same_on_every_broker(network: Network) -> None:
    first, second = await network.start("a"), await network.start("b")
    await network.put(ORDERS, second)
    await second.client.subscribe(ORDERS, "billing", "c")
    (info,) = await second.admin.topics("default")
    assert await first.admin.topics("default") == (info,)
    assert await first.admin.topics_on(str(info.broker_id)) == await second.admin.topics_on(str(info.broker_id))
    assert await first.admin.topic(ORDERS) == await second.admin.topic(ORDERS)
    with pytest.raises(NotFoundError):
        await first.admin.topics_on("7")


async def one_serves(cells: Sequence[Cell], name: TopicName) -> bool:
    return sum([await is_served(cell, name) for cell in cells]) == 1


async def test_a_topic_is_deleted_whichever_broker_is_asked(network: Network) -> None:
    first, second = await network.start("a"), await network.start("b")
    await network.put(ORDERS, second)
    producer = await second.client.create_producer(ORDERS)
    await first.admin.delete_topic(ORDERS)
    assert await first.admin.topics("default") == ()

    async def is_gone() -> bool:
        return await second.admin.topics("default") == ()

    await until(is_gone)
    with pytest.raises(TopicDeletedError):
        await second.client.send(ORDERS, producer, b"too late")
    await first.admin.create_topic(ORDERS, DispatchStrategy.RELIABLE)


async def test_a_plan_to_delete_a_topic_is_applied_at_whichever_broker_and_not_after_a_change(network: Network) -> None:
    first, second = await network.start("a"), await network.start("b")
    await network.put(ORDERS, second)
    await second.client.subscribe(ORDERS, "billing", "c")
    plans = [await cell.admin.plan("delete_topic", topic=str(ORDERS)) for cell in (first, second)]
    assert [plan.impact.subscriptions for plan in plans] == [("/default/orders billing",)] * 2
    assert [plan.impact.messages for plan in plans] == [0, 0]  # also where another broker serves it
    await second.client.subscribe(ORDERS, "shipping", "c")
    for cell, plan in zip((second, first), plans, strict=True):
        with pytest.raises(PlanRefusedError, match="ask for a new plan"):
            await cell.admin.apply(plan)
    await second.admin.apply(await first.admin.plan("delete_topic", topic=str(ORDERS)))
    assert await second.admin.topics("default") == ()


async def test_limits_of_a_namespace_hold_on_every_broker_at_once(network: Network) -> None:
    first, second = await network.start("a"), await network.start("b")
    await network.put(ORDERS, second)
    await first.admin.set_namespace_policies("default", max_producers_per_topic=1)

    async def second_knows() -> bool:
        return (await second.admin.policies("default")).max_producers_per_topic == 1

    await until(second_knows)
    await second.client.create_producer(ORDERS, "p")
    with pytest.raises(LimitReachedError):
        await second.client.create_producer(ORDERS, "q")


async def test_durability_of_a_namespace_holds_for_topics_that_are_made_later_on_any_broker(network: Network) -> None:
    first, second = await network.start("a"), await network.start("b")
    await first.admin.apply(
        await first.admin.plan("set_namespace_durability", namespace="default", durability="interval")
    )

    async def second_knows() -> bool:
        return (await second.admin.namespace_policies("default")).holding.durability == Durability.INTERVAL.number

    await until(second_knows)
    await network.put(ORDERS, second)
    assert (await second.admin.topic_policies(ORDERS)).holding.durability == Durability.INTERVAL.number
    plan = await first.admin.plan("set_namespace_durability", namespace="default", clear=True)
    assert plan.impact.topics == (str(ORDERS),)


async def test_a_broker_that_ends_is_missed_at_once_and_comes_back_with_its_topics(network: Network) -> None:
    first, second = await network.start("a"), await network.start("b")
    await network.put(ORDERS, second)
    await network.stop("b")

    async def is_missed() -> bool:
        return sorted(info.status for info in await first.admin.brokers()) == ["active", "unreachable"]

    await until(is_missed)
    with pytest.raises(TopicNotServedError, match="has its messages and does not run: start that broker"):
        await first.client.lookup(ORDERS)
    await network.start("b")
    await until(lambda: _is(first, LookupKind.REDIRECT))


async def test_a_broker_that_is_gone_is_told_with_its_topics_also_by_one_that_began_later(network: Network) -> None:
    first, second = await network.start("a"), await network.start("b")
    await network.put(ORDERS, second)
    broker_id = (await second.admin.describe_broker()).info.broker_id
    before, begun_ms = (await standings(second))[broker_id], network.clock.now_ms()
    assert (before.status, before.topics, before.last_seen_ms) == ("active", 1, None)
    await until(lambda: _stands(first, before))
    await network.stop("b")
    await until(lambda: _has_status(first, broker_id, UNREACHABLE))
    gone = (await standings(first))[broker_id]
    assert gone.topics == before.topics
    assert begun_ms <= (gone.last_seen_ms or 0) <= network.clock.now_ms()
    assert (await standings(await network.start("c")))[broker_id] == replace(gone, last_seen_ms=None)
    await network.start("b")
    await until(lambda: _has_status(first, broker_id, "active"))


async def test_a_broker_without_topics_is_forgotten_after_a_while(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("danube.broker.control.brokers.CLUSTER_GONE_SHOWN_S", 0.0)
    first = await network.start("a", telemetry_interval_s=0)
    await network.start("b", telemetry_interval_s=0)
    await until(lambda: _lists(first, 2))
    await network.stop("b")
    await until(lambda: _lists(first, 1))


async def _lists(cell: Cell, count: int) -> bool:
    return len(await cell.admin.brokers()) == count


async def standings(cell: Cell) -> dict[str, BrokerState]:
    answer = await cell.admin.call("/danube.control.Cluster/DescribeCluster")
    return {each.broker_id: each for each in control_messages.CLUSTER_DESCRIPTION.decode(answer).brokers}


async def _stands(cell: Cell, wanted: BrokerState) -> bool:
    return (await standings(cell)).get(wanted.broker_id) == wanted


async def _has_status(cell: Cell, broker_id: str, status: str) -> bool:
    return (await standings(cell))[broker_id].status == status


async def _is(cell: Cell, kind: LookupKind) -> bool:
    return (await cell.client.lookup(ORDERS)).kind is kind


async def test_each_broker_has_its_own_part_of_the_audit_log_and_of_telemetry(network: Network) -> None:
    first, second = await network.start("a"), await network.start("b")
    for name in ("audit", "telemetry"):
        base = TopicName("system", name)
        assert await first.client.partitions(base) == (base.partition(0), base.partition(1))
        with pytest.raises(TopicNotServedError):
            await second.client.subscribe(base.partition(0), "s", "c")


async def test_the_audit_logs_of_all_brokers_are_checked_whichever_broker_is_asked(network: Network) -> None:
    network.carrier = GrpcCarrier(network.clock)
    on_loopback = {"broker_addr": "127.0.0.1:0", "admin_addr": "127.0.0.1:0"}
    cells = [await network.start(name, **on_loopback) for name in "ab"]
    for number, cell in enumerate(cells, 1):
        for _ in range(number):
            await cell.admin.record(CALL)
    own, other = [(await cell.admin.describe_broker()).info.broker_id for cell in cells]
    rows = await _checked_logs(cells[0])
    found = {row["log"]: (row["broker_id"], row["verdict"], row["checked"]) for row in rows}
    assert found == {"/system/audit-part-0": (own, "intact", 1), "/system/audit-part-1": (other, "intact", 2)}
    with pytest.raises(InvalidRequestError, match="is no audit log"):
        await cells[0].admin.audit(topic=TopicName("system", "telemetry-part-0"))
    await network.stop("b")
    unreachable, intact = await _checked_logs(cells[0])
    assert (intact["broker_id"], intact["verdict"]) == (own, "intact")
    assert (unreachable["log"], unreachable["verdict"]) == ("/system/audit-part-1", "unreachable")
    assert f"start broker {other}" in unreachable["reason"]


CALL = AuditEntry(
    caller=Caller(who="ada@desk", face=Face.CLI), operation="o", arguments={}, effect=Effect.READ, outcome=Outcome.DONE
)


async def _checked_logs(cell: Cell) -> list[dict[str, Any]]:
    """What an administrator is told who asks this broker."""
    async with open_gateway(Target(endpoint=f"http://{cell.broker.addresses.admin}")) as gateway:
        session = Session(gateway=gateway, caller=CALL.caller, clock=SystemClock(), guard=Guard())
        trail = (await execute(session, AUDIT, AuditParams(verify_all=True))).model_dump()
    assert trail["is_intact"]
    rows: list[dict[str, Any]] = trail["logs"]
    return rows


async def test_our_client_follows_to_the_broker_that_serves_a_topic(network: Network) -> None:
    first, second = await network.start("a"), await network.start("b")
    await network.put(ORDERS, second)
    url = f"http://{first.broker.addresses.broker}"
    async with await DanubeClientBuilder().service_url(url).with_carrier(network.carrier).build() as client:
        producer = (
            client.new_producer()
            .with_topic(str(ORDERS))
            .with_name("p")
            .with_dispatch_strategy(DispatchStrategy.RELIABLE)
            .build()
        )
        await producer.create()
        await producer.send(b"hello", {})
    (described,) = await second.admin.describe(ORDERS)
    assert described.messages_in == 1


async def test_a_folder_of_another_cluster_is_refused(network: Network, tmp_path: Path) -> None:
    await network.start("a")
    await network.stop("a")
    other = Network(tmp_path)
    with pytest.raises(DataFolderError, match="messages of another cluster"):
        await other.start("a")
    await other.meta_store.store.close()


async def test_a_standalone_broker_s_folder_is_refused_until_it_was_carried_over(
    network: Network, tmp_path: Path
) -> None:
    async with running_broker(tmp_path / "a") as cell:
        await cell.client.create_producer(ORDERS)
    with pytest.raises(DataFolderError, match="holds messages of another cluster"):
        await network.start("a")


async def test_a_standalone_broker_whose_metadata_was_carried_over_serves_its_topics_in_the_cluster(
    network: Network, tmp_path: Path
) -> None:
    async with running_broker(tmp_path / "a") as cell:
        producer_id = await cell.client.create_producer(ORDERS)
        await cell.client.send(ORDERS, producer_id, b"before")
        await cell.client.subscribe(ORDERS, "billing", "c")
    await _copy_metadata(tmp_path / "a", network.meta_store.store)
    first, second = await network.start("a"), await network.start("b")
    (described,) = await first.admin.describe(ORDERS)
    assert (described.end_offset, [each.name for each in described.subscriptions]) == (1, ["billing"])
    assert (await second.client.lookup(ORDERS)).kind is LookupKind.REDIRECT
    for name in ("audit", "telemetry"):
        base = TopicName("system", name)
        assert await first.client.partitions(base) == (base.partition(0), base.partition(1))


async def _copy_metadata(folder: Path, target: MetadataStore) -> None:
    """As a restore does it."""
    source = await open_alone(folder, SystemClock())
    for entry in await source.list("/"):
        await target.put(entry.key, entry.value)
    await source.close()


async def test_a_cluster_s_folder_is_no_standalone_broker_s(network: Network, tmp_path: Path) -> None:
    await network.start("a")
    await network.stop("a")
    with pytest.raises(DataFolderError, match="start it with --mode cluster"):
        async with running_broker(tmp_path / "a"):
            pass


async def test_a_broker_whose_place_another_process_took_is_told_to_end(network: Network) -> None:
    first = await network.start("a")
    (info,) = await first.admin.brokers()
    key = f"/cluster/register/{info.broker_id}"
    entry = await network.meta_store.store.get(key)
    assert entry is not None
    another = replace(decode_registration(entry), start_id=1)
    lease_id = await network.meta_store.store.grant_lease(30.0)
    await network.meta_store.store.put(key, encode_registration(another), lease_id=lease_id)
    async with asyncio.timeout(PATIENCE_S):
        await first.broker.replaced.wait()
