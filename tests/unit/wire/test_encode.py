"""What official clients insist on in what we send."""

import pytest

from danube.model.calls.client import (
    Authenticate,
    CreateProducer,
    LookupAnswer,
    LookupKind,
    NegativeAcknowledge,
    SchemaReference,
)
from danube.model.topic import DispatchStrategy, TopicName
from danube.wire import client_messages, encode
from danube.wire.gen import DanubeApi_pb2 as api

TOPIC = TopicName("default", "t")


def lookup_answer(connect_url: str, broker_url: str) -> LookupAnswer:
    return LookupAnswer(
        request_id=1, kind=LookupKind.CONNECT, connect_url=connect_url, broker_url=broker_url, proxy=False
    )


@pytest.mark.parametrize("url", ["", "127.0.0.1:6650", "localhost"])
def test_lookup_answer_without_full_urls_is_never_sent(url: str) -> None:
    good = "http://127.0.0.1:6650"
    for answer in (lookup_answer(url, good), lookup_answer(good, url)):
        with pytest.raises(ValueError, match="http://"):
            client_messages.LOOKUP_ANSWER.encode(answer)


def test_lookup_answer_sets_its_type_and_both_urls() -> None:
    message = api.TopicLookupResponse.FromString(
        client_messages.LOOKUP_ANSWER.encode(lookup_answer("http://c:1", "https://b:2"))
    )
    assert (message.response_type, message.connect_url, message.broker_url) == (1, "http://c:1", "https://b:2")


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (SchemaReference(subject="s"), api.SchemaReference(subject="s", use_latest=True)),
        (SchemaReference(subject="s", pinned_version=3), api.SchemaReference(subject="s", pinned_version=3)),
        (SchemaReference(subject="s", min_version=3), api.SchemaReference(subject="s", min_version=3)),
    ],
)
def test_schema_reference_says_which_version(schema: SchemaReference, expected: api.SchemaReference) -> None:
    call = CreateProducer(
        request_id=1, topic=TOPIC, producer_name="p", strategy=DispatchStrategy.RELIABLE, schema=schema
    )
    assert api.ProducerRequest.FromString(client_messages.CREATE_PRODUCER.encode(call)).schema_ref == expected


def test_nack_without_a_delay_leaves_the_field_out() -> None:
    call = NegativeAcknowledge(request_id=1, topic=TOPIC, subscription="s", offset=0)
    message = api.NackRequest.FromString(encode.negative_acknowledge(call))
    assert not message.HasField("delay_ms")
    assert not message.HasField("reason")


def test_nack_delay_is_sent_in_milliseconds() -> None:
    call = NegativeAcknowledge(request_id=1, topic=TOPIC, subscription="s", offset=0, delay_s=1.5)
    assert api.NackRequest.FromString(encode.negative_acknowledge(call)).delay_ms == 1500


def test_api_key_does_not_show_in_a_log() -> None:
    assert "secret" not in repr(Authenticate(api_key="secret"))
