"""Payloads against their schemas, hostile ones included: an error names the field, and nothing explodes."""

import io
import json
import time
from typing import Any

import fastavro
import pytest

from danube.model.errors import PayloadInvalidError
from danube.model.limits.schema import SCHEMA_INLINE_STEPS_MAX
from danube.model.schema import SchemaType
from danube.schema.formats import parse
from danube.schema.validation import Validator, validator
from tests.unit.schema.compiling import protobuf

USER: Any = {
    "type": "record",
    "name": "User",
    "fields": [
        {"name": "name", "type": "string"},
        {"name": "age", "type": "int"},
        {"name": "tags", "type": {"type": "array", "items": {"type": "enum", "name": "T", "symbols": ["A", "B"]}}},
        {"name": "more", "type": ["null", "User"]},
    ],
}
CPU_S_MAX = 2.0


def avro(schema: Any) -> Validator:
    return validator(parse(SchemaType.AVRO, json.dumps(schema)))


def json_schema(schema: Any) -> Validator:
    return validator(parse(SchemaType.JSON_SCHEMA, json.dumps(schema)))


def number(value: int) -> bytes:
    """Zig-zag."""
    left, found = (value << 1) ^ (value >> 63), b""
    while left > 127:
        found += bytes([left & 127 | 128])
        left >>= 7
    return found + bytes([left])


