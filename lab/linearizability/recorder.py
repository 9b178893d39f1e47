"""Writes down what the clients of a metadata store asked, when, and what they were told."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from danube.metadata.store import Condition, Delete, Entry, MetadataStore, Put, Transaction, WatchEvent
from danube.model.errors import MetadataError, NotFoundError, UnknownOutcomeError, VersionConflictError
from lab.kernel.time import loop_s
from lab.linearizability.history import Call, Change, Expiry, Operation, Read, Refused

T = TypeVar("T")
CALL_TIMEOUT_S = 20.0
"""A store gives up by itself after about half of it; whoever hangs longer is cut off, and that is written down."""


@dataclass(frozen=True, slots=True)
class LocalRead:
    """A read that a member answered from its own copy."""

    life: str  # the member, and which of its processes: `2.1`
    key: str
    found: Entry | None
    called_s: float
    returned_s: float

    def __str__(self) -> str:
        found = f"{self.found.value!r} at {self.found.revision}" if self.found else "nothing"
        return f"local read of {self.key} at member {self.life} -> {found}"


@dataclass(slots=True)
class Watched:
    """The events of one watch."""

    life: str
    prefix: str
    events: list[WatchEvent] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class HeldLease:
    """A lease that one key lived by."""

    client: str
    key: str
    lease_id: int
    until_s: float  # it cannot have run out before


@dataclass(slots=True)
class History:
    """All of one round. Times are monotonic seconds of one machine."""

    operations: list[Operation] = field(default_factory=list)
    local_reads: list[LocalRead] = field(default_factory=list)
    watches: list[Watched] = field(default_factory=list)
    leases: list[HeldLease] = field(default_factory=list)
    noted: list[tuple[str, str]] = field(default_factory=list)  # promises that were broken in plain sight, and how
    failed: int = 0  # calls that surely had no effect
    transactions: int = 0  # that were sent


def written_out(history: History) -> Iterator[str]:
    """All of it, a line each, by the time of the calls: for a person who looks for the cause."""
    begins = [operation.called_s for operation in history.operations] + [read.called_s for read in history.local_reads]
    origin_s = min(begins, default=0.0)
    rows = [(one.called_s, one.returned_s, f"{one.client:<14} {one.call}") for one in history.operations]
    rows += [(one.called_s, one.returned_s, f"{one.life + ' local':<14} {one}") for one in history.local_reads]
    for called_s, returned_s, what in sorted(rows):
        yield f"{called_s - origin_s:10.4f} {returned_s - origin_s:10.4f}  {what}"
    for watched in history.watches:
        yield f"watch of {watched.prefix} at member {watched.life}:"
        yield from (f"    {event}" for event in watched.events)


def life_of(client: str) -> str:
    """Life of the member that a client used."""
    return client.partition(" ")[0]


class RecordedStore:
    """A store, as one client sees it; every call is written down. Calls raise MetadataError as the store does."""

    def __init__(self, history: History, store: MetadataStore, life: str, name: str) -> None:
        self._history = history
        self._store = store
        self._life = life
        self._client = f"{life} {name}"

    async def read(self, *keys: str) -> Sequence[Entry | None]:
        """Linearizable, one key, or all keys of a folder that has no others."""
        called_s = loop_s()
        found: tuple[Entry | None, ...]
        async with self._failures():
            if len(keys) == 1:
                found = (await self._timed(self._store.get(keys[0], linearizable=True)),)
            else:
                folder = keys[0].rpartition("/")[0]
                by_key = {one.key: one for one in await self._timed(self._store.list(folder, linearizable=True))}
                found = tuple(by_key.get(key) for key in keys)
        self._done(Read(keys, found), called_s)
        return found

    async def read_one(self, key: str) -> Entry | None:
        return (await self.read(key))[0]

    async def read_local(self, key: str) -> Entry | None:
        called_s = loop_s()
        async with self._failures():
            found = await self._timed(self._store.get(key))
        self._history.local_reads.append(LocalRead(self._life, key, found, called_s, loop_s()))
        return found

    async def put(self, key: str, value: bytes, *, lease_id: int = 0) -> int | None:
        """Answers the revision; None when it is unknown."""
        writes = (Put(key, value, lease_id),)
        return await self._change((), writes, lambda: self._store.put(key, value, lease_id=lease_id))

    async def compare_and_set(self, key: str, value: bytes, revision: int) -> int | None:
        """The same. Raises VersionConflictError."""
        conditions = (Condition(key, revision),)
        return await self._change(
            conditions, (Put(key, value),), lambda: self._store.compare_and_set(key, value, revision=revision)
        )

    async def delete(self, key: str) -> None:

        async def send() -> None:
            await self._store.delete(key)

        await self._change((), (Delete(key),), send)

    async def transact(self, conditions: tuple[Condition, ...], writes: tuple[Put | Delete, ...]) -> int | None:
        """Answers the revision; None when it is unknown. Raises VersionConflictError."""
        self._history.transactions += 1
        name = f"{self._client} {loop_s():.6f} {self._history.transactions}"  # of all rounds, no other has it
        return await self._change(
            conditions, writes, lambda: self._store.transact(Transaction(name, conditions, writes))
        )

    async def grant_lease(self, ttl_s: float) -> int:
        async with self._failures():
            return await self._timed(self._store.grant_lease(ttl_s))

    async def renew_lease(self, lease_id: int) -> None:
        async with self._failures():
            await self._timed(self._store.renew_lease(lease_id))

    async def revoke_lease(self, key: str, lease_id: int) -> None:
        """End a lease that only this key lives by."""
        called_s = loop_s()
        try:
            await self._timed(self._store.revoke_lease(lease_id))
        except MetadataError:
            self._add(Expiry(key, lease_id), called_s)
            raise
        self._done(Expiry(key, lease_id), called_s)

    def let_go(self, key: str, lease_id: int, until_s: float) -> None:
        self._history.leases.append(HeldLease(self._client, key, lease_id, until_s))

    async def watch(self, prefix: str) -> None:
        """Follow a watch until it ends or this is cancelled. Raises MetadataError."""
        watched = Watched(self._life, prefix)
        self._history.watches.append(watched)
        watch = self._store.watch(prefix)
        try:
            async for event in watch:
                watched.events.append(event)
        finally:
            await watch.close()

    def note(self, promise: str, what: str) -> None:
        """Write down that a promise was broken."""
        self._history.noted.append((promise, f"{self._client}: {what}"))

    async def _change(
        self,
        conditions: tuple[Condition, ...],
        writes: tuple[Put | Delete, ...],
        send: Callable[[], Awaitable[int | None]],
    ) -> int | None:
        called_s = loop_s()
        unknown = Change(conditions, writes)
        try:
            revision = await self._timed(send())
        except VersionConflictError:
            self._done(Refused(conditions), called_s)
            raise
        except (UnknownOutcomeError, asyncio.CancelledError):
            self._add(unknown, called_s)
            raise
        except (MetadataError, NotFoundError):
            self._history.failed += 1
            raise
        self._done(Change(conditions, writes, revision), called_s)
        return revision

    async def _timed(self, call: Awaitable[T]) -> T:
        try:
            async with asyncio.timeout(CALL_TIMEOUT_S):
                return await call
        except TimeoutError:
            self.note("answers", f"a call hung for {CALL_TIMEOUT_S:g} s")
            raise UnknownOutcomeError("the call hung") from None

    @asynccontextmanager
    async def _failures(self) -> AsyncIterator[None]:
        try:
            yield
        except MetadataError:
            self._history.failed += 1
            raise

    def _add(self, call: Call, called_s: float) -> None:
        self._history.operations.append(Operation(call, self._client, called_s))

    def _done(self, call: Call, called_s: float) -> None:
        self._history.operations.append(Operation(call, self._client, called_s, loop_s()))
