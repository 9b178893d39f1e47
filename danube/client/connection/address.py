"""Addresses of brokers."""

from dataclasses import dataclass
from urllib.parse import urlsplit

from danube.model.errors import SettingsError


@dataclass(frozen=True, slots=True)
class BrokerAddress:
    """A broker, and what to dial for it."""

    connect_url: str
    """What to dial: the broker itself, or a proxy before it."""
    broker_url: str
    """Who is meant."""
    proxy: bool = False
    """True if calls must name the broker, so that the proxy knows where they go."""

    @classmethod
    def direct(cls, url: str) -> "BrokerAddress":
        """The broker that answers at `url`."""
        return cls(url, url)


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
