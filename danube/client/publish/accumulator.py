"""Accumulator: partitions of messages, batches before they are sent, and the identity that sends them. Pure."""

from dataclasses import dataclass, replace

from danube.model.calls.stream import ProducerAccess, PublishOpen, PublishOpened
from danube.model.errors import UnrecoverableError
from danube.model.limits.broker import BATCH_RECORDS_MAX, CLIENT_BATCH_BYTES
from danube.model.message import fnv1a_64
from danube.runtime.rng import Rng
from danube.storage.batches.batch import LENGTH_BYTES, BatchOrigin, encode_messages, encode_payloads
from danube.storage.batches.compression import BatchCodec


@dataclass(frozen=True, slots=True)
class ClosedBatch:
    """A batch that is sent, and kept until it is acknowledged."""

    sequence: int
    body: bytes
    count: int
    first_ms: int = 0
    """The time at which its first payload was added."""


class BatchAccumulator:
    """Collects payloads for the next batch: up to CLIENT_BATCH_BYTES, or one payload that is larger."""

    def __init__(self, first_record: int = 0, *, are_whole: bool = False) -> None:
        """`first_record` is the number that the first payload gets. Or they are whole encoded messages."""
        self._are_whole = are_whole
        self._payloads: list[bytes] = []
        self._sequence = 0
        self.next_record = first_record
        """The number of the first payload of the next batch."""
        self.first_ms = 0
        """The time at which the first payload was added."""
        self.bytes = 0
        """Of the payloads, with their lengths."""

    def __bool__(self) -> bool:
        return bool(self._payloads)

    def append(self, payload: bytes, now_ms: int) -> bool:
        """Add a payload, unless it must wait for the next batch; answers whether it was added."""
        size = len(payload) + LENGTH_BYTES
        if self._payloads:
            if self.bytes + size > CLIENT_BATCH_BYTES or len(self._payloads) == BATCH_RECORDS_MAX:
                return False
        else:
            self.first_ms = now_ms
        self._payloads.append(payload)
        self.bytes += size
        return True

    def seal(self, shared: bytes, producer_id: int, now_ms: int, codec: BatchCodec = BatchCodec.NONE) -> ClosedBatch:
        """Make a batch of all payloads, and begin the next."""
        origin = BatchOrigin(
            producer_id=producer_id,
            base_sequence=self.next_record,
            first_publish_ms=self.first_ms,
            last_publish_ms=max(self.first_ms, now_ms),
        )
        count = len(self._payloads)
        if self._are_whole:
            body = encode_messages(self._payloads, origin, codec)
        else:
            body = encode_payloads(shared, self._payloads, origin, codec)
        sealed = ClosedBatch(self._sequence, body, count, self.first_ms)
        self._payloads = []
        self.bytes = 0
        self._sequence += 1
        self.next_record += count
        return sealed


@dataclass(slots=True)
class ProducerSequence:
    """The sequence numbers of one stream of records, under a random key."""

    key: int
    next_sequence: int = 0
    """Of the next record."""


class ProducerIdentity:
    """Identity of a producer across publish streams: access, epoch, and sequence numbers where it de-duplicates."""

    def __init__(self, access: ProducerAccess, rng: Rng, *, deduplicates: bool) -> None:
        self._access = access
        self._rng = rng
        self._deduplicates = deduplicates
        self._epoch = 0
        self._idle: ProducerSequence | None = None

    @property
    def is_exclusive(self) -> bool:
        """Tell whether other producers are kept out."""
        return self._access is not ProducerAccess.SHARED

    def acquire_sequence(self) -> ProducerSequence | None:
        """A sequence for one stream at a time, until it is released; None without de-duplication."""
        if not self._deduplicates:
            return None
        acquired, self._idle = self._idle or ProducerSequence(self._rng.new_id()), None
        return acquired

    def release_sequence(self, sequence: ProducerSequence) -> None:
        """All of its records are stored: the next stream continues it. One that failed is not released."""
        self._idle = sequence

    def opening(self, plain: PublishOpen, sequence: ProducerSequence | None) -> PublishOpen:
        """The opening of a stream, with the current epoch."""
        key = sequence.key if sequence else 0
        return replace(plain, access=self._access, epoch=self._epoch, deduplication_key=key)

    def opened(self, answer: PublishOpened, sequence: ProducerSequence | None) -> None:
        """The broker accepted the stream. Raises UnrecoverableError when it ignored what was asked for."""
        if (sequence is not None and not answer.numbering_id) or (self.is_exclusive and not answer.epoch):
            raise UnrecoverableError(
                "the broker knows neither exclusive producers nor de-duplication: use a newer one, or do without them"
            )
        self._epoch = answer.epoch


class Router:
    """Chooses among `partitions` partitions (at least 1): by key where there is one, else each in turn from 0."""

    def __init__(self, partitions: int) -> None:
        self._partitions = partitions
        self._next = 0

    def choose(self, routing_key: str | None) -> int:
        """The partition of the next message."""
        if self._partitions == 1:
            return 0
        if routing_key is not None:
            return fnv1a_64(routing_key.encode()) % self._partitions
        chosen = self._next
        self._next = (chosen + 1) % self._partitions
        return chosen
