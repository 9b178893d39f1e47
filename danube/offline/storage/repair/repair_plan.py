"""Plan of a repair of a data folder, worked out from a scan. It reads, and writes nothing."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from danube.data_folder.findings import Finding
from danube.data_folder.history_scan import TopicHistory, segment_of, size_of, unlisted_segments
from danube.metadata.records.record_format import TopicStorage
from danube.model.errors import DamagedDataError, SettingsError, UnsupportedError
from danube.model.limits.broker import PLACEHOLDER_OFFSETS_SKIPPED_MAX
from danube.model.subscription import Cursor
from danube.offline.storage.repair.quarantine_folder import CoveredJournal, covered_to
from danube.offline.storage.repair.repair_decision import (
    RepairedTopic,
    Source,
    Stay,
    filled,
    merged,
    plan_topic,
    unread,
)
from danube.offline.storage.scan.journal_contents import JournalTopic, cursors_over, producer_states_over
from danube.offline.storage.scan.scan import ScanResult, check_segment, check_unlisted, files_below, journal_gap
from danube.offline.storage.scan.segment_scan import SegmentScan
from danube.runtime.disk import Disk
from danube.storage.batches.producer_state import StoredNumbers
from danube.storage.flush.manifest_lookup import load_history, newest_whole
from danube.storage.flush.orphans import highest_manifest_version
from danube.storage.journal.folder import FOLDER
from danube.storage.segment.manifest import Manifest, Segment, segment_name
from danube.storage.segment.reader import SegmentReader
from danube.storage.tiers.directory import DirectoryTier


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRepair:
    """Repair of one topic."""

    topic_id: int
    name: str
    record: TopicStorage
    manifest_version: int
    """Of the manifest that is to be written."""
    repaired: RepairedTopic
    """The part of its log that is in segments afterwards."""
    end_offset: int
    """After its last record, those in the journal included."""
    cursors: dict[int, Cursor]
    producer_states: tuple[tuple[StoredNumbers, ...], ...]
    journals: dict[int, int]
    last_append_time_ms: int
    """Of the topic's newest record, unless a segment knows better."""
    unread: dict[str, int] = field(default_factory=dict)
    """By subscription: lost messages that it had not acknowledged."""
    from_start: tuple[str, ...] = ()
    """Subscriptions whose position is not known any more: they begin with the oldest message."""
    unknown_before: int = 0
    """Nobody can say whether messages below this offset are lost, or were trimmed; 0 where that is known."""
    set_aside: tuple[str, ...] = ()
    """Files of the topic's folder."""

    @property
    def kept_count(self) -> int:
        """Messages that can be read afterwards."""
        gone = (*self.repaired.lost, self.repaired.skipped)
        marked = sum(len(one) for one in gone if one.start >= self.repaired.start_offset)
        return self.end_offset - self.repaired.start_offset - marked

    @property
    def loses(self) -> bool:
        """True when anything of the topic is lost."""
        repaired = self.repaired
        return bool(repaired.lost or repaired.left_out or repaired.skipped or self.from_start or self.unknown_before)


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairPlan:
    """All that a repair would do."""

    findings: tuple[Finding, ...]
    """The damage."""
    topics: tuple[TopicRepair, ...]
    journal: bool
    """True if the journal goes aside as a whole; what is sound in it goes into segments first."""
    unknown_bytes: int
    """Of the journal, in which nobody can say what was."""
    is_end_missing: bool
    """True if there was more behind those; how much is unknown."""
    set_aside_bytes: int
    covered: CoveredJournal | None
    """Of the journal that goes aside; None when it stays, or nobody knows which it is."""

    @property
    def is_empty(self) -> bool:
        """True when there is nothing to repair."""
        return not (self.topics or self.journal)

    @property
    def set_aside(self) -> tuple[str, ...]:
        """All files and folders that are moved."""
        return (*(name for topic in self.topics for name in topic.set_aside), *((FOLDER,) if self.journal else ()))


