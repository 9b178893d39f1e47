"""Requests and answers of the admin port, as values."""

from dataclasses import dataclass
from enum import StrEnum

from danube.model.calls.object_use import ObjectStoreDescription, TopicStorageDescription
from danube.model.limits.broker import MESSAGE_BYTES_MAX
from danube.model.ownership import OwnershipState, StorageMode
from danube.model.subscription import SubscriptionType
from danube.model.topic import DispatchStrategy, TopicName

# Topics and their subscriptions


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopic:
    """Create a plain topic."""

    topic: TopicName
    strategy: DispatchStrategy
    schema_subject: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatePartitionedTopic:
    """Create the partitions of a topic."""

    base: TopicName
    partitions: int
    """At least 1."""
    strategy: DispatchStrategy
    schema_subject: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicInfo:
    """One topic in a listing."""

    topic: TopicName
    broker_id: str | None
    """Decimal digits; None when it is assigned to no broker."""
    strategy: DispatchStrategy
    is_plain: bool = False
    """A topic of its own, though its name has the form of a partition's; a listing by the original's
    message does not say so."""

    @property
    def base(self) -> TopicName | None:
        """The partitioned topic that this is a partition of."""
        return self.topic.base(is_plain=self.is_plain)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDetails:
    """One topic, as the original's DescribeTopic shows it."""

    info: TopicInfo
    subscriptions: tuple[str, ...]
    """Their names, sorted."""
    schema_subject: str | None = None
    """This and what follows: None without a schema; the rest is of its latest version, None when there is none."""
    schema_id: int | None = None
    schema_version: int | None = None
    schema_type: str | None = None
    compatibility_mode: str | None = None
    """In upper case, as the original has it here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsubscribe:
    """Delete a subscription."""

    topic: TopicName
    subscription: str


# Namespaces


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespacePolicies:
    """The limits of a namespace; 0 is no limit, beyond what the broker itself can do."""

    max_producers_per_topic: int = 0
    max_subscriptions_per_topic: int = 0
    max_consumers_per_topic: int = 0
    max_consumers_per_subscription: int = 0
    max_publish_rate: int = 0
    """Messages a second."""
    max_subscription_dispatch_rate: int = 0
    """Messages a second."""
    max_message_size: int = MESSAGE_BYTES_MAX
    """Bytes."""


# Brokers


UNREACHABLE = "unreachable"
"""Status of a broker whose lease has ended, or to which no connection lasts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerInfo:
    """One broker in a listing."""

    broker_id: str
    """Decimal digits."""
    broker_url: str
    """With the scheme."""
    role: str
    """`Cluster_Leader`, `Cluster_Follower` or `None`."""
    status: str
    """`active`, `draining`, `drained`, or UNREACHABLE."""
    admin_url: str = ""
    metrics_url: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RaftStatus:
    """State of the Raft group, as the original's ClusterStatus has it; ids are decimal digits."""

    self_node_id: str
    raft_addr: str
    leader_id: str | None
    current_term: int
    last_applied: int
    voters: tuple[str, ...]
    learners: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AddNode:
    """Add a waiting broker to the Raft group, without a vote."""

    address: str
    """`host:port` of its Raft port, or the original's way: its admin URL."""
    node_id: str | None = None
    """Decimal digits; None is the node that waits at the address."""


