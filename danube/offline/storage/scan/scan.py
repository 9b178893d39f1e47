"""Scan of a data folder: what is in it, and what is wrong. It reads only, a block or a round at a time.

The journal is read whole. Of segments, `scan` reads only what manifests say of them, and `verify` every byte. What is
found is what repair goes by, so the two never disagree about what is sound.
"""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from danube.data_folder.findings import Finding, damage, note
from danube.data_folder.history_scan import TopicHistory, scan_history, size_of, topic_ids, unlisted_segments
from danube.data_folder.journal_scan import JournalScan
from danube.data_folder.metadata_view import MetadataView
from danube.model.errors import DamagedDataError, StorageUnavailableError
from danube.model.subscription import Cursor
from danube.offline.storage.scan.journal_contents import JournalContents, JournalTopic, cursors_over
from danube.offline.storage.scan.segment_scan import SegmentScan
from danube.runtime.disk import Disk
from danube.storage.flush.manifest_lookup import unnamed_history
from danube.storage.journal.contents import decode_index, refuse_other_index
from danube.storage.journal.folder import FOLDER
from danube.storage.journal.format import index_sequence
from danube.storage.journal.walker import FileBegun, SoundRound
from danube.storage.segment.manifest import SEGMENTS, Manifest, Segment, manifest_name, segment_name
from danube.storage.segment.reader import SegmentReader
from danube.storage.tiers.directory import DirectoryTier

Progress = Callable[[int], None]
"""Called with how many bytes more were read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionSummary:
    """Position of one subscription."""

    subscription: str
    subscription_id: int
    position: int
    """Every offset below it is acknowledged."""
    ranges: int
    """Acknowledged above it, in so many ranges."""
    unread: int
    """Messages that are not acknowledged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSummary:
    """One topic."""

    topic: str
    topic_id: int
    is_known: bool
    """True if metadata knows it; of others the files are leftovers."""
    start_offset: int | None
    """None when its manifest is damaged and nothing else says it."""
    end_offset: int | None
    manifest_version: int
    """Of its newest manifest; 0 when it has none."""
    segments: int
    segment_bytes: int
    """Of their files."""
    sealed_end: int | None
    """The offset after the last one in segments."""
    journal_batches: int
    """That are in no segment yet."""
    journal_bytes: int
    """Of their bodies."""
    oldest_append_ms: int | None
    newest_append_ms: int | None
    orphans: tuple[str, ...]
    """Files that nothing names any more."""
    subscriptions: tuple[SubscriptionSummary, ...]


@dataclass(slots=True)
class ScanResult:
    """A data folder as far as it was read, and what is wrong."""

    metadata: MetadataView
    journal: JournalScan
    contents: JournalContents
    histories: dict[int, TopicHistory] = field(default_factory=dict)
    damaged_segments: dict[int, list[Segment]] = field(default_factory=dict)
    """By topic, as its manifest lists them."""
    unnamed: set[int] = field(default_factory=set)
    """Topics of which a manifest that metadata does not name has what is nowhere else."""
    findings: list[Finding] = field(default_factory=list)
    bytes_read: int = 0
    files: int = 0

    @property
    def is_sound(self) -> bool:
        """True when nothing that was read is damaged."""
        return not any(finding.is_damage for finding in self.findings)

    def end_by(self, manifest: Manifest) -> int:
        """The end of all that this manifest and the journal have of a topic."""
        topic = self.contents.topic(manifest.topic_id)
        goes_on = topic.first_above(manifest.journals.get(self.journal.journal_id, 0)) < len(topic)
        return max(manifest.end_offset, topic.ends[-1] if goes_on else 0)


def scan(disk: Disk, metadata: MetadataView, *, has_journal: bool = False) -> ScanResult:
    """Read everything but the contents of segments. Raises OSError, DanubeError.

    With `has_journal` one was begun in the folder once: then one that is not there is missing.
    """
    found = _scan_journal(disk, metadata, lambda _: None, has_journal=has_journal)
    with contextlib.closing(DirectoryTier(disk)) as tier:
        for topic_id in sorted({*topic_ids(disk, metadata), *found.contents.topics}):
            found.histories[topic_id] = scan_history(disk, tier, metadata, topic_id)
            found.findings += found.histories[topic_id].findings
    return found


def verify(
    disk: Disk, metadata: MetadataView, progress: Progress = lambda _: None, *, has_journal: bool = False
) -> ScanResult:
    """Read every byte. Raises OSError, StorageUnavailableError, DataFolderError for files of a later version.

    With `has_journal` as above.
    """
    found = _scan_journal(disk, metadata, progress, has_journal=has_journal)
    _verify_indexes(disk, found)
    with contextlib.closing(DirectoryTier(disk)) as tier:
        for topic_id in topic_ids(disk, metadata):
            _verify_topic(disk, tier, found, topic_id, progress)
    return found


