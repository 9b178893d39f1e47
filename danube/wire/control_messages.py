"""Messages of `danube.control` about topics, brokers and the cluster: calls that only our brokers have."""

from collections.abc import Sized
from functools import partial
from operator import attrgetter

from danube.model.calls.admin import (
    BrokerDescription,
    ClusterDescription,
    ConsumerDescription,
    DescribeCursor,
    DescribeTopics,
    SubscriptionDescription,
    TopicDescription,
    TopicsPage,
    TopicState,
)
from danube.model.calls.carry import CarryOffer, PrepareCarry, ReadSegment, SegmentPiece
from danube.model.calls.inspection import (
    LogLevel,
    LogPage,
    LogRecord,
    MetricLabel,
    MetricSample,
    MetricsPage,
    ReadLog,
    ReadMetrics,
)
from danube.model.calls.object_use import ObjectRequests, ObjectStoreDescription, TopicStorageDescription
from danube.model.calls.positions import (
    AddPartitions,
    Connection,
    CreateSubscription,
    DisconnectClient,
    PeekedMessage,
    PeekedPage,
    PeekMessages,
    SeekPreview,
    SeekSubscription,
    SubscriptionPosition,
)
from danube.model.calls.stream import FetchFrom
from danube.model.calls.topic_states import NamedTopicState, TopicStatesList
from danube.model.errors import InvalidRequestError
from danube.model.limits.broker import (
    DESCRIBE_NAMES_MAX,
    DESCRIBE_TOPICS_DEFAULT,
    DESCRIBE_TOPICS_MAX,
    PARTITIONS_MAX,
    PEEK_MESSAGES_DEFAULT,
    PEEK_MESSAGES_MAX,
    PEEK_PAYLOAD_BYTES_MAX,
)
from danube.model.limits.inspection import LOG_READ_DEFAULT, LOG_READ_MAX, METRICS_READ_DEFAULT, METRICS_READ_MAX
from danube.model.plans.durability import durability_of
from danube.model.policies import PoliciesView, SetNamespacePolicies, SetTopicPolicies, SubscriptionName
from danube.model.topic import TopicName
from danube.wire.admin_messages import NAME_RULE, NAMESPACE_RULE, SUBSCRIPTION_RULE
from danube.wire.client_messages import start_fields, start_of
from danube.wire.codec import Codec, Rule, Unread, listing, record, row, single
from danube.wire.gen import DanubeControl_pb2 as pb
from danube.wire.parsing import member_name, topic_name, word

# Inspection: topics in full, and the broker

_AFTER_TOPIC = "\n"
"""Between topic and subscription in a page token: no name has it."""


def check_names(names: Sized) -> None:
    """Raise InvalidRequestError for more topics than one call may name."""
    if len(names) > DESCRIBE_NAMES_MAX:
        raise InvalidRequestError(f"{len(names)} topics cannot be named in one call: name up to {DESCRIBE_NAMES_MAX}")


def _cursor(page_token: str) -> DescribeCursor:
    topic, separator, subscription = page_token.partition(_AFTER_TOPIC)
    return DescribeCursor(
        topic=topic_name(topic), subscription=member_name("subscription", subscription) if separator else None
    )


def _page_token(cursor: DescribeCursor) -> str:
    return str(cursor.topic) if cursor.subscription is None else f"{cursor.topic}{_AFTER_TOPIC}{cursor.subscription}"


DESCRIBE_TOPICS = record(
    DescribeTopics,
    pb.DescribeTopicsRequest,
    namespace=NAMESPACE_RULE,
    topics=Rule(check=check_names),
    page_size=Rule(decode=lambda size: min(size or DESCRIBE_TOPICS_DEFAULT, DESCRIBE_TOPICS_MAX)),
    after=Rule(name="page_token", decode=_cursor, encode=_page_token),
)
record(ConsumerDescription, pb.Consumer, is_connected="connected")
record(SubscriptionDescription, pb.Subscription, type="subscription_type")
record(TopicStorageDescription, pb.TopicStorage, durability=Rule(decode=durability_of, encode=attrgetter("number")))
record(TopicState, pb.TopicState)
record(TopicDescription, pb.Topic, topic="name", is_plain="plain", strategy="dispatch_strategy")
TOPICS_PAGE = record(
    TopicsPage, pb.DescribeTopicsResponse, next=Rule(name="next_page_token", decode=_cursor, encode=_page_token)
)
record(NamedTopicState, pb.NamedTopicState)
LIST_TOPIC_STATES: Codec[str | None] = single(pb.ListTopicStatesRequest, "namespace", str | None, NAMESPACE_RULE)
TOPIC_STATES = record(TopicStatesList, pb.ListTopicStatesResponse)
DESCRIBE_BROKER = Unread(pb.DescribeBrokerRequest)
record(ObjectRequests, pb.ObjectRequests)
record(ObjectStoreDescription, pb.ObjectStoreUse)
BROKER_DESCRIPTION = record(
    BrokerDescription, pb.DescribeBrokerResponse, info=Rule(flat={}), uptime_s="uptime_seconds", is_healthy="healthy"
)

