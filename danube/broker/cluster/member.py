"""This broker among the others: its lease, who runs, who leads, and which topics the others serve."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from danube.broker.cluster.remote_topics import RemoteTopics
from danube.metadata.cluster.election import Election
from danube.metadata.cluster.lease_keeper import LeaseKeeper
from danube.metadata.cluster.membership import Membership
from danube.metadata.cluster.registry import BrokerRegistry
from danube.metadata.records import keys
from danube.metadata.records.cluster import BrokerRegistration
from danube.metadata.records.record_format import NamespaceRecord, decode_namespace
from danube.metadata.store import Entry, MetadataStore
from danube.metadata.watch_cache import WatchCache
from danube.model.limits.metadata import CLUSTER_LEAVE_TIMEOUT_S
from danube.runtime.clock import Clock
from danube.runtime.tasks import TaskScope
from danube.storage.store import Storage


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcement:
    """What a broker tells the others of itself once it listens."""

    broker_url: str
    connect_url: str
    admin_url: str
    metrics_url: str
    version: str
    start_id: int


class Cluster:
    """The parts of a broker that a broker which stands alone does not have."""

    def __init__(self, store: MetadataStore, membership: Membership | None, broker_id: int, clock: Clock) -> None:
        self.membership = membership
        """Of the brokers that keep the metadata; None where a service outside does."""
        self._broker_id = broker_id
        self._tasks = TaskScope("cluster")
        self._lease_tasks = TaskScope("lease")
        self._data_path: Callable[[], bool] = lambda: True
        self.keeper = LeaseKeeper(store, clock, progresses=self._progresses)
        self.registry = BrokerRegistry(store, self.keeper, clock)
        self.election = Election(store, self.keeper, clock, broker_id)
        self.topics = RemoteTopics(broker_id, self.registry.find)
        self._topics = WatchCache(store, keys.TOPICS, clock, self.topics.follow)
        self._namespaces = WatchCache(store, keys.NAMESPACES, clock, self._follow_namespace)
        self._on_namespace: Callable[[NamespaceRecord], None] = lambda _record: None

    async def open(self) -> None:
        """Follow the others; returns when it is known who runs and what they serve. Nobody sees this broker yet."""
        self._tasks.spawn(self._topics.run(), "watch the topics")
        self.registry.start(self._tasks)
        self.election.start(self._tasks)
        await self._topics.ready()
        await self.registry.ready()

    def follow_namespaces(self, follow: Callable[[NamespaceRecord], None]) -> None:
        """Have `follow` told of every namespace, now and when its limits change."""
        self._on_namespace = follow
        self._tasks.spawn(self._namespaces.run(), "watch the namespaces")

    async def join(
        self, announcement: Announcement, data_path: Callable[[], bool], on_replaced: Callable[[], None]
    ) -> None:
        """Be seen by the others, and stand for leader; returns when they can see this broker.

        The lease that all of it lives by is renewed while `data_path()`. `on_replaced` is called when another process
        has taken this broker's place.
        """
        self._data_path = data_path
        self.registry.on_replaced(on_replaced)
        self._lease_tasks.spawn(self.keeper.run(), "keep")
        status = self.membership.status() if self.membership else None
        await self.registry.announce(
            BrokerRegistration(
                broker_id=self._broker_id,
                start_id=announcement.start_id,
                broker_url=announcement.broker_url,
                connect_url=announcement.connect_url,
                admin_url=announcement.admin_url,
                metrics_url=announcement.metrics_url,
                version=announcement.version,
                node_id=status.node_id if status else 0,
            )
        )
        self.election.campaign()

    async def leave(self) -> None:
        """Give the lease back: the others see at once that this broker is gone. They are followed on. Idempotent."""
        await self._lease_tasks.close()
        with suppress(TimeoutError):  # where no majority runs the lease is not given back, and runs out by itself
            async with asyncio.timeout(CLUSTER_LEAVE_TIMEOUT_S):
                await self.keeper.close()

    async def close(self) -> None:
        """Leave, and follow the others no more. Idempotent."""
        await self.leave()
        await self._tasks.close()

    def _progresses(self) -> bool:
        return self._data_path()

    def _follow_namespace(self, key: str, entry: Entry | None) -> None:
        name = keys.parse_namespace(key)
        self._on_namespace(decode_namespace(entry) if entry else NamespaceRecord(name))


class DataPath:
    """Whether messages get on: what is waiting to be written is being written."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._rounds = -1

    def progresses(self) -> bool:
        """Whether there were rounds since it was asked last, or nothing was waiting.

        A journal that has stopped, as when the disk is full, is no reason to go: what it holds can still be read.
        """
        stats = self._storage.stats.journal
        before, self._rounds = self._rounds, stats.rounds + stats.failed_rounds
        return self._rounds != before or not stats.backlog_bytes or self._storage.stopped is not None
