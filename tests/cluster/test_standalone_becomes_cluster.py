"""A standalone broker becomes the first of a cluster: others join, and nothing has to be carried over."""

import asyncio
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import danube
from danube.admin.grpc_gateway.gateway import opened
from danube.admin.target import Target
from danube.model.calls.admin import AddNode
from danube.model.errors import DanubeError
from danube.model.plans.plan import Effect, PlanApplication, PlanRequest
from danube.testing.patience import PATIENCE_S
from danube.testing.processes.broker import BrokerProcess
from danube.testing.processes.free_ports import passing_ports
from lab.failover.administration import PERSON, until
from lab.metadata.clusters import KEY_FILE, write_secret

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(4 * PATIENCE_S)]

PROMOTE = "promote_cluster_node"
ORDERS, LATER = "/default/orders", "/default/later"
SENT = [b"message %d" % number for number in range(20)]


@pytest.fixture
def secret(tmp_path: Path) -> dict[str, str]:
    write_secret(tmp_path)
    (tmp_path / KEY_FILE).chmod(0o600)
    return {"meta_store_secret_file": str(tmp_path / KEY_FILE)}


def three(tmp_path: Path, secret: dict[str, str], *flags: str) -> Iterator[list[BrokerProcess]]:
    """None of them runs: the first has a cluster of one, the others join it."""
    made = [
        BrokerProcess(
            tmp_path / f"broker{number}",
            flags=["--mode", "cluster", "--raft-addr", f"127.0.0.1:{port}", *(["--join"] if number else []), *flags],
            settings=secret,
        )
        for number, port in enumerate(passing_ports(3))
    ]
    yield made
    for broker in made:
        broker.kill()


@pytest.fixture
def brokers(tmp_path: Path, secret: dict[str, str]) -> Iterator[list[BrokerProcess]]:
    yield from three(tmp_path, secret)


@pytest.fixture
def sharing(tmp_path: Path, secret: dict[str, str]) -> Iterator[list[BrokerProcess]]:
    (tmp_path / "shared").mkdir()
    yield from three(tmp_path, secret, "--storage-mode", "shared_fs", "--storage-folder", str(tmp_path / "shared"))


async def publish(broker: BrokerProcess, topic: str) -> None:
    async with await danube.DanubeClient.builder().service_url(broker.endpoints.service_url).build() as client:
        producer = client.new_producer().with_topic(topic).with_name("p")
        sender = producer.with_dispatch_strategy(danube.DispatchStrategy.RELIABLE).build()
        await sender.create()
        await sender.send_many(SENT)


async def stored(broker: BrokerProcess, topic: str) -> list[bytes]:
    async with await danube.DanubeClient.builder().service_url(broker.endpoints.service_url).build() as client:
        return [bytes(one.payload) async for one in client.fetch(topic)]


async def join(first: BrokerProcess, joining: BrokerProcess) -> None:
    """Add a broker that was launched as soon as it listens, and give it a vote."""
    address = joining._flags[joining._flags.index("--raft-addr") + 1]
    async with opened(Target(endpoint=first.endpoints.admin_url, timeout_s=PATIENCE_S)) as gateway:

        async def is_added() -> bool:
            arguments = {"node_id": await gateway.add_node(AddNode(address=address))}
            what: dict[str, Any] = {"operation": PROMOTE, "arguments": arguments, "caller": PERSON}
            plan = await gateway.create_plan(PlanRequest(effect=Effect.MOVE, needs_approval=False, **what))
            await gateway.apply_plan(PlanApplication(plan_id=plan.plan_id, **what))
            return True

        await until(is_added)


def join_all(first: BrokerProcess, others: list[BrokerProcess]) -> None:
    """Have them be one cluster, in which each gives the messages of the first."""
    for broker in others:
        broker.launch()
        asyncio.run(join(first, broker))
        broker.wait()
    for broker in (first, *others):
        assert asyncio.run(stored(broker, ORDERS)) == SENT


def test_a_standalone_broker_becomes_the_first_of_a_cluster_with_all_its_messages(
    tmp_path: Path, brokers: list[BrokerProcess]
) -> None:
    first, *others = brokers
    with BrokerProcess(first.data_dir) as alone:
        asyncio.run(publish(alone, ORDERS))
        asyncio.run(check_refusal(alone))
        alone.kill()
    first.start()
    join_all(first, others)
    first.kill()
    asyncio.run(publish(others[0], LATER))
    assert asyncio.run(stored(others[1], LATER)) == SENT
    first.start()  # its topics are on its disk, and waited for it
    for broker in brokers:
        assert asyncio.run(stored(broker, ORDERS)) == SENT


def test_brokers_that_join_a_cluster_of_one_over_a_shared_folder_go_on_without_the_first(
    sharing: list[BrokerProcess],
) -> None:
    first, *others = sharing
    first.start()
    asyncio.run(publish(first, ORDERS))
    join_all(first, others)
    first.kill()

    async def is_there(broker: BrokerProcess) -> bool:
        return await stored(broker, ORDERS) == SENT

    for broker in others:
        asyncio.run(until(partial(is_there, broker)))


async def check_refusal(alone: BrokerProcess) -> None:
    """A broker that is asked for another one while it has no port says what to do."""
    async with opened(Target(endpoint=alone.endpoints.admin_url, timeout_s=PATIENCE_S)) as gateway:
        with pytest.raises(DanubeError, match="restart it with --mode cluster"):
            await gateway.add_node(AddNode(address="127.0.0.1:7650"))
