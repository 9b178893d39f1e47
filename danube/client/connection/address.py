"""Addresses of brokers."""

from dataclasses import dataclass


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
