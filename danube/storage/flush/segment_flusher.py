"""Flushes closed journal files into segments, a pass at a time, in a thread of its own.

A pass covers the topics of the oldest closed files. Each gets its batches sealed and a manifest written; the pointers
of up to FLUSH_TOPICS_MAX topics are committed in one transaction; a file with all its topics flushed is removed. A pass
that ended early is done again: committed topics are skipped, the others built anew.

A topic that could not be flushed is late: the journal keeps its files, and now and then a pass covers them again for it
alone. The others go on meanwhile.

The output of a pass is on the disk beside the files that it flushes and the segments that it merges. So it has little
that is uncommitted at any time, and with little room it covers one file, and merges nothing.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass

from danube.model.errors import MetadataError
from danube.model.limits.broker import (
    FLUSH_DELAY_S,
    FLUSH_RETRY_S,
    FLUSH_TOPICS_MAX,
    FLUSH_UNNAMED_SEGMENTS,
    JOURNAL_FILE_AGE_MIN_S,
)
from danube.storage.environment import StorageEnvironment
from danube.storage.flush.flush_plan import Waiting, files_of_pass, first_needed, is_worth_a_pass, is_worth_closing
from danube.storage.flush.manifest_builder import ManifestBuilder, ManifestVersion, Run, TopicFlush, blank_history
from danube.storage.flush.manifest_commit import ManifestCommitter, refresh
from danube.storage.journal import Journal
from danube.storage.journal.index import ClosedFile
from danube.storage.log.histories import TopicHistory
from danube.storage.quarantine import FAULTS
from danube.storage.stored_topics import StoredTopics, changed_by_another

_FOR_GOOD = float("inf")
_NO_TOPICS: frozenset[int] = frozenset()

NamedTopics = Callable[[], Awaitable[frozenset[int]]]


@dataclass(slots=True)
class FlushReport:
    """Result of one pass."""

    files: int = 0
    """Journal files that it covered, but for those of late topics."""
    topics: int = 0
    """Flushed."""
    failed: int = 0
    """Not flushed; the log says why."""
    written_bytes: int = 0
    merged: int = 0
    """Segments that became a part of larger ones."""
    freed_bytes: int = 0
    """Of journal files that were removed."""

    def add(self, other: "FlushReport") -> None:
        """Add another pass."""
        self.files += other.files
        self.topics += other.topics
        self.failed += other.failed
        self.written_bytes += other.written_bytes
        self.merged += other.merged
        self.freed_bytes += other.freed_bytes


class SegmentFlusher:
    """Flushes one journal into one tier. One pass at a time."""

    def __init__(
        self,
        environment: StorageEnvironment,
        journal: Journal,
        topics: StoredTopics,
        writer: ManifestBuilder,
        committer: ManifestCommitter,
        *,
        is_room_short: Callable[[], bool],
        is_full: Callable[[], bool] = lambda: False,
        named: NamedTopics | None = None,
    ) -> None:
        """`named` answers, in a shared folder, the topics whose records name this journal."""
        self._journal = journal
        self._topics = topics
        self._writer = writer
        self._committer = committer
        self._clock = environment.clock
        self._runner = environment.flush_runner
        self._is_room_short = is_room_short
        self._is_full = is_full
        self._named = named
        self._cache_bytes = environment.settings.journal.cache_bytes_max
        """The journal's newest bytes, which are read from memory, roughly."""
        self._passed_to = 0
        """Passes covered the files below this position. They may be there still, for late topics."""
        self._late = _NO_TOPICS
        """Topics with unflushed records in these files."""
        self._removal_due = True
        self._others_until_s = _FOR_GOOD
        self._uncommitted: Sequence[ManifestVersion] = ()
        """Written while the metadata store failed: they are committed once it works, and nothing is written twice."""
        self._waiting = Waiting()
        self._refresh_waiting()
        journal.on_file_closed(self._refresh_waiting)
        self._ended_s = self._looked_s = self._clock.monotonic_s()
        """Times of the last file closed for deleted topics, and of the last check for that."""

    @property
    def is_due(self) -> bool:
        """True if there are files to remove, or enough bytes for a pass to be worth its syncs."""
        if self._removal_due and self._journal.stopped is None:
            return True
        if self._is_others_turn_over() or any(self._is_previous_owner_tail_due(each) for each in self._with_tails):
            return True
        if any(self._is_due(each, self._passed_to) for each in self._late):
            return True
        files = files_of_pass([file for file in self._pending() if self._is_cold(file)])
        return is_worth_a_pass(files, self._waited_s(files[0]) if files else 0.0, is_full=self._is_full())

    def wants_new_file(self) -> bool:
        """True if the journal should begin a new file now, so that records of deleted topics in the last one can go.

        It is called often, checks now and then, and answers yes once.
        """
        now_s = self._clock.monotonic_s()
        is_full = self._is_full()
        if now_s - self._looked_s < JOURNAL_FILE_AGE_MIN_S and not is_full:
            return False
        self._looked_s = now_s
        dead_bytes = self._journal.bytes_in_last_file(self._topics.is_dead)
        if not is_worth_closing(dead_bytes, now_s - self._ended_s, is_full=is_full):
            return False
        self._ended_s = now_s
        return True

    def release_files(self) -> None:
        """Check for files to remove: a topic needs its files no more."""
        self._removal_due = True

    async def flush(self) -> FlushReport:
        """One pass. Raises MetadataError, StorageUnavailableError; faults of single topics are logged, and theirs."""
        report = await self.commit_waiting()
        await self._flush_late(report)
        await self._flush_next(report)
        await self._remove_files(report)
        return report

    async def flush_topic(self, topic_id: int) -> TopicHistory:
        """Flush one topic up to the end of the closed files, and merge nothing; answers its history then.

        Raises MetadataError, the fault of the topic, and StorageChangedError when another broker has it.
        """
        report = await self.commit_waiting()
        made = await self._make(topic_id, self._journal.last_file_position, merges=False)
        if made is not None:
            await self._commit([made], report)
        history = self._topics.histories.get(topic_id)
        if made is None or topic_id in self._topics.stale or history is None:
            raise changed_by_another()
        return history

    async def commit_waiting(self) -> FlushReport:
        """Commit manifests that were written while metadata failed, before newer ones are. Raises MetadataError."""
        report = FlushReport()
        if self._uncommitted:
            await self._commit(self._uncommitted, report)
        return report

    async def _flush_late(self, report: FlushReport) -> None:
        """Cover files again for late topics: in steps, as they may need more than fits."""
        due = frozenset(topic_id for topic_id in self._late if self._is_due(topic_id, self._passed_to))
        if due:
            await self._flush_topics(due, self._files_of_pass(self._held_for(due)), report)
        self._find_late(self._late)

    async def _flush_next(self, report: FlushReport) -> None:
        """Cover the next files for all others."""
        files = self._files_of_pass(self._pending())
        report.files += len(files)
        wanted = self._with_tails.union(*(file.topics for file in files))
        if await self._flush_topics(wanted - self._late, files, report) and files:
            self._passed_to = files[-1].end_position
            self._find_late(self._late | wanted)

    def _files_of_pass(self, files: Sequence[ClosedFile]) -> Sequence[ClosedFile]:
        return files_of_pass(files)[:1] if self._is_room_short() else files_of_pass(files)

    def _pending(self) -> Sequence[ClosedFile]:
        """The closed files that no pass covered."""
        return [file for file in self._journal.closed_files() if file.end_position > self._passed_to]

    def _passed(self) -> Sequence[ClosedFile]:
        """The closed files that passes covered."""
        return [file for file in self._journal.closed_files() if file.end_position <= self._passed_to]

    def _held_for(self, topic_ids: frozenset[int]) -> Sequence[ClosedFile]:
        """Covered files with unflushed records of one of these topics; each topic is checked once."""
        left = sorted(((self._covered_to(topic_id), topic_id) for topic_id in topic_ids), reverse=True)
        behind: set[int] = set()
        held: list[ClosedFile] = []
        for file in self._passed():
            while left and left[-1][0] < file.end_position:
                behind.add(left.pop()[1])
            if not behind.isdisjoint(file.topics):
                held.append(file)
        return held

    def _find_late(self, topic_ids: frozenset[int]) -> None:
        """Find the late ones of these topics; each is checked in the last file that it is in."""
        left, late = set(self._behind(topic_ids, self._passed_to)), set[int]()
        for file in reversed(self._passed()):
            inside = file.topics & left
            late |= self._behind(inside, file.end_position)
            left -= inside
        self._late = frozenset(late)

    def _behind(self, topic_ids: frozenset[int], position: int) -> frozenset[int]:
        return frozenset(topic_id for topic_id in topic_ids if self._is_behind(topic_id, position))

    async def _flush_topics(self, topic_ids: frozenset[int], files: Sequence[ClosedFile], report: FlushReport) -> bool:
        """Flush those that are due up to the end of these files; answers whether it got to the end."""
        position = files[-1].end_position if files else self._passed_to
        made: list[ManifestVersion] = []
        for topic_id in sorted(topic_ids):
            if not self._is_due(topic_id, position):
                continue
            if len(files) > 1 and self._is_room_short():
                await self._commit(made, report)
                return False  # another pass covers the first file only
            one = await self._try(topic_id, position)
            if one is None:
                report.failed += 1
                continue
            made.append(one)
            if self._is_group(made):
                await self._commit(made, report)
                made = []
        await self._commit(made, report)
        return True

    def _is_group(self, made: Sequence[ManifestVersion]) -> bool:
        """True if these are to be committed before more is written."""
        unnamed_bytes = sum(one.written_bytes for one in made)
        return len(made) >= FLUSH_TOPICS_MAX or unnamed_bytes >= FLUSH_UNNAMED_SEGMENTS * self._writer.segment_bytes_max

    async def _commit(self, made: Sequence[ManifestVersion], report: FlushReport) -> None:
        # the manifest of a topic that was deleted meanwhile may lack dropped records
        made = [one for one in made if not self._topics.is_dead(one.manifest.topic_id)]
        kept = [one for one in made if one.manifest.topic_id in self._topics.unnamed]
        self._committer.keep(kept)
        report.topics += len(kept)
        made = [one for one in made if one not in kept]
        self._uncommitted = ()
        try:
            lost = await self._committer.commit(made)
        except MetadataError:
            self._uncommitted = made
            raise
        self._topics.mark_stale(lost)
        for topic_id in lost:
            self._topics.quarantine_topic(topic_id, changed_by_another(), self._clock.monotonic_s())
        named = [one for one in made if one.manifest.topic_id not in lost]
        for one in named:
            self._topics.mark_committed(one.manifest.topic_id)
        report.topics += len(named)
        report.failed += len(made) - len(named)
        report.written_bytes += sum(one.written_bytes for one in named)
        report.merged += sum(one.merged for one in named)

    async def _try(self, topic_id: int, position: int) -> ManifestVersion | None:
        if self._topics.is_dead(topic_id):
            return None
        try:
            return await self._make(topic_id, position)
        except FAULTS as error:
            self._topics.quarantine_topic(topic_id, error, self._clock.monotonic_s())
            return None

    async def _make(self, topic_id: int, position: int, *, merges: bool = True) -> ManifestVersion | None:
        """Write the topic's next manifest version; None when it is not this broker's to flush any more."""
        if topic_id in self._topics.stale and not await refresh(self._topics, self._committer, topic_id):
            return None
        journal, snapshot = self._journal, self._journal.snapshot(topic_id)
        history = self._topics.histories.get(topic_id) or blank_history(topic_id)
        position = max(position, history.manifest.journals.get(journal.journal_id, 0))
        flush = TopicFlush(
            history=history,
            find_previous_owner_tails=lambda: [Run(part.folder, part.files, part.run()) for part in history.tails],
            find_own=lambda: journal.run(topic_id, position),
            files=journal.files,
            journal_id=journal.journal_id,
            position=position,
            merges=merges and not self._is_room_short() and topic_id not in self._topics.unnamed,
            cursors=snapshot.cursors,
            producer_states=snapshot.producer_states,
        )
        return await self._runner.run(lambda: self._writer.flush(flush))

    async def _remove_files(self, report: FlushReport) -> None:
        self._removal_due = True  # until it is done
        closed = self._journal.closed_files()
        strange = not all(self._topics.are_owned(file.topics) for file in closed)
        named = await self._named() if strange and self._named is not None else _NO_TOPICS
        first = first_needed(closed, lambda topic_id: self._needed_from(topic_id, named))
        if closed and first > closed[0].sequence:
            self._release_others(file for file in closed if file.sequence < first)
            report.freed_bytes = await self._journal.remove_files(first)
            await self._runner.run(lambda: self._writer.forget_journal_below(first))
        self._removal_due = False
        waits = strange and bool(self._journal.closed_files())
        self._others_until_s = self._clock.monotonic_s() + FLUSH_RETRY_S if waits else _FOR_GOOD

    def _release_others(self, files: Iterable[ClosedFile]) -> None:
        """Drop topics of other brokers from the journal's memory, which still has their batches in these files."""
        for topic_id in frozenset[int]().union(*(file.topics for file in files)):
            if not self._topics.is_owned(topic_id):
                self._journal.forget(topic_id)

    def _is_others_turn_over(self) -> bool:
        """True if it is time to check if other brokers have flushed their topics out of this journal."""
        return self._journal.stopped is None and self._clock.monotonic_s() >= self._others_until_s

    @property
    def _with_tails(self) -> frozenset[int]:
        """Topics with former owners' tails; they are flushed also when nothing was appended since."""
        return self._topics.histories.with_older_epochs

    def _is_previous_owner_tail_due(self, topic_id: int) -> bool:
        return self._topics.is_owned(topic_id) and self._is_due(topic_id, 0)

    def _needed_from(self, topic_id: int, named: frozenset[int]) -> float:
        """The position from which on the journal is kept for a topic.

        Of another broker's topic all is kept as long as its record names this journal, or may come to name it.
        """
        if self._topics.is_owned(topic_id) or self._topics.is_dead(topic_id):
            return self._covered_to(topic_id)
        return 0 if topic_id in named or topic_id in self._topics.in_transit else _FOR_GOOD

    def _is_cold(self, file: ClosedFile) -> bool:
        """True if readers close behind the end no longer read this file from memory."""
        if self._journal.end_position - file.end_position >= self._cache_bytes:
            return True
        return self._waited_s(file) >= FLUSH_DELAY_S

    def _refresh_waiting(self) -> None:
        self._waiting.update(self._journal.closed_files(), self._clock.now_ms(), self._clock.monotonic_s())

    def _waited_s(self, file: ClosedFile) -> float:
        return self._waiting.waited_s(file, self._clock.monotonic_s())

    def _is_due(self, topic_id: int, position: int) -> bool:
        is_previous_owner_tail = self._topics.histories.has_older_epochs(topic_id) and self._is_own(topic_id)
        if not is_previous_owner_tail and not self._is_behind(topic_id, position):
            return False
        return not self._topics.quarantine.is_active(topic_id, self._clock.monotonic_s())

    def _is_behind(self, topic_id: int, position: int) -> bool:
        return self._is_own(topic_id) and self._covered_to(topic_id) < position

    def _is_own(self, topic_id: int) -> bool:
        """True if the topic is this broker's to flush."""
        return topic_id not in self._topics.refused and self._topics.is_owned(topic_id)

    def _covered_to(self, topic_id: int) -> float:
        """The position of the journal below which nothing of the topic is needed."""
        if self._topics.is_dead(topic_id):
            return _FOR_GOOD
        history = self._topics.histories.get(topic_id)
        return history.covered_to(self._journal.journal_id) if history is not None else 0
