"""One round of group commit: which batch gets which offsets, and the bytes to write. Pure."""

from dataclasses import dataclass, field

from danube.storage.cursors import CursorKey, PendingCursor, encode_cursor
from danube.storage.envelope import ENVELOPE_BYTES, Kind, encode_data, encode_other
from danube.storage.journal.backlog import PendingBatch, TopicState
from danube.storage.log import StoredBatch


@dataclass(slots=True)
class Round:
    """What is written at once. Its offsets are only taken once it is written: a failed round leaves no gap."""

    batches: list[PendingBatch]
    cursors: dict[CursorKey, PendingCursor]
    stored: list[StoredBatch] = field(default_factory=list)
    """What `batches` become."""
    chunks: list[bytes] = field(default_factory=list)
    content_bytes: int = 0
    envelopes: int = 0

    def add(self, envelope: bytes, body: bytes) -> None:
        """Add the bytes of one record."""
        self.chunks += (envelope, body)
        self.content_bytes += ENVELOPE_BYTES + len(body)
        self.envelopes += 1


def build_round(batches: list[PendingBatch], cursors: dict[CursorKey, PendingCursor], now_ms: int) -> Round:
    """Lay out a round: each batch goes on where its topic ends, and no append time goes back."""
    built = Round(batches, cursors)
    ends: dict[TopicState, tuple[int, int]] = {}
    for batch in batches:
        topic = batch.topic
        base, earliest_ms = ends.get(topic) or (topic.durable_end, max(now_ms, topic.last_append_time_ms))
        stored = StoredBatch(base, batch.count, earliest_ms, batch.body())
        ends[topic] = (stored.end_offset, earliest_ms)
        offsets = range(base, stored.end_offset)
        built.add(encode_data(topic.topic_id, topic.epoch, offsets, earliest_ms, stored.body), stored.body)
        built.stored.append(stored)
    for (topic_id, subscription_id), pending in cursors.items():
        body = encode_cursor(subscription_id, pending.cursor)
        built.add(encode_other(Kind.CURSOR, topic_id, pending.epoch, now_ms, body), body)
    return built
