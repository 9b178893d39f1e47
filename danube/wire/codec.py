"""Codecs between values and protobuf messages, compiled once per pair from the dataclass and its annotations.

A field stands in the message under its own name and as its annotation says:

- an enum by its number, or by its word where the message has text; a number or word without a meaning is refused;
- a `TopicName` as text, checked; a `str` as decimal digits where the message has a number;
- a dataclass as the message in that field, a tuple as a repeated field;
- `None` as an absent field, or as 0 or empty text where the message cannot say that a field is absent.

What differs is a rule: a string is another name in the message, a `Rule` says the rest. Decoding raises
InvalidRequestError, or InvalidNameError for names.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum
from functools import partial
from operator import attrgetter
from types import NoneType, UnionType
from typing import Any, Generic, TypeVar, get_args, get_origin, get_type_hints

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from danube.model.errors import InvalidRequestError
from danube.model.topic import TopicName
from danube.wire.parsing import member, parse, topic_name, word

T = TypeVar("T")
Convert = Callable[[Any], Any]
Fields = dict[str, Any]
"""Fields of a message, by their names."""
Read = Callable[[Message], Any]
"""From a message to the value of one field."""
Write = Callable[[Any], Fields]
"""From a value to the fields that it has in a message."""


class Codec(Generic[T]):
    """One kind of value as one kind of message."""

    __slots__ = ("kind", "read", "write")

    def __init__(self, kind: type[Message], read: Callable[[Any], T], write: Callable[[T], Mapping[str, Any]]) -> None:
        self.kind = kind
        self.read = read
        self.write = write

    def decode(self, data: bytes) -> T:
        """Read a value. Raises InvalidRequestError."""
        return self.read(parse(self.kind, data))

    def encode(self, value: T) -> bytes:
        """Write a value."""
        return self.message(value).SerializeToString()

    def message(self, value: T) -> Message:
        """The message of a value, to be put into another one."""
        return self.kind(**self.write(value))


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Difference between a field and its annotation. Of a repeated field, `decode` and `encode` get each value."""

    name: str = ""
    """In the message, where it is another one."""
    decode: Convert | None = None
    encode: Convert | None = None
    """Never called with None."""
    check: Callable[[Any], None] | None = None
    """Refuses the field of the message, before it is decoded."""
    missing: str = ""
    """Error where the message lacks the field."""
    flat: "Mapping[str, str | Rule] | None" = None
    """The fields of a nested dataclass stand beside the others, under these rules."""
    spread: tuple[Read, Write] | None = None
    """For a value that takes several fields of the message."""


_CODECS: dict[tuple[type, str], Codec[Any]] = {}
"""By dataclass and full name of the message."""


def record(kind: type[T], message: type[Message], /, **rules: str | Rule) -> Codec[T]:
    """The codec of a dataclass. A property that has a rule is encoded only.

    Raises ValueError where dataclass and message do not fit, or the pair has a codec already.
    """
    key = (kind, message.DESCRIPTOR.full_name)
    if key in _CODECS:
        raise ValueError(f"{kind.__name__} has a codec for {key[1]} already: declare it once, before what contains it")
    codec = _CODECS[key] = Codec(message, *_fields(kind, message, rules))
    return codec


def single(message: type[Message], name: str, kind: type[T] | UnionType, rule: Rule | None = None) -> Codec[T]:
    """The codec of a value that is the one field of its message."""
    return Codec(message, *_field(message, name, kind, rule or Rule()))


def listing(message: type[Message], name: str, kind: type[T], rule: Rule | None = None) -> Codec[Sequence[T]]:
    """The codec of values that are the one, repeated, field of their message; decoded as a tuple."""
    return Codec(message, *_field(message, name, tuple[kind, ...], rule or Rule()))  # type: ignore[valid-type]


