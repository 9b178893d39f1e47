"""Metadata store of a standalone broker: one SQLite file, written through.

Every acknowledged change survives `kill -9` and a power cut. Leases do not survive a restart: the file belongs to one
process, so its lease holders died with it, and their keys are removed when the file is opened again.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from danube.metadata.commands import Command, Effects, Outcome
from danube.metadata.high_water import HighWaterMark, Reached
from danube.metadata.leases import LeaseTimers
from danube.metadata.sqlite.file import SqliteFile
from danube.metadata.store import Entry, Watch
from danube.metadata.watch import Begin, WatchHub
from danube.metadata.writing import CommandWriter
from danube.model.errors import MetadataError
from danube.model.limits.metadata import METADATA_WATCH_EVENTS_MAX
from danube.runtime.blocking import BlockingRunner, BlockingThread
from danube.runtime.clock import Clock
from danube.runtime.tasks import TaskScope

T = TypeVar("T")


class SqliteStore(CommandWriter):
    """A `MetadataStore` in one file. Open it with `open`, close it with `close`."""

    def __init__(
        self,
        file: SqliteFile,
        runner: BlockingRunner,
        clock: Clock,
        *,
        watch_events_max: int,
        mark: HighWaterMark | None = None,
    ) -> None:
        self._file = file
        self._mark = mark
        self._runner = runner
        self._hub = WatchHub(self._take_snapshot, events_max=watch_events_max)
        self._leases = LeaseTimers(clock, self._sweep_soon)
        self._tasks = TaskScope("metadata")

    @classmethod
    async def open(
        cls,
        path: Path,
        clock: Clock,
        *,
        watch_events_max: int = METADATA_WATCH_EVENTS_MAX,
        mark: HighWaterMark | None = None,
    ) -> "SqliteStore":
        """Open the file at `path`, or make it; the folder must be there.

        `mark` is advanced before a change is answered. Raises DamagedDataError, DataFolderError when the file cannot
        be read or is of a newer format, and DataFolderInUseError when another process has it.
        """
        runner = BlockingThread("metadata")
        opened: list[SqliteFile] = []  # a waiter that is cancelled does not get the result, and must still close it
        try:
            await runner.run(lambda: opened.append(SqliteFile.open(path)))
        except BaseException:
            await runner.run(lambda: _close_all(opened))
            await runner.aclose()
            raise
        return cls(opened[0], runner, clock, watch_events_max=watch_events_max, mark=mark)

    @property
    def found(self) -> Reached:
        """Progress of the metadata when the file was opened."""
        return self._file.found

    async def write_mark(self) -> None:
        """Have the mark say how far the metadata has come, even where it said more before."""
        if (mark := self._mark) is not None:
            await self._run(lambda: mark.write(self._file.reached()))

    async def get(self, key: str, *, linearizable: bool = False) -> Entry | None:  # noqa: ARG002 - always is
        return await self._run(lambda: self._file.read_entry(key))

    async def list(self, prefix: str, *, linearizable: bool = False) -> Sequence[Entry]:  # noqa: ARG002 - always is
        return await self._run(lambda: self._file.read_below(prefix)[0])

    def watch(self, prefix: str) -> Watch:
        self._check_open()
        return self._hub.watch(prefix)

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._leases.close()
        await self._tasks.close()
        await self._hub.close()
        await self._runner.run(self._file.close)
        await self._runner.aclose()

    async def _submit(self, command: Command) -> Outcome:
        loop = asyncio.get_running_loop()
        outcome = await self._run(lambda: self._apply(command, loop))
        if self._mark is not None and not self._closed:
            await self._runner.run(self._advance_mark)  # in a turn of its own: changes that wait now share one sync
        return outcome

    async def _take_snapshot(self, prefix: str, begin: Begin) -> None:
        loop = asyncio.get_running_loop()

        def work() -> None:
            entries, revision = self._file.read_below(prefix)
            loop.call_soon_threadsafe(begin, entries, revision)

        await self._run(work)

    async def _run(self, work: Callable[[], T]) -> T:
        """Do the work on the thread, after the end of every lease that has run out."""
        self._check_open()
        due = self._leases.due()
        if not due:
            return await self._runner.run(work)
        loop = asyncio.get_running_loop()

        def expire_then_work() -> T:
            for command in due:
                self._apply(command, loop)
            return work()

        return await self._runner.run(expire_then_work)

    def _apply(self, command: Command, loop: asyncio.AbstractEventLoop) -> Outcome:
        """On the thread. The loop is told from here, not by whoever waits: a cancelled waiter must not lose changes."""
        effects = self._file.apply(command)
        loop.call_soon_threadsafe(self._follow, effects)
        return effects.outcome

    def _advance_mark(self) -> None:
        """On the thread. The change is made, whatever becomes of the mark."""
        if self._mark is not None:
            with suppress(MetadataError):
                self._mark.advance(self._file.reached())

    def _follow(self, effects: Effects) -> None:
        if self._closed:
            return
        self._hub.publish(effects.changes)
        self._leases.follow(effects)

    def _sweep_soon(self) -> None:
        if not self._closed:
            self._tasks.spawn(self._run(lambda: None), "expire leases")


def _close_all(files: Sequence[SqliteFile]) -> None:
    for file in files:
        file.close()
