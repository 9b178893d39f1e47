"""Brokers, as administrators see them: a standalone broker knows itself alone and follows no leader."""

from dataclasses import dataclass

from danube.broker.topics import Topics
from danube.model.admin_calls import BrokerDescription, BrokerInfo, JournalDescription, StorageDescription
from danube.model.errors import NotFoundError
from danube.runtime.clock import Clock
from danube.storage.journal.settings import JournalStats
from danube.storage.storage_settings import StorageStats
from danube.storage.store import Storage
from danube.storage.watermarks import SpaceLevel

_ROLE = "None"
"""What the original's brokers say of themselves outside a cluster."""
_STATUS = "active"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerIdentity:
    """What a broker is from its start to its end."""

    broker_id: int
    cluster_name: str
    mode: str
    version: str
    started_s: float
    """Monotonic time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerUrls:
    """Where a broker is found, each with a scheme; known once it listens."""

    broker: str = ""
    connect: str = ""
    admin: str = ""
    metrics: str = ""
    """Empty without a metrics port."""


class BrokerControl:
    """The brokers of this broker's cluster: itself."""

    def __init__(self, identity: BrokerIdentity, topics: Topics, storage: Storage, clock: Clock) -> None:
        self._identity = identity
        self._topics = topics
        self._storage = storage
        self._clock = clock
        self._urls = BrokerUrls()

    @property
    def own_id(self) -> str:
        """In decimal digits."""
        return str(self._identity.broker_id)

    def announce(self, urls: BrokerUrls) -> None:
        """The broker listens, and this is where."""
        self._urls = urls

    def list(self) -> tuple[BrokerInfo, ...]:
        """Every broker of the cluster."""
        return (self._info(),)

    def leader(self) -> str | None:
        """The id of the broker that assigns topics; None where nothing is to be assigned."""
        return None

    def require(self, broker_id: str) -> None:
        """Raise NotFoundError unless there is such a broker."""
        if broker_id != self.own_id:
            raise NotFoundError(
                f"there is no broker {broker_id[:40]!r}, this one is {self.own_id} and stands alone: list the brokers"
            )

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
            topics=len(self._topics),
            subscriptions=len(subscriptions),
            producers=sum(len(topic.producers) for topic in self._topics),
            consumers=sum(subscription.connected() for subscription in subscriptions),
            journal=_describe_journal(stats.journal, self._storage.stopped),
            storage=_describe_storage(stats, self._storage.refuses),
        )

    def _info(self) -> BrokerInfo:
        return BrokerInfo(
            broker_id=self.own_id,
            broker_url=self._urls.broker,
            role=_ROLE,
            status=_STATUS,
            admin_url=self._urls.admin,
            metrics_url=self._urls.metrics,
        )


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


def _describe_storage(stats: StorageStats, refused: str | None) -> StorageDescription:
    return StorageDescription(
        segments=stats.segments,
        segment_file_bytes=stats.segment_file_bytes,
        cut_passes=stats.passes,
        merged_segments=stats.merged_segments,
        dropped_segments=stats.dropped_segments,
        freed_bytes=stats.freed_bytes,
        troubled_topics=stats.troubled_topics,
        refused_topics=stats.refused_topics,
        disk_free_bytes=stats.free_bytes,
        disk_is_low=stats.space_level is not SpaceLevel.OK,
        refused_reason=refused,
    )
