"""Every call and every answer: encoded by one side, decoded by the other, the same value."""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from danube.model.calls.client import (
    AccessMode,
    Acknowledge,
    Authenticate,
    ClientKind,
    CreateProducer,
    HealthCheck,
    HealthStatus,
    Lookup,
    LookupAnswer,
    LookupKind,
    NegativeAcknowledge,
    OutgoingMessage,
    PartitionsAnswer,
    ProducerCreated,
    Receive,
    ReceivedMessage,
    SchemaReference,
    SendMessage,
    Subscribe,
    Subscribed,
)
from danube.model.subscription import SubscriptionType
from danube.model.topic import DispatchStrategy, TopicName
from danube.wire import client_messages, decode, encode
from danube.wire.codec import Codec

UINT32, UINT64 = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)
PARTS = st.from_regex(r"[\w-]{1,20}", fullmatch=True)
TOPICS = st.builds(TopicName, PARTS, PARTS)
MEMBERS = st.text(min_size=1, max_size=60).filter(str.isprintable)
STRATEGIES = st.sampled_from(DispatchStrategy)
URLS = st.text().flatmap(lambda host: st.sampled_from([f"http://{host}", f"https://{host}"]))
SCHEMAS = (
    st.builds(SchemaReference, subject=MEMBERS)
    | st.builds(SchemaReference, subject=MEMBERS, pinned_version=UINT32)
    | st.builds(SchemaReference, subject=MEMBERS, min_version=UINT32)
)
MESSAGES = st.builds(
    OutgoingMessage,
    request_id=UINT64,
    producer_id=UINT64,
    topic=st.text(),
    broker_addr=st.text(),
    payload=st.binary(),
    publish_time_ms=UINT64,
    producer_name=st.text(),
    attributes=st.dictionaries(st.text(), st.text(), max_size=3),
    schema_id=st.none() | UINT64,
    schema_version=st.none() | UINT32,
    routing_key=st.none() | st.text(),
)


class Call(NamedTuple):
    values: st.SearchStrategy[Any]
    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Any]


def of(values: st.SearchStrategy[Any], codec: Codec[Any]) -> Call:
    return Call(values, codec.encode, codec.decode)


CALLS = {
    "CreateProducer": of(
        st.builds(
            CreateProducer,
            request_id=UINT64,
            topic=TOPICS,
            producer_name=MEMBERS,
            strategy=STRATEGIES,
            access_mode=st.sampled_from(AccessMode),
            schema=st.none() | SCHEMAS,
        ),
        client_messages.CREATE_PRODUCER,
    ),
    "ProducerCreated": of(
        st.builds(ProducerCreated, request_id=UINT64, producer_id=UINT64, producer_name=st.text()),
        client_messages.PRODUCER_CREATED,
    ),
    "Subscribe": of(
        st.builds(
            Subscribe,
            request_id=UINT64,
            topic=TOPICS,
            consumer_name=MEMBERS,
            subscription=MEMBERS,
            type=st.sampled_from(SubscriptionType),
            key_filters=st.lists(st.text(), max_size=3).map(tuple),
        ),
        client_messages.SUBSCRIBE,
    ),
    "Subscribed": of(
        st.builds(Subscribed, request_id=UINT64, consumer_id=UINT64, consumer_name=st.text()),
        client_messages.SUBSCRIBED,
    ),
    "Receive": of(st.builds(Receive, request_id=UINT64, consumer_id=UINT64), client_messages.RECEIVE),
    "Acknowledge": Call(
        st.builds(Acknowledge, request_id=UINT64, topic=TOPICS, subscription=MEMBERS, offset=UINT64),
        encode.acknowledge,
        decode.acknowledge,
    ),
    "NegativeAcknowledge": Call(
        st.builds(
            NegativeAcknowledge,
            request_id=UINT64,
            topic=TOPICS,
            subscription=MEMBERS,
            offset=UINT64,
            delay_s=st.none() | st.integers(0, 10**12).map(lambda delay_ms: delay_ms / 1000),
            reason=st.none() | st.text(),
        ),
        encode.negative_acknowledge,
        decode.negative_acknowledge,
    ),
    "echo": Call(UINT64, encode.echo, decode.echo),
    "Lookup": of(st.builds(Lookup, request_id=UINT64, topic=TOPICS), client_messages.LOOKUP),
    "LookupAnswer": of(
        st.builds(
            LookupAnswer,
            request_id=UINT64,
            kind=st.sampled_from(LookupKind),
            connect_url=URLS,
            broker_url=URLS,
            proxy=st.booleans(),
        ),
        client_messages.LOOKUP_ANSWER,
    ),
    "PartitionsAnswer": of(
        st.builds(PartitionsAnswer, request_id=UINT64, partitions=st.lists(TOPICS, max_size=5).map(tuple)),
        client_messages.PARTITIONS_ANSWER,
    ),
    "HealthCheck": of(
        st.builds(HealthCheck, request_id=UINT64, client=st.sampled_from(ClientKind), id=UINT64),
        client_messages.HEALTH_CHECK,
    ),
    "HealthStatus": of(st.sampled_from(HealthStatus), client_messages.HEALTH_STATUS),
    "Authenticate": of(st.builds(Authenticate, api_key=st.text()), client_messages.AUTHENTICATE),
    "token": of(st.text(), client_messages.TOKEN),
}


@pytest.mark.parametrize("name", sorted(CALLS))
@given(data=st.data())
def test_what_one_side_encodes_the_other_decodes(name: str, data: st.DataObject) -> None:
    value = data.draw(CALLS[name].values)
    assert CALLS[name].decode(CALLS[name].encode(value)) == value


@given(message=MESSAGES, offset=UINT64)
def test_consumer_gets_what_the_producer_sent_with_the_offset_stamped(message: OutgoingMessage, offset: int) -> None:
    received = decode.received_message(encode.send_message(message) + encode.stamp_offset(offset))
    assert received == ReceivedMessage(**message._asdict(), offset=offset)


@given(message=MESSAGES)
def test_broker_reads_of_a_message_what_it_goes_by(message: OutgoingMessage) -> None:
    assert decode.send_message(encode.send_message(message)) == SendMessage(
        request_id=message.request_id,
        producer_id=message.producer_id,
        topic=message.topic,
        producer_name=message.producer_name,
        payload_size=len(message.payload),
        routing_key=message.routing_key,
        schema_id=message.schema_id or None,
        schema_version=message.schema_version or None,
    )
