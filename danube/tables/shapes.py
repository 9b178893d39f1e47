"""Definitions of the schema registry -> types of Arrow, and values in these types. Pure.

A shape reads a decoded value; what does not fit its type is null. What has no type of its own, such as a union of two
records, is a text of JSON.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any, TypeAlias

import pyarrow as pa  # type: ignore[import-untyped]

from danube.model.errors import UnsupportedError
from danube.model.schema import SchemaType
from danube.model.untrusted_json import decode_json

Kind: TypeAlias = Any  # pyarrow has no types
_DEPTH_MAX = 20
_DECIMAL_DIGITS_MAX = 38


@dataclass(frozen=True, slots=True)
class Shape:
    """One type, and the reading of a decoded value as one of it."""

    arrow: Kind
    read: Callable[[Any], Any]


def shape_of(kind: SchemaType, definition: str) -> Shape:
    """The type of the values of a schema. Raises UnsupportedError for formats without one."""
    match kind:
        case SchemaType.AVRO:
            return _avro(decode_json(definition), {}, 0)
        case SchemaType.JSON_SCHEMA:
            return _json(decode_json(definition), 0)
        case SchemaType.STRING:
            return _TEXT
        case _:
            raise UnsupportedError(
                f"Avro, JSON Schema and text are decoded, and this topic has {kind.value}: read the column value"
            )


def _plain(arrow: Kind, of: type | tuple[type, ...], low: int = 0) -> Shape:
    """A type of one value; whole numbers of `low` bits have bounds."""

    def read(value: Any) -> Any:  # noqa: ANN401 - a decoded value
        if not isinstance(value, of) or (isinstance(value, bool) and of is not bool):
            return None
        return value if not low or -(2 ** (low - 1)) <= value < 2 ** (low - 1) else None

    return Shape(arrow, read)


def _float(value: Any) -> float | None:  # noqa: ANN401 - as above
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _as_json(value: Any) -> str | None:  # noqa: ANN401 - as above
    return None if value is None else json.dumps(value, ensure_ascii=False, default=str)


_TEXT = _plain(pa.string(), str)
_JSON = Shape(pa.string(), _as_json)
_BYTES = _plain(pa.binary(), bytes)
_BOOL = _plain(pa.bool_(), bool)
_INT = _plain(pa.int32(), int, 32)
_LONG = _plain(pa.int64(), int, 64)
_DOUBLE = Shape(pa.float64(), _float)
_TIME = _plain(pa.timestamp("us", tz="UTC"), datetime)
_LOCAL_TIME = _plain(pa.timestamp("us"), datetime)
_AVRO: Mapping[str, Shape] = {
    "string": _TEXT,
    "bytes": _BYTES,
    "boolean": _BOOL,
    "int": _INT,
    "long": _LONG,
    "float": Shape(pa.float32(), _float),
    "double": _DOUBLE,
}
_LOGICAL: Mapping[tuple[str, str], Shape] = {
    ("int", "date"): _plain(pa.date32(), date),
    ("long", "timestamp-millis"): _TIME,
    ("long", "timestamp-micros"): _TIME,
    ("long", "local-timestamp-millis"): _LOCAL_TIME,
    ("long", "local-timestamp-micros"): _LOCAL_TIME,
    ("string", "uuid"): Shape(pa.string(), lambda value: None if value is None else str(value)),
    ("int", "time-millis"): Shape(pa.string(), lambda value: None if value is None else str(value)),
    ("long", "time-micros"): Shape(pa.string(), lambda value: None if value is None else str(value)),
}
_JSON_TYPES: Mapping[str, Shape] = {
    "string": _TEXT, "boolean": _BOOL, "integer": _LONG, "number": _DOUBLE,
}  # fmt: skip


def _avro(document: Any, named: dict[str, Any], depth: int) -> Shape:  # noqa: ANN401 - JSON
    if depth > _DEPTH_MAX:  # of a type that holds itself
        return _JSON
    if isinstance(document, list):
        rest = [each for each in document if each != "null"]
        return _avro(rest[0], named, depth + 1) if len(rest) == 1 else _JSON
    if isinstance(document, str):
        return _AVRO.get(document) or (_avro(named[document], named, depth + 1) if document in named else _JSON)
    return _avro_complex(document, named, depth + 1)


def _avro_complex(document: dict[str, Any], named: dict[str, Any], depth: int) -> Shape:
    kind = document["type"]
    if "name" in document:
        named[document["name"]] = document
    if document.get("logicalType") == "decimal":
        return _decimal(document)
    match kind:
        case "record":
            return _struct({each["name"]: _avro(each["type"], named, depth) for each in document["fields"]})
        case "array":
            return _array(_avro(document["items"], named, depth))
        case "map":
            return _map(_avro(document["values"], named, depth))
        case "enum" | "fixed":
            return _TEXT if kind == "enum" else _BYTES
        case str():
            return _LOGICAL.get((kind, document.get("logicalType", ""))) or _avro(kind, named, depth)
    return _avro(kind, named, depth)


def _decimal(document: Mapping[str, Any]) -> Shape:
    digits, scale = min(int(document["precision"]), _DECIMAL_DIGITS_MAX), int(document.get("scale", 0))
    return _plain(pa.decimal128(digits, scale), Decimal)


def _json(document: Any, depth: int) -> Shape:  # noqa: ANN401 - JSON
    if not isinstance(document, dict) or depth > _DEPTH_MAX or {"$ref", "anyOf", "oneOf", "allOf"} & document.keys():
        return _JSON
    kinds = document.get("type")
    kinds = [each for each in (kinds if isinstance(kinds, list) else [kinds]) if each != "null"]
    kind = kinds[0] if len(kinds) == 1 else None
    properties, others = document.get("properties"), document.get("additionalProperties")
    if kind == "object" and properties:
        return _struct({name: _json(each, depth + 1) for name, each in properties.items()})
    if kind == "object" and isinstance(others, dict):
        return _map(_json(others, depth + 1))
    if kind == "array" and isinstance(document.get("items"), dict):
        return _array(_json(document["items"], depth + 1))
    return _JSON_TYPES.get(str(kind), _JSON)


def _struct(fields: Mapping[str, Shape]) -> Shape:
    def read(value: Any) -> Any:  # noqa: ANN401 - as above
        if not isinstance(value, dict):
            return None
        return {name: each.read(value.get(name)) for name, each in fields.items()}

    return Shape(pa.struct([(name, each.arrow) for name, each in fields.items()]), read)


def _array(items: Shape) -> Shape:
    def read(value: Any) -> Any:  # noqa: ANN401 - as above
        return [items.read(each) for each in value] if isinstance(value, list) else None

    return Shape(pa.list_(items.arrow), read)


def _map(values: Shape) -> Shape:
    def read(value: Any) -> Any:  # noqa: ANN401 - as above
        return [(str(key), values.read(each)) for key, each in value.items()] if isinstance(value, dict) else None

    return Shape(pa.map_(pa.string(), values.arrow), read)
