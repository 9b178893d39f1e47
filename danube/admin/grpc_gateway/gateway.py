"""`AdminGateway` over gRPC: our brokers, and the original's as far as it goes."""

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace

from danube.admin.gateway import AuditLogPlace, Connection, SystemRecord
from danube.admin.grpc_gateway.broker_connection import ConnectionPool, carrier_for
from danube.admin.grpc_gateway.calls import BROKERS, NAMESPACES, TOPICS, AdminCalls, reachable
from danube.admin.grpc_gateway.original import OriginalAnswers, OriginalPlansAndAudit, real_subscriptions
from danube.admin.grpc_gateway.plans_and_audit import BrokerPlansAndAudit
from danube.admin.grpc_gateway.rules import RuleCalls
from danube.admin.grpc_gateway.system_topics import read_system_topic
from danube.admin.local_state import LocalState, state_folder
from danube.admin.target import Target
from danube.model.calls.admin import (
    AddNode,
    BrokerDescription,
    BrokerInfo,
    ClusterDescription,
    CreatePartitionedTopic,
    CreateTopic,
    DescribeTopics,
    NamespacePolicies,
    RaftStatus,
    TopicDetails,
    TopicInfo,
    TopicsPage,
)
from danube.model.errors import (
    InvalidRequestError,
    NotFoundError,
    NotPermittedError,
    PreconditionFailedError,
    TopicNotFoundError,
    TopicNotServedError,
    UnavailableError,
    UnsupportedError,
)
from danube.model.plans.plan import Arguments, Decision, Plan, PlanApplication, PlanRequest
from danube.model.records.audit import AUDIT_TOPIC, AuditEntry, AuditPage, AuditReceipt
from danube.model.topic import TopicName
from danube.runtime.blocking import BlockingThread
from danube.runtime.clock import SystemClock
from danube.runtime.rng import SystemRng
from danube.wire import admin_messages, control_messages

_INSPECTION = "/danube.control.Inspection"
_CLUSTER = "/danube.control.Cluster"
PlansAndAudit = BrokerPlansAndAudit | OriginalPlansAndAudit
"""Those that keep plans and audit log."""


@asynccontextmanager
async def opened(target: Target) -> AsyncIterator["GrpcGateway"]:
    """As `open_gateway`."""
    clock = SystemClock()
    async with AsyncExitStack() as parts:
        runner = BlockingThread("admin-files")
        parts.push_async_callback(runner.aclose)
        pool = ConnectionPool(target, await carrier_for(target, clock, runner))
        parts.push_async_callback(pool.close)
        folder = state_folder(target.endpoint, os.environ)
        yield GrpcGateway(pool, LocalState(folder, target.endpoint, clock=clock, rng=SystemRng(), runner=runner))


