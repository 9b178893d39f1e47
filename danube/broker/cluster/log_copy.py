"""Copy of a topic's log from the disk of its owner to that of this broker, its next owner.

The owner serves the topic while its segments are copied, as often as it takes for little to be left; then it pauses the
topic, and what is left is copied. The topic is this broker's by compare-and-set on the ownership that the owner named
in the pause: an owner that has resumed, or was started again, meanwhile has changed it.
"""

import asyncio
import zlib
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from danube.broker.rates.rates import TokenBucket
from danube.metadata.records.catalog import TopicRecord
from danube.metadata.records.storage import StorageRecords
from danube.model.address import host_and_port
from danube.model.calls.carry import CarryOffer, CarryStep, PrepareCarry, ReadSegment
from danube.model.errors import DamagedDataError, NotFoundError, StorageChangedError
from danube.model.limits.moves import (
    CARRY_CALL_TIMEOUT_S,
    CARRY_OFFERS_MAX,
    CARRY_PASSES_MAX,
    CARRY_PAUSE_S_MAX,
    CARRY_PIECE_BYTES_MAX,
    CARRY_TAIL_BYTES,
)
from danube.rpc.carrier import Carrier, Channel
from danube.runtime.clock import Clock, sleep_for
from danube.storage.segment.manifest import Manifest, Segment, segment_name
from danube.storage.segment.manifest_format import decode_manifest
from danube.storage.store import Storage
from danube.wire import control_messages as wire

if TYPE_CHECKING:
    from danube.broker.cluster.member import Cluster


async def paced(rate: TokenBucket, length: int, clock: Clock) -> None:
    """Wait for as long as the rate asks for after so many bytes."""
    now_s = clock.monotonic_s()
    rate.use(length, now_s)
    await sleep_for(clock, rate.wait_s(now_s))


class LogCopies:
    """Copies of logs that are under way to this broker."""

    def __init__(
        self,
        carrier: Carrier,
        storage: Storage,
        stored: StorageRecords,
        cluster: "Cluster",
        *,
        clock: Clock,
        bytes_per_s: int,
    ) -> None:
        """`bytes_per_s` bounds the copies of topics that are served meanwhile, all together; 0 is no limit."""
        self._carrier = carrier
        self._storage = storage
        self._stored = stored
        self._cluster = cluster
        self._clock = clock
        self._pace = TokenBucket(bytes_per_s, clock.monotonic_s())
        self._running: dict[int, LogCopy] = {}

    async def copy(self, record: TopicRecord) -> None:
        """Copy the log of a topic from its owner, and own it. Raises DanubeError: nothing has changed then."""
        topics = self._cluster.topics
        owner = topics.server_of(record)
        if owner is None:
            raise StorageChangedError(f"{record.name} is this broker's already")
        channel = self._carrier.connect(host_and_port(owner.admin_url))
        copy = self._running[record.topic_id] = LogCopy(
            record,
            channel,
            self._storage,
            self._stored,
            broker_id=topics.own_id,
            pace=lambda length: paced(self._pace, length, self._clock),
            is_wanted=lambda: topics.is_assigned_here(record),
        )
        try:
            await copy.run()
        finally:
            del self._running[record.topic_id]
            await channel.close()

    def progress(self, topic_id: int) -> tuple[int, int] | None:
        """Bytes of a log that are copied, and of all of it; None when no copy is under way."""
        copy = self._running.get(topic_id)
        return (copy.copied_bytes, copy.total_bytes) if copy is not None else None


