"""A cluster as plain values, for `MemoryGateway`: what is there, what a planned operation touches, and doing it."""

from dataclasses import asdict, dataclass, field, replace

from danube.model.calls.admin import (
    BrokerInfo,
    BrokerStanding,
    ConsumerDescription,
    NamespacePolicies,
    ReliableState,
    SubscriptionDescription,
    TopicDescription,
    TopicStorageDescription,
)
from danube.model.calls.stream import FetchFrom, FetchStart, FetchTime
from danube.model.errors import (
    InvalidRequestError,
    NamespaceNotFoundError,
    PreconditionFailedError,
    SubscriptionNotFoundError,
    TopicNotFoundError,
)
from danube.model.limits.broker import PLAN_NAMES_MAX
from danube.model.plans.durability import Durability, durability_of
from danube.model.plans.plan import Arguments, Impact, counted, describe_call, fingerprint_of
from danube.model.plans.policy_changes import durability_change, retention_change
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

BUILT_IN_NAMESPACES = ("default", "system")

AS_SET_UP = Policies(durability=Durability.FSYNC.number)
"""What holds where nobody sets anything, as a broker's settings say it."""


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
    """Messages that one consumer may hold, if that was set."""
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
    """Of all of them."""
    payload: str = ""
    """What each of them says."""
    producers: int = 0
    producer_names: list[str] = field(default_factory=list)
    """Of the attached ones, as far as they have names."""
    policies: Policies = NO_POLICIES
    schema_subject: str | None = None
    subscriptions: dict[str, MemorySubscription] = field(default_factory=dict)
    pending: dict[str, MemorySubscription] = field(default_factory=dict)
    """Those that have policies and do not exist yet."""

    @property
    def is_reliable(self) -> bool:
        """Whether it keeps its messages."""
        return self.strategy is DispatchStrategy.RELIABLE


@dataclass(slots=True, kw_only=True)
class MemoryCluster:
    """Everything that operations can see or change; a test sets it as it likes."""

    brokers: list[BrokerInfo] = field(default_factory=list)
    gone: tuple[BrokerStanding, ...] = ()
    """Brokers that are told of beside these."""
    leader: str | None = None
    namespaces: dict[str, NamespacePolicies] = field(default_factory=dict)
    policies: dict[str, Policies] = field(default_factory=dict)
    """Limits that were set for namespaces, by their names."""
    topics: dict[str, MemoryTopic] = field(default_factory=dict)
    """By name as a string."""
    carried_out: list[str] = field(default_factory=list)
    """Planned operations that nothing here stands for: what a plan of them was made for, once it was applied."""
    last_topic_id: int = 0

    def standings(self) -> tuple[BrokerStanding, ...]:
        """The brokers, of which the first one owns all topics, and those that are gone."""
        there = (
            BrokerStanding(broker_id=info.broker_id, status=info.status, topics=0 if at else len(self.topics))
            for at, info in enumerate(self.brokers)
        )
        return (*there, *self.gone)

    def add_topic(self, topic: TopicName, strategy: DispatchStrategy, *, created_ms: int = 0) -> MemoryTopic:
        """Put a topic there, whatever stands in the way."""
        self.last_topic_id += 1
        made = MemoryTopic(name=topic, topic_id=self.last_topic_id, strategy=strategy, created_ms=created_ms)
        self.topics[str(topic)] = made
        return made

    def in_namespace(self, namespace: str) -> list[MemoryTopic]:
        """The topics of a namespace, sorted by name. Raises NamespaceNotFoundError."""
        self.require_namespace(namespace)
        return sorted((each for each in self.topics.values() if each.name.namespace == namespace), key=_by_name)

    def require_namespace(self, namespace: str) -> NamespacePolicies:
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
        exact = self.topics.get(str(name))
        partitions = [each for each in self.topics.values() if each.name.base == name]
        return [exact] if exact else sorted(partitions, key=_by_index) or [self.get(name)]

    def subscription(self, name: SubscriptionName) -> tuple[MemoryTopic, MemorySubscription]:
        """A subscription and its topic. Raises TopicNotFoundError, SubscriptionNotFoundError."""
        topic = self.get(name.topic)
        found = topic.subscriptions.get(name.subscription)
        if found is None:
            raise SubscriptionNotFoundError(
                f"there is no subscription {name.subscription!r} on {name.topic}: list its subscriptions"
            )
        return topic, found

    def limits(self, topic: MemoryTopic) -> Limits:
        """What holds for a topic."""
        limits = limits_of(topic.policies, self.policies.get(topic.name.namespace, NO_POLICIES), AS_SET_UP)
        return limits if topic.is_reliable else replace(limits, durability=None)

    def digest(self) -> str:
        """Of all of it: two of them are equal where nothing has changed."""
        return fingerprint_of(asdict(self))


