"""Definitions as types of Spark and Arrow: values that fit are there, others are null."""

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pytest

from danube.model.errors import UnsupportedError
from danube.model.schema import SchemaType
from danube.tables.shapes import shape_of
from spark_analytics.source.ddl import type_ddl

AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "here", "type": {"type": "long", "logicalType": "local-timestamp-millis"}},
        {"name": "exactly", "type": {"type": "long", "logicalType": "local-timestamp-micros"}},
        {"name": "day", "type": ["null", {"type": "int", "logicalType": "date"}]},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}},
        {"name": "before", "type": ["null", "State"]},
        {"name": "tags", "type": {"type": "map", "values": "string"}},
        {"name": "lines", "type": {"type": "array", "items": {
            "type": "record", "name": "Line", "fields": [{"name": "n", "type": "int"}]}}},
        {"name": "any", "type": ["int", "string"]},
    ],
}  # fmt: skip
AT = datetime(2026, 3, 8, 2, 30)  # noqa: DTZ001 - a local time, which no clock of New York ever showed
ORDER = {
    "id": 7, "at": datetime(2026, 1, 2, tzinfo=UTC),
    "here": AT, "exactly": AT + timedelta(microseconds=1), "day": date(2026, 1, 2), "price": Decimal("1.50"),
    "state": "NEW",
    "before": None, "tags": {"a": "b"}, "lines": [{"n": 1}, {"n": 2}], "any": "x",
}  # fmt: skip
JSON = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "name": {"type": ["string", "null"]},
        "prices": {"type": "array", "items": {"type": "number"}},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "other": {"$ref": "#/definitions/x"},
    },
}


def as_column(kind: SchemaType, definition: Any, *values: Any) -> list[Any]:
    shape = shape_of(kind, json.dumps(definition))
    found: list[Any] = pa.array([shape.read(value) for value in values], type=shape.arrow).to_pylist()
    return found


def test_avro_values_keep_their_types() -> None:
    shape = shape_of(SchemaType.AVRO, json.dumps(AVRO))
    assert type_ddl(shape.arrow) == (
        "STRUCT<`id`: BIGINT, `at`: TIMESTAMP, `here`: TIMESTAMP_NTZ, `exactly`: TIMESTAMP_NTZ, `day`: DATE,"
        " `price`: DECIMAL(9, 2), `state`: STRING, `before`: STRING,"
        " `tags`: MAP<STRING, STRING>, `lines`: ARRAY<STRUCT<`n`: INT>>, `any`: STRING>"
    )
    (found,) = as_column(SchemaType.AVRO, AVRO, ORDER)
    assert found == {**ORDER, "tags": [("a", "b")], "any": '"x"'}


def test_json_values_that_do_not_fit_are_null_where_they_do_not() -> None:
    values = [
        {"id": 1, "name": None, "prices": [1, 2.5], "labels": {"a": "b"}, "other": {"x": 1}, "more": 1},
        {"id": "1", "name": 5, "prices": 1, "labels": [], "other": None},
        {"id": 2**63, "name": "n"},
        "no object",
    ]
    assert as_column(SchemaType.JSON_SCHEMA, JSON, *values) == [
        {"id": 1, "name": None, "prices": [1.0, 2.5], "labels": [("a", "b")], "other": '{"x": 1}'},
        {"id": None, "name": None, "prices": None, "labels": None, "other": None},
        {"id": None, "name": "n", "prices": None, "labels": None, "other": None},
        None,
    ]


def test_a_type_that_holds_itself_ends_in_text_and_protobuf_is_refused() -> None:
    node = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}
    assert "STRING" in type_ddl(shape_of(SchemaType.AVRO, json.dumps(node)).arrow)
    with pytest.raises(UnsupportedError, match="this topic has protobuf"):
        shape_of(SchemaType.PROTOBUF, 'syntax = "proto3";')
