"""Metrics and log of this broker, for administrators who ask over the admin port."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from danube.broker.telemetry.log_ring import LogRing
from danube.model.calls.inspection import LogPage, MetricLabel, MetricSample, MetricsPage, ReadLog, ReadMetrics
from danube.model.errors import UnavailableError
from danube.model.topic import TopicName

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

_TOPIC = "topic"
"""The label that names a topic."""


class InspectionControl:
    """Metrics and log of this broker; metrics can be read once it is assembled."""

    def __init__(self, ring: LogRing, is_plain: Callable[[str], bool]) -> None:
        """`is_plain` is true for topics that are no partitions, whatever their names."""
        self._ring = ring
        self._is_plain = is_plain
        self._registry: CollectorRegistry | None = None

    def follow(self, registry: "CollectorRegistry") -> None:
        """Read metrics from this registry, which the metrics port serves as well."""
        self._registry = registry

    def metrics(self, wanted: ReadMetrics) -> MetricsPage:
        """The metrics of this moment. Costs a step for each subscription. Raises UnavailableError while it starts."""
        if self._registry is None:
            raise UnavailableError("the broker has no metrics yet, as it is starting: ask again in a moment")
        found, count = [], 0
        for sample in _samples(self._registry, wanted, self._is_plain):
            count += 1
            if count <= wanted.limit:
                found.append(sample)
        return MetricsPage(samples=tuple(found), sample_count=count)

    def log(self, wanted: ReadLog) -> LogPage:
        """Records of the log that are still kept."""
        return self._ring.read(wanted, self._is_plain)


def _samples(
    registry: "CollectorRegistry", wanted: ReadMetrics, is_plain: Callable[[str], bool]
) -> Iterator[MetricSample]:
    for family in registry.collect():
        if not family.name.startswith(wanted.prefix) and not wanted.prefix.startswith(family.name):
            continue
        for sample in family.samples:
            if sample.name.startswith(wanted.prefix) and _is_about(sample.labels.get(_TOPIC), wanted.topic, is_plain):
                labels = tuple(MetricLabel(name=name, value=value) for name, value in sample.labels.items())
                yield MetricSample(name=sample.name, labels=labels, value=sample.value)


def _is_about(label: str | None, topic: TopicName | None, is_plain: Callable[[str], bool]) -> bool:
    if topic is None or label is None:
        return topic is None
    name = TopicName.parse(label)
    return topic in {name, name.base(is_plain=is_plain(label))}