# Calls that only our brokers have: the package `danube.control`


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterMember:
    """One member of the Raft group; ids are decimal digits."""

    node_id: str
    address: str
    """`host:port` of its Raft port."""
    votes: bool
    connected: bool
    """To the leader, or the leader itself; by the member that was asked where the leader's view is unknown."""
    lag: int | None = None
    """Entries that it does not have yet; None where the leader's view is unknown, or has no such member."""
    broker_id: str | None = None
    """Of the broker at this member, if one is registered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerState:
    """A broker that runs, ran a while ago, or owns topics."""

    broker_id: str
    """Decimal digits; `0` is no broker: its topics have no owner."""
    status: str
    """As in BrokerInfo."""
    topics: int
    """Topics that it owns, each partition counted; without those of the namespace `system`."""
    last_seen_ms: int | None = None
    """When the broker that is asked noticed that it is unreachable; None where it noticed nothing, being younger."""
    lost_logs: int = 0
    """Logs on its disk whose topics were started anew elsewhere, without their messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnloadBroker:
    """Have the topics of a broker move to others."""

    broker_id: str
    max_parallel: int = 1
    """Topics on the move at a time; 0 is 1."""
    namespaces_include: tuple[str, ...] = ()
    """Only topics of these; empty for all."""
    namespaces_exclude: tuple[str, ...] = ()
    dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class UnloadedBroker:
    """Progress of unloading a broker, in topics."""

    started: bool
    total: int
    pending: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivateBroker:
    """Have a drained broker get topics again."""

    broker_id: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnservedTopics:
    """Topics that nobody serves, for the same reason."""

    state: OwnershipState
    reason: str
    topics: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicMove:
    """A topic on its way to another broker; ids are decimal digits."""

    topic: TopicName
    broker_id: str
    target_broker_id: str
    copied_bytes: int | None = None
    """As in TopicState."""
    log_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDescription:
    """The metadata store and its members, as one broker sees them; ids are decimal digits."""

    kind: str
    """`raft`, `etcd`, `zookeeper` or `memory`."""
    node_id: str | None = None
    """Of the member that was asked; None without a Raft group."""
    address: str = ""
    leader_id: str | None = None
    term: int = 0
    position: int = 0
    has_quorum: bool = True
    members: tuple[ClusterMember, ...] = ()
    leader_broker_id: str | None = None
    """The elected leader among the brokers."""
    brokers: tuple[BrokerState, ...] = ()
    """Sorted by id; empty from a broker of an older version."""
    storage_mode: StorageMode | None = None
    """None from a broker that stands alone, or of an older version."""
    unserved: tuple[UnservedTopics, ...] = ()
    """At most UNSERVED_SHOWN_MAX reasons, those of the most topics first; without topics of the namespace `system`."""
    move_count: int = 0
    moves: tuple[TopicMove, ...] = ()
    """Sorted by name, at most MOVES_SHOWN_MAX."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeCursor:
    """Position between two pages: after this subscription of this topic, or after the whole topic."""

    topic: TopicName
    subscription: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeTopics:
    """Ask for topics in full, a page at a time, in the order of their names."""

    namespace: str | None = None
    """Only topics of this namespace."""
    topics: tuple[TopicName, ...] = ()
    """Only these; a base name means all its partitions. Empty means all topics."""
    page_size: int
    """The most topics of one page; it may hold fewer, see `TopicsPage`."""
    after: DescribeCursor | None = None
    """End of the previous page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerDescription:
    """One consumer of a subscription."""

    name: str
    consumer_id: int
    is_connected: bool
    """Its stream is open."""
    in_flight: int
    """Messages sent to it and not answered; 0 on topics that are not reliable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReliableState:
    """Progress of a subscription of a reliable topic; the numbers are messages."""

    position: int
    """Every offset below it is acknowledged."""
    acknowledged_beyond: int
    """Above the position."""
    lag: int
    """Durable and not acknowledged."""
    in_flight: int
    """Sent, not answered."""
    waiting: int
    """In backoff."""
    ready: int
    """To be sent again as soon as a consumer has room."""
    oldest_unacknowledged_ms: int | None
    """When the message at the position was appended, by the broker's clock; None without lag."""
    blocked: int = 0
    """Sent as often as allowed; they wait until an administrator decides."""
    dead_letters: int = 0
    """Sent as often as allowed, on their way to the dead letter topic."""


