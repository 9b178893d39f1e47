"""The calls of the admin port that every broker has: where each goes, and its answer put in order."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from danube.admin.grpc_gateway.line import Line, Lines
from danube.model.admin_calls import BrokerInfo, RaftStatus, TopicDetails, TopicInfo, Unsubscribe
from danube.model.errors import InternalError, UnsupportedError
from danube.model.topic import TopicName
from danube.wire import decode_admin, encode_admin

BROKERS = "/danube_admin.BrokerAdmin"
CLUSTER = "/danube_admin.ClusterAdmin"
NAMESPACES = "/danube_admin.NamespaceAdmin"
TOPICS = "/danube_admin.TopicAdmin"


class AdminCalls:
    """Calls to the broker behind the endpoint; lists have each entry once, sorted. Every method raises DanubeError."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self._line = lines.endpoint

    async def done(self, path: str, request: bytes, *, line: Line | None = None) -> None:
        """A call that answers that it was done."""
        if not decode_admin.success(await (line or self._line).call(path, request)):
            raise InternalError(f"the broker at {self._line.url} answered {path} without an error and without success")

    # Brokers and namespaces

    async def brokers(self) -> Sequence[BrokerInfo]:
        """Every broker, with addresses that can be dialled from here."""
        infos = decode_admin.brokers(await self._line.call(f"{BROKERS}/ListBrokers"))
        by_id = {info.broker_id: reachable(info, self._lines) for info in infos}
        return [by_id[broker_id] for broker_id in sorted(by_id)]

    async def raft_status(self) -> RaftStatus:
        """How the brokers agree. Raises UnsupportedError outside a cluster."""
        try:
            return decode_admin.cluster_status(await self._line.call(f"{CLUSTER}/ClusterStatus"))
        except UnsupportedError:
            raise UnsupportedError(
                f"the broker at {self._line.url} stands alone: there are no others that it agrees with"
            ) from None

    async def is_cluster(self) -> bool:
        """Whether there are brokers that agree."""
        try:
            await self.raft_status()
        except UnsupportedError:
            return False
        return True

    async def namespaces(self) -> Sequence[str]:
        """Every namespace."""
        return sorted(set(decode_admin.namespaces(await self._line.call(f"{BROKERS}/ListNamespaces"))))

    async def delete_namespace(self, namespace: str) -> None:
        """Delete it."""
        await self.done(f"{NAMESPACES}/DeleteNamespace", encode_admin.namespace(namespace))

    # Topics

    async def topics(self, namespace: str) -> Sequence[TopicInfo]:
        """The topics of a namespace. The original lists those of `defaulted` under `default` too: they are left out."""
        answer = await self._line.call(f"{TOPICS}/ListNamespaceTopics", encode_admin.namespace(namespace))
        return _in_order(info for info in decode_admin.topics(answer) if info.topic.namespace == namespace)

    async def topics_on(self, broker_id: str) -> Sequence[TopicInfo]:
        """The topics of a broker."""
        answer = await self._line.call(f"{TOPICS}/ListBrokerTopics", encode_admin.broker(broker_id))
        return _in_order(decode_admin.topics(answer))

    async def topic(self, topic: TopicName) -> TopicDetails:
        """What the broker says of a topic."""
        return decode_admin.topic_details(await self._line.call(f"{TOPICS}/DescribeTopic", encode_admin.topic(topic)))

    async def subscriptions(self, topic: TopicName) -> Sequence[str]:
        """What the broker lists as a topic's subscriptions."""
        answer = await self._line.call(f"{TOPICS}/ListSubscriptions", encode_admin.topic(topic))
        return sorted(set(decode_admin.subscriptions(answer)))

    async def delete_topic(self, topic: TopicName) -> None:
        """Delete it."""
        await self.done(f"{TOPICS}/DeleteTopic", encode_admin.topic(topic))

    async def unsubscribe(self, wanted: Unsubscribe) -> None:
        """Delete a subscription, at the broker that serves its topic: the original's others know nothing of it."""
        line = await self._line_to(wanted.topic)
        await self.done(f"{TOPICS}/Unsubscribe", encode_admin.unsubscribe(wanted), line=line)

    async def _line_to(self, topic: TopicName) -> Line:
        urls = {info.broker_id: info.admin_url for info in await self.brokers()}
        if len(urls) <= 1:
            return self._line
        url = urls.get((await self.topic(topic)).info.broker_id or "")
        return self._lines.to(url) if url else self._line


def reachable(info: BrokerInfo, lines: Lines) -> BrokerInfo:
    """A broker with its addresses as they can be dialled from here."""
    return replace(
        info,
        broker_url=lines.dialled(info.broker_url),
        admin_url=lines.dialled(info.admin_url),
        metrics_url=lines.dialled(info.metrics_url),
    )


def _in_order(infos: Iterable[TopicInfo]) -> list[TopicInfo]:
    by_name = {info.topic: info for info in infos}
    return [by_name[name] for name in sorted(by_name)]
