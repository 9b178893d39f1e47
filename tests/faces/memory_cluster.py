"""A small cluster as plain values: what is there, what a planned operation is about, and doing it."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace

from danube.model.calls import admin, object_use, positions
from danube.model.calls import balance as balances
from danube.model.calls.stream import FetchFrom, FetchStart, FetchTime
from danube.model.errors import (
    InvalidRequestError,
    NamespaceNotFoundError,
    PreconditionFailedError,
    SubscriptionNotFoundError,
    TopicNotFoundError,
)
from danube.model.limits.broker import PLAN_NAMES_MAX
from danube.model.message import consumer_id, producer_id
from danube.model.ownership import OwnershipState, StorageMode
from danube.model.plans.durability import Durability, durability_of
from danube.model.plans.plan import (
    Arguments,
    Impact,
    describe_call,
    fingerprint_of,
)
from danube.model.plans.policy_changes import durability_change, message_ttl_change, retention_change
from danube.model.policies import (
    NO_LIMITS,
    NO_POLICIES,
    FailurePolicy,
    Limits,
    Policies,
    PolicyChange,
    SubscriptionName,
    limits_of,
)
from danube.model.subscription import SubscriptionType
from danube.model.text import parse_start
from danube.model.topic import DispatchStrategy, TopicName

AS_SET_UP = Policies(durability=Durability.FSYNC.number)
"""Policies that hold where nobody sets any, as a broker's settings say it."""
SERVED = admin.TopicState(state=OwnershipState.SERVED)
_CHANGES = {"retention": retention_change, "durability": durability_change, "ttl": message_ttl_change}


@dataclass(slots=True, kw_only=True)
class MemorySubscription:
    """A subscription; on a topic that is not reliable the numbers mean nothing."""

    name: str
    type: SubscriptionType = SubscriptionType.EXCLUSIVE
    created_ms: int = 0
    position: int = 0
    """Every offset below it is acknowledged."""
    in_flight: int = 0
    consumers: list[str] = field(default_factory=list)
    """The names of those with an open stream."""
    failure_policy: FailurePolicy | None = None
    window: int | None = None
    is_blocked: bool = False


@dataclass(slots=True, kw_only=True)
class MemoryTopic:
    """A plain topic or one partition."""

    name: TopicName
    topic_id: int
    strategy: DispatchStrategy
    created_ms: int = 0
    messages: int = 0
    """Stored, from offset 0; on a topic that is not reliable, taken."""
    message_bytes: int = 0
    payload: str = ""
    """Payload of each message."""
    producers: int = 0
    producer_names: list[str] = field(default_factory=list)
    policies: Policies = NO_POLICIES
    schema_subject: str | None = None
    subscriptions: dict[str, MemorySubscription] = field(default_factory=dict)
    pending: dict[str, MemorySubscription] = field(default_factory=dict)
    """Subscriptions that have policies and do not exist yet."""
    state: admin.TopicState = SERVED

    @property
    def is_reliable(self) -> bool:
        """True when it keeps its messages."""
        return self.strategy is DispatchStrategy.RELIABLE

    def connections(self) -> list[positions.Connection]:
        """Its consumers, and its producers as far as they have names."""
        found = [
            (consumer_id(self.name, subscription.name, name), name, subscription.name)
            for subscription in self.subscriptions.values()
            for name in subscription.consumers
        ]
        found += [(producer_id(self.name, name), name, None) for name in self.producer_names]  # type: ignore[misc]
        return [
            positions.Connection(topic=self.name, client_id=client_id, name=name, subscription=subscription)
            for client_id, name, subscription in found
        ]


