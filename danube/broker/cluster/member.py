"""This broker as a member of its cluster: lease, registry of brokers, election, and the topics of all brokers."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from danube.broker.cluster.deaths import Connect, DeathWatch
from danube.broker.ownership.cluster_topics import ClusterTopics
from danube.metadata.cluster.election import Election
from danube.metadata.cluster.lease_keeper import LeaseKeeper
from danube.metadata.cluster.membership import Membership
from danube.metadata.cluster.registry import BrokerRegistry
from danube.metadata.records import keys
from danube.metadata.records.cluster import BrokerDrain, BrokerRegistration, encode_drain
from danube.metadata.records.record_format import NamespaceRecord, decode_namespace
from danube.metadata.replication.replicated import ReplicatedStore
from danube.metadata.store import Entry, MetadataStore
from danube.metadata.watch_cache import WatchCache
from danube.model.errors import VersionConflictError
from danube.model.limits.metadata import CLUSTER_LEAVE_TIMEOUT_S
from danube.model.limits.moves import LEAVING_MOVES_MAX
from danube.model.ownership import StorageMode
from danube.runtime.clock import Clock
from danube.runtime.tasks import TaskScope
from danube.storage.store import Storage


class Cluster:
    """The parts of a broker that a broker which stands alone does not have."""

    def __init__(
        self,
        store: MetadataStore,
        membership: Membership | None,
        broker_id: int,
        clock: Clock,
        *,
        mode: StorageMode,
        lease_ttl_s: float,
        connect: Connect | None,
    ) -> None:
        """`connect` leads to the other brokers; None for leases alone."""
        self._store = store
        self.membership = membership
        """Of the brokers that keep the metadata; None where a service outside does."""
        self._broker_id = broker_id
        self._tasks = TaskScope("cluster")
        self._lease_tasks = TaskScope("lease")
        self._data_path: Callable[[], bool] = lambda: True
        self.keeper = LeaseKeeper(store, clock, ttl_s=lease_ttl_s, progresses=self._progresses)
        if isinstance(store, ReplicatedStore):
            store.renew_for(self.keeper.overdue, self.keeper.renewed)
        self.registry = BrokerRegistry(store, self.keeper, clock)
        self.election = Election(store, self.keeper, clock, broker_id)
        self._deaths = None
        if connect is not None:
            self._deaths = DeathWatch(store, self.registry, self.election, clock, broker_id=broker_id, connect=connect)
        self.topics = ClusterTopics(broker_id, lambda: self.registry.brokers, mode, self._unreached)
        self._followed = [
            WatchCache(store, keys.STORED_TOPICS, clock, self.topics.follow_owner),
            WatchCache(store, keys.LOST_LOGS, clock, self.topics.follow_lost_log),
            WatchCache(store, keys.DRAINED_BROKERS, clock, self.topics.follow_drain),
            WatchCache(store, keys.TOPICS, clock, self.topics.follow_topic),
        ]
        self._namespaces = WatchCache(store, keys.NAMESPACES, clock, self._follow_namespace)
        self._on_namespace: Callable[[NamespaceRecord], None] = lambda _record: None

    async def open(self) -> None:
        """Follow the others; returns when the running brokers and their topics are known. They do not see this one."""
        for cache in self._followed:
            self._tasks.spawn(cache.run(), "watch the topics")
        self.registry.start(self._tasks)
        self.election.start(self._tasks)
        for cache in self._followed:
            await cache.ready()
        await self.registry.ready()

    def follow_namespaces(self, follow: Callable[[NamespaceRecord], None]) -> None:
        """Have `follow` called with every namespace, now and when its limits change."""
        self._on_namespace = follow
        self._tasks.spawn(self._namespaces.run(), "watch the namespaces")

    async def join(
        self, registration: BrokerRegistration, data_path: Callable[[], bool], on_replaced: Callable[[], None]
    ) -> None:
        """Register this broker and stand for leader; returns when the others can see it.

        Its lease is renewed while `data_path()`. `on_replaced` is called when another process has taken its place.
        """
        self._data_path = data_path
        self.registry.on_replaced(on_replaced)
        self._lease_tasks.spawn(self.keeper.run(), "keep")
        status = self.membership.status() if self.membership else None
        await self.registry.announce(replace(registration, node_id=status.node_id if status else 0))
        self.election.campaign()
        if self._deaths is not None:
            self._deaths.start(self._lease_tasks)

    async def announce_leave(self) -> None:
        """Have the leader assign this broker's topics to others, as long as its lease lasts. Raises MetadataError."""
        drain = BrokerDrain(
            broker_id=self._broker_id, parallel_moves=LEAVING_MOVES_MAX, carries_logs=False, reason="it stops"
        )
        key = keys.drained_broker(self._broker_id)
        with suppress(VersionConflictError):  # it is drained already
            await self._store.compare_and_set(key, encode_drain(drain), revision=0, lease_id=self.keeper.lease_id)

    async def leave(self) -> None:
        """Release the lease, so the others notice at once. They are still followed. Idempotent."""
        await self._lease_tasks.close()
        with suppress(TimeoutError):  # without a majority the lease is not released, and expires
            async with asyncio.timeout(CLUSTER_LEAVE_TIMEOUT_S):
                await self.keeper.close()

    async def close(self) -> None:
        """Leave, and follow the others no more. Idempotent."""
        await self.leave()
        await self._tasks.close()

    def _unreached(self) -> set[int]:
        """Brokers whose members of the Raft group are not connected with this one's."""
        members = self.membership.status().members if self.membership else ()
        away = {member.node_id for member in members if not member.connected}
        return {broker_id for broker_id, one in self.registry.brokers.items() if one.node_id in away}

    def _progresses(self) -> bool:
        return self._data_path()

    def _follow_namespace(self, key: str, entry: Entry | None) -> None:
        name = keys.parse_namespace(key)
        self._on_namespace(decode_namespace(entry) if entry else NamespaceRecord(name))


class DataPath:
    """The progress of the journal: what waits to be written is being written."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._rounds = -1

    def progresses(self) -> bool:
        """Tell whether there were rounds since the last call, or nothing waits.

        A stopped journal, as with a full disk, does not end the lease: what it holds can still be read.
        """
        stats = self._storage.stats.journal
        before, self._rounds = self._rounds, stats.rounds + stats.failed_rounds
        return self._rounds != before or not stats.backlog_bytes or self._storage.stopped is not None