def impact_on(cluster: MemoryCluster, operation: str, arguments: Arguments) -> Impact:
    """What a planned operation would touch now. Raises what the operation raises where it cannot be done at all."""
    match operation:
        case "delete_topic":
            return _deleted_topics(cluster, _topic(arguments))
        case "unsubscribe":
            return counted(_unsubscribed(cluster, _topic(arguments), str(arguments["subscription"])))
        case "delete_namespace":
            return counted(_deleted_namespace(cluster, str(arguments["namespace"])))
        case "seek_subscription" | "skip_messages":
            return counted(_put_elsewhere(cluster, _subscription(arguments), operation, arguments))
        case "set_topic_retention" | "set_namespace_retention":
            return counted(_kept_otherwise(cluster, "retention", arguments, retention_change(arguments)))
        case "set_topic_durability" | "set_namespace_durability":
            return counted(_kept_otherwise(cluster, "durability", arguments, durability_change(arguments)))
        case _:
            call = describe_call(operation, arguments)
            return Impact(changes=(f"does {call}",), fingerprint=fingerprint_of([call, cluster.digest()]))


def carry_out(cluster: MemoryCluster, operation: str, arguments: Arguments) -> None:
    """Do what was planned; the plan was checked."""
    match operation:
        case "delete_topic":
            for topic in cluster.behind(_topic(arguments)):
                del cluster.topics[str(topic.name)]
        case "unsubscribe":
            topic, name = cluster.get(_topic(arguments)), str(arguments["subscription"])
            del (topic.subscriptions if name in topic.subscriptions else topic.pending)[name]
        case "delete_namespace":
            del cluster.namespaces[str(arguments["namespace"])]
        case "seek_subscription" | "skip_messages":
            topic, subscription = cluster.subscription(_subscription(arguments))
            target = _target(topic, subscription, operation, arguments)
            subscription.position, subscription.in_flight, subscription.is_blocked = target, 0, False
        case "set_topic_retention" | "set_namespace_retention":
            _keep_otherwise(cluster, "retention", arguments, retention_change(arguments))
        case "set_topic_durability" | "set_namespace_durability":
            _keep_otherwise(cluster, "durability", arguments, durability_change(arguments))
        case _:
            cluster.carried_out.append(describe_call(operation, arguments))


def described_topic(topic: MemoryTopic, broker_id: str, limits: Limits = NO_LIMITS) -> TopicDescription:
    """The topic in full."""
    subscriptions = sorted(topic.subscriptions.values(), key=lambda each: each.name)
    return TopicDescription(
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
        storage=_stored(topic, limits) if topic.is_reliable else None,
        subscriptions=tuple(_described_subscription(topic, each) for each in subscriptions),
        pending_policies=tuple(sorted(topic.pending)),
    )


def _stored(topic: MemoryTopic, limits: Limits) -> TopicStorageDescription:
    """All of it is in the journal."""
    return TopicStorageDescription(
        stored_bytes=topic.message_bytes,
        segments=0,
        segment_file_bytes=0,
        oldest_ms=topic.created_ms if topic.messages else None,
        newest_ms=topic.created_ms if topic.messages else None,
        unsynced_bytes=0,
        durability=durability_of(limits.durability),
    )


