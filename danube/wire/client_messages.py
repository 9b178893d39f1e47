"""Messages of the client port but those of the data path, which `decode` and `encode` have."""

from collections.abc import Sized
from functools import partial

from danube.model.calls.client import (
    Authenticate,
    CreateProducer,
    HealthCheck,
    HealthStatus,
    Lookup,
    LookupAnswer,
    PartitionsAnswer,
    ProducerCreated,
    Receive,
    SchemaReference,
    Subscribe,
    Subscribed,
)
from danube.model.calls.stream import (
    Bounds,
    Fetch,
    FetchFrom,
    FetchStart,
    FetchTime,
    PublishOpen,
    PublishOpened,
    TopicBounds,
)
from danube.model.errors import InvalidRequestError
from danube.model.limits.stream import BOUNDS_TIMES_MAX
from danube.wire.codec import Fields, Rule, record, single
from danube.wire.gen import DanubeApi_pb2, DanubeAuth_pb2, DanubeControl_pb2, DanubeStream_pb2
from danube.wire.parsing import member_name

StartMessage = DanubeStream_pb2.FetchRequest | DanubeStream_pb2.ConsumeOpen | DanubeControl_pb2.StartPosition


def _schema_message(schema: SchemaReference) -> DanubeApi_pb2.SchemaReference:
    if schema.pinned_version is not None:
        return DanubeApi_pb2.SchemaReference(subject=schema.subject, pinned_version=schema.pinned_version)
    if schema.min_version is not None:
        return DanubeApi_pb2.SchemaReference(subject=schema.subject, min_version=schema.min_version)
    return DanubeApi_pb2.SchemaReference(subject=schema.subject, use_latest=True)


record(SchemaReference, DanubeApi_pb2.SchemaReference, subject=Rule(decode=partial(member_name, "schema subject")))
_SCHEMA = Rule(name="schema_ref", encode=_schema_message)
_PRODUCER = Rule(decode=partial(member_name, "producer"))

# Producers and consumers

CREATE_PRODUCER = record(
    CreateProducer,
    DanubeApi_pb2.ProducerRequest,
    topic="topic_name",
    producer_name=_PRODUCER,
    strategy="dispatch_strategy",
    access_mode="producer_access_mode",
    schema=_SCHEMA,
)
PRODUCER_CREATED = record(ProducerCreated, DanubeApi_pb2.ProducerResponse)
SUBSCRIBE = record(
    Subscribe,
    DanubeApi_pb2.ConsumerRequest,
    topic="topic_name",
    consumer_name=Rule(decode=partial(member_name, "consumer")),
    subscription=Rule(decode=partial(member_name, "subscription")),
    type="subscription_type",
)
SUBSCRIBED = record(Subscribed, DanubeApi_pb2.ConsumerResponse)
RECEIVE = record(Receive, DanubeApi_pb2.ReceiveRequest)

# Discovery, health and authentication


def _dialled(url: str) -> str:
    """Official clients use a URL as it is. Raises ValueError for one without a scheme."""
    if not url.startswith(("http://", "https://")):
        raise ValueError(f"{url!r} is not a URL that clients can use: it must start with http:// or https://")
    return url


LOOKUP = record(Lookup, DanubeApi_pb2.TopicLookupRequest)
"""The request of TopicLookup and TopicPartitions."""
LOOKUP_ANSWER = record(
    LookupAnswer,
    DanubeApi_pb2.TopicLookupResponse,
    kind="response_type",
    connect_url=Rule(encode=_dialled),
    broker_url=Rule(encode=_dialled),
)
PARTITIONS_ANSWER = record(PartitionsAnswer, DanubeApi_pb2.TopicPartitionsResponse)
HEALTH_CHECK = record(HealthCheck, DanubeApi_pb2.HealthCheckRequest)
HEALTH_STATUS = single(DanubeApi_pb2.HealthCheckResponse, "status", HealthStatus)
AUTHENTICATE = record(Authenticate, DanubeAuth_pb2.AuthRequest)
TOKEN = single(DanubeAuth_pb2.AuthResponse, "token", str)

# Streams of batches


def start_fields(start: FetchStart) -> Fields:
    """Start of a read, as fields of a FetchRequest or a StartPosition."""
    match start:
        case FetchTime(append_time_ms):
            return {"append_time_ms": append_time_ms}
        case int(offset):
            return {"offset": offset}
    return {start.value: True}


def start_of(message: StartMessage, absent: FetchFrom) -> FetchStart:
    """Start of a read; `absent` when the message has none, or one that only a later Danube knows."""
    field = message.WhichOneof("start")
    match field:
        case "offset":
            return message.offset
        case "append_time_ms":
            return FetchTime(message.append_time_ms)
        case "earliest" | "latest":
            return FetchFrom(field)
    return absent


def _check_times(times: Sized) -> None:
    if len(times) > BOUNDS_TIMES_MAX:
        raise InvalidRequestError(f"Bounds asks for {len(times)} times, the limit is {BOUNDS_TIMES_MAX}: ask in parts")


PUBLISH_OPEN = record(
    PublishOpen,
    DanubeStream_pb2.PublishOpen,
    topic="topic_name",
    producer_name=_PRODUCER,
    strategy="dispatch_strategy",
    schema=_SCHEMA,
)
PUBLISH_OPENED = record(PublishOpened, DanubeStream_pb2.PublishOpened)
FETCH = record(
    Fetch,
    DanubeStream_pb2.FetchRequest,
    topic="topic_name",
    start=Rule(spread=(partial(start_of, absent=FetchFrom.EARLIEST), start_fields)),
    end="end_offset",
)
BOUNDS = record(Bounds, DanubeStream_pb2.BoundsRequest, topic="topic_name", append_times_ms=Rule(check=_check_times))
TOPIC_BOUNDS = record(TopicBounds, DanubeStream_pb2.BoundsResponse)
CLOSE_PRODUCER = single(DanubeStream_pb2.CloseProducerRequest, "producer_id", int)
CLOSE_CONSUMER = single(DanubeStream_pb2.CloseConsumerRequest, "consumer_id", int)
