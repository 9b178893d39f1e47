"""Protobuf definitions: `.proto` text that a compiler of the edge reads, or a FileDescriptorProto in base64.

The second form is what Confluent's clients register. Each definition has a descriptor pool of its own.
"""

import base64
import binascii
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

from google.protobuf import descriptor_pb2
from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError

from danube.model.errors import SchemaInvalidError, UnsupportedError
from danube.model.limits.schema import SCHEMA_DEPTH_MAX, SCHEMA_NODES_MAX
from danube.model.schema import SchemaType
from danube.schema.parsed import ParsedSchema, shown
from danube.schema.protobuf.known import is_known

ProtoCompiler = Callable[[str, Mapping[str, str]], bytes]
"""Compiles the file of that name, with those it may import, to a FileDescriptorSet; raises SchemaInvalidError."""

ROOT: Final = "schema.proto"
"""Name of the definition itself beside its imports."""
WELL_KNOWN: Final = "google/protobuf/"
_MODULES: Final = (
    "any", "api", "descriptor", "duration", "empty", "field_mask", "source_context", "struct", "timestamp", "type",
    "wrappers",
)  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class ProtobufDocument:
    """One definition with its imports."""

    root: FileDescriptor
    pool: Any
    """Pool that the descriptors live in."""
    files: tuple[descriptor_pb2.FileDescriptorProto, ...]
    """Definition and imports, imports first; those that are everyone's are left out."""


def parse_protobuf(text: str, given: Mapping[str, str], compile_proto: ProtoCompiler | None) -> ParsedSchema:
    """Read a definition. Raises SchemaInvalidError."""
    root = _from_base64(text)
    files = _compiled(text, given, compile_proto) if root is None else _gathered(root, given, compile_proto)
    _check_bounds(files)
    pool = DescriptorPool()
    for file in files:
        _add(pool, file)
    name = files[-1].name
    own = tuple(file for file in files if file.name == name or _is_own(file.name, given))
    document = ProtobufDocument(pool.FindFileByName(name), pool, own)
    names = tuple(f"{files[-1].package}.{each.name}".strip(".") for each in files[-1].message_type)
    if not any((names, files[-1].enum_type, files[-1].extension, files[-1].service, files[-1].public_dependency)):
        raise SchemaInvalidError("it defines nothing, and passes nothing on: define a message or an enum", name)
    canonical = _normalised(files[-1])
    digest = hashlib.sha256(canonical)
    for file in sorted(document.files[:-1], key=lambda each: each.name):
        digest.update(b"\0" + file.name.encode() + b"\0" + _normalised(file))
    return ParsedSchema(SchemaType.PROTOBUF, text, canonical, f"sha256:{digest.hexdigest()}", names, document)


def _compiled(
    text: str, given: Mapping[str, str], compile_proto: ProtoCompiler | None
) -> list[descriptor_pb2.FileDescriptorProto]:
    if compile_proto is None:
        raise UnsupportedError(
            "Protobuf text is compiled by brokers alone: give a FileDescriptorProto in base64 instead"
        )
    if ROOT in given:
        raise SchemaInvalidError(f"an import cannot have the name of the definition itself, {ROOT}: rename it", ROOT)
    for name, other in given.items():
        if _from_base64(other) is not None:
            raise SchemaInvalidError("text cannot import a definition in base64: register that one as text", name)
    try:
        found = descriptor_pb2.FileDescriptorSet.FromString(compile_proto(ROOT, {**given, ROOT: text}))
    except DecodeError:
        raise SchemaInvalidError("the compiler gave no descriptors: simplify the definition", ROOT) from None
    return [*found.file]


def _from_base64(text: str) -> descriptor_pb2.FileDescriptorProto | None:
    """FileDescriptorProto that the text is in base64; None if it is `.proto` text."""
    try:
        file = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text.strip(), validate=True))
    except (binascii.Error, ValueError, DecodeError):
        return None
    return file if file.name or file.message_type or file.enum_type else None


def _is_own(name: str, given: Mapping[str, str]) -> bool:
    return not name.startswith(WELL_KNOWN) and (name in given or not is_known(name))


