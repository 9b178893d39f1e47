"""The calls of the admin port that every broker has: where each goes, and its answer put in order."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TypeVar

from danube.admin.gateway import OfBroker
from danube.admin.grpc_gateway.broker_connection import Answer, BrokerConnection, ConnectionPool, Request
from danube.model.calls.admin import (
    UNREACHABLE,
    ActivateBroker,
    AddNode,
    BrokerInfo,
    RaftStatus,
    TopicDetails,
    TopicInfo,
    UnloadBroker,
    Unsubscribe,
)
from danube.model.calls.topic_states import TopicStatesList
from danube.model.errors import (
    DanubeError,
    DeadlineExceededError,
    InternalError,
    NotFoundError,
    NotPermittedError,
    PreconditionFailedError,
    TopicNotServedError,
    UnsupportedError,
)
from danube.model.records.telemetry import SYSTEM_NAMESPACE
from danube.model.topic import TopicName
from danube.wire import admin_messages as messages
from danube.wire import control_messages as control
from danube.wire.codec import Codec

BROKERS = "/danube_admin.BrokerAdmin"
CLUSTER = "/danube_admin.ClusterAdmin"
NAMESPACES = "/danube_admin.NamespaceAdmin"
TOPICS = "/danube_admin.TopicAdmin"
_TOPIC_STATES = "/danube.control.Inspection/ListTopicStates"
_DESCRIBE = "/danube.control.Inspection/DescribeBroker"

Told = TypeVar("Told")


class AdminCalls:
    """Calls to the broker behind the endpoint; lists have each entry once, sorted. Every method raises DanubeError."""

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool
        self._broker = pool.endpoint

    async def ask(
        self, path: str, request: Codec[Request], value: Request, answer: Codec[Answer], *, at: TopicName | None = None
    ) -> Answer:
        """A call to the broker behind the endpoint. One about the topic, or base name, `at` goes to the broker that
        serves it, where that is another one.
        """
        try:
            return await self._broker.ask(path, request, value, answer)
        except TopicNotServedError:
            if at is None or (broker := await self.serving(at)) is self._broker:
                raise
            return await broker.ask(path, request, value, answer)

    async def do(self, path: str, request: Codec[Request], value: Request, *, at: TopicName | None = None) -> None:
        """As `ask`; the answer says that it was done."""
        self._require_success(path, await self.ask(path, request, value, messages.DONE, at=at))

    def _require_success(self, path: str, is_done: bool | None) -> None:  # noqa: FBT001 - as it is answered
        if not is_done:
            raise InternalError(
                f"the broker at {self._broker.url} answered {path} without an error and without success"
            )

    # Brokers and namespaces

    async def brokers(self) -> Sequence[BrokerInfo]:
        """Every broker, with addresses that can be dialled from here."""
        infos = await self.ask(f"{BROKERS}/ListBrokers", messages.EMPTY, None, messages.BROKERS)
        by_id = {info.broker_id: reachable(info, self._pool) for info in infos}
        return [by_id[broker_id] for broker_id in sorted(by_id)]

    async def running(self) -> list[BrokerInfo]:
        """Brokers that can be called, as far as the one that is asked knows."""
        return [info for info in await self.brokers() if info.status != UNREACHABLE]

    async def raft_status(self) -> RaftStatus:
        """The agreement of the brokers. Raises UnsupportedError outside a cluster."""
        try:
            return await self.ask(f"{CLUSTER}/ClusterStatus", messages.EMPTY, None, messages.CLUSTER_STATUS)
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
        waiting = self._pool.to(wanted.address)
        status = await waiting.ask(f"{CLUSTER}/ClusterStatus", messages.EMPTY, None, messages.CLUSTER_STATUS)
        if wanted.node_id not in {None, status.self_node_id}:
            raise NotFoundError(f"{wanted.address} is node {status.self_node_id} and not {wanted.node_id}")
        return AddNode(address=status.raft_addr, node_id=status.self_node_id)

    async def add_node(self, wanted: AddNode) -> str:
        """Have a node take part; answers its id."""
        path = f"{CLUSTER}/AddNode"
        added, node_id, said = await self.ask(path, messages.ADD_NODE, wanted, messages.NODE_ADDED)
        self._require_done(added, said)
        return node_id

    async def promote_node(self, node_id: str) -> None:
        self._require_done(*await self.ask(f"{CLUSTER}/PromoteNode", messages.NODE, node_id, messages.NODE_CHANGED))

    async def remove_node(self, node_id: str) -> None:
        self._require_done(*await self.ask(f"{CLUSTER}/RemoveNode", messages.NODE, node_id, messages.NODE_CHANGED))

    def _require_done(self, is_done: bool, said: str) -> None:  # noqa: FBT001 - as it is answered
        if not is_done:
            raise PreconditionFailedError(f"the broker at {self._broker.url} did not do it: {said[:500]}")

    async def unload_broker(self, wanted: UnloadBroker) -> None:
        path = f"{BROKERS}/UnloadBroker"
        answer = await self.ask(path, messages.UNLOAD_BROKER, wanted, messages.BROKER_UNLOADED)
        self._require_success(path, answer.started)

    async def activate_broker(self, broker_id: str) -> None:
        wanted = ActivateBroker(broker_id=broker_id, reason="admin_activate")
        await self.do(f"{BROKERS}/ActivateBroker", messages.ACTIVATE_BROKER, wanted)

    async def namespaces(self) -> Sequence[str]:
        found = await self.ask(f"{BROKERS}/ListNamespaces", messages.EMPTY, None, messages.NAMESPACES)
        return sorted(set(found))

    async def delete_namespace(self, namespace: str) -> None:
        await self.do(f"{NAMESPACES}/DeleteNamespace", messages.NAMESPACE, namespace)

    # Topics

    async def topics(self, namespace: str) -> Sequence[TopicInfo]:
        """The topics of a namespace. The original lists those of `defaulted` under `default` too: they are left out."""
        infos = await self.ask(f"{TOPICS}/ListNamespaceTopics", messages.NAMESPACE, namespace, messages.TOPICS)
        return await self._marked(_in_order(info for info in infos if info.topic.namespace == namespace), namespace)

    async def topics_on(self, broker_id: str) -> Sequence[TopicInfo]:
        infos = await self.ask(f"{TOPICS}/ListBrokerTopics", messages.BROKER, broker_id, messages.TOPICS)
        return await self._marked(_in_order(infos), None)

    async def topic_states(self, namespace: str | None) -> TopicStatesList:
        return await self.ask(_TOPIC_STATES, control.LIST_TOPIC_STATES, namespace, control.TOPIC_STATES)

    async def _marked(self, infos: Sequence[TopicInfo], namespace: str | None) -> Sequence[TopicInfo]:
        """With those marked that are plain topics whatever their names; the original's brokers know of none."""
        if all(info.topic.base_by_form is None or info.topic.namespace == SYSTEM_NAMESPACE for info in infos):
            return infos
        plain: Sequence[TopicName] = ()
        with suppress(UnsupportedError, NotPermittedError):
            plain = (await self.topic_states(namespace)).plain_topics
        return [replace(info, is_plain=info.topic in plain) for info in infos] if plain else infos

    async def topic(self, topic: TopicName) -> TopicDetails:
        return await self.ask(f"{TOPICS}/DescribeTopic", messages.TOPIC, topic, messages.TOPIC_DETAILS)

    async def subscriptions(self, topic: TopicName) -> Sequence[str]:
        found = await self.ask(f"{TOPICS}/ListSubscriptions", messages.TOPIC, topic, messages.SUBSCRIPTIONS)
        return sorted(set(found))

    async def delete_topic(self, topic: TopicName) -> None:
        await self.do(f"{TOPICS}/DeleteTopic", messages.TOPIC, topic)

    async def unload_topic(self, topic: TopicName) -> None:
        await self.do(f"{TOPICS}/UnloadTopic", messages.TOPIC, topic)

    async def unsubscribe(self, wanted: Unsubscribe) -> None:
        """Delete a subscription, at the broker that serves its topic: the original's others know nothing of it."""
        path, broker = f"{TOPICS}/Unsubscribe", await self.serving(wanted.topic)
        self._require_success(path, await broker.ask(path, messages.UNSUBSCRIBE, wanted, messages.DONE))

    async def serving(self, topic: TopicName) -> BrokerConnection:
        """The connection to the broker that serves a topic, or the first partition of a base name."""
        urls = {info.broker_id: info.admin_url for info in await self.running()}
        if len(urls) <= 1:
            return self._broker
        found = (info for info in await self.topics(topic.namespace) if topic in {info.topic, info.base})
        server = next((info.broker_id for info in found), None)
        url = urls.get(server or "")
        return self._pool.to(url) if url else self._broker


