"""What administrators and brokers say to each other, as values; `model/calls.py` has what clients say."""

from dataclasses import dataclass
from enum import StrEnum

from danube.model.limits.broker import MESSAGE_BYTES_MAX
from danube.model.plans.durability import Durability
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


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDetails:
    """One topic, as the original's DescribeTopic shows it."""

    info: TopicInfo
    subscriptions: tuple[str, ...]
    """Their names, sorted."""
    schema_subject: str | None = None


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
"""Status of a broker whose lease has ended, or with which no connection holds."""


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
    """The brokers that agree, as the original's ClusterStatus tells it; ids are decimal digits."""

    self_node_id: str
    raft_addr: str
    leader_id: str | None
    current_term: int
    last_applied: int
    voters: tuple[str, ...]
    learners: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AddNode:
    """Have a broker that waits to be added take part in the agreement, without a vote."""

    address: str
    """`host:port` of its Raft port, or the original's way: its admin URL."""
    node_id: str | None = None
    """Decimal digits; whichever waits there when not given."""


# What only our brokers answer: the package `danube.control`


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterMember:
    """One member of the brokers that agree on the metadata; ids are decimal digits."""

    node_id: str
    address: str
    """`host:port` of its Raft port."""
    votes: bool
    connected: bool
    """Whether the leader is connected with it, or is it; where the leader tells nothing, the member that was asked."""
    lag: int | None = None
    """Entries that it does not have yet; None where the leader tells nothing, or has not heard of it."""
    broker_id: str | None = None
    """Of the broker that runs there, if one is registered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerStanding:
    """A broker that runs, one that was seen a while ago, or one that owns topics."""

    broker_id: str
    """Decimal digits; `0` is no broker: its topics have no owner."""
    status: str
    """As in BrokerInfo."""
    topics: int
    """That it owns, partitions each on their own; without those of the namespace `system`."""
    last_seen_ms: int | None = None
    """When an unreachable one was seen to be gone, by the broker that is asked; None where that began later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDescription:
    """The agreement on the metadata, as one broker sees it; ids are decimal digits."""

    kind: str
    """`raft`, `etcd`, `zookeeper`, `sqlite` or `memory`."""
    node_id: str | None = None
    """Of the member that was asked; None where the brokers do not agree among themselves."""
    address: str = ""
    leader_id: str | None = None
    term: int = 0
    position: int = 0
    has_quorum: bool = True
    members: tuple[ClusterMember, ...] = ()
    leader_broker_id: str | None = None
    """The broker that decides for all."""
    brokers: tuple[BrokerStanding, ...] = ()
    """By id; none where a broker of an older version is asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeCursor:
    """Where the next page begins: after this subscription of this topic, or after the whole topic."""

    topic: TopicName
    subscription: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeTopics:
    """Ask for topics in full, a page at a time, in the order of their names."""

    namespace: str | None = None
    """Only topics of this namespace."""
    topics: tuple[TopicName, ...] = ()
    """Only these; a base name means all its partitions. None given means all there are."""
    page_size: int
    """The most topics of one page; it may hold fewer, see `TopicsPage`."""
    after: DescribeCursor | None = None
    """Where the page before this one ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerDescription:
    """One consumer of a subscription."""

    name: str
    consumer_id: int
    is_connected: bool
    """Whether its stream is open."""
    in_flight: int
    """Messages it was sent and has not answered; 0 on topics that are not reliable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReliableState:
    """Where a subscription of a reliable topic stands; the numbers are messages."""

    position: int
    """Every offset below it is acknowledged."""
    acknowledged_beyond: int
    """Above the position."""
    lag: int
    """Durable and not acknowledged."""
    in_flight: int
    """Sent, not answered."""
    waiting: int
    """In back-off."""
    ready: int
    """To be sent again as soon as a consumer has room."""
    oldest_unacknowledged_ms: int | None
    """When the message at the position was appended, by the broker's clock; None without lag."""
    blocked: int = 0
    """Sent as often as they may be, waiting for somebody's decision."""
    dead_letters: int = 0
    """The same, on their way to the dead letter topic."""


