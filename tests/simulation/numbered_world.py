"""One producer with de-duplication, and lives of a broker whose streams, rounds and machine fail under it.

The storage, the topic and the sessions are the real ones, on a simulated disk and clock. The producer is as simple as
can be: it keeps what is not acknowledged and sends it again on the next stream, in the same order.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from danube.broker.topics.deduplication import SequencedStream
from danube.broker.topics.publish_stream import PublishSession
from danube.broker.topics.topic import ReliableTopic
from danube.metadata.memory import MemoryStore
from danube.metadata.records.catalog import TopicRecord
from danube.metadata.records.storage import StorageRecords
from danube.model.calls.client import OutgoingMessage
from danube.model.calls.stream import PublishAcknowledged, PublishBatch, PublishRefused
from danube.model.errors import DanubeError
from danube.model.limits.stream import DEDUPLICATION_BATCHES_MAX
from danube.model.message import numbering_id
from danube.model.topic import DispatchStrategy, TopicName
from danube.runtime.rng import SystemRng
from danube.storage.batches.batch import BatchOrigin, encode_payloads, records
from danube.storage.environment import StorageEnvironment
from danube.storage.journal import JournalSettings
from danube.storage.settings import StorageSettings
from danube.storage.store import Storage
from danube.testing.simulated.blocking import SimRunner
from danube.testing.simulated.clock import SimClock, end_tasks
from danube.testing.simulated.disk import MachineOffError, SimDisk
from danube.wire import encode

T = TypeVar("T")

NAME = TopicName("default", "orders")
ROW = numbering_id(NAME, "p", 77)
SETTINGS = StorageSettings(
    journal=JournalSettings(file_bytes_max=4_000, round_bytes_max=2_000, cache_bytes_max=0, backlog_bytes_max=6_000),
    segment_bytes_max=4_000,
)
_SHARED = encode.send_message(OutgoingMessage(0, 1, str(NAME), "http://peer", b"", 1, "p"))
_TICK_S = 0.01
_PATIENCE_TICKS = 500
_DRAIN_ROUNDS_MAX = 50


def numbered_body(first: int, count: int, row: int = ROW) -> bytes:
    """A batch whose records say their own numbers."""
    origin = BatchOrigin(producer_id=row, base_sequence=first)
    return encode_payloads(_SHARED, [b"%d" % number for number in range(first, first + count)], origin)


class Stream:
    """A stream of batches: what was sent and has not arrived, and what was answered and not read."""

    def __init__(self, topic: ReliableTopic, clock: SimClock) -> None:
        self.room = 1
        self.is_over = False
        self.answers: deque[PublishAcknowledged | PublishRefused] = deque()
        self.wire: deque[PublishBatch] = deque()
        self.session = PublishSession(topic, self, clock, sequenced=SequencedStream(ROW))

    def deliver(self, count: int) -> None:
        for _ in range(min(count, len(self.wire))):
            self.session.add(self.wire.popleft())

    def acknowledge(self, answer: PublishAcknowledged) -> None:
        self.answers.append(answer)

    def refuse(self, answer: PublishRefused) -> None:
        self.answers.append(answer)

    def finish(self) -> None:
        self.is_over = True

    def pause_reading(self) -> None:
        return None

    def resume_reading(self) -> None:
        return None


@dataclass(slots=True)
class Producer:
    """Numbers, sends, keeps and sends again."""

    sent: int = 0
    unacknowledged: deque[tuple[int, bytes]] = field(default_factory=deque)
    offsets: dict[int, int] = field(default_factory=dict)
    """Offset of the first record of each batch that was acknowledged."""
    faults: list[str] = field(default_factory=list)
    """Events that should never happen."""
    _next_on_stream: int = 0

    def send(self, count: int, stream: Stream) -> None:
        if len(self.unacknowledged) < DEDUPLICATION_BATCHES_MAX:
            body = numbered_body(self.sent, count)
            self.unacknowledged.append((self.sent, body))
            self.sent += count
            self._put(body, stream)

    def begin(self, stream: Stream) -> None:
        for _, body in self.unacknowledged:
            self._put(body, stream)

    def read(self, stream: Stream) -> None:
        while stream.answers:
            answer = stream.answers.popleft()
            if isinstance(answer, PublishRefused):
                stream.is_over = True
                if not answer.error.retryable:
                    self.faults.append(f"{answer.error.code}: {answer.error}")
                continue
            for offset in answer.base_offsets:
                self.offsets[self.unacknowledged.popleft()[0]] = offset

    def _put(self, body: bytes, stream: Stream) -> None:
        stream.wire.append(PublishBatch(self._next_on_stream, body))
        self._next_on_stream += 1


class NumberedWorld:
    """The producer and the broker of the moment. Steps do what they can: the machine may be off."""

    def __init__(self, seed: int) -> None:
        self.producer = Producer()
        self.disk = SimDisk(seed)
        self.clock = SimClock()
        self._rng = SystemRng(seed)
        self._records = StorageRecords(MemoryStore(self.clock), self._rng)
        self._storage: Storage | None = None
        self._topic: ReliableTopic | None = None
        self._stream: Stream | None = None
        self._ghosts: list[Stream] = []
        """Streams that the producer has given up and the broker has not."""

    def send(self, count: int) -> None:
        """Send a batch of so many records."""
        if (stream := self._connected()) is not None:
            self.producer.send(count, stream)

    def deliver(self, count: int) -> None:
        """So many batches of each stream arrive."""
        for stream in [*self._ghosts, *([self._stream] if self._stream else [])]:
            stream.deliver(count)

    def read(self) -> None:
        """The producer reads its answers."""
        if self._stream is not None:
            self.producer.read(self._stream)

    def flush(self, *, unnoticed: bool) -> None:
        """The stream breaks; with `unnoticed` what was on its way to the broker still arrives later."""
        if self._stream is not None:
            self._ghosts.append(self._stream) if unnoticed else self._stream.session.cancel()
            self._stream = None

    async def cut_files(self) -> None:
        """The journal is cut into segments; a disk that fails may keep it from being so."""
        if self._storage is not None and not self.disk.is_off:
            with contextlib.suppress(DanubeError, TimeoutError):
                await self._patiently(self._cut_files(self._storage))

    async def wait(self, seconds: float) -> None:
        """Time passes."""
        await self.clock.run_for(seconds)

    async def restart(self) -> None:
        """The broker is stopped in good order and started."""
        await self._end()
        await self._start(self.disk)

    async def kill(self, *, power_cut: bool) -> None:
        """The broker dies, or its machine."""
        disk = self.disk.power_cut() if power_cut else self.disk.process_kill()
        await self._bury()
        await self._start(disk)

    async def drain(self) -> list[bytes]:
        """Without faults all is acknowledged; answers what is stored then."""
        self.disk.clear_faults()
        if self._storage is None or self._storage.stopped or self.disk.is_off:
            await self.kill(power_cut=False)
        for _ in range(_DRAIN_ROUNDS_MAX):
            if not self.producer.unacknowledged:
                break
            self._connected()
            self.deliver(DEDUPLICATION_BATCHES_MAX)
            await self.clock.run_for(1.0)
            self.read()
        stored = await self._patiently(self._read_all())
        await self._end()
        return stored

    def violations(self, stored: list[bytes]) -> list[str]:
        """Violations in the outcome."""
        found = list(self.producer.faults)
        if self.producer.unacknowledged:
            found.append(f"{len(self.producer.unacknowledged)} batches are never acknowledged")
        if stored != [b"%d" % number for number in range(self.producer.sent)]:
            found.append(f"sent {self.producer.sent} records, stored {stored}")
        return found + [
            f"record {first} was said to be at {offset}"
            for first, offset in self.producer.offsets.items()
            if offset != first
        ]

    def _connected(self) -> Stream | None:
        if self._stream is not None and self._stream.is_over:
            self._stream = None
        if self._stream is None and self._topic is not None:
            self._stream = Stream(self._topic, self.clock)
            self.producer.begin(self._stream)
        return self._stream

    async def _start(self, disk: SimDisk) -> None:
        self.disk = disk
        runner = SimRunner(self.clock, self._rng)
        try:
            storage = await self._patiently(
                Storage.open(
                    StorageEnvironment(
                        disk=disk,
                        clock=self.clock,
                        rng=self._rng,
                        records=self._records,
                        runner=runner,
                        read_runner=runner,
                        flush_runner=runner,
                        settings=SETTINGS,
                        broker_id=1,
                    )
                )
            )
        except (DanubeError, MachineOffError, TimeoutError):
            return  # as long as the fault lasts
        record = TopicRecord(name=NAME, topic_id=1, strategy=DispatchStrategy.RELIABLE, created_ms=0)
        storage.start()
        self._storage, self._topic = storage, ReliableTopic(record, storage.topic(1, 1))

    async def _end(self) -> None:
        storage = self._storage
        self._forget()
        if storage is not None:
            try:
                await self._patiently(storage.close())
            except (MachineOffError, TimeoutError):
                await self._bury()

    async def _bury(self) -> None:
        self._forget()
        await end_tasks(self.clock)

    def _forget(self) -> None:
        for stream in [*self._ghosts, *([self._stream] if self._stream else [])]:
            stream.session.cancel()
        self._ghosts, self._stream, self._topic, self._storage = [], None, None, None

    async def _cut_files(self, storage: Storage) -> None:
        await storage.journal.rotate()
        await storage.flush()

    async def _read_all(self) -> list[bytes]:
        assert self._topic is not None
        log = self._topic.log
        found: list[bytes] = []
        while batches := await log.read(len(found), 1 << 20):
            found += [record for batch in batches for record in records(batch.body, 0, batch.count)]
        return found

    async def _patiently(self, work: Coroutine[Any, Any, T]) -> T:
        task = asyncio.ensure_future(work)
        for _ in range(_PATIENCE_TICKS):
            if task.done() or self.disk.is_off:
                break
            await self.clock.run_for(_TICK_S)
        if not task.done():
            raise TimeoutError("nobody answers any more")
        return task.result()