def summaries_of(found: ScanResult) -> list[TopicSummary]:
    """One of each topic that is known or has anything in the folder."""
    return [
        _summary(found.metadata, history, found.contents.topic(topic_id), found.journal.journal_id)
        for topic_id, history in found.histories.items()
    ]


def total_bytes(disk: Disk) -> int:
    """Bytes to verify, roughly."""
    return sum(size_of(disk, name) for folder in (FOLDER, SEGMENTS) for name in files_below(disk, folder))


def files_below(disk: Disk, folder: str) -> Iterator[str]:
    """All files in a folder and in the folders in it."""
    with contextlib.suppress(FileNotFoundError):
        for name in disk.list(folder):
            try:
                inner = disk.list(f"{folder}/{name}")
            except (NotADirectoryError, FileNotFoundError):
                yield f"{folder}/{name}"
            else:
                yield from (f"{folder}/{name}/{one}" for one in inner)


def journal_gap(topic: JournalTopic, history: TopicHistory, journal_id: int) -> range | None:
    """From where the segments end to where the journal goes on, when that is not the same offset."""
    if history.manifest is None:
        return None
    first = topic.first_above(history.manifest.journals.get(journal_id, 0))
    end = history.manifest.end_offset
    return range(end, topic.bases[first]) if first < len(topic) and topic.bases[first] != end else None


def _scan_journal(disk: Disk, metadata: MetadataView, progress: Progress, *, has_journal: bool) -> ScanResult:
    found = ScanResult(metadata, JournalScan(disk, has_begun=has_journal), JournalContents(metadata.counts))
    for event in found.journal.events():
        found.contents.add(event)
        if isinstance(event, FileBegun):
            found.files += 1
            continue
        # damaged or torn, it was read all the same
        size = event.size_bytes if isinstance(event, SoundRound) else event.end - event.at
        found.bytes_read += size
        progress(size)
    found.findings += [*metadata.findings(), *found.contents.findings, *found.journal.notes]
    return found


def _verify_indexes(disk: Disk, found: ScanResult) -> None:
    what = "this index is not what was written: it is a cache, and is made again from its file"
    with contextlib.suppress(FileNotFoundError):
        for name in (f"{FOLDER}/{one}" for one in disk.list(FOLDER) if index_sequence(one) is not None):
            with contextlib.closing(disk.open_read(name)) as file:
                size = file.size()
                content = file.read(0, size)
                refuse_other_index(name, content)
                if decode_index(content) is None:
                    found.findings.append(note(name, what, range(size)))


def _verify_topic(disk: Disk, tier: DirectoryTier, found: ScanResult, topic_id: int, progress: Progress) -> None:
    history = found.histories[topic_id] = scan_history(disk, tier, found.metadata, topic_id)
    found.findings += history.findings
    found.files += manifest_name(topic_id, history.record.manifest_version) in history.files
    reader = SegmentReader(tier)
    for segment in history.segments:
        faults = check_segment(tier, reader, topic_id, segment)
        if faults:
            found.damaged_segments.setdefault(topic_id, []).append(segment)
            found.findings += faults
        name = segment_name(topic_id, segment)
        if name in history.files:
            found.files += 1
            found.bytes_read += size_of(disk, name)
        progress(segment.file_bytes)
    for name in unlisted_segments(history) if history.manifest is None else ():
        unlisted = SegmentScan(tier, name, topic_id)
        found.findings += check_unlisted(tier, reader, unlisted)
        found.files += 1
        found.bytes_read += unlisted.file_bytes
        progress(unlisted.file_bytes)
    reader.forget(topic_id)
    if not found.contents.is_damaged:  # a damaged journal may have had more
        _verify_end(tier, found, history)
        _verify_gap(found, history)


def _verify_end(tier: DirectoryTier, found: ScanResult, history: TopicHistory) -> None:
    """Find a manifest that has more of a topic than the one that metadata names and the journal."""
    topic_id, manifest = history.topic_id, history.manifest
    if manifest is None or topic_id not in found.metadata.topics:
        return
    end_offset = found.end_by(manifest)
    unnamed = unnamed_history(tier, history.record, end_offset)
    if unnamed is not None:
        found.unnamed.add(topic_id)
        what = "the metadata is older than this manifest, which has messages that are nowhere else"
        name, offsets = manifest_name(topic_id, unnamed.version), range(end_offset, unnamed.end_offset)
        found.findings.append(damage(name, what, topic_id=topic_id, offsets=offsets))


def _verify_gap(found: ScanResult, history: TopicHistory) -> None:
    """Check that the journal follows on the segments."""
    topic_id = history.topic_id
    gap = journal_gap(found.contents.topic(topic_id), history, found.journal.journal_id)
    # of a deleted topic only the journal may have some
    is_said = history.record.manifest_version or not found.metadata.is_blind
    if gap is not None and is_said and found.metadata.counts(topic_id):
        what = f"the segments end at offset {gap.start} and the journal goes on at {gap.stop}"
        offsets = range(min(gap.start, gap.stop), max(gap.start, gap.stop))
        found.findings.append(damage(FOLDER, what, topic_id=topic_id, offsets=offsets))