class EveryBroker:
    """Calls to every broker of a cluster, side by side: an answer about the cluster is never the endpoint's alone.

    Each broker has a part of the time of a call, so one that hangs delays the answer for no longer than that. What does
    not answer is told with the reason.
    """

    def __init__(self, pool: ConnectionPool, calls: AdminCalls, each_s: float) -> None:
        self._pool = pool
        self._calls = calls
        self._each_s = each_s
        self._own_ids: dict[str, str] = {}

    async def ask(
        self, path: str, request: Codec[Request], value: Request, answer: Codec[Answer], *, only: str | None = None
    ) -> Sequence[OfBroker[Answer]]:
        """One call to each broker, or to `only`. Raises as `gather`, and NotFoundError."""
        infos = () if only == await self.own_id() else await self._calls.brokers()
        brokers = await self._connections(infos, only)
        if not brokers:
            raise NotFoundError(f"there is no broker {only!r:.40} that runs: list the brokers to see which do")
        told = await self.gather(brokers, lambda broker, _: broker.ask(path, request, value, answer))
        away = [info.broker_id for info in infos if info.broker_id not in brokers and only is None]
        return [*told, *(OfBroker(broker_id=each, told=None, problem="it is unreachable") for each in away)]

    async def gather(
        self, brokers: Mapping[str, BrokerConnection], asked: Callable[[BrokerConnection, str], Awaitable[Told]]
    ) -> list[OfBroker[Told]]:
        """The answer of each of these brokers. Raises the error of the first where none does."""
        errors: list[DanubeError] = []

        async def one(broker_id: str, broker: BrokerConnection) -> OfBroker[Told]:
            try:
                async with asyncio.timeout(self._each_s if len(brokers) > 1 else None):
                    return OfBroker(broker_id=broker_id, told=await asked(broker, broker_id))
            except TimeoutError:
                errors.append(DeadlineExceededError(f"it did not answer within {self._each_s:g} s"))
            except UnsupportedError:
                errors.append(UnsupportedError("its version has no such call: upgrade it"))
            except DanubeError as error:
                errors.append(error)
            return OfBroker(broker_id=broker_id, told=None, problem=str(errors[-1]))

        told = await asyncio.gather(*(one(*each) for each in brokers.items()))
        if errors and len(errors) == len(brokers):
            raise errors[0]
        return told

    async def running(self) -> dict[str, BrokerConnection]:
        """Brokers that run, by id; the one behind the endpoint is called as it was dialled."""
        return await self._connections(await self._calls.brokers(), None)

    async def _connections(self, infos: Sequence[BrokerInfo], only: str | None) -> dict[str, BrokerConnection]:
        own_id = await self.own_id()
        urls = {info.broker_id: info.admin_url for info in infos if info.status != UNREACHABLE}
        if only is not None:
            urls = {only: urls.get(only, "")} if only in urls or only == own_id else {}
        return {each: self._pool.endpoint if each == own_id else self._pool.to(url) for each, url in urls.items()}

    async def own_id(self) -> str:
        """The id of the broker behind the endpoint."""
        if self._pool.endpoint.url not in self._own_ids:
            described = await self._pool.endpoint.ask(
                _DESCRIBE, control.DESCRIBE_BROKER, None, control.BROKER_DESCRIPTION
            )
            self._own_ids[self._pool.endpoint.url] = described.info.broker_id
        return self._own_ids[self._pool.endpoint.url]


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