@dataclass(slots=True, kw_only=True)
class MemoryCluster:
    """Everything that operations can see or change; a test sets it as it likes."""

    brokers: list[admin.BrokerInfo] = field(default_factory=list)
    gone: tuple[admin.BrokerState, ...] = ()
    """Brokers that are told of beside these."""
    storage_mode: StorageMode | None = None
    unserved: tuple[admin.UnservedTopics, ...] = ()
    moves: tuple[admin.TopicMove, ...] = ()
    leader: str | None = None
    namespaces: dict[str, admin.NamespacePolicies] = field(default_factory=dict)
    policies: dict[str, Policies] = field(default_factory=dict)
    """Limits that were set for namespaces, by their names."""
    topics: dict[str, MemoryTopic] = field(default_factory=dict)
    balance: balances.ClusterBalance | None = None
    """Load of the brokers; made up of what is here when not given."""
    preview: balances.RebalancePreview | None = None
    """Plan of every rebalance; one without moves when not given."""
    rebalances: list[balances.Rebalance] = field(default_factory=list)
    """The newest first; a test moves them on."""
    rules: dict[tuple[str, str], balances.BalanceRule] = field(default_factory=dict)
    automatic: balances.AutomaticBalance = field(default_factory=balances.AutomaticBalance)
    carried_out: list[str] = field(default_factory=list)
    """Operations that change nothing of this."""
    last_topic_id: int = 0

    def states(self) -> tuple[admin.BrokerState, ...]:
        """The brokers, of which the first one owns all topics, and those that are gone."""
        there = (
            admin.BrokerState(broker_id=info.broker_id, status=info.status, topics=0 if at else len(self.topics))
            for at, info in enumerate(self.brokers)
        )
        return (*there, *self.gone)

    def add_topic(self, topic: TopicName, strategy: DispatchStrategy, *, created_ms: int = 0) -> MemoryTopic:
        """Add a topic, whatever stands in the way."""
        self.last_topic_id += 1
        made = MemoryTopic(name=topic, topic_id=self.last_topic_id, strategy=strategy, created_ms=created_ms)
        self.topics[str(topic)] = made
        return made

    def in_namespace(self, namespace: str) -> list[MemoryTopic]:
        """The topics of a namespace, sorted by name. Raises NamespaceNotFoundError."""
        self.require_namespace(namespace)
        return [each for each in self.by_name() if each.name.namespace == namespace]

    def by_name(self) -> list[MemoryTopic]:
        """All topics, sorted."""
        return sorted(self.topics.values(), key=lambda topic: topic.name)

    def require_namespace(self, namespace: str) -> admin.NamespacePolicies:
        """The limits of a namespace. Raises NamespaceNotFoundError."""
        if namespace not in self.namespaces:
            raise NamespaceNotFoundError(f"there is no namespace {namespace!r}: list the namespaces to see their names")
        return self.namespaces[namespace]

    def get(self, name: TopicName) -> MemoryTopic:
        """A plain topic or one partition. Raises TopicNotFoundError, also for a base name."""
        topic = self.topics.get(str(name))
        if topic is None:
            raise TopicNotFoundError(f"there is no topic {name}: list the topics of its namespace to see their names")
        return topic

    def behind(self, name: TopicName) -> list[MemoryTopic]:
        """The topic itself, or all partitions of a base name in order. Raises TopicNotFoundError."""
        partitions = [each for each in self.topics.values() if each.name.base_by_form == name]
        if str(name) in self.topics or not partitions:
            return [self.get(name)]
        return sorted(partitions, key=lambda topic: topic.name.partition_index or 0)

    def subscription(self, name: SubscriptionName) -> tuple[MemoryTopic, MemorySubscription]:
        """A subscription and its topic. Raises TopicNotFoundError, SubscriptionNotFoundError."""
        topic = self.get(name.topic)
        found = topic.subscriptions.get(name.subscription)
        if found is None:
            raise SubscriptionNotFoundError(
                f"there is no subscription {name.subscription!r} on {name.topic}: list its subscriptions"
            )
        return topic, found

    def reliable(self, name: SubscriptionName) -> tuple[MemoryTopic, MemorySubscription]:
        """The same. Raises PreconditionFailedError on a topic that is not reliable."""
        if not self.get(name.topic).is_reliable:
            raise PreconditionFailedError(f"{name.topic} is not reliable: it keeps no messages, and no places in them")
        return self.subscription(name)

    def with_policies(self, name: SubscriptionName, *, to_set: bool = False) -> MemorySubscription:
        """The subscription, or what it will begin with."""
        topic = self.get(name.topic)
        if name.subscription in topic.subscriptions or not topic.is_reliable:
            return self.reliable(name)[1]
        if to_set:
            topic.pending.setdefault(name.subscription, MemorySubscription(name=name.subscription))
        return topic.pending.get(name.subscription) or self.reliable(name)[1]

    def limits(self, topic: MemoryTopic) -> Limits:
        """The limits that hold for a topic."""
        limits = limits_of(topic.policies, self.policies.get(topic.name.namespace, NO_POLICIES), AS_SET_UP)
        return limits if topic.is_reliable else replace(limits, durability=None)

    def digest(self) -> str:
        """Digest of all of it: two of them are equal where nothing has changed."""
        return fingerprint_of(asdict(self))