class GrpcGateway(RuleCalls):
    """One cluster, through the admin port of one of its brokers."""

    def __init__(self, pool: ConnectionPool, state: LocalState) -> None:
        self._pool = pool
        self._broker = pool.endpoint
        self._state = state
        self._connection: Connection | None = None
        self._calls = AdminCalls(pool)
        self._original = OriginalAnswers(self._calls)
        self._of_broker = BrokerPlansAndAudit(pool.endpoint)
        self._of_original = OriginalPlansAndAudit(self._calls, state)

    async def connection(self) -> Connection:
        if self._connection is None:
            is_ours = await self._is_ours_by_its_answer()
            folder = None if is_ours else str(self._state.folder)
            self._connection = Connection(endpoint=self._broker.url, is_ours=is_ours, state_folder=folder)
        return self._connection

    # Brokers and cluster

    async def brokers(self) -> Sequence[BrokerInfo]:
        return await self._calls.brokers()

    async def leader(self) -> str | None:
        return admin_messages.LEADER.decode(await self._broker.call(f"{BROKERS}/GetLeaderBroker"))

    async def raft_status(self) -> RaftStatus:
        return await self._calls.raft_status()

    async def describe_cluster(self) -> ClusterDescription:
        await self._require_ours("tell who takes part in its cluster")
        return control_messages.CLUSTER_DESCRIPTION.decode(await self._broker.call(f"{_CLUSTER}/DescribeCluster"))

    async def add_node(self, wanted: AddNode) -> str:
        if not await self._is_ours():
            wanted = await self._calls.waiting_node(wanted)
        return await self._calls.add_node(wanted)

    async def transfer_leadership(self, node_id: str | None) -> str:
        await self._require_ours("let another one lead")
        request = control_messages.TRANSFER_LEADERSHIP.encode(node_id)
        return control_messages.LEADERSHIP_TRANSFERRED.decode(
            await self._broker.call(f"{_CLUSTER}/TransferLeadership", request)
        )

    async def describe_broker(self) -> BrokerDescription:
        await self._require_ours("tell its load and its journal")
        answer = await self._broker.call(f"{_INSPECTION}/DescribeBroker", control_messages.DESCRIBE_BROKER.encode(None))
        description = control_messages.BROKER_DESCRIPTION.decode(answer)
        connect_url = self._pool.dialled(description.connect_url)
        return replace(description, info=reachable(description.info, self._pool), connect_url=connect_url)

    # Namespaces

    async def namespaces(self) -> Sequence[str]:
        return await self._calls.namespaces()

    async def namespace_policies(self, namespace: str) -> NamespacePolicies:
        request = admin_messages.NAMESPACE.encode(namespace)
        return admin_messages.POLICIES.decode(await self._broker.call(f"{NAMESPACES}/GetNamespacePolicies", request))

    async def create_namespace(self, namespace: str) -> None:
        try:
            await self._calls.done(f"{NAMESPACES}/CreateNamespace", admin_messages.NAMESPACE.encode(namespace))
        except NotFoundError as error:
            if await self._is_ours():
                raise
            await self._original.explain_namespace_refused(namespace, error)

    # Topics and subscriptions

    async def topics(self, namespace: str) -> Sequence[TopicInfo]:
        found = await self._calls.topics(namespace)
        if not found and not await self._is_ours():
            await self._original.require_namespace(namespace)
        return found

    async def topics_on(self, broker_id: str) -> Sequence[TopicInfo]:
        found = await self._calls.topics_on(broker_id)
        if not found and not await self._is_ours():
            await self._original.require_broker(broker_id)
        return found

    async def topic(self, topic: TopicName) -> TopicDetails:
        details = await self._calls.topic(topic)
        if await self._is_ours():
            return details
        if details.info.broker_id is None:
            await self._original.require_topic(topic)
        info = replace(details.info, topic=topic)
        return replace(details, info=info, subscriptions=tuple(real_subscriptions(details.subscriptions)))

    async def describe_topics(self, wanted: DescribeTopics) -> TopicsPage:
        await self._require_ours("tell lag and consumers")
        request, path = control_messages.DESCRIBE_TOPICS.encode(wanted), f"{_INSPECTION}/DescribeTopics"
        if len(wanted.topics) == 1:  # several may be served by several brokers, and are asked for one by one
            return control_messages.TOPICS_PAGE.decode(await self._calls.at(wanted.topics[0], path, request))
        return control_messages.TOPICS_PAGE.decode(await self._broker.call(path, request))

    async def create_topic(self, wanted: CreateTopic) -> None:
        await self._create(f"{TOPICS}/CreateTopic", admin_messages.CREATE_TOPIC.encode(wanted), wanted.topic)

    async def create_partitioned_topic(self, wanted: CreatePartitionedTopic) -> None:
        request = admin_messages.CREATE_PARTITIONED_TOPIC.encode(wanted)
        await self._create(f"{TOPICS}/CreatePartitionedTopic", request, wanted.base)

    async def subscriptions(self, topic: TopicName) -> Sequence[str]:
        found = await self._calls.subscriptions(topic)
        if await self._is_ours():
            return found
        if not found:
            await self._original.require_topic(topic)
        return real_subscriptions(found)

    # Plans and audit

    async def create_plan(self, request: PlanRequest) -> Plan:
        plans_and_audit = await self._plans_and_audit()
        try:
            return await plans_and_audit.create_plan(request)
        except TopicNotServedError as refusal:
            return await (await self._plans_and_audit_at(request.arguments, refusal)).create_plan(request)

    async def plan(self, plan_id: str) -> Plan:
        return await (await self._plans_and_audit()).plan(plan_id)

    async def plans(self) -> Sequence[Plan]:
        return await (await self._plans_and_audit()).plans()

    async def decide_plan(self, decision: Decision) -> Plan:
        return await (await self._plans_and_audit()).decide_plan(decision)

    async def apply_plan(self, application: PlanApplication) -> Plan:
        plans_and_audit = await self._plans_and_audit()
        try:
            return await plans_and_audit.apply_plan(application)
        except TopicNotServedError as refusal:
            return await (await self._plans_and_audit_at(application.arguments, refusal)).apply_plan(application)

    async def record(self, entry: AuditEntry) -> AuditReceipt:
        return await (await self._plans_and_audit()).record(entry)

    async def audit(self, start: int, limit: int, log: AuditLogPlace | None = None) -> AuditPage:
        if log is None:
            return await (await self._plans_and_audit()).audit(start, limit)
        if log.admin_url is None:
            raise UnavailableError(
                f"no broker that runs serves {log.topic}: start {f'broker {log.broker_id}' if log.broker_id else 'one'}"
            )
        return await BrokerPlansAndAudit(self._pool.to(log.admin_url)).audit(start, limit, log.topic)

    async def audit_logs(self) -> Sequence[AuditLogPlace]:
        if not await self._is_ours():
            return ()
        urls = {info.broker_id: info.admin_url for info in await self._calls.running()}
        urls[(await self.describe_broker()).info.broker_id] = self._broker.url  # as it was dialled
        infos = [info for info in await self.topics(AUDIT_TOPIC.namespace) if info.topic.is_of(AUDIT_TOPIC)]
        return [
            AuditLogPlace(topic=info.topic, broker_id=info.broker_id, admin_url=urls.get(info.broker_id or ""))
            for info in infos
        ]

    # System topics

    async def system_records(self, topic: TopicName, *, since_ms: int, limit: int) -> Sequence[SystemRecord]:
        await self._require_ours("tell what it publishes about itself")
        try:
            return await self._system_records(topic, since_ms=since_ms, limit=limit)
        except TopicNotFoundError:  # in a cluster each broker has a partition of its own
            infos = [info for info in await self.topics(topic.namespace) if info.topic.base == topic]
        found: list[SystemRecord] = []
        for info in infos:
            with suppress(TopicNotFoundError, UnavailableError):  # a broker that does not run says nothing
                most = limit // len(infos)
                found += await self._system_records(info.topic, since_ms=since_ms, limit=most)
        return found

    # Beneath

    async def _system_records(self, topic: TopicName, *, since_ms: int, limit: int) -> Sequence[SystemRecord]:
        broker = self._pool.to(await self._client_url(topic))
        return await read_system_topic(broker, topic, since_ms=since_ms, limit=limit)

    async def _client_url(self, topic: TopicName) -> str:
        """The URL at which clients dial the broker that serves a topic."""
        broker_id = (await self.topic(topic)).info.broker_id
        description = await self.describe_broker()
        if broker_id in {None, description.info.broker_id}:
            return description.connect_url
        urls = {info.broker_id: info.broker_url for info in await self._calls.running()}
        return urls.get(broker_id or "", description.connect_url)

    async def _is_ours_by_its_answer(self) -> bool:
        """The original has no such call; which one is asked does not matter, so it is one that costs little."""
        try:
            await self._of_broker.audit(0, 1)
        except UnsupportedError:
            return False
        except (NotPermittedError, InvalidRequestError):
            return True
        return True

    async def _is_ours(self) -> bool:
        return (await self.connection()).is_ours

    async def _require_ours(self, act: str) -> None:
        if not await self._is_ours():
            raise UnsupportedError(
                f"the broker at {self._broker.url} does not {act}: the original has no such call, only brokers of"
                " this project do"
            )

    async def _plans_and_audit(self) -> PlansAndAudit:
        return self._of_broker if await self._is_ours() else self._of_original

    async def _plans_and_audit_at(self, arguments: Arguments, refusal: TopicNotServedError) -> PlansAndAudit:
        """At the broker that serves the topic which an operation is about: it alone knows what it would touch.

        Raises PreconditionFailedError for an operation about a whole namespace that other brokers have topics of.
        """
        if arguments.get("topic") is None:
            what = str(refusal).partition(": look it up")[0]
            raise PreconditionFailedError(
                f"no broker can say what that would mean unless it has all topics of the namespace: {what}. Do it topic"
                " by topic, or name the broker that has all of them with --endpoint"
            )
        return BrokerPlansAndAudit(await self._calls.serving(TopicName.parse(str(arguments["topic"]))))

    async def _create(self, path: str, request: bytes, topic: TopicName) -> None:
        try:
            await self._calls.done(path, request)
        except NotFoundError as error:
            if await self._is_ours():
                raise
            await self._original.explain_topic_refused(topic, error)