class SubscriptionActivity(StrEnum):
    """State of a subscription."""

    ACTIVE = "active"
    """A consumer is connected."""
    IDLE = "idle"
    """No consumer is connected."""
    BLOCKED = "blocked"
    """Messages that failed too often block those that follow, whoever is connected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionDescription:
    """One subscription in full; the counters start with the broker."""

    name: str
    type: SubscriptionType
    created_ms: int
    reliable: ReliableState | None
    """None on a topic that is not reliable, which stores nothing."""
    messages_out: int
    """Written to consumers, redeliveries included."""
    bytes_out: int
    redelivered: int
    nacked: int
    dropped: int
    """Messages of a topic that is not reliable that no consumer had room for."""
    consumer_count: int
    connected_count: int
    consumers: tuple[ConsumerDescription, ...]
    """At most DESCRIBE_CONSUMERS_MAX, those connected first; `consumer_count` says how many there are."""

    @property
    def state(self) -> SubscriptionActivity:
        """Its state at this moment."""
        if self.reliable is not None and self.reliable.blocked:
            return SubscriptionActivity.BLOCKED
        return SubscriptionActivity.ACTIVE if self.connected_count else SubscriptionActivity.IDLE


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicState:
    """State of a topic, and the broker that it moves to."""

    state: OwnershipState
    reason: str = ""
    """Cause why it is not served, without its name, and the next step; empty while it is served."""
    target_broker_id: str | None = None
    """None while it stays."""
    copied_bytes: int | None = None
    """Of its log, on the disk of the broker that it moves to; None where no copy is under way, or it is not known."""
    log_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDescription:
    """One topic in full; the counters start with the broker."""

    topic: TopicName
    topic_id: int
    strategy: DispatchStrategy
    broker_id: str | None
    """As in TopicInfo."""
    created_ms: int
    start_offset: int
    """The first that can be read."""
    end_offset: int
    """After the last durable message; 0 on a topic that is not reliable."""
    messages_in: int
    bytes_in: int
    producers: int
    subscription_count: int
    subscriptions: tuple[SubscriptionDescription, ...]
    """Sorted by name; those that did not fit are on the next page."""
    messages_expired: int = 0
    """Skipped unread, too old or trimmed by retention; counted once for each subscription."""
    storage: TopicStorageDescription | None = None
    """None on a topic that is not reliable, and from a broker of an older version."""
    pending_policies: tuple[str, ...] = ()
    """Subscriptions that do not exist yet and have policies already, sorted."""
    state: TopicState | None = None
    """None from a broker of an older version. All counters are 0 of a topic that nobody serves."""
    is_plain: bool = False
    """As in TopicInfo."""
    described_ms: int | None = None
    """When this was so, by its broker's clock; None from a broker of an older version."""

    @property
    def base(self) -> TopicName | None:
        """As in TopicInfo."""
        return self.topic.base(is_plain=self.is_plain)

    @property
    def is_served(self) -> bool:
        """True if a broker serves it, and its counters are known."""
        return self.state is None or not self.state.reason


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsPage:
    """The answer to DescribeTopics.

    A page ends at `page_size` topics or about DESCRIBE_BYTES_MAX bytes. A topic whose subscriptions do not fit comes
    again on the next page, with the rest of them.
    """

    topics: tuple[TopicDescription, ...]
    next: DescribeCursor | None
    """None on the last page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalDescription:
    """A broker's journal: its size, and counters since it was opened."""

    rounds: int
    failed_rounds: int
    bytes_written: int
    syncs: int
    files: int
    size_bytes: int
    backlog_bytes: int
    """Accepted and not yet written."""
    cache_bytes: int
    last_round_ms: float
    stopped_reason: str | None
    """Cause why nothing more is written; None while all is well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageDescription:
    """A broker's segments and disk space; counters since the storage was opened."""

    segments: int
    segment_file_bytes: int
    flush_passes: int
    """Passes of the segment flusher."""
    merged_segments: int
    dropped_segments: int
    """Removed by retention."""
    freed_bytes: int
    """Of journal files that were removed."""
    quarantined_topics: int
    """Topics whose journal data cannot be flushed for now; the broker's log has the cause."""
    refused_topics: int
    """Topics that are not served, since their history cannot be read."""
    disk_free_bytes: int | None
    """As last measured; None before the first time."""
    disk_is_low: bool
    """Less than the broker warns at."""
    refused_reason: str | None
    """Cause why messages are refused until there is space again; None while they are accepted."""
    object_store: ObjectStoreDescription | None = None
    """None where messages are on disks alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerDescription:
    """One broker in full."""

    info: BrokerInfo
    connect_url: str
    """URL that clients dial; differs from the broker's URL behind a proxy."""
    cluster_name: str
    mode: str
    version: str
    uptime_s: float
    topics: int
    subscriptions: int
    producers: int
    consumers: int
    """With an open stream."""
    journal: JournalDescription
    storage: StorageDescription | None = None
    """None from a broker of an older version."""
    blocked_subscriptions: int | None = None
    """Blocked by messages that failed too often; None from a broker of an older version."""

    @property
    def refused_reason(self) -> str | None:
        """Cause why it accepts no messages; None while it does."""
        return self.journal.stopped_reason or (self.storage.refused_reason if self.storage else None)

    @property
    def is_healthy(self) -> bool:
        """It accepts messages."""
        return self.refused_reason is None