ROOMY = admin.StorageDescription(
    segments=0,
    segment_file_bytes=0,
    flush_passes=0,
    merged_segments=0,
    dropped_segments=0,
    freed_bytes=0,
    quarantined_topics=0,
    refused_topics=0,
    disk_free_bytes=64 << 30,
    disk_is_low=False,
    refused_reason=None,
)
"""A broker that has plenty of room."""


def described_broker(cluster: MemoryCluster, stopped_reason: str | None) -> admin.BrokerDescription:
    """The first broker, which serves all topics."""
    topics = list(cluster.topics.values())
    subscriptions = [each for topic in topics for each in topic.subscriptions.values()]
    stored = sum(topic.message_bytes for topic in topics if topic.is_reliable)
    journal = admin.JournalDescription(
        rounds=len(topics),
        failed_rounds=0,
        bytes_written=stored,
        syncs=len(topics),
        files=1,
        size_bytes=stored,
        backlog_bytes=0,
        cache_bytes=0,
        last_round_ms=0.5,
        stopped_reason=stopped_reason,
    )
    return admin.BrokerDescription(
        info=cluster.brokers[0],
        connect_url=cluster.brokers[0].broker_url,
        cluster_name="memory",
        mode="standalone",
        version="",
        uptime_s=0.0,
        topics=len(topics),
        subscriptions=len(subscriptions),
        producers=sum(topic.producers for topic in topics),
        consumers=sum(len(each.consumers) for each in subscriptions),
        journal=journal,
        blocked_subscriptions=sum(each.is_blocked for each in subscriptions),
    )


def described_cluster(
    cluster: MemoryCluster, raft: admin.RaftStatus | None, away: set[str]
) -> admin.ClusterDescription:
    """The agreement of the brokers; those that are away are not connected."""
    alone = admin.ClusterDescription(
        kind="memory",
        leader_broker_id=cluster.leader,
        brokers=cluster.states(),
        storage_mode=cluster.storage_mode,
        unserved=cluster.unserved,
        move_count=len(cluster.moves),
        moves=cluster.moves,
    )
    if raft is None:
        return alone
    members = tuple(
        admin.ClusterMember(
            node_id=node_id,
            address=raft.raft_addr if node_id == raft.self_node_id else f"memory:{node_id}",
            votes=node_id in raft.voters,
            connected=node_id not in away,
        )
        for node_id in (*raft.voters, *raft.learners)
    )
    return replace(
        alone,
        kind="raft",
        node_id=raft.self_node_id,
        address=raft.raft_addr,
        leader_id=raft.leader_id,
        term=raft.current_term,
        position=raft.last_applied,
        has_quorum=2 * len(away & set(raft.voters)) < len(raft.voters),
        members=members,
    )


def impact_on(cluster: MemoryCluster, operation: str, arguments: Arguments) -> Impact:
    """The names and counts that a planned operation is about. Raises where it cannot be done at all."""
    call = describe_call(operation, arguments)
    if operation == "delete_namespace":
        namespace = str(arguments["namespace"])
        if namespace in {"default", "system"}:
            raise PreconditionFailedError(f"namespace {namespace!r} is built in and stays: delete the topics in it")
        if topics := cluster.in_namespace(namespace):
            raise PreconditionFailedError(f"namespace {namespace!r} has {len(topics)} topics: delete them first")
        return _impact(f"deletes the namespace {namespace}", (), ())
    if operation == "delete_topic":
        name = TopicName.parse(str(arguments["topic"]))
        if name.base_by_form is not None and str(name) in cluster.topics:
            raise PreconditionFailedError(f"Cannot delete individual partition {name}: delete {name.base_by_form}")
        found = cluster.behind(name)
        pairs = [(topic, each) for topic in found for _, each in sorted(topic.subscriptions.items())]
        messages = sum(topic.messages for topic in found if topic.is_reliable)
        return _impact(f"deletes {name} with its {len(pairs)} subscriptions", found, pairs, messages=messages)
    if operation == "unsubscribe" and str(arguments["subscription"]) in cluster.get(_name(arguments).topic).pending:
        return _impact(f"does {call}", [cluster.get(_name(arguments).topic)], ())
    if operation == "unsubscribe":
        topic, subscription = cluster.subscription(_name(arguments))
        if subscription.consumers:
            raise PreconditionFailedError(
                f"subscription {subscription.name!r} has {len(subscription.consumers)} connected consumers: stop them"
            )
        return _impact(f"does {call}", [topic], [(topic, subscription)])
    if operation in {"seek_subscription", "skip_messages"}:
        return _moved(cluster, call, arguments)
    if operation == "unload_topic" or operation.endswith(("_retention", "_durability")):
        return _impact(f"does {call}", _touched(cluster, operation, arguments), ())
    return Impact(changes=(f"does {call}",), fingerprint=fingerprint_of([call, cluster.digest()]))


