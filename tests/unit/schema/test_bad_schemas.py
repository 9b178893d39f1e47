"""Definitions that are refused, each with its place and a reason; nothing outside is read or fetched for them."""

import base64
import json
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto

from danube.model.errors import SchemaInvalidError, UnsupportedError
from danube.model.limits.schema import SCHEMA_BYTES_MAX
from danube.model.schema import SchemaType
from danube.schema.compatibility import differences
from danube.schema.formats import parse
from danube.schema.json_schema.document import JsonDocument

JSON, AVRO, PROTOBUF = SchemaType.JSON_SCHEMA, SchemaType.AVRO, SchemaType.PROTOBUF
DOUBLED: dict[str, Any] = {f"a{level}": {"allOf": [{"$ref": f"#/$defs/a{level + 1}"}] * 2} for level in range(20)}


def record(*fields: Any) -> str:
    return json.dumps({"type": "record", "name": "R", "fields": [*fields]})


def proto(*fields: FieldDescriptorProto, imports: tuple[str, ...] = ()) -> str:
    message = DescriptorProto(name="M", field=fields)
    file = FileDescriptorProto(name="m.proto", dependency=imports, message_type=[message])
    return base64.b64encode(file.SerializeToString()).decode()


def text_field(name: str, number: int) -> FieldDescriptorProto:
    return FieldDescriptorProto(name=name, number=number, type=FieldDescriptorProto.TYPE_STRING)


REFUSED: list[tuple[SchemaType, str | bytes, str, str]] = [
    # format, definition, place, part of the reason
    (JSON, "{", "#", "no JSON"),
    (JSON, b"\xff", "", "no UTF-8"),
    (JSON, "[]", "#", "is an object"),
    (JSON, '{"a":' * 100 + "1" + "}" * 100, "#", "levels"),
    (JSON, json.dumps({"type": "text"}), "#/type", "not valid"),
    (JSON, json.dumps({"enum": []}), "#/enum", "accepts nothing"),
    (JSON, json.dumps({"$ref": "http://127.0.0.1:9/a.json"}), "#/$ref", "never fetched"),
    (JSON, json.dumps({"$ref": "file:///etc/hostname"}), "#/$ref", "never fetched"),
    (JSON, json.dumps({"properties": {"a": {"$ref": "#/$defs/none"}}}), "#/properties/a/$ref", "no schema at"),
    (JSON, json.dumps({"$ref": "#none"}), "#/$ref", "no anchor"),
    (JSON, json.dumps({"$ref": "#"}), "#", "refers to itself"),
    (JSON, json.dumps({"$schema": "http://127.0.0.1:9/own"}), "#/$schema", "none of the drafts"),
    (JSON, json.dumps({"$ref": "#/$defs/a0", "$defs": {**DOUBLED, "a20": {}}}), "#", "more than 1000 times"),
    (JSON, json.dumps({"pattern": "(((a{1000}){1000}){1000})"}), "#/pattern", "regex"),
    (JSON, json.dumps({"pattern": "("}), "#/pattern", "regex"),
    (JSON, json.dumps({"properties": {"a": {"type": "string", "default": 1}}}), "#/properties/a/default", "default"),
    (AVRO, "{", "/", "no JSON"),
    (AVRO, "number", "/", "no JSON"),
    (AVRO, '"number"', "", "neither a type"),
    (AVRO, record({"name": "a", "type": "x.Unknown"}), "/fields/0/type", "neither a type"),
    (AVRO, record({"name": "a", "type": "int", "default": "1"}), "/fields/0/default", "no int"),
    (AVRO, record({"name": "a", "type": "int", "default": 2**40}), "/fields/0/default", "no int"),
    (AVRO, record({"name": "a", "type": ["null", "int"], "default": "x"}), "/fields/0/default", "branches"),
    (AVRO, record({"name": "a", "type": "int"}, {"name": "a", "type": "int"}), "/fields/1", "twice"),
    (AVRO, record({"name": "a-b", "type": "int"}), "/fields/0/name", "no name"),
    (AVRO, '{"type":"enum","name":"E","symbols":[]}', "/symbols", "at least one"),
    (AVRO, '{"type":"enum","name":"E","symbols":["A","A"]}', "/symbols", "twice"),
    (AVRO, '{"type":"enum","name":"E","symbols":["A"],"default":"B"}', "/default", "none of the symbols"),
    (AVRO, '{"type":"fixed","name":"F","size":0}', "/size", "1 to"),
    (AVRO, '{"type":"fixed","name":"F","size":true}', "/size", "1 to"),
    (AVRO, '["int","int"]', "/1", "twice"),
    (AVRO, "[]", "", "accepts nothing"),
    (AVRO, '["int",["string"]]', "/1", "no union itself"),
    (AVRO, '{"type":"array","items":' * 70 + '"int"' + "}" * 70, "", "levels"),
    (PROTOBUF, proto(text_field("a", 1), text_field("b", 1)), "m.proto", "duplicate field number"),
    (PROTOBUF, proto(text_field("a", 0)), "m.proto", ""),
    (PROTOBUF, proto(imports=("other.proto",)), "m.proto", "in no reference"),
    (PROTOBUF, proto(imports=("../../etc/hostname",)), "m.proto", "in no reference"),
    (PROTOBUF, base64.b64encode(FileDescriptorProto(name="m.proto").SerializeToString()), "m.proto", "defines nothing"),
    (SchemaType.BYTES, "x" * (SCHEMA_BYTES_MAX + 1), "", "longer than"),
]