def plan_repair(disk: Disk, scanned: ScanResult) -> RepairPlan:
    """Plan a repair of what was found.

    Raises OSError, StorageUnavailableError for what cannot be read, DataFolderError for files of a later version.
    Raises DamagedDataError when the metadata cannot be read: without it nobody knows which topics there are.
    Raises SettingsError when it is kept elsewhere and was not read. Raises UnsupportedError for topics that several
    brokers share.
    """
    known = scanned.metadata
    if known.trouble is not None:
        raise DamagedDataError(f"{known.trouble}: without it nothing can be repaired. Restore it from a backup first")
    if known.unread is not None:
        raise SettingsError(f"{known.place}: {known.unread}. Nothing can be repaired before that")
    planner = _Planner(disk, scanned)
    topics = tuple(planner.topic(topic_id) for topic_id in sorted(known.topics) if planner.is_affected(topic_id))
    is_journal = scanned.contents.is_damaged
    files = {name for topic in topics for name in topic.set_aside}
    if is_journal:
        files.update(files_below(disk, FOLDER))
    planner.close()
    return RepairPlan(
        findings=tuple(finding for finding in scanned.findings if finding.is_damage),
        topics=topics,
        journal=is_journal,
        unknown_bytes=scanned.contents.unknown_bytes if is_journal else 0,
        is_end_missing=scanned.contents.is_end_missing,
        set_aside_bytes=sum(size_of(disk, name) for name in files),
        covered=planner.covered,
    )


