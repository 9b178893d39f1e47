"""Validators of payloads, one for each definition. Callers keep them: making one costs far more than its use."""

from typing import Any, Protocol

from danube.schema.avro.payload import AvroValidator
from danube.schema.avro.types import AvroDocument
from danube.schema.json_schema.document import JsonDocument, JsonValidator
from danube.schema.parsed import ParsedSchema
from danube.schema.protobuf.document import ProtobufDocument
from danube.schema.protobuf.payload import ProtobufValidator
from danube.schema.simple import SimpleValidator


class Validator(Protocol):
    """Checks and decodes payloads of one definition."""

    def check(self, payload: bytes) -> None:
        """Raise PayloadInvalidError, with the field and the reason, unless the payload follows the definition."""

    def steps(self, payload: bytes) -> int:
        """Most comparisons that checking it may take; 0 where the time follows from its length alone."""

    def decode(self, payload: bytes) -> Any:  # noqa: ANN401 - whatever the definition describes
        """Value as Python's plain types; raises PayloadInvalidError likewise."""


def validator(parsed: ParsedSchema, message: str = "") -> Validator:
    """Validator of a definition; for Protobuf of one of its messages by full name, the first without a name."""
    match parsed.document:
        case JsonDocument() as document:
            return JsonValidator(document)
        case AvroDocument() as document:
            return AvroValidator(document)
        case ProtobufDocument() as document:
            return ProtobufValidator(document, message)
        case _:
            return SimpleValidator(parsed.kind)
