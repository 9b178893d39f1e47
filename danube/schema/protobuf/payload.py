"""Payloads of Protobuf: one message of the definition, by default its first."""

from typing import Any, Final

from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, FileDescriptor
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from danube.model.errors import PayloadInvalidError
from danube.schema.protobuf.document import ProtobufDocument
from danube.schema.protobuf.faults import first_fault

_BYTE_STEPS: Final = 10
"""Beside one for each field of the largest message: an empty one takes two bytes, and room for all its fields."""


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
        self._byte_steps = _BYTE_STEPS + _most_fields(self._type)

    def __reduce__(self) -> tuple[Any, ...]:
        """For another process, by the descriptors of all files."""
        files: dict[str, bytes] = {}
        _collect(self._document.root, files)
        return _rebuilt, ([*files.values()], self._document.root.name, self._type.full_name)

    def check(self, payload: bytes, *, with_reason: bool = True) -> None:
        """As the protocol."""
        self._read(payload, with_reason=with_reason)

    def steps(self, payload: bytes) -> int:
        """As the protocol."""
        return len(payload) * self._byte_steps

    def decode(self, payload: bytes) -> Any:  # noqa: ANN401 - a JSON value
        """As the protocol: names as in the definition, 64-bit numbers as text, as JSON of Protobuf has them."""
        message = self._read(payload)
        try:
            return json_format.MessageToDict(
                message, preserving_proto_field_name=True, descriptor_pool=self._document.pool
            )
        except (TypeError, ValueError, KeyError):  # a time out of range, an Any of a type that is unknown here
            return str(message)

    def _read(self, payload: bytes, *, with_reason: bool = True) -> Any:  # noqa: ANN401 - a class made at run time
        try:
            message: Any = self._class.FromString(bytes(payload))
        except DecodeError:
            if not with_reason:
                raise PayloadInvalidError("") from None
            reason, place = first_fault(bytes(payload), self._type)
            raise PayloadInvalidError(f"it is no {self._type.full_name}: {reason}", place or "/") from None
        if not message.IsInitialized():
            missing = ", ".join(message.FindInitializationErrors()) if with_reason else ""
            raise PayloadInvalidError(f"required fields are absent: {missing}", f"/{missing.replace('.', '/')}")
        return message


def _most_fields(root: Descriptor) -> int:
    """Fields of the largest message that one may hold."""
    seen, todo, most = {root.full_name}, [root], 0
    while todo:
        fields = todo.pop().fields
        most = max(most, len(fields))
        for inner in [field.message_type for field in fields]:
            if inner is not None and inner.full_name not in seen:
                seen.add(inner.full_name)
                todo.append(inner)
    return most


def _collect(file: FileDescriptor, files: dict[str, bytes]) -> None:
    for each in file.dependencies:
        if each.name not in files:
            _collect(each, files)
    files[file.name] = file.serialized_pb


def _rebuilt(files: list[bytes], root: str, message: str) -> ProtobufValidator:
    pool = DescriptorPool()
    for file in files:
        pool.AddSerializedFile(file)
    return ProtobufValidator(ProtobufDocument(pool.FindFileByName(root), pool, ()), message)
