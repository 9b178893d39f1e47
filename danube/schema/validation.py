"""Validators of payloads, one for each definition. Callers keep them: making one costs far more than its use."""

from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol

from danube.model.errors import PayloadInvalidError
from danube.schema.avro.payload import AvroValidator
from danube.schema.avro.types import AvroDocument
from danube.schema.json_schema.document import JsonDocument, JsonValidator
from danube.schema.parsed import ParsedSchema
from danube.schema.protobuf.document import ProtobufDocument
from danube.schema.protobuf.payload import ProtobufValidator
from danube.schema.simple import SimpleValidator


class Validator(Protocol):
    """Checks and decodes payloads of one definition."""

    def check(self, payload: bytes, *, with_reason: bool = True) -> None:
        """Raise PayloadInvalidError, with the field and the reason, unless the payload follows the definition.

        Without the reason it takes no more than `steps` says.
        """

    def steps(self, payload: bytes) -> int:
        """Most steps of ten nanoseconds; looking for a reason may take much longer."""

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


class Judgement(NamedTuple):
    """Result of a check of payloads."""

    invalid: int = 0
    """Payloads that do not follow the definition."""
    first: int = 0
    reason: str = ""
    """Of the first of them, where the reason was asked for."""


_VALID = Judgement()


def judge(checks: Validator, payloads: Iterable[bytes], *, with_reason: bool) -> Judgement:
    """Check payloads: with the reason up to the first that is not valid, without it to count them."""
    invalid = 0
    for index, payload in enumerate(payloads):
        try:
            checks.check(payload, with_reason=with_reason)
        except PayloadInvalidError as error:
            invalid += 1
            if with_reason:
                return Judgement(1, index, str(error))
    if invalid:
        return Judgement(invalid)
    return _VALID
