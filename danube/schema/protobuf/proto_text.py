"""Text of a `.proto` file, written from its descriptor: clients with compiled classes register what people can read."""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from google.protobuf import text_encoding, text_format
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
    ServiceDescriptorProto,
)
from google.protobuf.message import DecodeError, Message

from danube.model.errors import SchemaInvalidError

_KIND = FieldDescriptorProto
_WORDS = {
    number: name.removeprefix("TYPE_").lower()
    for name, number in FieldDescriptorProto.Type.items()
    if number not in {_KIND.TYPE_GROUP, _KIND.TYPE_MESSAGE, _KIND.TYPE_ENUM}
}
_NUMBER_MAX = 536_870_911
_ENUM_MAX = 2_147_483_647
_LABELS = {_KIND.LABEL_REQUIRED: "required ", _KIND.LABEL_REPEATED: "repeated ", _KIND.LABEL_OPTIONAL: "optional "}


def proto_text(serialized: bytes) -> str:
    """The text of a serialized FileDescriptorProto. Raises SchemaInvalidError."""
    try:
        file = FileDescriptorProto.FromString(serialized)
    except DecodeError:
        raise SchemaInvalidError("this is no serialized FileDescriptorProto: send the text of the .proto") from None
    syntax = file.syntax or "proto2"
    if syntax not in {"proto2", "proto3"}:
        raise SchemaInvalidError(f"a descriptor of {syntax} has no text here: send its .proto")
    return "\n".join(_file(file, syntax)) + "\n"


def described_file(descriptor_set: bytes, name: str) -> bytes:
    """The serialized FileDescriptorProto of one file of a serialized FileDescriptorSet. Raises SchemaInvalidError."""
    for file in FileDescriptorSet.FromString(descriptor_set).file:
        if file.name == name:
            return file.SerializeToString()
    raise SchemaInvalidError(f"there is no {name} among the compiled files")


def _file(file: FileDescriptorProto, syntax: str) -> Iterator[str]:
    yield f'syntax = "{syntax}";'
    if file.package:
        yield f"package {file.package};"
    words = dict.fromkeys(file.public_dependency, "public ") | dict.fromkeys(file.weak_dependency, "weak ")
    for index, name in enumerate(file.dependency):
        yield f'import {words.get(index, "")}"{name}";'
    yield from _option_lines(file.options)
    for enum in file.enum_type:
        yield from _enum(enum)
    for message in file.message_type:
        yield from _message(message, syntax)
    yield from _extensions(file.extension, syntax)
    for service in file.service:
        yield from _service(service)


def _message(message: DescriptorProto, syntax: str) -> Iterator[str]:
    maps = {nested.name: nested for nested in message.nested_type if nested.options.map_entry}
    yield f"message {message.name} {{"
    body = [*_option_lines(message.options)]
    for enum in message.enum_type:
        body += _enum(enum)
    for nested in message.nested_type:
        if nested.name not in maps:
            body += _message(nested, syntax)
    oneofs: dict[int, list[str]] = {}
    for field in message.field:
        if field.HasField("oneof_index") and not field.proto3_optional:
            if field.oneof_index not in oneofs:
                oneofs[field.oneof_index] = []
                body.append(f"\0{field.oneof_index}")
            oneofs[field.oneof_index].append(_field(field, maps, label=""))
        else:
            body.append(_field(field, maps, label=_label(field, syntax)))
    for line in body:
        if line.startswith("\0"):
            index = int(line[1:])
            yield f"  oneof {message.oneof_decl[index].name} {{"
            yield from _option_lines(message.oneof_decl[index].options)
            yield from (f"    {each}" for each in oneofs[index])
            yield "  }"
        else:
            yield f"  {line}"
    yield from _extensions(message.extension, syntax)
    yield from _reserved(message)
    yield "}"


def _extensions(extensions: Iterable[FieldDescriptorProto], syntax: str) -> Iterator[str]:
    for one in extensions:
        yield f"extend {one.extendee} {{ {_field(one, {}, label=_label(one, syntax))} }}"


def _reserved(message: DescriptorProto) -> Iterator[str]:
    ranges = [_range(one.start, one.end - 1, _NUMBER_MAX) for one in message.reserved_range]
    if ranges:
        yield f"  reserved {', '.join(ranges)};"
    if message.reserved_name:
        yield f"  reserved {_names(message.reserved_name)};"
    extensions = [_range(one.start, one.end - 1, _NUMBER_MAX) for one in message.extension_range]
    if extensions:
        yield f"  extensions {', '.join(extensions)};"