class SubscriptionActivity(StrEnum):
    """What a subscription does."""

    ACTIVE = "active"
    """A consumer is connected."""
    IDLE = "idle"
    """None is."""
    BLOCKED = "blocked"
    """Messages that failed too often hold up what follows, whoever is connected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionDescription:
    """One subscription in full; the counters start with the broker."""

    name: str
    type: SubscriptionType
    created_ms: int
    reliable: ReliableState | None
    """None on a topic that is not reliable, which keeps nothing."""
    messages_out: int
    """Written to consumers, redeliveries included."""
    bytes_out: int
    redelivered: int
    nacked: int
    dropped: int
    """Of a topic that is not reliable: messages that no consumer had room for."""
    consumer_count: int
    connected_count: int
    consumers: tuple[ConsumerDescription, ...]
    """At most DESCRIBE_CONSUMERS_MAX, those connected first; `consumer_count` says how many there are."""

    @property
    def state(self) -> SubscriptionActivity:
        """What it does at this moment."""
        if self.reliable is not None and self.reliable.blocked:
            return SubscriptionActivity.BLOCKED
        return SubscriptionActivity.ACTIVE if self.connected_count else SubscriptionActivity.IDLE


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicStorageDescription:
    """What a topic's messages take, and how old they are."""

    stored_bytes: int
    """Of the messages that can be read."""
    segments: int
    """Files that hold them; what is newer is in the broker's journal."""
    segment_file_bytes: int
    oldest_ms: int | None
    """When the oldest message that can be read was appended; None without messages."""
    newest_ms: int | None
    unsynced_bytes: int
    """Acknowledged and not synced: a power cut may take them. 0 with durability fsync."""
    durability: Durability | None = None
    """When a publish is acknowledged; None where the broker does not tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDescription:
    """One topic in full; the counters start with the broker."""

    topic: TopicName
    topic_id: int
    strategy: DispatchStrategy
    broker_id: str
    """Decimal digits."""
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
    """Sorted by name; the next page goes on with those that did not fit."""
    messages_expired: int = 0
    """Passed over unread, too old or let go of by retention, each counted once for each subscription."""
    storage: TopicStorageDescription | None = None
    """None on a topic that is not reliable, and from a broker that does not tell."""
    pending_policies: tuple[str, ...] = ()
    """Subscriptions that do not exist yet and have policies already, sorted."""


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
    """A broker's journal; counters since it was opened, and where it stands."""

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
    """Why nothing more is written; None while all is well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageDescription:
    """What a broker keeps besides the journal, and the room that it has; counters since it was opened."""

    segments: int
    segment_file_bytes: int
    cut_passes: int
    """Of cutting the journal into segments."""
    merged_segments: int
    dropped_segments: int
    """Let go of by retention."""
    freed_bytes: int
    """Of journal files that were removed."""
    troubled_topics: int
    """Whose journal data cannot be cut for now; the broker's log says why."""
    refused_topics: int
    """Whose history cannot be read, and that are not served."""
    disk_free_bytes: int | None
    """As last seen; None before the first look."""
    disk_is_low: bool
    """Whether that is less than what the broker warns at."""
    refused_reason: str | None
    """Why messages are refused until there is room again; None while they are taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerDescription:
    """One broker in full."""

    info: BrokerInfo
    connect_url: str
    """What clients dial; another than the broker's URL when a proxy stands in front."""
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
    """None from a broker that does not tell."""
    blocked_subscriptions: int | None = None
    """Held up by messages that failed too often; None from a broker that does not tell."""

    @property
    def refused_reason(self) -> str | None:
        """Why it takes no messages; None while it does."""
        return self.journal.stopped_reason or (self.storage.refused_reason if self.storage else None)

    @property
    def is_healthy(self) -> bool:
        """Whether it takes messages."""
        return self.refused_reason is None
