"""Routing of messages to partitions. Pure; the same choice as in every official client that has one."""

_FNV_OFFSET = 0xCBF29CE484222325
_FNV_PRIME = 0x100000001B3
_MASK = 2**64 - 1


class Router:
    """Chooses among `partitions` partitions (at least 1): by key where there is one, else each in turn from 0."""

    def __init__(self, partitions: int) -> None:
        self._partitions = partitions
        self._next = 0

    def choose(self, routing_key: str | None) -> int:
        """The partition of the next message."""
        if routing_key is not None:
            return fnv1a_64(routing_key.encode()) % self._partitions
        chosen = self._next
        self._next = (chosen + 1) % self._partitions
        return chosen


def fnv1a_64(data: bytes) -> int:
    """The FNV-1a hash of 64 bits."""
    result = _FNV_OFFSET
    for byte in data:
        result = ((result ^ byte) * _FNV_PRIME) & _MASK
    return result
