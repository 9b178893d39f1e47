"""Files that clients take for granted, and never register: those of google/type, and Confluent's own."""

from collections.abc import Mapping
from importlib import import_module
from typing import Final

from google.protobuf.descriptor_pb2 import FileDescriptorProto

from danube.schema.protobuf.proto_text import proto_text

_GOOGLE: Final = "google/type/"
_GOOGLE_FILES: Final = (
    "calendar_period", "color", "date", "datetime", "dayofweek", "decimal", "expr", "fraction", "interval", "latlng",
    "localized_text", "money", "month", "phone_number", "postal_address", "quaternion", "timeofday",
)  # fmt: skip
_OWN: Final = "confluent/"
_OPTIONS: Final = {"file": "File", "message": "Message", "field": "Field", "enum": "Enum", "enum_value": "EnumValue"}
_CONFLUENT: Final = {
    "confluent/meta.proto": 'syntax = "proto3"; package confluent; import "google/protobuf/descriptor.proto";'
    ' option go_package = "../confluent";'
    " message Meta { string doc = 1; map<string, string> params = 2; repeated string tags = 3;"
    " repeated Rule rules = 4; }"
    " message Rule { string name = 1; string doc = 2; string expr = 3; string sql = 4; }"
    + "".join(f" extend google.protobuf.{of}Options {{ Meta {name}_meta = 1088; }}" for name, of in _OPTIONS.items()),
    "confluent/type/decimal.proto": 'syntax = "proto3"; package confluent.type;'
    " message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }",
    "confluent/type/variant.proto": 'syntax = "proto3"; package confluent.type;'
    " message Variant { bytes metadata = 1; bytes value = 2; }",
    "confluent/types/decimal.proto": 'syntax = "proto3"; import public "confluent/type/decimal.proto";',
}


def is_known(name: str) -> bool:
    """True for a file that can be imported without a reference."""
    short = name.removeprefix(_GOOGLE).removesuffix(".proto")
    return name in _CONFLUENT or (name == f"{_GOOGLE}{short}.proto" and short in _GOOGLE_FILES)


def with_known(root: str, files: Mapping[str, str]) -> dict[str, str]:
    """The files, and the known ones that `root` and they could import."""
    everything = "".join((root, *files.values()))
    found = {name: text for name, text in _CONFLUENT.items() if _OWN in everything}
    if _GOOGLE in everything:
        names = [f"{_GOOGLE}{short}.proto" for short in _GOOGLE_FILES]
        found |= {name: proto_text(file.SerializeToString()) for name in names if (file := _file(name))}
    return {**found, **files}


def _file(name: str) -> FileDescriptorProto | None:
    """A file of google/type; None without the library that has it."""
    try:
        module = import_module(f"{name.removesuffix('.proto').replace('/', '.')}_pb2")
    except ImportError:
        return None
    return FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)
