"""The calls of the admin port that every broker has: where each goes, and its answer put in order."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from danube.admin.grpc_gateway.broker_connection import BrokerConnection, ConnectionPool
from danube.model.calls.admin import UNREACHABLE, AddNode, BrokerInfo, RaftStatus, TopicDetails, TopicInfo, Unsubscribe
from danube.model.errors import (
    InternalError,
    NotFoundError,
    PreconditionFailedError,
    TopicNotServedError,
    UnsupportedError,
)
from danube.model.topic import TopicName
from danube.wire import admin_messages

BROKERS = "/danube_admin.BrokerAdmin"
CLUSTER = "/danube_admin.ClusterAdmin"
NAMESPACES = "/danube_admin.NamespaceAdmin"
TOPICS = "/danube_admin.TopicAdmin"


class AdminCalls:
    """Calls to the broker behind the endpoint; lists have each entry once, sorted. Every method raises DanubeError."""

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool
        self._broker = pool.endpoint

    async def done(self, path: str, request: bytes, *, broker: BrokerConnection | None = None) -> None:
        """A call that answers that it was done."""
        self._require_success(path, await (broker or self._broker).call(path, request))

    async def done_at(self, topic: TopicName, path: str, request: bytes) -> None:
        """As `done`, at the broker that serves the topic."""
        self._require_success(path, await self.at(topic, path, request))

    def _require_success(self, path: str, answer: bytes) -> None:
        if not admin_messages.DONE.decode(answer):
            raise InternalError(
                f"the broker at {self._broker.url} answered {path} without an error and without success"
            )

    # Brokers and namespaces

    async def brokers(self) -> Sequence[BrokerInfo]:
        """Every broker, with addresses that can be dialled from here."""
        infos = admin_messages.BROKERS.decode(await self._broker.call(f"{BROKERS}/ListBrokers"))
        by_id = {info.broker_id: reachable(info, self._pool) for info in infos}
        return [by_id[broker_id] for broker_id in sorted(by_id)]

    async def running(self) -> list[BrokerInfo]:
        """Brokers that can be called, as far as the one that is asked knows."""
        return [info for info in await self.brokers() if info.status != UNREACHABLE]

    async def raft_status(self) -> RaftStatus:
        """The agreement of the brokers. Raises UnsupportedError outside a cluster."""
        try:
            return admin_messages.CLUSTER_STATUS.decode(await self._broker.call(f"{CLUSTER}/ClusterStatus"))
        except UnsupportedError:
            raise UnsupportedError(
                f"the broker at {self._broker.url} stands alone: there are no others that it agrees with"
            ) from None

    async def is_cluster(self) -> bool:
        """True if the broker belongs to a cluster."""
        try:
            await self.raft_status()
        except UnsupportedError:
            return False
        return True

    async def waiting_node(self, wanted: AddNode) -> AddNode:
        """The original's way: a broker that waits is asked, at its admin URL, for its node id and Raft address."""
        status = admin_messages.CLUSTER_STATUS.decode(
            await self._pool.to(wanted.address).call(f"{CLUSTER}/ClusterStatus")
        )
        if wanted.node_id not in {None, status.self_node_id}:
            raise NotFoundError(f"{wanted.address} is node {status.self_node_id} and not {wanted.node_id}")
        return AddNode(address=status.raft_addr, node_id=status.self_node_id)

    async def add_node(self, wanted: AddNode) -> str:
        """Have a node take part; answers its id."""
        answer = await self._broker.call(f"{CLUSTER}/AddNode", admin_messages.ADD_NODE.encode(wanted))
        added, node_id, said = admin_messages.NODE_ADDED.decode(answer)
        self._require_done(added, said)
        return node_id

    async def promote_node(self, node_id: str) -> None:
        answer = await self._broker.call(f"{CLUSTER}/PromoteNode", admin_messages.NODE.encode(node_id))
        self._require_done(*admin_messages.NODE_CHANGED.decode(answer))

    async def remove_node(self, node_id: str) -> None:
        answer = await self._broker.call(f"{CLUSTER}/RemoveNode", admin_messages.NODE.encode(node_id))
        self._require_done(*admin_messages.NODE_CHANGED.decode(answer))

    def _require_done(self, is_done: bool, said: str) -> None:  # noqa: FBT001 - as it is answered
        if not is_done:
            raise PreconditionFailedError(f"the broker at {self._broker.url} did not do it: {said[:500]}")

    async def namespaces(self) -> Sequence[str]:
        return sorted(set(admin_messages.NAMESPACES.decode(await self._broker.call(f"{BROKERS}/ListNamespaces"))))

    async def delete_namespace(self, namespace: str) -> None:
        await self.done(f"{NAMESPACES}/DeleteNamespace", admin_messages.NAMESPACE.encode(namespace))

    # Topics

    async def topics(self, namespace: str) -> Sequence[TopicInfo]:
        """The topics of a namespace. The original lists those of `defaulted` under `default` too: they are left out."""
        answer = await self._broker.call(f"{TOPICS}/ListNamespaceTopics", admin_messages.NAMESPACE.encode(namespace))
        return _in_order(info for info in admin_messages.TOPICS.decode(answer) if info.topic.namespace == namespace)

    async def topics_on(self, broker_id: str) -> Sequence[TopicInfo]:
        answer = await self._broker.call(f"{TOPICS}/ListBrokerTopics", admin_messages.BROKER.encode(broker_id))
        return _in_order(admin_messages.TOPICS.decode(answer))

    async def topic(self, topic: TopicName) -> TopicDetails:
        return admin_messages.TOPIC_DETAILS.decode(
            await self._broker.call(f"{TOPICS}/DescribeTopic", admin_messages.TOPIC.encode(topic))
        )

    async def subscriptions(self, topic: TopicName) -> Sequence[str]:
        answer = await self._broker.call(f"{TOPICS}/ListSubscriptions", admin_messages.TOPIC.encode(topic))
        return sorted(set(admin_messages.SUBSCRIPTIONS.decode(answer)))

    async def delete_topic(self, topic: TopicName) -> None:
        await self.done(f"{TOPICS}/DeleteTopic", admin_messages.TOPIC.encode(topic))

    async def unsubscribe(self, wanted: Unsubscribe) -> None:
        """Delete a subscription, at the broker that serves its topic: the original's others know nothing of it."""
        broker = await self.serving(wanted.topic)
        await self.done(f"{TOPICS}/Unsubscribe", admin_messages.UNSUBSCRIBE.encode(wanted), broker=broker)

    async def at(self, topic: TopicName, path: str, request: bytes) -> bytes:
        """A call about a topic, or a base name: where the broker behind the endpoint does not serve it, to the one that
        does.
        """
        try:
            return await self._broker.call(path, request)
        except TopicNotServedError:
            broker = await self.serving(topic)
            if broker is self._broker:
                raise
            return await broker.call(path, request)

    async def serving(self, topic: TopicName) -> BrokerConnection:
        """The connection to the broker that serves a topic, or the first partition of a base name."""
        urls = {info.broker_id: info.admin_url for info in await self.running()}
        if len(urls) <= 1:
            return self._broker
        found = (info for info in await self.topics(topic.namespace) if topic in {info.topic, info.topic.base})
        server = next((info.broker_id for info in found), None)
        url = urls.get(server or "")
        return self._pool.to(url) if url else self._broker


def reachable(info: BrokerInfo, pool: ConnectionPool) -> BrokerInfo:
    """A broker with its addresses as they can be dialled from here."""
    return replace(
        info,
        broker_url=pool.dialled(info.broker_url),
        admin_url=pool.dialled(info.admin_url),
        metrics_url=pool.dialled(info.metrics_url),
    )


def _in_order(infos: Iterable[TopicInfo]) -> list[TopicInfo]:
    by_name = {info.topic: info for info in infos}
    return [by_name[name] for name in sorted(by_name)]
