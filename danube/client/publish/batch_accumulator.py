"""Payloads gathered into one batch, and the batch that becomes of them. Pure."""

from dataclasses import dataclass

from danube.model.limits.broker import BATCH_RECORDS_MAX, CLIENT_BATCH_BYTES
from danube.storage.batches.batch import LENGTH_BYTES, BatchOrigin, encode_payloads


@dataclass(frozen=True, slots=True)
class ClosedBatch:
    """A batch that is sent, and kept until it is acknowledged."""

    sequence: int
    body: bytes
    count: int


class BatchAccumulator:
    """What waits to become the next batch: up to CLIENT_BATCH_BYTES, or one payload that is larger."""

    def __init__(self, first_record: int = 0) -> None:
        """`first_record` is the number that the first payload gets."""
        self._payloads: list[bytes] = []
        self._first_ms = 0
        self._records_before = first_record
        self._sequence = 0
        self.bytes = 0
        """Of the payloads, with their lengths."""

    def __bool__(self) -> bool:
        return bool(self._payloads)

    @property
    def next_sequence(self) -> int:
        """The number that the next batch will have."""
        return self._sequence

    @property
    def next_record(self) -> int:
        """The number of the first payload of the next batch."""
        return self._records_before

    @property
    def first_ms(self) -> int:
        """When the first payload came."""
        return self._first_ms

    def take(self, payload: bytes, now_ms: int) -> bool:
        """Add a payload, unless it must wait for the next batch; answers whether it was added."""
        size = len(payload) + LENGTH_BYTES
        if self._payloads:
            if self.bytes + size > CLIENT_BATCH_BYTES or len(self._payloads) == BATCH_RECORDS_MAX:
                return False
        else:
            self._first_ms = now_ms
        self._payloads.append(payload)
        self.bytes += size
        return True

    def seal(self, shared: bytes, producer_id: int, now_ms: int) -> ClosedBatch:
        """Make a batch of all that is here, and begin the next."""
        origin = BatchOrigin(
            producer_id=producer_id,
            base_sequence=self._records_before,
            first_publish_ms=self._first_ms,
            last_publish_ms=max(self._first_ms, now_ms),
        )
        count = len(self._payloads)
        sealed = ClosedBatch(self._sequence, encode_payloads(shared, self._payloads, origin), count)
        self._payloads = []
        self.bytes = 0
        self._sequence += 1
        self._records_before += count
        return sealed
