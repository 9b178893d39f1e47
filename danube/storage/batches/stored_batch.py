"""A record batch as it stands in a log, and the callbacks of what is written. Pure."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from danube.model.errors import DanubeError


@dataclass(slots=True)
class StoredBatch:
    """One record batch as it stands in the log. Never changed; frozen, it would cost five times as much to make."""

    base_offset: int
    count: int
    append_time_ms: int
    """Broker clock; never goes back within a topic."""
    body: bytes
    """As drawn in `docs/formats/batch.md`."""

    @property
    def end_offset(self) -> int:
        """The offset after the last record."""
        return self.base_offset + self.count


class EncodedBatch(NamedTuple):
    """One record batch with its envelope, byte for byte as they stand in the journal and in a segment."""

    base_offset: int
    end_offset: int
    """The offset after the last record."""
    append_time_ms: int
    body_bytes: int
    encoded: bytes
    """Envelope and body."""


AppendDone = Callable[[int | DanubeError], None]
"""Called once with the offset of the (first) record, or with the error."""

Saved = Callable[[DanubeError | None], None]
"""Called once, when durable or when it failed."""