READ_METRICS = record(
    ReadMetrics,
    pb.ReadMetricsRequest,
    limit=Rule(decode=lambda most: min(most or METRICS_READ_DEFAULT, METRICS_READ_MAX)),
)
record(MetricLabel, pb.MetricLabel)
record(MetricSample, pb.MetricSample)
METRICS_PAGE = record(MetricsPage, pb.ReadMetricsResponse)
READ_LOG = record(
    ReadLog,
    pb.ReadLogRequest,
    level=Rule(decode=lambda name: word(LogLevel, name or LogLevel.DEBUG)),
    limit=Rule(decode=lambda most: min(most or LOG_READ_DEFAULT, LOG_READ_MAX)),
)
record(LogRecord, pb.LogRecord)
LOG_PAGE = record(LogPage, pb.ReadLogResponse)

# The cluster

DESCRIBE_CLUSTER: Codec[None] = Codec(pb.DescribeClusterRequest, lambda _: None, lambda _: {})
CLUSTER_DESCRIPTION = record(ClusterDescription, pb.DescribeClusterResponse)
TRANSFER_LEADERSHIP: Codec[str | None] = single(pb.TransferLeadershipRequest, "node_id", str | None)
"""None lets the cluster choose."""
LEADERSHIP_TRANSFERRED = single(pb.TransferLeadershipResponse, "leader_id", str)

# Policies of topics and namespaces

_CHANGE_RULE = Rule(flat={"given": "policies", "unset": Rule(decode=frozenset, encode=sorted)})

NAMESPACE_POLICIES_OF = single(pb.PoliciesOf, "name", str, NAMESPACE_RULE)
TOPIC_POLICIES_OF = single(pb.PoliciesOf, "name", TopicName)
SET_NAMESPACE_POLICIES = record(
    SetNamespacePolicies,
    pb.SetPoliciesRequest,
    namespace=Rule(name="name", decode=NAMESPACE_RULE.decode),
    change=_CHANGE_RULE,
)
SET_TOPIC_POLICIES = record(SetTopicPolicies, pb.SetPoliciesRequest, topic="name", change=_CHANGE_RULE)
POLICIES_VIEW = record(PoliciesView, pb.PoliciesView)

# Positions and connections


def _check_added(count: int) -> None:
    if not 1 <= count <= PARTITIONS_MAX:
        raise InvalidRequestError(f"{count} partitions cannot be added: use 1 to {PARTITIONS_MAX}")


_start = partial(start_of, absent=FetchFrom.LATEST)
_START_RULE = Rule(decode=_start, encode=lambda start: pb.StartPosition(**start_fields(start)))

CREATE_SUBSCRIPTION = record(
    CreateSubscription, pb.CreateSubscriptionRequest, name=NAME_RULE, type="subscription_type", start=_START_RULE
)
SEEK = record(
    SeekSubscription,
    pb.SeekRequest,
    name=NAME_RULE,
    to=Rule(
        decode=_start,
        encode=_START_RULE.encode,
        missing="the request does not say where to: send an offset, a time, earliest or latest",
    ),
)
SEEK_PREVIEW = record(SeekPreview, pb.SeekPreview)
SUBSCRIPTION = record(SubscriptionName, pb.SubscriptionRequest, subscription=SUBSCRIPTION_RULE)
POSITION = record(SubscriptionPosition, pb.SubscriptionPosition)
PEEK = record(
    PeekMessages,
    pb.PeekRequest,
    start=_START_RULE,
    count=Rule(decode=lambda count: min(count or PEEK_MESSAGES_DEFAULT, PEEK_MESSAGES_MAX)),
    payload_bytes_max=Rule(decode=lambda most: min(most, PEEK_PAYLOAD_BYTES_MAX)),
)
record(
    PeekedMessage,
    pb.PeekedMessage,
    attributes=Rule(
        decode=lambda each: (each.name, each.value), encode=lambda each: pb.Attribute(name=each[0], value=each[1])
    ),
)
PEEKED = record(PeekedPage, pb.PeekResponse)
ADD_PARTITIONS = record(AddPartitions, pb.AddPartitionsRequest, base="topic", count=Rule(check=_check_added))
PARTITIONS = listing(pb.AddPartitionsResponse, "partitions", TopicName)
LIST_CONNECTIONS = single(pb.ListConnectionsRequest, "topic", TopicName)
CONNECTIONS: Codec[tuple[tuple[Connection, ...], int]] = row(
    pb.ListConnectionsResponse, connections=tuple[Connection, ...], connection_count=int
)
"""The connections that are shown, and how many there are."""
DISCONNECT_CLIENT = record(DisconnectClient, pb.DisconnectClientRequest)
DISCONNECTED = Unread(pb.DisconnectClientResponse)

# Carrying logs between brokers

PREPARE_CARRY = record(PrepareCarry, pb.PrepareCarryRequest)
CARRY_OFFER = record(CarryOffer, pb.PrepareCarryResponse)
READ_SEGMENT = record(ReadSegment, pb.ReadSegmentRequest)
SEGMENT_PIECE = record(SegmentPiece, pb.ReadSegmentResponse)
