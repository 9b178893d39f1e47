"""A member of a metadata cluster in a process of its own, seen from the process that judges it.

    python -m lab.metadata.member sqlite FOLDER
    python -m lab.metadata.member etcd ENTRIES HOST:PORT ROOT
    python -m lab.metadata.member zookeeper ENTRIES HOST:PORT ROOT
    python -m lab.metadata.member raft ENTRIES FOLDER BIND ADVERTISED SECRET SEED ...

serve a store over lines (`lab.metadata.wire`). A snapshot is taken after so many entries of the log; 0 is
for as many as in production. A member of a Raft group can be asked what `lab.raft.member` can.
"""

import asyncio
import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from danube.metadata.raft.sequencer import RaftSequencer
from danube.metadata.raft.settings import LogBounds, RaftSettings
from danube.metadata.replication.replicated import ReplicatedStore
from danube.metadata.shared_log.sequencer import open_shared_log
from danube.metadata.shared_log.snapshots import SnapshotRule
from danube.metadata.sqlite.store import SqliteStore
from danube.metadata.store import Condition, Delete, Entry, MetadataStore, Put, Transaction, WatchEvent, Write
from danube.model import errors
from danube.model.errors import DanubeError, MetadataError, UnavailableError, UnknownOutcomeError
from danube.runtime.clock import SystemClock
from danube.runtime.disk import LocalDisk
from danube.runtime.rng import SystemRng
from danube.runtime.tasks import TaskScope
from danube.testing.patience import PATIENCE_S
from danube.testing.processes.child import pause
from lab.metadata.wire import (
    LINE_BYTES_MAX,
    OPEN,
    SERVES,
    Line,
    Method,
    encode,
    pack_transaction,
    serve,
    unpack_entry,
    unpack_event,
)
from lab.raft.member import methods
from lab.shared_log.servers import backend_at

MEMBER_PROGRAM = "lab.metadata.member"
START_TIMEOUT_S = PATIENCE_S
WATCH_EVENTS_MAX = 65_536
"""That wait for a reader in the judging process."""
_READS = {"get", "list", "watch", "unwatch", "status", "look"}


