"""Brokers of a cluster, for administrators; a standalone broker knows itself alone and follows no leader."""

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from danube.broker.config.addresses import BrokerUrls
from danube.broker.ownership.assignment import leaves
from danube.broker.topics.local_topics import Topics
from danube.model.calls.admin import (
    UNREACHABLE,
    BrokerDescription,
    BrokerInfo,
    BrokerState,
    JournalDescription,
    StorageDescription,
)
from danube.model.calls.object_use import ObjectRequests, ObjectStoreDescription
from danube.model.errors import NotFoundError
from danube.model.limits.metadata import CLUSTER_GONE_SHOWN_S
from danube.model.records.telemetry import SYSTEM_NAMESPACE
from danube.objects.bill import cost_of, projected_month
from danube.objects.use import ObjectUse
from danube.runtime.clock import Clock
from danube.storage.disk_space import SpaceLevel
from danube.storage.settings import JournalStats, StorageStats
from danube.storage.store import Storage

if TYPE_CHECKING:
    from danube.broker.cluster.member import Cluster
    from danube.metadata.cluster.registry import BrokerRegistry

_ROLE_ALONE, _ROLE_LEADER, _ROLE_FOLLOWER = "None", "Cluster_Leader", "Cluster_Follower"
"""Roles in the original's words: standalone, and leader or follower in a cluster."""
_STATUS, DRAINING, DRAINED = "active", "draining", "drained"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerIdentity:
    """Identity of a broker process."""

    broker_id: int
    cluster_name: str
    mode: str
    version: str
    started_s: float
    """Monotonic time."""


class BrokerControl:
    """The brokers of a cluster, this one included."""

    def __init__(
        self,
        identity: BrokerIdentity,
        topics: Topics,
        storage: Storage,
        clock: Clock,
        cluster: "Cluster | None" = None,
    ) -> None:
        self._cluster = cluster
        self._identity = identity
        self._topics = topics
        self._storage = storage
        self._clock = clock
        self._urls = BrokerUrls()

    @property
    def own_id(self) -> str:
        """This broker's id, in decimal digits."""
        return str(self._identity.broker_id)

    def announce(self, urls: BrokerUrls) -> None:
        """Set this broker's URLs, once it listens."""
        self._urls = urls

    @property
    def own(self) -> BrokerUrls:
        """The URLs of this broker."""
        return self._urls

    def list(self) -> tuple[BrokerInfo, ...]:
        """The brokers that run, ended a short while ago, or own topics; sorted by id."""
        if self._cluster is None:
            return (self._info(),)
        return tuple(
            self._info() if each.broker_id == self.own_id else self._other(self._cluster.registry, each)
            for each in self.states()
            if int(each.broker_id)
        )

    def states(self) -> tuple[BrokerState, ...]:
        """States of this broker, registered brokers, recently ended ones, and owners of topics; sorted by id.

        Ended ones are listed for CLUSTER_GONE_SHOWN_S. A broker is unreachable once its lease has ended, or its member
        of the Raft group is not connected. Costs a step for each topic of the cluster.
        """
        topics = sum(_is_counted(topic.name) for topic in self._topics)
        lost = Counter(one.broker for one in self._cluster.topics.lost_logs) if self._cluster else Counter[int]()
        own = BrokerState(
            broker_id=self.own_id,
            status=self._running_status(self._identity.broker_id),
            topics=topics,
            lost_logs=lost[self._identity.broker_id],
        )
        if self._cluster is None:
            return (own,)
        cluster, now_ms = self._cluster, self._clock.now_ms()
        owned = Counter(one.owner for one in cluster.topics.ownerships if one.namespace != SYSTEM_NAMESPACE)
        running, gone = cluster.registry.brokers, cluster.registry.gone
        recent = [one for one, each in gone.items() if now_ms - each.last_seen_ms < CLUSTER_GONE_SHOWN_S * 1_000]
        members = cluster.membership.status().members if cluster.membership else ()
        away = {each.node_id for each in members if not each.connected}

        def state(broker_id: int) -> BrokerState:
            if broker_id == self._identity.broker_id:
                return own
            is_active = broker_id in running and running[broker_id].node_id not in away
            return BrokerState(
                broker_id=str(broker_id),
                status=self._running_status(broker_id) if is_active else UNREACHABLE,
                topics=owned[broker_id],
                last_seen_ms=gone[broker_id].last_seen_ms if broker_id in gone else None,
                lost_logs=lost[broker_id],
            )

        return tuple(map(state, sorted({*running, *recent, *owned, *lost, self._identity.broker_id})))

    def _running_status(self, broker_id: int) -> str:
        """Active, or draining and drained."""
        drain = self._cluster.topics.drain_of(broker_id) if self._cluster else None
        if self._cluster is None or drain is None:
            return _STATUS
        topics, mode = self._cluster.topics.ownerships, self._cluster.topics.mode
        return DRAINING if any(leaves(topics[each], drain, mode) for each in topics.owned_by(broker_id)) else DRAINED

    def leader(self) -> str | None:
        """The id of the leading broker; None for a standalone broker, and during an election."""
        leader = self._cluster.election.leader if self._cluster else None
        return None if leader is None else str(leader)

    def require(self, broker_id: str) -> None:
        """Raise NotFoundError unless this broker exists and runs."""
        if broker_id == self.own_id:
            return
        if self._cluster is None:
            raise NotFoundError(
                f"there is no broker {broker_id[:40]!r}, this one is {self.own_id} and stands alone: list the brokers"
            )
        if broker_id not in map(str, self._cluster.registry.brokers):
            raise NotFoundError(f"there is no broker {broker_id[:40]!r} that runs: list the brokers to see which do")

    def describe(self) -> BrokerDescription:
        """This broker in full. Costs a step for each subscription."""
        identity, stats = self._identity, self._storage.stats
        subscriptions = [subscription for topic in self._topics for subscription in topic.subscriptions.values()]
        return BrokerDescription(
            info=self._info(),
            connect_url=self._urls.connect,
            cluster_name=identity.cluster_name,
            mode=identity.mode,
            version=identity.version,
            uptime_s=self._clock.monotonic_s() - identity.started_s,
            topics=sum(_is_counted(topic.name) for topic in self._topics),
            subscriptions=len(subscriptions),
            producers=sum(len(topic.producers) for topic in self._topics),
            consumers=sum(subscription.connected() for subscription in subscriptions),
            blocked_subscriptions=sum(subscription.is_blocked for subscription in subscriptions),
            journal=_describe_journal(stats.journal, self._storage.stopped),
            storage=_describe_storage(stats, self._storage.refuses, self._storage.object_use),
        )

    def _info(self) -> BrokerInfo:
        return BrokerInfo(
            broker_id=self.own_id,
            broker_url=self._urls.broker,
            role=self._role(self._identity.broker_id),
            status=self._running_status(self._identity.broker_id),
            admin_url=self._urls.admin,
            metrics_url=self._urls.metrics,
        )

    def _other(self, registry: "BrokerRegistry", state: BrokerState) -> BrokerInfo:
        broker_id = int(state.broker_id)
        gone = registry.gone.get(broker_id)
        known = registry.find(broker_id) or (gone.registration if gone else None)
        return BrokerInfo(
            broker_id=state.broker_id,
            broker_url=known.broker_url if known else "",
            role=self._role(broker_id),
            status=state.status,
            admin_url=known.admin_url if known else "",
            metrics_url=known.metrics_url if known else "",
        )

    def _role(self, broker_id: int) -> str:
        if self._cluster is None:
            return _ROLE_ALONE
        return _ROLE_LEADER if self._cluster.election.leader == broker_id else _ROLE_FOLLOWER


