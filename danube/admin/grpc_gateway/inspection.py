"""Calls about topics in full, metrics and logs: to each broker by itself, and to Prometheus."""

import asyncio
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace

from danube.admin.gateway import ClusterTopics, OfBroker, PromQuery, PromSeries, not_answered
from danube.admin.grpc_gateway.broker_connection import BrokerConnection
from danube.admin.grpc_gateway.calls import AdminCalls, EveryBroker
from danube.admin.grpc_gateway.prometheus import Prometheus
from danube.model.calls.admin import (
    BrokerDescription,
    DescribeCursor,
    DescribeTopics,
    TopicDescription,
    TopicInfo,
    TopicsPage,
)
from danube.model.calls.inspection import LogPage, MetricsPage, ReadLog, ReadMetrics
from danube.model.errors import (
    PreconditionFailedError,
    TopicNotFoundError,
    TopicNotServedError,
)
from danube.model.limits.broker import DESCRIBE_NAMES_MAX
from danube.model.topic import TopicName
from danube.wire import control_messages as control

_INSPECTION = "/danube.control.Inspection"
_DESCRIBE_TOPICS = f"{_INSPECTION}/DescribeTopics"


class InspectionCalls:
    """The calls of `AdminGateway` about metrics and logs."""

    _each: EveryBroker
    _prometheus: Prometheus | None

    @abstractmethod
    async def _require_ours(self, act: str) -> None: ...

    async def metrics(self, wanted: ReadMetrics, broker_id: str | None) -> Sequence[OfBroker[MetricsPage]]:
        await self._require_ours("tell its metrics over the admin port")
        path = f"{_INSPECTION}/ReadMetrics"
        return await self._each.ask(path, control.READ_METRICS, wanted, control.METRICS_PAGE, only=broker_id)

    async def broker_logs(self, wanted: ReadLog, broker_id: str | None) -> Sequence[OfBroker[LogPage]]:
        await self._require_ours("tell its log over the admin port")
        path = f"{_INSPECTION}/ReadLog"
        return await self._each.ask(path, control.READ_LOG, wanted, control.LOG_PAGE, only=broker_id)

    async def describe_brokers(self) -> Sequence[OfBroker[BrokerDescription]]:
        await self._require_ours("tell its load and its journal")
        path = f"{_INSPECTION}/DescribeBroker"
        return await self._each.ask(path, control.DESCRIBE_BROKER, None, control.BROKER_DESCRIPTION)

    async def prometheus(self, wanted: PromQuery) -> Sequence[PromSeries]:
        if self._prometheus is None:
            raise PreconditionFailedError(
                "no Prometheus is configured: set DANUBE_ADMIN_PROMETHEUS, or `danube-admin contexts set NAME"
                " --prometheus http://host:9090`; without a query the brokers tell their metrics themselves"
            )
        return await self._prometheus.ask(wanted)


class TopicDescriptions:
    """Pages of topics, as `AdminGateway.describe_topics` answers them."""

    def __init__(self, calls: AdminCalls, each: EveryBroker) -> None:
        self._calls = calls
        self._each = each

    async def page(self, wanted: DescribeTopics) -> ClusterTopics:
        """One page; of all brokers that run, unless one topic is asked for."""
        if not wanted.topics:
            return await self._everywhere(wanted)
        if len(wanted.topics) > 1:
            return await self._named(wanted)
        (name,) = wanted.topics
        page = await self._calls.ask(_DESCRIBE_TOPICS, control.DESCRIBE_TOPICS, wanted, control.TOPICS_PAGE, at=name)
        is_plain = all(topic.topic == name for topic in page.topics)
        return ClusterTopics(topics=page.topics, next=page.next) if is_plain else await self._named(wanted)

    async def _everywhere(self, wanted: DescribeTopics) -> ClusterTopics:
        told = await self._each.ask(_DESCRIBE_TOPICS, control.DESCRIBE_TOPICS, wanted, control.TOPICS_PAGE)
        page = merged([each.told for each in told if each.told is not None])
        return ClusterTopics(topics=page.topics, next=page.next, not_answered=not_answered(told))

    async def _named(self, wanted: DescribeTopics) -> ClusterTopics:
        """All topics of these names, and all partitions of base names, each from the broker that serves it."""
        owned: dict[str | None, list[TopicName]] = {}
        for info in await self._infos(wanted.topics):
            owned.setdefault(info.broker_id, []).append(info.topic)

        async def of_broker(broker: BrokerConnection, broker_id: str) -> list[TopicDescription]:
            names = owned.get(broker_id, [])
            if broker_id == first:
                names += [name for owner in owned.keys() - running for name in owned[owner]]
            parts = [names[at : at + DESCRIBE_NAMES_MAX] for at in range(0, len(names), DESCRIBE_NAMES_MAX)]
            found = await asyncio.gather(*(_all_of(broker, wanted, part) for part in parts))
            return [topic for each in found for topic in each]

        running = await self._each.running()
        first = next(iter(running))
        told = await self._each.gather(running, of_broker)
        topics = [topic for each in told for topic in each.told or ()]
        return ClusterTopics(
            topics=tuple(sorted(topics, key=lambda topic: str(topic.topic))), next=None, not_answered=not_answered(told)
        )

    async def _infos(self, names: Sequence[TopicName]) -> list[TopicInfo]:
        """The topics of these names, and the partitions of those that are none. Raises TopicNotFoundError."""
        namespaces = sorted({name.namespace for name in names})
        listed = await asyncio.gather(*(self._calls.topics(namespace) for namespace in namespaces))
        infos = {info.topic: info for each in listed for info in each}
        bases = set(names) - infos.keys()
        partitions = [info for info in infos.values() if info.base in bases]
        if missing := bases - {info.base for info in partitions}:
            raise TopicNotFoundError(
                f"there is no topic {min(missing)}: list the topics of its namespace to see their names"
            )
        named = {name: infos[name] for name in names if name in infos}
        return list((named | {info.topic: info for info in partitions}).values())


def merged(pages: Sequence[TopicsPage]) -> TopicsPage:
    """Pages of several brokers that begin at one place as one page; it ends where the first of them does.

    A topic that nobody serves is on the page of each broker, and one on the move may be on two: it comes once.
    """
    ends = [page.next for page in pages if page.next is not None]
    end = min(ends, key=lambda cursor: str(cursor.topic), default=None)
    found: dict[TopicName, TopicDescription] = {}
    for topic in (topic for page in pages for topic in page.topics):
        if end is not None and str(topic.topic) > str(end.topic):
            continue
        if topic.topic not in found or (topic.is_served and not found[topic.topic].is_served):
            found[topic.topic] = topic
    topics = sorted(found.values(), key=lambda topic: str(topic.topic))
    return TopicsPage(topics=tuple(topics), next=end)


async def _ask(broker: BrokerConnection, wanted: DescribeTopics) -> TopicsPage:
    return await broker.ask(_DESCRIBE_TOPICS, control.DESCRIBE_TOPICS, wanted, control.TOPICS_PAGE)


async def _all_of(
    broker: BrokerConnection, wanted: DescribeTopics, names: Sequence[TopicName]
) -> list[TopicDescription]:
    """Every page of these topics of one broker; without those that it serves no longer."""
    found: list[TopicDescription] = []
    after: DescribeCursor | None = None
    while True:
        try:
            page = await _ask(broker, replace(wanted, topics=tuple(names), after=after))
        except (TopicNotServedError, TopicNotFoundError):
            return found  # it moved: the next look finds it
        found += page.topics
        after = page.next
        if after is None:
            return found
