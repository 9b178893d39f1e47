"""The descriptor pool of our messages: one of our own, not protobuf's default pool.

The default pool knows a file by its bare name, and the official client registers `DanubeApi.proto` there; with a pool
of our own both live in one process.
"""

from collections.abc import MutableMapping

from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.internal.enum_type_wrapper import EnumTypeWrapper
from google.protobuf.message_factory import GetMessageClass

_POOL = DescriptorPool()


def publish(serialized_file: bytes, namespace: MutableMapping[str, object]) -> None:
    """Add a serialized FileDescriptorProto to the pool and its messages and enums to a generated module.

    The files that it imports must be there already.
    """
    file = _POOL.AddSerializedFile(serialized_file)
    namespace["DESCRIPTOR"] = file
    for name, message in file.message_types_by_name.items():
        namespace[name] = GetMessageClass(message)
    for name, enum in file.enum_types_by_name.items():
        namespace[name] = EnumTypeWrapper(enum)
        namespace.update({value.name: value.number for value in enum.values})
