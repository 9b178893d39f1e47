"""Metrics over a time, from the telemetry that brokers publish. Their names are those of the metrics port."""

import asyncio
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from danube.admin.gateway import AdminGateway, SystemRecord
from danube.model.calls.inspection import ReadMetrics
from danube.model.errors import InvalidRequestError
from danube.model.lag.group import base_of
from danube.model.limits.faces import LAG_LIVE_SLICE_RECORDS
from danube.model.limits.inspection import METRIC_RECORDS_MAX, METRIC_SERIES_MAX
from danube.model.records.telemetry import (
    TELEMETRY_TOPIC,
    BrokerReading,
    Reading,
    Stamp,
    SubscriptionReading,
    TopicReading,
    decode_record,
    plain_topics,
)
from danube.model.topic import TopicName

COUNTER_END = "_total"
_MILLI = 1e-3
NAMES: Mapping[type[Reading], Mapping[str, tuple[str, float]]] = {
    BrokerReading: {
        "topics": ("danube_broker_topics_owned", 1),
        "journal_rounds": ("danube_journal_rounds_total", 1),
        "journal_failed_rounds": ("danube_journal_failed_rounds_total", 1),
        "journal_bytes_written": ("danube_journal_bytes_written_total", 1),
        "journal_size_bytes": ("danube_journal_size_bytes", 1),
        "journal_backlog_bytes": ("danube_journal_backlog_bytes", 1),
        "journal_last_round_ms": ("danube_journal_last_round_seconds", _MILLI),
        "journal_stopped": ("danube_journal_stopped", 1),
        "segments": ("danube_storage_segments", 1),
        "segment_bytes": ("danube_storage_segment_file_bytes", 1),
        "disk_free_bytes": ("danube_storage_disk_free_bytes", 1),
        "cpu_s": ("process_cpu_seconds_total", 1),
        "rss_bytes": ("process_resident_memory_bytes", 1),
    },
    TopicReading: {
        "messages_in": ("danube_topic_messages_in_total", 1),
        "bytes_in": ("danube_topic_bytes_in_total", 1),
        "messages_expired": ("danube_topic_messages_expired_total", 1),
        "log_bytes": ("danube_topic_stored_bytes", 1),
        "producers": ("danube_topic_active_producers", 1),
        "subscriptions": ("danube_topic_active_subscriptions", 1),
        "consumers": ("danube_topic_active_consumers", 1),
        "start_append_ms": ("danube_topic_oldest_append_timestamp_seconds", _MILLI),
        "head_append_ms": ("danube_topic_newest_append_timestamp_seconds", _MILLI),
    },
    SubscriptionReading: {
        "consumers": ("danube_subscription_active_consumers", 1),
        "lag_messages": ("danube_subscription_lag_messages", 1),
        "in_flight": ("danube_subscription_in_flight_messages", 1),
        "blocked": ("danube_subscription_blocked_messages", 1),
        "nacked": ("danube_subscription_nack_total", 1),
        "redelivered": ("danube_subscription_redelivery_total", 1),
        "messages_out": ("danube_subscription_messages_out_total", 1),
        "dropped": ("danube_subscription_dropped_total", 1),
    },
}
"""For each field of telemetry the metric, and the factor between their units."""


@dataclass(slots=True, eq=False)
class Range:
    """One series over a time."""

    name: str
    labels: Mapping[str, str]
    points: list[tuple[int, float]] = field(default_factory=list)
    increase: float = 0.0
    """Of a counter, over restarts of its broker too."""
    last_start: str = ""

    def add(self, at_ms: int, value: float, start_id: str) -> None:
        """The next point; a counter of another start of the broker begins at 0 again."""
        if self.points:
            before = self.points[-1][1] if start_id == self.last_start else 0.0
            self.increase += max(0.0, value - before)
        self.points.append((at_ms, value))
        self.last_start = start_id

    @property
    def per_second(self) -> float | None:
        """Rate of a counter between its first and its last point; None for others, and for a single point."""
        if not self.name.endswith(COUNTER_END) or len(self.points) < 2:
            return None
        span_ms = self.points[-1][0] - self.points[0][0]
        return self.increase / (span_ms / 1_000) if span_ms > 0 else None


async def read_ranges(
    gateway: AdminGateway, wanted: ReadMetrics, broker_id: str | None, now_ms: int, last_s: int
) -> tuple[list[Range], int]:
    """The series of a time up to now, and how many more there were. Raises UnsupportedError for the original's."""
    since_ms = now_ms - last_s * 1_000
    stored = await gateway.system_records(TELEMETRY_TOPIC, since_ms=since_ms, limit=METRIC_RECORDS_MAX)
    found = dict[tuple[str, tuple[str, ...]], Range]()
    left_out = set[tuple[str, tuple[str, ...]]]()
    records: list[tuple[Stamp, Reading]] = []
    for first in range(0, len(stored), LAG_LIVE_SLICE_RECORDS):
        records += _decoded(stored[first : first + LAG_LIVE_SLICE_RECORDS])
        await asyncio.sleep(0)  # others get their turn: with many records this takes a while
    plain = plain_topics(records)
    for first in range(0, len(records), LAG_LIVE_SLICE_RECORDS):
        for stamp, reading in records[first : first + LAG_LIVE_SLICE_RECORDS]:
            if broker_id in {None, stamp.broker_id} and _is_about(reading, wanted.topic, plain):
                _collect(stamp, reading, wanted.prefix, found, left_out)
        await asyncio.sleep(0)
    return list(found.values()), len(left_out)


def summary_of(points: Sequence[tuple[int, float]]) -> tuple[float | None, float | None, float | None]:
    """The newest, the smallest and the largest finite value."""
    values = [value for _, value in points if math.isfinite(value)]
    return (values[-1], min(values), max(values)) if values else (None, None, None)


def _decoded(stored: Sequence[SystemRecord]) -> list[tuple[Stamp, Reading]]:
    """Records of telemetry; others, whatever they hold, are skipped."""
    found = []
    for each in stored:
        try:
            record = decode_record(each.payload)
        except InvalidRequestError:
            continue
        if record is not None and type(record[0].broker_id) is str and type(record[0].at_ms) is int:
            found.append(record)
    return found


def _is_about(reading: Reading, topic: TopicName | None, plain: Collection[str]) -> bool:
    if topic is None:
        return True
    if isinstance(reading, BrokerReading) or type(reading.topic) is not str:
        return False
    return str(topic) in {reading.topic, base_of(reading.topic, plain)}


def _collect(
    stamp: Stamp,
    reading: Reading,
    prefix: str,
    found: dict[tuple[str, tuple[str, ...]], Range],
    left_out: set[tuple[str, tuple[str, ...]]],
) -> None:
    labels = _labels(stamp, reading)
    for name, (metric, factor) in NAMES[type(reading)].items():
        value = getattr(reading, name)
        if not metric.startswith(prefix) or not isinstance(value, int | float):
            continue
        key = (metric, tuple(labels.values()))
        if key not in found:
            if len(found) >= METRIC_SERIES_MAX:
                left_out.add(key)
                continue
            found[key] = Range(metric, labels)
        found[key].add(stamp.at_ms, value * factor, str(stamp.start_id))


def _labels(stamp: Stamp, reading: Reading) -> dict[str, str]:
    labels = {"broker": stamp.broker_id}
    if not isinstance(reading, BrokerReading):
        labels["topic"] = str(reading.topic)
    if isinstance(reading, SubscriptionReading):
        labels["subscription"] = str(reading.subscription)
    return labels
