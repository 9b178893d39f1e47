import json

import pytest

from danube.cli.render import json_line, raw_line, text_line
from danube.model.calls.client import ReceivedMessage


def message(payload: bytes, **fields: object) -> ReceivedMessage:
    plain = ReceivedMessage(3, 2**62 + 1, "/default/t", "http://b:1", 7, payload, 1_000, "p")
    return plain._replace(**fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("payload", [b"", b"text", b"\x00\xff\r", b"two\nlines"])
def test_raw_is_the_payload_and_a_newline(payload: bytes) -> None:
    assert raw_line(message(payload)) == payload + b"\n"


def test_a_line_for_people_names_topic_offset_key_and_attributes() -> None:
    line = text_line(message(b"hello", routing_key="k1", attributes={"b": "2", "a": "1"}))
    assert line == b"/default/t  offset=7  key=k1  a=1  b=2  hello\n"


def test_what_a_terminal_could_take_for_a_command_is_escaped_everywhere() -> None:
    line = text_line(message(b"a\x1b[31m\n\xff", attributes={"k\x07": "v\r"}))
    assert line == b"/default/t  offset=7  k\\x07=v\\r  a\\x1b[31m\\n\\xff\n"


def test_letters_of_any_script_stay_as_they_are() -> None:
    assert text_line(message("Grüße 你好".encode())).endswith("Grüße 你好\n".encode())


def test_json_is_one_object_a_line_with_ids_as_strings() -> None:
    line = json_line(message(b'{"x":\n1}', schema_id=5, schema_version=2, attributes={"k": "v"}))
    assert line.count(b"\n") == 1
    assert json.loads(line) == {
        "topic": "/default/t",
        "offset": 7,
        "producer_name": "p",
        "producer_id": str(2**62 + 1),
        "request_id": "3",
        "publish_time_ms": 1_000,
        "routing_key": None,
        "schema_id": "5",
        "schema_version": 2,
        "attributes": {"k": "v"},
        "payload": '{"x":\n1}',
        "payload_encoding": "utf-8",
    }


def test_json_gives_bytes_that_are_no_text_in_base64() -> None:
    row = json.loads(json_line(message(b"\xff\x00")))
    assert (row["payload"], row["payload_encoding"]) == ("/wA=", "base64")
