"""Random pairs of Protobuf definitions, and messages of them, from one source of chance."""

import base64
from random import Random
from typing import Any

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)

F = FieldDescriptorProto
SCALARS = (
    F.TYPE_INT32, F.TYPE_INT64, F.TYPE_UINT32, F.TYPE_UINT64, F.TYPE_SINT32, F.TYPE_SINT64, F.TYPE_BOOL, F.TYPE_FIXED32,
    F.TYPE_SFIXED32, F.TYPE_FIXED64, F.TYPE_SFIXED64, F.TYPE_FLOAT, F.TYPE_DOUBLE, F.TYPE_STRING, F.TYPE_BYTES,
)  # fmt: skip
NUMBERS = (1, 2, 3, 4)
NAMES = ("a", "b", "c", "d")


def random_pair(chance: Random, package: str) -> tuple[FileDescriptorProto, FileDescriptorProto]:
    """Earlier and later file: the second is the first with a few changes."""
    proto2 = chance.random() < 0.3
    old = FileDescriptorProto(name=f"{package}.proto", package=package, syntax="proto2" if proto2 else "proto3")
    for name in ("M", "N"):
        message = DescriptorProto(name=name)
        for number, field in zip(NUMBERS, NAMES, strict=True):
            if chance.random() < 0.6:
                message.field.append(_field(chance, package, number, field, proto2=proto2))
        old.message_type.append(message)
    old.enum_type.append(EnumDescriptorProto(name="E"))
    for number, value in enumerate(("X", "Y", "Z")[: chance.randint(1, 3)]):
        old.enum_type[0].value.add(name=value, number=number)
    new = FileDescriptorProto()
    new.CopyFrom(old)
    for _ in range(chance.choice((1, 1, 2, 3))):
        _change(chance, new, proto2=proto2)
    return old, new


def encoded(file: FileDescriptorProto) -> str:
    return base64.b64encode(file.SerializeToString()).decode()


def _field(chance: Random, package: str, number: int, name: str, *, proto2: bool) -> FieldDescriptorProto:
    field = FieldDescriptorProto(name=name, number=number, label=F.LABEL_OPTIONAL, type=chance.choice(SCALARS))
    kind = chance.random()
    if kind < 0.15:
        field.type, field.type_name = F.TYPE_MESSAGE, f".{package}.{'N'}"
    elif kind < 0.25:
        field.type, field.type_name = F.TYPE_ENUM, f".{package}.E"
    if chance.random() < 0.25:
        field.label = F.LABEL_REPEATED
    elif proto2 and chance.random() < 0.25 and field.type != F.TYPE_MESSAGE:
        field.label = F.LABEL_REQUIRED
    return field


def _change(chance: Random, file: FileDescriptorProto, *, proto2: bool) -> None:
    message = file.message_type[chance.randrange(len(file.message_type))]
    used = [field.number for field in message.field]
    free = [number for number in NUMBERS if number not in used]
    kind = chance.random()
    if kind < 0.1:
        _change_enum(chance, file.enum_type[0])
    elif free and (kind < 0.25 or not used):
        number = chance.choice(free)
        names = [name for name in NAMES if name not in [field.name for field in message.field]]
        message.field.append(_field(chance, file.package, number, chance.choice(names), proto2=proto2))
    elif used:
        at = chance.randrange(len(message.field))
        field = message.field[at]
        if kind < 0.4:
            del message.field[at]
            if chance.random() < 0.5:
                message.reserved_range.add(start=field.number, end=field.number + 1)
        elif kind < 0.5:
            field.name = f"z{field.number}"
        elif kind < 0.65:
            _move_to_oneof(chance, message)
        else:
            index = field.oneof_index if field.HasField("oneof_index") else None
            again = _field(chance, file.package, field.number, field.name, proto2=proto2)
            if chance.random() < 0.5 and index is None:
                again.type, again.type_name = field.type, field.type_name
                if again.type == F.TYPE_MESSAGE and again.label == F.LABEL_REQUIRED:
                    again.label = F.LABEL_OPTIONAL  # no message is finite that requires itself
            if index is not None:
                again.label, again.oneof_index = F.LABEL_OPTIONAL, index
            field.CopyFrom(again)


def _change_enum(chance: Random, enum: EnumDescriptorProto) -> None:
    if len(enum.value) > 1 and chance.random() < 0.5:
        del enum.value[-1]
    else:
        enum.value.add(name=f"V{len(enum.value) + 5}", number=len(enum.value) + 5)


def _move_to_oneof(chance: Random, message: DescriptorProto) -> None:
    """Fields of a oneof stand one behind the other."""
    if message.oneof_decl:
        for field in message.field:
            field.ClearField("oneof_index")
        del message.oneof_decl[:]
        return
    first = chance.randrange(len(message.field))
    moved = message.field[first : first + chance.randint(1, 3)]
    if all(field.label == F.LABEL_OPTIONAL for field in moved):
        message.oneof_decl.add(name="o")
        for field in moved:
            field.oneof_index = 0


def fill(chance: Random, message: Any, depth: int = 2) -> Any:
    """Set fields of a message; required ones always."""
    for field in message.DESCRIPTOR.fields:
        if not field.is_required and chance.random() < 0.3:
            continue
        if field.message_type is not None:
            if depth:
                inner = getattr(message, field.name).add() if field.is_repeated else getattr(message, field.name)
                inner.SetInParent()
                fill(chance, inner, depth - 1)
        elif field.is_repeated:
            getattr(message, field.name).extend(_value(chance, field) for _ in range(chance.randint(1, 3)))
        else:
            setattr(message, field.name, _value(chance, field))
    return message


def _value(chance: Random, field: Any) -> Any:
    if field.enum_type is not None:
        return chance.choice([value.number for value in field.enum_type.values])
    match field.type:
        case F.TYPE_STRING:
            return chance.choice(("", "ab", "ä"))
        case F.TYPE_BYTES:
            return chance.choice((b"", b"\xff\xfe", b"ab"))
        case F.TYPE_BOOL:
            return chance.random() < 0.5
        case F.TYPE_FLOAT | F.TYPE_DOUBLE:
            return chance.choice((0.0, 1.5, -2.0))
        case _:
            return chance.choice((0, 1, 127, 300))