class _Planner:
    def __init__(self, disk: Disk, scanned: ScanResult) -> None:
        self._found = scanned
        self._tier = DirectoryTier(disk)
        self._reader = SegmentReader(self._tier)
        self._journal_id = scanned.journal.journal_id
        self._histories = {
            topic_id: self._newest(history)
            for topic_id, history in scanned.histories.items()
            if topic_id in scanned.metadata.topics
        }
        self._is_journal_damaged = scanned.contents.is_damaged
        end_position = scanned.journal.end_position
        self._repaired_to = covered_to(disk, self._journal_id, end_position) if self._journal_id else None
        self._behind = self._repaired_to or self._reached() + 1
        self.covered = (
            CoveredJournal(journal_id=self._journal_id, end_position=end_position, covered=self._behind)
            if self._is_journal_damaged and self._journal_id
            else None
        )

    def close(self) -> None:
        self._tier.close()

    def _newest(self, history: TopicHistory) -> TopicHistory:
        """By the newest manifest of which all is there, where the metadata looks older than the folder."""
        manifest_version = newest_whole(self._tier, history.record) if self._looks_older(history) else None
        if manifest_version is None:
            return history
        manifest = load_history(self._tier, replace(history.record, manifest_version=manifest_version)).manifest
        return replace(history, manifest=manifest)

    def _looks_older(self, history: TopicHistory) -> bool:
        """True when the manifest that metadata names is gone or not all there is, or the journal does not follow on it.

        Where neither is so, a newer manifest is of a flush or a repair that died before it was named: nobody needs it.
        """
        gap = journal_gap(self._journal_topic(history.topic_id), history, self._journal_id)
        names = (segment_name(history.topic_id, segment) for segment in history.segments)
        is_short = history.topic_id in self._found.unnamed
        return history.manifest is None or gap is not None or is_short or any(one not in history.files for one in names)

    def is_affected(self, topic_id: int) -> bool:
        history, topic = self._found.histories[topic_id], self._journal_topic(topic_id)
        if history.manifest is None or topic_id in self._found.damaged_segments or topic_id in self._found.unnamed:
            return True
        if not self._is_journal_damaged:
            return journal_gap(topic, history, self._journal_id) is not None
        covered = _covered(history, self._journal_id)
        if self._doubtful(topic_id, covered):
            return True
        has_cursors = any(position >= covered for position, _ in topic.cursors.values())
        return has_cursors or topic.first_above(covered) < len(topic) or topic.lost_end > history.manifest.end_offset

    def topic(self, topic_id: int) -> TopicRepair:
        history, topic = self._histories[topic_id], self._journal_topic(topic_id)
        if history.record.epochs:
            raise UnsupportedError(
                f"topic {self._found.metadata.name(topic_id)} is shared by several brokers, and such topics cannot be "
                "repaired by this version: restore the damaged files from a backup"
            )
        manifest = history.manifest or Manifest(topic_id=topic_id, version=0)
        covered = _covered(history, self._journal_id)
        segments = list(self._segment_sources(history))
        start = manifest.start_offset if history.manifest is not None else _first_named(history)
        inside = range(start or 0, manifest.end_offset)
        sources = filled(segments, inside, lambda hole: _journal_source(topic, topic.within(hole)))
        if self._is_journal_damaged:
            sources.append(_journal_source(topic, range(topic.first_above(covered), len(topic))))
        end_at_least = self._end_at_least(history, topic, covered, sources)
        doubtful = max(self._doubtful(topic_id, covered), _doubtful_segments(history, topic, segments))
        repaired = plan_topic(start, sources, end_at_least, doubtful)
        cursors, position = self._cursors(history, topic, covered, repaired.end_offset)
        names = tuple(name.rpartition("/")[2] for name in history.files)
        repair = TopicRepair(
            topic_id=topic_id,
            name=self._found.metadata.name(topic_id),
            record=history.record,
            manifest_version=max(history.record.manifest_version, highest_manifest_version(names)) + 1,
            repaired=repaired,
            end_offset=max(repaired.end_offset, topic.ends[-1] if len(topic) else 0),
            cursors=cursors,
            producer_states=producer_states_over(
                manifest.producer_states, topic if self._moves_journal(history) else None, repaired.end_offset
            ),
            journals={**manifest.journals, self._journal_id: position} if self._journal_id else dict(manifest.journals),
            unknown_before=_unknown_before(history, repaired, start),
            last_append_time_ms=self._last_append_ms(manifest, topic, position),
        )
        return self._with_consequences(repair, history, cursors_over(cursors, topic, covered))

    def _with_consequences(self, repair: TopicRepair, history: TopicHistory, cursors: dict[int, Cursor]) -> TopicRepair:
        """The same with what it means for subscriptions and files."""
        known, gone = self._found.metadata, (*repair.repaired.lost, *repair.repaired.left_out)
        unread_by = {
            known.subscription(repair.topic_id, subscription_id): count
            for subscription_id, cursor in sorted(cursors.items())
            if (count := unread(cursor, gone))
        }
        missing = [name for one, name in known.subscriptions.get(repair.topic_id, {}).items() if one not in cursors]
        stays = {
            segment_name(repair.topic_id, step.segment) for step in repair.repaired.steps if isinstance(step, Stay)
        }
        return replace(
            repair,
            unread=unread_by,
            from_start=tuple(sorted(missing)),
            set_aside=tuple(name for name in history.files if name not in stays),
        )

    def _segment_sources(self, history: TopicHistory) -> Iterable[Source]:
        topic_id = history.topic_id
        for segment in history.segments:
            is_damaged = self._is_damaged(topic_id, segment)
            yield self._damaged(topic_id, segment) if is_damaged else _whole(topic_id, segment)
        if history.manifest is None:
            for name in unlisted_segments(history):
                yield self._unlisted(topic_id, name)

    def _is_damaged(self, topic_id: int, segment: Segment) -> bool:
        """True for damage; a segment that only a newer manifest names was not verified, and is checked here."""
        if segment in self._found.histories[topic_id].segments:
            return segment in self._found.damaged_segments.get(topic_id, [])
        return bool(check_segment(self._tier, self._reader, topic_id, segment))

    def _damaged(self, topic_id: int, segment: Segment) -> Source:
        name = segment_name(topic_id, segment)
        try:
            sound = self._sound_in(topic_id, name)
        except FileNotFoundError:
            return Source(name, ())
        inside = (one for one in sound if segment.base_offset <= one.start and one.stop <= segment.end_offset)
        return Source(name, tuple(inside))

    def _unlisted(self, topic_id: int, name: str) -> Source:
        """A segment that no manifest speaks of: what it says of itself counts, if all of it is sound."""
        found = SegmentScan(self._tier, name, topic_id)
        if not check_unlisted(self._tier, self._reader, found) and found.footer is not None:
            return _whole(topic_id, found.footer.segment)
        return Source(name, self._sound_in(topic_id, name))

    def _sound_in(self, topic_id: int, name: str) -> tuple[range, ...]:
        batches = SegmentScan(self._tier, name, topic_id).batches()
        return merged(range(batch.base_offset, batch.end_offset) for batch in batches)

    def _end_at_least(self, history: TopicHistory, topic: JournalTopic, covered: int, sources: list[Source]) -> int:
        """An offset that the topic's log has surely reached, or at which the journal goes on."""
        reached = max((one.stop for source in sources for one in source.sound), default=0)
        if history.manifest is not None:
            reached = max(reached, history.manifest.end_offset)
        if not self._is_journal_damaged:
            first = _first_from(topic, reached, covered)
            if first < len(topic):
                return topic.bases[first]
        elif topic.lost_end:
            reached = max(reached, topic.lost_end)
        if self._is_journal_damaged or history.manifest is None:
            cursors = cursors_over(history.manifest.cursors if history.manifest else {}, topic, covered)
            reached = max([reached, *(cursor.end for cursor in cursors.values())])
        return reached

    def _cursors(
        self, history: TopicHistory, topic: JournalTopic, covered: int, end_offset: int
    ) -> tuple[dict[int, Cursor], int]:
        """The cursors, and the position of the journal below which nothing of the topic counts any more."""
        before = dict(history.manifest.cursors) if history.manifest is not None else {}
        if self._is_journal_damaged:
            return cursors_over(before, topic, covered), self._behind
        first = _first_from(topic, end_offset, covered)
        position = topic.positions[first] if first < len(topic) else topic.positions[-1] + 1 if len(topic) else covered
        if position <= covered:
            return before, covered
        return cursors_over(before, topic, covered), position

    def _last_append_ms(self, manifest: Manifest, topic: JournalTopic, position: int) -> int:
        """Append time of the newest record before those that stay in the journal, which may not go back behind it."""
        newest = max(manifest.last_append_time_ms, topic.times[-1] if len(topic) else 0)
        first = len(topic) if self._is_journal_damaged else topic.first_above(position)
        return min(newest, topic.times[first]) if first < len(topic) else newest

    def _doubtful(self, topic_id: int, covered: int) -> int:
        """Offsets that may have been given out behind all that is known.

        None while the journal stays; nor where this repair was begun before and came past the topic.
        """
        if not self._is_journal_damaged or covered == self._repaired_to:
            return 0
        return self._found.contents.doubtful_offsets(topic_id, covered)

    def _reached(self) -> int:
        """The highest position of the journal that is known of: nothing was flushed beyond it."""
        known = [_covered(history, self._journal_id) for history in self._histories.values()]
        seen = [topic.positions[-1] for topic in self._found.contents.topics.values() if len(topic)]
        return max([self._found.journal.end_position, *known, *seen])

    def _moves_journal(self, history: TopicHistory) -> bool:
        return self._is_journal_damaged or history.manifest is None

    def _journal_topic(self, topic_id: int) -> JournalTopic:
        return self._found.contents.topic(topic_id)


