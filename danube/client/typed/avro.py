"""Avro: plain values as single objects without a header, read with the writer's definition."""

import base64
import binascii
import io
import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from danube.model.errors import PayloadInvalidError, SchemaInvalidError
from danube.model.limits.registry import SCHEMA_VALIDATORS_MAX
from danube.model.schema import SchemaType
from danube.model.untrusted_json import decode_json
from danube.schema.extra import library


class AvroSchema:
    """An Avro definition, as its JSON text or as a dictionary."""

    kind = SchemaType.AVRO
    needs_writer = True

    def __init__(self, definition: str | dict[str, Any]) -> None:
        """Raises SchemaInvalidError, and MissingLibraryError without the library fastavro."""
        self.definition = definition if isinstance(definition, str) else json.dumps(definition)
        self._parsed = _parsed(self.definition)

    def encode_json(self, text: bytes) -> bytes:
        """A value as JSON, with bytes in Base64. Raises PayloadInvalidError."""
        try:
            value = decode_json(text)
        except ValueError:
            raise PayloadInvalidError("it is no JSON: with an Avro schema give a value as JSON") from None
        parsed, named = _with_names(self.definition)
        return self.encode(from_json(parsed, value, named))

    def encode(self, value: Any) -> bytes:  # noqa: ANN401 - as the protocol
        """As the protocol."""
        fastavro, validation = _fastavro(), library("fastavro.validation", "Avro")
        try:
            validation.validate(value, self._parsed)
            buffer = io.BytesIO()
            fastavro.schemaless_writer(buffer, self._parsed, value)
        except Exception as error:
            reasons = "; ".join(map(str, getattr(error, "errors", (error,))))
            raise PayloadInvalidError(f"the value does not follow the schema: {reasons}") from error
        return buffer.getvalue()

    def decode(self, payload: bytes, writer: str | None) -> Any:  # noqa: ANN401 - as the protocol
        """As the protocol."""
        written = self._parsed if writer is None else _parsed(writer)
        fastavro, buffer = _fastavro(), io.BytesIO(payload)
        try:
            value = fastavro.schemaless_reader(buffer, written, self._parsed)
        except Exception as error:
            raise PayloadInvalidError(f"the payload does not follow its schema: {error!r:.200}") from error
        if buffer.tell() != len(payload):
            raise PayloadInvalidError(f"{len(payload) - buffer.tell()} bytes follow the value: it is of another schema")
        return value


def _parsed(definition: str) -> Any:  # noqa: ANN401 - of fastavro
    return _with_names(definition)[0]


@lru_cache(SCHEMA_VALIDATORS_MAX)
def _with_names(definition: str) -> tuple[Any, dict[str, Any]]:
    """The parsed definition, and its named types."""
    fastavro, named = _fastavro(), dict[str, Any]()
    try:
        return fastavro.parse_schema(decode_json(definition), named_schemas=named), named
    except Exception as error:
        raise SchemaInvalidError(f"this is no Avro schema: {error}") from error


def _fastavro() -> Any:  # noqa: ANN401 - a module that may be absent
    return library("fastavro", "Avro")


_BYTES = {"bytes", "fixed"}
_TEXTS = {"string", "enum"}


def from_json(schema: Any, value: Any, named: Mapping[str, Any]) -> Any:  # noqa: ANN401 - of any schema
    """The value with bytes where the schema has them; whatever does not fit stays, and is refused by the encoder.

    `schema` is parsed by fastavro, with its named types in `named`.
    """
    schema = named.get(schema, schema) if isinstance(schema, str) else schema
    if isinstance(schema, list):
        return _of_union(schema, value, named)
    kind = _kind(schema)
    if kind in _BYTES and isinstance(value, str):
        return _decoded(value)
    if kind == "record" and isinstance(value, dict):
        fields = {field["name"]: field["type"] for field in schema["fields"]}
        return {name: from_json(fields.get(name), each, named) for name, each in value.items()}
    if kind == "array" and isinstance(value, list):
        return [from_json(schema["items"], each, named) for each in value]
    if kind == "map" and isinstance(value, dict):
        return {name: from_json(schema["values"], each, named) for name, each in value.items()}
    return value


def _of_union(branches: list[Any], value: Any, named: Mapping[str, Any]) -> Any:  # noqa: ANN401 - of any schema
    """By the first branch that the value may be of; a text is one where there is a branch for texts."""
    kinds = {_kind(named.get(each, each) if isinstance(each, str) else each): each for each in reversed(branches)}
    wanted: tuple[str, ...] = ("array",)
    if isinstance(value, str):
        wanted = () if _TEXTS & kinds.keys() else ("bytes", "fixed")
    elif isinstance(value, dict):
        wanted = ("record", "map")
    found = next((kinds[kind] for kind in wanted if kind in kinds), None)
    return value if found is None else from_json(found, value, named)


def _kind(schema: Any) -> str:  # noqa: ANN401 - of any schema
    kind = schema.get("type") if isinstance(schema, dict) else schema
    return "record" if kind == "error" else str(kind)


def _decoded(text: str) -> str | bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        return text
