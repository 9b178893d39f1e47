"""Metrics: name, labels and help in one table, collected from the broker's state at each scrape.

Topics and subscriptions keep plain numbers: no message pays for the metrics library.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from danube.broker.schemas.gate import ValidationCounts
from danube.broker.subscriptions.subscription import AnySubscription, NonReliableSubscription, ReliableSubscription
from danube.broker.topics.local_topics import Topics
from danube.broker.topics.topic import AnyTopic, ReliableTopic
from danube.objects.bill import Line, cost_of, projected_month
from danube.objects.use import ObjectUse
from danube.storage.log.topic_log import TopicStorageStats
from danube.storage.settings import LatencyHistogram, StorageStats
from danube.storage.store import Storage

COUNTER = CounterMetricFamily
GAUGE = GaugeMetricFamily
Kind = type[CounterMetricFamily] | type[GaugeMetricFamily]
Sample = tuple[tuple[str, ...], float]


_StorageRow = tuple[str, str, Kind, Callable[[StorageStats], float | None]]

_JOURNAL: list[_StorageRow] = [
    ("rounds", "Rounds of group commit written.", COUNTER, lambda stats: stats.journal.rounds),
    ("failed_rounds", "Rounds that were undone.", COUNTER, lambda stats: stats.journal.failed_rounds),
    ("bytes_written", "Bytes written.", COUNTER, lambda stats: stats.journal.bytes_written),
    ("syncs", "Syncs.", COUNTER, lambda stats: stats.journal.syncs),
    ("files", "Files.", GAUGE, lambda stats: stats.journal.files),
    ("size_bytes", "Bytes of all files.", GAUGE, lambda stats: stats.journal.size_bytes),
    ("backlog_bytes", "Accepted and not yet written.", GAUGE, lambda stats: stats.journal.backlog_bytes),
    ("cache_bytes", "Recent messages kept in memory.", GAUGE, lambda stats: stats.journal.cache_bytes),
    ("last_round_seconds", "From gathering to acknowledging.", GAUGE, lambda stats: stats.journal.last_round_ms / 1e3),
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
_STORAGE: list[_StorageRow] = [
    ("segments", "Segments of all topics.", GAUGE, lambda stats: stats.segments),
    ("segment_body_bytes", "Bytes of messages in segments.", GAUGE, lambda stats: stats.segment_body_bytes),
    ("segment_file_bytes", "Bytes of segments on the disk.", GAUGE, lambda stats: stats.segment_file_bytes),
    ("flush_passes", "Passes of the segment flusher.", COUNTER, lambda stats: stats.flush_passes),
    ("flush_bytes", "Bytes written by flush passes.", COUNTER, lambda stats: stats.flush_bytes),
    ("merged_segments", "Small segments that were merged.", COUNTER, lambda stats: stats.merged_segments),
    ("dropped_segments", "Segments that retention deleted.", COUNTER, lambda stats: stats.dropped_segments),
    ("freed_bytes", "Bytes of journal files removed.", COUNTER, lambda stats: stats.freed_bytes),
    ("quarantined_topics", "Topics whose flush fails for now.", GAUGE, lambda stats: stats.quarantined_topics),
    ("refused_topics", "Topics whose history cannot be read.", GAUGE, lambda stats: stats.refused_topics),
    ("read_wait_seconds", "Cold reads gave way to slow syncs.", COUNTER, lambda stats: stats.read_wait_s),
    ("disk_level", "0: room, 1: little room, 2: messages are refused.", GAUGE, lambda stats: int(stats.space_level)),
    ("disk_free_bytes", "Free on the disk.", GAUGE, lambda stats: stats.free_bytes),
]


_OBJECTS: list[tuple[str, str, Callable[[Line], float]]] = [
    ("requests", "Requests to the object store.", lambda line: line.requests),
    ("failed_requests", "Those that were refused or not answered.", lambda line: line.failed),
    ("sent_bytes", "Bytes sent to the object store.", lambda line: line.sent_bytes),
    ("received_bytes", "Bytes read from the object store.", lambda line: line.received_bytes),
]


_TOPIC_STORAGE: list[tuple[str, str, Callable[[TopicStorageStats], float | None]]] = [
    ("segments", "Segments of the topic.", lambda stats: stats.segments),
    ("unsynced_bytes", "Bytes of messages acknowledged and not synced.", lambda stats: stats.unsynced_bytes),
    ("oldest_append_timestamp_seconds", "Of the first message.", lambda stats: _seconds(stats.oldest_append_ms)),
    ("newest_append_timestamp_seconds", "Of the last message.", lambda stats: _seconds(stats.newest_append_ms)),
]


@dataclass(frozen=True, slots=True)
class _Series:
    """One metric of the table: where its samples come from."""

    name: str
    help: str
    labels: tuple[str, ...]
    kind: Kind
    samples: Callable[[], Iterable[Sample]]

    def family(self) -> Metric:
        return _family(self.kind, self.name, self.help, self.samples(), self.labels)


def _family(kind: Kind, name: str, text: str, samples: Iterable[Sample], labels: tuple[str, ...] = ()) -> Metric:
    family = kind(name, text, labels=labels)
    for of, value in samples:
        family.add_metric(of, value)
    return family


Validations = Mapping[str, ValidationCounts]
"""Checks against schemas, by topic."""
NO_VALIDATIONS: Validations = {}


class RpcCounts:
    """Calls by method and outcome."""

    def __init__(self) -> None:
        self.by_method: dict[tuple[str, str], int] = {}

    def count(self, method: str, outcome: str) -> None:
        """One more call of `method` that ended with `outcome`: "ok" or an error code."""
        key = (method, outcome)
        self.by_method[key] = self.by_method.get(key, 0) + 1


class BrokerCollector(Collector):
    """Collects the metrics of one broker."""

    def __init__(self, topics: Topics, storage: Storage, rpc: RpcCounts, schemas: Validations) -> None:
        self._topics = topics
        self._storage = storage
        self._table = [
            *_topic_table(topics),
            *_subscription_table(topics),
            _rpc_series(rpc),
            *_schema_table(topics, schemas),
        ]

    def describe(self) -> list[Metric]:
        """Nothing up front: the registry need not collect once to know the names."""
        return []

    def collect(self) -> Iterator[Metric]:
        for series in self._table:
            yield series.family()
        yield from _topic_storage(self._topics)
        yield from _storage(self._storage)
        yield from _objects(self._storage.object_use)


def new_registry(
    topics: Topics, storage: Storage, rpc: RpcCounts, schemas: Validations = NO_VALIDATIONS
) -> CollectorRegistry:
    """A registry of this broker's own."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(BrokerCollector(topics, storage, rpc, schemas))
    return registry