def _described_subscription(topic: MemoryTopic, subscription: MemorySubscription) -> SubscriptionDescription:
    return SubscriptionDescription(
        name=subscription.name,
        type=subscription.type,
        created_ms=subscription.created_ms,
        reliable=_standing(topic, subscription) if topic.is_reliable else None,
        messages_out=subscription.position + subscription.in_flight,
        bytes_out=0,
        redelivered=0,
        nacked=0,
        dropped=0,
        consumer_count=len(subscription.consumers),
        connected_count=len(subscription.consumers),
        consumers=tuple(
            ConsumerDescription(
                name=name, consumer_id=number, is_connected=True, in_flight=0 if number > 1 else subscription.in_flight
            )
            for number, name in enumerate(subscription.consumers, 1)
        ),
    )


def _standing(topic: MemoryTopic, subscription: MemorySubscription) -> ReliableState:
    lag = topic.messages - subscription.position
    return ReliableState(
        position=subscription.position,
        acknowledged_beyond=0,
        lag=lag,
        in_flight=subscription.in_flight,
        waiting=0,
        ready=0,
        oldest_unacknowledged_ms=topic.created_ms if lag else None,
        blocked=int(subscription.is_blocked),
    )


def _deleted_topics(cluster: MemoryCluster, name: TopicName) -> Impact:
    if name.base is not None and str(name) in cluster.topics:
        raise PreconditionFailedError(
            f"{name} is one partition of {name.base}: delete {name.base}, which deletes all its partitions"
        )
    gone = cluster.behind(name)
    names = [str(topic.name) for topic in gone]
    pairs = [f"{topic.name} {subscription}" for topic in gone for subscription in sorted(topic.subscriptions)]
    kept = [topic for topic in gone if topic.is_reliable]
    return Impact(
        changes=(f"deletes {name} with its {len(pairs)} subscriptions",),
        irreversible=("its messages, and how far its subscriptions had read, are gone",),
        topics=tuple(names[:PLAN_NAMES_MAX]),
        topic_count=len(names),
        subscriptions=tuple(pairs[:PLAN_NAMES_MAX]),
        subscription_count=len(pairs),
        producers=sum(topic.producers for topic in gone),
        consumers=sum(len(each.consumers) for topic in gone for each in topic.subscriptions.values()),
        messages=sum(topic.messages for topic in kept),
        bytes=sum(topic.message_bytes for topic in kept),
        fingerprint=fingerprint_of([[topic.topic_id, sorted(topic.subscriptions)] for topic in gone]),
    )


def _unsubscribed(cluster: MemoryCluster, name: TopicName, subscription: str) -> Impact:
    if subscription in cluster.get(name).pending:
        changes = (f"deletes the policies for {subscription} of {name}, which does not exist yet",)
        return Impact(changes=changes, topics=(str(name),), topic_count=1, fingerprint=fingerprint_of([subscription]))
    topic, found = cluster.subscription(SubscriptionName(topic=name, subscription=subscription))
    if found.consumers:
        raise PreconditionFailedError(
            f"subscription {subscription!r} on {name} has {len(found.consumers)} connected consumers: stop them first"
        )
    return Impact(
        changes=(f"deletes the subscription {subscription} of {name}",),
        irreversible=("how far it had read is gone; a new one begins after the last message",),
        topics=(str(name),),
        topic_count=1,
        subscriptions=(f"{name} {subscription}",),
        subscription_count=1,
        producers=topic.producers,
        fingerprint=fingerprint_of([topic.topic_id, subscription, found.created_ms]),
    )


def _deleted_namespace(cluster: MemoryCluster, namespace: str) -> Impact:
    if namespace in BUILT_IN_NAMESPACES:
        raise PreconditionFailedError(f"namespace {namespace!r} is built in and stays: delete the topics in it instead")
    if topics := cluster.in_namespace(namespace):
        raise PreconditionFailedError(f"namespace {namespace!r} has {len(topics)} topics: delete them first")
    return Impact(
        changes=(f"deletes the namespace {namespace}",),
        fingerprint=fingerprint_of(["namespace", namespace]),
    )