class LogCopy:
    """One attempt to copy the log of a topic."""

    def __init__(
        self,
        record: TopicRecord,
        channel: Channel,
        storage: Storage,
        stored: StorageRecords,
        *,
        broker_id: int,
        pace: Callable[[int], Awaitable[None]],
        is_wanted: Callable[[], bool],
    ) -> None:
        """`channel` is to the owner. It is given up once the topic is not `is_wanted()` here any more."""
        self._record = record
        self._channel = channel
        self._storage = storage
        self._stored = stored
        self._broker_id = broker_id
        self._pace = pace
        self._is_wanted = is_wanted
        self.copied_bytes = self.total_bytes = 0
        self._sound: set[Segment] = set()
        """Segments that are here, and were verified."""

    async def run(self) -> None:
        """Copy the log, and own the topic. Raises DanubeError; then its owner serves it on, or again."""
        await self._storage.clear_for_copy(self._record.topic_id)
        for _ in range(CARRY_PASSES_MAX):
            offered, _revision = await self._offer(CarryStep.COPY)
            try:
                if await self._copy(offered, is_paced=True) < CARRY_TAIL_BYTES:
                    break
            except NotFoundError:  # a segment was merged or trimmed away meanwhile
                continue
        try:
            async with asyncio.timeout(CARRY_PAUSE_S_MAX / 2):
                await self._own()
        except TimeoutError:
            raise StorageChangedError(f"what was left of {self._record.name} took too long to copy") from None
        finally:
            await self._give_up_unless_owned()

    async def _own(self) -> None:
        for attempt in range(1, CARRY_OFFERS_MAX + 1):
            try:
                return await self._acquire_as_offered()
            except (NotFoundError, StorageChangedError):  # retention, for one, goes on in the pause
                if attempt == CARRY_OFFERS_MAX or not self._is_wanted():
                    raise
        return None

    async def _acquire_as_offered(self) -> None:
        manifest, revision = await self._offer(CarryStep.PAUSE)
        await self._copy(manifest, is_paced=False)
        await self._storage.carry.put_manifest(manifest)
        record = await self._stored.get(self._record.topic_id, linearizable=True)
        if record.revision != revision:
            raise StorageChangedError(f"the owner of {self._record.name} has changed it since it offered it")
        self._check_wanted()
        await self._storage.carry.end_copy(self._record.topic_id)
        try:
            (owned,) = await self._stored.own([record], self._broker_id)
        except StorageChangedError:  # it is not this broker's, nor will be by this
            await self._storage.carry.begin_copy(self._record.topic_id)
            raise
        self._storage.carry.adopt(owned, manifest)

    async def _give_up_unless_owned(self) -> None:
        stored = await self._stored.get(self._record.topic_id)
        if stored.owner != self._broker_id:
            await self._ask(CarryStep.RESUME)

    async def _offer(self, step: CarryStep) -> tuple[Manifest, int]:
        offer = await self._ask(step)
        manifest = decode_manifest(offer.manifest)
        if manifest is None or manifest.topic_id != self._record.topic_id:
            raise DamagedDataError(f"the manifest of {self._record.name} is not what was written")
        self.total_bytes = manifest.file_bytes
        return manifest, offer.revision

    async def _ask(self, step: CarryStep) -> CarryOffer:
        wanted = PrepareCarry(topic=self._record.name, topic_id=self._record.topic_id, step=step)
        request = wire.PREPARE_CARRY.encode(wanted)
        answer = await self._channel.call("/danube.control.Carry/Prepare", request, timeout_s=CARRY_CALL_TIMEOUT_S)
        return wire.CARRY_OFFER.decode(answer)

    async def _copy(self, manifest: Manifest, *, is_paced: bool) -> int:
        """Copy the segments that are missing, and verify all; answers the bytes of those that were missing."""
        missing = await self._storage.carry.missing(manifest)
        missing_bytes = sum(one.file_bytes for one in missing)
        self.copied_bytes = manifest.file_bytes - missing_bytes
        await self._storage.carry.check_room(missing_bytes)
        await self._storage.carry.begin_copy(manifest.topic_id)
        for segment in missing:
            content = await self._read(segment, is_paced=is_paced)
            await self._storage.carry.put(manifest.topic_id, segment, content)
        for segment in manifest.segments:
            if segment not in self._sound:
                await self._storage.carry.verify(manifest.topic_id, segment)
                self._sound.add(segment)
        return missing_bytes

    async def _read(self, segment: Segment, *, is_paced: bool) -> list[bytes]:
        name = segment_name(self._record.topic_id, segment).rpartition("/")[2]
        pieces: list[bytes] = []
        for position in range(0, segment.file_bytes, CARRY_PIECE_BYTES_MAX):
            self._check_wanted()
            length = min(CARRY_PIECE_BYTES_MAX, segment.file_bytes - position)
            if is_paced:
                await self._pace(length)
            pieces.append(await self._piece(name, position, length))
            self.copied_bytes += length
        return pieces

    async def _piece(self, name: str, position: int, length: int) -> bytes:
        wanted = ReadSegment(
            topic_id=self._record.topic_id,
            name=name,
            position=position,
            length=length,
            copied_bytes=self.copied_bytes,
            log_bytes=self.total_bytes,
        )
        request = wire.READ_SEGMENT.encode(wanted)
        answer = await self._channel.call("/danube.control.Carry/ReadSegment", request, timeout_s=CARRY_CALL_TIMEOUT_S)
        piece = wire.SEGMENT_PIECE.decode(answer)
        if len(piece.content) != length or zlib.crc32(piece.content) != piece.checksum:
            raise DamagedDataError(f"bytes {position} to {position + length} of {name} came damaged")
        return piece.content

    def _check_wanted(self) -> None:
        if not self._is_wanted():
            raise StorageChangedError(f"{self._record.name} is not assigned to this broker any more")