def _topic_table(topics: Topics) -> list[_Series]:
    def each(read: Callable[[AnyTopic], float]) -> Callable[[], Iterable[Sample]]:
        return lambda: [((topic.name,), read(topic)) for topic in topics]

    def series(name: str, text: str, read: Callable[[AnyTopic], float], kind: Kind = GAUGE) -> _Series:
        return _Series(name, text, ("topic",), kind, each(read))

    return [
        _Series("danube_broker_topics_owned", "Topics this broker serves.", (), GAUGE, lambda: [((), len(topics))]),
        series("danube_topic_messages_in", "Messages accepted.", lambda topic: topic.messages_in, COUNTER),
        series("danube_topic_bytes_in", "Bytes of messages accepted.", lambda topic: topic.bytes_in, COUNTER),
        series("danube_topic_messages_expired", "Messages passed over unread.", _expired, COUNTER),
        series("danube_topic_stored_bytes", "Bytes of messages that can be read.", _stored_bytes),
        series("danube_topic_active_producers", "Producers attached.", lambda topic: len(topic.producers)),
        series("danube_topic_active_subscriptions", "Subscriptions.", lambda topic: len(topic.subscriptions)),
        series(
            "danube_topic_active_consumers",
            "Consumers with an open stream.",
            lambda topic: sum(subscription.connected() for subscription in topic.subscriptions.values()),
        ),
    ]


def _expired(topic: AnyTopic) -> float:
    return topic.messages_expired if isinstance(topic, ReliableTopic) else 0


def _stored_bytes(topic: AnyTopic) -> float:
    return topic.log.body_bytes if isinstance(topic, ReliableTopic) else 0


def _subscription_table(topics: Topics) -> list[_Series]:
    labels = ("topic", "subscription")

    def each(read: Callable[[AnySubscription], float | None]) -> Callable[[], Iterable[Sample]]:
        def samples() -> Iterator[Sample]:
            for topic in topics:
                for name, subscription in topic.subscriptions.items():
                    value = read(subscription)
                    if value is not None:
                        yield (topic.name, name), value

        return samples

    def reliable(read: Callable[[ReliableSubscription], float]) -> Callable[[AnySubscription], float | None]:
        return lambda each: read(each) if isinstance(each, ReliableSubscription) else None

    def dropped(subscription: AnySubscription) -> float | None:
        return subscription.dropped if isinstance(subscription, NonReliableSubscription) else None

    rows: list[tuple[str, str, Kind, Callable[[AnySubscription], float | None]]] = [
        ("active_consumers", "Consumers with an open stream.", GAUGE, lambda each: each.connected()),
        ("lag_messages", "Messages not acknowledged.", GAUGE, reliable(lambda each: each.driver.engine.lag)),
        ("in_flight_messages", "Sent, unacknowledged.", GAUGE, reliable(lambda each: each.driver.engine.in_flight)),
        ("blocked_messages", "Failed too often.", GAUGE, reliable(lambda each: each.driver.engine.blocked_messages)),
        ("nack", "Negative acknowledgements.", COUNTER, reliable(lambda each: each.nacked)),
        ("redelivery", "Messages sent again.", COUNTER, reliable(lambda each: each.driver.counts.redelivered)),
        ("messages_out", "Messages written to consumers.", COUNTER, lambda each: each.counts.messages),
        ("bytes_out", "Bytes of messages written to consumers.", COUNTER, lambda each: each.counts.bytes),
        ("dropped", "Messages no consumer had room for.", COUNTER, dropped),
    ]
    return [_Series(f"danube_subscription_{name}", text, labels, kind, each(read)) for name, text, kind, read in rows]


