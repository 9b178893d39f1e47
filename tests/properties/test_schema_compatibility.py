"""Compatibility as it is promised: data that one version accepts is read by the other, for random pairs.

`SCHEMA_PAIRS=20000 python -m pytest tests/properties/test_schema_compatibility.py` takes so many pairs of each format.
"""

import io
import json
import os
from random import Random

import fastavro
from avro.compatibility import ReaderWriterCompatibilityChecker, SchemaCompatibilityType
from avro.schema import Schema
from avro.schema import parse as avro_parse
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given, settings
from hypothesis import strategies as st

from danube.model.errors import PayloadInvalidError, SchemaInvalidError
from danube.model.schema import JsonPolicy, SchemaType
from danube.schema.compatibility import differences, rules_of
from danube.schema.differences import Direction, directions
from danube.schema.formats import parse
from danube.schema.json_schema.document import JsonDocument
from danube.schema.parsed import ParsedSchema
from danube.schema.protobuf.document import ProtobufDocument
from danube.schema.validation import validator
from tests.properties import avro_pairs, protobuf_pairs
from tests.properties.json_schema_pairs import filled_in, random_document, random_pair

PAIRS = int(os.environ.get("SCHEMA_PAIRS", "100"))
DOCUMENTS = 12
STRICTER = {"alias_ambiguous", "earlier_alias_ambiguous"}
"""Kinds of Avro that its own library passes, and others do not read."""
FAST = settings.default.max_examples if settings.default else 100
SEEDS = st.integers(0, 2**64)


def examples() -> int:
    """As many as were asked for; few in `make check`."""
    return PAIRS if "SCHEMA_PAIRS" in os.environ else min(PAIRS, 2 * (FAST or 100))


@settings(max_examples=examples())
@given(SEEDS)
def test_documents_of_a_compatible_json_schema_are_read_by_the_other(seed: int) -> None:
    judge_json(Random(seed))


def judge_json(chance: Random) -> frozenset[Direction] | None:
    """One pair; the directions that were promised, None if a schema is refused."""
    old, new = random_pair(chance)
    try:
        one, two = (parse(SchemaType.JSON_SCHEMA, json.dumps(each)) for each in (old, new))
    except SchemaInvalidError:
        return None
    found = differences(one, two)
    fitting = directions(found, rules_of(one, JsonPolicy.STRICT))
    for direction, writer, reader, schema in (
        (Direction.BACKWARD, one, two, old),
        (Direction.FORWARD, two, one, new),
    ):
        if direction in fitting:
            for _ in range(DOCUMENTS):
                document = random_document(chance, schema, schema.get("$defs", {}).get("d"))
                assert_read(writer, reader, document, f"{direction} {found}")
    return fitting


def assert_read(writer: ParsedSchema, reader: ParsedSchema, document: object, why: str) -> None:
    assert isinstance(writer.document, JsonDocument)
    assert isinstance(reader.document, JsonDocument)
    if writer.document.validator.is_valid(document):
        seen = filled_in(reader.document, (reader.document.root,), document)
        assert reader.document.validator.is_valid(seen), (
            f"{why}\nwriter {writer.text}\nreader {reader.text}\ndocument {json.dumps(document)}"
        )


@settings(max_examples=examples())
@given(SEEDS)
def test_values_of_a_compatible_avro_schema_are_read_by_the_other(seed: int) -> None:
    judge_avro(Random(seed))


def judge_avro(chance: Random) -> frozenset[Direction]:
    """One pair: decoded as Avro resolves schemas, and judged as Avro's own library judges."""
    old, new = avro_pairs.random_pair(chance)
    one, two = (parse(SchemaType.AVRO, json.dumps(each)) for each in (old, new))
    found = differences(one, two)
    fitting = directions(found, rules_of(one))
    schemas = [avro_parse(json.dumps(each)) for each in (old, new)]
    for direction, at in ((Direction.BACKWARD, 0), (Direction.FORWARD, 1)):
        why = f"{direction} {found}\nold {json.dumps(old)}\nnew {json.dumps(new)}"
        if not {difference.kind for difference in found} & STRICTER:
            assert (direction in fitting) is library_reads(schemas[1 - at], schemas[at]), why
        if direction in fitting:
            writer, reader = (fastavro.parse_schema(each) for each in ((old, new) if at == 0 else (new, old)))
            for _ in range(DOCUMENTS // 3):
                encoded = io.BytesIO()
                fastavro.schemaless_writer(encoded, writer, avro_pairs.random_value(chance, (old, new)[at]))
                validator((one, two)[at]).check(encoded.getvalue())
                encoded.seek(0)
                fastavro.schemaless_reader(encoded, writer, reader)
    return fitting


def library_reads(reader: Schema, writer: Schema) -> bool:
    got = ReaderWriterCompatibilityChecker().get_compatibility(reader, writer)  # type: ignore[no-untyped-call]
    return got.compatibility is SchemaCompatibilityType.compatible


@settings(max_examples=examples())
@given(SEEDS)
def test_messages_of_a_compatible_protobuf_definition_are_read_by_the_other(seed: int) -> None:
    judge_protobuf(Random(seed))


def judge_protobuf(chance: Random) -> frozenset[Direction] | None:
    """One pair; None if a definition is refused."""
    files = protobuf_pairs.random_pair(chance, "p")
    try:
        one, two = (parse(SchemaType.PROTOBUF, protobuf_pairs.encoded(file)) for file in files)
    except SchemaInvalidError:
        return None
    found = differences(one, two)
    fitting = directions(found, rules_of(one))
    for direction, writer, reader in ((Direction.BACKWARD, one, two), (Direction.FORWARD, two, one)):
        if direction in fitting:
            for _ in range(DOCUMENTS // 3):
                payload = protobuf_payload(chance, writer)
                try:
                    validator(reader).check(payload)
                except PayloadInvalidError as error:
                    raise AssertionError(f"{direction} {found}\n{files[0]}\n{files[1]}\n{payload!r}") from error
    return fitting


def protobuf_payload(chance: Random, writer: ParsedSchema) -> bytes:
    assert isinstance(writer.document, ProtobufDocument)
    message = GetMessageClass(writer.document.pool.FindMessageTypeByName(writer.names[0]))()
    return bytes(protobuf_pairs.fill(chance, message).SerializeToString())
