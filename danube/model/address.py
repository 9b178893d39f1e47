"""Addresses in URLs."""

from urllib.parse import urlsplit

from danube.model.errors import SettingsError


def host_and_port(url: str) -> str:
    """The `host:port` of `http://host:port`, `https://host:port` or `host:port`. Raises SettingsError."""
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        complete = bool(parts.scheme in {"http", "https"} and parts.hostname and parts.port)
    except ValueError:
        complete = False
    if not complete:
        raise SettingsError(f"service URL {url[:80]!r} is not an address: write it as http://host:port, port included")
    return parts.netloc
