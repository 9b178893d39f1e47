import pytest
from google.protobuf.unknown_fields import UnknownFieldSet
from hypothesis import given
from hypothesis import strategies as st

from danube.wire import encode
from danube.wire.gen import DanubeApi_pb2
from danube.wire.raw import delimited_size, varint

PAYLOAD = DanubeApi_pb2.StreamMessage.PAYLOAD_FIELD_NUMBER
UINT64 = st.integers(0, 2**64 - 1)


BORDERS = [2**shift + nudge for shift in range(7, 64, 7) for nudge in (-1, 0)]


@given(number=st.integers(1, 2**64 - 1) | st.sampled_from(BORDERS))
def test_numbers_are_written_as_protobuf_writes_them(number: int) -> None:
    assert b"\x08" + varint(number) == DanubeApi_pb2.ReceiveRequest(request_id=number).SerializeToString()


@pytest.mark.parametrize("number", [-1, -(2**70), 2**64, 2**80])
def test_numbers_that_protobuf_has_no_room_for_are_refused(number: int) -> None:
    with pytest.raises(ValueError, match="from 0 to"):
        varint(number)


@given(request_id=UINT64)
def test_echo_reads_as_each_of_the_answers_that_hold_a_request_id_alone(request_id: int) -> None:
    answer = encode.echo(request_id)
    kinds = (DanubeApi_pb2.MessageResponse, DanubeApi_pb2.AckResponse, DanubeApi_pb2.NackResponse)
    assert [kind.FromString(answer).request_id for kind in kinds] == [request_id] * 3


@given(payloads=st.lists(st.binary(max_size=300), max_size=3), name=st.text(), schema_id=UINT64)
def test_the_payload_that_counts_is_measured_wherever_it_stands(
    payloads: list[bytes], name: str, schema_id: int
) -> None:
    message = DanubeApi_pb2.StreamMessage(producer_name=name, schema_id=schema_id).SerializeToString()
    for payload in payloads:
        message = encode.record_of_payload(message, payload) + encode.stamp_offset(schema_id)
    assert delimited_size(message, PAYLOAD) == len(DanubeApi_pb2.StreamMessage.FromString(message).payload)


def test_fields_that_we_do_not_know_are_walked_over() -> None:
    fixed = b"\xf9\x01" + bytes(8) + b"\xfd\x01" + bytes(4)
    group = b"\xf3\x01" + b"\x1a\x02ab" + b"\xf4\x01"
    message = b"\x1a\x05hello" + fixed + group
    assert DanubeApi_pb2.StreamMessage.FromString(message).payload == b"hello"
    assert len(UnknownFieldSet(DanubeApi_pb2.StreamMessage.FromString(message))) == 3
    assert delimited_size(message, PAYLOAD) == 5
