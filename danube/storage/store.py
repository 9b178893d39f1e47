"""A broker's storage: its journal, the segments it is flushed into, and the background work between them."""

import asyncio
import contextlib
import logging
import math
from collections.abc import Awaitable, Callable, Container, Coroutine, Iterable, Mapping
from dataclasses import replace
from typing import Any

from danube.metadata.records.storage import TopicStorage
from danube.model.errors import DanubeError, StorageUnavailableError
from danube.model.limits.broker import FLUSH_RETRY_S
from danube.model.subscription import Cursor
from danube.model.topic import TopicName
from danube.objects.use import ObjectUse, TopicObjects
from danube.runtime.tasks import TaskScope
from danube.storage.carry import LogCarry
from danube.storage.disk_space import SpaceGate, SpaceLevel, check_space
from danube.storage.environment import StorageEnvironment
from danube.storage.flush.deletion import TopicDeleter, sweep_orphans
from danube.storage.flush.manifest_builder import ManifestBuilder
from danube.storage.flush.manifest_commit import ManifestCommitter
from danube.storage.flush.manifest_lookup import base_of
from danube.storage.flush.segment_flusher import FlushReport, NamedTopics, SegmentFlusher
from danube.storage.journal import Journal
from danube.storage.journal.folder import FOLDER
from danube.storage.journal.index import TopicIndex
from danube.storage.journal.round import TopicState
from danube.storage.log.histories import TopicHistories, TopicHistory
from danube.storage.log.topic_log import ColdStore, TopicLog
from danube.storage.opening import find_topics, keep_cursors_within, learn, refuse_detached
from danube.storage.quarantine import TopicNames, called
from danube.storage.read_throttle import ColdReadThrottle
from danube.storage.retention.enforcer import OldestUnread, Policies, RetentionEnforcer
from danube.storage.retention.rules import Retention, TrimPreview
from danube.storage.segment.manifest import Manifest
from danube.storage.segment.reader import SegmentReader
from danube.storage.settings import StorageStats
from danube.storage.stored_topics import Readable, StoredTopics

_Step = Callable[[], Awaitable[object]]

_log = logging.getLogger(__name__)


