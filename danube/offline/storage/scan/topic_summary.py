"""Summaries of topics and subscriptions in a scanned data folder. Pure."""

from dataclasses import dataclass

from danube.data_folder.history_scan import TopicHistory
from danube.data_folder.metadata_view import MetadataView
from danube.model.subscription import Cursor
from danube.offline.storage.scan.journal_contents import JournalTopic, cursors_over
from danube.offline.storage.scan.scan import ScanResult


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


def summaries_of(found: ScanResult) -> list[TopicSummary]:
    """One of each topic that is known or has anything in the folder."""
    return [
        _summary(found.metadata, history, found.contents.topic(topic_id), found.journal.journal_id)
        for topic_id, history in found.histories.items()
    ]


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
