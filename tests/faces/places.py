"""A fresh broker with the seed in it, on real ports, and a gateway to it."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from danube.admin.gateway import AdminGateway
from danube.admin.grpc_gateway import open_gateway
from danube.admin.operations.operation import Example
from danube.admin.target import Target
from danube.broker.app import Broker
from danube.broker.cluster.metadata_store import MetaStore
from danube.broker.config.metadata_store import MetaStoreType
from danube.broker.config.settings import BrokerSettings
from danube.broker.environment import Environment
from danube.metadata.memory import MemoryStore
from danube.model.calls.admin import DescribeTopics, ReliableState, TopicDescription
from danube.model.limits.broker import DESCRIBE_TOPICS_MAX
from danube.model.plans.plan import Caller, Decision, Face, fingerprint_of
from danube.model.records.telemetry import SYSTEM_NAMESPACE
from danube.rpc.grpc.carrier import GrpcCarrier
from danube.runtime.clock import SystemClock
from danube.runtime.rng import SystemRng
from danube.testing.patience import LONG_S, PATIENCE_S
from danube.testing.peers.admin import AdminPeer
from danube.testing.peers.client import Peer
from tests.faces.memory_security import SEEDED_KEY
from tests.faces.seeded import BROKER_ID, PLAN_ID, SEEDED_REQUEST, seed
from tests.unit.broker.memory_membership import MemoryMembership
from tests.unit.broker.network import until

PERSON = Caller(who="person@test", face=Face.CLI)


@dataclass(frozen=True, slots=True)
class Place:
    """One seeded broker."""

    endpoint: str
    gateway: AdminGateway
    waiting_plan: str
    """The plan that the seed leaves waiting, under the id that this broker gave it."""
    key_id: str
    """Of the seeded API key."""
    broker_id: str
    """Of the broker, which the seed calls broker 1."""

    @property
    def target(self) -> Target:
        """How a face reaches it."""
        return Target(endpoint=self.endpoint, timeout_s=PATIENCE_S)

    @property
    def flags(self) -> list[str]:
        """The same, for a command."""
        return ["--endpoint", self.endpoint, "--timeout-s", f"{PATIENCE_S:g}"]

    def arguments(self, example: Example) -> dict[str, Any]:
        """Arguments of an example, with the ids that this place has."""
        own = {PLAN_ID: self.waiting_plan, SEEDED_KEY: self.key_id}
        given = {
            name: own.get(value, value) if isinstance(value, str) else value
            for name, value in example.arguments.items()
        }
        return {**given, "broker_id": self.broker_id} if given.get("broker_id") == BROKER_ID else given

    async def digest(self) -> str:
        """Of the metadata and the topics: all but plans, audit log and telemetry, which a refusal may add to."""
        namespaces = await self.gateway.namespaces()
        page = await self.gateway.describe_topics(DescribeTopics(page_size=DESCRIBE_TOPICS_MAX))
        topics = [_kept(topic) for topic in page.topics if topic.topic.namespace != SYSTEM_NAMESPACE]
        policies = [repr(await self.gateway.namespace_policies(each)) for each in namespaces]
        return fingerprint_of([list(namespaces), policies, topics])

    async def approve(self, plan_id: str) -> None:
        """A person's yes."""
        await self.gateway.decide_plan(Decision(plan_id=plan_id, approve=True, caller=PERSON))


def _kept(topic: TopicDescription) -> list[object]:
    """What of a topic stays the same while nobody acts on it, however long that takes."""
    subscriptions = [
        [each.name, each.type.name, each.created_ms, _answered(each.reliable)] for each in topic.subscriptions
    ]
    return [str(topic.topic), topic.topic_id, topic.strategy.name, topic.start_offset, topic.end_offset, subscriptions]


def _answered(state: ReliableState | None) -> list[int] | None:
    """Not which of the others are sent and which wait: that goes by time, as acknowledgements run out of it."""
    if state is None:
        return None
    return [state.position, state.acknowledged_beyond, state.lag, state.blocked, state.dead_letters]


@asynccontextmanager
async def seeded_place(data_dir: Path, *, is_cluster: bool = False, beside: int = 1) -> AsyncIterator[Place]:
    """A broker of its own, in this process, reached over gRPC; stopped at the end.

    With `is_cluster` it is one of a cluster whose other members of the agreement are made up; other brokers without
    topics run beside it. All have the same ids in every place.
    """
    clock = SystemClock()
    world = Environment(clock=clock, carrier=GrpcCarrier(clock))
    async with AsyncExitStack() as running:
        if is_cluster:
            meta_store = MetaStore(MemoryStore(clock), MetaStoreType.RAFT, MemoryMembership())
            running.push_async_callback(meta_store.store.close)
            world = replace(world, meta_store=meta_store, rng=SystemRng(1))
        broker = await _broker(data_dir, world, running)
        endpoint = f"http://{broker.addresses.admin}"
        channels = [GrpcCarrier(clock).connect(each) for each in (broker.addresses.broker, broker.addresses.admin)]
        for channel in channels:
            running.push_async_callback(channel.close)
        admin = AdminPeer(channels[1])
        seeded = await seed(Peer(channels[0]), admin)
        running.callback(seeded.close)
        gateway = await running.enter_async_context(open_gateway(Target(endpoint=endpoint, timeout_s=PATIENCE_S)))
        if is_cluster:
            for number in range(2, 2 + beside):
                folder = data_dir.with_name(f"{data_dir.name}-beside-{number}")
                await _broker(folder, replace(world, rng=SystemRng(number)), running)
            await until(partial(_are_active, 1 + beside, admin))
        plan = await gateway.create_plan(replace(SEEDED_REQUEST, arguments=dict(SEEDED_REQUEST.arguments)))
        broker_id = (await admin.describe_broker()).info.broker_id
        yield Place(endpoint, gateway, plan.plan_id, seeded.key_id, broker_id)


async def _broker(data_dir: Path, world: Environment, running: AsyncExitStack) -> Broker:
    """A broker that is stopped when `running` is closed; nothing that it tells goes by time."""
    values = {"data_dir": data_dir, "broker_addr": "127.0.0.1:0", "admin_addr": "127.0.0.1:0"}
    values |= {"ack_timeout_s": LONG_S, "telemetry_interval_s": LONG_S}
    if world.meta_store is not None:
        values |= {"mode": "cluster"}
    broker = await Broker.start(BrokerSettings.model_validate(values), world)
    running.push_async_callback(broker.stop)
    return broker


async def _are_active(count: int, admin: AdminPeer) -> bool:
    return sum(info.status == "active" for info in await admin.brokers()) == count
