"""One round of group commit: which batch gets which offsets, and the bytes to write. Pure."""

from dataclasses import dataclass, field

from danube.model.limits.broker import CLOCK_STEP_MAX_S
from danube.model.plans.durability import Durability
from danube.storage.batches.envelope import ENVELOPE_BYTES, Kind, encode_data, encode_other
from danube.storage.journal.backlog import PendingBatch, TopicState
from danube.storage.log.cursors import CursorKey, PendingCursor, encode_cursor
from danube.storage.log.protocol import StoredBatch


@dataclass(slots=True)
class Round:
    """What is written at once. Its offsets are only taken once it is written: a failed round leaves no gap."""

    batches: list[PendingBatch]
    cursors: dict[CursorKey, PendingCursor]
    now_ms: int = 0
    """When it was gathered: the append time of its cursors."""
    stored: list[StoredBatch] = field(default_factory=list)
    """What `batches` become."""
    chunks: list[bytes] = field(default_factory=list)
    content_bytes: int = 0
    envelopes: int = 0
    durabilities: set[Durability] = field(default_factory=set)
    """Of all topics with a batch or a cursor in it."""
    ahead: tuple[int, int] | None = None
    """The topic that is furthest ahead of the clock, by more than it may be off, and the append time it gets."""

    @property
    def must_sync(self) -> bool:
        """Whether something in it counts as stored only after a sync."""
        return Durability.FSYNC in self.durabilities

    @property
    def has_become_strict(self) -> bool:
        """Whether the durability of a topic in it was changed since it was gathered, so that it has to be synced."""
        return Durability.FSYNC in durabilities_of(self.batches, self.cursors)

    def add(self, envelope: bytes, body: bytes) -> None:
        """Add the bytes of one record."""
        self.chunks += (envelope, body)
        self.content_bytes += ENVELOPE_BYTES + len(body)
        self.envelopes += 1


def durabilities_of(batches: list[PendingBatch], cursors: dict[CursorKey, PendingCursor]) -> set[Durability]:
    """What is asked now of a round with these."""
    return {batch.topic.durability for batch in batches} | {cursor.durability for cursor in cursors.values()}


def build_round(batches: list[PendingBatch], cursors: dict[CursorKey, PendingCursor], now_ms: int) -> Round:
    """Lay out a round: each batch goes on where its topic ends, and no append time goes back."""
    built = Round(batches, cursors, now_ms, durabilities=durabilities_of(batches, cursors))
    furthest_ms = now_ms + round(CLOCK_STEP_MAX_S * 1_000)
    ends: dict[TopicState, tuple[int, int]] = {}
    for batch in batches:
        topic = batch.topic
        base, earliest_ms = ends.get(topic) or (topic.durable_end, max(now_ms, topic.last_append_time_ms))
        body = batch.body()
        if earliest_ms > furthest_ms:
            built.ahead, furthest_ms = (topic.topic_id, earliest_ms), earliest_ms
        end = base + batch.count
        ends[topic] = (end, earliest_ms)
        built.add(encode_data(topic.topic_id, topic.epoch, range(base, end), earliest_ms, body), body)
        built.stored.append(StoredBatch(base, batch.count, earliest_ms, body))
    for (topic_id, subscription_id), pending in cursors.items():
        body = encode_cursor(subscription_id, pending.cursor)
        built.add(encode_other(Kind.CURSOR, topic_id, pending.epoch, now_ms, body), body)
    return built
