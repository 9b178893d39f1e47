"""Files and objects of a topic, and the use of an object store by a broker, as administrators see them."""

from dataclasses import dataclass

from danube.model.plans.durability import Durability


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


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicStorageDescription:
    """Size and age of a topic's messages."""

    stored_bytes: int
    """Of the messages that can be read."""
    segments: int
    """Segment files; newer messages are in the broker's journal."""
    segment_file_bytes: int
    oldest_ms: int | None
    """When the oldest message that can be read was appended; None without messages."""
    newest_ms: int | None
    unsynced_bytes: int
    """Acknowledged and not synced: a power cut may lose them. 0 with durability fsync."""
    durability: Durability | None = None
    """When a publish is acknowledged; None from a broker of an older version."""
    not_uploaded_bytes: int | None = None
    """Of its messages that are on the broker's disk alone; None without an object store, as the rest."""
    not_uploaded_since_ms: int | None = None
    """When the oldest of them was appended; None where all is uploaded."""
    object_bytes: int | None = None
    """Of its segments in the object store."""
    object_puts: int | None = None
    """Requests for its segments and manifests since the broker started; those of the journal are of all topics."""
    object_gets: int | None = None
    object_lists: int | None = None
    object_deletes: int | None = None
    object_month_dollars: float | None = None
    """Of a month, if those requests go on, and for keeping its segments."""
