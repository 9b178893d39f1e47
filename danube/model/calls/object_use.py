"""The use of an object store by a broker, as administrators see it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectRequests:
    """Requests of one kind and cause that a broker sent to its object store."""

    kind: str
    """put, get, list, head or delete."""
    cause: str
    """journal, recovery, fence, segment, read or probe."""
    requests: int
    failed: int
    """Of these: refused, or not answered."""
    sent_bytes: int
    received_bytes: int
    dollars: float
    """So far, at the broker's prices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectStoreDescription:
    """A broker's use of its object store since it started."""

    url: str
    elapsed_s: float
    requests: tuple[ObjectRequests, ...]
    month_dollars: float
    """Requests and bytes read of a month, if it goes on like this."""
    stored_bytes: int
    """Of the segments of its topics."""
    stored_month_dollars: float
    cache_hits: int
    cache_misses: int
    waiting_bytes: int
    """Sealed and not yet uploaded."""
    unanswered_s: float
    """Seconds for which the store has not answered; 0 while it does."""
    waiting_s: float = 0.0
    """Age of the oldest message that waits, at most; 0 of a broker of an older version."""
