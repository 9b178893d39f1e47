"""Every call of the client port, drawn from the protos: right, half right, contradictory, or no protobuf at all.

Requests are written field by field onto the wire instead of through message classes, since a message class refuses to
make most of what a hostile peer sends: text that is not UTF-8, both members of a oneof, a field twice, or with another
wire type.
"""

from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

from google.protobuf.descriptor import Descriptor, FieldDescriptor, FileDescriptor, MethodDescriptor
from hypothesis import strategies as st

from danube.wire.gen import DanubeApi_pb2, DanubeAuth_pb2, DanubeStream_pb2, EdgeReplicator_pb2, SchemaRegistry_pb2
from danube.wire.raw import varint
from tests.fuzz import vocabulary

_T = TypeVar("_T")

_FILES: tuple[FileDescriptor, ...] = (
    DanubeApi_pb2.DESCRIPTOR,
    DanubeStream_pb2.DESCRIPTOR,
    SchemaRegistry_pb2.DESCRIPTOR,
    DanubeAuth_pb2.DESCRIPTOR,
    EdgeReplicator_pb2.DESCRIPTOR,
)
_VARINT, _FIXED64, _DELIMITED, _GROUP_START, _GROUP_END, _FIXED32 = range(6)
_WIRE_TYPES = {
    FieldDescriptor.TYPE_DOUBLE: _FIXED64,
    FieldDescriptor.TYPE_FLOAT: _FIXED32,
    FieldDescriptor.TYPE_STRING: _DELIMITED,
    FieldDescriptor.TYPE_BYTES: _DELIMITED,
    FieldDescriptor.TYPE_MESSAGE: _DELIMITED,
}
_DEPTH_MAX = 4
_MESSAGES_MAX = 4


class Ending(Enum):
    """What the peer does once it has sent its messages."""

    HALF_CLOSE = "half-close"
    LEAVE = "leave"
    STAY = "stay"


@dataclass(frozen=True, slots=True)
class Call:
    """One call: unary ones have one message and no ending of their own."""

    path: str
    messages: tuple[bytes, ...]
    is_stream: bool = False
    ending: Ending = Ending.HALF_CLOSE


def methods() -> list[MethodDescriptor]:
    """Every method of the services that belong on the client port, served today or not."""
    services = [service for file in _FILES for service in file.services_by_name.values()]
    return [method for service in services for method in service.methods]


def served() -> list[MethodDescriptor]:
    """Those that the port serves today."""
    return [method for method in methods() if method.containing_service.full_name in vocabulary.SERVED]


def path_of(method: MethodDescriptor) -> str:
    return f"/{method.containing_service.full_name}/{method.name}"


def calls() -> st.SearchStrategy[Call]:
    """Any call; those of the data path are drawn more often."""
    return st.one_of(st.sampled_from(served()), st.sampled_from(methods())).flatmap(call_of)


def call_of(method: MethodDescriptor) -> st.SearchStrategy[Call]:
    """A call of this method."""
    path, request = st.just(path_of(method)), requests(method.input_type)
    if not (method.client_streaming or method.server_streaming):
        return st.builds(Call, path, st.tuples(request))
    most = _MESSAGES_MAX if method.client_streaming else 1
    sent = st.lists(request, min_size=most == 1, max_size=most).map(tuple)
    if opening := vocabulary.OPENINGS.get(path_of(method)):
        sent = st.one_of(sent, sent.map(lambda messages: (opening, *messages)))
    return st.builds(Call, path, sent, st.just(True), st.sampled_from(Ending))


def requests(kind: Descriptor) -> st.SearchStrategy[bytes]:
    """Bytes that are, or nearly are, or are not at all, a message of this kind."""
    proper, rough = message(kind), message(kind, is_rough=True)
    return st.one_of(proper, proper, rough, cut(rough), st.binary(max_size=80))


@st.composite
def cut(draw: st.DrawFn, whole: st.SearchStrategy[bytes]) -> bytes:
    """The same, with its end missing or followed by something else."""
    data = draw(whole)
    return data[: draw(st.integers(0, len(data)))] + draw(st.binary(max_size=4))


@st.composite
def message(draw: st.DrawFn, kind: Descriptor, *, is_rough: bool = False, depth: int = 0) -> bytes:
    """A message, its fields in any order; a rough one has them missing, repeated and of the wrong kind as well."""
    fields = draw(st.permutations(list(kind.fields))) if is_rough else kind.fields
    return b"".join(draw(_occurrences(field, is_rough=is_rough, depth=depth)) for field in fields)


@st.composite
def _occurrences(draw: st.DrawFn, field: FieldDescriptor, *, is_rough: bool, depth: int) -> bytes:
    usual = [0, 1, 3] if field.is_repeated else [0, 1, 1] if field.has_presence else [1]
    times = draw(st.sampled_from([0, 1, 1, 1, 2] if is_rough else usual))
    value = _value(field, is_rough=is_rough, depth=depth)
    return b"".join(draw(_written(field, value, is_rough=is_rough)) for _ in range(times))


@st.composite
def _written(draw: st.DrawFn, field: FieldDescriptor, value: st.SearchStrategy[bytes], *, is_rough: bool) -> bytes:
    wire_type = _WIRE_TYPES.get(field.type, _VARINT)
    if is_rough and draw(st.integers(0, 30)) == 0:
        return varint(field.number << 3 | draw(st.integers(0, 7))) + draw(st.binary(max_size=12))
    content = draw(value)
    header = varint(field.number << 3 | wire_type)
    return header + (varint(len(content)) if wire_type == _DELIMITED else b"") + content


def _value(field: FieldDescriptor, *, is_rough: bool, depth: int) -> st.SearchStrategy[bytes]:
    match field.type:
        case FieldDescriptor.TYPE_MESSAGE:
            inner = field.message_type
            assert inner is not None
            return message(inner, is_rough=is_rough, depth=depth + 1) if depth < _DEPTH_MAX else st.just(b"")
        case FieldDescriptor.TYPE_STRING:
            return _known(vocabulary.TEXTS, field.name, vocabulary.PLAIN_TEXTS, is_rough, vocabulary.WILD_TEXTS)
        case FieldDescriptor.TYPE_BYTES:
            return _known(vocabulary.BLOBS, field.name, vocabulary.PLAIN_BLOBS, is_rough, vocabulary.WILD_BLOBS)
        case FieldDescriptor.TYPE_DOUBLE:
            return st.binary(min_size=8, max_size=8)
        case FieldDescriptor.TYPE_FLOAT:
            return st.binary(min_size=4, max_size=4)
        case FieldDescriptor.TYPE_ENUM:
            assert field.enum_type is not None
            known = [value.number for value in field.enum_type.values]
            return st.sampled_from([*known, *([-1, 99, 2**31 - 1] if is_rough else [])]).map(_signed)
    numbers = _known(vocabulary.NUMBERS, field.name, vocabulary.PLAIN_NUMBERS, is_rough, vocabulary.WILD_NUMBERS)
    return numbers.map(_signed)


def _signed(number: int) -> bytes:
    return varint(number % 2**64)


def _known(
    by_name: dict[str, tuple[_T, ...]], name: str, plain: tuple[_T, ...], is_rough: bool, wild: tuple[_T, ...]
) -> st.SearchStrategy[_T]:
    good = st.sampled_from(by_name.get(name, plain))
    return st.one_of(good, good, st.sampled_from(wild)) if is_rough else good
