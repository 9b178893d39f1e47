"""Key ring: consistent hashing of keys to consumers with the original's points, and key patterns. Pure."""

from bisect import bisect_left
from collections.abc import Iterator
from functools import lru_cache

from danube.broker.dispatch.selection.key_filter import KeyBytes, KeyFilter
from danube.model.limits.broker import KEY_FILTERS_LOOK_BYTES, KEY_OWNERS_MAX
from danube.model.message import fnv1a_64

VIRTUAL_NODES = 100
"""Points of one consumer on the ring; the original's."""

_MASK_32 = 0xFFFFFFFF


class KeyRing:
    """The consumers, by their ids, each at its points of a ring; a key belongs to the first point at or after its hash.

    One that joins or leaves moves only the keys that become or were its own. What a filter does not take goes on along
    the ring.
    """

    def __init__(self) -> None:
        self._filters: dict[int, KeyFilter] = {}
        self._patterns: dict[int, tuple[str, ...]] = {}
        self._points_of: dict[int, list[tuple[int, int]]] = {}
        """(hash, consumer) of each."""
        self._points: list[tuple[int, int]] = []
        """All of them, sorted; made at the first look after joins and leaves, however many those were."""
        self._hashes: list[int] = []
        self._is_stale = False
        self._filters_bytes = 0
        self._owners: dict[str, int | None] = {}
        """Answers so far; emptied when they may be others."""

    def __len__(self) -> int:
        return len(self._filters)

    @property
    def looks_a_turn(self) -> int:
        """New keys whose consumer is looked for before others get their turn: each is held against all filters."""
        return max(1, KEY_FILTERS_LOOK_BYTES // max(1, self._filters_bytes))

    def add(self, consumer_id: int, patterns: tuple[str, ...] = ()) -> None:
        """Come in, or change patterns; nothing changes for one that is here with these."""
        if self._patterns.get(consumer_id) == patterns:
            return
        self._patterns[consumer_id] = patterns
        if consumer_id not in self._filters:
            self._points_of[consumer_id] = [(point, consumer_id) for point in points_of(consumer_id)]
            self._is_stale = True
        self._filters_bytes -= former.bytes if (former := self._filters.get(consumer_id)) else 0
        self._filters[consumer_id] = KeyFilter(patterns)
        self._filters_bytes += self._filters[consumer_id].bytes
        self._owners.clear()

    def remove(self, consumer_id: int) -> None:
        """Leave, if it is here."""
        self._patterns.pop(consumer_id, None)
        if (former := self._filters.pop(consumer_id, None)) is not None:
            self._filters_bytes -= former.bytes
            del self._points_of[consumer_id]
            self._is_stale = True
            self._owners.clear()

    def owner(self, key: str) -> int | None:
        """The consumer of this key; None when no filter matches it."""
        if key not in self._owners:
            if len(self._owners) >= KEY_OWNERS_MAX:
                self._owners.clear()
            self._owners[key] = self._find(key)
        return self._owners[key]

    def _find(self, key: str) -> int | None:
        if self._is_stale:
            self._place()
        refused: set[int] = set()
        wanted = KeyBytes(key)
        for consumer_id in self._from(bisect_left(self._hashes, ring_hash(key))):
            if consumer_id in refused:
                continue
            if self._filters[consumer_id].takes(wanted):
                return consumer_id
            refused.add(consumer_id)
            if len(refused) == len(self._filters):
                break
        return None

    def _from(self, first: int) -> Iterator[int]:
        """The consumers of all points, from one on and around."""
        for index in range(first, first + len(self._points)):
            yield self._points[index % len(self._points)][1]

    def _place(self) -> None:
        self._is_stale = False
        self._points = sorted(point for points in self._points_of.values() for point in points)
        self._hashes = [point for point, _ in self._points]


def points_of(consumer_id: int) -> list[int]:
    """The points of a consumer on the ring."""
    return [_hash_32(f"{consumer_id}-{node}".encode()) for node in range(VIRTUAL_NODES)]


@lru_cache(maxsize=KEY_OWNERS_MAX)
def ring_hash(key: str) -> int:
    """The point of a key on the ring."""
    return _hash_32(key.encode())


def _hash_32(data: bytes) -> int:
    """FNV-1a of 64 bits, folded, and finished as in MurmurHash3 (fmix32)."""
    wide = fnv1a_64(data)
    mixed = (wide >> 32) ^ (wide & _MASK_32)
    mixed = ((mixed ^ (mixed >> 16)) * 0x85EBCA6B) & _MASK_32
    mixed = ((mixed ^ (mixed >> 13)) * 0xC2B2AE35) & _MASK_32
    return mixed ^ (mixed >> 16)
