"""Tail: one member's reading of the shared log, every entry once, in order, handed to the follower."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import NoReturn

from danube.metadata.replication.sequencer import Follower
from danube.metadata.shared_log.backend import LogBackend, Pause
from danube.metadata.shared_log.entry_format import decode_entry, decode_snapshot, link_of
from danube.metadata.state import StateSnapshot
from danube.model.errors import DanubeError, MetadataError
from danube.model.limits.metadata import METADATA_LOG_LEAPS_MAX, METADATA_LOG_RUN_MAX
from danube.runtime.blocking import BlockingRunner
from danube.runtime.rng import Rng

_RESTORED = (
    "so it was restored from an older copy, or is another one: check where it points to, and restart this broker once"
    " all brokers that knew the newer metadata are stopped"
)


class LogTail:
    """Position of this member in the log. An entry that cannot be followed stops it for good: `failure` says why."""

    def __init__(
        self,
        backend: LogBackend,
        follower: Follower,
        runner: BlockingRunner,
        rng: Rng,
        on_entry: Callable[[int], None],
    ) -> None:
        """`on_entry` is told the bytes of each entry that was applied."""
        self.position = 0
        self.link = 0
        """Link of the entry at `position`."""
        self.failure: MetadataError | None = None
        self._backend = backend
        self._follower = follower
        self._runner = runner
        self._pause = partial(Pause, rng)
        self._on_entry = on_entry
        self._turn = asyncio.Lock()
        self._awaited: tuple[int, int] | None = None
        self.stands: bool | None = None
        """True if the awaited entry stands, False if another does. None while its number was not reached, and when a
        snapshot was taken over instead of it."""

    def check(self) -> None:
        """Raise MetadataError when the log cannot be followed any more."""
        if self.failure is not None:
            raise type(self.failure)(str(self.failure)) from self.failure

    def await_entry(self, number: int, link: int) -> None:
        """Have `stands` tell from now on if the entry with this number is the one with this link."""
        self._awaited, self.stands = (number, link), None

    async def catch_up(self) -> None:
        """Apply all that was in the log when this was called. Raises MetadataError when that cannot be known."""
        await self.reach(await self.head())

    async def head(self) -> int:
        """The newest entry's number, by a linearizable read."""
        self.check()
        before = self.position
        head = await self._backend.head()
        if head < before:
            self.fail(f"the shared log ends at {head} and this broker has read up to {before}: {_RESTORED}")
        return head

    async def reach(self, target: int) -> None:
        """Apply all entries up to this one, which is in the log."""
        async with self._turn:
            leaps, pause = 0, self._pause()
            while self.position < target:
                self.check()
                if await self._read_run(target):
                    continue
                leaps += 1
                if leaps > METADATA_LOG_LEAPS_MAX:
                    self.fail(
                        f"entry {self.position + 1} is neither in the shared log nor in a snapshot: somebody removed"
                        " it; restore the service's data, or restore a backup of the metadata into an empty one"
                    )
                if not await self._leap():
                    await pause()

    async def follow(self) -> None:
        """Apply what can be read, without asking how much there is."""
        self.check()
        async with self._turn:
            first = self.position
            while await self._read_run(self.position + METADATA_LOG_RUN_MAX) == METADATA_LOG_RUN_MAX:
                pass
        if self.position == first:
            await self.catch_up()  # nothing new; or it is gone already, or the log was set back

    def apply(self, number: int, entry: bytes) -> None:
        """Apply this entry, unless it was before. Raises MetadataError when it does not follow."""
        if number <= self.position:
            return
        self.check()
        link = link_of(entry)
        requests = self._decode(number, entry)
        try:
            self._follower.apply(number, requests)
        except DanubeError as error:
            self.fail(str(error))
        self.position, self.link = number, link
        if self._awaited is not None and self._awaited[0] == number:
            self.stands = self._awaited[1] == link
        self._on_entry(len(entry))

    def snapshot(self) -> StateSnapshot:
        return self._follower.snapshot()

    def fail(self, reason: str, kind: type[MetadataError] = MetadataError) -> NoReturn:
        """Stop for good. Raises MetadataError, always."""
        if self.failure is None:
            self.failure = kind(reason)
            self._follower.failed(self.failure)
        raise type(self.failure)(str(self.failure)) from self.failure

    async def _read_run(self, last: int) -> int:
        first = self.position + 1
        entries = await self._backend.read(first, min(last, first + METADATA_LOG_RUN_MAX - 1))
        for number, entry in enumerate(entries or (), first):
            self.apply(number, entry)
        return len(entries or ())

    async def _leap(self) -> bool:
        """Take a snapshot over instead of entries that are gone; says whether there was one to take."""
        snapshot = await self._backend.snapshot()
        if snapshot is None or snapshot.number <= self.position:
            return False
        link, state = await self._runner.run(partial(decode_snapshot, snapshot.pieces))
        if snapshot.number > self.position:
            self._follower.reset(snapshot.number, state)
            self.position, self.link = snapshot.number, link
        return True

    def _decode(self, number: int, entry: bytes) -> Sequence[bytes]:
        try:
            read = decode_entry(entry)
        except MetadataError as error:
            self.fail(f"{error} (its number is {number})", type(error))
        if number != self.position + 1 or read.link != self.link:
            self.fail(f"entry {number} of the shared log does not follow on what this broker has read: {_RESTORED}")
        return read.requests
