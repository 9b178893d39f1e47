"""Cutting closed journal files into segments, a pass at a time, in a thread of its own.

A pass goes through the topics of the oldest closed files. Each gets its batches sealed and a manifest written; the
pointers of up to CUT_TOPICS_MAX topics go to the metadata store in one transaction; and when all topics of a file are
through, the file goes. A pass that ended anywhere is simply done again: what it has named is skipped, what it has not
is made anew.

A topic that could not be cut is late: it holds the files, and now and then a pass goes through them again for it alone.
The others go on meanwhile.

What a pass writes is on the disk beside the files that it cuts until they go, and beside the segments that it merges
until it is named. So it has little unnamed at any time, and with little room it takes one file, and merges nothing.
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
from danube.runtime.blocking import BlockingRunner
from danube.runtime.clock import Clock
from danube.storage.flush.flush_plan import Waiting, files_of_pass, first_needed, is_worth_a_pass, is_worth_closing
from danube.storage.flush.manifest_builder import ManifestBuilder, ManifestVersion, Run, TopicFlush, blank_history
from danube.storage.flush.manifest_commit import Publisher, look_up
from danube.storage.journal import Journal
from danube.storage.journal.topic_base import ClosedFile
from danube.storage.quarantine import FAULTS
from danube.storage.stored_topics import StoredTopics, changed_by_another

_FOR_GOOD = float("inf")
_NO_TOPICS: frozenset[int] = frozenset()

Named = Callable[[], Awaitable[frozenset[int]]]


@dataclass(slots=True)
class FlushReport:
    """What one pass did."""

    files: int = 0
    """Journal files that it looked at, but for those of topics that are late."""
    topics: int = 0
    """Cut."""
    failed: int = 0
    """Left as they were; the log says why."""
    written_bytes: int = 0
    merged: int = 0
    """Segments that became a part of larger ones."""
    freed_bytes: int = 0
    """Of journal files that went."""

    def add(self, other: "FlushReport") -> None:
        """Count another pass in."""
        self.files += other.files
        self.topics += other.topics
        self.failed += other.failed
        self.written_bytes += other.written_bytes
        self.merged += other.merged
        self.freed_bytes += other.freed_bytes


class SegmentFlusher:
    """Cuts one journal into one tier. One pass at a time."""

    def __init__(
        self,
        journal: Journal,
        topics: StoredTopics,
        writer: ManifestBuilder,
        publisher: Publisher,
        *,
        clock: Clock,
        runner: BlockingRunner,
        cache_bytes: int,
        is_room_short: Callable[[], bool],
        is_full: Callable[[], bool] = lambda: False,
        named: Named | None = None,
    ) -> None:
        """`named` answers, in a shared folder, the topics whose records name this journal."""
        self._journal = journal
        self._topics = topics
        self._writer = writer
        self._publisher = publisher
        self._clock = clock
        self._runner = runner
        self._is_room_short = is_room_short
        self._is_full = is_full
        self._named = named
        self._cache_bytes = cache_bytes
        """Of the journal's newest data that are read from memory, roughly."""
        self._passed_to = 0
        """A position: passes went through the files below. They may be there still, for topics that are late."""
        self._late = _NO_TOPICS
        """Those that passes left with something in these files."""
        self._removal_due = True
        self._others_until_s = _FOR_GOOD
        self._unnamed: Sequence[ManifestVersion] = ()
        """Written while the metadata store failed: they are named once it works, and nothing is written twice."""
        self._waiting = Waiting()
        self._note_closed()
        journal.on_file_closed(self._note_closed)
        self._ended_s = self._looked_s = clock.monotonic_s()
        """When a file was ended for deleted topics, and when it was looked at whether one should be."""

    @property
    def is_due(self) -> bool:
        """Whether there is something to remove, or enough for a pass to be worth its syncs."""
        if self._removal_due and self._journal.stopped is None:
            return True
        if self._is_others_turn_over() or any(self._is_previous_owner_tail_due(each) for each in self._foreign):
            return True
        if any(self._is_due(each, self._passed_to) for each in self._late):
            return True
        files = files_of_pass([file for file in self._pending() if self._is_cold(file)])
        return is_worth_a_pass(files, self._waited_s(files[0]) if files else 0.0, is_full=self._is_full())

    def wants_new_file(self) -> bool:
        """Whether the journal should go on in a new file now, so that what deleted topics have in the last one can go.

        It is asked often, looks now and then, and answers yes once.
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

    def topic_is_gone(self) -> None:
        """A topic that may have held journal files does so no more."""
        self._removal_due = True

    async def flush(self) -> FlushReport:
        """One pass. Raises MetadataError, StorageUnavailableError; faults of single topics are logged, and theirs."""
        report = await self.name_waiting()
        await self._catch_up(report)
        await self._go_on(report)
        await self._remove_files(report)
        return report

    async def name_waiting(self) -> FlushReport:
        """Have metadata name what was written while it failed; after a newer generation that would be done in vain.

        Raises MetadataError.
        """
        report = FlushReport()
        if self._unnamed:
            await self._name(self._unnamed, report)
        return report

    async def _catch_up(self, report: FlushReport) -> None:
        """Go through files again for the topics that are late: in steps, as what they hold may be more than fits."""
        due = frozenset(topic_id for topic_id in self._late if self._is_due(topic_id, self._passed_to))
        if due:
            await self._flush_topics(due, self._files_of_pass(self._held_for(due)), report)
        self._note_late(self._late)

    async def _go_on(self, report: FlushReport) -> None:
        """Go through the next files for all others."""
        files = self._files_of_pass(self._pending())
        report.files += len(files)
        wanted = self._foreign.union(*(file.topics for file in files))
        if await self._flush_topics(wanted - self._late, files, report) and files:
            self._passed_to = files[-1].end_position
            self._note_late(self._late | wanted)

    def _files_of_pass(self, files: Sequence[ClosedFile]) -> Sequence[ClosedFile]:
        return files_of_pass(files)[:1] if self._is_room_short() else files_of_pass(files)

    def _pending(self) -> Sequence[ClosedFile]:
        """The closed files that no pass went through."""
        return [file for file in self._journal.closed_files() if file.end_position > self._passed_to]

    def _passed(self) -> Sequence[ClosedFile]:
        """Those that passes went through."""
        return [file for file in self._journal.closed_files() if file.end_position <= self._passed_to]

    def _held_for(self, topic_ids: frozenset[int]) -> Sequence[ClosedFile]:
        """Those of them that hold something of one of these topics which is not cut; each topic is looked at once."""
        left = sorted(((self._covered_to(topic_id), topic_id) for topic_id in topic_ids), reverse=True)
        behind: set[int] = set()
        held: list[ClosedFile] = []
        for file in self._passed():
            while left and left[-1][0] < file.end_position:
                behind.add(left.pop()[1])
            if not behind.isdisjoint(file.topics):
                held.append(file)
        return held

    def _note_late(self, topic_ids: frozenset[int]) -> None:
        """Those of these topics are late that files are held for; each is looked at in the last file that it is in."""
        left, late = set(self._behind(topic_ids, self._passed_to)), set[int]()
        for file in reversed(self._passed()):
            inside = file.topics & left
            late |= self._behind(inside, file.end_position)
            left -= inside
        self._late = frozenset(late)

    def _behind(self, topic_ids: frozenset[int], position: int) -> frozenset[int]:
        return frozenset(topic_id for topic_id in topic_ids if self._is_behind(topic_id, position))

    async def _flush_topics(self, topic_ids: frozenset[int], files: Sequence[ClosedFile], report: FlushReport) -> bool:
        """Cut those that are due up to the end of these files; answers whether it came to the end."""
        position = files[-1].end_position if files else self._passed_to
        made: list[ManifestVersion] = []
        for topic_id in sorted(topic_ids):
            if not self._is_due(topic_id, position):
                continue
            if len(files) > 1 and self._is_room_short():
                await self._name(made, report)
                return False  # another pass goes on with the first file only
            one = await self._try(topic_id, position)
            if one is None:
                report.failed += 1
                continue
            made.append(one)
            if self._is_group(made):
                await self._name(made, report)
                made = []
        await self._name(made, report)
        return True

    def _is_group(self, made: Sequence[ManifestVersion]) -> bool:
        """Whether so many are to be named before more is written."""
        unnamed_bytes = sum(one.written_bytes for one in made)
        return len(made) >= FLUSH_TOPICS_MAX or unnamed_bytes >= FLUSH_UNNAMED_SEGMENTS * self._writer.segment_bytes_max

    async def _name(self, made: Sequence[ManifestVersion], report: FlushReport) -> None:
        # of a topic that was forgotten meanwhile a generation may lack what was forgotten with it
        made = [one for one in made if not self._topics.is_dead(one.manifest.topic_id)]
        self._unnamed = ()
        try:
            lost = await self._publisher.publish(made)
        except MetadataError:
            self._unnamed = made
            raise
        self._topics.note_lost(lost)
        for topic_id in lost:
            self._topics.quarantine(topic_id, changed_by_another(), self._clock.monotonic_s())
        named = [one for one in made if one.manifest.topic_id not in lost]
        for one in named:
            self._topics.note_published(one.manifest.topic_id)
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
            self._topics.quarantine(topic_id, error, self._clock.monotonic_s())
            return None

    async def _make(self, topic_id: int, position: int) -> ManifestVersion | None:
        """Write the topic's next generation; None when it is not this broker's to cut any more."""
        if topic_id in self._topics.lost and not await look_up(self._topics, self._publisher, topic_id):
            return None
        journal, snapshot = self._journal, self._journal.snapshot(topic_id)
        history = self._topics.histories.get(topic_id) or blank_history(topic_id)
        position = max(position, history.manifest.journals.get(journal.journal_id, 0))
        flush = TopicFlush(
            history=history,
            find_previous_owner_tails=lambda: [Run(part.folder, part.files, part.run()) for part in history.foreign],
            find_own=lambda: journal.run(topic_id, position),
            files=journal.files,
            journal_id=journal.journal_id,
            position=position,
            merges=not self._is_room_short(),
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
        """Of topics that another broker took, or deleted, the journal still knows where they were in these files."""
        for topic_id in frozenset[int]().union(*(file.topics for file in files)):
            if not self._topics.is_owned(topic_id):
                self._journal.release(topic_id)

    def _is_others_turn_over(self) -> bool:
        """Whether it is time to see if others have cut what was theirs in this journal."""
        return self._journal.stopped is None and self._clock.monotonic_s() >= self._others_until_s

    @property
    def _foreign(self) -> frozenset[int]:
        """What former owners left is cut also when nothing was appended since, and be it only to say that it is."""
        return self._topics.histories.with_older_epochs

    def _is_previous_owner_tail_due(self, topic_id: int) -> bool:
        return self._topics.is_owned(topic_id) and self._is_due(topic_id, 0)

    def _needed_from(self, topic_id: int, named: frozenset[int]) -> float:
        """The position from which on the journal is kept for a topic.

        Of another's topic all is kept as long as its record names this journal, or may come to name it.
        """
        if self._topics.is_owned(topic_id) or self._topics.is_dead(topic_id):
            return self._covered_to(topic_id)
        return 0 if topic_id in named or topic_id in self._topics.begun else _FOR_GOOD

    def _is_cold(self, file: ClosedFile) -> bool:
        """Whether those who read close behind the end do not read this file from memory any more."""
        if self._journal.end_position - file.end_position >= self._cache_bytes:
            return True
        return self._waited_s(file) >= FLUSH_DELAY_S

    def _note_closed(self) -> None:
        self._waiting.note(self._journal.closed_files(), self._clock.now_ms(), self._clock.monotonic_s())

    def _waited_s(self, file: ClosedFile) -> float:
        return self._waiting.waited_s(file, self._clock.monotonic_s())

    def _is_due(self, topic_id: int, position: int) -> bool:
        is_previous_owner_tail = self._topics.histories.has_older_epochs(topic_id) and self._is_own(topic_id)
        if not is_previous_owner_tail and not self._is_behind(topic_id, position):
            return False
        return not self._topics.troubles.leaves_out(topic_id, self._clock.monotonic_s())

    def _is_behind(self, topic_id: int, position: int) -> bool:
        return self._is_own(topic_id) and self._covered_to(topic_id) < position

    def _is_own(self, topic_id: int) -> bool:
        """Whether the topic is for this broker to cut."""
        return topic_id not in self._topics.refused and self._topics.is_owned(topic_id)

    def _covered_to(self, topic_id: int) -> float:
        """Up to which position of the journal nothing of the topic is needed."""
        if self._topics.is_dead(topic_id):
            return _FOR_GOOD
        history = self._topics.histories.get(topic_id)
        return history.covered_to(self._journal.journal_id) if history is not None else 0
