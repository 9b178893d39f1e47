"""Power cuts on a simulated disk, under topics whose durability changes while they are open."""

from collections.abc import AsyncIterator

import pytest

from danube.broker.control.plans.durability import DurabilityControl
from danube.broker.control.plans.peers import Peers
from danube.broker.dispatch.driver import DispatchSettings
from danube.broker.dispatch.redelivery import RedeliveryPolicy
from danube.broker.ownership.owner import TopicOwner
from danube.broker.topics.local_topics import Topics
from danube.broker.topics.topic import ReliableTopic
from danube.metadata.records.catalog import Records
from danube.metadata.records.storage import StorageRecords
from danube.metadata.transaction_builder import TransactionBuilder
from danube.model.plans.durability import Durability
from danube.model.plans.policy_changes import durability_change
from danube.model.policies import Policies
from danube.model.topic import DispatchStrategy, TopicName
from danube.runtime.clock import SystemClock
from danube.runtime.rng import SystemRng
from danube.runtime.tasks import TaskScope
from danube.testing.simulated.disk import SimDisk
from danube.testing.simulated.network import MemoryCarrier
from tests.unit.storage.journal_world import content, store
from tests.unit.storage.store.storage_world import StorageWorld

NAME = TopicName("default", "orders")
LATER = TopicName("default", "later")
STAYING_S = 3_600.0
"""Longer than any test: nothing is synced because time passes."""


class TopicsWorld:
    """The topics of one broker over any number of power cuts; its metadata outlives them."""

    def __init__(self, durability: Durability = Durability.FSYNC) -> None:
        journal = {"durability": durability, "idle_mark_delay_s": STAYING_S, "sync_interval_s": STAYING_S}
        self._default = durability
        self._world = StorageWorld(SimDisk(3), file_bytes_max=1 << 20, journal=journal)
        self._records = Records(self._world.metadata, self._world.rng)
        self._tasks = TaskScope("topics")
        self.topics: Topics

    async def start(self) -> None:
        await self._records.ensure_namespace("default")
        await self._world.open()
        await self._load()

    async def power_cut(self) -> None:
        await self._world.after_power_cut()
        await self._load()

    async def set(self, name: TopicName | str, **arguments: object) -> None:
        control = DurabilityControl(
            self.topics,
            self._records,
            Peers(self.topics, MemoryCarrier(SystemClock())),
            default=self._default,
            sync_interval_ms=1,
        )
        change = durability_change(arguments)
        if isinstance(name, str):
            await control.set_namespace(name, change, _nothing_else)
        else:
            await control.set_topic(name, change, _nothing_else)

    async def topic(self, name: TopicName = NAME) -> ReliableTopic:
        topic = self.topics.find(str(name)) or await self.topics.find_or_create(name, DispatchStrategy.RELIABLE)
        assert isinstance(topic, ReliableTopic)
        return topic

    async def publish(self, *several: bytes, name: TopicName = NAME) -> None:
        await store((await self.topic(name)).log, *several)

    async def found(self, name: TopicName = NAME) -> list[bytes]:
        return await content((await self.topic(name)).log)

    async def end(self) -> None:
        await self._tasks.close()
        await self._world.end()

    @property
    def syncs(self) -> int:
        return self._world.storage.stats.journal.syncs

    async def _load(self) -> None:
        self.topics = Topics(
            records=self._records,
            storage=self._world.storage,
            owner=TopicOwner(self._world.storage, StorageRecords(self._world.metadata, SystemRng()), 0, is_alone=True),
            clock=self._world.clock,
            tasks=self._tasks,
            dispatch=DispatchSettings(window=10, policy=RedeliveryPolicy()),
            policies=Policies(durability=self._default.number),
        )
        await self.topics.load()


async def _nothing_else(draft: TransactionBuilder) -> None:
    """The change stands alone in its transaction."""


@pytest.fixture
async def world() -> AsyncIterator[TopicsWorld]:
    made = TopicsWorld()
    await made.start()
    yield made
    await made.end()


async def test_what_is_acknowledged_under_fsync_survives(world: TopicsWorld) -> None:
    await world.publish(b"a")
    await world.set(NAME, durability="os")
    await world.publish(b"b")
    await world.set(NAME, durability="fsync")
    await world.publish(b"c")
    await world.power_cut()
    assert await world.found() == [b"a", b"b", b"c"]


async def test_a_round_under_os_is_acknowledged_without_a_sync(world: TopicsWorld) -> None:
    await world.publish(b"a")
    await world.set(NAME, durability="os")
    syncs = world.syncs
    await world.publish(b"b", b"c")
    assert world.syncs == syncs


async def test_after_a_power_cut_a_topic_is_as_durable_as_it_was_set(world: TopicsWorld) -> None:
    await world.topic()
    await world.set("default", durability="os")
    await world.set(NAME, durability="fsync")
    await world.power_cut()
    syncs = world.syncs
    await world.publish(b"weak", name=LATER)
    assert world.syncs == syncs
    await world.publish(b"strict")
    assert world.syncs == syncs + 1
    await world.power_cut()
    assert await world.found() == [b"strict"]


async def test_a_topic_that_is_made_later_is_as_durable_as_its_namespace_says() -> None:
    world = TopicsWorld(Durability.OS)
    await world.start()
    await world.set("default", durability="fsync")
    await world.publish(b"kept", name=LATER)
    await world.power_cut()
    assert await world.found(LATER) == [b"kept"]
    await world.end()