def _rpc_series(rpc: RpcCounts) -> _Series:
    return _Series(
        "danube_broker_rpc",
        "Calls and streams that ended, by method and outcome: ok, or an error's code. CANCELLED: the client left.",
        ("method", "outcome"),
        COUNTER,
        lambda: list(rpc.by_method.items()),
    )


def _schema_table(topics: Topics, schemas: Validations) -> list[_Series]:
    def checked() -> Iterator[Sample]:
        for topic in topics:
            if topic.name in schemas:
                yield (topic.name, topic.record.validation.value), schemas[topic.name].checked

    def failed() -> Iterator[Sample]:
        for topic in topics:
            if topic.name in schemas:
                for reason, count in schemas[topic.name].failed.items():
                    yield (topic.name, reason), count

    text = "Messages that did not follow the schema of their topic."
    return [
        _Series("danube_schema_validation", "Messages checked.", ("topic", "policy"), COUNTER, checked),
        _Series("danube_schema_validation_failures", text, ("topic", "reason"), COUNTER, failed),
    ]


def _topic_storage(topics: Topics) -> Iterator[Metric]:
    """The storage of each reliable topic; without messages, no times."""
    families = [(GAUGE(f"danube_topic_{name}", text, labels=("topic",)), read) for name, text, read in _TOPIC_STORAGE]
    for topic in topics:
        if isinstance(topic, ReliableTopic):
            stats = topic.log.stats
            for family, read in families:
                value = read(stats)
                if value is not None:
                    family.add_metric((topic.name,), value)
    return (family for family, _ in families)


def _storage(storage: Storage) -> Iterator[Metric]:
    """The journal and the segments, from one snapshot of the counters."""
    stats = storage.stats
    stopped = float(storage.stopped is not None)
    yield _family(GAUGE, "danube_journal_stopped", "1 when nothing more can be written.", [((), stopped)])
    for name, text, histogram in _HISTOGRAMS:
        took = histogram(stats)
        buckets = [("+Inf" if bound_s == math.inf else f"{bound_s:g}", count) for bound_s, count in took.cumulative()]
        yield HistogramMetricFamily(f"danube_journal_{name}", text, buckets, took.total_s)
    for prefix, rows in (("journal", _JOURNAL), ("storage", _STORAGE)):
        for name, text, kind, read in rows:
            value = read(stats)
            yield _family(kind, f"danube_{prefix}_{name}", text, [] if value is None else [((), value)])


def _objects(use: ObjectUse | None) -> Iterator[Metric]:
    """Requests to the object store by kind and cause, and what they cost; nothing where there is none."""
    lines = use.bill.lines() if use is not None else []
    for name, text, read in _OBJECTS:
        rows = [((one.kind.value, one.cause.value), read(one)) for one in lines]
        yield _family(COUNTER, f"danube_object_store_{name}", text, rows, labels=("kind", "cause"))
    month = projected_month(sum(cost_of(one, use.bill.prices) for one in lines), use.elapsed_s) if use else 0.0
    for name, text, value in (
        ("month_dollars", "Cost of a month of requests like those so far.", month),
        ("unanswered_seconds", "Time for which the store has not answered; 0 while it does.", use and use.unanswered_s),
        ("cache_hits", "Reads of blocks that were in memory, or on their way.", use and use.cache_hits),
        ("cache_misses", "Reads of blocks that had to be waited for.", use and use.cache_misses),
        ("waiting_bytes", "Sealed or acknowledged, and not yet uploaded.", use and use.waiting_bytes),
        ("waiting_seconds", "Upload lag of a journal on a disk; 0 where all is uploaded.", use and use.waiting_s),
    ):
        yield _family(GAUGE, f"danube_object_store_{name}", text, [] if use is None else [((), float(value or 0))])


def _seconds(time_ms: int | None) -> float | None:
    return time_ms / 1_000 if time_ms is not None else None