def encoded(value: Any, schema: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


@pytest.mark.parametrize(
    ("payload", "place", "reason"),
    [
        (b'{"a": 1}', "/a", "not of type"),
        (b'{"b": [1, "x"]}', "/b/1", "not of type"),
        (b"{", "", "no JSON"),
        (b"\xff", "", "no JSON"),
        (b'{"a": NaN}', "", "no JSON"),
        (b"[" * 100_000, "", "no JSON"),
    ],
)
def test_a_bad_json_payload_is_refused_at_its_field(payload: bytes, place: str, reason: str) -> None:
    checks = json_schema({"properties": {"a": {"type": "string"}, "b": {"items": {"type": "integer"}}}})
    with pytest.raises(PayloadInvalidError, match=reason) as refused:
        checks.check(payload)
    assert refused.value.path == place


@pytest.mark.parametrize("pattern", ["^(a+)+$", "^(?=a)(a+)+$", r"^(?!x)((a+)+)\1$"])
def test_a_pattern_that_explodes_elsewhere_is_bounded(pattern: str) -> None:
    checks = json_schema({"pattern": pattern})
    began_s = time.process_time()
    with pytest.raises(PayloadInvalidError):
        checks.check(json.dumps("a" * 5_000 + "b").encode())
    assert time.process_time() - began_s < CPU_S_MAX


def test_the_first_fault_ends_a_check_of_json() -> None:
    patterns = [{"pattern": f"^(a|b|c|aa|bb)*{number}$"} for number in range(60)]
    checks = json_schema({"items": {"anyOf": patterns}})
    payload = json.dumps(["abc" * 30] * 9_000).encode()
    began_s = time.process_time()
    with pytest.raises(PayloadInvalidError) as refused:
        checks.check(payload)
    assert refused.value.path == "/0"
    assert time.process_time() - began_s < CPU_S_MAX / 4


@pytest.mark.parametrize(
    ("schema", "payload"),
    [
        ({"items": {"enum": [f"x{number}" for number in range(5_000)] + [1]}}, b"[" + b"1," * 300_000 + b"1]"),
        ({"items": {"anyOf": [{"pattern": f"x{number}$"} for number in range(60)]}}, b"[" + b'"abc",' * 9_000 + b"1]"),
        ({"pattern": "[ab]*a[ab]{1000}c"}, b'"' + b"ab" * 500 + b'"'),
        ({"pattern": "(?=(.*)b)c"}, b'"' + b"ab" * 500 + b'"'),
        ({"items": {"uniqueItems": True}}, b"[" + b"[1,2,3,4,5]," * 10_000 + b"[]]"),
        ({"items": {"multipleOf": 1e-300}}, b"[" + b"1e300," * 1_000 + b"1]"),
        ({"items": {"dependentRequired": {f"k{n}": ["a"] for n in range(1_000)}}}, b"[" + b"{}," * 900 + b"1]"),
        ({}, b"[" + b"1," * 500_000 + b"1]"),
    ],
)  # fmt: skip
def test_a_payload_is_too_expensive_for_the_event_loop_by_its_schema_and_its_size(schema: Any, payload: bytes) -> None:
    assert json_schema(schema).steps(payload) > SCHEMA_INLINE_STEPS_MAX


def test_small_payloads_of_ordinary_schemas_are_checked_on_the_event_loop() -> None:
    fields = {f"field{number}": {"type": "string", "pattern": "^[a-z]", "enum": ["a", "b"]} for number in range(20)}
    checks = json_schema({"type": "object", "properties": {**fields, "at": {"pattern": r"^\d{4}-\d{2}-\d{2}$"}}})
    assert checks.steps(json.dumps(dict.fromkeys([*fields, "at"], "2026-11-29" * 5)).encode()) < SCHEMA_INLINE_STEPS_MAX
    assert avro(USER).steps(b"a" * 4_096) < SCHEMA_INLINE_STEPS_MAX


def test_an_ordinary_schema_checks_a_payload_of_a_megabyte() -> None:
    fields = {f"field{number}": {"type": "string", "pattern": "^[a-z]", "enum": ["a", "b"]} for number in range(20)}
    checks = json_schema({"items": {"type": "object", "properties": fields, "required": list(fields)}})
    checks.check(json.dumps([dict.fromkeys(fields, "a")] * 3_000).encode())


def test_avro_payloads_are_checked_and_decoded() -> None:
    value = {"name": "ä", "age": -7, "tags": ["B", "A"], "more": {"name": "", "age": 1, "tags": [], "more": None}}
    payload = encoded(value, USER)
    avro(USER).check(payload)
    assert avro(USER).decode(payload) == value


BAD_AVRO: list[tuple[Any, bytes, str, str]] = [
    (USER, b"", "/", "ends before"),
    (USER, number(2) + b"a", "/", "ends before"),
    (USER, number(1) + b"\xff", "/name", "no UTF-8"),
    (USER, number(0) + number(2**40), "/age", "no int"),
    (USER, number(0) + number(1) + number(2) + number(0) + number(7), "/tags/1", "symbols"),
    (USER, number(0) + number(1) + number(0) + number(2), "/more", "branches"),
    ("string", number(-1), "/", "negative"),
    ("string", number(2**50), "/", "ends before"),
    ("long", b"\xff" * 11 + b"\x01", "/", "64 bits"),
    ("boolean", b"\x02", "/", "0 or 1"),
    ("int", number(1) + b"x", "/", "goes on"),
    ({"type": "array", "items": "null"}, number(2**60) + number(0), "/", "without a byte"),
    ({"type": "array", "items": "int"}, number(2**60) + number(1), "/", "ends before"),
    ({"type": "array", "items": "double"}, number(2**60) + number(1), "/", "ends before"),
    ({"type": "array", "items": "int"}, number(-1) + number(9) + number(1) + number(0), "/", "another length"),
    ({"type": "array", "items": {"type": "fixed", "name": "F", "size": 4}}, number(2**60) + b"ab", "/", "ends before"),
    ({"type": "map", "values": "int"}, number(1) + number(-3), "/0", "negative"),
]


def test_each_bad_avro_payload_is_refused_at_its_field() -> None:
    wrong = []
    for schema, payload, place, reason in BAD_AVRO:
        try:
            avro(schema).check(payload)
        except PayloadInvalidError as error:
            if error.path != place or reason not in error.reason:
                wrong.append(f"{payload!r}: {error.path} {error.reason}")
        else:
            wrong.append(f"{payload!r} is accepted")
    assert wrong == []


def test_an_avro_payload_that_is_nested_without_an_end_never_reaches_the_decoder() -> None:
    level = number(0) + number(1) + number(0) + number(1)
    with pytest.raises(PayloadInvalidError, match="levels"):
        avro(USER).decode(level * 100_000 + number(0))


def test_avro_values_outside_their_logical_type_are_decoded_as_they_are_stored() -> None:
    schema = {"type": "long", "logicalType": "timestamp-millis"}
    assert avro(schema).decode(number(2**62)) == 2**62
    assert avro(schema).decode(number(0)).year == 1970


def test_protobuf_payloads_are_checked_and_decoded() -> None:
    checks = validator(protobuf("message M { string name = 1; int64 n = 2; M more = 3; }"))
    payload = b"\x0a\x02hi\x10\x05\x1a\x03\x0a\x01x"
    checks.check(payload)
    assert checks.decode(payload) == {"name": "hi", "n": "5", "more": {"name": "x"}}
    checks.check(b"\x28\x01")  # a field that it does not know


@pytest.mark.parametrize(
    ("payload", "place", "reason"),
    [
        (b"\x0a\x05hi", "/name", "ends within"),
        (b"\x0a\x01\xff", "/name", "no UTF-8"),
        (b"\x1a\x03\x0a\x01\xff", "/more/name", "no UTF-8"),
        (b"\x10", "/n", "ends within a number"),
        (b"\x10" + b"\xff" * 11, "/n", "64 bits"),
        (b"\x0f", "/name", "form 7"),
    ],
)
def test_a_bad_protobuf_payload_is_refused_at_its_field(payload: bytes, place: str, reason: str) -> None:
    checks = validator(protobuf("message M { string name = 1; int64 n = 2; M more = 3; }"))
    with pytest.raises(PayloadInvalidError, match=reason) as refused:
        checks.check(payload)
    assert refused.value.path == place


def test_a_protobuf_payload_that_is_nested_without_an_end_is_refused() -> None:
    payload = b""
    for _ in range(300):
        size = len(payload)
        payload = b"\x1a" + (bytes([size]) if size < 128 else bytes([size & 127 | 128, size >> 7])) + payload
    with pytest.raises(PayloadInvalidError):
        validator(protobuf("message M { M more = 3; }")).check(payload)


def test_absent_required_fields_are_named() -> None:
    checks = validator(protobuf('syntax = "proto2"; message M { required string a = 1; }'))
    with pytest.raises(PayloadInvalidError, match="required fields are absent: a"):
        checks.check(b"")


def test_one_of_several_messages_is_chosen_by_its_name() -> None:
    parsed = protobuf("package p; message M { string a = 1; } message N { int32 b = 1; }")
    assert parsed.names == ("p.M", "p.N")
    assert validator(parsed, "p.N").decode(b"\x08\x03") == {"b": 3}
    with pytest.raises(PayloadInvalidError, match=r"no message p\.O"):
        validator(parsed, "p.O")
