"""A member of a metadata cluster in a process of its own, seen from the process that judges it.

    python -m lab.metadata.member alone --data-dir DIR
    python -m lab.metadata.member etcd --address HOST:PORT --root ROOT
    python -m lab.metadata.member zookeeper --address HOST:PORT --root ROOT
    python -m lab.metadata.member raft --data-dir DIR --bind HOST:PORT --secret-file FILE --seed HOST:PORT ...

serve a store over lines (`lab.metadata.wire`). A snapshot is taken after `--log-entries` entries of the log. A member
of a Raft group answers `status`, `look`, `add`, `promote`, `remove` and `transfer`, too. It is open once it has read
its log and listens; it serves once it has found a majority.
"""

import argparse
import asyncio
import itertools
import logging
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

from danube.metadata.cluster.membership import Member, MembershipStatus
from danube.metadata.memory import MemoryStore
from danube.metadata.raft.sequencer import RaftSequencer
from danube.metadata.raft.settings import LogBounds, RaftSettings, RaftTiming
from danube.metadata.replication.replicated import ReplicatedStore
from danube.metadata.shared_log.sequencer import open_shared_log
from danube.metadata.shared_log.snapshots import SnapshotRule
from danube.metadata.store import MetadataStore, WatchEvent
from danube.model import errors
from danube.model.errors import DanubeError, MetadataError, UnavailableError, UnknownOutcomeError
from danube.runtime.clock import SystemClock
from danube.runtime.disk import LocalDisk
from danube.runtime.rng import SystemRng
from danube.runtime.tasks import TaskScope
from danube.testing.alone_metadata import open_alone
from danube.testing.patience import PATIENCE_S
from danube.testing.processes.child import pause
from lab.metadata.servers import backend_at
from lab.metadata.wire import LINE_BYTES_MAX, OPEN, READS, SERVES, CalledStore, Method, decode, encode, serve

MEMBER_PROGRAM = "lab.metadata.member"
START_TIMEOUT_S = PATIENCE_S
WATCH_EVENTS_MAX = 65_536  # that wait for a reader in the judging process


