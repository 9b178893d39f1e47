"""The use of an object store by one broker, as its faces show it."""

from dataclasses import dataclass

from danube.model.limits.objects import OBJECT_SILENT_S
from danube.objects.bill import Bill


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectUse:
    """Requests so far, and how it stands."""

    url: str
    bill: Bill
    elapsed_s: float
    unanswered_s: float
    """Seconds for which the store has not answered; 0 while it does."""
    error: str
    """The last error of a request that was not answered; "" while the store answers."""
    cache_hits: int
    cache_misses: int
    waiting_bytes: int = 0
    """Sealed, or acknowledged by the disk, and not yet uploaded."""
    waiting_s: float = 0.0
    """Age of the oldest message among them that was acknowledged by the disk, at most."""

    @property
    def silence(self) -> str | None:
        """The reason to tell of what waits for the store; None while it answers."""
        if self.unanswered_s < OBJECT_SILENT_S:
            return None
        error = f" ({self.error})" if self.error else ""
        return f"the object store {self.url} does not answer, for {self.unanswered_s:.0f} s now{error}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicObjects:
    """One topic in an object store."""

    topic_id: int
    not_uploaded_bytes: int
    """Of its messages: on the broker's disk alone."""
    not_uploaded_since_ms: int | None
    """Append time of the oldest of them; None where all is uploaded."""
    stored_bytes: int
    """Of its segments in the store."""
    use: ObjectUse
