"""Place of the fault in bytes that are no message: what Protobuf's own parser does not tell."""

from typing import Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from danube.model.limits.schema import SCHEMA_BINARY_DEPTH_MAX

_VARINT, _FIXED_64, _LENGTH, _START, _END, _FIXED_32 = range(6)
_SIZES: Final = {_FIXED_64: 8, _FIXED_32: 4}


class _FaultError(Exception):
    """A fault, and the field that it is in."""


def first_fault(payload: bytes, message: Descriptor) -> tuple[str, str]:
    """Reason and path of the first fault."""
    try:
        _walk(payload, message, "", 0)
    except _FaultError as fault:
        reason, path = fault.args
        return reason, path
    return "its bytes do not follow the binary format", "/"


def _walk(payload: bytes, message: Descriptor | None, path: str, depth: int) -> None:
    if depth > SCHEMA_BINARY_DEPTH_MAX:
        raise _FaultError(f"it has more than {SCHEMA_BINARY_DEPTH_MAX} levels", path)
    at = 0
    while at < len(payload):
        tag, at = _number(payload, at, path)
        number, wire = tag >> 3, tag & 7
        field = message.fields_by_number.get(number) if message is not None else None
        place = f"{path}/{field.name if field is not None else number}"
        if number == 0:
            raise _FaultError("a field has the number 0", path or "/")
        if wire == _VARINT:
            _, at = _number(payload, at, place)
        elif wire in _SIZES:
            at += _SIZES[wire]
        elif wire == _LENGTH:
            length, at = _number(payload, at, place)
            if at + length > len(payload):
                raise _FaultError("the payload ends within this field", place)
            _look_into(payload[at : at + length], field, place, depth)
            at += length
        elif wire not in (_START, _END):
            raise _FaultError(f"a field has the form {wire}, which does not exist", place)
        if at > len(payload):
            raise _FaultError("the payload ends within this field", place)


def _look_into(part: bytes, field: FieldDescriptor | None, place: str, depth: int) -> None:
    if field is None:
        return
    if field.type == FieldDescriptor.TYPE_MESSAGE:
        _walk(part, field.message_type, place, depth + 1)
    if field.type == FieldDescriptor.TYPE_STRING:
        try:
            part.decode()
        except UnicodeDecodeError as error:
            raise _FaultError(f"byte {error.start} of a string is no UTF-8", place) from None


def _number(payload: bytes, at: int, path: str) -> tuple[int, int]:
    found = 0
    for shift in range(0, 70, 7):
        if at >= len(payload):
            raise _FaultError("the payload ends within a number", path or "/")
        byte = payload[at]
        at += 1
        found |= (byte & 127) << shift
        if byte < 128:
            return found, at
    raise _FaultError("a number has more than 64 bits", path or "/")
