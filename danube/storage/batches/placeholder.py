"""Placeholder batches for messages that are lost for good, so that all others keep their offsets. Pure.

A placeholder has one empty record for each lost message, a producer id that no producer gets, and an attribute that
marks it. Dispatch skips placeholders; a reader by offset sees empty messages with that attribute. Only the repair of
damaged storage makes them.
"""

from collections.abc import Iterator

from danube.model.calls.client import OutgoingMessage
from danube.model.limits.broker import BATCH_RECORDS_MAX
from danube.storage.batches.batch import BatchOrigin, encode_payloads
from danube.storage.batches.envelope import encode_data
from danube.storage.batches.stored_batch import EncodedBatch
from danube.wire.encode import send_message

PLACEHOLDER_PRODUCER_ID = 0x4C4F_5354_4C4F_5354  # "LOSTLOST": bit 63 is not set, so it is no idempotent producer either
"""The producer id in the header of a placeholder."""
_PRODUCER_ID = slice(8, 16)  # within a body (batch.py)
_LOST = PLACEHOLDER_PRODUCER_ID.to_bytes(8, "little")
PLACEHOLDER_PRODUCER_NAME = "danube-broker-storage-repair"
PLACEHOLDER_ATTRIBUTE = "danube-lost"
"""An attribute of every message of a placeholder."""


def is_placeholder(body: bytes) -> bool:
    """True if the batch with this body is a placeholder; in constant time."""
    return body[_PRODUCER_ID] == _LOST


def placeholders(topic_id: int, topic: str, offsets: range, append_time_ms: int) -> Iterator[EncodedBatch]:
    """Placeholders for these offsets of a topic, as they are stored."""
    shared = send_message(
        OutgoingMessage(
            request_id=0,
            producer_id=PLACEHOLDER_PRODUCER_ID,
            topic=topic,
            broker_addr="",
            payload=b"",
            publish_time_ms=append_time_ms,
            producer_name=PLACEHOLDER_PRODUCER_NAME,
            attributes={PLACEHOLDER_ATTRIBUTE: "this message was lost when its storage was damaged"},
        )
    )
    origin = BatchOrigin(
        producer_id=PLACEHOLDER_PRODUCER_ID, first_publish_ms=append_time_ms, last_publish_ms=append_time_ms
    )
    for start in range(offsets.start, offsets.stop, BATCH_RECORDS_MAX):
        part = range(start, min(start + BATCH_RECORDS_MAX, offsets.stop))
        body = encode_payloads(shared, [b""] * len(part), origin)
        envelope = encode_data(topic_id, 0, part, append_time_ms, body)
        yield EncodedBatch(part.start, part.stop, append_time_ms, len(body), envelope + body)
