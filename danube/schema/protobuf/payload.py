"""Payloads of Protobuf: one message of the definition, by default its first."""

from typing import Any

from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from danube.model.errors import PayloadInvalidError
from danube.schema.protobuf.document import ProtobufDocument
from danube.schema.protobuf.faults import first_fault


class ProtobufValidator:
    """Validator of one message. Fields that it does not know are accepted, as Protobuf does."""

    def __init__(self, document: ProtobufDocument, message: str = "") -> None:
        """Raises PayloadInvalidError if there is no such message; without a name it is the first."""
        if not (message or document.root.message_types_by_name):
            raise PayloadInvalidError("the definition has no message, and is for imports alone: use another subject")
        first = next(iter(document.root.message_types_by_name.values()), None)
        try:
            self._type: Descriptor = document.pool.FindMessageTypeByName(message or getattr(first, "full_name", ""))
        except KeyError:
            raise PayloadInvalidError(f"the definition has no message {message}: name one of it") from None
        self._document = document
        self._class = GetMessageClass(self._type)

    def check(self, payload: bytes) -> None:
        """As the protocol."""
        self._read(payload)

    def steps(self, payload: bytes) -> int:  # noqa: ARG002 - as the protocol
        """As the protocol."""
        return 0

    def decode(self, payload: bytes) -> Any:  # noqa: ANN401 - a JSON value
        """As the protocol: names as in the definition, 64-bit numbers as text, as JSON of Protobuf has them."""
        message = self._read(payload)
        try:
            return json_format.MessageToDict(
                message, preserving_proto_field_name=True, descriptor_pool=self._document.pool
            )
        except (TypeError, ValueError, KeyError):  # a time out of range, an Any of a type that is unknown here
            return str(message)

    def _read(self, payload: bytes) -> Any:  # noqa: ANN401 - a class made at run time
        try:
            message: Any = self._class.FromString(bytes(payload))
        except DecodeError:
            reason, place = first_fault(bytes(payload), self._type)
            raise PayloadInvalidError(f"it is no {self._type.full_name}: {reason}", place or "/") from None
        if not message.IsInitialized():
            missing = ", ".join(message.FindInitializationErrors())
            raise PayloadInvalidError(f"required fields are absent: {missing}", f"/{missing.replace('.', '/')}")
        return message
