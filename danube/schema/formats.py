"""Definitions of all formats: the one way in which text becomes a schema."""

from collections.abc import Mapping

from danube.model.errors import SchemaInvalidError
from danube.model.limits.schema import SCHEMA_BYTES_MAX, SCHEMA_NAME_CHARS_MAX, SCHEMA_REFERENCES_MAX
from danube.model.schema import SchemaType
from danube.schema.avro.document import parse_avro
from danube.schema.json_schema.document import parse_json_schema
from danube.schema.json_schema.keywords import DIALECT_7, DIALECT_2020
from danube.schema.parsed import ParsedSchema
from danube.schema.protobuf.document import ProtoCompiler, parse_protobuf
from danube.schema.simple import SIMPLE, parse_simple


def parse(
    kind: SchemaType,
    definition: bytes | str,
    references: Mapping[str, str] | None = None,
    *,
    compile_proto: ProtoCompiler | None = None,
    dialect: str = DIALECT_2020,
) -> ParsedSchema:
    """Read a definition with all that it refers to, by name; those of its references are among them.

    `compile_proto` is asked for Protobuf text alone; `danube/runtime/protoc/compiler.py` has it, and it blocks.
    `dialect` is that of a JSON Schema that names none.
    Names are what the definition says: a full name of Avro, an import of Protobuf, an address of JSON Schema.
    Raises SchemaInvalidError with place and reason, MissingLibraryError if a library is not installed.
    """
    text = _text(definition, "")
    given = {name: _text(other, name) for name, other in (references or {}).items()}
    _check_bounds(text, given)
    if kind in SIMPLE:
        return parse_simple(kind, text)
    if kind is SchemaType.JSON_SCHEMA:
        return parse_json_schema(text, given, dialect)
    if kind is SchemaType.AVRO:
        return parse_avro(text, given)
    return parse_protobuf(text, given, compile_proto)


def dialect_of(*, as_confluent: bool) -> str:
    """Draft of JSON Schemas that name none: Confluent's clients mean draft 7."""
    return DIALECT_7 if as_confluent else DIALECT_2020


def _text(definition: bytes | str, place: str) -> str:
    if isinstance(definition, str):
        return definition
    try:
        return definition.decode()
    except UnicodeDecodeError as error:
        raise SchemaInvalidError(f"byte {error.start} is no UTF-8: send the definition as text", place) from None


def _check_bounds(text: str, given: Mapping[str, str]) -> None:
    if len(given) > SCHEMA_REFERENCES_MAX:
        raise SchemaInvalidError(f"it has {len(given)} references, and {SCHEMA_REFERENCES_MAX} are the most")
    if any(not 0 < len(name) <= SCHEMA_NAME_CHARS_MAX for name in given):
        raise SchemaInvalidError(f"a reference's name has 1 to {SCHEMA_NAME_CHARS_MAX} characters")
    if sum(len(each.encode(errors="surrogatepass")) for each in (text, *given.values())) > SCHEMA_BYTES_MAX:
        raise SchemaInvalidError(f"with its references it is longer than {SCHEMA_BYTES_MAX} bytes: split it")
