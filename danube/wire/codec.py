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
from danube.wire.parsing import content_of, member, parse, topic_name, word

T = TypeVar("T")
Convert = Callable[[Any], Any]
Fields = dict[str, Any]
"""Fields of a message, by their names."""
Read = Callable[[Message], Any]
"""From a message to the value of one field."""
Write = Callable[[Any], Fields]
"""From a value to its fields in a message; those that are None are absent."""


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

    def content(self, data: bytes) -> Fields:
        """The fields of a message as JSON values, for records of it. Raises InvalidRequestError."""
        return content_of(self.kind, data)

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
    read, encode = _field(message, name, kind, rule or Rule())
    return Codec(message, read, lambda value: {name: encode(value)})


def listing(message: type[Message], name: str, kind: type[T], rule: Rule | None = None) -> Codec[Sequence[T]]:
    """The codec of values that are the one, repeated, field of their message; decoded as a tuple."""
    return single(message, name, tuple[kind, ...], rule)  # type: ignore[valid-type]


def row(message: type[Message], /, **kinds: object) -> Codec[Any]:
    """The codec of a tuple whose parts are fields of the message, in the order given."""
    parts = {name: _field(message, name, kind, Rule()) for name, kind in kinds.items()}

    def write(values: Iterable[object]) -> Fields:
        return {name: encode(value) for (name, (_, encode)), value in zip(parts.items(), values, strict=True)}

    return Codec(message, lambda source: tuple(read(source) for read, _ in parts.values()), write)


class Unread(Codec[None]):
    """The codec of a message without fields whose bytes are not read."""

    def __init__(self, kind: type[Message]) -> None:
        super().__init__(kind, lambda _: None, lambda _: {})

    def decode(self, data: bytes) -> None:
        """Nothing to read."""


def _fields(
    kind: type[T], message: type[Message], rules: Mapping[str, str | Rule]
) -> tuple[Callable[[Message], T], Write]:
    hints = get_type_hints(kind)
    reads: dict[str, Read] = {}
    encodes: list[tuple[str, str, Convert]] = []
    writes: list[tuple[str, Write]] = []
    for attribute in [*hints, *(rules.keys() - hints)]:
        given = rules.get(attribute, "")
        rule = Rule(name=given) if isinstance(given, str) else given
        if rule.flat is not None or rule.spread is not None:
            read, write = rule.spread or _fields(hints[attribute], message, rule.flat or {})
            writes.append((attribute, write))
        else:
            name = rule.name or attribute
            read, encode = _field(message, name, hints.get(attribute, object), rule)
            encodes.append((attribute, name, encode))
        if attribute in hints:
            reads[attribute] = read

    def read_all(source: Message) -> T:
        return kind(**{attribute: read(source) for attribute, read in reads.items()})

    plain = [(attribute, name) for attribute, name, encode in encodes if encode is _same]
    others = [each for each in encodes if each[2] is not _same]

    def write_all(value: object) -> Fields:
        found = {name: getattr(value, attribute) for attribute, name in plain}
        for attribute, name, encode in others:
            found[name] = encode(getattr(value, attribute))
        for attribute, write in writes:
            found |= write(getattr(value, attribute))
        return found

    return read_all, write_all


def _field(message: type[Message], name: str, hint: object, rule: Rule) -> tuple[Read, Convert]:
    """Reads the field, and encodes its value; None, which protobuf ignores, stays None."""
    field = message.DESCRIPTOR.fields_by_name.get(name)
    if field is None:
        raise ValueError(f"{message.DESCRIPTOR.full_name} has no field {name}: give a rule with the name that it has")
    is_optional = isinstance(hint, UnionType) and NoneType in get_args(hint)
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

    def write(value: Any) -> object:  # noqa: ANN401 - of whatever type the hint says
        return None if value is None else tuple(map(encode, value)) if is_repeated else encode(value)

    if is_optional:
        return read_optional, write
    is_plain = decode is _same and not (is_repeated or rule.missing or rule.check)
    return attrgetter(name) if is_plain else read, encode if encode is _same else write


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
    if isinstance(hint, type) and issubclass(hint, IntEnum):
        return partial(member, hint), _same
    if isinstance(hint, type) and issubclass(hint, Enum):
        return partial(word, hint), attrgetter("value")
    return _same, _same


def _same(value: T) -> T:
    return value
