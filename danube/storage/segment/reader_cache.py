"""A least-recently-used cache, bounded in bytes. Pure."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class LruCache(Generic[K, V]):
    """Values by key, each with its cost; the newest stays even when it alone is too large."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._values: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, key: K) -> bool:
        return key in self._values

    def get(self, key: K) -> V | None:
        """The value of a key, which becomes the most recently used."""
        found = self._values.get(key)
        if found is None:
            return None
        self._values.move_to_end(key)
        return found[0]

    def put(self, key: K, value: V, cost_bytes: int) -> None:
        """Keep a value; the least recently used ones make room."""
        self.drop(key)
        self._values[key] = (value, cost_bytes)
        self.bytes += cost_bytes
        while self.bytes > self._bytes_max and len(self._values) > 1:
            _, (_, cost) = self._values.popitem(last=False)
            self.bytes -= cost

    def drop(self, key: K) -> None:
        """Drop one, if it is there."""
        found = self._values.pop(key, None)
        if found is not None:
            self.bytes -= found[1]

    def drop_all(self, is_meant: Callable[[K], bool]) -> None:
        """Drop those whose key is meant."""
        for key in [key for key in self._values if is_meant(key)]:
            self.drop(key)
