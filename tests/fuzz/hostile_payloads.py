"""Schemas and payloads that are made to be expensive: of each kind as many, and as large, as one asks for."""

import json
from collections.abc import Callable, Iterator
from functools import partial
from random import Random
from typing import Any, NamedTuple

from danube.model.schema import SchemaType

Schema = dict[str, Any]
JSON_VALUES: list[Callable[[Random, int], Any]] = [
    lambda random, size: ["".join(random.choices("ab", k=30)) for _ in range(size // 33)],
    lambda random, size: ["".join(random.choices("abé", k=size // 2))],
    lambda _random, size: "a" * size,
    lambda _random, size: ["a" * 14 + "59"] * (size // 20),
    lambda _random, size: [*range(size // 6)],
    lambda random, size: [random.choice([1.5, 1.1e300, 3e-300, 2**63, -1]) for _ in range(size // 9)],
    lambda _random, size: [[*range(15)]] * (size // 50),
    lambda _random, size: [[[0] * 40 + [index] for index in range(15)]] * (size // 1_900),
    lambda _random, size: [{}] * (size // 4),
    lambda _random, size: [{"a": -1.25, "b": [1.5, 2.5]}] * (size // 35),
    lambda _random, size: {f"k{'ab' * 10}{index}": index for index in range(size // 35)},
    lambda _random, size: [{"next": {"next": {"a": 1}}}] * (size // 32),
    lambda _random, size: json.loads("[" * 40 + ",".join(["[]"] * (size // 3)) + "]" * 40),
]
_PATTERNS = (
    "^(a|b|c|aa|bb)*59$", "x$", "[ab]*a[ab]{12}c", "[ab]*a[ab]{100}c", "[ab]*a[ab]{1000}c", ".*a.{20}Z", "^.{1,255}$",
    "(?=.*b)c", "(?=(.*)b)c", r"((?=(a+))a)*\1z", r"(a+)+\1z", "^(?:(?!.*zz)a)*$", r"\B.*\b.*a.*\BZ",
    "^(?=.*[0-9]).{8,}$",
)  # fmt: skip


def json_schema(random: Random, depth: int = 3) -> Schema:
    """A schema whose parts accept most values late."""
    count = random.choice((1, 2, 5, 20))

    def inner() -> Schema:
        return json_schema(random, depth - 1) if depth else {}

    def pattern() -> str:
        return random.choice(_PATTERNS)

    kinds: list[Callable[[], Schema]] = [
        lambda: {"items": inner()},
        lambda: {"anyOf": [{"pattern": f"{pattern()}{index}"} for index in range(count)]},
        lambda: {"not": {"pattern": pattern()}},
        lambda: {"oneOf": [{"type": "object"}, {"type": "array", "items": inner()}, {"minimum": 3.5}]},
        lambda: {"anyOf": [{"items": {"pattern": f"^b{index}"}} for index in range(3 * count)]},
        lambda: {"anyOf": [*[{"items": inner()} for _ in range(3)], {}]},
        lambda: {"allOf": [{"minimum": -number} for number in range(10 * count)]},
        lambda: {"uniqueItems": True, "items": inner()},
        lambda: {"not": {"enum": [index + 0.5 for index in range(50 * count)]}},
        lambda: {"not": {"enum": [{"a": index} for index in range(50 * count)]}},
        lambda: {"not": {"const": [0] * 50 * count}},
        lambda: {"not": {"multipleOf": random.choice([7, 0.01, 1e-300])}},
        lambda: {"dependentRequired": {f"k{index}": ["a"] for index in range(50 * count)}},
        lambda: {"patternProperties": {f"{pattern()}{index}": inner() for index in range(count)}},
        lambda: {"patternProperties": {pattern(): {}}, "additionalProperties": False},
        lambda: {"propertyNames": {"not": {"pattern": pattern()}}, "additionalProperties": inner()},
        lambda: {"properties": {f"k{index}": {} for index in range(100)}, "unevaluatedProperties": inner()},
        lambda: {"contains": inner(), "minContains": 0, "unevaluatedItems": inner()},
        lambda: {"$defs": {"t": {"anyOf": [{"items": {"$ref": "#/$defs/t"}}, inner()]}}, "$ref": "#/$defs/t"},
        lambda: {"if": inner(), "then": inner(), "else": inner()},
        lambda: {"items": {"anyOf": [inner(), inner(), inner()]}},
    ]
    return random.choice(kinds)()


class Binary(NamedTuple):
    """A definition, and payloads of about so many bytes."""

    kind: SchemaType
    definition: str
    payload: Callable[[int], bytes]


def number(value: int) -> bytes:
    """A number of Protobuf."""
    found = b""
    while value > 127:
        found, value = found + bytes([value & 127 | 128]), value >> 7
    return found + bytes([value])


def avro_items(item: bytes, size: int) -> bytes:
    """An array of the same item."""
    count = max(1, size // max(1, len(item)))
    return number(count << 1) + item * count + b"\0"


def _record(name: str, types: list[Any]) -> dict[str, Any]:
    fields = [{"name": f"f{index}", "type": each} for index, each in enumerate(types)]
    return {"type": "record", "name": name, "fields": fields}


def _nested(levels: int) -> dict[str, Any]:
    found: Any = "boolean"
    for level in range(levels):
        found = _record(f"R{level}", [found])
    return found  # type: ignore[no-any-return]


def _within(inner: bytes, levels: int) -> bytes:
    for _ in range(levels):
        inner = b"\x0a" + number(len(inner)) + inner
    return inner


_AVRO: list[tuple[Any, bytes]] = [
    ("boolean", b"\1"),
    (["null", "int"], b"\0"),
    ("string", b"\0"),
    ({"type": "array", "items": "int"}, b"\0"),
    ({"type": "map", "values": "string"}, b"\2\0\0\0"),
    (_record("R", ["null"] * 200 + ["boolean"]), b"\1"),
    (_nested(30), b"\1"),
    (_record("L", [["null", "L"]]), b"\2" * 45 + b"\0"),
    ({"type": "bytes", "logicalType": "decimal", "precision": 4}, b"\0"),
    ("long", b"\xff" * 9 + b"\1"),
    ({"type": "array", "items": "null"}, number(65_000 << 1) + b"\0"),
    (_record("M", [{"type": "map", "values": "null"}] * 20), b"\0" * 20),
]
_MANY = "".join(f"int64 a{index} = 1{index:03d};" for index in range(900))
_PROTO3 = (
    'syntax = "proto3"; message M { repeated M m = 1; map<string, M> k = 2; repeated int32 p = 3;'
    " repeated string r = 5; map<int32, int32> i = 6; oneof o { M a = 8; string z = 9; } %s }"
)
_PROTO2 = 'syntax = "proto2"; message M { repeated M m = 1; required int32 a = 2; required int32 b = 3; }'
_PROTOBUF: list[tuple[str, bytes]] = [
    (_PROTO3 % "", b"\x0a\x00"),
    (_PROTO3 % "", b"\x12\x00"),
    (_PROTO3 % "", b"\x18\x01"),
    (_PROTO3 % "", b"\x2a\x00"),
    (_PROTO3 % "", b"\x42\x00\x4a\x00"),
    (_PROTO3 % "", b"\xf8\x01\x01"),
    (_PROTO3 % "", _within(b"", 95)),
    (_PROTO3 % "", _within(b"\x0a\x00" * 1_000, 90)),
    (_PROTO3 % _MANY, b"\x0a\x00"),
    (_PROTO2, b"\x0a\x00"),
    (_PROTO2, _within(b"\x0a\x00" * 50, 50)),
]


def binaries() -> Iterator[Binary]:
    """Avro and Protobuf: each kind of payload whole, and broken at its end."""
    for end in (b"", b"\7"):
        for items, item in _AVRO:
            definition = json.dumps({"type": "array", "items": items})
            yield Binary(SchemaType.AVRO, definition, _ended(partial(avro_items, item), end))
        for definition, part in _PROTOBUF:
            yield Binary(SchemaType.PROTOBUF, definition, _ended(partial(_repeated, part), end))


def _repeated(part: bytes, size: int) -> bytes:
    return part * max(1, size // len(part))


def _ended(payload: Callable[[int], bytes], end: bytes) -> Callable[[int], bytes]:
    return lambda size: payload(size) + end
