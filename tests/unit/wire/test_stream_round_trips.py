"""Every message of `danube.stream`: encoded by one side, decoded by the other, the same value."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from danube.model.calls.client import OutgoingMessage, SchemaReference
from danube.model.calls.stream import (
    Bounds,
    Fetch,
    FetchedBatch,
    FetchFrom,
    FetchTime,
    ProducerAccess,
    PublishAcknowledged,
    PublishBatch,
    PublishOpen,
    PublishOpened,
    PublishRefused,
    TopicBounds,
)
from danube.model.errors import (
    DamagedDataError,
    InternalError,
    InvalidBatchError,
    InvalidNameError,
    InvalidRequestError,
    StorageUnavailableError,
    UnavailableError,
)
from danube.model.limits.stream import BOUNDS_TIMES_MAX
from danube.model.topic import DispatchStrategy, TopicName
from danube.wire import client_messages, decode, encode
from danube.wire.gen import DanubeStream_pb2

UINT32, UINT64 = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)
TOPIC = TopicName("default", "orders")


@given(st.integers(0, 2**64 - 2), st.binary(max_size=300))
def test_batch(sequence: int, body: bytes) -> None:
    batch = PublishBatch(sequence, body)
    encoded = encode.publish_batch(batch)
    assert decode.publish_request(encoded) == batch
    assert DanubeStream_pb2.PublishRequest.FromString(encoded).batch.body == body


@pytest.mark.parametrize("schema", [None, SchemaReference(subject="s", pinned_version=3)])
def test_opening(schema: SchemaReference | None) -> None:
    opening = PublishOpen(topic=TOPIC, producer_name="p", strategy=DispatchStrategy.RELIABLE, schema=schema)
    assert decode.publish_request(encode.publish_open(opening)) == opening


@given(UINT64, st.sampled_from(ProducerAccess), UINT64)
def test_opening_of_an_exclusive_producer_with_deduplication(key: int, access: ProducerAccess, epoch: int) -> None:
    opening = PublishOpen(
        topic=TOPIC,
        producer_name="p",
        strategy=DispatchStrategy.RELIABLE,
        deduplication_key=key,
        access=access,
        epoch=epoch,
    )
    assert decode.publish_request(encode.publish_open(opening)) == opening


def test_access_that_is_none_is_refused() -> None:
    opening = DanubeStream_pb2.PublishOpen(topic_name=str(TOPIC), producer_name="p", access=9)
    request = DanubeStream_pb2.PublishRequest(open=opening)
    with pytest.raises(InvalidRequestError, match="9 is not a ProducerAccess"):
        decode.publish_request(request.SerializeToString())


@given(UINT64, UINT32, UINT64)
def test_opened_with_deduplication(producer_state: int, batches: int, epoch: int) -> None:
    answer = PublishOpened(
        producer_id=1, window_bytes=2, batch_bytes_max=3, numbering_id=producer_state, batches_max=batches, epoch=epoch
    )
    assert decode.publish_response(encode.publish_opened(answer)) == answer


@given(UINT64, st.lists(UINT64, max_size=20))
def test_acknowledgement(sequence: int, offsets: list[int]) -> None:
    answer = PublishAcknowledged(sequence, tuple(offsets))
    assert decode.publish_response(encode.publish_acknowledged(answer)) == answer


@given(UINT64, UINT64, UINT64)
def test_opened(producer_id: int, window: int, longest: int) -> None:
    answer = PublishOpened(producer_id=producer_id, window_bytes=window, batch_bytes_max=longest)
    assert decode.publish_response(encode.publish_opened(answer)) == answer


def test_refusal_comes_back_as_its_own_class() -> None:
    refused = PublishRefused(7, StorageUnavailableError("the disk is full"))
    back = decode.publish_response(encode.publish_refused(refused))
    assert isinstance(back, PublishRefused)
    assert (back.sequence, type(back.error), str(back.error)) == (7, StorageUnavailableError, "the disk is full")


def test_refusal_by_an_error_that_must_not_cross_the_wire_says_nothing_of_it() -> None:
    back = decode.publish_response(encode.publish_refused(PublishRefused(1, DamagedDataError("/secret/path"))))
    assert isinstance(back, PublishRefused)
    assert (type(back.error), "secret" in str(back.error)) == (InternalError, False)


@pytest.mark.parametrize(("retryable", "kind"), [(True, UnavailableError), (False, InvalidRequestError)])
def test_refusal_with_an_unknown_code_keeps_whether_to_try_again(retryable: bool, kind: type[Exception]) -> None:
    refused = DanubeStream_pb2.PublishRefused(sequence=1, code="OF_TOMORROW", message="m", retryable=retryable)
    back = decode.publish_response(DanubeStream_pb2.PublishResponse(refused=refused).SerializeToString())
    assert isinstance(back, PublishRefused)
    assert type(back.error) is kind


@given(
    st.one_of(UINT64, st.builds(FetchTime, UINT64), st.sampled_from(FetchFrom)),
    st.one_of(st.none(), UINT64),
    st.booleans(),
    UINT32,
)
def test_fetch(start: int | FetchTime | FetchFrom, end: int | None, follow: bool, bytes_max: int) -> None:
    call = Fetch(topic=TOPIC, start=start, end=end, follow=follow, bytes_max=bytes_max)
    assert client_messages.FETCH.decode(client_messages.FETCH.encode(call)) == call


@given(st.lists(st.builds(FetchedBatch, UINT64, UINT32, UINT64, st.binary(max_size=300), UINT32, UINT32), max_size=4))
def test_fetched(batches: list[FetchedBatch]) -> None:
    assert decode.fetched(encode.fetched(batches)) == batches


@given(st.lists(UINT64, max_size=BOUNDS_TIMES_MAX))
def test_bounds(times: list[int]) -> None:
    call = Bounds(topic=TOPIC, append_times_ms=tuple(times))
    assert client_messages.BOUNDS.decode(client_messages.BOUNDS.encode(call)) == call


def test_bounds_of_too_many_times_are_refused() -> None:
    call = Bounds(topic=TOPIC, append_times_ms=(1,) * (BOUNDS_TIMES_MAX + 1))
    with pytest.raises(InvalidRequestError, match="17 times, the limit is 16"):
        client_messages.BOUNDS.decode(client_messages.BOUNDS.encode(call))


@given(UINT64, UINT64, UINT64, st.lists(UINT64, max_size=4))
def test_topic_bounds(topic_id: int, start: int, end: int, offsets: list[int]) -> None:
    answer = TopicBounds(topic_id=topic_id, start_offset=start, end_offset=end, offsets=tuple(offsets))
    assert client_messages.TOPIC_BOUNDS.decode(client_messages.TOPIC_BOUNDS.encode(answer)) == answer


def test_shared_part_names_its_topic() -> None:
    message = OutgoingMessage(0, 1, str(TOPIC), "b", b"", 1, "p")
    assert decode.shared_topic(encode.send_message(message)) == str(TOPIC)
    assert decode.shared_topic(b"") == ""
    with pytest.raises(InvalidBatchError, match="must not have a payload"):
        decode.shared_topic(encode.send_message(message._replace(payload=b"x")))


@pytest.mark.parametrize("request_bytes", [b"", b"\xff", b"\x0a\x00"])
def test_requests_that_say_nothing_are_refused(request_bytes: bytes) -> None:
    with pytest.raises((InvalidRequestError, InvalidNameError)):
        decode.publish_request(request_bytes)
