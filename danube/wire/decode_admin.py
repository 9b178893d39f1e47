"""Protobuf bytes -> model values, for the calls of the admin port. Rejects as `decode` does."""

from danube.model.calls import CreatePartitionedTopic, CreateTopic, DeleteTopic, ListNamespaceTopics, TopicInfo
from danube.model.errors import InvalidRequestError
from danube.model.limits import PARTITIONS_MAX
from danube.model.topic import DispatchStrategy, check_name_part
from danube.wire.gen import DanubeAdmin_pb2
from danube.wire.intake import member, member_name, parse, topic_name

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


def delete_topic(request: bytes) -> DeleteTopic:
    """A TopicRequest."""
    return DeleteTopic(topic=topic_name(parse(DanubeAdmin_pb2.TopicRequest, request).name))


def list_namespace_topics(request: bytes) -> ListNamespaceTopics:
    """A NamespaceRequest."""
    name = parse(DanubeAdmin_pb2.NamespaceRequest, request).name
    return ListNamespaceTopics(namespace=check_name_part("namespace", name))


# Answers


def success(response: bytes) -> bool:
    """Whether a TopicResponse says so."""
    return parse(DanubeAdmin_pb2.TopicResponse, response).success


def topics(response: bytes) -> tuple[TopicInfo, ...]:
    """A TopicInfoListResponse."""
    return tuple(_topic_info(info) for info in parse(DanubeAdmin_pb2.TopicInfoListResponse, response).topics)


def _topic_info(message: DanubeAdmin_pb2.TopicInfo) -> TopicInfo:
    reliable = message.delivery == "Reliable"
    return TopicInfo(
        topic=topic_name(message.name),
        broker_id=message.broker_id or None,
        strategy=DispatchStrategy.RELIABLE if reliable else DispatchStrategy.NON_RELIABLE,
    )


def namespaces(response: bytes) -> tuple[str, ...]:
    """A NamespaceListResponse."""
    return tuple(parse(DanubeAdmin_pb2.NamespaceListResponse, response).namespaces)
