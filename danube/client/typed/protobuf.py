"""Protobuf message classes, as `protoc` generates them; what they import from Google is left to the registry."""

from dataclasses import dataclass
from typing import Any

from danube.model.errors import PayloadInvalidError
from danube.model.schema import SchemaType
from danube.schema.protobuf.proto_text import proto_text

_WELL_KNOWN = "google/protobuf/"


@dataclass(frozen=True, slots=True)
class ImportedFile:
    """A file that a Protobuf definition imports, and that is a subject of its own."""

    name: str
    text: str
    imports: "tuple[ImportedFile, ...]"


class ProtobufSchema:
    """A message class; the file that declares it is the definition."""

    kind = SchemaType.PROTOBUF
    needs_writer = False

    def __init__(self, kind: Any) -> None:  # noqa: ANN401 - a generated class
        """Raises SchemaInvalidError for a file that has no text of its own, see `proto_text`."""
        self._kind = kind
        self.definition = proto_text(kind.DESCRIPTOR.file.serialized_pb)
        self.imports = _imports(kind.DESCRIPTOR.file)

    def encode(self, value: Any) -> bytes:  # noqa: ANN401 - as the protocol
        """As the protocol."""
        if not isinstance(value, self._kind):
            raise PayloadInvalidError(f"this is no {self._kind.DESCRIPTOR.full_name}: send one")
        try:
            data: bytes = value.SerializeToString()
        except Exception as error:
            raise PayloadInvalidError(f"the message is not complete: {error}") from error
        return data

    def decode(self, payload: bytes, writer: str | None) -> Any:  # noqa: ANN401, ARG002 - fields have numbers
        """As the protocol."""
        try:
            return self._kind.FromString(payload)
        except Exception as error:
            raise PayloadInvalidError(f"the payload is no {self._kind.DESCRIPTOR.full_name}: {error}") from error


def _imports(file: Any) -> tuple[ImportedFile, ...]:  # noqa: ANN401 - a descriptor
    return tuple(
        ImportedFile(each.name, proto_text(each.serialized_pb), _imports(each))
        for each in file.dependencies
        if not each.name.startswith(_WELL_KNOWN)
    )
