"""Bounds of one query, and what it has used of them."""

import threading
from dataclasses import dataclass, field

from danube.model.errors import LimitReachedError
from danube.model.text import count_text, size_text
from danube.runtime.clock import Clock

QUERY_ROWS_MAX = 1_000
"""Rows of an answer, where nothing is set."""
QUERY_READ_BYTES_MAX = 2 * 1024**3
"""Bytes of stored batches that a query fetches, where nothing is set."""
QUERY_TIMEOUT_S = 60.0
"""Time of a query, where nothing is set."""
QUERY_CHARS_MAX = 64 * 1024
"""Characters of one query."""
QUERY_MEMORY_BYTES_MAX = 1024**3
"""Memory of DuckDB for one query, where nothing is set."""
QUERY_ANSWER_BYTES_MAX = 256 * 1024**2
"""An answer of more bytes is cut, whatever its rows."""

NARROWER = "narrow it by --since, or by a condition on append_time, offset or partition"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryBounds:
    """Limits of one query."""

    rows_max: int = QUERY_ROWS_MAX
    read_bytes_max: int = QUERY_READ_BYTES_MAX
    timeout_s: float = QUERY_TIMEOUT_S
    memory_bytes_max: int = QUERY_MEMORY_BYTES_MAX


@dataclass(slots=True)
class Usage:
    """Reads of a query so far. For several threads."""

    bounds: QueryBounds
    clock: Clock
    planned: int = 0
    """Messages that its tables have in the slices that are read."""
    messages: int = 0
    read_bytes: int = 0
    began_s: float = field(init=False)
    failure: Exception | None = None
    """The first error of a reader: DuckDB's own says less."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.began_s = self.clock.monotonic_s()

    @property
    def elapsed_s(self) -> float:
        """Time since the query began."""
        return self.clock.monotonic_s() - self.began_s

    def plan(self, messages: int) -> None:
        """So many messages will be read, unless the answer is whole before."""
        with self._lock:
            self.planned += messages

    def read(self, messages: int, size_bytes: int) -> None:
        """Count what was read. Raises LimitReachedError past a bound."""
        with self._lock:
            self.messages += messages
            self.read_bytes += size_bytes
            problem = self.read_bytes > self.bounds.read_bytes_max
        if problem:
            raise LimitReachedError(
                f"the query has read {size_text(self.read_bytes)} in {count_text(self.messages, 'message')} of"
                f" {self.planned:,}, and its bound is {size_text(self.bounds.read_bytes_max)}: {NARROWER}, or raise"
                " --max-read"
            )
        self.check_time()

    def check_time(self) -> None:
        """Raise LimitReachedError once the time is over."""
        if self.elapsed_s > self.bounds.timeout_s:
            raise self.late()

    def late(self) -> LimitReachedError:
        """The error of a query whose time is over."""
        return LimitReachedError(
            f"the query was ended after {self.bounds.timeout_s:g} s, with {self.messages:,} of {self.planned:,}"
            f" messages read: {NARROWER}, or raise --timeout-s"
        )
