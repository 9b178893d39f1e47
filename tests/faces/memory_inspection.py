"""Metrics and logs of a cluster in memory."""

from collections.abc import Sequence

from danube.admin.gateway import OfBroker, PromQuery, PromSeries
from danube.model.calls.inspection import (
    LogLevel,
    LogPage,
    LogRecord,
    MetricLabel,
    MetricSample,
    MetricsPage,
    ReadLog,
    ReadMetrics,
)
from danube.model.errors import NotFoundError, PreconditionFailedError
from danube.model.topic import TopicName
from tests.faces.memory_cluster import MemoryCluster

OURS_ALONE = {"metrics", "broker_logs"}
"""Calls that the original does not answer."""


class InspectionCalls:
    """The gateway's calls about metrics and logs."""

    cluster: MemoryCluster

    def __init__(self) -> None:
        self.samples: dict[str, list[MetricSample]] = {}
        """By broker, beside what follows from the topics of the first one."""
        self.log_records: list[LogRecord] = []
        """Of the first broker."""
        self.silent_brokers: dict[str, str] = {}
        """Brokers that do not answer, with the reason."""
        self.prom_series: list[PromSeries] | None = None
        """What Prometheus answers to whatever it is asked; None for none configured."""
        self.prom_queries: list[PromQuery] = []

    async def metrics(self, wanted: ReadMetrics, broker_id: str | None) -> Sequence[OfBroker[MetricsPage]]:
        return [self._metrics(each, wanted) for each in self._brokers(broker_id)]

    async def broker_logs(self, wanted: ReadLog, broker_id: str | None) -> Sequence[OfBroker[LogPage]]:
        return [self._log(each, wanted) for each in self._brokers(broker_id)]

    async def prometheus(self, wanted: PromQuery) -> Sequence[PromSeries]:
        if self.prom_series is None:
            raise PreconditionFailedError("no Prometheus is configured: set DANUBE_ADMIN_PROMETHEUS")
        self.prom_queries.append(wanted)
        return self.prom_series

    def _brokers(self, wanted: str | None) -> list[str]:
        known = [info.broker_id for info in self.cluster.brokers]
        if wanted is not None and wanted not in known:
            raise NotFoundError(f"there is no broker {wanted[:40]!r} that runs: list the brokers to see which do")
        return [wanted] if wanted is not None else known

    def _metrics(self, broker_id: str, wanted: ReadMetrics) -> OfBroker[MetricsPage]:
        if broker_id in self.silent_brokers:
            return OfBroker(broker_id=broker_id, told=None, problem=self.silent_brokers[broker_id])
        samples = [*self.samples.get(broker_id, ())]
        if broker_id == self._brokers(None)[0]:
            samples += [
                _sample("danube_topic_active_subscriptions", topic.name, len(topic.subscriptions))
                for topic in self.cluster.by_name()
            ]
        found = [each for each in samples if each.name.startswith(wanted.prefix) and _is_about(each, wanted.topic)]
        page = MetricsPage(samples=tuple(found[: wanted.limit]), sample_count=len(found))
        return OfBroker(broker_id=broker_id, told=page)

    def _log(self, broker_id: str, wanted: ReadLog) -> OfBroker[LogPage]:
        if broker_id in self.silent_brokers:
            return OfBroker(broker_id=broker_id, told=None, problem=self.silent_brokers[broker_id])
        levels = list(LogLevel)
        own = self.log_records if broker_id == self._brokers(None)[0] else []
        found = [
            each
            for each in own
            if levels.index(each.level) >= levels.index(wanted.level)
            and (wanted.topic is None or str(wanted.topic) in each.text)
            and (wanted.since_ms or 0) <= each.time_ms
            and (wanted.until_ms is None or each.time_ms < wanted.until_ms)
        ]
        page = LogPage(
            records=tuple(found[-wanted.limit :]),
            record_count=len(found),
            kept_since_ms=own[0].time_ms if own else None,
            dropped_count=0,
        )
        return OfBroker(broker_id=broker_id, told=page)


def _sample(name: str, topic: TopicName, value: float) -> MetricSample:
    return MetricSample(name=name, labels=(MetricLabel(name="topic", value=str(topic)),), value=value)


def _is_about(sample: MetricSample, topic: TopicName | None) -> bool:
    if topic is None:
        return True
    label = next((each.value for each in sample.labels if each.name == "topic"), None)
    return label is not None and TopicName.parse(label).is_of(topic)
