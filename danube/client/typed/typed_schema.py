"""Typed schema: a definition, and values as payloads that follow it."""

import dataclasses
from typing import Any, Protocol

from danube.client.typed.avro import AvroSchema
from danube.client.typed.json_classes import JsonSchema
from danube.client.typed.protobuf import ProtobufSchema
from danube.model.errors import InvalidRequestError
from danube.model.schema import SchemaType


class TypedSchema(Protocol):
    """One definition with its values."""

    @property
    def kind(self) -> SchemaType:
        """The language of the definition."""

    @property
    def definition(self) -> str:
        """The definition, to be registered."""

    @property
    def needs_writer(self) -> bool:
        """True if a payload cannot be read without the definition that it was written with."""

    def encode(self, value: Any) -> bytes:  # noqa: ANN401 - whatever the definition describes
        """A value as a payload. Raises PayloadInvalidError, with the field, for one that does not follow it."""

    def decode(self, payload: bytes, writer: str | None) -> Any:  # noqa: ANN401 - as above
        """The value of a payload that was written with the definition `writer`. Raises PayloadInvalidError."""


def typed_schema(schema: Any) -> TypedSchema:  # noqa: ANN401 - a class of the application
    """The schema of a pydantic model, a dataclass, a Protobuf class, or one that is a schema already.

    Raises InvalidRequestError for anything else.
    """
    if all(hasattr(schema, name) for name in ("kind", "definition", "encode", "decode", "needs_writer")):
        found: TypedSchema = schema
        return found
    if isinstance(schema, type):
        if hasattr(schema, "DESCRIPTOR") and hasattr(schema, "FromString"):
            return ProtobufSchema(schema)
        if dataclasses.is_dataclass(schema) or hasattr(schema, "model_json_schema"):
            return JsonSchema(schema)
    raise InvalidRequestError(
        f"{schema!r:.80} is no schema: give a pydantic model, a dataclass, a Protobuf message class, or"
        " AvroSchema(definition)"
    )


__all__ = ["AvroSchema", "JsonSchema", "ProtobufSchema", "TypedSchema", "typed_schema"]
