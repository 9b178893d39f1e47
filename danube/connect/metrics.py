"""Metrics of connectors, by the original's names, and the ones that it lacks."""

from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from danube.runtime.clock import Clock

_LABELS = ("connector", "topic")


class ConnectorMetrics:
    """The metrics of one process."""

    def __init__(self, clock: Clock) -> None:
        self.registry = CollectorRegistry()
        self._clock = clock
        self.received = self._counter("messages_received", "Records received.")
        self.processed = self._counter("messages_processed", "Records written, or sent.")
        self.failed = self._counter("messages_failed", "Records that were refused.")
        self.retried = self._counter("messages_retried", "Records that were tried again.")
        self.dead_letters = self._counter("dead_letters", "Records in the dead letters.")
        self.repeated = self._counter("messages_repeated", "Records that came again and were written before.")
        self.restarts = self._counter("task_restarts", "Times that a task began anew.")
        self.duration = self._histogram("processing_duration_seconds", "Time of one batch.", Histogram.DEFAULT_BUCKETS)
        self.batch_size = self._histogram("batch_size", "Records of one batch.", (1, 10, 100, 1_000, 10_000, 100_000))
        self.inflight = self._gauge("inflight_messages", "Records that are being written.")
        self.health = self._gauge("health", "1 while the task is well, else 0.")

    def of(self, connector: str, topic: str) -> "TaskMetrics":
        """The metrics of one task."""
        return TaskMetrics(self, connector, topic, self._clock)

    def _counter(self, name: str, text: str) -> Counter:
        return Counter(f"danube_connector_{name}", text, _LABELS, registry=self.registry)

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(f"danube_connector_{name}", text, _LABELS, registry=self.registry)

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(f"danube_connector_{name}", text, _LABELS, buckets=buckets, registry=self.registry)


class TaskMetrics:
    """The metrics of one task; `topic` is that of its route."""

    def __init__(self, metrics: ConnectorMetrics, connector: str, topic: str, clock: Clock) -> None:
        self._clock = clock
        self.received = metrics.received.labels(connector, topic)
        self.processed = metrics.processed.labels(connector, topic)
        self.failed = metrics.failed.labels(connector, topic)
        self.retried = metrics.retried.labels(connector, topic)
        self.dead_letters = metrics.dead_letters.labels(connector, topic)
        self.repeated = metrics.repeated.labels(connector, topic)
        self.restarts = metrics.restarts.labels(connector, topic)
        self.duration = metrics.duration.labels(connector, topic)
        self.batch_size = metrics.batch_size.labels(connector, topic)
        self.inflight = metrics.inflight.labels(connector, topic)
        self.health = metrics.health.labels(connector, topic)

    @contextmanager
    def batch(self, count: int) -> Iterator[None]:
        """A batch of so many records is under way."""
        started_s = self._clock.monotonic_s()
        self.batch_size.observe(count)
        self.inflight.inc(count)
        try:
            yield
        finally:
            self.inflight.dec(count)
            self.duration.observe(self._clock.monotonic_s() - started_s)
