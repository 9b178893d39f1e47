"""A stand-in of the original broker: the admin calls that it has, answered as it answers them, faults included."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from danube.model.calls.admin import (
    BrokerInfo,
    CreatePartitionedTopic,
    CreateTopic,
    NamespacePolicies,
    RaftStatus,
    TopicDetails,
    TopicInfo,
    UnloadedBroker,
    Unsubscribe,
)
from danube.model.errors import InvalidRequestError, NotFoundError, PreconditionFailedError, UnsupportedError
from danube.model.policies import FailurePolicy, SubscriptionName
from danube.model.subscription import SubscriptionType
from danube.model.topic import DispatchStrategy, TopicName
from danube.rpc.carrier import Service, UnaryCall, UnaryHandler
from danube.wire import admin_messages

KEYS_OF_A_NAMESPACE = 2
"""Metadata keys below each, and so how often each is listed."""


@dataclass(slots=True)
class OriginalBroker:
    """One of the original's brokers, seeded as `tests.faces.seeded` says."""

    raft: RaftStatus | None = None
    """None outside a cluster."""
    brokers: list[BrokerInfo] = field(
        default_factory=lambda: [
            BrokerInfo(
                broker_id="7000000000000000007",
                broker_url="http://0.0.0.0:6650",
                role="None",
                status="active",
                admin_url="http://0.0.0.0:50051",
            )
        ]
    )
    namespaces: set[str] = field(default_factory=lambda: {"default", "staging", "system"})
    topics: dict[str, DispatchStrategy] = field(
        default_factory=lambda: {
            "/default/orders": DispatchStrategy.RELIABLE,
            "/default/events-part-0": DispatchStrategy.RELIABLE,
            "/default/events-part-1": DispatchStrategy.RELIABLE,
            "/default/events-part-2": DispatchStrategy.RELIABLE,
            "/default/ticks": DispatchStrategy.NON_RELIABLE,
        }
    )
    subscriptions: dict[str, set[str]] = field(default_factory=lambda: {"/default/orders": {"billing", "audit"}})
    connected: set[tuple[str, str]] = field(default_factory=lambda: {("/default/orders", "billing")})
    failure_policies: dict[tuple[str, str], FailurePolicy] = field(default_factory=dict)
    windows: dict[tuple[str, str], int] = field(default_factory=dict)
    """Of whatever subscription somebody named: it does not look whether there is one."""
    deleted: list[str] = field(default_factory=list)
    """The names that DeleteTopic was called with."""
    moved: list[str] = field(default_factory=list)
    """The names that UnloadTopic was called with, and the ids of brokers that were unloaded or activated."""
    tokens: list[str] = field(default_factory=list)
    """What each call brought as its authorization."""

    def services(self) -> tuple[Service, ...]:
        """Of its admin port; there is no `danube.control` among them."""
        return (
            Service("danube_admin.BrokerAdmin", unary=self._all(BROKER_CALLS)),
            Service("danube_admin.ClusterAdmin", unary=self._all(CLUSTER_CALLS)),
            Service("danube_admin.NamespaceAdmin", unary=self._all(NAMESPACE_CALLS)),
            Service("danube_admin.TopicAdmin", unary=self._all(TOPIC_CALLS)),
        )

    def _all(self, calls: dict[str, "Answer"]) -> dict[str, UnaryHandler]:
        return {name: self._handler(answer) for name, answer in calls.items()}

    def _handler(self, answer: "Answer") -> UnaryHandler:
        def handle(request: bytes, call: UnaryCall) -> bytes:
            self.tokens.append(call.caller.metadata.get("authorization", ""))
            return answer(self, request)

        return handle

    def info(self, name: str) -> TopicInfo:
        namespace, _, local = name.removeprefix("/").partition("/")
        broker_id = self.brokers[0].broker_id if name in self.topics else None
        strategy = self.topics.get(name, DispatchStrategy.NON_RELIABLE)
        return TopicInfo(topic=TopicName(namespace, local), broker_id=broker_id, strategy=strategy)

    def listed_subscriptions(self, topic: TopicName) -> list[str]:
        """One entry for each of a subscription's keys."""
        names = sorted(self.subscriptions.get(str(topic), ()))
        return [each for name in names for each in (name, name, "cursor", "failure_policy")]


Answer = Callable[[OriginalBroker, bytes], bytes]


def _leader(broker: OriginalBroker, request: bytes) -> bytes:
    return admin_messages.LEADER.encode(broker.raft.leader_id if broker.raft else None)


def _namespaces(broker: OriginalBroker, request: bytes) -> bytes:
    return admin_messages.NAMESPACES.encode(sorted(broker.namespaces) * KEYS_OF_A_NAMESPACE)


