"""The bill: requests by kind and cause, bytes, and the cost that they project at given prices."""

import re
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from danube.model.limits.broker import TOPICS_PER_BROKER_MAX

_TOPIC = re.compile(r"(?:^|/)segments/([0-9]{1,20})/")
_HOURS_A_MONTH = 730.0
_GB = 1e9


class RequestKind(StrEnum):
    """Kind of a request, as stores price it."""

    PUT = "put"
    GET = "get"
    LIST = "list"
    HEAD = "head"
    DELETE = "delete"


class Cause(StrEnum):
    """Reason of a request."""

    JOURNAL = "journal"
    """A round of group commit."""
    RECOVERY = "recovery"
    """A journal is read at the start, or by a new owner."""
    FENCE = "fence"
    SEGMENT = "segment"
    """Segments and manifests are written, listed, deleted."""
    READ = "read"
    """History is read."""
    PROBE = "probe"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """Prices in dollars; the defaults are the list prices of S3 Standard in us-east-1."""

    put_per_million: float = 5.0
    """PUT, POST and LIST."""
    get_per_million: float = 0.4
    """GET and HEAD."""
    stored_gb_month: float = 0.023
    egress_gb: float = 0.0
    """Of bytes read; nothing within a region."""

    def of_requests(self, kind: RequestKind, count: int) -> float:
        """Dollars for so many requests."""
        if kind is RequestKind.DELETE:
            return 0.0
        is_put = kind in {RequestKind.PUT, RequestKind.LIST}
        return count * (self.put_per_million if is_put else self.get_per_million) / 1e6


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a bill: all requests of one kind and cause."""

    kind: RequestKind
    cause: Cause
    requests: int
    failed: int
    sent_bytes: int
    received_bytes: int


@dataclass(slots=True)
class _Counts:
    requests: int = 0
    failed: int = 0
    sent_bytes: int = 0
    received_bytes: int = 0


@dataclass(slots=True)
class Bill:
    """Requests of one broker since it started. May be used from several threads."""

    started_s: float
    """By the monotonic clock."""
    prices: Prices = field(default_factory=Prices)
    _counts: dict[tuple[RequestKind, Cause], _Counts] = field(default_factory=dict)
    _topics: dict[int, Counter[RequestKind]] = field(default_factory=dict)
    """By topic id: requests for objects of this topic alone."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(
        self,
        kind: RequestKind,
        cause: Cause,
        *,
        name: str = "",
        sent_bytes: int = 0,
        received_bytes: int = 0,
        failed: bool = False,
    ) -> None:
        """Count one request, answered or not: stores charge for both. `name` is that of an object, or begins it."""
        found = _TOPIC.search(name)
        with self._lock:
            counts = self._counts.setdefault((kind, cause), _Counts())
            counts.requests += 1
            counts.failed += failed
            counts.sent_bytes += sent_bytes
            counts.received_bytes += received_bytes
            if found is not None:
                topic_id = int(found[1])
                if topic_id not in self._topics and len(self._topics) >= TOPICS_PER_BROKER_MAX:
                    self._topics.pop(next(iter(self._topics)))
                self._topics.setdefault(topic_id, Counter())[kind] += 1

    def of_topic(self, topic_id: int) -> Mapping[RequestKind, int]:
        """Requests for the segments and manifests of one topic; rounds of the journal are of all topics together."""
        with self._lock:
            return dict(self._topics.get(topic_id, {}))

    def lines(self) -> list[Line]:
        """All lines, by kind and cause."""
        with self._lock:
            return [
                Line(kind, cause, one.requests, one.failed, one.sent_bytes, one.received_bytes)
                for (kind, cause), one in sorted(self._counts.items())
            ]


def cost_of(line: Line, prices: Prices) -> float:
    """Dollars of one line so far."""
    return prices.of_requests(line.kind, line.requests) + line.received_bytes / _GB * prices.egress_gb


def projected_month(dollars: float, elapsed_s: float) -> float:
    """Dollars a month if it goes on like this."""
    return dollars / max(elapsed_s, 1.0) * 3_600 * _HOURS_A_MONTH
