"""Ports for servers that must know theirs before they start. Two processes that ask here never get the same one."""

import random
import socket

_RANGE = range(10_000, 32_000)  # below those that Linux gives to connections, which come and go meanwhile


def free_port() -> int:
    """One of this process's own for as long as it lives, that nobody listened on a moment ago.

    Raises RuntimeError when there is none.
    """
    port, claim = _claimed()
    claim.detach()  # open until the process ends
    return port


def passing_ports(count: int) -> list[int]:
    """Several that nobody has, for servers that take them at once, and are others' after that. Raises as above."""
    claimed = [_claimed() for _ in range(count)]
    for _, claim in claimed:
        claim.close()
    return [port for port, _ in claimed]


def _claimed() -> tuple[int, socket.socket]:
    for port in random.sample(_RANGE, len(_RANGE)):
        if _is_free(port) and (claim := _claim(port)) is not None:
            return port, claim
    raise RuntimeError(f"every port from {_RANGE.start} to {_RANGE.stop - 1} is taken")


def _claim(port: int) -> socket.socket | None:
    """Hold a name that the kernel gives to one process at a time, and takes back at its end; None when it is held."""
    claim = socket.socket(socket.AF_UNIX)
    try:
        claim.bind(f"\0danube-free-port-{port}")
    except OSError:
        claim.close()
        return None
    return claim


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