def _cluster_status(broker: OriginalBroker, request: bytes) -> bytes:
    if broker.raft is None:
        raise UnsupportedError("not supported in standalone mode")
    return admin_messages.CLUSTER_STATUS.encode(broker.raft)


def _add_node(broker: OriginalBroker, request: bytes) -> bytes:
    wanted = admin_messages.ADD_NODE.decode(request)
    if broker.raft is None or wanted.node_id is None:
        raise InvalidRequestError("node_id must not be 0")
    broker.raft = replace(broker.raft, learners=(*broker.raft.learners, wanted.node_id))
    return admin_messages.NODE_ADDED.encode((True, wanted.node_id, "added"))


def _promote_node(broker: OriginalBroker, request: bytes) -> bytes:
    node_id = admin_messages.NODE.decode(request)
    if broker.raft is not None:
        learners = tuple(each for each in broker.raft.learners if each != node_id)
        broker.raft = replace(broker.raft, voters=(*broker.raft.voters, node_id), learners=learners)
    return admin_messages.NODE_CHANGED.encode((True, "changed"))


def _remove_node(broker: OriginalBroker, request: bytes) -> bytes:
    node_id = admin_messages.NODE.decode(request)
    if broker.raft is not None:
        broker.raft = replace(broker.raft, voters=tuple(each for each in broker.raft.voters if each != node_id))
    return admin_messages.NODE_CHANGED.encode((True, "changed"))


def _create_namespace(broker: OriginalBroker, request: bytes) -> bytes:
    name = admin_messages.NAMESPACE.decode(request)
    if name in broker.namespaces:
        raise NotFoundError(f"unable to create: namespace {name} already exists")
    broker.namespaces.add(name)
    return admin_messages.DONE.encode(None)


def _delete_namespace(broker: OriginalBroker, request: bytes) -> bytes:
    name = admin_messages.NAMESPACE.decode(request)
    if name not in broker.namespaces or _of_namespace(broker, name):
        raise NotFoundError(f"unable to delete {name}")
    broker.namespaces.remove(name)
    return admin_messages.DONE.encode(None)


def _policies(broker: OriginalBroker, request: bytes) -> bytes:
    name = admin_messages.NAMESPACE.decode(request)
    if name not in broker.namespaces:
        raise NotFoundError(f"no policies of {name}")
    return admin_messages.POLICIES.encode(NamespacePolicies(max_message_size=0))


def _of_namespace(broker: OriginalBroker, namespace: str) -> list[str]:
    """By the beginning of the name, so that `default` has the topics of `defaulted` too."""
    return [name for name in broker.topics if name.startswith(f"/{namespace}")]


def _namespace_topics(broker: OriginalBroker, request: bytes) -> bytes:
    names = _of_namespace(broker, admin_messages.NAMESPACE.decode(request))
    return admin_messages.TOPICS.encode([broker.info(name) for name in names])


def _broker_topics(broker: OriginalBroker, request: bytes) -> bytes:
    known = admin_messages.BROKER.decode(request) == broker.brokers[0].broker_id
    return admin_messages.TOPICS.encode([broker.info(name) for name in (broker.topics if known else ())])


def _create_topic(broker: OriginalBroker, request: bytes) -> bytes:
    wanted: CreateTopic = admin_messages.CREATE_TOPIC.decode(request)
    _create(broker, wanted.topic, wanted.strategy)
    return admin_messages.DONE.encode(None)


def _create_partitioned(broker: OriginalBroker, request: bytes) -> bytes:
    wanted: CreatePartitionedTopic = admin_messages.CREATE_PARTITIONED_TOPIC.decode(request)
    for index in range(wanted.partitions):
        _create(broker, wanted.base.partition(index), wanted.strategy)
    return admin_messages.DONE.encode(None)


def _create(broker: OriginalBroker, topic: TopicName, strategy: DispatchStrategy) -> None:
    if topic.namespace not in broker.namespaces or str(topic) in broker.topics:
        raise NotFoundError(f"unable to create {topic}: a reason")
    broker.topics[str(topic)] = strategy


def _delete_topic(broker: OriginalBroker, request: bytes) -> bytes:
    name = str(admin_messages.TOPIC.decode(request))
    broker.deleted.append(name)
    if broker.raft is None:
        gone = [name]
    else:
        if "-part-" in name:
            raise NotFoundError("delete the partitioned topic")
        gone = [name] if name in broker.topics else [each for each in broker.topics if each.startswith(f"{name}-part-")]
        if not gone:
            raise NotFoundError("unassigned")
    for each in gone:
        broker.topics.pop(each, None)
        broker.subscriptions.pop(each, None)
    return admin_messages.DONE.encode(None)


def _unload_topic(broker: OriginalBroker, request: bytes) -> bytes:
    broker.moved.append(str(admin_messages.TOPIC.decode(request)))
    return admin_messages.DONE.encode(None)


