"""Group commit: gathers pending batches and cursors into rounds, has them written, acknowledges them.

Appends gather while a round is being written and synced; the next round has them all and starts when that one ends.
No timer is involved: a lone publish is written at once, and a flood makes rounds large by itself.
"""

import asyncio
import logging
import math
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from danube.model.errors import (
    DanubeError,
    JournalStoppedError,
    ShuttingDownError,
    StorageUnavailableError,
    SubscriptionNotFoundError,
    TopicNotFoundError,
)
from danube.model.limits.broker import (
    BUSY_MARK_FILE_DELAY_S,
    CURSOR_RIDE_BYTES_MAX,
    IDLE_MARK_FILE_DELAY_S,
    JOURNAL_JOIN_SILENT_TURNS,
    JOURNAL_JOIN_TURNS_MAX,
    MARK_RETRY_DELAY_S,
)
from danube.model.plans.durability import Durability
from danube.model.subscription import Cursor
from danube.runtime.blocking import BlockingRunner
from danube.runtime.clock import Alarm, Clock
from danube.runtime.tasks import TaskScope
from danube.storage.batches.batch import CheckedBody, check
from danube.storage.batches.cursors import CursorKey, PendingCursor, PendingCursors
from danube.storage.batches.stored_batch import AppendDone, Saved
from danube.storage.journal.format import HEADER_BYTES
from danube.storage.journal.round import Backlog, ClampLog, PendingBatch, Round, TopicState, build_round
from danube.storage.journal.writer import RoundWriter, Written
from danube.storage.settings import JournalSettings, LatencyHistogram

_T = TypeVar("_T")

_log = logging.getLogger(__name__)


