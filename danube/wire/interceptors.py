"""What all decoding starts with: bytes into a message, its numbers into enums, its texts into checked names."""

from enum import IntEnum
from functools import lru_cache
from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from danube.model.errors import InvalidRequestError
from danube.model.limits.broker import NAME_CACHE_ENTRIES_MAX
from danube.model.subscription import check_member_name
from danube.model.topic import TopicName

_M = TypeVar("_M", bound=Message)
_E = TypeVar("_E", bound=IntEnum)


def parse(kind: type[_M], data: bytes) -> _M:
    """Read a message. Raises InvalidRequestError."""
    try:
        return kind.FromString(data)
    except DecodeError as error:
        raise undecodable(kind) from error


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


@lru_cache(NAME_CACHE_ENTRIES_MAX)
def topic_name(text: str) -> TopicName:
    """`TopicName.parse` that remembers what it found valid."""
    return TopicName.parse(text)


@lru_cache(NAME_CACHE_ENTRIES_MAX)
def member_name(kind: str, text: str) -> str:
    """`check_member_name` that remembers what it found valid."""
    return check_member_name(kind, text)