def _put_elsewhere(cluster: MemoryCluster, name: SubscriptionName, operation: str, arguments: Arguments) -> Impact:
    topic, found = cluster.subscription(name)
    target = _target(topic, found, operation, arguments)
    passed = max(0, target - found.position)
    again = max(0, found.position - target)
    return Impact(
        changes=(f"puts {name.subscription} of {name.topic} at offset {target}; {again} messages come again",),
        irreversible=(f"{passed} messages that it has not acknowledged are passed over",) if passed else (),
        topics=(str(name.topic),),
        topic_count=1,
        subscriptions=(f"{name.topic} {name.subscription}",),
        subscription_count=1,
        consumers=len(found.consumers),
        messages=passed,
        fingerprint=fingerprint_of([topic.topic_id, name.subscription, found.created_ms]),
    )


_IRREVERSIBLE = {
    "retention": "what passes the limits is deleted",
    "durability": "a power cut may take what was acknowledged",
}


def _kept_otherwise(cluster: MemoryCluster, rule: str, arguments: Arguments, change: PolicyChange) -> Impact:
    """A rule of how messages are kept is another one, of a topic or a namespace."""
    topics = _kept(cluster, rule, arguments)
    whose = str(arguments.get("topic") or arguments["namespace"])
    return Impact(
        changes=(f"sets the {rule} of {whose}: {change.applied_to(NO_POLICIES).given()}",),
        irreversible=(_IRREVERSIBLE[rule],),
        topics=tuple(str(topic.name) for topic in topics),
        topic_count=len(topics),
        fingerprint=fingerprint_of([whose, [[topic.topic_id, topic.policies.given()] for topic in topics]]),
    )


def _keep_otherwise(cluster: MemoryCluster, rule: str, arguments: Arguments, change: PolicyChange) -> None:
    if "topic" in arguments:
        for topic in _kept(cluster, rule, arguments):
            topic.policies = change.applied_to(topic.policies)
    else:
        namespace = str(arguments["namespace"])
        cluster.policies[namespace] = change.applied_to(cluster.policies.get(namespace, NO_POLICIES))


def _kept(cluster: MemoryCluster, rule: str, arguments: Arguments) -> list[MemoryTopic]:
    if "topic" not in arguments:
        return [topic for topic in cluster.in_namespace(str(arguments["namespace"])) if topic.is_reliable]
    name = _topic(arguments)
    found = [topic for topic in cluster.behind(name) if topic.is_reliable]
    if not found:
        raise PreconditionFailedError(f"{name} is not reliable: it keeps no messages, and has no {rule}")
    return found


def _target(topic: MemoryTopic, subscription: MemorySubscription, operation: str, arguments: Arguments) -> int:
    """The position that a seek or a skip leads to."""
    if not topic.is_reliable:
        raise PreconditionFailedError(f"{topic.name} is not reliable: it keeps no messages, and no places in them")
    if operation == "seek_subscription":
        return offset_of(topic, parse_start(str(arguments["to"])))
    count = int(arguments["count"]) or int(subscription.is_blocked)
    return min(subscription.position + count, topic.messages)


def offset_of(topic: MemoryTopic, start: FetchStart) -> int:
    """The offset that is meant; of a time, all messages being as old as the topic. Raises InvalidRequestError."""
    match start:
        case FetchFrom.EARLIEST:
            return 0
        case FetchTime(append_time_ms):
            return 0 if append_time_ms <= topic.created_ms else topic.messages
        case int(offset):
            if offset > topic.messages:
                raise InvalidRequestError(f"offset {offset} cannot be: use 0 to {topic.messages}")
            return offset
    return topic.messages


def _subscription(arguments: Arguments) -> SubscriptionName:
    return SubscriptionName(topic=_topic(arguments), subscription=str(arguments["subscription"]))


def _topic(arguments: Arguments) -> TopicName:
    return TopicName.parse(str(arguments["topic"]))


def _by_name(topic: MemoryTopic) -> TopicName:
    return topic.name


def _by_index(topic: MemoryTopic) -> int:
    return topic.name.partition_index or 0
