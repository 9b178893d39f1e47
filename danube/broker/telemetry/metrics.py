"""Metrics: name, labels and help in one table, collected from the broker's state at each scrape.

Topics and subscriptions keep plain numbers: no message pays for the metrics library.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from danube.broker.telemetry.storage_metrics import storage_families, topic_storage_families
from danube.broker.topics.local_topics import Topics
from danube.broker.topics.subscription import AnySubscription, NonReliableSubscription, ReliableSubscription
from danube.broker.topics.topic import AnyTopic, ReliableTopic
from danube.storage.store import Storage

COUNTER = CounterMetricFamily
GAUGE = GaugeMetricFamily
Kind = type[CounterMetricFamily] | type[GaugeMetricFamily]
Sample = tuple[tuple[str, ...], float]


@dataclass(frozen=True, slots=True)
class _Series:
    """One metric of the table: where its samples come from."""

    name: str
    help: str
    labels: tuple[str, ...]
    kind: Kind
    samples: Callable[[], Iterable[Sample]]

    def family(self) -> Metric:
        family = self.kind(self.name, self.help, labels=self.labels)
        for labels, value in self.samples():
            family.add_metric(labels, value)
        return family


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

    def __init__(self, topics: Topics, storage: Storage, rpc: RpcCounts) -> None:
        self._topics = topics
        self._storage = storage
        self._table = [*_topic_table(topics), *_subscription_table(topics), _rpc_series(rpc)]

    def describe(self) -> list[Metric]:
        """Nothing up front: the registry need not collect once to know the names."""
        return []

    def collect(self) -> Iterator[Metric]:
        for series in self._table:
            yield series.family()
        yield from topic_storage_families(self._topics)
        yield from storage_families(self._storage)


def new_registry(topics: Topics, storage: Storage, rpc: RpcCounts) -> CollectorRegistry:
    """A registry of this broker's own."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(BrokerCollector(topics, storage, rpc))
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
        "Calls that ended, by method and outcome.",
        ("method", "outcome"),
        COUNTER,
        lambda: list(rpc.by_method.items()),
    )
