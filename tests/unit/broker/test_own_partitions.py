"""Each broker of a cluster has one partition of the topics that brokers write, whatever happens to it."""

import asyncio
from collections.abc import Iterable

import pytest

import danube.admin.grpc_gateway.gateway  # noqa: F401 - `open_gateway` would load it in the loop
from danube.admin.access import Guard
from danube.admin.execution import Session, execute
from danube.admin.grpc_gateway import open_gateway
from danube.admin.operations.cluster.plans_and_audit import AUDIT, AuditParams
from danube.admin.target import Target
from danube.broker.ownership.cluster_topics import ClusterTopics
from danube.metadata.records.catalog import Records, TopicRecord
from danube.model.plans.plan import Caller, Effect, Face
from danube.model.records.audit import AUDIT_TOPIC, AuditEntry, Outcome, decode_record
from danube.model.records.telemetry import TELEMETRY_TOPIC
from danube.model.topic import DispatchStrategy, TopicName
from danube.rpc.grpc.carrier import GrpcCarrier
from danube.testing.in_process_broker import Cell
from danube.testing.patience import PATIENCE_S
from tests.unit.broker.network import Network, is_served, until

ORDERS = TopicName("default", "orders")
CALLER = Caller(who="ada@desk", face=Face.CLI)


async def shared(network: Network, name: str) -> Cell:
    """A broker over the shared folder."""
    folder = network.folder / "shared"
    folder.mkdir(exist_ok=True)
    return await network.start(name, storage={"mode": "shared_fs", "folder": folder})


async def record(cell: Cell, operation: str) -> None:
    await cell.admin.record(
        AuditEntry(caller=CALLER, operation=operation, arguments={}, effect=Effect.READ, outcome=Outcome.DONE)
    )


async def start_again_fenced(network: Network, name: str, cell: Cell, other: Cell) -> Cell:
    """Have the other broker take over this one's topics, which starts itself again then."""
    await network.put(ORDERS, cell)
    await network.lose(cell)
    await until(lambda: is_served(other, ORDERS))
    async with asyncio.timeout(PATIENCE_S):
        await cell.broker.fenced.wait()
    await network.stop(name)
    again = await shared(network, name)
    await other.admin.apply(await other.admin.plan("delete_topic", topic=str(ORDERS)))
    return again


async def partitions(network: Network) -> list[tuple[str, int]]:
    """The partitions of the topics that brokers write, each with its broker."""
    records = Records(network.meta_store.store)
    of_both = [await records.partitions_of(topic) for topic in (AUDIT_TOPIC, TELEMETRY_TOPIC)]
    return [(str(one.name), one.broker) for found in of_both for one in found]


async def test_a_broker_that_others_fence_again_and_again_writes_the_partitions_that_it_had(network: Network) -> None:
    first, second = await shared(network, "a"), await shared(network, "b")
    before = await partitions(network)
    assert len(before) == 4
    for number in range(3):
        await record(first, f"o{number}")
        first = await start_again_fenced(network, "a", first, second)
    await record(first, "o3")
    assert await partitions(network) == before
    page = await first.admin.audit()
    assert [each.entry.operation for each in page.records] == ["o0", "o1", "o2", "o3"]
    telemetry = TELEMETRY_TOPIC.partition(0)
    assert await is_served(first, telemetry)


async def test_a_broker_with_several_partitions_from_before_writes_the_first_of_them(network: Network) -> None:
    first = await shared(network, "a")
    await record(first, "before")
    own, records = await network.id_of(first), Records(network.meta_store.store)
    await network.stop("a")
    for index in (10, 2):
        await records.create_topic(
            AUDIT_TOPIC.partition(index), DispatchStrategy.RELIABLE, 0, broker=own, base=AUDIT_TOPIC
        )
    first = await shared(network, "a")
    await record(first, "after")
    assert [each.entry.operation for each in (await first.admin.audit()).records] == ["before", "after"]
    assert [name for name, _ in await partitions(network)][:3] == [
        f"/system/audit-part-{index}" for index in (0, 2, 10)
    ]


async def test_what_an_older_version_recorded_in_another_partition_is_shown_whichever_broker_is_asked(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    network.carrier = GrpcCarrier(network.clock)
    on_loopback = {"broker_addr": "127.0.0.1:0", "admin_addr": "127.0.0.1:0"}
    first, second = [await network.start(name, **on_loopback) for name in "ab"]
    own, records = await network.id_of(first), Records(network.meta_store.store)
    await network.stop("a")
    await records.create_topic(AUDIT_TOPIC.partition(2), DispatchStrategy.RELIABLE, 0, broker=own, base=AUDIT_TOPIC)
    with monkeypatch.context() as before:
        before.setattr(ClusterTopics, "first_of_own", last_of_own)
        first = await network.start("a", **on_loopback)
        await record(first, "before")
        await network.stop("a")
    first = await network.start("a", **on_loopback)
    await record(first, "at a")
    await record(second, "at b")
    for cell in (first, second):
        async with open_gateway(Target(endpoint=f"http://{cell.broker.addresses.admin}")) as gateway:
            session = Session(gateway=gateway, caller=CALLER, clock=network.clock, guard=Guard())
            trail = (await execute(session, AUDIT, AuditParams(who=CALLER.who, face=Face.CLI))).model_dump()
        found = [row["operation"] for row in trail["records"] if row["operation"] != "audit"]
        assert (found, trail["is_intact"], len(trail["logs"])) == (["before", "at a", "at b"], True, 3)


async def test_partitions_that_nobody_writes_take_no_share_of_what_is_read_of_a_system_topic(network: Network) -> None:
    network.carrier = GrpcCarrier(network.clock)
    first = await network.start("a", broker_addr="127.0.0.1:0", admin_addr="127.0.0.1:0")
    own, records = await network.id_of(first), Records(network.meta_store.store)
    extra = await records.create_topic(
        AUDIT_TOPIC.partition(1), DispatchStrategy.RELIABLE, 0, broker=own, base=AUDIT_TOPIC
    )
    await until(lambda: is_served(first, extra.name))
    for number in range(9):
        await record(first, f"o{number}")
    async with open_gateway(Target(endpoint=f"http://{first.broker.addresses.admin}")) as gateway:
        found = await gateway.system_records(AUDIT_TOPIC, since_ms=0, limit=8)
    assert [decode_record(each.payload).entry.operation for each in found] == [f"o{number}" for number in range(1, 9)]


def last_of_own(topics: ClusterTopics, partitions: Iterable[TopicRecord]) -> TopicRecord | None:
    own = (each for each in partitions if each.broker == topics.own_id)
    return max(own, key=lambda each: each.name, default=None)
