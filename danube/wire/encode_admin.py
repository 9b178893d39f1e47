"""Model values -> protobuf bytes, for the calls of the admin port that the original has."""

import json
from collections.abc import Iterable
from dataclasses import asdict

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
from danube.model.topic import DispatchStrategy, TopicName
from danube.wire.gen import DanubeAdmin_pb2

EMPTY = b""
"""The request of calls that ask nothing in particular, such as ListNamespaces."""

_DELIVERY = {DispatchStrategy.RELIABLE: "Reliable", DispatchStrategy.NON_RELIABLE: "NonReliable"}
_NO_LEADER = "not_found"

# Requests


def create_topic(call: CreateTopic) -> bytes:
    """A NewTopicRequest."""
    message = DanubeAdmin_pb2.NewTopicRequest(
        name=str(call.topic), schema_subject=call.schema_subject, dispatch_strategy=call.strategy
    )
    return message.SerializeToString()


def create_partitioned_topic(call: CreatePartitionedTopic) -> bytes:
    """A PartitionedTopicRequest."""
    message = DanubeAdmin_pb2.PartitionedTopicRequest(
        base_name=str(call.base),
        partitions=call.partitions,
        schema_subject=call.schema_subject,
        dispatch_strategy=call.strategy,
    )
    return message.SerializeToString()


def topic(name: TopicName) -> bytes:
    """A TopicRequest or a DescribeTopicRequest: two messages with one layout."""
    return DanubeAdmin_pb2.TopicRequest(name=str(name)).SerializeToString()


def unsubscribe(call: Unsubscribe) -> bytes:
    """A SubscriptionRequest."""
    message = DanubeAdmin_pb2.SubscriptionRequest(topic=str(call.topic), subscription=call.subscription)
    return message.SerializeToString()


def namespace(name: str) -> bytes:
    """A NamespaceRequest."""
    return DanubeAdmin_pb2.NamespaceRequest(name=name).SerializeToString()


def broker(broker_id: str) -> bytes:
    """A BrokerRequest."""
    return DanubeAdmin_pb2.BrokerRequest(broker_id=broker_id).SerializeToString()


# Answers


def success() -> bytes:
    """That it was done: a TopicResponse, a SubscriptionResponse or a NamespaceResponse, which have one layout.

    What did not succeed fails with a status.
    """
    return DanubeAdmin_pb2.TopicResponse(success=True).SerializeToString()


def topics(infos: Iterable[TopicInfo]) -> bytes:
    """A TopicInfoListResponse."""
    return DanubeAdmin_pb2.TopicInfoListResponse(topics=[_topic_info(info) for info in infos]).SerializeToString()


def _topic_info(info: TopicInfo) -> DanubeAdmin_pb2.TopicInfo:
    return DanubeAdmin_pb2.TopicInfo(
        name=str(info.topic), broker_id=info.broker_id or "", delivery=_DELIVERY[info.strategy]
    )


def topic_details(details: TopicDetails) -> bytes:
    """A DescribeTopicResponse."""
    message = DanubeAdmin_pb2.DescribeTopicResponse(
        name=str(details.info.topic),
        subscriptions=details.subscriptions,
        broker_id=details.info.broker_id or "",
        delivery=_DELIVERY[details.info.strategy],
        schema_subject=details.schema_subject,
    )
    return message.SerializeToString()


def subscriptions(names: Iterable[str]) -> bytes:
    """A SubscriptionListResponse."""
    return DanubeAdmin_pb2.SubscriptionListResponse(subscriptions=names).SerializeToString()


def namespaces(names: Iterable[str]) -> bytes:
    """A NamespaceListResponse."""
    return DanubeAdmin_pb2.NamespaceListResponse(namespaces=names).SerializeToString()


def namespace_topics(names: Iterable[TopicName]) -> bytes:
    """A TopicListResponse, whose names have no leading slash."""
    return DanubeAdmin_pb2.TopicListResponse(topics=[str(name)[1:] for name in names]).SerializeToString()


def policies(limits: NamespacePolicies) -> bytes:
    """A PolicyResponse, which is JSON in protobuf."""
    return DanubeAdmin_pb2.PolicyResponse(policies=json.dumps(asdict(limits))).SerializeToString()


def brokers(infos: Iterable[BrokerInfo]) -> bytes:
    """A BrokerListResponse."""
    return DanubeAdmin_pb2.BrokerListResponse(brokers=[_broker_info(info) for info in infos]).SerializeToString()


def _broker_info(info: BrokerInfo) -> DanubeAdmin_pb2.BrokerInfo:
    return DanubeAdmin_pb2.BrokerInfo(
        broker_id=info.broker_id,
        broker_addr=info.broker_url,
        broker_role=info.role,
        admin_addr=info.admin_url,
        metrics_addr=info.metrics_url,
        broker_status=info.status,
    )


def leader(broker_id: str | None) -> bytes:
    """A BrokerResponse; None is said in the original's word."""
    return DanubeAdmin_pb2.BrokerResponse(leader=broker_id or _NO_LEADER).SerializeToString()


def cluster_status(status: RaftStatus) -> bytes:
    """A ClusterStatusResponse."""
    message = DanubeAdmin_pb2.ClusterStatusResponse(
        leader_id=int(status.leader_id or 0),
        current_term=status.current_term,
        last_applied=status.last_applied,
        voters=map(int, status.voters),
        learners=map(int, status.learners),
        self_node_id=int(status.self_node_id),
        raft_addr=status.raft_addr,
    )
    return message.SerializeToString()
