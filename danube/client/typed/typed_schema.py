"""Typed schemas: a definition, values as payloads that follow it, and its registration."""

import dataclasses
import json
from collections.abc import Sequence
from typing import Any, Protocol

from pydantic import TypeAdapter, ValidationError

from danube.client.schemas import SchemaRegistryClient
from danube.client.typed.avro import AvroSchema
from danube.client.typed.protobuf import ImportedFile, ProtobufSchema
from danube.model.calls.client import SchemaReference
from danube.model.calls.schemas import RegisterVersion
from danube.model.errors import InvalidRequestError, PayloadInvalidError
from danube.model.schema import SchemaImport, SchemaType
from danube.model.topic import TopicName

__all__ = ["AvroSchema", "JsonSchema", "ProtobufSchema", "TypedSchema", "typed_schema"]

_CREATED_BY = "danube-py"


class JsonSchema:
    """A class whose values are JSON."""

    kind = SchemaType.JSON_SCHEMA
    needs_writer = False

    def __init__(self, kind: type) -> None:
        self._kind = kind
        self._adapter: TypeAdapter[Any] = TypeAdapter(kind)
        self.definition = json.dumps(self._adapter.json_schema(), sort_keys=True)

    def encode(self, value: Any) -> bytes:  # noqa: ANN401 - as the protocol
        """As the protocol."""
        if not isinstance(value, self._kind):
            raise PayloadInvalidError(f"{value!r:.80} is no {self._kind.__name__}: send one")
        try:
            return self._adapter.dump_json(self._adapter.validate_python(value), by_alias=True)
        except ValidationError as error:
            raise _invalid(error) from error

    def decode(self, payload: bytes, writer: str | None) -> Any:  # noqa: ANN401, ARG002 - JSON names its fields
        """As the protocol."""
        try:
            return self._adapter.validate_json(payload)
        except ValidationError as error:
            raise _invalid(error) from error


def _invalid(error: ValidationError) -> PayloadInvalidError:
    first = error.errors()[0]
    return PayloadInvalidError(first["msg"], ".".join(map(str, first["loc"])))


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


def subject_of(topic: str) -> str:
    """The subject of a topic's messages, where none is named: `/default/orders` has `default-orders`."""
    name = TopicName.parse(topic)
    return f"{name.namespace}-{name.local}"


async def register(registry: SchemaRegistryClient, schema: TypedSchema, subject: str) -> SchemaReference:
    """Register a schema, and what it imports; answers the version.

    Raises SchemaInvalidError, SchemaIncompatibleError.
    """
    references = await _register_imports(registry, getattr(schema, "imports", ()))
    made = await registry.register_version(
        RegisterVersion(
            subject=subject,
            type=schema.kind,
            definition=schema.definition.encode(),
            created_by=_CREATED_BY,
            references=references,
        )
    )
    return SchemaReference(subject=subject, pinned_version=made.version)


async def _register_imports(registry: SchemaRegistryClient, files: Sequence[ImportedFile]) -> tuple[SchemaImport, ...]:
    found = []
    for file in files:
        made = await registry.register_version(
            RegisterVersion(
                subject=file.name,
                type=SchemaType.PROTOBUF,
                definition=file.text.encode(),
                created_by=_CREATED_BY,
                references=await _register_imports(registry, file.imports),
            )
        )
        found.append(SchemaImport(file.name, file.name, made.version))
    return tuple(found)
