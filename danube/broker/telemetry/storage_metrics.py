"""Storage metrics, from one snapshot of the counters for each scrape."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from danube.broker.topics.topic import AnyTopic, ReliableTopic
from danube.storage.journal.histogram import LatencyHistogram
from danube.storage.log.protocol import TopicStorageStats
from danube.storage.settings import StorageStats
from danube.storage.store import Storage

_COUNTER = CounterMetricFamily
_GAUGE = GaugeMetricFamily
_Row = tuple[str, str, type[CounterMetricFamily] | type[GaugeMetricFamily], Callable[[StorageStats], float | None]]

_JOURNAL: list[_Row] = [
    ("rounds", "Rounds of group commit written.", _COUNTER, lambda stats: stats.journal.rounds),
    ("failed_rounds", "Rounds that were undone.", _COUNTER, lambda stats: stats.journal.failed_rounds),
    ("bytes_written", "Bytes written.", _COUNTER, lambda stats: stats.journal.bytes_written),
    ("syncs", "Syncs.", _COUNTER, lambda stats: stats.journal.syncs),
    ("files", "Files.", _GAUGE, lambda stats: stats.journal.files),
    ("size_bytes", "Bytes of all files.", _GAUGE, lambda stats: stats.journal.size_bytes),
    ("backlog_bytes", "Accepted and not yet written.", _GAUGE, lambda stats: stats.journal.backlog_bytes),
    ("cache_bytes", "Recent messages kept in memory.", _GAUGE, lambda stats: stats.journal.cache_bytes),
    ("last_round_seconds", "From gathering to acknowledging.", _GAUGE, lambda stats: stats.journal.last_round_ms / 1e3),
]
_HISTOGRAMS: list[tuple[str, str, Callable[[StorageStats], LatencyHistogram]]] = [
    (
        "round_seconds",
        "From gathering a round to acknowledging it, its sync included.",
        lambda stats: stats.journal.round_seconds,
    ),
    (
        "sync_seconds",
        "What the disk took for a sync, in a round or between them.",
        lambda stats: stats.journal.sync_seconds,
    ),
]
_STORAGE: list[_Row] = [
    ("segments", "Segments of all topics.", _GAUGE, lambda stats: stats.segments),
    ("segment_body_bytes", "Bytes of messages in segments.", _GAUGE, lambda stats: stats.segment_body_bytes),
    ("segment_file_bytes", "Bytes of segments on the disk.", _GAUGE, lambda stats: stats.segment_file_bytes),
    ("cut_passes", "Passes of the segment flusher.", _COUNTER, lambda stats: stats.passes),
    ("cut_bytes", "Bytes written by them.", _COUNTER, lambda stats: stats.cut_bytes),
    ("merged_segments", "Small segments that were merged.", _COUNTER, lambda stats: stats.merged_segments),
    ("dropped_segments", "Segments that retention deleted.", _COUNTER, lambda stats: stats.dropped_segments),
    ("freed_bytes", "Bytes of journal files removed.", _COUNTER, lambda stats: stats.freed_bytes),
    ("troubled_topics", "Topics whose flush fails for now.", _GAUGE, lambda stats: stats.troubled_topics),
    ("refused_topics", "Topics whose history cannot be read.", _GAUGE, lambda stats: stats.refused_topics),
    ("read_wait_seconds", "Cold reads gave way to slow syncs.", _COUNTER, lambda stats: stats.read_wait_s),
    ("disk_level", "0: room, 1: little room, 2: messages are refused.", _GAUGE, lambda stats: int(stats.space_level)),
    ("disk_free_bytes", "Free on the disk.", _GAUGE, lambda stats: stats.free_bytes),
]


_TOPIC: list[tuple[str, str, Callable[[TopicStorageStats], float | None]]] = [
    ("segments", "Segments of the topic.", lambda stats: stats.segments),
    ("unsynced_bytes", "Bytes of messages acknowledged and not synced.", lambda stats: stats.unsynced_bytes),
    ("oldest_append_timestamp_seconds", "Of the first message.", lambda stats: _seconds(stats.oldest_append_ms)),
    ("newest_append_timestamp_seconds", "Of the last message.", lambda stats: _seconds(stats.newest_append_ms)),
]


def topic_storage_families(topics: Iterable[AnyTopic]) -> Iterator[Metric]:
    """The storage of each reliable topic; without messages, no times."""
    families = [(_GAUGE(f"danube_topic_{name}", text, labels=("topic",)), read) for name, text, read in _TOPIC]
    for topic in topics:
        if isinstance(topic, ReliableTopic):
            stats = topic.log.stats
            for family, read in families:
                value = read(stats)
                if value is not None:
                    family.add_metric((str(topic.name),), value)
    return (family for family, _ in families)


def _seconds(time_ms: int | None) -> float | None:
    return time_ms / 1_000 if time_ms is not None else None


def storage_families(storage: Storage) -> Iterator[Metric]:
    """All metrics of the journal and of the segments."""
    stats = storage.stats
    stopped = _GAUGE("danube_journal_stopped", "1 when nothing more can be written.")
    stopped.add_metric((), float(storage.stopped is not None))
    yield stopped
    yield from map(partial(_histogram, stats), _HISTOGRAMS)
    for prefix, rows in (("journal", _JOURNAL), ("storage", _STORAGE)):
        yield from map(partial(_family, prefix, stats), rows)


def _family(prefix: str, stats: StorageStats, row: _Row) -> Metric:
    name, text, kind, read = row
    family = kind(f"danube_{prefix}_{name}", text)
    value = read(stats)
    if value is not None:
        family.add_metric((), value)
    return family


def _histogram(stats: StorageStats, row: tuple[str, str, Callable[[StorageStats], LatencyHistogram]]) -> Metric:
    name, text, read = row
    family, took = HistogramMetricFamily(f"danube_journal_{name}", text), read(stats)
    buckets = [("+Inf" if bound_s == float("inf") else f"{bound_s:g}", count) for bound_s, count in took.cumulative()]
    family.add_metric((), buckets, took.total_s)
    return family
