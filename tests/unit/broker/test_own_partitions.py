"""Each broker of a cluster has one partition of the topics that brokers write, whatever happens to it."""

import asyncio

from danube.metadata.records.catalog import Records
from danube.model.plans.plan import Caller, Effect, Face
from danube.model.records.audit import AUDIT_TOPIC, AuditEntry, Outcome
from danube.model.records.telemetry import TELEMETRY_TOPIC
from danube.model.topic import DispatchStrategy, TopicName
from danube.testing.in_process_broker import Cell
from danube.testing.patience import PATIENCE_S
from tests.unit.broker.network import Network, is_served, until

ORDERS = TopicName("default", "orders")


async def shared(network: Network, name: str) -> Cell:
    """A broker over the shared folder."""
    folder = network.folder / "shared"
    folder.mkdir(exist_ok=True)
    return await network.start(name, storage={"mode": "shared_fs", "folder": folder})


async def record(cell: Cell, operation: str) -> None:
    caller = Caller(who="ada@desk", face=Face.CLI)
    await cell.admin.record(
        AuditEntry(caller=caller, operation=operation, arguments={}, effect=Effect.READ, outcome=Outcome.DONE)
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
        await records.create_topic(AUDIT_TOPIC.partition(index), DispatchStrategy.RELIABLE, 0, broker=own)
    first = await shared(network, "a")
    await record(first, "after")
    assert [each.entry.operation for each in (await first.admin.audit()).records] == ["before", "after"]
    assert [name for name, _ in await partitions(network)][:3] == [
        f"/system/audit-part-{index}" for index in (0, 2, 10)
    ]