def row(message: type[Message], /, **kinds: object) -> Codec[Any]:
    """The codec of a tuple whose parts are fields of the message, in the order given."""
    parts = [_field(message, name, kind, Rule()) for name, kind in kinds.items()]

    def read(source: Message) -> tuple[Any, ...]:
        return tuple(read_part(source) for read_part, _ in parts)

    def write(values: Iterable[object]) -> Fields:
        found: Fields = {}
        for (_, write_part), value in zip(parts, values, strict=True):
            found |= write_part(value)
        return found

    return Codec(message, read, write)


class Empty(Codec[None]):
    """The codec of a message without fields; its bytes are not read."""

    def __init__(self, kind: type[Message]) -> None:
        super().__init__(kind, lambda _: None, lambda _: {})

    def decode(self, data: bytes) -> None:
        """Nothing to read."""


def _fields(
    kind: type[T], message: type[Message], rules: Mapping[str, str | Rule]
) -> tuple[Callable[[Message], T], Write]:
    hints = get_type_hints(kind)
    reads: list[tuple[str, Read]] = []
    writes: list[tuple[str, Write]] = []
    for name in [*hints, *(rules.keys() - hints)]:
        given = rules.get(name, "")
        rule = Rule(name=given) if isinstance(given, str) else given
        read: Read
        if rule.flat is not None:
            read, write = _fields(hints[name], message, rule.flat)
        elif rule.spread is not None:
            read, write = rule.spread
        else:
            read, write = _field(message, rule.name or name, hints.get(name, object), rule)
        writes.append((name, write))
        if name in hints:
            reads.append((name, read))

    def read_all(source: Message) -> T:
        return kind(**{name: read(source) for name, read in reads})

    def write_all(value: object) -> Fields:
        found: Fields = {}
        for name, write in writes:
            found |= write(getattr(value, name))
        return found

    return read_all, write_all


def _field(message: type[Message], name: str, hint: object, rule: Rule) -> tuple[Read, Write]:
    field = message.DESCRIPTOR.fields_by_name.get(name)
    if field is None:
        raise ValueError(f"{message.DESCRIPTOR.full_name} has no field {name}: give a rule with the name that it has")
    parts = get_args(hint) if isinstance(hint, UnionType) else ()
    is_optional = NoneType in parts
    is_repeated = get_origin(hint) is tuple
    inner = get_args(hint)[0] if is_optional or is_repeated else hint
    by_hint = (_same, _same) if rule.decode and rule.encode else _by_annotation(inner, field)
    decode, encode = rule.decode or by_hint[0], rule.encode or by_hint[1]

    def read(source: Message) -> object:
        value = getattr(source, name)
        if rule.missing and not source.HasField(name):
            raise InvalidRequestError(rule.missing)
        if rule.check is not None:
            rule.check(value)
        return tuple(map(decode, value)) if is_repeated else decode(value)

    def read_optional(source: Message) -> object:
        is_present = source.HasField(name) if field.has_presence else getattr(source, name)
        return read(source) if is_present else None

    def write(value: Any) -> Fields:  # noqa: ANN401 - of whatever type the hint says
        if value is None:
            return {}
        return {name: tuple(map(encode, value)) if is_repeated else encode(value)}

    return read_optional if is_optional else read, write


def _by_annotation(hint: Any, field: Any) -> tuple[Convert, Convert]:  # noqa: ANN401 - any type; two descriptors
    if hint is TopicName:
        return topic_name, str
    if field.message_type is not None:
        kind = GetMessageClass(field.message_type)
        codec = _CODECS.get((hint, field.message_type.full_name)) or record(hint, kind)
        return codec.read, codec.message
    if hint is str and field.cpp_type != FieldDescriptor.CPPTYPE_STRING:
        return str, int
    if hint is int and field.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
        return int, bool
    if isinstance(hint, type) and issubclass(hint, Enum):
        return (partial(member, hint) if issubclass(hint, IntEnum) else partial(word, hint)), attrgetter("value")
    return _same, _same


def _same(value: T) -> T:
    return value
