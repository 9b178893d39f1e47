"""`host:port` addresses."""

import ipaddress

from danube.model.errors import SettingsError

_PORT_MAX = 65_535


def split_address(address: str) -> tuple[str, int]:
    """Host and port of `host:port`; an IPv6 host stands in brackets. Raises SettingsError."""
    host, separator, port = address.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    bracketed = bare != host
    if not (separator and bare and port.isascii() and port.isdigit() and int(port) <= _PORT_MAX):
        raise SettingsError(f"{address!r} is not an address: give host:port, such as 0.0.0.0:6650")
    if ":" in bare and not bracketed:
        raise SettingsError(f"{address!r} is not an address: put an IPv6 host in brackets, such as [::1]:6650")
    return bare, int(port)


def join_address(host: str, port: int) -> str:
    """The inverse of `split_address`."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_loopback(host: str) -> bool:
    """True if a host, an IPv6 one with or without brackets, is this machine on every resolver."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"