def _unload_broker(broker: OriginalBroker, request: bytes) -> bytes:
    wanted = admin_messages.UNLOAD_BROKER.decode(request)
    if len(broker.brokers) < 2:
        raise PreconditionFailedError("not enough brokers")
    broker.moved.append(f"{wanted.broker_id} {wanted.max_parallel} {','.join(wanted.namespaces_exclude)}")
    return admin_messages.BROKER_UNLOADED.encode(UnloadedBroker(started=True, total=1, pending=1))


def _activate_broker(broker: OriginalBroker, request: bytes) -> bytes:
    wanted = admin_messages.ACTIVATE_BROKER.decode(request)
    broker.moved.append(f"{wanted.broker_id} {wanted.reason}")
    return admin_messages.DONE.encode(None)


def _subscriptions(broker: OriginalBroker, request: bytes) -> bytes:
    return admin_messages.SUBSCRIPTIONS.encode(broker.listed_subscriptions(admin_messages.TOPIC.decode(request)))


def _describe_topic(broker: OriginalBroker, request: bytes) -> bytes:
    topic = admin_messages.TOPIC.decode(request)
    names = tuple(broker.listed_subscriptions(topic))
    return admin_messages.TOPIC_DETAILS.encode(TopicDetails(info=broker.info(str(topic)), subscriptions=names))


def _unsubscribe(broker: OriginalBroker, request: bytes) -> bytes:
    wanted: Unsubscribe = admin_messages.UNSUBSCRIBE.decode(request)
    key = (str(wanted.topic), wanted.subscription)
    if wanted.subscription not in broker.subscriptions.get(key[0], ()) or key in broker.connected:
        raise NotFoundError("the subscription has active consumers")
    broker.subscriptions[key[0]].remove(wanted.subscription)
    return admin_messages.DONE.encode(None)


def _set_failure_policy(broker: OriginalBroker, request: bytes) -> bytes:
    wanted = admin_messages.SET_FAILURE_POLICY.decode(request)
    if broker.topics.get(str(wanted.name.topic)) is not DispatchStrategy.RELIABLE:
        raise PreconditionFailedError("failure policies are only supported for reliable topics")
    broker.failure_policies[_key(wanted.name)] = wanted.policy
    return admin_messages.DONE.encode(None)


def _failure_policy(broker: OriginalBroker, request: bytes) -> bytes:
    name = admin_messages.SUBSCRIPTION.decode(request)
    return admin_messages.FAILURE_POLICY.encode((broker.failure_policies.get(_key(name)), SubscriptionType.EXCLUSIVE))


def _set_window(broker: OriginalBroker, request: bytes) -> bytes:
    wanted = admin_messages.SET_DISPATCH_WINDOW.decode(request)
    broker.windows[_key(wanted.name)] = wanted.window
    return admin_messages.DONE.encode(None)


def _window(broker: OriginalBroker, request: bytes) -> bytes:
    return admin_messages.DISPATCH_WINDOW.encode(broker.windows.get(_key(admin_messages.SUBSCRIPTION.decode(request))))


def _key(name: SubscriptionName) -> tuple[str, str]:
    return str(name.topic), name.subscription


BROKER_CALLS: dict[str, Answer] = {
    "ListBrokers": lambda broker, _: admin_messages.BROKERS.encode(broker.brokers),
    "GetLeaderBroker": _leader,
    "ListNamespaces": _namespaces,
    "UnloadBroker": _unload_broker,
    "ActivateBroker": _activate_broker,
}
CLUSTER_CALLS: dict[str, Answer] = {
    "ClusterStatus": _cluster_status,
    "AddNode": _add_node,
    "PromoteNode": _promote_node,
    "RemoveNode": _remove_node,
}
NAMESPACE_CALLS: dict[str, Answer] = {
    "CreateNamespace": _create_namespace,
    "DeleteNamespace": _delete_namespace,
    "GetNamespacePolicies": _policies,
}
TOPIC_CALLS: dict[str, Answer] = {
    "ListNamespaceTopics": _namespace_topics,
    "ListBrokerTopics": _broker_topics,
    "CreateTopic": _create_topic,
    "CreatePartitionedTopic": _create_partitioned,
    "DeleteTopic": _delete_topic,
    "UnloadTopic": _unload_topic,
    "ListSubscriptions": _subscriptions,
    "DescribeTopic": _describe_topic,
    "Unsubscribe": _unsubscribe,
    "SetSubscriptionFailurePolicy": _set_failure_policy,
    "GetSubscriptionFailurePolicy": _failure_policy,
    "SetSubscriptionDispatchConfig": _set_window,
    "GetSubscriptionDispatchConfig": _window,
}
