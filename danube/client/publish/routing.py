"""Routing of messages to partitions. Pure; the same choice as in every official client that has one."""

from danube.model.message import fnv1a_64


class Router:
    """Chooses among `partitions` partitions (at least 1): by key where there is one, else each in turn from 0."""

    def __init__(self, partitions: int) -> None:
        self._partitions = partitions
        self._next = 0

    def choose(self, routing_key: str | None) -> int:
        """The partition of the next message."""
        if self._partitions == 1:
            return 0
        if routing_key is not None:
            return fnv1a_64(routing_key.encode()) % self._partitions
        chosen = self._next
        self._next = (chosen + 1) % self._partitions
        return chosen
