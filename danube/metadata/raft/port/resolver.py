"""Host names of members looked up away from the raft thread, which must not wait for a name server."""

import socket
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from danube.metadata.raft.port.listener import split
from danube.model.limits.metadata import RAFT_NAME_RETRY_S, RAFT_NAME_TTL_S, RAFT_NAMES_MAX
from danube.runtime.blocking import BlockingThread

Lookup = Callable[..., Sequence[Any]]
"""As socket.getaddrinfo."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where to connect to."""

    family: int
    address: Any
    """As sockets take it: its first item is the numeric host."""


@dataclass(slots=True)
class _Name:
    asked_s: float
    found: Sequence[Target] | OSError | None = None
    """None while the look-up is under way; set by its thread in one assignment."""
    turn: int = 0

    def is_old(self, now_s: float) -> bool:
        """Whether it should be looked up again."""
        kept_s = RAFT_NAME_RETRY_S if isinstance(self.found, OSError) else RAFT_NAME_TTL_S
        return self.found is not None and now_s - self.asked_s > kept_s


class Names:
    """Addresses of `host:port`, of one thread. `wake` is called from another thread when a look-up has ended."""

    def __init__(self, wake: Callable[[], None], lookup: Lookup = socket.getaddrinfo) -> None:
        self._wake = wake
        self._lookup = lookup
        self._thread = BlockingThread("raft-names")
        self._names: OrderedDict[str, _Name] = OrderedDict()

    def target(self, address: str, now_s: float) -> Target | None:
        """Where to connect to for it, each of its addresses in turn; None while it is looked up.

        Raises OSError for a name that means nothing now, SettingsError for what is no address.
        """
        host, port = split(address)
        numeric = _numeric(host, port)
        if numeric is not None:
            return numeric
        name = self._name(address, now_s)
        if name.found is None:
            return None
        if isinstance(name.found, OSError):
            raise name.found
        name.turn += 1
        return name.found[name.turn % len(name.found)]

    def close(self) -> None:
        """Look nothing up any more, without waiting for what is under way."""
        self._thread.leave()

    def _name(self, address: str, now_s: float) -> _Name:
        name = self._names.get(address)
        if name is None or name.is_old(now_s):
            name = self._names[address] = _Name(now_s)
            self._names.move_to_end(address)
            while len(self._names) > RAFT_NAMES_MAX:
                self._names.popitem(last=False)
            asked = name
            self._thread.start(lambda: self._look_up(address, asked))
        return name

    def _look_up(self, address: str, name: _Name) -> None:
        host, port = split(address)
        try:
            name.found = _targets(self._lookup(host, port, type=socket.SOCK_STREAM))
        except (OSError, UnicodeError) as error:
            name.found = error if isinstance(error, OSError) else OSError(f"no host name: {error}")
        self._wake()


def _targets(found: Sequence[Any]) -> Sequence[Target]:
    targets = [Target(family, address) for family, _, _, _, address in found]
    if not targets:
        raise OSError("the name means no address")
    return targets


def _numeric(host: str, port: int) -> Target | None:
    try:
        found = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
        )
    except (OSError, UnicodeError):
        return None
    return _targets(found)[0]
