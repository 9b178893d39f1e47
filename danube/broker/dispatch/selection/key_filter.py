"""Patterns of keys, split once and matched without going back: a match costs a bounded time, whatever is in the two."""

import re
from collections import defaultdict
from collections.abc import Iterable
from functools import cached_property, lru_cache

from danube.model.errors import InvalidRequestError, LimitReachedError
from danube.model.limits.broker import (
    KEY_FILTER_BYTES_MAX,
    KEY_FILTERS_BYTES_PER_SUBSCRIPTION_MAX,
    KEY_FILTERS_MAX,
    KEY_FILTERS_PER_SUBSCRIPTION_MAX,
)

_ANY = ord("?")


def check_filters(patterns: Iterable[str]) -> tuple[str, ...]:
    """Answer the patterns if a consumer may have them. Raises InvalidRequestError."""
    filters = tuple(patterns)
    if len(filters) > KEY_FILTERS_MAX:
        raise InvalidRequestError(f"a consumer has {len(filters)} key filters, the limit is {KEY_FILTERS_MAX}")
    for pattern in filters:
        if len(pattern.encode()) > KEY_FILTER_BYTES_MAX:
            raise InvalidRequestError(f"key filter {pattern[:40]!r}... is longer than {KEY_FILTER_BYTES_MAX} bytes")
    return filters


def check_filters_together(subscription: str, filters: Iterable[tuple[str, ...]]) -> None:
    """Raise LimitReachedError where the consumers of a subscription would have too many, or too long, filters."""
    patterns = [pattern for each in filters for pattern in each]
    size = filters_bytes(patterns)
    if len(patterns) > KEY_FILTERS_PER_SUBSCRIPTION_MAX or size > KEY_FILTERS_BYTES_PER_SUBSCRIPTION_MAX:
        raise LimitReachedError(
            f"subscription {subscription!r} would have {len(patterns)} key filters of {size} bytes, and at most"
            f" {KEY_FILTERS_PER_SUBSCRIPTION_MAX} of {KEY_FILTERS_BYTES_PER_SUBSCRIPTION_MAX} can be: use fewer, or"
            " shorter ones"
        )


def filters_bytes(patterns: Iterable[str]) -> int:
    """Their total length, which bounds the cost of matching one key."""
    return sum(len(pattern.encode()) for pattern in patterns)


class KeyBytes:
    """The UTF-8 of one key, to be matched against many patterns."""

    def __init__(self, key: str) -> None:
        self.text = key.encode()

    @cached_property
    def _places(self) -> defaultdict[int, int]:
        """For each byte value a number in which bit i says that it stands at i."""
        places: defaultdict[int, int] = defaultdict(int)
        for index, byte in enumerate(self.text):
            places[byte] |= 1 << index
        return places

    def find(self, piece: bytes, start: int) -> int:
        """The first position of `piece`, in which `?` is any byte, from `start` on; -1 for none.

        All places are looked at in one operation for each byte of the piece, so that no text makes it slow, as some do
        `bytes.find`.
        """
        if len(piece) == 1 and piece[0] != _ANY:
            return self.text.find(piece, start)
        found = (1 << max(0, len(self.text) - len(piece) + 1)) - 1
        for index, byte in enumerate(piece):
            if byte != _ANY and found:
                found &= self._places[byte] >> index
        found >>= start
        return start + (found & -found).bit_length() - 1 if found else -1


class KeyFilter:
    """Matches keys against patterns; without patterns every key matches.

    `*` is any run of bytes and `?` one byte of the key's UTF-8, as in the original; the whole key must match.
    """

    __slots__ = ("_pieces", "bytes")

    def __init__(self, patterns: tuple[str, ...]) -> None:
        self._pieces = [_split(pattern) for pattern in patterns]
        self.bytes = filters_bytes(patterns)

    def takes(self, key: KeyBytes) -> bool:
        """Tell whether the key matches."""
        return not self._pieces or any(_matches(pieces, key) for pieces in self._pieces)


@lru_cache(maxsize=KEY_FILTERS_PER_SUBSCRIPTION_MAX)
def _split(pattern: str) -> tuple[bytes, ...]:
    """The pieces between the stars."""
    return tuple(re.split(rb"\*+", pattern.encode()))


def _matches(pieces: tuple[bytes, ...], key: KeyBytes) -> bool:
    """After each `*` the first match of what follows is as good as any, so that nothing is tried twice."""
    first, last = pieces[0], pieces[-1]
    end = len(key.text) - len(last)
    if len(pieces) == 1:
        return end == 0 and _stands(first, key, 0)
    if first and (end < len(first) or not _stands(first, key, 0)):
        return False
    at = len(first)
    for piece in pieces[1:-1]:
        at = key.find(piece, at) + len(piece)
        if at < len(piece):
            return False
    return at <= end and _stands(last, key, end)


def _stands(piece: bytes, key: KeyBytes, at: int) -> bool:
    if _ANY not in piece:
        return key.text.startswith(piece, at)
    there = key.text[at : at + len(piece)]
    return len(there) == len(piece) and all(map(_is_same, piece, there))


def _is_same(wanted: int, byte: int) -> bool:
    return wanted in {byte, _ANY}
