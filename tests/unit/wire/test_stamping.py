"""What is appended to the stored bytes of a message, as any parser reads it."""

from hypothesis import given
from hypothesis import strategies as st

from danube.wire import decode, encode
from danube.wire.gen.DanubeApi_pb2 import MsgID, StreamMessage

UINT32, UINT64 = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)
MSG_IDS = st.builds(MsgID, producer_id=UINT64, topic_name=st.text(), broker_addr=st.text(), topic_offset=UINT64)
MESSAGES = st.builds(
    StreamMessage,
    request_id=UINT64,
    msg_id=st.none() | MSG_IDS,
    payload=st.binary(),
    publish_time=UINT64,
    producer_name=st.text(),
    subscription_name=st.text(),
    attributes=st.dictionaries(st.text(), st.text(), max_size=3),
    schema_id=st.none() | UINT64,
    schema_version=st.none() | UINT32,
    routing_key=st.none() | st.text(),
)
UNKNOWN_FIELDS = st.sampled_from([b"", b"\xf8\x07\x01", b"\xfa\x07\x03abc"])


@given(message=MESSAGES, unknown=UNKNOWN_FIELDS, offset=UINT64)
def test_stamped_message_is_the_original_with_that_offset(message: StreamMessage, unknown: bytes, offset: int) -> None:
    stored = message.SerializeToString() + unknown
    expected = StreamMessage.FromString(stored)
    expected.msg_id.topic_offset = offset
    assert StreamMessage.FromString(stored + encode.stamp_offset(offset)) == expected


@given(offsets=st.lists(UINT64, min_size=2))
def test_the_last_stamp_counts(offsets: list[int]) -> None:
    stamped = b"".join(map(encode.stamp_offset, offsets))
    assert StreamMessage.FromString(stamped).msg_id.topic_offset == offsets[-1]


def test_stamp_has_at_most_thirteen_bytes() -> None:
    assert len(encode.stamp_offset(2**64 - 1)) == 13


@given(shared=MESSAGES, payload=st.binary(max_size=400), offset=UINT64)
def test_record_of_a_payload_is_the_shared_message_with_it(shared: StreamMessage, payload: bytes, offset: int) -> None:
    record = encode.record_of_payload(shared.SerializeToString(), payload)
    shared.payload = payload
    assert StreamMessage.FromString(record) == shared
    shared.msg_id.topic_offset = offset
    assert decode.received_message(record + encode.stamp_offset(offset)).payload == payload
