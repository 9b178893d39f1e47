"""Our protos against the contract of the original, v0.15.1, message by message and both ways."""

import json
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    ServiceDescriptorProto,
)

from danube.wire.gen import (
    DanubeAdmin_pb2,
    DanubeApi_pb2,
    DanubeAuth_pb2,
    DanubeControl_pb2,
    DanubeStream_pb2,
    EdgeReplicator_pb2,
    SchemaRegistry_pb2,
)

CONTRACT: dict[str, Any] = json.loads((Path(__file__).parent / "wire.json").read_text())
OURS = {
    module.DESCRIPTOR.name: module.DESCRIPTOR
    for module in (DanubeAdmin_pb2, DanubeApi_pb2, EdgeReplicator_pb2, SchemaRegistry_pb2)
}
AUTH = {
    "package": "danube",
    "syntax": "proto3",
    "imports": [],
    "services": {
        "AuthService": {
            "Authenticate": {
                "input": "danube.AuthRequest",
                "output": "danube.AuthResponse",
                "client_streaming": False,
                "server_streaming": False,
                "path": "/danube.AuthService/Authenticate",
            }
        }
    },
    "messages": {
        "AuthRequest": {
            "fields": [{"number": 1, "name": "api_key", "type": "string", "kind": "scalar", "label": "singular"}]
        },
        "AuthResponse": {
            "fields": [{"number": 1, "name": "token", "type": "string", "kind": "scalar", "label": "singular"}]
        },
    },
    "enums": {},
}
"""All that we add to the packages of the contract: the call that the Java client makes for an API key."""
OURS_ALONE = {
    "DanubeAnalytics.proto": "danube.control",
    "DanubeBalance.proto": "danube.control",
    "DanubeControl.proto": "danube.control",
    "DanubeSecurity.proto": "danube.control",
    "DanubeStream.proto": "danube.stream",
}
"""Files of our own, in packages of their own, so that no name of theirs can ever be one of the contract's."""


def test_we_have_the_files_of_the_contract_and_our_own_and_no_others() -> None:
    protos = Path(DanubeApi_pb2.__file__).parent.parent / "protos"
    assert {path.name for path in protos.iterdir()} == {*CONTRACT, *OURS_ALONE, "DanubeAuth.proto"}
    assert OURS.keys() == CONTRACT.keys()


@pytest.mark.parametrize("descriptor", [DanubeControl_pb2.DESCRIPTOR, DanubeStream_pb2.DESCRIPTOR])
def test_our_own_calls_have_packages_of_their_own(descriptor: FileDescriptor) -> None:
    assert descriptor.package == OURS_ALONE[descriptor.name]
    assert descriptor.package not in {file["package"] for file in CONTRACT.values()}


@pytest.mark.parametrize("file", sorted(CONTRACT))
def test_every_service_message_and_enum_is_as_in_the_contract(file: str) -> None:
    assert described(OURS[file]) == CONTRACT[file]


def test_authentication_is_all_that_we_add() -> None:
    assert described(DanubeAuth_pb2.DESCRIPTOR) == AUTH


def test_the_number_that_message_ids_once_used_stays_reserved() -> None:
    proto = DescriptorProto()
    DanubeApi_pb2.MsgID.DESCRIPTOR.CopyToProto(proto)
    assert [(one.start, one.end) for one in proto.reserved_range] == [(4, 5)]


def described(descriptor: FileDescriptor) -> dict[str, Any]:
    """A file in the form of the golden one."""
    file = FileDescriptorProto()
    descriptor.CopyToProto(file)
    enums = {enum.name: values_of(enum) for enum in file.enum_type}
    for message in file.message_type:
        enums |= {f"{message.name}.{enum.name}": values_of(enum) for enum in message.enum_type}
    return {
        "package": file.package,
        "syntax": file.syntax,
        "imports": list(file.dependency),
        "services": {service.name: calls_of(service, file.package) for service in file.service},
        "messages": {message.name: fields_of(message) for message in file.message_type},
        "enums": enums,
    }


def calls_of(service: ServiceDescriptorProto, package: str) -> dict[str, Any]:
    return {
        method.name: {
            "input": method.input_type.lstrip("."),
            "output": method.output_type.lstrip("."),
            "client_streaming": method.client_streaming,
            "server_streaming": method.server_streaming,
            "path": f"/{package}.{service.name}/{method.name}",
        }
        for method in service.method
    }


def values_of(enum: EnumDescriptorProto) -> dict[str, int]:
    return {value.name: value.number for value in enum.value}


def fields_of(message: DescriptorProto) -> dict[str, Any]:
    described_message: dict[str, Any] = {"fields": [field_of(message, field) for field in message.field]}
    if message.enum_type:
        described_message["enums"] = {enum.name: values_of(enum) for enum in message.enum_type}
    return described_message


def field_of(message: DescriptorProto, field: FieldDescriptorProto) -> dict[str, Any]:
    kind, type_name, label = "scalar", scalar(field), "singular"
    if field.type_name:
        kind = "enum" if field.type == FieldDescriptorProto.TYPE_ENUM else "message"
        type_name = field.type_name.lstrip(".")
    if field.label == FieldDescriptorProto.LABEL_REPEATED:
        label = "repeated"
    elif field.proto3_optional:
        label = "optional"
    if entry := map_entry(message, type_name):
        kind, label = "map", "map"
        type_name = f"map<{scalar(entry.field[0])},{scalar(entry.field[1])}>"
    described_field = {"number": field.number, "name": field.name, "type": type_name, "kind": kind, "label": label}
    in_oneof = field.HasField("oneof_index") and not field.proto3_optional
    if in_oneof:
        described_field["oneof"] = message.oneof_decl[field.oneof_index].name
    if in_oneof or label == "optional" or (kind, label) == ("message", "singular"):
        described_field["presence"] = True
    return described_field


def map_entry(message: DescriptorProto, type_name: str) -> DescriptorProto | None:
    found = (nested for nested in message.nested_type if type_name.endswith(f".{message.name}.{nested.name}"))
    return next((nested for nested in found if nested.options.map_entry), None)


def scalar(field: FieldDescriptorProto) -> str:
    return FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()