def _moved(cluster: MemoryCluster, call: str, arguments: Arguments) -> Impact:
    moved = [_target(cluster, {**arguments, "topic": str(one.name)}) for one in cluster.behind(_name(arguments).topic)]
    lost, again = (sum(max(0, sign * (to - one.position)) for _, one, to in moved) for sign in (1, -1))
    pairs = [each[:2] for each in moved]
    return _impact(f"does {call}; {again} messages come again", [topic for topic, _ in pairs], pairs, messages=lost)


def carry_out(cluster: MemoryCluster, operation: str, arguments: Arguments) -> None:
    """Do what was planned; the plan was checked."""
    match operation:
        case "delete_topic":
            for topic in cluster.behind(TopicName.parse(str(arguments["topic"]))):
                del cluster.topics[str(topic.name)]
        case "unsubscribe":
            topic, name = cluster.get(_name(arguments).topic), str(arguments["subscription"])
            del (topic.subscriptions if name in topic.subscriptions else topic.pending)[name]
        case "delete_namespace":
            del cluster.namespaces[str(arguments["namespace"])]
        case "seek_subscription" | "skip_messages":
            for topic in cluster.behind(_name(arguments).topic):
                _, subscription, target = _target(cluster, {**arguments, "topic": str(topic.name)})
                subscription.position, subscription.in_flight, subscription.is_blocked = target, 0, False
        case "set_topic_retention" | "set_topic_durability" | "set_topic_message_ttl":
            for topic in _with_policy(cluster, operation, arguments):
                topic.policies = _change(operation, arguments).applied_to(topic.policies)
        case "set_namespace_retention" | "set_namespace_durability" | "set_namespace_message_ttl":
            before = cluster.policies.get(str(arguments["namespace"]), NO_POLICIES)
            cluster.policies[str(arguments["namespace"])] = _change(operation, arguments).applied_to(before)
        case _:
            cluster.carried_out.append(describe_call(operation, arguments))


def described_topic(topic: MemoryTopic, broker_id: str, limits: Limits = NO_LIMITS) -> admin.TopicDescription:
    """The topic in full."""
    subscriptions = sorted(topic.subscriptions.values(), key=lambda each: each.name)
    moment_ms = topic.created_ms if topic.messages else None
    storage = object_use.TopicStorageDescription(
        stored_bytes=topic.message_bytes,
        segments=0,
        segment_file_bytes=0,
        oldest_ms=moment_ms,
        newest_ms=moment_ms,
        unsynced_bytes=0,
        durability=durability_of(limits.durability),
    )
    return admin.TopicDescription(
        topic=topic.name,
        topic_id=topic.topic_id,
        strategy=topic.strategy,
        broker_id=broker_id,
        created_ms=topic.created_ms,
        start_offset=0,
        end_offset=topic.messages if topic.is_reliable else 0,
        messages_in=topic.messages,
        bytes_in=topic.message_bytes,
        producers=topic.producers,
        subscription_count=len(subscriptions),
        storage=storage if topic.is_reliable else None,
        subscriptions=tuple(_described_subscription(topic, each) for each in subscriptions),
        pending_policies=tuple(sorted(topic.pending)),
        state=topic.state,
    )