def _label(field: FieldDescriptorProto, syntax: str) -> str:
    if field.label == _KIND.LABEL_OPTIONAL and syntax == "proto3" and not field.proto3_optional:
        return ""
    return _LABELS[field.label]


def _field(field: FieldDescriptorProto, maps: dict[str, DescriptorProto], *, label: str) -> str:
    kind = _type(field)
    entry = maps.get(field.type_name.rsplit(".", 1)[-1]) if field.type == _KIND.TYPE_MESSAGE else None
    if entry is not None and field.label == _KIND.LABEL_REPEATED:
        key, value = entry.field
        kind, label = f"map<{_type(key)}, {_type(value)}>", ""
    options = [f"default = {_default(field)}"] if field.HasField("default_value") else []
    if field.json_name not in {"", _json_name(field.name)}:
        options.append(f"json_name = {_quoted(field.json_name)}")
    return f"{label}{kind} {field.name} = {field.number}{_bracketed([*options, *_options(field.options)])};"


def _type(field: FieldDescriptorProto) -> str:
    if field.type == _KIND.TYPE_GROUP:
        raise SchemaInvalidError(f"the group {field.name} has no text here: send the text of the .proto")
    return _WORDS.get(field.type) or field.type_name


def _default(field: FieldDescriptorProto) -> str:
    if field.type == _KIND.TYPE_BYTES:
        return f'"{field.default_value}"'  # it is escaped already
    return _quoted(field.default_value) if field.type == _KIND.TYPE_STRING else field.default_value


def _json_name(name: str) -> str:
    """Name in JSON of a field that is given none."""
    return re.sub("_+(.?)", lambda found: found[1].upper(), name)


def _quoted(text: str) -> str:
    return '"' + re.sub(r'[\x00-\x1f"\\\x7f]', lambda found: f"\\{ord(found[0]):03o}", text) + '"'


def _option_lines(options: Message) -> Iterator[str]:
    return (f"option {each};" for each in _options(options))


def _bracketed(options: Iterable[str]) -> str:
    shown = ", ".join(options)
    return f" [{shown}]" if shown else ""


def _options(options: Message) -> Iterator[str]:
    """Options that are set. Those of extensions which this process does not know have no name, and are left out."""
    for field, value in options.ListFields():
        name = f"({field.full_name})" if field.is_extension else field.name
        if name not in {"map_entry", "uninterpreted_option"}:
            for one in value if field.is_repeated else [value]:
                yield f"{name} = {_option(field, one)}"


def _option(field: FieldDescriptor, value: Any) -> str:  # noqa: ANN401 - of any type
    if field.message_type is not None:
        return f"{{ {text_format.MessageToString(value, as_one_line=True)} }}"
    if field.enum_type is not None:
        return field.enum_type.values_by_number[value].name
    if isinstance(value, bytes):
        return f'"{text_encoding.CEscape(value, as_utf8=False)}"'
    return str(value).lower() if isinstance(value, bool) else _quoted(value) if isinstance(value, str) else repr(value)


def _enum(enum: EnumDescriptorProto) -> Iterator[str]:
    yield f"enum {enum.name} {{"
    yield from _option_lines(enum.options)
    for value in enum.value:
        yield f"  {value.name} = {value.number}{_bracketed(_options(value.options))};"
    ranges = [_range(one.start, one.end, _ENUM_MAX) for one in enum.reserved_range]
    if ranges:
        yield f"  reserved {', '.join(ranges)};"
    if enum.reserved_name:
        yield f"  reserved {_names(enum.reserved_name)};"
    yield "}"


def _service(service: ServiceDescriptorProto) -> Iterator[str]:
    yield f"service {service.name} {{"
    yield from _option_lines(service.options)
    for method in service.method:
        asked = f"{'stream ' if method.client_streaming else ''}{method.input_type}"
        answered = f"{'stream ' if method.server_streaming else ''}{method.output_type}"
        options = " ".join(_option_lines(method.options))
        yield f"  rpc {method.name} ({asked}) returns ({answered}){f' {{ {options} }}' if options else ';'}"
    yield "}"


def _range(first: int, last: int, most: int) -> str:
    if first == last:
        return str(first)
    return f"{first} to {'max' if last >= most else last}"


def _names(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)
