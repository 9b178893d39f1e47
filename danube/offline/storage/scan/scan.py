"""What is in a data folder: the journal's files, the topics, and what subscriptions have read. It reads only.

The journal is read whole; of segments only what manifests say of them, so damage in those is found by `verifying.py`.
"""

from dataclasses import dataclass, field

from danube.data_folder.findings import Finding
from danube.data_folder.history_scan import TopicHistory, scan_history, topic_ids
from danube.data_folder.journal_scan import JournalScan
from danube.data_folder.metadata_view import MetadataView
from danube.model.subscription import Cursor
from danube.offline.storage.scan.journal_contents import FileSummary, JournalContents, JournalTopic, cursors_over
from danube.runtime.disk import Disk
from danube.storage.tiers.directory import DirectoryTier


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionSummary:
    """Where one subscription stands."""

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
    """Whether metadata knows it; of others the files are leftovers."""
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
    """A whole data folder."""

    journal_id: int
    first_sequence: int
    end_position: int
    synced_to: int
    """As headers say."""
    marked_to: int | None
    """As the mark beside the files says; None where there is none that is sound."""
    files: list[FileSummary]
    topics: list[TopicSummary] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    histories: dict[int, TopicHistory] = field(default_factory=dict)

    @property
    def is_sound(self) -> bool:
        """Whether nothing that was looked at is damaged."""
        return not any(finding.is_damage for finding in self.findings)


def scan(disk: Disk, known: MetadataView, *, has_journal: bool = False) -> ScanResult:
    """Look at everything but the contents of segments. Raises OSError, DanubeError.

    With `has_journal` one was begun in the folder once: then one that is not there is missing.
    """
    walk, ledger = JournalScan(disk, has_begun=has_journal), JournalContents(known.counts)
    for seen in walk.events():
        ledger.take(seen)
    marked_to = walk.mark.synced_to if walk.mark is not None else None
    found = ScanResult(walk.journal_id, walk.first_sequence, walk.end_position, walk.synced_to, marked_to, ledger.files)
    found.findings += ledger.findings
    found.findings += known.findings()
    found.findings += walk.notes
    tier = DirectoryTier(disk)
    for topic_id in sorted({*topic_ids(disk, known), *ledger.topics}):
        history = found.histories[topic_id] = scan_history(disk, tier, known, topic_id)
        found.findings += history.findings
        found.topics.append(_summary(known, history, ledger.topic(topic_id), walk.journal_id))
    tier.close()
    return found


def _summary(known: MetadataView, history: TopicHistory, topic: JournalTopic, journal_id: int) -> TopicSummary:
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
        topic=known.name(history.topic_id),
        topic_id=history.topic_id,
        is_known=history.topic_id in known.topics,
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
            _subscription(known, history.topic_id, subscription_id, cursor, end or 0)
            for subscription_id, cursor in sorted(cursors.items())
        ),
    )


def _subscription(
    known: MetadataView, topic_id: int, subscription_id: int, cursor: Cursor, end_offset: int
) -> SubscriptionSummary:
    beyond = sum(one.end - one.start for one in cursor.beyond)
    return SubscriptionSummary(
        subscription=known.subscription(topic_id, subscription_id),
        subscription_id=subscription_id,
        position=cursor.position,
        ranges=len(cursor.beyond),
        unread=max(0, end_offset - cursor.position - beyond),
    )