def _is_counted(topic: str) -> bool:
    """True for topics of users; each broker owns partitions of system topics itself, which nobody misses without it."""
    return not topic.startswith(f"/{SYSTEM_NAMESPACE}/")


def _describe_journal(stats: JournalStats, stopped: str | None) -> JournalDescription:
    return JournalDescription(
        rounds=stats.rounds,
        failed_rounds=stats.failed_rounds,
        bytes_written=stats.bytes_written,
        syncs=stats.syncs,
        files=stats.files,
        size_bytes=stats.size_bytes,
        backlog_bytes=stats.backlog_bytes,
        cache_bytes=stats.cache_bytes,
        last_round_ms=stats.last_round_ms,
        stopped_reason=stopped,
    )


def _describe_objects(use: ObjectUse, stored_bytes: int) -> ObjectStoreDescription:
    prices, lines = use.bill.prices, use.bill.lines()
    return ObjectStoreDescription(
        url=use.url,
        elapsed_s=use.elapsed_s,
        requests=tuple(
            ObjectRequests(
                kind=one.kind.value,
                cause=one.cause.value,
                requests=one.requests,
                failed=one.failed,
                sent_bytes=one.sent_bytes,
                received_bytes=one.received_bytes,
                dollars=cost_of(one, prices),
            )
            for one in lines
        ),
        month_dollars=projected_month(sum(cost_of(one, prices) for one in lines), use.elapsed_s),
        stored_bytes=stored_bytes,
        stored_month_dollars=stored_bytes / 1e9 * prices.stored_gb_month,
        cache_hits=use.cache_hits,
        cache_misses=use.cache_misses,
        waiting_bytes=use.waiting_bytes,
        waiting_s=use.waiting_s,
        unanswered_s=use.unanswered_s,
    )


def _describe_storage(stats: StorageStats, refused: str | None, use: ObjectUse | None) -> StorageDescription:
    return StorageDescription(
        segments=stats.segments,
        segment_file_bytes=stats.segment_file_bytes,
        flush_passes=stats.flush_passes,
        merged_segments=stats.merged_segments,
        dropped_segments=stats.dropped_segments,
        freed_bytes=stats.freed_bytes,
        quarantined_topics=stats.quarantined_topics,
        refused_topics=stats.refused_topics,
        disk_free_bytes=stats.free_bytes,
        disk_is_low=stats.space_level is not SpaceLevel.OK,
        refused_reason=refused,
        object_store=None if use is None else _describe_objects(use, stats.segment_file_bytes),
    )
