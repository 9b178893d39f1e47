"""Schemas: processor time of one payload of about 1 KiB by format, of parsing, and of a check against 100 versions."""

import base64
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.message_factory import GetMessageClass

from bench.result import Figure, median
from danube.model.schema import CompatibilityMode, SchemaType
from danube.runtime.protoc.compiler import compile_protos
from danube.schema.compatibility import check
from danube.schema.formats import parse
from danube.schema.parsed import ParsedSchema
from danube.schema.protobuf.document import ProtobufDocument
from danube.schema.validation import validator

FIELDS = 10
TEXT = "x" * 80
NUMBER = 10**12
VERSIONS = 100
ROUNDS = 5
CALLS = 2_000
AVRO_TEXT = b"\xa0\x01" + TEXT.encode()


def run(calls: int = CALLS) -> Iterator[Figure]:
    """Validation, parsing, comparison."""
    yield from payload_costs(json_schema(FIELDS), json_payload(), calls)
    yield from payload_costs(avro(FIELDS), avro_payload(), calls)
    yield from payload_costs(protobuf(FIELDS), protobuf_payload(protobuf(FIELDS)), calls)
    yield from payload_costs(parse(SchemaType.STRING, ""), b"x" * 1_024, calls)
    for make in (json_schema, avro, protobuf):
        yield from definition_costs(make)
    began_s = time.perf_counter()
    compile_protos("a.proto", {"a.proto": 'syntax = "proto3"; message M { string a = 1; }'})
    yield Figure("compile Protobuf text in a process", (time.perf_counter() - began_s) * 1e3, "ms", "wall time")


def payload_costs(schema: ParsedSchema, payload: bytes, calls: int) -> Iterator[Figure]:
    """One payload, again and again."""
    kind, checks = schema.kind.value, validator(schema)
    note = f"{len(payload)} bytes"
    yield Figure(f"validate {kind}", cost_us(lambda: checks.check(payload), calls), "us a record", note)
    yield Figure(f"decode {kind}", cost_us(lambda: checks.decode(payload), calls), "us a record", note)


def definition_costs(make: Callable[[int], ParsedSchema]) -> Iterator[Figure]:
    """Versions that gain a field each; the newest is compared with all."""
    earlier = [(version, make(version)) for version in range(1, VERSIONS + 1)]
    new = make(VERSIONS + 1)
    kind = new.kind.value
    yield Figure(f"parse {kind}", cost_us(lambda: make(FIELDS), 50), "us a definition")
    cost = cost_us(lambda: check(CompatibilityMode.FULL_TRANSITIVE, new, earlier), 1)
    yield Figure(f"check {kind} against {VERSIONS} versions", cost / 1e3, "ms", f"{2 * VERSIONS} fields in the newest")


def run_quick() -> Iterator[Figure]:
    """To see that it works."""
    yield from run(20)


def cost_us(work: Callable[[], object], calls: int) -> float:
    """Median processor time of one call."""
    found = []
    for _ in range(ROUNDS):
        began_s = time.process_time()
        for _ in range(calls):
            work()
        found.append((time.process_time() - began_s) / calls * 1e6)
    return median(found)


def json_schema(fields: int) -> ParsedSchema:
    properties: dict[str, Any] = {f"s{index}": {"type": "string", "maxLength": 100} for index in range(fields)}
    properties |= {f"n{index}": {"type": "integer"} for index in range(fields)}
    schema = {"type": "object", "properties": properties, "required": ["s0"], "additionalProperties": False}
    return parse(SchemaType.JSON_SCHEMA, json.dumps(schema))


def json_payload() -> bytes:
    values: dict[str, Any] = {f"s{index}": TEXT for index in range(FIELDS)} | {
        f"n{index}": NUMBER for index in range(FIELDS)
    }
    return json.dumps(values).encode()


def avro(fields: int) -> ParsedSchema:
    parts: list[dict[str, Any]] = [{"name": f"s{index}", "type": "string", "default": ""} for index in range(fields)]
    parts += [{"name": f"n{index}", "type": "long", "default": 0} for index in range(FIELDS)]
    return parse(SchemaType.AVRO, json.dumps({"type": "record", "name": "R", "fields": parts}))


def avro_payload() -> bytes:
    return AVRO_TEXT * FIELDS + _zigzag(NUMBER) * FIELDS


def _zigzag(value: int) -> bytes:
    left, found = value << 1, b""
    while left > 127:
        found += bytes([left & 127 | 128])
        left >>= 7
    return found + bytes([left])


def protobuf(fields: int) -> ParsedSchema:
    file = FileDescriptorProto(name="m.proto", syntax="proto3")
    message = file.message_type.add(name="M")
    for index in range(2 * fields):
        of_text = index % 2 == 0
        kind = FieldDescriptorProto.TYPE_STRING if of_text else FieldDescriptorProto.TYPE_INT64
        name = f"{'s' if of_text else 'n'}{index}"
        message.field.add(name=name, number=index + 1, type=kind, label=FieldDescriptorProto.LABEL_OPTIONAL)
    return parse(SchemaType.PROTOBUF, base64.b64encode(file.SerializeToString()))


def protobuf_payload(schema: ParsedSchema) -> bytes:
    if not isinstance(schema.document, ProtobufDocument):
        raise TypeError(schema.kind)
    message: Any = GetMessageClass(schema.document.pool.FindMessageTypeByName("M"))()
    for field in message.DESCRIPTOR.fields:
        setattr(message, field.name, TEXT if field.name.startswith("s") else NUMBER)
    return bytes(message.SerializeToString())