class MemberProcess:
    """One life of a member: its process, and its store as a `MetadataStore`.

    When the process dies, changes under way raise UnknownOutcomeError, everything else MetadataError.
    """

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self._command = command
        self._log = log
        self._process: asyncio.subprocess.Process | None = None
        self._numbers = itertools.count(1)
        self._waiting: dict[int, tuple[str, asyncio.Future[Any]]] = {}
        self._watches: dict[int, LineWatch] = {}
        self._tasks = TaskScope("metadata member")
        self._serves: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._open: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._over = False

    @property
    def pid(self) -> int:
        """Of the process. Raises UnavailableError before `start`."""
        if self._process is None:
            raise UnavailableError("the member was not started")
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether its process is there, as far as is known."""
        return self._process is not None and not self._over

    async def start(self) -> None:
        """Start it; returns when it serves. Raises UnavailableError with its last words when it does not."""
        await self.launch()
        await self.wait()

    async def launch(self) -> None:
        """Start its process and do not wait for anything. What is asked from now on is answered once it serves."""
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                limit=LINE_BYTES_MAX,
                start_new_session=True,
            )
        self._waiting |= {SERVES: ("start", self._serves), OPEN: ("start", self._open)}
        self._tasks.spawn(self._read(self._process), "read")

    async def wait(self) -> None:
        """Return when it serves. Raises UnavailableError with its last words when it does not."""
        await self._within_start_time(self._serves)

    async def wait_open(self) -> None:
        """Return when a member of `lab.raft.member` has read its log and listens. Raises as `wait`."""
        await self._within_start_time(self._open)

    async def _within_start_time(self, reached: asyncio.Future[Any]) -> None:
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                await asyncio.shield(reached)
        except (TimeoutError, MetadataError) as error:
            self.kill()
            raise UnavailableError(f"the member does not serve: {self._last_words()}") from error

    def kill(self) -> None:
        """`kill -9`."""
        self._signal(signal.SIGKILL)

    def pause(self) -> None:
        """SIGSTOP; when this returns it stands still. Harmless when it is not running."""
        if self.is_running:
            with suppress(ProcessLookupError):
                pause(self.pid)

    def resume(self) -> None:
        """SIGCONT."""
        self._signal(signal.SIGCONT)

    async def close(self) -> None:
        """Kill it, and wait until it is gone."""
        self.kill()
        if self._process is not None:
            await self._process.wait()
            await self._drained()
        await self._tasks.close()
        self._end()

    async def ask(self, method: str, *arguments: Any) -> Any:  # noqa: ANN401 - plain data
        """Call a method over the lines. Raises what the store raised."""
        number = self._send(method, arguments)
        future = asyncio.get_running_loop().create_future()
        self._waiting[number] = (method, future)
        try:
            return await future
        finally:
            self._waiting.pop(number, None)

    # As a store

    async def get(self, key: str, *, linearizable: bool = False) -> Entry | None:
        return unpack_entry(await self.ask("get", key, linearizable))

    async def list(self, prefix: str, *, linearizable: bool = False) -> Sequence[Entry]:
        found = map(unpack_entry, await self.ask("list", prefix, linearizable))
        return [entry for entry in found if entry is not None]

    async def put(self, key: str, value: bytes, *, lease_id: int = 0) -> int:
        return await self._write((), Put(key, value, lease_id))

    async def compare_and_set(self, key: str, value: bytes, *, revision: int, lease_id: int = 0) -> int:
        return await self._write((Condition(key, revision),), Put(key, value, lease_id))

    async def delete(self, key: str, *, revision: int | None = None) -> None:
        await self._write(() if revision is None else (Condition(key, revision),), Delete(key))

    async def transact(self, transaction: Transaction) -> int:
        revision: int = await self.ask("transact", pack_transaction(transaction))
        return revision

    async def grant_lease(self, ttl_s: float) -> int:
        lease_id: int = await self.ask("grant_lease", ttl_s)
        return lease_id

    async def renew_lease(self, lease_id: int) -> None:
        await self.ask("renew_lease", lease_id)

    async def revoke_lease(self, lease_id: int) -> None:
        await self.ask("revoke_lease", lease_id)

    def watch(self, prefix: str) -> "LineWatch":
        number = self._send("watch", (prefix,))
        watch = self._watches[number] = LineWatch(lambda: self._unwatch(number))
        return watch

    async def _write(self, conditions: tuple[Condition, ...], write: Write) -> int:
        return await self.transact(Transaction("", conditions, (write,)))

    def _send(self, method: str, arguments: Sequence[Any]) -> int:
        number = next(self._numbers)
        if self._process is None or self._process.stdin is None or self._over:
            raise MetadataError("the member is dead")
        self._process.stdin.write(encode([number, method, arguments]))
        return number

    def _unwatch(self, number: int) -> None:
        if self._watches.pop(number, None) is not None and not self._over:
            self._send("unwatch", (number,))

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        reader = process.stdout
        try:
            while reader is not None and (line := await reader.readline()):
                with suppress(json.JSONDecodeError):  # torn by a death
                    self._take(json.loads(line))
        finally:
            self._end()

    def _take(self, line: Line) -> None:
        number, kind, *told = line
        if kind == "event":
            if number in self._watches:
                self._watches[number].tell(unpack_event(told[0]))
            return
        _, future = self._waiting.get(number, ("", None))
        if future is None or future.done():
            return
        if kind == "ok":
            future.set_result(told[0])
        else:
            future.set_exception(_error(*told))

    def _end(self) -> None:
        """Nothing comes any more."""
        self._over = True
        for method, future in self._waiting.values():
            if not future.done():
                future.set_exception(
                    MetadataError("the member died") if method in _READS else UnknownOutcomeError("the member died")
                )
                future.exception()  # a start may have nobody who waits for it
        for watch in self._watches.values():
            watch.end()

    async def _drained(self) -> None:
        stdin = self._process.stdin if self._process is not None else None
        if stdin is not None:
            stdin.close()
            with suppress(ConnectionError):
                await stdin.wait_closed()

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self._process.pid, number)

    def _last_words(self) -> str:
        return self._log.read_text(errors="replace")[-2_000:].strip() if self._log.exists() else "no log"


class LineWatch:
    """A `Watch` whose events come over the lines. It raises MetadataError at the death of the member."""

    def __init__(self, unwatch: Callable[[], None]) -> None:
        self._unwatch = unwatch
        self._events: asyncio.Queue[WatchEvent | None] = asyncio.Queue(WATCH_EVENTS_MAX)
        self._closed = False

    async def __aiter__(self) -> AsyncIterator[WatchEvent]:
        while (event := await self._events.get()) is not None:
            yield event
        if not self._closed:
            raise MetadataError("the member died")

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._unwatch()
            self.end()

    def tell(self, event: WatchEvent) -> None:
        """One more event. Raises QueueFull when nobody reads."""
        self._events.put_nowait(event)

    def end(self) -> None:
        """No more events."""
        with suppress(asyncio.QueueFull):
            self._events.put_nowait(None)


def _error(name: str, sentence: str) -> DanubeError:
    kind = getattr(errors, name, MetadataError)
    raised: DanubeError = kind(sentence)
    return raised


@dataclass(frozen=True, slots=True)
class Opened:
    """The store of a member, and what else it can be asked."""

    store: MetadataStore
    methods: dict[str, Method] = field(default_factory=dict)


async def _sqlite(folder: str) -> Opened:
    return Opened(await SqliteStore.open(Path(folder) / "metadata.sqlite", SystemClock()))


async def _service(name: str, entries: str, address: str, root: str) -> Opened:
    clock, rng = SystemClock(), SystemRng()
    rule = SnapshotRule(rng, entries_max=int(entries)) if int(entries) else None
    return Opened(await open_shared_log(backend_at(name, address, root, rng), clock, rng, snapshots=rule))


async def _raft(entries: str, folder: str, bind: str, *more: str) -> Opened:
    advertised, secret, *seeds = more
    settings = RaftSettings(
        bind=bind,
        advertised=advertised,
        secret=secret.encode(),
        seeds=tuple(seeds),
        log=LogBounds(entries_max=int(entries)) if int(entries) else LogBounds(),
    )
    clock, rng = SystemClock(), SystemRng()
    sequencer = await RaftSequencer.open(settings, LocalDisk(Path(folder)), clock, rng)
    store = ReplicatedStore(sequencer, clock, rng)
    await store.start()
    return Opened(store, methods(sequencer))


STORES: dict[str, Callable[..., Awaitable[Opened]]] = {
    "sqlite": _sqlite,
    "etcd": partial(_service, "etcd"),
    "zookeeper": partial(_service, "zookeeper"),
    "raft": _raft,
}
"""How each kind of store is opened, from the arguments of the command."""


async def _main(kind: str, *arguments: str) -> None:
    opened = await STORES[kind](*arguments)
    try:
        await serve(opened.store, opened.methods)
    finally:
        await opened.store.close()


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
