"""Calls about topics in full, metrics and logs: to each broker by itself, and to Prometheus."""

import asyncio
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace

from danube.admin.gateway import OfBroker, PromQuery, PromSeries
from danube.admin.grpc_gateway.broker_connection import Answer, BrokerConnection, ConnectionPool, Request
from danube.admin.grpc_gateway.calls import AdminCalls
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
    DanubeError,
    DeadlineExceededError,
    NotFoundError,
    PreconditionFailedError,
    TopicNotFoundError,
    TopicNotServedError,
    UnavailableError,
    UnsupportedError,
)
from danube.model.limits.broker import DESCRIBE_NAMES_MAX
from danube.model.topic import TopicName
from danube.wire import control_messages as control
from danube.wire.codec import Codec

_INSPECTION = "/danube.control.Inspection"
_DESCRIBE_TOPICS = f"{_INSPECTION}/DescribeTopics"


class InspectionCalls:
    """The calls of `AdminGateway` about metrics and logs."""

    _pool: ConnectionPool
    _calls: AdminCalls
    _prometheus: Prometheus | None

    @abstractmethod
    async def describe_broker(self) -> BrokerDescription: ...

    @abstractmethod
    async def _require_ours(self, act: str) -> None: ...

    async def metrics(self, wanted: ReadMetrics, broker_id: str | None) -> Sequence[OfBroker[MetricsPage]]:
        await self._require_ours("tell its metrics over the admin port")
        path = f"{_INSPECTION}/ReadMetrics"
        return await self._of_each(broker_id, path, control.READ_METRICS, wanted, control.METRICS_PAGE)

    async def broker_logs(self, wanted: ReadLog, broker_id: str | None) -> Sequence[OfBroker[LogPage]]:
        await self._require_ours("tell its log over the admin port")
        path = f"{_INSPECTION}/ReadLog"
        return await self._of_each(broker_id, path, control.READ_LOG, wanted, control.LOG_PAGE)

    async def prometheus(self, wanted: PromQuery) -> Sequence[PromSeries]:
        if self._prometheus is None:
            raise PreconditionFailedError(
                "no Prometheus is configured: set DANUBE_ADMIN_PROMETHEUS, or `danube-admin contexts set NAME"
                " --prometheus http://host:9090`; without a query the brokers tell their metrics themselves"
            )
        return await self._prometheus.ask(wanted)

    async def _of_each(
        self, broker_id: str | None, path: str, request: Codec[Request], value: Request, answer: Codec[Answer]
    ) -> Sequence[OfBroker[Answer]]:
        """One after the other; a broker that does not answer is told with the reason, unless it alone was asked."""
        own = await self.describe_broker()
        found: list[OfBroker[Answer]] = []
        for each, broker in (await self._connections(own.info.broker_id, broker_id)).items():
            try:
                told = await broker.ask(path, request, value, answer)
            except UnsupportedError:
                found.append(OfBroker(broker_id=each, told=None, problem="its version has no such call: upgrade it"))
            except DanubeError as error:
                if broker_id is not None:
                    raise
                found.append(OfBroker(broker_id=each, told=None, problem=str(error)))
            else:
                found.append(OfBroker(broker_id=each, told=told))
        return found

    async def _connections(self, own_id: str, wanted: str | None) -> dict[str, BrokerConnection]:
        """Brokers that run, by id; the one behind the endpoint is called as it was dialled. Raises NotFoundError."""
        if wanted == own_id:
            return {own_id: self._pool.endpoint}
        urls = {info.broker_id: info.admin_url for info in await self._calls.running()}
        if wanted is not None and wanted not in urls:
            raise NotFoundError(f"there is no broker {wanted[:40]!r} that runs: list the brokers to see which do")
        return {
            each: self._pool.endpoint if each == own_id else self._pool.to(url)
            for each, url in urls.items()
            if wanted in {None, each}
        }


class TopicDescriptions:
    """Pages of topics, as `AdminGateway.describe_topics` answers them."""

    def __init__(self, pool: ConnectionPool, calls: AdminCalls) -> None:
        self._pool = pool
        self._calls = calls
        self._own_id: str | None = None

    async def page(self, wanted: DescribeTopics) -> TopicsPage:
        """One page; of all brokers that run, unless one topic is asked for."""
        if not wanted.topics:
            return await self._everywhere(wanted)
        if len(wanted.topics) > 1:
            return await self._named(wanted)
        (name,) = wanted.topics
        page = await self._calls.ask(_DESCRIBE_TOPICS, control.DESCRIBE_TOPICS, wanted, control.TOPICS_PAGE, at=name)
        is_plain = all(topic.topic == name for topic in page.topics)
        return page if is_plain else await self._named(wanted)

    async def _everywhere(self, wanted: DescribeTopics) -> TopicsPage:
        own = await _ask(self._pool.endpoint, wanted)
        others = [
            self._pool.to(info.admin_url) for info in await self._calls.running() if info.broker_id != await self._id()
        ]
        pages = await asyncio.gather(*(_ask_if_it_answers(broker, wanted) for broker in others))
        return merged([own, *(page for page in pages if page is not None)])

    async def _named(self, wanted: DescribeTopics) -> TopicsPage:
        """All topics of these names, and all partitions of base names, each from the broker that serves it."""
        own_id = await self._id()
        urls = {info.broker_id: info.admin_url for info in await self._calls.running() if info.broker_id != own_id}
        by_broker: dict[str, list[TopicName]] = {}
        for info in await self._infos(wanted.topics):
            by_broker.setdefault(urls.get(info.broker_id or "", ""), []).append(info.topic)
        asked = [
            (self._pool.to(url) if url else self._pool.endpoint, names[at : at + DESCRIBE_NAMES_MAX])
            for url, names in by_broker.items()
            for at in range(0, len(names), DESCRIBE_NAMES_MAX)
        ]
        found = await asyncio.gather(*(_all_of(broker, wanted, names) for broker, names in asked))
        topics = [topic for each in found for topic in each]
        return TopicsPage(topics=tuple(sorted(topics, key=lambda topic: str(topic.topic))), next=None)

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

    async def _id(self) -> str:
        if self._own_id is None:
            described = await self._calls.ask(
                f"{_INSPECTION}/DescribeBroker", control.DESCRIBE_BROKER, None, control.BROKER_DESCRIPTION
            )
            self._own_id = described.info.broker_id
        return self._own_id


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


async def _ask_if_it_answers(broker: BrokerConnection, wanted: DescribeTopics) -> TopicsPage | None:
    """None of a broker that is gone since the others were asked for it."""
    try:
        return await _ask(broker, wanted)
    except (UnavailableError, DeadlineExceededError):
        return None


async def _all_of(
    broker: BrokerConnection, wanted: DescribeTopics, names: Sequence[TopicName]
) -> list[TopicDescription]:
    """Every page of these topics of one broker; without those that it serves no longer."""
    found: list[TopicDescription] = []
    after: DescribeCursor | None = None
    while True:
        try:
            page = await _ask(broker, replace(wanted, topics=tuple(names), after=after))
        except (TopicNotServedError, TopicNotFoundError, UnavailableError, DeadlineExceededError):
            return found  # it moved, or its broker is gone: the next look finds it
        found += page.topics
        after = page.next
        if after is None:
            return found