def check_segment(tier: DirectoryTier, reader: SegmentReader, topic_id: int, segment: Segment) -> list[Finding]:
    """The damage in a segment; none when every byte of it is what was written."""
    try:
        reader.verify(topic_id, segment)
    except DamagedDataError as error:
        return _damage_in(tier, topic_id, segment, str(error))
    except StorageUnavailableError as error:
        if not isinstance(error.__cause__, FileNotFoundError):
            raise
        return [_damaged_whole(topic_id, segment, "the file is missing")]
    return []


def check_unlisted(tier: DirectoryTier, reader: SegmentReader, found: SegmentScan) -> list[Finding]:
    """The same of a segment that no manifest speaks of: what it says of itself counts."""
    footer = found.footer
    if footer is not None and segment_name(found.topic_id, footer.segment) == found.name:
        return check_segment(tier, reader, found.topic_id, footer.segment)
    for _ in found.batches():
        pass
    if footer is None:
        return found.findings
    what = "it is another segment than its name says"
    return [*found.findings, damage(found.name, what, range(found.file_bytes), topic_id=found.topic_id)]


def _damage_in(tier: DirectoryTier, topic_id: int, segment: Segment, said: str) -> list[Finding]:
    name = segment_name(topic_id, segment)
    found = SegmentScan(tier, name, topic_id)
    found.check_header(segment.base_offset, segment.manifest_version)
    offset, gaps = segment.base_offset, []
    for batch in found.batches():
        if batch.base_offset > offset:
            gaps.append(range(offset, batch.base_offset))
        offset = max(offset, batch.end_offset)
    if offset < segment.end_offset:
        gaps.append(range(offset, segment.end_offset))
    told = {(finding.first_offset, finding.end_offset) for finding in found.findings}
    what = "these messages are not in the file as they should be"
    found.findings += [
        damage(name, what, range(found.file_bytes), topic_id=topic_id, offsets=gap)
        for gap in gaps
        if not any(first is not None and first <= gap.start and gap.stop <= (end or 0) for first, end in told)
    ]
    reason = said.removeprefix(f"{name} is damaged ").partition(". ")[0]
    return found.findings or [_damaged_whole(topic_id, segment, reason)]


def _damaged_whole(topic_id: int, segment: Segment, what: str) -> Finding:
    name, offsets = segment_name(topic_id, segment), range(segment.base_offset, segment.end_offset)
    return damage(name, what, range(segment.file_bytes), topic_id=topic_id, offsets=offsets)


def _summary(metadata: MetadataView, history: TopicHistory, topic: JournalTopic, journal_id: int) -> TopicSummary:
    manifest, segments = history.manifest, history.segments
    covered = manifest.journals.get(journal_id, 0) if manifest is not None else 0
    first = topic.first_above(covered)
    in_journal = range(first, len(topic))
    start = manifest.start_offset if manifest is not None else None
    if manifest is not None and not segments and not manifest.end_offset and in_journal:
        start = topic.bases[first]
    end = topic.ends[-1] if in_journal else manifest.end_offset if manifest is not None else None
    times = [segment.first_append_time_ms for segment in segments[:1]] + [topic.times[one] for one in in_journal[:1]]
    newest = [segment.last_append_time_ms for segment in segments[-1:]] + [topic.times[one] for one in in_journal[-1:]]
    cursors = cursors_over(manifest.cursors if manifest is not None else {}, topic, covered)
    return TopicSummary(
        topic=metadata.name(history.topic_id),
        topic_id=history.topic_id,
        is_known=history.topic_id in metadata.topics,
        start_offset=start,
        end_offset=end,
        manifest_version=history.record.manifest_version,
        segments=len(segments),
        segment_bytes=sum(segment.file_bytes for segment in segments),
        sealed_end=manifest.end_offset if manifest is not None and history.record.manifest_version else None,
        journal_batches=len(in_journal),
        journal_bytes=sum(topic.lengths[one] for one in in_journal),
        oldest_append_ms=times[0] if times else None,
        newest_append_ms=newest[-1] if newest else None,
        orphans=history.orphans,
        subscriptions=tuple(
            _subscription(metadata, history.topic_id, subscription_id, cursor, end or 0)
            for subscription_id, cursor in sorted(cursors.items())
        ),
    )


def _subscription(
    metadata: MetadataView, topic_id: int, subscription_id: int, cursor: Cursor, end_offset: int
) -> SubscriptionSummary:
    beyond = sum(one.end - one.start for one in cursor.beyond)
    return SubscriptionSummary(
        subscription=metadata.subscription(topic_id, subscription_id),
        subscription_id=subscription_id,
        position=cursor.position,
        ranges=len(cursor.beyond),
        unread=max(0, end_offset - cursor.position - beyond),
    )
