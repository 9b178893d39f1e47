"""Applies retention: builds and commits manifest versions that begin at a later offset."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable

from danube.model.errors import MetadataError
from danube.model.limits.broker import CLOCK_AWAY_TOLD_S, CLOCK_SETTLED_S, FLUSH_TOPICS_MAX, JOURNAL_FILE_AGE_MIN_S
from danube.storage.environment import StorageEnvironment
from danube.storage.flush.manifest_builder import ManifestBuilder, ManifestVersion
from danube.storage.flush.manifest_commit import ManifestCommitter, refresh
from danube.storage.log.histories import TopicHistory
from danube.storage.log.topic_log import TopicLog
from danube.storage.quarantine import FAULTS, TopicQuarantine
from danube.storage.retention.retention_clock import ClockJumpGuard, Marks, as_seen, is_ahead, refreshed_marks
from danube.storage.retention.rules import Retention, TrimPreview, Unsealed, segments_to_drop, trim_preview
from danube.storage.segment.manifest import Manifest
from danube.storage.stored_topics import StoredTopics, changed_by_another

Policies = Callable[[int], Retention]
"""By topic id."""
OldestUnread = Callable[[int], int | None]
"""By topic id: the lowest offset that a subscription has not acknowledged; None without subscriptions."""

_Wanted = Callable[[TopicLog, TopicHistory], int]
"""Number of the first segments that may be trimmed now."""

_LOGS_PER_TURN = 100

_log = logging.getLogger(__name__)


class RetentionEnforcer:
    """Applies retention to the topics that are open. One pass at a time."""

    def __init__(
        self,
        environment: StorageEnvironment,
        topics: StoredTopics,
        writer: ManifestBuilder,
        committer: ManifestCommitter,
        *,
        newest_ms: int | None = None,
    ) -> None:
        """`newest_ms` is when the newest message of all topics was appended; None when there is none."""
        self._topics = topics
        self._writer = writer
        self._committer = committer
        clock = self._clock = environment.clock
        self._runner = environment.flush_runner
        self._quarantine = TopicQuarantine(topics.names)
        """Of retention alone. Flushes have their own: neither waits for the other, nor clears its faults."""
        self._rotated_s = clock.monotonic_s()
        self._time = ClockJumpGuard(clock, "retention", settled_s=CLOCK_SETTLED_S, newest_ms=newest_ms)
        self._marks: dict[int, Marks] = {}
        """By topic, of those whose append times are ahead of the clock."""
        self._warn_of_rest()

    async def retain(self, logs: Iterable[TopicLog], policies: Policies, oldest_unread: OldestUnread) -> int:
        """One pass over these topics; answers the number of segments removed. Raises MetadataError."""
        await self._refresh_stale()
        made: list[tuple[ManifestVersion, TopicLog]] = []
        dropped, now_ms = 0, self._time.now_ms()

        def wanted(log: TopicLog, history: TopicHistory) -> int:
            unsealed_bytes = log.body_bytes - history.body_bytes
            unread = oldest_unread(log.topic_id)
            manifest = as_seen(history.manifest, self._marks.get(log.topic_id, ()), now_ms)
            return segments_to_drop(manifest, policies(log.topic_id), now_ms, unread, unsealed_bytes)

        async for log in _in_turns(logs):
            history = self._topics.histories.get(log.topic_id)
            if history is None:
                continue
            self._refresh_marks(history.manifest, policies(log.topic_id), now_ms)
            trimmed = await self._trim(history, wanted(log, history))
            if trimmed is not None:
                made.append((trimmed, log))
            if len(made) == FLUSH_TOPICS_MAX:
                dropped += await self._commit(made, wanted)
                made = []
        return dropped + await self._commit(made, wanted)

    def trim_preview(self, log: TopicLog, retention: Retention, oldest_unread: int | None) -> TrimPreview:
        """Preview of `retain` for a topic with this retention, now and soon. Changes nothing."""
        history, now_ms = self._topics.histories.get(log.topic_id), self._time.now_ms()
        start = log.start_offset
        empty = Manifest(topic_id=log.topic_id, version=0, start_offset=start, end_offset=start)
        manifest = history.manifest if history is not None else empty
        manifest = as_seen(manifest, self._marks.get(log.topic_id, ()), now_ms)
        old_end_offset = log.offset_in_journal(now_ms - (retention.max_age_ms or 0))
        unsealed = Unsealed(
            start_offset=manifest.end_offset,
            old_end_offset=max(old_end_offset, manifest.end_offset),
            end_offset=log.durable_end,
            body_bytes=log.body_bytes - (history.body_bytes if history is not None else 0),
        )
        return trim_preview(manifest, retention, now_ms, oldest_unread, unsealed)

    async def wants_new_file(self, logs: Iterable[TopicLog], policies: Policies, file_begun_s: float) -> bool:
        """True if the journal should begin a new file, so that old records in it can be flushed and trimmed.

        `file_begun_s` is the begin of its last file, in monotonic time.
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
        """Drop a deleted topic."""
        self._quarantine.remove(topic_id)
        self._marks.pop(topic_id, None)

    def _warn_of_rest(self) -> None:
        """Warn after a long rest: messages are old then, and trimmed once it is certain that time has passed."""
        step_ms = self._time.step_ms
        if step_ms is not None and step_ms >= CLOCK_AWAY_TOLD_S * 1_000:
            _log.warning(
                "the newest message is %d h old: for retention it and those before it age from now on, until the clock "
                "has gone on evenly for %d h. If it is wrong, set it right before that",
                *(step_ms // 3_600_000, CLOCK_SETTLED_S // 3_600),
            )

    def _refresh_marks(self, manifest: Manifest, policy: Retention, now_ms: int) -> None:
        marks = self._marks.pop(manifest.topic_id, ())
        if policy.max_age_ms is not None:
            noted = refreshed_marks(marks, manifest, policy.max_age_ms, now_ms)
            if noted:
                self._marks[manifest.topic_id] = noted

    async def _trim(self, history: TopicHistory, count: int) -> ManifestVersion | None:
        topic_id = history.manifest.topic_id
        if topic_id in self._topics.stale or self._topics.is_dead(topic_id):
            return None
        if not count:
            self._quarantine.clear(topic_id)
            return None
        if self._quarantine.is_active(topic_id, self._clock.monotonic_s()):
            return None
        try:
            return await self._runner.run(lambda: self._writer.trim(history, count))
        except FAULTS as error:
            self._quarantine_topic(topic_id, error)
            return None

    async def _refresh_stale(self) -> None:
        """Load what metadata names of topics that another broker changed, or of which an answer was lost.

        Also where nothing is to be trimmed: files that metadata does not name are kept only until the next start.
        """
        for topic_id in sorted(self._topics.stale):
            if self._topics.histories.get(topic_id) is None or self._is_left_out(topic_id):
                continue
            try:
                await self._look_up(topic_id)
            except MetadataError as error:
                self._quarantine_topic(topic_id, error)
                return  # most likely it fails for all of them, and each would take its time
            except FAULTS as error:
                self._quarantine_topic(topic_id, error)

    def _is_left_out(self, topic_id: int) -> bool:
        now_s = self._clock.monotonic_s()
        return self._quarantine.is_active(topic_id, now_s) or self._topics.quarantine.is_active(topic_id, now_s)

    async def _look_up(self, topic_id: int) -> None:
        if await refresh(self._topics, self._committer, topic_id):
            self._quarantine.clear(topic_id)

    def _quarantine_topic(self, topic_id: int, error: Exception) -> None:
        if not self._topics.is_dead(topic_id):
            self._quarantine.add(topic_id, error, self._clock.monotonic_s())

    async def _commit(self, made: list[tuple[ManifestVersion, TopicLog]], wanted: _Wanted) -> int:
        """Commit what was made, but for segments that are needed again: a subscription may be new."""
        stand = ((one, log) for one, log in made if not self._topics.is_dead(one.manifest.topic_id))
        going = {one.manifest.topic_id: one for one, log in stand if wanted(log, one.history) >= _dropped(one)}
        for topic_id, one in going.items():
            # Between this check and its answer a client may subscribe at the earliest message.
            self._topics.histories.begin_at(topic_id, one.manifest.start_offset)
        try:
            lost = await self._committer.commit(list(going.values()))
        except BaseException:
            self._topics.mark_stale(going)  # it is unknown what metadata names now
            raise
        self._topics.mark_stale(lost)
        for topic_id in lost:
            self._quarantine_topic(topic_id, changed_by_another())
        named = going.keys() - lost
        for topic_id in named:
            self._end(topic_id)
        return sum(_dropped(going[topic_id]) for topic_id in named)

    def _end(self, topic_id: int) -> None:
        """Clear the topic's fault; a topic that was deleted meanwhile is dropped again."""
        if self._topics.is_dead(topic_id):
            self._topics.histories.forget(topic_id)
        self._quarantine.clear(topic_id)


def _dropped(one: ManifestVersion) -> int:
    return len(one.history.manifest.segments) - len(one.manifest.segments)


async def _in_turns(logs: Iterable[TopicLog]) -> AsyncIterator[TopicLog]:
    """The logs, a few in each turn of the event loop."""
    for number, log in enumerate(logs):
        if number % _LOGS_PER_TURN == 0:
            await asyncio.sleep(0)
        yield log
