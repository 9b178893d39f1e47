"""A service that holds a shared log, in memory, that misbehaves by seed in every way that etcd and ZooKeeper may.

`SimulatedLog` is the service, `SimulatedBackend` the connection of one member. Calls take time and may get lost on the
way there or back; one that is given up may still be carried out much later. Watches get lost. Reads come from a replica
that lags, but never behind what the same connection has seen. A member may be paused, the whole service be away.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from danube.metadata.shared_log.backend import Snapshot
from danube.model.errors import MetadataError, UnknownOutcomeError
from danube.model.limits.metadata import (
    METADATA_LOG_CALL_TIMEOUT_S,
    METADATA_LOG_ENTRIES_KEPT,
    ZOOKEEPER_ENTRY_BYTES_MAX,
)
from lab.kernel.chance import seeded

_LATE_S = 8.0  # so much later than it was given up, a call may still be carried out


@dataclass(frozen=True, slots=True)
class LogFaults:
    """Rates of what goes wrong; nothing does by default."""

    latency_s: float = 0.0  # of one way, at most
    lost: float = 0.0
    """Share of the calls that are lost, or whose answer is; half of them are carried out, some of these late."""
    lost_watches: float = 0.0
    stale_reads: float = 0.0  # of the reads that may be
    slow: float = 0.0  # of the calls: they take up to the time at which they are given up


NO_FAULTS = LogFaults()


class SimulatedLog:
    """The service: what all members see."""

    def __init__(
        self,
        seed: int = 0,
        faults: LogFaults = NO_FAULTS,
        *,
        entries_kept: int = METADATA_LOG_ENTRIES_KEPT,
        entry_bytes_max: int = ZOOKEEPER_ENTRY_BYTES_MAX,
    ) -> None:
        self.random = seeded(seed)
        self.faults = faults
        self.entry_bytes_max = entry_bytes_max
        self.is_away = False
        self.head = 0
        self.entries: dict[int, bytes] = {}
        self.history: dict[int, bytes] = {}  # all that was ever added, those that were removed since included
        self.saved: Snapshot | None = None
        self._entries_kept = entries_kept
        self._moved = asyncio.Condition()

    def add(self, number: int, entry: bytes) -> bool:
        if number != self.head + 1:
            return False
        self.entries[number] = self.history[number] = entry
        self.head = number
        return True

    def save(self, snapshot: Snapshot) -> None:
        """The transaction, and what is removed after it."""
        if self.saved is None or snapshot.number > self.saved.number:
            self.saved = snapshot
            for number in [each for each in self.entries if each <= snapshot.number - self._entries_kept]:
                del self.entries[number]

    async def tell(self) -> None:
        async with self._moved:
            self._moved.notify_all()

    async def wait(self, beyond: int) -> None:
        """Until the head is greater."""
        async with self._moved:
            await self._moved.wait_for(lambda: self.head > beyond)


class SimulatedBackend:
    """A `LogBackend` on a simulated log."""

    def __init__(self, log: SimulatedLog) -> None:
        self._log = log
        self._seen = 0
        self._paused = asyncio.Event()
        self._paused.set()
        self._late: set[asyncio.TimerHandle] = set()
        self._closed = False
        self.calls = 0

    @property
    def entry_bytes_max(self) -> int:
        return self._log.entry_bytes_max

    async def connect(self) -> None:
        await self._pass()

    async def head(self) -> int:
        await self._pass()
        self._seen = self._log.head
        await self._answer()
        return self._seen

    async def add(self, number: int, entry: bytes) -> bool:
        await self._pass()
        chance = self._log.random
        if chance.random() < self._log.faults.lost:
            await self._lose(number, entry)
        added = self._log.add(number, entry)
        await self._log.tell()
        await self._answer()
        return added

    async def read(self, first: int, last: int) -> Sequence[bytes] | None:
        await self._pass()
        entries = self._log.entries
        end = min(last, self._as_seen())
        read = [entries[number] for number in range(first, end + 1) if first in entries]
        await self._answer()
        return read or None

    async def moved(self, beyond: int) -> None:
        self._check()
        if self._log.random.random() < self._log.faults.lost_watches:
            await asyncio.Event().wait()
        await self._log.wait(beyond)
        await self._pass()

    async def save_snapshot(self, snapshot: Snapshot) -> None:
        await self._pass()
        if self._log.random.random() < self._log.faults.lost:
            raise MetadataError("the snapshot was lost on the way")
        self._log.save(snapshot)
        await self._answer()

    async def snapshot_number(self) -> int:
        await self._pass()
        return self._log.saved.number if self._log.saved else 0

    async def snapshot(self) -> Snapshot | None:
        await self._pass()
        return self._log.saved

    async def close(self) -> None:
        self._closed = True
        for late in self._late:
            late.cancel()

    def pause(self) -> None:
        """As if its process was stopped: none of its calls goes on."""
        self._paused.clear()

    def resume(self) -> None:
        self._paused.set()

    async def _pass(self) -> None:
        self._check()
        self.calls += 1
        await self._take_time()
        if self._log.is_away:
            raise MetadataError("the service is away")

    async def _answer(self) -> None:
        await self._take_time()

    async def _take_time(self) -> None:
        faults, chance = self._log.faults, self._log.random
        if faults.latency_s:
            slow = chance.random() < faults.slow
            await asyncio.sleep(chance.uniform(0.0, METADATA_LOG_CALL_TIMEOUT_S if slow else faults.latency_s))
        await self._paused.wait()
        self._check()

    async def _lose(self, number: int, entry: bytes) -> None:
        """Nobody will hear what became of the addition: it was carried out, will be, or will never be."""
        fate = self._log.random.random()
        if fate < 0.3:
            self._log.add(number, entry)
            await self._log.tell()
        elif fate < 0.6:
            late_s = self._log.random.uniform(0.0, _LATE_S)
            loop = asyncio.get_running_loop()
            self._late.add(loop.call_later(late_s, self._log.add, number, entry))
        await self._take_time()
        raise UnknownOutcomeError("the service did not say")

    def _as_seen(self) -> int:
        """The head that reads show: this connection never goes back, and may be behind."""
        if self._log.random.random() >= self._log.faults.stale_reads:
            self._seen = max(self._seen, self._log.head)
        return self._seen

    def _check(self) -> None:
        if self._closed:
            raise MetadataError("the backend is closed")
