"""Model values -> protobuf bytes, for the calls of the admin port."""

from collections.abc import Iterable

from danube.model.calls import CreatePartitionedTopic, CreateTopic, DeleteTopic, ListNamespaceTopics, TopicInfo
from danube.model.topic import DispatchStrategy
from danube.wire.gen import DanubeAdmin_pb2

EMPTY = b""
"""The request of calls that ask nothing in particular, such as ListNamespaces."""

_DELIVERY = {DispatchStrategy.RELIABLE: "Reliable", DispatchStrategy.NON_RELIABLE: "NonReliable"}

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


def delete_topic(call: DeleteTopic) -> bytes:
    """A TopicRequest."""
    return DanubeAdmin_pb2.TopicRequest(name=str(call.topic)).SerializeToString()


def list_namespace_topics(call: ListNamespaceTopics) -> bytes:
    """A NamespaceRequest."""
    return DanubeAdmin_pb2.NamespaceRequest(name=call.namespace).SerializeToString()


# Answers


def success() -> bytes:
    """A TopicResponse that says so; what did not succeed fails with a status."""
    return DanubeAdmin_pb2.TopicResponse(success=True).SerializeToString()


def topics(infos: Iterable[TopicInfo]) -> bytes:
    """A TopicInfoListResponse."""
    return DanubeAdmin_pb2.TopicInfoListResponse(topics=[_topic_info(info) for info in infos]).SerializeToString()


def _topic_info(info: TopicInfo) -> DanubeAdmin_pb2.TopicInfo:
    return DanubeAdmin_pb2.TopicInfo(
        name=str(info.topic), broker_id=info.broker_id or "", delivery=_DELIVERY[info.strategy]
    )


def namespaces(names: Iterable[str]) -> bytes:
    """A NamespaceListResponse."""
    return DanubeAdmin_pb2.NamespaceListResponse(namespaces=names).SerializeToString()