def test_each_bad_definition_is_refused_with_place_and_reason() -> None:
    wrong = []
    for kind, definition, place, reason in REFUSED:
        try:
            parse(kind, definition)
        except SchemaInvalidError as error:
            if place not in error.path or reason not in error.reason:
                wrong.append(f"{definition[:80]!r}: {error.path!r} {error.reason!r}")
        else:
            wrong.append(f"{definition[:80]!r} is accepted")
    assert wrong == []


def test_a_schema_that_doubles_its_work_gets_a_bound_on_the_depth_of_payloads() -> None:
    twice = {"$ref": "#/$defs/n", "$defs": {"n": {"properties": {"a": {"allOf": [{"$ref": "#/$defs/n"}] * 2}}}}}
    once = {
        "$ref": "#/$defs/n",
        "$defs": {"n": {"properties": {"a": {"$ref": "#/$defs/n"}, "b": {"$ref": "#/$defs/n"}}}},
    }
    depths = []
    for schema in (twice, once):
        document = parse(JSON, json.dumps(schema)).document
        assert isinstance(document, JsonDocument)
        depths.append(document.payload_depth_max)
    assert depths == [8, 64]


def doubled_records(levels: int) -> str:
    """Records without a byte, each with two of the one before."""
    fields: list[Any] = [{"name": "f0", "type": {"type": "record", "name": "R0", "fields": []}}]
    for level in range(1, levels):
        inner = [{"name": name, "type": f"R{level - 1}"} for name in ("a", "b")]
        fields.append({"name": f"f{level}", "type": {"type": "record", "name": f"R{level}", "fields": inner}})
    return record(*fields)


def test_records_that_double_each_other_are_refused() -> None:
    with pytest.raises(SchemaInvalidError, match="parts"):
        parse(AVRO, doubled_records(40))
    parse(AVRO, doubled_records(10))


def test_long_chains_of_references_end_without_a_crash() -> None:
    def chain(word: str) -> str:
        levels: dict[str, Any] = {
            f"n{at}": {"properties": {"a": {"$ref": f"#/$defs/n{at + 1}"}}} for at in range(3_000)
        }
        return json.dumps({"$ref": "#/$defs/n0", "$defs": {**levels, "n3000": {"type": word}}})

    one, two = parse(JSON, chain("string")), parse(JSON, chain("integer"))
    assert [difference.kind for difference in differences(one, two)] == ["too_complex"]
    with pytest.raises(SchemaInvalidError, match="levels"):
        given = {f"r{at}": record({"name": "a", "type": f"r{at + 1}"}).replace('"R"', f'"r{at}"') for at in range(200)}
        parse(AVRO, '"r0"', given)


def test_protobuf_text_needs_a_compiler_of_the_edge() -> None:
    with pytest.raises(UnsupportedError, match="base64"):
        parse(PROTOBUF, 'syntax = "proto3"; message M {}')


def test_imports_in_a_circle_are_refused() -> None:
    other = FileDescriptorProto(name="other.proto", dependency=["m.proto"])
    given = {"other.proto": base64.b64encode(other.SerializeToString() + b"").decode()}
    given["m.proto"] = proto(imports=("other.proto",))
    with pytest.raises(SchemaInvalidError, match="imports itself"):
        parse(PROTOBUF, proto(imports=("other.proto",)), given)


def test_references_have_bounds_on_number_and_names() -> None:
    with pytest.raises(SchemaInvalidError, match="references"):
        parse(JSON, "{}", {f"r{index}": "{}" for index in range(300)})
    with pytest.raises(SchemaInvalidError, match="name"):
        parse(JSON, "{}", {"": "{}"})