def _covered(history: TopicHistory, journal_id: int) -> int:
    return history.manifest.journals.get(journal_id, 0) if history.manifest is not None else 0


def _doubtful_segments(history: TopicHistory, topic: JournalTopic, segments: Sequence[Source]) -> int:
    """Offsets that may have been in segments behind all that is known: some where no manifest says what was in them."""
    are_whole = bool(segments) and all(one.segment is not None for one in segments)
    is_known = history.manifest is not None or len(topic) or are_whole
    return 0 if is_known else PLACEHOLDER_OFFSETS_SKIPPED_MAX


def _first_from(topic: JournalTopic, offset: int, covered: int) -> int:
    """The number of the first batch that counts and does not begin before an offset."""
    first = topic.first_above(covered)
    while first < len(topic) and topic.bases[first] < offset:
        first += 1
    return first


def _unknown_before(history: TopicHistory, repaired: RepairedTopic, start: int | None) -> int:
    if history.manifest is not None or repaired.skipped:
        return 0
    return repaired.start_offset if start is None else start


def _first_named(history: TopicHistory) -> int | None:
    """The first offset of the segments by their names; None when there are none."""
    return next((named[0] for name in unlisted_segments(history) if (named := segment_of(name)) is not None), None)


def _journal_source(topic: JournalTopic, numbers: range) -> Source:
    return Source(FOLDER, merged(range(topic.bases[number], topic.ends[number]) for number in numbers))


def _whole(topic_id: int, segment: Segment) -> Source:
    return Source(segment_name(topic_id, segment), (range(segment.base_offset, segment.end_offset),), segment)
