"""Metrics and logs of a cluster in memory."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

from danube.admin.gateway import OfBroker, PromQuery, PromSeries
from danube.model.calls.admin import BrokerDescription
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

Told = TypeVar("Told")

OURS_ALONE = {"metrics", "broker_logs", "describe_brokers"}
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

    async def describe_broker(self) -> BrokerDescription:
        raise NotImplementedError

    async def describe_brokers(self) -> Sequence[OfBroker[BrokerDescription]]:
        """The first one serves all topics; another one is as it is, and serves none."""
        first = await self.describe_broker()
        idle: dict[str, Any] = dict.fromkeys(("topics", "subscriptions", "producers", "consumers"), 0)
        told = [
            first,
            *(replace(first, info=each, blocked_subscriptions=0, **idle) for each in self.cluster.brokers[1:]),
        ]
        return [self._told(each.info.broker_id, each) for each in told]

    async def broker_logs(self, wanted: ReadLog, broker_id: str | None) -> Sequence[OfBroker[LogPage]]:
        return [self._log(each, wanted) for each in self._brokers(broker_id)]

    async def prometheus(self, wanted: PromQuery) -> Sequence[PromSeries]:
        if self.prom_series is None:
            raise PreconditionFailedError("no Prometheus is configured: set DANUBE_ADMIN_PROMETHEUS")
        self.prom_queries.append(wanted)
        return self.prom_series

    def _told(self, broker_id: str, told: Told) -> OfBroker[Told]:
        problem = self.silent_brokers.get(broker_id)
        return OfBroker(broker_id=broker_id, told=told if problem is None else None, problem=problem or "")

    def _brokers(self, wanted: str | None) -> list[str]:
        known = [info.broker_id for info in self.cluster.brokers]
        if wanted is not None and wanted not in known:
            raise NotFoundError(f"there is no broker {wanted[:40]!r} that runs: list the brokers to see which do")
        return [wanted] if wanted is not None else known

    def _metrics(self, broker_id: str, wanted: ReadMetrics) -> OfBroker[MetricsPage]:
        samples = [*self.samples.get(broker_id, ())]
        if broker_id == self._brokers(None)[0]:
            samples += [
                _sample("danube_topic_active_subscriptions", topic.name, len(topic.subscriptions))
                for topic in self.cluster.by_name()
            ]
        found = [each for each in samples if each.name.startswith(wanted.prefix) and _is_about(each, wanted.topic)]
        page = MetricsPage(samples=tuple(found[: wanted.limit]), sample_count=len(found))
        return self._told(broker_id, page)

    def _log(self, broker_id: str, wanted: ReadLog) -> OfBroker[LogPage]:
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
        return self._told(broker_id, page)


def _sample(name: str, topic: TopicName, value: float) -> MetricSample:
    return MetricSample(name=name, labels=(MetricLabel(name="topic", value=str(topic)),), value=value)


def _is_about(sample: MetricSample, topic: TopicName | None) -> bool:
    if topic is None:
        return True
    label = next((each.value for each in sample.labels if each.name == "topic"), None)
    return label is not None and TopicName.parse(label).is_of(topic)