class GroupCommit:
    """The writing side of a journal. `on_written` gets each durable round before anything in it is acknowledged."""

    def __init__(
        self,
        clock: Clock,
        settings: JournalSettings,
        runner: BlockingRunner,
        writer: RoundWriter,
        on_written: Callable[[Round, Written], None],
    ) -> None:
        self._clock = clock
        self._settings = settings
        self._runner = runner
        self._writer = writer
        self._on_written = on_written
        self._backlog = Backlog(settings.backlog_bytes_max)
        self._cursors = PendingCursors()
        self._taken: tuple[list[PendingBatch], dict[CursorKey, PendingCursor]] = ([], {})
        self._rotating: list[asyncio.Future[None]] = []
        """Callers that wait for a new file."""
        self._confirming: list[tuple[TopicState, int, AppendDone]] = []
        """Callbacks that wait for the sync of a stored batch: its topic, and its offset."""
        self._closing = self._sync_due = self._mark_due = self._mark_file_due = False
        self._failing = False
        """True if the last round failed: logged once, not once a round."""
        self._is_mark_failing = False
        """True if the last mark round or new file failed: logged once, too."""
        self._is_shared = False
        """True if several callers waited for the last round."""
        self._last_round_s = clock.monotonic_s()
        self._cursor_alarm = Alarm(clock, self._hurry_cursors)
        self._mark_file_s = clock.monotonic_s()
        """Time of the last write of the file `mark` by a timer."""
        self._mark_alarm = Alarm(clock, self._ask_for_mark)
        self._mark_file_alarm = Alarm(clock, self._ask_for_mark_file)
        self._sync_alarm = Alarm(clock, self._ask_for_sync)
        self._clamp_log = ClampLog()
        self._wake = asyncio.Event()
        self._gather_alarm = Alarm(clock, self._wake.set)
        self._round_begun_s = -math.inf
        self._tasks = TaskScope("journal")
        self._work: asyncio.Task[None] | None = None
        self.stopped: str | None = None
        """Why nothing more is written, or None."""
        self.rounds = self.failed_rounds = self.bytes_written = 0
        self.last_round_ms = 0.0
        self.round_seconds = LatencyHistogram()

    @property
    def durability(self) -> Durability:
        """Durability of topics that have none of their own."""
        return self._settings.durability

    @property
    def backlog_bytes(self) -> int:
        """Accepted and not yet written."""
        return self._backlog.bytes

    async def rotate(self) -> None:
        """Begin a new file, unless the last one is empty. Raises StorageUnavailableError, ShuttingDownError."""
        self._check_open()
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._rotating.append(waiting)
        self._wake.set()
        await waiting

    def start(self) -> None:
        """Start writing."""
        self._work = self._tasks.spawn(self._work_until_closed(), "rounds")
        self._plan_mark()
        self._retry_mark_file()

    async def close(self) -> None:
        """Refuse appends, write what is pending and the last mark, end. Never raises for the disk's faults."""
        self._closing = True
        self._wake.set()
        if self._work is not None:
            await asyncio.wait([self._work])
        await self._tasks.close()
        self._cancel_alarms()
        await self._runner.run(self._writer.close)

    def append_record(self, topic: TopicState, record: bytes, done: AppendDone) -> None:
        """As `TopicLog.append_record`."""
        if self.stopped is not None or self._closing:
            raise self._refusal()
        self._backlog.add_record(topic, record, done)
        self._wake.set()

    def append_batch(self, topic: TopicState, body: bytes, done: AppendDone) -> None:
        """As `TopicLog.append_batch`."""
        self._check_open()
        if not isinstance(body, CheckedBody):
            check(body)
        self._backlog.add_batch(topic, body, done)
        self._wake.set()

    def set_durability(self, topic: TopicState, durability: Durability) -> None:
        """As `TopicLog.set_durability`."""
        if durability is Durability.FSYNC and topic.durability is not Durability.FSYNC:
            self._cursors.become_strict(topic.topic_id)
            for (topic_id, _), being_written in self._taken[1].items():
                if topic_id == topic.topic_id:
                    being_written.durability = Durability.FSYNC
        topic.durability = durability

    def confirm(self, topic: TopicState, offset: int, done: AppendDone) -> None:
        """As `TopicLog.confirm`."""
        if not self._confirming and self._is_confirmed(topic):  # no overtaking on the same stream
            done(offset)
            return
        self._check_open()
        self._confirming.append((topic, offset, done))
        self._ask_for_sync()

    def save_cursor(self, topic: TopicState, subscription_id: int, cursor: Cursor, saved: Saved | None) -> None:
        """As `TopicLog.save_cursor`; a refusal goes to `saved`."""
        if self.stopped is not None or self._closing:
            if saved is not None:
                saved(self._refusal())
            return
        self._cursors.put((topic.topic_id, subscription_id), cursor, topic.epoch, saved, topic.durability)
        if saved is None:
            self._cursor_alarm.arm(self._settings.cursor_interval_s)
        else:
            self._wake.set()

    def forget_cursors(self, topic_id: int) -> None:
        """Write no more cursors of a deleted topic; waiting callbacks get a TopicNotFoundError."""
        for saved in self._cursors.drop_topic(topic_id):
            call_safely(saved, TopicNotFoundError("the topic was deleted while a cursor of it was being saved"))

    def forget_cursor(self, topic: TopicState, subscription_id: int) -> None:
        """As `TopicLog.forget_cursor`, for a cursor that waits to be written; its callbacks get an error."""
        being_written = self._taken[1].get((topic.topic_id, subscription_id))
        if being_written is not None:
            being_written.is_gone = True
        for saved in self._cursors.drop(topic.topic_id, subscription_id):
            call_safely(
                saved, SubscriptionNotFoundError("the subscription was deleted while its cursor was being saved")
            )

    async def _work_until_closed(self) -> None:
        try:
            while not self._closing:
                await self._wake.wait()
                self._wake.clear()
                await self._work_off()
            self._cursors.hurry()
            await self._work_off()
            self._refuse_cursors(self._refusal())  # those that a round after one that failed would have taken
            if self.stopped is None and self._writer.end.needs_mark:
                await self._try(self._writer.mark)
            if self.stopped is None and self._writer.end.is_mark_behind:
                await self._try(self._writer.write_mark)
            self._answer_rotations(self._refusal())
        except Exception:
            self._stop("the journal's writer met a fault of its own; the broker's log has the details")
            raise

    async def _work_off(self) -> None:
        while self.stopped is None and await self._step():
            self._answer_confirms()
            await self._let_others_join()

    async def _let_others_join(self) -> None:
        """Let clients that were just acknowledged append again before the next round is gathered.

        It waits for turns of the loop, never for time: one turn when rounds are not shared, else as long as every few
        turns bring more, up to a bound. A round has its price, and a busy broker pays it less often.
        """
        silent = 0
        for _ in range(JOURNAL_JOIN_TURNS_MAX if self._is_shared else 1):
            before = self._backlog.bytes
            await asyncio.sleep(0)
            silent = 0 if self._backlog.bytes > before else silent + 1
            if silent == JOURNAL_JOIN_SILENT_TURNS:
                return

    async def _let_gather(self) -> None:
        """Wait until a round may begin: `batch_timeout_s` after the last, or as soon as there is much to write."""
        until_s = self._round_begun_s + self._settings.batch_timeout_s
        while (now_s := self._clock.monotonic_s()) < until_s and self._backlog.bytes < self._settings.batch_bytes:
            if self._closing or self._rotating:
                break
            self._gather_alarm.arm(until_s - now_s)
            await self._wake.wait()
            self._wake.clear()
        self._gather_alarm.cancel()
        self._round_begun_s = self._clock.monotonic_s()

    async def _step(self) -> bool:
        """Do the next step that is due; answers whether there was one."""
        if self._rotating:
            self._answer_rotations(await self._try(self._writer.rotate))
            self._retry_mark_file()
        elif self._mark_file_due:  # before what waits, for under a flood there is always something that does
            self._mark_file_due = False
            self._mark_file_s = self._clock.monotonic_s()
            await self._try(self._writer.write_mark)
            self._retry_mark_file()
        elif self._backlog or self._cursors.urgent:
            await self._let_gather()
            await self._write_round()
        elif self._mark_due:
            self._mark_due = False
            await self._try(self._writer.mark)
            self._try_later(self._mark_alarm, is_left=self._writer.end.needs_mark)
        elif self._sync_due:
            self._sync_due = False
            await self._try(self._writer.sync)
        else:
            return False
        return True

    async def _try(self, work: Callable[[], Written | None]) -> DanubeError | None:
        """Have the writer do work that stores nothing; answers its failure."""
        try:
            written = await self._runner.run(work)
        except StorageUnavailableError as error:
            if not self._is_mark_failing:
                _log.warning("the journal could not be marked, or begin a new file: %s", error)
            self._is_mark_failing = True
            return error
        except JournalStoppedError as error:
            self._stop(str(error))
            return self._refusal()
        if written is not None:
            self._is_mark_failing = False
            self._on_written(Round([], {}), written)
        return None

    def _answer_rotations(self, error: DanubeError | None) -> None:
        waiting, self._rotating = self._rotating, []
        for one in waiting:
            if one.done():
                continue
            if error is None:
                one.set_result(None)
            else:
                one.set_exception(error)

    def _is_confirmed(self, topic: TopicState) -> bool:
        """True if all stored batches of a topic are as durable as its durability says now."""
        if topic.durability is not Durability.FSYNC or topic.index is None:
            return True
        return not topic.index.reaches(self._writer.end.synced_to)

    def _answer_confirms(self) -> None:
        if not self._confirming or self.stopped is not None:
            return
        waiting, self._confirming = self._confirming, []
        for topic, offset, done in waiting:
            if self._is_confirmed(topic):
                call_safely(done, offset)
            else:
                self._confirming.append((topic, offset, done))
                self._sync_due = True

    async def _write_round(self) -> None:
        started_s = self._clock.monotonic_s()
        written_round = self._gather()
        sync = written_round.must_sync or self._sync_due
        try:
            written = await self._runner.run(
                lambda: self._writer.write(
                    written_round.chunks, written_round.content_bytes, written_round.envelopes, sync=sync
                )
            )
            if not sync and written_round.has_become_strict:
                sync = True
                await self._runner.run(lambda: self._writer.sync_round(written))
        except StorageUnavailableError as error:
            self._fail_round(error)
        except JournalStoppedError as error:
            self._stop(str(error))
        else:
            self._sync_due = self._sync_due and not sync
            self._last_round_s = self._clock.monotonic_s()
            self._acknowledge(written_round, written)
            took_s = self._clock.monotonic_s() - started_s
            self.round_seconds.observe(took_s)
            self.last_round_ms = took_s * 1_000

    def _gather(self) -> Round:
        batches = self._backlog.pop_round(self._settings.round_bytes_max)
        room = self._settings.round_bytes_max - sum(batch.total_bytes for batch in batches)
        cursors = self._cursors.take(room if self._cursors.urgent else min(room, CURSOR_RIDE_BYTES_MAX))
        self._taken = batches, cursors
        built = build_round(batches, cursors, self._clock.now_ms())
        if built.ahead is not None:
            self._clamp_log.warn(*built.ahead, built.now_ms, self._clock.monotonic_s())
        return built

    def _acknowledge(self, written_round: Round, written: Written) -> None:
        self._on_written(written_round, written)
        self._answer_confirms()  # first: they came before these on a stream
        self._mark_due = False
        if self._failing:
            _log.warning("the journal takes appends again")
        self._failing = self._is_mark_failing = False
        self.rounds += 1
        self.bytes_written += HEADER_BYTES + written_round.content_bytes
        batches, cursors = self._settle()
        self._is_shared = len(batches) > 1 or any(len(batch.waiting) > 1 for batch in batches)
        for batch, stored in zip(batches, written_round.stored, strict=True):
            for offset, done in enumerate(batch.waiting, stored.base_offset):
                call_safely(done, offset)
        for pending in cursors.values():
            for saved in pending.waiting:
                call_safely(saved, None)
        for topic in dict.fromkeys(batch.topic for batch in batches):
            for listener in topic.listeners:
                call_safely(listener, topic.durable_end)
        self._plan_mark()
        if self._writer.end.synced_to < written.end_position and Durability.INTERVAL in written_round.durabilities:
            self._sync_alarm.arm(self._settings.sync_interval_s)

    def _fail_round(self, error: StorageUnavailableError) -> None:
        if not self._failing:
            _log.error("the journal refuses appends: %s", error)
        self._failing = True
        self.failed_rounds += 1
        batches, cursors = self._settle()
        for key, pending in cursors.items():
            if not pending.is_gone:
                self._cursors.put_back(key, pending)
        self._cursors.let_wait()
        if self._cursors:
            self._cursor_alarm.arm(self._settings.cursor_interval_s)
        _answer([*batches, *self._pop_followers(batches)], cursors, error)

    def _pop_followers(self, failed: list[PendingBatch]) -> list[PendingBatch]:
        """Batches behind failed ones in the same topics: stored now, they would overtake them."""
        followers = self._backlog.pop_topics({batch.topic for batch in failed})
        self._backlog.settle(followers)
        return followers

    def _settle(self) -> tuple[list[PendingBatch], dict[CursorKey, PendingCursor]]:
        taken = self._taken
        self._taken = ([], {})
        self._backlog.settle(taken[0])
        return taken

    def _stop(self, reason: str) -> None:
        self.stopped = f"the journal has stopped: {reason}"
        _log.error("%s", self.stopped)
        self._cancel_alarms()
        error = StorageUnavailableError(self.stopped)
        _answer(*self._settle(), error)
        waiting = self._backlog.pop_all()
        self._backlog.settle(waiting)
        _answer(waiting, {}, error)
        self._refuse_cursors(error)
        waiting_for_sync, self._confirming = self._confirming, []
        for _, _, done in waiting_for_sync:
            call_safely(done, error)
        self._answer_rotations(error)

    def _refuse_cursors(self, error: DanubeError) -> None:
        for saved in self._cursors.drop_all():
            call_safely(saved, error)

    def _check_open(self) -> None:
        if self.stopped is not None or self._closing:
            raise self._refusal()

    def _refusal(self) -> DanubeError:
        if self.stopped is not None:
            return StorageUnavailableError(self.stopped)
        return ShuttingDownError("the broker is going down: look the topic up again")

    def _hurry_cursors(self) -> None:
        self._cursors.hurry()
        self._wake.set()

    def _ask_for_mark(self) -> None:
        idle_s = self._clock.monotonic_s() - self._last_round_s
        rest_s = self._settings.idle_mark_delay_s - idle_s
        if self._backlog.bytes or rest_s > 0:
            self._mark_alarm.arm(max(rest_s, self._settings.idle_mark_delay_s / 2))
            return
        self._mark_due = True
        self._wake.set()

    def _ask_for_mark_file(self) -> None:
        now_s = self._clock.monotonic_s()
        rest_s = IDLE_MARK_FILE_DELAY_S - (now_s - self._last_round_s)
        is_busy = self._backlog.bytes or rest_s > 0
        if is_busy and now_s - self._mark_file_s < BUSY_MARK_FILE_DELAY_S:
            self._mark_file_alarm.arm(max(rest_s, IDLE_MARK_FILE_DELAY_S / 2))
            return
        self._mark_file_due = True
        self._wake.set()

    def _plan_mark(self) -> None:
        if self._writer.end.needs_mark:
            self._mark_alarm.arm(self._settings.idle_mark_delay_s)
            self._mark_file_alarm.arm(IDLE_MARK_FILE_DELAY_S)

    def _retry_mark_file(self) -> None:
        self._try_later(self._mark_file_alarm, is_left=self._writer.end.is_mark_behind)

    def _try_later(self, alarm: Alarm, *, is_left: bool) -> None:
        """A failed mark is written later, also if nothing else is written, but not at once on a full disk."""
        if is_left and self.stopped is None:
            alarm.arm(MARK_RETRY_DELAY_S)

    def _ask_for_sync(self) -> None:
        self._sync_due = True
        self._wake.set()

    def _cancel_alarms(self) -> None:
        alarms = (self._cursor_alarm, self._mark_alarm, self._mark_file_alarm, self._sync_alarm, self._gather_alarm)
        for alarm in alarms:
            alarm.cancel()


def _answer(batches: Iterable[PendingBatch], cursors: Mapping[CursorKey, PendingCursor], error: DanubeError) -> None:
    for batch in batches:
        for done in batch.waiting:
            call_safely(done, error)
    for pending in cursors.values():
        for saved in pending.waiting:
            call_safely(saved, error)


def call_safely(callback: Callable[[_T], None], argument: _T) -> None:
    """Run a callback; its exception is logged and stops nothing."""
    try:
        callback(argument)
    except Exception:
        _log.exception("a callback of the journal failed: %r", callback)
