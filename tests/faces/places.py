"""A fresh broker with the seed in it, on real ports, and a gateway to it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from danube.admin.gateway import AdminGateway
from danube.admin.grpc_gateway import open_gateway
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
from danube.testing.patience import LONG_S, PATIENCE_S
from danube.testing.peers.admin import AdminPeer
from danube.testing.peers.client import Peer
from tests.faces.seeded import SEEDED_REQUEST, seed
from tests.unit.broker.memory_membership import MemoryMembership

PERSON = Caller(who="person@test", face=Face.CLI)


@dataclass(frozen=True, slots=True)
class Place:
    """One seeded broker."""

    endpoint: str
    gateway: AdminGateway
    waiting_plan: str
    """The plan that the seed leaves waiting, under the id that this broker gave it."""

    @property
    def target(self) -> Target:
        """How a face reaches it."""
        return Target(endpoint=self.endpoint, timeout_s=PATIENCE_S)

    @property
    def flags(self) -> list[str]:
        """The same, for a command."""
        return ["--endpoint", self.endpoint, "--timeout-s", f"{PATIENCE_S:g}"]

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
async def seeded_place(data_dir: Path, *, is_cluster: bool = False) -> AsyncIterator[Place]:
    """A broker of its own, in this process, reached over gRPC; stopped at the end.

    With `is_cluster` it is one of a cluster whose other members are made up.
    """
    clock = SystemClock()
    carrier = GrpcCarrier(clock)
    values = {"data_dir": data_dir, "broker_addr": "127.0.0.1:0", "admin_addr": "127.0.0.1:0"}
    values |= {"ack_timeout_s": LONG_S, "telemetry_interval_s": LONG_S}  # so that nothing that is told goes by time
    world = Environment(clock=clock, carrier=carrier)
    if is_cluster:
        values |= {"mode": "cluster"}
        world = replace(world, meta_store=MetaStore(MemoryStore(clock), MetaStoreType.RAFT, MemoryMembership()))
    broker = await Broker.start(BrokerSettings.model_validate(values), world)
    channels = [carrier.connect(address) for address in (broker.addresses.broker, broker.addresses.admin)]
    kept = await seed(Peer(channels[0]), AdminPeer(channels[1]))
    endpoint = f"http://{broker.addresses.admin}"
    try:
        async with open_gateway(Target(endpoint=endpoint, timeout_s=PATIENCE_S)) as gateway:
            request = replace(SEEDED_REQUEST, arguments=dict(SEEDED_REQUEST.arguments))
            plan = await gateway.create_plan(request)
            yield Place(endpoint, gateway, plan.plan_id)
    finally:
        kept.close()
        for channel in channels:
            await channel.close()
        await broker.stop()
        if world.meta_store is not None:
            await world.meta_store.store.close()
