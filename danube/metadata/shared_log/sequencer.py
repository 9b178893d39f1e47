"""Sequencer over one log that a service keeps: etcd or ZooKeeper decide the order.

Three tasks: one appends waiting requests, one follows the others' entries, one answers linearizable readers. The
service does what `backend` says and no more. The guarantees (each request once, each entry once and in order, no entry
appended to a log that went on differently) are decided here and tested on a simulated service.
"""

import asyncio
import logging
from contextlib import suppress

from danube.metadata.replication.replicated import ReplicatedStore
from danube.metadata.replication.sequencer import Follower, NotOrderedError
from danube.metadata.replication.shared_rounds import SharedRounds
from danube.metadata.shared_log.appender import Appender
from danube.metadata.shared_log.backend import LogBackend, Pause
from danube.metadata.shared_log.requests import WaitingRequests
from danube.metadata.shared_log.snapshots import SnapshotRule, take_snapshot
from danube.metadata.shared_log.tail import LogTail
from danube.model.errors import DanubeError, MetadataError, UnknownOutcomeError
from danube.model.limits.metadata import METADATA_ATTEMPT_TIMEOUT_S, METADATA_LOG_POLL_S, METADATA_WATCH_EVENTS_MAX
from danube.runtime.blocking import BlockingRunner, BlockingThread
from danube.runtime.clock import Clock
from danube.runtime.rng import Rng
from danube.runtime.tasks import TaskScope

_log = logging.getLogger(__name__)

_IN_VAIN_MAX = 8
"""Looks at the log, one after the other, that may find nothing: a member hears of its own entries, too."""


class SharedLogSequencer:
    """A `Sequencer` over a `LogBackend`, both of which it closes."""

    def __init__(
        self, backend: LogBackend, runner: BlockingRunner, rng: Rng, *, snapshots: SnapshotRule | None = None
    ) -> None:
        """`runner` does what would keep the event loop: it packs large entries, and snapshots; it is closed, too."""
        self._backend = backend
        self._runner = runner
        self._rng = rng
        self._rule = snapshots or SnapshotRule(rng)
        self._requests = WaitingRequests()
        self._readers = SharedRounds(self._catch_up)
        self._tasks = TaskScope("metadata log", self._stop)
        self._snapshots = TaskScope("metadata snapshots")
        self._tail: LogTail | None = None
        self._appender: Appender | None = None
        self._snapshot: asyncio.Task[None] | None = None
        self._stopped: DanubeError | None = None
        self._follower: Follower | None = None
        self._answers = True
        self._outages = 0

    async def start(self, follower: Follower) -> None:
        self._follower = follower
        tail = self._tail = LogTail(self._backend, follower, self._runner, self._rng, self._applied)
        self._appender = Appender(self._backend, tail, self._requests, self._runner, self._rng)
        await self._backend.connect()
        await tail.catch_up()
        self._tasks.spawn(self._appending(self._appender), "append")
        self._tasks.spawn(self._follow(tail, self._appender), "follow")
        self._tasks.spawn(self._readers.run(), "read")

    @property
    def leadership(self) -> int:
        """A service tells of no elections: it counts as led anew when it answers again."""
        return self._outages + 1 if self._answers else 0

    async def submit(self, request: bytes, leadership: int | None = None) -> None:
        self._check()
        if leadership not in {None, self.leadership}:
            raise NotOrderedError("the service that keeps the metadata log did not answer meanwhile")
        waiting = self._requests.join(request)
        try:
            await asyncio.wait([waiting.settled], timeout=METADATA_ATTEMPT_TIMEOUT_S)
        finally:
            self._requests.leave(waiting)
        if waiting.settled.done():
            error = waiting.settled.result()
            if error is not None:
                raise type(error)(str(error)) from error
        elif not waiting.may_be_ordered:
            raise NotOrderedError(waiting.refusal)

    async def barrier(self) -> None:
        self._check()
        await self._readers.join()

    async def close(self) -> None:
        self._stopped = self._stopped or MetadataError("the metadata log is closed: this broker is going down")
        await self._snapshots.close()
        await self._tasks.close()
        self._fail_waiting(self._stopped)
        await self._backend.close()
        await self._runner.aclose()

    async def _catch_up(self) -> None:
        if self._tail is not None:
            await self._tail.catch_up()

    async def _appending(self, appender: Appender) -> None:
        try:
            await appender.run()
        except MetadataError as error:
            self._give_up(error)

    async def _follow(self, tail: LogTail, appender: Appender) -> None:
        """Apply what others add, soon after they did."""
        pause, in_vain = Pause(self._rng), 0
        while tail.failure is None:
            try:
                before = tail.position
                await self._moved(before)
                await appender.answered()
                if tail.position == before:
                    await tail.follow()
                self._answered()
                in_vain = in_vain + 1 if tail.position == before else 0
                if in_vain > _IN_VAIN_MAX:
                    await pause()  # a service that says again and again that there is news, and has none
                else:
                    pause.over()
            except MetadataError as error:
                if tail.failure is None:
                    self._unanswered(error)
                await pause()
        self._give_up(tail.failure)

    def _unanswered(self, error: MetadataError) -> None:
        if self._answers:
            _log.warning("the metadata log cannot be read or written, trying on: %s", error)
        self._answers = False

    def _answered(self) -> None:
        if not self._answers:
            self._answers, self._outages = True, self._outages + 1
            if self._follower is not None:
                self._follower.led_anew()

    async def _moved(self, position: int) -> None:
        try:
            async with asyncio.timeout(METADATA_LOG_POLL_S):
                await self._backend.moved(position)
        except TimeoutError:
            return  # a watch may be lost: look

    def _applied(self, size: int) -> None:
        """An entry was applied; whoever gets there first takes the snapshot that is due."""
        self._rule.added(size)
        idle = self._snapshot is None or self._snapshot.done()
        if self._rule.is_due and idle and self._stopped is None and self._tail and self._appender:
            snapshot = take_snapshot(self._backend, self._tail, self._runner, self._rule, self._appender.author)
            self._snapshot = self._snapshots.spawn(snapshot, "snapshot")

    def _stop(self, error: BaseException) -> None:
        """A task has failed in a way that nobody foresaw: what it did is done no more."""
        reason = MetadataError(f"the metadata log failed: {error!r}")
        if self._tail is not None:
            with suppress(MetadataError):
                self._tail.fail(str(reason))
        self._give_up(reason)

    def _give_up(self, error: DanubeError) -> None:
        if self._stopped is None:
            _log.error("the metadata log cannot be followed any more: %s", error)
            self._stopped = error
        self._fail_waiting(error)

    def _fail_waiting(self, error: DanubeError) -> None:
        self._requests.fail(error, UnknownOutcomeError(f"the change may still be made: {error}"))
        self._readers.fail(error)

    def _check(self) -> None:
        if self._stopped is not None:
            raise MetadataError(str(self._stopped)) from self._stopped


async def open_shared_log(
    backend: LogBackend,
    clock: Clock,
    rng: Rng,
    *,
    runner: BlockingRunner | None = None,
    snapshots: SnapshotRule | None = None,
    watch_events_max: int = METADATA_WATCH_EVENTS_MAX,
) -> ReplicatedStore:
    """A store that has all that was in the log, and closes what it was given.

    Raises MetadataError, with the next step in it, when the service cannot be used.
    """
    sequencer = SharedLogSequencer(backend, runner or BlockingThread("metadata-log"), rng, snapshots=snapshots)
    store = ReplicatedStore(sequencer, clock, rng, watch_events_max=watch_events_max)
    try:
        await store.start()
    except BaseException:
        await store.close()
        raise
    return store
