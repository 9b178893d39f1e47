"""Letting go of what topics need not keep any more: a generation that begins later, named as a cut's is."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable

from danube.model.errors import MetadataError
from danube.model.limits.broker import CLOCK_AWAY_TOLD_S, CLOCK_SETTLED_S, FLUSH_TOPICS_MAX, JOURNAL_FILE_AGE_MIN_S
from danube.runtime.blocking import BlockingRunner
from danube.runtime.clock import Clock
from danube.storage.flush.manifest_builder import ManifestBuilder, ManifestVersion
from danube.storage.flush.manifest_commit import Publisher, look_up
from danube.storage.flush.manifest_versions import History
from danube.storage.log.tiered_log import TieredLog
from danube.storage.quarantine import FAULTS, Troubles
from danube.storage.retention.believed_time import ClockJumpGuard
from danube.storage.retention.clock_jump import Marks, as_seen, is_ahead, note_seen
from danube.storage.retention.rules import Going, Retention, Unsealed, going, segments_to_drop
from danube.storage.segment.manifest import Manifest
from danube.storage.stored_topics import StoredTopics, changed_by_another

Policies = Callable[[int], Retention]
"""By topic id."""
OldestUnread = Callable[[int], int | None]
"""By topic id: the lowest offset that a subscription has not acknowledged; None without subscriptions."""

_Wanted = Callable[[TieredLog, History], int]
"""How many of the first segments may go now."""

_LOGS_PER_TURN = 100

_log = logging.getLogger(__name__)


class RetentionEnforcer:
    """Applies retention to the topics that are open. One pass at a time."""

    def __init__(
        self,
        topics: StoredTopics,
        writer: ManifestBuilder,
        publisher: Publisher,
        *,
        clock: Clock,
        runner: BlockingRunner,
        newest_ms: int | None = None,
    ) -> None:
        """`newest_ms` is when the newest message of all topics was appended; None when there is none."""
        self._topics = topics
        self._writer = writer
        self._publisher = publisher
        self._clock = clock
        self._runner = runner
        self._troubles = Troubles(topics.names)
        """Of letting go. Those of cuts are others: neither waits for the other, nor ends what the other has to mend."""
        self._rotated_s = clock.monotonic_s()
        self._time = ClockJumpGuard(clock, "retention", settled_s=CLOCK_SETTLED_S, newest_ms=newest_ms)
        self._marks: dict[int, Marks] = {}
        """By topic, of those that are stamped ahead of the clock."""
        self._tell_of_rest()

    async def retain(self, logs: Iterable[TieredLog], policies: Policies, oldest_unread: OldestUnread) -> int:
        """One pass over these topics; answers how many segments went. Raises MetadataError."""
        await self._catch_up()
        made: list[tuple[ManifestVersion, TieredLog]] = []
        dropped, now_ms = 0, self._time.now_ms()

        def wanted(log: TieredLog, history: History) -> int:
            unsealed_bytes = log.body_bytes - history.body_bytes
            unread = oldest_unread(log.topic_id)
            manifest = as_seen(history.manifest, self._marks.get(log.topic_id, ()), now_ms)
            return segments_to_drop(manifest, policies(log.topic_id), now_ms, unread, unsealed_bytes)

        async for log in _in_turns(logs):
            history = self._topics.histories.get(log.topic_id)
            if history is None:
                continue
            self._note_seen(history.manifest, policies(log.topic_id), now_ms)
            trimmed = await self._trim(history, wanted(log, history))
            if trimmed is not None:
                made.append((trimmed, log))
            if len(made) == FLUSH_TOPICS_MAX:
                dropped += await self._publish(made, wanted)
                made = []
        return dropped + await self._publish(made, wanted)

    def going(self, log: TieredLog, retention: Retention, oldest_unread: int | None) -> Going:
        """What `retain` would take of a topic now, and soon, if it kept this; changes nothing."""
        history, now_ms = self._topics.histories.get(log.topic_id), self._time.now_ms()
        start = log.start_offset
        empty = Manifest(topic_id=log.topic_id, generation=0, start_offset=start, end_offset=start)
        manifest = history.manifest if history is not None else empty
        manifest = as_seen(manifest, self._marks.get(log.topic_id, ()), now_ms)
        old_end_offset = log.offset_in_journal(now_ms - (retention.max_age_ms or 0))
        unsealed = Unsealed(
            start_offset=manifest.end_offset,
            old_end_offset=max(old_end_offset, manifest.end_offset),
            end_offset=log.durable_end,
            body_bytes=log.body_bytes - (history.body_bytes if history is not None else 0),
        )
        return going(manifest, retention, now_ms, oldest_unread, unsealed)

    async def wants_new_file(self, logs: Iterable[TieredLog], policies: Policies, file_begun_s: float) -> bool:
        """Whether the journal should begin a new file, so that what topics need not keep can be cut, and go.

        What is in its closed files is cut without that. `file_begun_s` says when the last one began, in monotonic time.
        """
        now_s = self._clock.monotonic_s()
        if now_s - self._rotated_s < JOURNAL_FILE_AGE_MIN_S:
            return False
        now_ms = self._time.now_ms()
        async for log in _in_turns(logs):
            max_age_ms, oldest_ms = policies(log.topic_id).max_age_ms, log.oldest_in_last_file_ms
            if max_age_ms is None or oldest_ms is None:
                continue
            begun_ms = now_ms - round((now_s - file_begun_s) * 1_000)
            if (begun_ms if is_ahead(oldest_ms, now_ms) else oldest_ms) < now_ms - max_age_ms:
                self._rotated_s = now_s
                return True
        return False

    def forget(self, topic_id: int) -> None:
        """The topic is gone."""
        self._troubles.forget(topic_id)
        self._marks.pop(topic_id, None)

    def _tell_of_rest(self) -> None:
        """A broker that has rested finds old messages only: they are let go of once it is sure that time has passed."""
        step_ms = self._time.step_ms
        if step_ms is not None and step_ms >= CLOCK_AWAY_TOLD_S * 1_000:
            _log.warning(
                "the newest message is %d h old: for retention it and those before it age from now on, until the clock "
                "has gone on evenly for %d h. If it is wrong, set it right before that",
                *(step_ms // 3_600_000, CLOCK_SETTLED_S // 3_600),
            )

    def _note_seen(self, manifest: Manifest, policy: Retention, now_ms: int) -> None:
        marks = self._marks.pop(manifest.topic_id, ())
        if policy.max_age_ms is not None:
            noted = note_seen(marks, manifest, policy.max_age_ms, now_ms)
            if noted:
                self._marks[manifest.topic_id] = noted

    async def _trim(self, history: History, count: int) -> ManifestVersion | None:
        topic_id = history.manifest.topic_id
        if topic_id in self._topics.lost or self._topics.is_dead(topic_id):
            return None
        if not count:
            self._troubles.clear(topic_id)
            return None
        if self._troubles.leaves_out(topic_id, self._clock.monotonic_s()):
            return None
        try:
            return await self._runner.run(lambda: self._writer.trim(history, count))
        except FAULTS as error:
            self._quarantine(topic_id, error)
            return None

    async def _catch_up(self) -> None:
        """Learn what metadata names of topics that somebody else changed, or of which an answer got lost.

        Also where nothing is to go: what metadata does not name any more is there only until the next start.
        """
        for topic_id in sorted(self._topics.lost):
            if self._topics.histories.get(topic_id) is None or self._is_left_out(topic_id):
                continue
            try:
                await self._look_up(topic_id)
            except MetadataError as error:
                self._quarantine(topic_id, error)
                return  # most likely it fails for all of them, and each would take its time
            except FAULTS as error:
                self._quarantine(topic_id, error)

    def _is_left_out(self, topic_id: int) -> bool:
        now_s = self._clock.monotonic_s()
        return self._troubles.leaves_out(topic_id, now_s) or self._topics.troubles.leaves_out(topic_id, now_s)

    async def _look_up(self, topic_id: int) -> None:
        if await look_up(self._topics, self._publisher, topic_id):
            self._troubles.clear(topic_id)

    def _quarantine(self, topic_id: int, error: Exception) -> None:
        if not self._topics.is_dead(topic_id):
            self._troubles.note(topic_id, error, self._clock.monotonic_s())

    async def _publish(self, made: list[tuple[ManifestVersion, TieredLog]], wanted: _Wanted) -> int:
        """Name what was made, but for what is needed again since: a subscription may have come meanwhile."""
        stand = ((one, log) for one, log in made if not self._topics.is_dead(one.manifest.topic_id))
        going = {one.manifest.topic_id: one for one, log in stand if wanted(log, one.history) >= _dropped(one)}
        for topic_id, one in going.items():
            # Between this check and its answer somebody may subscribe at the earliest message.
            self._topics.histories.begin_at(topic_id, one.manifest.start_offset)
        try:
            lost = await self._publisher.publish(list(going.values()))
        except BaseException:
            self._topics.note_lost(going)  # nobody knows what metadata names now
            raise
        self._topics.note_lost(lost)
        for topic_id in lost:
            self._quarantine(topic_id, changed_by_another())
        named = going.keys() - lost
        for topic_id in named:
            self._end(topic_id)
        return sum(_dropped(going[topic_id]) for topic_id in named)

    def _end(self, topic_id: int) -> None:
        """It worked; a topic that was deleted meanwhile is not remembered again."""
        if self._topics.is_dead(topic_id):
            self._topics.histories.forget(topic_id)
        self._troubles.clear(topic_id)


def _dropped(one: ManifestVersion) -> int:
    return len(one.history.manifest.segments) - len(one.manifest.segments)


async def _in_turns(logs: Iterable[TieredLog]) -> AsyncIterator[TieredLog]:
    """The logs, a few in each turn of the event loop: it has others to serve."""
    for number, log in enumerate(logs):
        if number % _LOGS_PER_TURN == 0:
            await asyncio.sleep(0)
        yield log