def _described_subscription(topic: MemoryTopic, subscription: MemorySubscription) -> admin.SubscriptionDescription:
    lag = topic.messages - subscription.position
    state = admin.ReliableState(
        position=subscription.position,
        acknowledged_beyond=0,
        lag=lag,
        in_flight=subscription.in_flight,
        waiting=0,
        ready=0,
        oldest_unacknowledged_ms=topic.created_ms if lag else None,
        blocked=int(subscription.is_blocked),
    )
    return admin.SubscriptionDescription(
        name=subscription.name,
        type=subscription.type,
        created_ms=subscription.created_ms,
        reliable=state if topic.is_reliable else None,
        messages_out=subscription.position + subscription.in_flight,
        bytes_out=0,
        redelivered=0,
        nacked=0,
        dropped=0,
        consumer_count=len(subscription.consumers),
        connected_count=len(subscription.consumers),
        consumers=tuple(
            admin.ConsumerDescription(
                name=name, consumer_id=number, is_connected=True, in_flight=0 if number > 1 else subscription.in_flight
            )
            for number, name in enumerate(subscription.consumers, 1)
        ),
    )


def _impact(
    change: str,
    topics: Sequence[MemoryTopic],
    subscriptions: Sequence[tuple[MemoryTopic, MemorySubscription]],
    *,
    messages: int = 0,
) -> Impact:
    pairs = [f"{topic.name} {each.name}" for topic, each in subscriptions]
    return Impact(
        changes=(change,),
        irreversible=("what goes does not come back",) if messages else (),
        topics=tuple(str(topic.name) for topic in topics[:PLAN_NAMES_MAX]),
        topic_count=len(topics),
        subscriptions=tuple(pairs[:PLAN_NAMES_MAX]),
        subscription_count=len(pairs),
        producers=sum(topic.producers for topic in topics),
        consumers=sum(len(each.consumers) for _, each in subscriptions),
        messages=messages,
        bytes=sum(topic.message_bytes for topic in topics) if messages else 0,
        fingerprint=fingerprint_of([change, [[topic.topic_id, topic.policies.given()] for topic in topics], pairs]),
    )


def _name(arguments: Arguments) -> SubscriptionName:
    topic = TopicName.parse(str(arguments["topic"]))
    return SubscriptionName(topic=topic, subscription=str(arguments["subscription"]))


def _change(operation: str, arguments: Arguments) -> PolicyChange:
    return _CHANGES[operation.rpartition("_")[2]](arguments)


def _touched(cluster: MemoryCluster, operation: str, arguments: Arguments) -> list[MemoryTopic]:
    if operation == "unload_topic":
        return cluster.behind(TopicName.parse(str(arguments["topic"])))
    _change(operation, arguments)
    return _with_policy(cluster, operation, arguments)


def _with_policy(cluster: MemoryCluster, operation: str, arguments: Arguments) -> list[MemoryTopic]:
    """The topics that keep messages, and whose policy is changed."""
    if "topic" not in arguments:
        return [topic for topic in cluster.in_namespace(str(arguments["namespace"])) if topic.is_reliable]
    found = [topic for topic in cluster.behind(TopicName.parse(str(arguments["topic"]))) if topic.is_reliable]
    if not found:
        policy = operation.rpartition("_")[2]
        raise PreconditionFailedError(
            f"{arguments['topic']} is not reliable: it keeps no messages, and has no {policy}"
        )
    return found


def _target(cluster: MemoryCluster, arguments: Arguments) -> tuple[MemoryTopic, MemorySubscription, int]:
    topic, subscription = cluster.reliable(_name(arguments))
    if "to" in arguments:
        return topic, subscription, offset_of(topic, parse_start(str(arguments["to"])))
    count = int(arguments["count"]) or int(subscription.is_blocked)
    return topic, subscription, min(subscription.position + count, topic.messages)


def offset_of(topic: MemoryTopic, start: FetchStart) -> int:
    """The offset that is meant; all messages are as old as the topic. Raises InvalidRequestError."""
    if start is FetchFrom.EARLIEST or (isinstance(start, FetchTime) and start.append_time_ms <= topic.created_ms):
        return 0
    if isinstance(start, int) and start > topic.messages:
        raise InvalidRequestError(f"offset {start} cannot be: use 0 to {topic.messages}")
    return start if isinstance(start, int) else topic.messages


def position_of(topic: MemoryTopic, subscription: MemorySubscription) -> positions.SubscriptionPosition:
    """Position of a subscription."""
    lag = topic.messages - subscription.position if topic.is_reliable else 0
    return positions.SubscriptionPosition(position=subscription.position, lag=lag)
