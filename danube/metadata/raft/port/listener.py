"""Addresses of Raft ports, and the socket that listens at one."""

import contextlib
import ipaddress
import socket

from danube.model.errors import SettingsError

_BACKLOG = 128


class Listener:
    """A socket that listens and does not block."""

    def __init__(self, listening: socket.socket) -> None:
        self._socket = listening

    @property
    def address(self) -> str:
        """`host:port` where it listens, with the port that the system chose for port 0."""
        host, port = self._socket.getsockname()[:2]
        return joined(host, port)

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine reaches it."""
        return is_loopback(self._socket.getsockname()[0])

    def fileno(self) -> int:
        """For the poller."""
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
        """Listen no more. Idempotent."""
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


def joined(host: str, port: int) -> str:
    """`host:port`, as `split` takes it."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_loopback(host: str) -> bool:
    """Whether a numeric address means this machine and is reached from nowhere else."""
    address = ipaddress.ip_address(host.partition("%")[0])
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)