def _gathered(
    root: descriptor_pb2.FileDescriptorProto, given: Mapping[str, str], compile_proto: ProtoCompiler | None
) -> list[descriptor_pb2.FileDescriptorProto]:
    """Root and imports, each after those that it imports."""
    root.name = root.name or ROOT
    found: dict[str, descriptor_pb2.FileDescriptorProto] = {}
    under_way: set[str] = set()

    def bring(file: descriptor_pb2.FileDescriptorProto) -> None:
        if file.name in under_way:
            raise SchemaInvalidError("it imports itself, by way of others: cut the loop", file.name)
        under_way.add(file.name)
        if len(under_way) > SCHEMA_DEPTH_MAX:
            raise SchemaInvalidError(f"imports go more than {SCHEMA_DEPTH_MAX} levels deep: flatten them", file.name)
        for name in file.dependency:
            if name not in found:
                bring(_imported(name, given, file.name, compile_proto))
        under_way.discard(file.name)
        found[file.name] = file

    bring(root)
    return [*found.values()]


def _imported(
    name: str, given: Mapping[str, str], by: str, compile_proto: ProtoCompiler | None
) -> descriptor_pb2.FileDescriptorProto:
    short = name.removeprefix(WELL_KNOWN).removesuffix(".proto")
    if name.startswith(WELL_KNOWN) and short in _MODULES:
        module = import_module(f"google.protobuf.{short}_pb2")
        return descriptor_pb2.FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)
    if compile_proto is not None and name not in given and is_known(name):
        return descriptor_pb2.FileDescriptorSet.FromString(compile_proto(name, {})).file[-1]
    file = _from_base64(given[name]) if name in given else None
    if file is None:
        raise SchemaInvalidError(f"its import {name!r} is in no reference: register it in base64, and refer to it", by)
    file.name = name
    return file


def _check_bounds(files: list[descriptor_pb2.FileDescriptorProto]) -> None:
    parts = 0
    todo = [(message, 1) for file in files for message in file.message_type]
    while todo:
        message, depth = todo.pop()
        parts += 1 + len(message.field) + sum(len(each.value) for each in message.enum_type)
        if depth > SCHEMA_DEPTH_MAX or parts > SCHEMA_NODES_MAX:
            bounds = f"{SCHEMA_NODES_MAX} parts or {SCHEMA_DEPTH_MAX} levels"
            raise SchemaInvalidError(f"it has more than {bounds}: split it", message.name)
        todo.extend((each, depth + 1) for each in message.nested_type)


def _add(pool: Any, file: descriptor_pb2.FileDescriptorProto) -> None:  # noqa: ANN401 - without types
    try:
        pool.AddSerializedFile(file.SerializeToString())
        pool.FindFileByName(file.name)
    except (TypeError, KeyError, ValueError) as error:
        raise SchemaInvalidError(shown(str(error)), file.name) from None
    numbers = [(message.name, [field.number for field in message.field]) for message in file.message_type]
    for name, used in numbers:
        if len({*used}) < len(used):
            raise SchemaInvalidError("a field number is used twice: renumber one", f"{file.name}: {name}")


def _normalised(file: descriptor_pb2.FileDescriptorProto) -> bytes:
    """Form without comments, layout and the order of what has none."""
    copy = descriptor_pb2.FileDescriptorProto()
    copy.CopyFrom(file)
    copy.ClearField("source_code_info")
    copy.ClearField("name")
    if copy.syntax == "proto2":
        copy.ClearField("syntax")
    plain = not (copy.public_dependency or copy.weak_dependency)
    if plain:
        _sort(copy.dependency, lambda name: name)
    todo = [*copy.message_type]
    while todo:
        message = todo.pop()
        _sort(message.field, lambda field: field.number)
        _sort(message.reserved_range, lambda each: each.start)
        _sort(message.reserved_name, lambda name: name)
        for field in [*message.field, *message.extension]:
            field.ClearField("json_name")
        todo.extend(message.nested_type)
    return copy.SerializeToString(deterministic=True)


def _sort(repeated: Any, key: Callable[[Any], Any]) -> None:  # noqa: ANN401 - repeated fields have no common type
    repeated.sort(key=key)
