"""Addresses of Raft ports: the socket that listens at one, and host names resolved away from Raft's thread."""

import contextlib
import ipaddress
import socket
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from danube.model.errors import SettingsError
from danube.model.limits.metadata import RAFT_NAME_RETRY_S, RAFT_NAME_TTL_S, RAFT_NAMES_MAX
from danube.rpc.address import join_address
from danube.runtime.blocking import BlockingThread

_BACKLOG = 128


class Listener:
    """A socket that listens and does not block."""

    def __init__(self, listening: socket.socket) -> None:
        self._socket = listening

    @property
    def address(self) -> str:
        """`host:port` where it listens, with the port that the system chose for port 0."""
        host, port = self._socket.getsockname()[:2]
        return join_address(host, port)

    @property
    def is_loopback(self) -> bool:
        return is_loopback(self._socket.getsockname()[0])

    def fileno(self) -> int:
        return self._socket.fileno()

    def accept(self) -> tuple[socket.socket, str] | None:
        """The next connection and the host it comes from, if there is one. Raises OSError out of descriptors."""
        try:
            accepted, peer = self._socket.accept()
        except (BlockingIOError, ConnectionError):
            return None
        prepare(accepted)
        return accepted, str(peer[0])

    def close(self) -> None:
        """Idempotent."""
        self._socket.close()


def listen(bind: str) -> Listener:
    """Listen at `host:port`; port 0 takes a free one. Looks a host name up, so it may block.

    Raises SettingsError with the next step when that is not possible.
    """
    host, port = split(bind)
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[
            0
        ]
        listening = socket.socket(family, kind)
    except OSError as error:
        raise SettingsError(
            f"the Raft port cannot listen at {bind}: {error}. Give an address of this machine"
        ) from error
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(host != "::"))
        listening.bind(address)
        listening.listen(_BACKLOG)
        listening.settimeout(0)
    except OSError as error:
        listening.close()
        raise SettingsError(
            f"the Raft port cannot listen at {bind}: {error}. Give an address of this machine and a port that is free"
        ) from error
    return Listener(listening)


def prepare(connection: socket.socket) -> None:
    """Never block, and send small messages at once."""
    connection.settimeout(0)
    with contextlib.suppress(OSError):  # it is gone already; the next read tells
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def split(address: str) -> tuple[str, int]:
    """Host and port of `host:port` or `[host]:port`. Raises SettingsError."""
    host, colon, port = address.rpartition(":")
    host = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not (colon and host and port.isascii() and port.isdigit() and int(port) < 65_536):
        raise SettingsError(f"{address[:80]!r} is no address of a Raft port: it must look like 10.0.0.5:7650")
    return host, int(port)


def is_loopback(host: str) -> bool:
    """True if a numeric address means this machine and is reached from nowhere else."""
    address = ipaddress.ip_address(host.partition("%")[0])
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)


Lookup = Callable[..., Sequence[Any]]
"""The type of socket.getaddrinfo."""


@dataclass(frozen=True, slots=True)
class Target:
    """Address to connect to."""

    family: int
    address: Any
    """For sockets; its first item is the numeric host."""


@dataclass(slots=True)
class _Name:
    asked_s: float
    found: Sequence[Target] | OSError | None = None
    """None while the look-up is under way; set by its thread in one assignment."""
    turn: int = 0

    def is_old(self, now_s: float) -> bool:
        """True if it should be looked up again."""
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
        """Target of an address, each of its resolved addresses in turn; None while it is looked up.

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
