"""Sockets that listen at `host:port`, and errors that say what to do where that is impossible."""

import asyncio
import errno
import socket
from contextlib import suppress
from ipaddress import ip_address

from danube.model.errors import SettingsError
from danube.rpc.address import split_address


async def listen_at(address: str) -> socket.socket:
    """A socket bound to `host:port`. Raises SettingsError with the reason."""
    host, port = split_address(address)
    family, target = await _resolve(address, host, port)
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(target)
        listener.listen()
    except OSError as error:
        listener.close()
        raise _bind_error(address, error) from error
    return listener


async def check_free(address: str) -> None:
    """Return when `host:port` can be bound now. Raises SettingsError with the reason, which gRPC would not give."""
    (await listen_at(address)).close()


async def _resolve(address: str, host: str, port: int) -> tuple[int, tuple[str, int]]:
    with suppress(ValueError):
        family = socket.AF_INET if ip_address(host).version == 4 else socket.AF_INET6
        return family, (host, port)
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise SettingsError(f"cannot listen on {address}: the host {host} has no address; check its name") from error
    return found[0][0], (str(found[0][4][0]), port)


def _bind_error(address: str, error: OSError) -> SettingsError:
    if error.errno == errno.EADDRINUSE:
        return SettingsError(f"{address} is in use by another process; stop it or choose another port")
    if error.errno == errno.EADDRNOTAVAIL:
        return SettingsError(f"cannot listen on {address}: this machine does not have that address; choose one it has")
    if error.errno == errno.EACCES:
        return SettingsError(f"cannot listen on {address}: ports below 1024 need a privilege; choose a higher port")
    return SettingsError(f"cannot listen on {address}: {error.strerror}; choose another address")