class MemberProcess(CalledStore):
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
        """Process id. Raises UnavailableError before `start`."""
        if self._process is None:
            raise UnavailableError("the member was not started")
        return self._process.pid

    @property
    def is_running(self) -> bool:
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
        self._signal(signal.SIGCONT)

    async def close(self) -> None:
        """Kill it, and wait until it is gone."""
        self.kill()
        if self._process is not None:
            await self._process.wait()
            await self._drained()
        await self._tasks.close()
        self._end()

    async def call(self, method: str, *arguments: Any, **named: Any) -> Any:  # noqa: ANN401 - of any method
        number = self._send(method, *arguments, **named)
        future = asyncio.get_running_loop().create_future()
        self._waiting[number] = (method, future)
        try:
            return await future
        finally:
            self._waiting.pop(number, None)

    def watch(self, prefix: str) -> "LineWatch":
        number = self._send("watch", prefix)
        watch = self._watches[number] = LineWatch(lambda: self._unwatch(number))
        return watch

    def _send(self, method: str, *arguments: object, **named: object) -> int:
        number = next(self._numbers)
        if self._process is None or self._process.stdin is None or self._over:
            raise MetadataError("the member is dead")
        self._process.stdin.write(encode((number, method, arguments, named)))
        return number

    def _unwatch(self, number: int) -> None:
        if self._watches.pop(number, None) is not None and not self._over:
            self._send("unwatch", number)

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        reader = process.stdout
        try:
            while reader is not None and (line := await reader.readline()):
                with suppress(ValueError):  # torn by a death
                    self._receive(*decode(line))
        finally:
            self._end()

    def _receive(self, number: int, kind: str, *told: Any) -> None:  # noqa: ANN401 - as `call` answers it
        if kind == "event":
            if number in self._watches:
                self._watches[number].tell(told[0])
            return
        _, future = self._waiting.get(number, ("", None))
        if future is None or future.done():
            return
        if kind == "ok":
            future.set_result(told[0])
        else:
            name, sentence = told
            future.set_exception(getattr(errors, name, MetadataError)(sentence))

    def _end(self) -> None:
        self._over = True
        for method, future in self._waiting.values():
            if not future.done():
                future.set_exception(
                    MetadataError("the member died") if method in READS else UnknownOutcomeError("the member died")
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
        with suppress(asyncio.QueueFull):
            self._events.put_nowait(None)


@dataclass(frozen=True, slots=True)
class Opened:
    """The store of a member, and further methods that it answers."""

    store: MetadataStore
    methods: dict[str, Method] = field(default_factory=dict)


async def _memory(_: argparse.Namespace) -> Opened:
    return Opened(MemoryStore(SystemClock()))


async def _alone(options: argparse.Namespace) -> Opened:
    return Opened(await open_alone(options.data_dir, SystemClock(), entries_max=options.log_entries))


async def _service(options: argparse.Namespace) -> Opened:
    rng = SystemRng()
    rule = SnapshotRule(rng, entries_max=options.log_entries) if options.log_entries else None
    backend = backend_at(options.kind, options.address, options.root, rng)
    return Opened(await open_shared_log(backend, SystemClock(), rng, snapshots=rule))


async def _raft(options: argparse.Namespace) -> Opened:
    options.data_dir.mkdir(parents=True, exist_ok=True)
    clock, rng = SystemClock(), SystemRng()
    sequencer = await RaftSequencer.open(_raft_settings(options), LocalDisk(options.data_dir), clock, rng)
    sys.stdout.buffer.write(encode((OPEN, "ok", None)))
    sys.stdout.buffer.flush()
    store = ReplicatedStore(sequencer, clock, rng)
    await store.start()
    return Opened(store, _raft_methods(sequencer))


def _raft_settings(options: argparse.Namespace) -> RaftSettings:
    timing, scale = RaftTiming(), options.time_scale
    return RaftSettings(
        bind=options.bind,
        advertised=options.advertised,
        secret=options.secret_file.read_bytes().strip() if options.secret_file else None,
        seeds=tuple(options.seed),
        join=options.join,
        timing=RaftTiming(
            election_min_s=timing.election_min_s * scale,
            election_max_s=timing.election_max_s * scale,
            heartbeat_s=timing.heartbeat_s * scale,
            fallback_s=timing.fallback_s * scale,
        ),
        log=LogBounds(entries_max=options.log_entries) if options.log_entries else LogBounds(),
        start_timeout_s=options.start_timeout,
    )


def _raft_methods(sequencer: RaftSequencer) -> dict[str, Method]:
    async def status() -> dict[str, Any]:
        return _plain(sequencer.status())

    async def look() -> dict[str, Any]:
        return _plain(await sequencer.leader_status())

    async def add(address: str, node_id: int | None = None) -> dict[str, Any]:
        return _plain(await sequencer.add(address, node_id))

    async def promote(node_id: int) -> dict[str, Any]:
        return _plain(await sequencer.promote(node_id))

    answers: dict[str, Method] = {"status": status, "look": look, "add": add, "promote": promote}
    return answers | {"remove": sequencer.remove, "transfer": sequencer.transfer}


def _plain(value: Member | MembershipStatus) -> dict[str, Any]:
    """A value as plain data, roles by their names."""
    return asdict(value, dict_factory=lambda items: {k: v.value if isinstance(v, Enum) else v for k, v in items})


STORES: dict[str, Callable[[argparse.Namespace], Awaitable[Opened]]] = {
    "memory": _memory,
    "alone": _alone,
    "etcd": _service,
    "zookeeper": _service,
    "raft": _raft,
}
"""Openers, by the kind of the store."""


async def open_member(arguments: Sequence[str]) -> Opened:
    """Open the store that the command line names. Raises DanubeError."""
    parser = argparse.ArgumentParser(prog=MEMBER_PROGRAM)
    parser.add_argument("kind", choices=[*STORES])
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--address", help="of the service")
    parser.add_argument("--root", default="/danube/soak", help="in the service")
    parser.add_argument("--bind", default="127.0.0.1:0")
    parser.add_argument("--advertised", default="")
    parser.add_argument("--seed", action="append", default=[])
    parser.add_argument("--secret-file", type=Path)
    parser.add_argument("--join", action="store_true")
    parser.add_argument("--time-scale", type=float, default=1.0)
    parser.add_argument("--log-entries", type=int, default=0, help="before a snapshot; 0 for as many as in production")
    parser.add_argument("--start-timeout", type=float, default=120.0)
    options = parser.parse_args(arguments)
    return await STORES[options.kind](options)


async def _main() -> int:
    try:
        opened = await open_member(sys.argv[1:])
    except DanubeError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    try:
        await serve(opened.store, opened.methods)
    finally:
        await opened.store.close()
    return 0


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s")
    raise SystemExit(asyncio.run(_main()))
