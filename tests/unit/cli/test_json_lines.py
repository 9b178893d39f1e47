"""JSON lines to send: as `danube consume -o json` writes them, and nothing else."""

import pytest

from danube.cli.arguments import first_message
from danube.cli.json_lines import LineMessage, message_of_line
from danube.cli.render import json_line
from danube.cli.written_schema import PLAIN, WrittenSchema
from danube.model.calls.client import ReceivedMessage
from danube.model.calls.stream import FetchFrom
from danube.model.errors import InvalidRequestError


@pytest.mark.parametrize("payload", [b"", b"hello", "größe".encode(), b"\xff\x00"])
def test_what_consume_writes_can_be_sent_again(payload: bytes) -> None:
    received = ReceivedMessage(
        request_id=1, producer_id=2, topic="/default/orders", broker_addr="", offset=4, payload=payload,
        publish_time_ms=2**60, producer_name="p", attributes={"a": "1"}, routing_key="k",
        schema_id=None, schema_version=None,
    )  # fmt: skip
    assert message_of_line(json_line(received)) == LineMessage(payload, {"a": "1"}, "k")


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (b"hello", "is no JSON"),
        (b"[]", 'has no "payload"'),
        (b'{"payload": 1}', 'has no "payload"'),
        (b'{"payload": "x", "atributes": {}}', "unknown field 'atributes'"),
        (b'{"payload": "x", "attributes": {"a": 1}}', "an object of texts"),
        (b'{"payload": "x", "routing_key": 1}', '"routing_key"'),
        (b'{"payload": "!", "payload_encoding": "base64"}', "is no base64"),
    ],
)
def test_a_line_that_is_no_message_is_refused_with_its_cause(line: bytes, told: str) -> None:
    with pytest.raises(InvalidRequestError, match=told):
        message_of_line(line)


def test_a_payload_that_its_schema_has_encoded_is_sent_as_it_is_and_never_encoded_twice() -> None:
    received = ReceivedMessage(
        request_id=1, producer_id=2, topic="/default/orders", broker_addr="", offset=4, payload=b"\x0e",
        publish_time_ms=1, producer_name="p", attributes={}, routing_key=None, schema_id=2**60, schema_version=3,
    )  # fmt: skip
    encoded = message_of_line(json_line(received, {"id": 7}))
    assert encoded == LineMessage(b"\x0e", written_with=(str(2**60), 3))
    same = WrittenSchema("orders", 3, 2**60, bytes.upper)
    assert same.of_line(encoded) == PLAIN.of_line(encoded) == b"\x0e"
    assert same.of_line(message_of_line(b'{"payload": "x"}')) == b"X"
    with pytest.raises(InvalidRequestError, match=f"version 3 of schema {2**60}, and is to be sent with version 4"):
        WrittenSchema("orders", 4, 2**60, bytes.upper).of_line(encoded)


def test_a_start_is_for_reading_without_a_subscription() -> None:
    assert first_message(None, "/default/t", None) is FetchFrom.EARLIEST
    assert first_message("7", "/default/t", None) == 7
    with pytest.raises(InvalidRequestError, match="create-subscription /default/t -s mine --start latest"):
        first_message("latest", "/default/t", "mine")
