"""Offers of logs: of topics of this broker that their next owners copy to their own disks."""

import zlib
from collections.abc import Callable
from dataclasses import dataclass

from danube.broker.clients.moves import Moves
from danube.broker.topics.local_topics import Topics
from danube.broker.topics.topic import ReliableTopic
from danube.model.calls.carry import CarryOffer, CarryStep, PrepareCarry, ReadSegment, SegmentPiece
from danube.model.errors import InvalidRequestError, PreconditionFailedError, TopicNotServedError
from danube.model.limits.moves import CARRY_PAUSE_S_MAX, CARRY_PIECE_BYTES_MAX
from danube.model.topic import TopicName
from danube.runtime.clock import Clock
from danube.storage.segment.manifest_format import encode_manifest
from danube.storage.store import Storage


@dataclass(slots=True)
class _Offer:
    """A log that leaves, as its next owner tells it."""

    paused_until_s: float = 0.0
    """Monotonic time until which the topic waits for its next owner."""
    copied: tuple[int, int] | None = None
    """Bytes that the next owner has copied, and of the whole log."""


class LogOffers:
    """Offers logs, and pauses topics whose next owner is ready, for CARRY_PAUSE_S_MAX at most."""

    def __init__(self, topics: Topics, moves: Moves, storage: Storage, clock: Clock) -> None:
        self._topics = topics
        self._moves = moves
        self._storage = storage
        self._clock = clock
        self._offers: dict[int, _Offer] = {}
        """By topic id."""
        self._on_resume: Callable[[], None] = lambda: None

    def on_resume(self, listener: Callable[[], None]) -> None:
        """Have `listener` called when a paused topic is to be served again."""
        self._on_resume = listener

    def is_paused(self, topic_id: int) -> bool:
        """True while a topic waits for its next owner. After that only a new epoch keeps a late one from owning it."""
        offer = self._offers.get(topic_id)
        return offer is not None and offer.paused_until_s > self._clock.monotonic_s()

    def forget(self, topic_id: int) -> None:
        """The next owner of a topic has it."""
        self._offers.pop(topic_id, None)

    def progress(self, topic_id: int) -> tuple[int, int] | None:
        """As `LogCopies.progress`, of a log that leaves this broker."""
        offer = self._offers.get(topic_id)
        return offer.copied if offer is not None else None

    async def prepare(self, wanted: PrepareCarry) -> CarryOffer:
        """Have what is stored of a topic in segments; answers their manifest.

        Raises TopicNotServedError, PreconditionFailedError for a topic that is not to leave, and as `LogCarry.flush`.
        """
        topic_id = wanted.topic_id
        if wanted.step is CarryStep.RESUME:
            was_paused = self.is_paused(topic_id)
            self.forget(topic_id)
            if was_paused:
                self._on_resume()
            return CarryOffer()
        if not self.is_paused(topic_id):
            self._check(topic_id, wanted.topic)
            if wanted.step is CarryStep.PAUSE:
                await self._pause(wanted)
        history = await self._storage.carry.flush(topic_id)
        return CarryOffer(manifest=encode_manifest(history.manifest), revision=history.record.revision)

    async def read(self, wanted: ReadSegment) -> SegmentPiece:
        """A piece of a segment, of a topic that `prepare` would offer.

        Raises InvalidRequestError, NotFoundError, StorageUnavailableError, and as `prepare` for any other topic.
        """
        if wanted.length > CARRY_PIECE_BYTES_MAX:
            raise InvalidRequestError(f"{wanted.length} bytes are more than one piece: {CARRY_PIECE_BYTES_MAX}")
        if not self.is_paused(wanted.topic_id):
            self._check(wanted.topic_id, self._topics.cluster.name_of(wanted.topic_id))
        content = await self._storage.carry.read(wanted.topic_id, wanted.name, wanted.position, wanted.length)
        self._offer(wanted.topic_id).copied = wanted.copied_bytes, wanted.log_bytes
        return SegmentPiece(content=content, checksum=zlib.crc32(content))

    def _check(self, topic_id: int, name: TopicName | None) -> None:
        topic = self._topics.find(str(name))
        if topic is None or topic.record.topic_id != topic_id or not isinstance(topic, ReliableTopic):
            raise TopicNotServedError(f"{name or f'topic {topic_id}'} is not served here, with a log: look it up again")
        if not self._topics.is_leaving(topic.record):
            raise PreconditionFailedError(f"{name} is assigned to this broker and stays here")

    async def _pause(self, wanted: PrepareCarry) -> None:
        offer = self._offer(wanted.topic_id)
        offer.paused_until_s = self._clock.monotonic_s() + CARRY_PAUSE_S_MAX
        try:
            await self._moves.unload(wanted.topic)
        except BaseException:
            offer.paused_until_s = 0.0
            raise

    def _offer(self, topic_id: int) -> _Offer:
        return self._offers.setdefault(topic_id, _Offer())