class Storage:
    """The storage of one broker, in a data folder that the caller has locked. Made by `open`.

    All calls are made, and all callbacks run, on the event loop's thread. Faults are isolated: a topic whose manifest
    cannot be read is refused, one that cannot be flushed stays in the journal, and the others are served.
    """

    def __init__(
        self,
        environment: StorageEnvironment,
        topics: StoredTopics,
        journal: Journal,
        *,
        folder: str = FOLDER,
        named: NamedTopics | None = None,
    ) -> None:
        """`folder` is the journal's. `named` answers, in a shared folder, the topics whose records name the journal."""
        self.journal_folder = folder
        self._environment = environment
        self.journal = journal
        """Of all topics; appends and reads go through `log`."""
        self.topics = topics
        """Records, manifests and faults of the topics; they are opened and deleted here alone."""
        self._logs: dict[int, TopicLog] = {}
        self._gate = SpaceGate(environment.settings.watermarks)
        reader = SegmentReader(environment.reading_tier)
        self._cold = ColdStore(
            reader,
            environment.tier_runner,
            environment.clock,
            topics.histories,
            self._gate,
            throttle=ColdReadThrottle(environment.clock, journal.sync_watch),
            objects=self._topic_objects,
        )
        self._writer = ManifestBuilder(environment, folder)
        self._committer = ManifestCommitter(environment, topics.histories, drop_flushed=journal.drop_flushed)
        self._flusher = SegmentFlusher(
            environment,
            journal,
            topics,
            self._writer,
            self._committer,
            is_room_short=lambda: self._gate.level is not SpaceLevel.OK,
            is_full=lambda: self._gate.level is SpaceLevel.REFUSE,
            named=named,
        )
        self._retention_enforcer = RetentionEnforcer(
            environment, topics, self._writer, self._committer, newest_ms=journal.newest_append_ms
        )
        self._topic_deleter = TopicDeleter(environment, topics, reader, self._drop, has_records=journal.has_records)
        self._turn = asyncio.Lock()
        """One at a time builds manifest versions: a flush, retention, a sweep."""
        self.carry = LogCarry(
            environment, journal, topics, self._flusher, turn=self._turn, reader=reader, drop=self._drop
        )
        self._tasks = TaskScope("storage")
        self._sweep_s = self._retry_s = 0.0
        """Time of the next sweep of deleted topics, and of the next work after a failure."""
        self._file_begun_s = environment.clock.monotonic_s()
        """Begin of the journal's last file, as far as this start of the broker knows."""
        self.journal.on_file_closed(self._mark_file_begun)
        self._totals = FlushReport()
        self._passes = self._dropped = 0
        self._waiting_bytes = 0
        """Of segments that are due to move into the object store."""

    @classmethod
    async def open(
        cls,
        environment: StorageEnvironment,
        *,
        known_topics: Container[int] | None = None,
        names: TopicNames | None = None,
        has_begun: bool = False,
    ) -> "Storage":
        """Recover the folder, or start a new one, and be ready for appends; `start` begins the background work.

        `known_topics` holds the ids of the topics that metadata names as this broker's; None is all. Others are kept
        and not served, unless they have a tombstone. `names` are those of topics as far as they are known, for the log.
        With `has_begun` an absent journal is missing, and no new one is started.

        Raises:
            DamagedDataError: bytes of the journal that were known to be synced are not there, or not what was written.
            DataFolderError: the folder cannot be read or written, or is another broker's, or of a newer format.
            MetadataError: the metadata store failed.
        """
        records = (await environment.records.all()).values()
        deleted = set(await environment.records.deleted())
        own = [one for one in records if known_topics is None or one.topic_id in known_topics]
        found = await environment.tier_runner.run(
            lambda: find_topics(environment.reading_tier, own, known_topics, deleted)
        )
        named = dict(names or {})
        detached: dict[int, int] = {}
        journal = await Journal.open(
            environment.disk,
            environment.clock,
            rng=environment.rng,
            runner=environment.runner,
            read_runner=environment.read_runner,
            settings=environment.settings.journal,
            broker_id=environment.broker_id,
            known_topics=Readable(deleted, found.refused),
            bases={history.manifest.topic_id: base_of(history) for history in found.histories},
            has_begun=has_begun,
            detached=detached,
        )
        refuse_detached(found, detached)
        await learn(environment.records, found, journal)
        unnamed = found.unnamed
        if known_topics is not None:
            unnamed |= {one for one in journal.topic_ids() if one not in known_topics and one not in deleted}
        for topic_id in sorted(unnamed):
            _log.warning("topic id %d has messages here, and the metadata does not name it: they are kept", topic_id)
        for topic_id, error in found.refused.items():
            _log.error("%s cannot be served: %s", called(topic_id, named), error)
        manifests = [one.manifest for one in found.histories if one.record.topic_id not in unnamed]
        await keep_cursors_within(journal, manifests, named)
        topics = StoredTopics(TopicHistories(found.histories), found.refused, named, deleted=deleted, unnamed=unnamed)
        storage = cls(environment, topics, journal)
        await storage.check_space()
        return storage

    # Topics

    @property
    def stopped(self) -> str | None:
        """The reason that nothing more is written (file and cause), or None. Reads go on."""
        return self.journal.stopped

    @property
    def refuses(self) -> str | None:
        """The reason that appends are refused for now, or None: too little room on the disk."""
        return self._gate.refusal

    @property
    def object_use(self) -> ObjectUse | None:
        """The use of an object store, if there is one."""
        use = self._environment.object_use
        return None if use is None else replace(use(), waiting_bytes=self._waiting_bytes)

    def silence(self) -> str | None:
        """The reason while an object store does not answer; None while it does, or where there is none."""
        use = self.object_use
        return None if use is None else use.silence

    @property
    def free_bytes(self) -> int | None:
        """Free bytes on the disk, as last seen."""
        return self._gate.free_bytes

    def note_reserve(self, *, is_used: bool) -> None:
        """Set whether the reserve for administration on a full disk is in use: then no message is accepted.

        From any thread.
        """
        self._gate.note_reserve(is_used=is_used)

    shares_logs = False
    """True if every broker reaches the logs in it, so that they are owned by `acquire`; else by their records alone."""

    @property
    def owned(self) -> frozenset[int]:
        """Topics whose shared logs are this broker's, as far as it knows."""
        return frozenset()

    async def is_fenced(self) -> bool:
        """True once others have taken over shared logs of this broker. Raises StorageUnavailableError."""
        return False

    async def acquire(self, topic_ids: Iterable[int], may_own: Callable[[TopicStorage], bool]) -> frozenset[int]:  # noqa: ARG002 - there is none
        """Own shared logs; answers the ids of those that are this broker's now."""
        return frozenset()

    async def release(self, topic_id: int, stop: Callable[[], Awaitable[Mapping[int, Cursor]]]) -> None:  # noqa: ARG002 - as above
        """Release a shared log, so that another broker can own it; `stop` ends its service and answers its cursors."""
        await stop()

    def topic(
        self, topic_id: int, epoch: int, *, name: TopicName | None = None, uses_reserve: bool = False
    ) -> TopicLog:
        """The log of a topic, empty or as recovered. Records are written under `epoch` from now on.

        `name` is for the broker's log. `uses_reserve` is for small records that must be written even when the disk has
        too little room for messages. Raises the fault of its manifest (DamagedDataError, DataFolderError,
        StorageUnavailableError), and ValueError for an unknown or deleted id that has records in the journal.
        """
        if topic_id in self.topics.refused:
            raise self.topics.refused[topic_id]
        if topic_id in self.topics.deleted:
            raise ValueError(f"topic id {topic_id} is that of a topic which was deleted: ids are never used again")
        topic = self.journal.open_topic(topic_id, epoch)
        self.topics.opened.add(topic_id)
        self.topics.unnamed.discard(topic_id)
        if name is not None:
            self.topics.names[topic_id] = name
        log = self._logs[topic_id] = TopicLog(topic, self.journal, self._cold, uses_reserve=uses_reserve)
        return log

    def unreadable_topic(self, topic_id: int, reason: str) -> TopicLog:
        """The log of a topic whose history cannot be read; `reason` is the text that clients get."""
        return TopicLog(TopicState(topic_id), self.journal, fault=reason)

    def epoch(self, topic_id: int) -> int:
        """Epoch under which this broker owns a topic. Raises the fault of its manifest."""
        if topic_id in self.topics.refused:
            raise self.topics.refused[topic_id]
        history = self.topics.histories.get(topic_id)
        return history.record.epoch if history is not None else 0

    def enter(self, record: TopicStorage) -> None:
        """Learn the record of a topic that this broker owns, before it is opened."""
        history = self.topics.histories.get(record.topic_id)
        if history is not None:
            self.topics.histories.put(replace(history, record=record))
        elif record.topic_id not in self.topics.refused:
            self.topics.histories.put(TopicHistory(record, Manifest(topic_id=record.topic_id, version=0)))

    def forget(self, topic_id: int) -> None:
        """Drop a deleted topic, whose id is never used again, from memory. A sweep removes its files."""
        self._drop(topic_id)
        self._sweep_s = 0.0

    def _drop(self, topic_id: int) -> None:
        self.journal.forget(topic_id)
        self.topics.forget(topic_id)
        self._logs.pop(topic_id, None)
        self._flusher.release_files()
        self._retention_enforcer.forget(topic_id)

    # Background work, which can be asked for

    def start(self) -> None:
        """Start the background work: sweeps, flushes, checks of the disk's space."""
        self._tasks.spawn(self._every_interval(self.check_space), "space")
        self._tasks.spawn(self._every_interval(self._work), "flush")
        self._tasks.spawn(self._sweep_orphans_once(), "orphans")

    async def flush(self) -> FlushReport:
        """Flush closed journal files into segments: one pass. Raises MetadataError, StorageUnavailableError."""
        async with self._turn:
            report = await self._flusher.flush()
        if report.freed_bytes and self._topic_deleter.waiting:
            self._sweep_s = 0.0
        self._passes += 1
        self._totals.add(report)
        return report

    async def retain(self, policies: Policies, oldest_unread: OldestUnread) -> int:
        """Trim the open topics; answers the number of segments removed. Raises MetadataError, ShuttingDownError."""
        logs = list(self._logs.values())
        if await self._retention_enforcer.wants_new_file(logs, policies, self._file_begun_s):
            with contextlib.suppress(
                StorageUnavailableError
            ):  # the journal logs it; sealed segments are trimmed all the same
                await self.journal.rotate()
        async with self._turn:
            self._totals.add(await self._flusher.commit_waiting())
            dropped = await self._retention_enforcer.retain(logs, policies, oldest_unread)
        self._dropped += dropped
        return dropped

    def trim_preview(self, topic_id: int, retention: Retention, oldest_unread: int | None) -> TrimPreview:
        """Preview of `retain` for an open topic with this retention. Changes nothing."""
        return self._retention_enforcer.trim_preview(self._logs[topic_id], retention, oldest_unread)

    async def sweep_deleted(self) -> int:
        """Remove the files of deleted topics; answers of how many. Raises MetadataError."""
        async with self._turn:
            self._sweep_s = math.inf
            swept = await self._topic_deleter.sweep()
        if self._topic_deleter.left:
            self._sweep_s = min(self._sweep_s, self._environment.clock.monotonic_s() + FLUSH_RETRY_S)
        return swept

    async def clear_for_copy(self, topic_id: int) -> None:
        """Have what is left of an earlier stay of a topic removed, before its log is copied to this disk.

        Raises MetadataError, StorageUnavailableError.
        """
        await self.sweep_deleted()
        if topic_id in self._topic_deleter.left:
            raise StorageUnavailableError(f"the files of an earlier stay of topic {topic_id} could not be removed yet")

    async def sweep_orphans(self) -> None:
        """Remove files of flushes that died, and removed files that a power cut brought back."""
        async with self._turn:
            named = (one for one in self.topics.histories if one.record.topic_id not in self.topics.unnamed)
            manifests = [history.manifest for history in named]
            await sweep_orphans(manifests, self._writer, self._committer, self._environment.flush_runner)

    async def check_space(self) -> None:
        """Check the disk's free space, and refuse or accept appends accordingly."""
        backlog_bytes = self.journal.stats.backlog_bytes
        await check_space(self._gate, self._environment.disk.room, self._environment.read_runner, backlog_bytes)

    @property
    def stats(self) -> StorageStats:
        """Counters for the metrics."""
        histories = list(self.topics.histories)
        return StorageStats(
            journal=self.journal.stats,
            topics=len(histories),
            segments=sum(len(history.manifest.segments) for history in histories),
            segment_body_bytes=sum(history.body_bytes for history in histories),
            segment_file_bytes=sum(history.file_bytes for history in histories),
            flush_passes=self._passes,
            flush_bytes=self._totals.written_bytes,
            merged_segments=self._totals.merged,
            dropped_segments=self._dropped,
            freed_bytes=self._totals.freed_bytes,
            quarantined_topics=len(self.topics.quarantine),
            refused_topics=len(self.topics.refused),
            space_level=self._gate.level,
            free_bytes=self._gate.free_bytes,
            read_wait_s=self._cold.throttle.waited_s,
        )

    async def close(self) -> None:
        """End the background work, write what is pending, close the files. Never raises for the disk's faults."""
        await self._tasks.close()
        await self.journal.close()
        await self._environment.tier_runner.run(self._environment.reading_tier.close)
        await self._environment.flush_runner.run(self._writer.close)

    # Inside

    async def _work(self) -> None:
        """One round: each step fails alone. Steps that free room come first: on a full disk the others need it."""
        if self._environment.clock.monotonic_s() < self._retry_s:
            return
        steps: dict[str, _Step] = {
            "removing the files of deleted topics": self._sweep_if_due,
            "beginning a new journal file": self._end_old_file,
            "flushing the journal into segments": self._flush_if_due,
            "moving segments to the object store": self.move_segments,
            "tidying up": self._tidy,
        }
        for what, step in steps.items():
            if not await self._try(what, step):
                self._work_later()

    async def _try(self, what: str, step: _Step) -> bool:
        try:
            await step()
        except (DanubeError, OSError) as error:
            _log.error("%s fails for now: %s", what, error)
        except Exception:
            _log.exception("%s met a fault of its own, and is tried again later", what)
        else:
            return True
        return False

    async def move_segments(self) -> None:
        """Move segments that are due into the object store, if there is one: one pass. Raises OSError."""
        mover = self._environment.mover
        if mover is None:
            return
        async with self._turn:
            manifests = [history.manifest for history in self.topics.histories]
            now_ms, is_short = self._environment.clock.now_ms(), self._gate.level is not SpaceLevel.OK
            report = await self._environment.flush_runner.run(
                lambda: mover.move(manifests, now_ms, is_room_short=is_short)
            )
        self._waiting_bytes = report.waiting_bytes
        for folder in report.folders:  # open files take up room
            await self._environment.tier_runner.run(
                lambda: self._environment.reading_tier.close_folder(folder)  # noqa: B023 - in turn
            )

    def _topic_objects(self, topic_id: int, index: TopicIndex, history: TopicHistory | None) -> TopicObjects | None:
        """One topic in the object store that older segments move into."""
        mover, use = self._environment.mover, self._environment.object_use
        if mover is None or use is None:
            return None
        segments, tails = (history.manifest.segments, history.tails) if history is not None else ((), ())
        moved = mover.moved(topic_id)
        here = [one for one in segments if one not in moved]
        since_ms = here[0].first_append_time_ms if here else index.first_append_ms_from(0)
        return TopicObjects(
            topic_id=topic_id,
            not_uploaded_bytes=sum(one.body_bytes for one in here)
            + sum(one.body_bytes for one in tails)
            + index.body_bytes_from(0),
            not_uploaded_since_ms=since_ms,
            stored_bytes=sum(one.file_bytes for one in segments if one in moved),
            use=use(),
        )

    async def _sweep_if_due(self) -> None:
        if self._environment.clock.monotonic_s() >= self._sweep_s:
            await self.sweep_deleted()

    async def _sweep_orphans_once(self) -> None:
        clock = self._environment.clock
        while not await self._try("removing files that flushes left behind", self.sweep_orphans):
            await clock.sleep_until(clock.monotonic_s() + FLUSH_RETRY_S)

    async def _flush_if_due(self) -> None:
        if self._flusher.is_due:
            await self.flush()

    async def _tidy(self) -> None:
        """Further periodic work. Raises DanubeError, OSError."""

    def _work_later(self) -> None:
        self._retry_s = self._environment.clock.monotonic_s() + FLUSH_RETRY_S
        self._sweep_s = 0.0

    async def _end_old_file(self) -> None:
        age_s = self._environment.settings.journal_file_age_s
        is_old = age_s and self._environment.clock.monotonic_s() >= self._file_begun_s + age_s
        if self.stopped is None and (is_old or self._flusher.wants_new_file()):
            await self.journal.rotate()
            self._mark_file_begun()  # also where nothing was in the last one

    def _mark_file_begun(self) -> None:
        self._file_begun_s = self._environment.clock.monotonic_s()

    async def _every_interval(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        clock = self._environment.clock
        while True:
            await work()
            await clock.sleep_until(clock.monotonic_s() + self._environment.settings.check_interval_s)
