"""Formats without a definition: bytes, strings, numbers. Their one version fits all data."""

from dataclasses import dataclass
from typing import Final

from danube.model.errors import PayloadInvalidError, SchemaInvalidError
from danube.model.limits.schema import SCHEMA_BYTES_MAX
from danube.model.schema import SchemaType
from danube.schema.parsed import ParsedSchema

_NUMBER_BYTES: Final = (4, 8)
SIMPLE: Final = frozenset({SchemaType.BYTES, SchemaType.STRING, SchemaType.NUMBER})


def parse_simple(kind: SchemaType, text: str) -> ParsedSchema:
    """The format itself: its text does not count."""
    if len(text) > SCHEMA_BYTES_MAX:
        raise SchemaInvalidError(f"the definition is longer than {SCHEMA_BYTES_MAX} bytes: {kind.value} needs none")
    word = kind.value
    return ParsedSchema(kind, text, word.encode(), word, (), None)


@dataclass(frozen=True, slots=True)
class SimpleValidator:
    """Payloads of a simple format."""

    kind: SchemaType

    def check(self, payload: bytes, *, with_reason: bool = True) -> None:  # noqa: ARG002 - as the protocol
        """As the protocol."""
        self.decode(payload)

    def steps(self, payload: bytes) -> int:
        """As the protocol."""
        return len(payload) // 10

    def decode(self, payload: bytes) -> object:
        """As the protocol. A number of 4 or 8 bytes is answered as bytes: its layout is its producer's."""
        if self.kind is SchemaType.STRING:
            try:
                return payload.decode()
            except UnicodeDecodeError as error:
                raise PayloadInvalidError(f"byte {error.start} is no UTF-8: send text, or use the type bytes") from None
        if self.kind is SchemaType.NUMBER and len(payload) not in _NUMBER_BYTES:
            raise PayloadInvalidError(f"a number has 4 or 8 bytes and not {len(payload)}")
        return bytes(payload)
