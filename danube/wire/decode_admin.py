"""Protobuf bytes -> model values, for the calls of the admin port that the original has. Rejects as `decode` does."""

from dataclasses import fields

from danube.model.calls.admin import (
    BrokerInfo,
    CreatePartitionedTopic,
    CreateTopic,
    NamespacePolicies,
    RaftStatus,
    TopicDetails,
    TopicInfo,
    Unsubscribe,
)
from danube.model.errors import InvalidRequestError
from danube.model.limits.broker import PARTITIONS_MAX
from danube.model.topic import DispatchStrategy, TopicName, check_name_part
from danube.model.untrusted_json import decode_json
from danube.wire.gen import DanubeAdmin_pb2
from danube.wire.interceptors import member, member_name, parse, topic_name, undecodable

_NO_LEADER = "not_found"

# Requests


def create_topic(request: bytes) -> CreateTopic:
    """A NewTopicRequest."""
    message = parse(DanubeAdmin_pb2.NewTopicRequest, request)
    return CreateTopic(
        topic=topic_name(message.name),
        strategy=member(DispatchStrategy, message.dispatch_strategy),
        schema_subject=_subject(message.schema_subject),
    )


def create_partitioned_topic(request: bytes) -> CreatePartitionedTopic:
    """A PartitionedTopicRequest."""
    message = parse(DanubeAdmin_pb2.PartitionedTopicRequest, request)
    if not 1 <= message.partitions <= PARTITIONS_MAX:
        raise InvalidRequestError(f"{message.partitions} partitions cannot be: use 1 to {PARTITIONS_MAX}")
    return CreatePartitionedTopic(
        base=topic_name(message.base_name),
        partitions=message.partitions,
        strategy=member(DispatchStrategy, message.dispatch_strategy),
        schema_subject=_subject(message.schema_subject),
    )


def _subject(text: str) -> str | None:
    return member_name("schema subject", text) if text else None


def topic(request: bytes) -> TopicName:
    """A TopicRequest or a DescribeTopicRequest: two messages with one layout."""
    return topic_name(parse(DanubeAdmin_pb2.TopicRequest, request).name)


def unsubscribe(request: bytes) -> Unsubscribe:
    """A SubscriptionRequest."""
    message = parse(DanubeAdmin_pb2.SubscriptionRequest, request)
    return Unsubscribe(topic=topic_name(message.topic), subscription=member_name("subscription", message.subscription))


def namespace(request: bytes) -> str:
    """A NamespaceRequest."""
    return check_name_part("namespace", parse(DanubeAdmin_pb2.NamespaceRequest, request).name)


def broker(request: bytes) -> str:
    """A BrokerRequest."""
    broker_id = parse(DanubeAdmin_pb2.BrokerRequest, request).broker_id
    if not broker_id:
        raise InvalidRequestError("the broker id is empty: list the brokers to see their ids")
    return broker_id


# Answers


def success(response: bytes) -> bool:
    """Whether a TopicResponse, a SubscriptionResponse or a NamespaceResponse says so."""
    return parse(DanubeAdmin_pb2.TopicResponse, response).success


def topics(response: bytes) -> tuple[TopicInfo, ...]:
    """A TopicInfoListResponse."""
    found = parse(DanubeAdmin_pb2.TopicInfoListResponse, response).topics
    return tuple(_topic_info(info.name, info.broker_id, info.delivery) for info in found)


def _topic_info(name: str, broker_id: str, delivery: str) -> TopicInfo:
    return TopicInfo(
        topic=_as_it_is(name),
        broker_id=broker_id or None,
        strategy=DispatchStrategy.RELIABLE if delivery == "Reliable" else DispatchStrategy.NON_RELIABLE,
    )


def _as_it_is(name: str) -> TopicName:
    """A name that a broker tells, whatever its grammar: the original lets some be that ours would refuse."""
    namespace, _, local = name.removeprefix("/").partition("/")
    return TopicName(namespace, local)


def topic_details(response: bytes) -> TopicDetails:
    """A DescribeTopicResponse."""
    message = parse(DanubeAdmin_pb2.DescribeTopicResponse, response)
    return TopicDetails(
        info=_topic_info(message.name, message.broker_id, message.delivery),
        subscriptions=tuple(message.subscriptions),
        schema_subject=message.schema_subject or None,
    )


def subscriptions(response: bytes) -> tuple[str, ...]:
    """A SubscriptionListResponse."""
    return tuple(parse(DanubeAdmin_pb2.SubscriptionListResponse, response).subscriptions)


def namespaces(response: bytes) -> tuple[str, ...]:
    """A NamespaceListResponse."""
    return tuple(parse(DanubeAdmin_pb2.NamespaceListResponse, response).namespaces)


def namespace_topics(response: bytes) -> tuple[TopicName, ...]:
    """A TopicListResponse, whose names have no leading slash."""
    names = parse(DanubeAdmin_pb2.TopicListResponse, response).topics
    return tuple(topic_name(f"/{name.removeprefix('/')}") for name in names)


def policies(response: bytes) -> NamespacePolicies:
    """A PolicyResponse; a limit that it does not name is none."""
    text = parse(DanubeAdmin_pb2.PolicyResponse, response).policies
    try:
        found = decode_json(text)
    except ValueError:
        raise undecodable(DanubeAdmin_pb2.PolicyResponse) from None
    limits = found if isinstance(found, dict) else {}
    return NamespacePolicies(**{field.name: _number(limits.get(field.name)) for field in fields(NamespacePolicies)})


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


def brokers(response: bytes) -> tuple[BrokerInfo, ...]:
    """A BrokerListResponse."""
    return tuple(_broker_info(info) for info in parse(DanubeAdmin_pb2.BrokerListResponse, response).brokers)


def _broker_info(message: DanubeAdmin_pb2.BrokerInfo) -> BrokerInfo:
    return BrokerInfo(
        broker_id=message.broker_id,
        broker_url=message.broker_addr,
        role=message.broker_role,
        status=message.broker_status,
        admin_url=message.admin_addr,
        metrics_url=message.metrics_addr,
    )


def leader(response: bytes) -> str | None:
    """The broker id in a BrokerResponse; None where there is no leader."""
    broker_id = parse(DanubeAdmin_pb2.BrokerResponse, response).leader
    return None if broker_id in {"", _NO_LEADER} else broker_id


def cluster_status(response: bytes) -> RaftStatus:
    """A ClusterStatusResponse, whose ids are numbers on the wire and 0 is nobody."""
    message = parse(DanubeAdmin_pb2.ClusterStatusResponse, response)
    return RaftStatus(
        self_node_id=str(message.self_node_id),
        raft_addr=message.raft_addr,
        leader_id=str(message.leader_id) if message.leader_id else None,
        current_term=message.current_term,
        last_applied=message.last_applied,
        voters=tuple(map(str, message.voters)),
        learners=tuple(map(str, message.learners)),
    )
