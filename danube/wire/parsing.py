"""First steps of all decoding: bytes into a message, numbers and words into enums, texts into checked names."""

from collections.abc import Callable, Sequence
from enum import Enum, IntEnum
from functools import lru_cache
from typing import Any, TypeVar

from google.protobuf.message import DecodeError, Message

from danube.model.errors import InvalidRequestError
from danube.model.limits.broker import NAME_CACHE_ENTRIES_MAX
from danube.model.subscription import check_member_name
from danube.model.topic import TopicName

_M = TypeVar("_M", bound=Message)
_E = TypeVar("_E", bound=IntEnum)
_W = TypeVar("_W", bound=Enum)


def parse(kind: type[_M], data: bytes) -> _M:
    """Read a message. Raises InvalidRequestError."""
    try:
        return kind.FromString(data)
    except DecodeError as error:
        raise undecodable(kind) from error


def content_of(kind: type[Message], data: bytes) -> dict[str, Any]:
    """The fields of a message by their names, as JSON values. Raises InvalidRequestError."""
    from google.protobuf.json_format import MessageToDict  # noqa: PLC0415 - for administration alone

    content: dict[str, Any] = MessageToDict(parse(kind, data), preserving_proto_field_name=True)
    return content


def undecodable(kind: type[Message]) -> InvalidRequestError:
    """The error for bytes that are no such message."""
    return InvalidRequestError(f"not a valid {kind.DESCRIPTOR.name} message; send what the proto of this call says")


def member(kind: type[_E], number: int) -> _E:
    """The enum member with this number. Raises InvalidRequestError, where protobuf would let any number pass."""
    try:
        return kind(number)
    except ValueError:
        known = ", ".join(f"{one.value} ({one.name.lower()})" for one in kind)
        raise InvalidRequestError(f"{number} is not a {kind.__name__}: use one of {known}") from None


def word(kind: type[_W], text: str) -> _W:
    """The enum member with this word, or with one that its `parse` knows. Raises InvalidRequestError."""
    try:
        return getattr(kind, "parse", kind)(text)
    except ValueError:
        known = ", ".join(one.value for one in kind)
        raise InvalidRequestError(f"{text[:40]!r} is not a word for {kind.__name__.lower()}: use {known}") from None


@lru_cache(NAME_CACHE_ENTRIES_MAX)
def topic_name(text: str) -> TopicName:
    """`TopicName.parse`, cached."""
    return TopicName.parse(text)


@lru_cache(NAME_CACHE_ENTRIES_MAX)
def member_name(kind: str, text: str) -> str:
    """`check_member_name`, cached."""
    return check_member_name(kind, text)


def texts_of(kind: type[Message], names: Sequence[str]) -> Callable[[bytes], tuple[str, ...]]:
    """Make a function that answers the texts in the first of these fields that a message has.

    A repeated field answers each of its texts. Empty texts are left out. The function raises InvalidRequestError.
    """
    known = kind.DESCRIPTOR.fields_by_name
    name = next((name for name in names if name in known), None)
    if name is None:
        return lambda _: ()

    def find(data: bytes) -> tuple[str, ...]:
        value = getattr(parse(kind, data), name)
        return tuple(filter(None, (value,) if isinstance(value, str) else value))

    return find
