"""`AdminGateway` over gRPC: our brokers, and the original's as far as it goes."""

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial

from danube.admin.broker_names import learn_brokers, learn_members
from danube.admin.gateway import AuditLogPlace, ClusterTopics, Connection
from danube.admin.grpc_gateway.balance import BalanceCalls
from danube.admin.grpc_gateway.broker_connection import Answer, ConnectionPool, Request, carrier_for
from danube.admin.grpc_gateway.calls import BROKERS, NAMESPACES, TOPICS, AdminCalls, EveryBroker, reachable
from danube.admin.grpc_gateway.inspection import InspectionCalls, TopicDescriptions
from danube.admin.grpc_gateway.original import OriginalAnswers, OriginalPlansAndAudit, real_subscriptions
from danube.admin.grpc_gateway.plans_and_audit import BrokerPlansAndAudit
from danube.admin.grpc_gateway.prometheus import Prometheus
from danube.admin.grpc_gateway.schedules import ScheduleCalls
from danube.admin.grpc_gateway.schemas import SchemaCalls
from danube.admin.grpc_gateway.security import SecurityCalls
from danube.admin.grpc_gateway.system_topics import SystemTopicCalls
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
)
from danube.model.calls.positions import (
    AddPartitions,
    CreateSubscription,
    DisconnectClient,
    PeekedPage,
    PeekMessages,
    SubscriptionPosition,
)
from danube.model.calls.positions import Connection as TopicConnection
from danube.model.calls.schemas import (
    CheckedVersion,
    CheckVersion,
    FindVersion,
    ModeAnswer,
    RegisteredSchema,
    RegisterVersion,
    SchemaVersionInfo,
    SetMode,
    SubjectSummary,
    VersionDescription,
)
from danube.model.calls.topic_states import TopicStatesList
from danube.model.errors import (
    DeadlineExceededError,
    InvalidRequestError,
    NotFoundError,
    NotPermittedError,
    TopicNotServedError,
    UnavailableError,
    UnsupportedError,
)
from danube.model.limits.broker import CONNECTIONS_SHOWN_MAX
from danube.model.plans.plan import Arguments, Decision, Plan, PlanApplication, PlanRequest
from danube.model.policies import (
    FailurePolicy,
    PoliciesView,
    SetDispatchWindow,
    SetFailurePolicy,
    SetNamespacePolicies,
    SetTopicPolicies,
    SubscriptionName,
)
from danube.model.records.audit import AUDIT_TOPIC, AuditEntry, AuditPage, AuditReceipt
from danube.model.schema import TopicSchema, TopicSchemaConfig
from danube.model.subscription import SubscriptionType
from danube.model.topic import TopicName
from danube.runtime.blocking import BlockingThread
from danube.runtime.clock import SystemClock
from danube.runtime.rng import SystemRng
from danube.wire import admin_messages as messages
from danube.wire import control_messages as control
from danube.wire.codec import Codec

_BEYOND_ALL = 2**62
"""A record of no audit log."""
_INSPECTION = "/danube.control.Inspection"
_CLUSTER = "/danube.control.Cluster"
_POLICIES = "/danube.control.Policies"
_POSITIONS = "/danube.control.Positions"
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
        find_folder = partial(state_folder, target.endpoint, os.environ)
        state = LocalState(find_folder, target.endpoint, clock=clock, rng=SystemRng(), runner=runner)
        yield GrpcGateway(pool, state, Prometheus(target.prometheus, target.timeout_s) if target.prometheus else None)


class GrpcGateway(BalanceCalls, InspectionCalls, ScheduleCalls, SecurityCalls, SystemTopicCalls):
    """One cluster, through the admin port of one of its brokers."""

    def __init__(self, pool: ConnectionPool, state: LocalState, prometheus: Prometheus | None = None) -> None:
        self._prometheus = prometheus
        self._pool = pool
        self._broker = pool.endpoint
        self._state = state
        self._connection: Connection | None = None
        self._calls = AdminCalls(pool)
        self._each = EveryBroker(pool, self._calls, pool.each_s)
        self._descriptions = TopicDescriptions(self._calls, self._each)
        self._original = OriginalAnswers(self._calls)
        self._schemas = SchemaCalls(self._calls, self._is_ours)
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
        found = await self._calls.brokers()
        learn_brokers(found)
        return found

    async def leader(self) -> str | None:
        return await self._calls.ask(f"{BROKERS}/GetLeaderBroker", messages.EMPTY, None, messages.LEADER)

    async def raft_status(self) -> RaftStatus:
        return await self._calls.raft_status()

    async def describe_cluster(self) -> ClusterDescription:
        act, path = "tell who takes part in its cluster", f"{_CLUSTER}/DescribeCluster"
        found = await self._ours(act, path, messages.EMPTY, None, control.CLUSTER_DESCRIPTION)
        learn_members(found.members)
        return found

    async def add_node(self, wanted: AddNode) -> str:
        if not await self._is_ours():
            wanted = await self._calls.waiting_node(wanted)
        return await self._calls.add_node(wanted)

    async def transfer_leadership(self, node_id: str | None) -> str:
        act, path = "let another one lead", f"{_CLUSTER}/TransferLeadership"
        return await self._ours(act, path, control.TRANSFER_LEADERSHIP, node_id, control.LEADERSHIP_TRANSFERRED)

    async def describe_broker(self) -> BrokerDescription:
        act, path = "tell its load and its journal", f"{_INSPECTION}/DescribeBroker"
        description = await self._ours(act, path, control.DESCRIBE_BROKER, None, control.BROKER_DESCRIPTION)
        connect_url = self._pool.dialled(description.connect_url)
        return replace(description, info=reachable(description.info, self._pool), connect_url=connect_url)

    # Namespaces

    async def namespaces(self) -> Sequence[str]:
        return await self._calls.namespaces()

    async def namespace_policies(self, namespace: str) -> NamespacePolicies:
        path = f"{NAMESPACES}/GetNamespacePolicies"
        return await self._calls.ask(path, messages.NAMESPACE, namespace, messages.POLICIES)

    async def create_namespace(self, namespace: str) -> None:
        try:
            await self._calls.do(f"{NAMESPACES}/CreateNamespace", messages.NAMESPACE, namespace)
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

    async def describe_topics(self, wanted: DescribeTopics) -> ClusterTopics:
        await self._require_ours("tell lag and consumers")
        return await self._descriptions.page(wanted)

    async def topic_states(self, namespace: str | None) -> TopicStatesList:
        act, path = "tell states of topics", f"{_INSPECTION}/ListTopicStates"
        return await self._ours(act, path, control.LIST_TOPIC_STATES, namespace, control.TOPIC_STATES)

    async def create_topic(self, wanted: CreateTopic) -> None:
        await self._create(f"{TOPICS}/CreateTopic", messages.CREATE_TOPIC, wanted, wanted.topic)

    async def create_partitioned_topic(self, wanted: CreatePartitionedTopic) -> None:
        path = f"{TOPICS}/CreatePartitionedTopic"
        await self._create(path, messages.CREATE_PARTITIONED_TOPIC, wanted, wanted.base)

    async def subscriptions(self, topic: TopicName) -> Sequence[str]:
        found = await self._calls.subscriptions(topic)
        if await self._is_ours():
            return found
        if not found:
            await self._original.require_topic(topic)
        return real_subscriptions(found)

    # Policies of a subscription. Both kinds of brokers keep them for one that does not exist yet. The original answers
    # for whatever names it is given, so it is asked whether they are there.

    async def failure_policy(self, name: SubscriptionName) -> tuple[FailurePolicy | None, SubscriptionType]:
        path = f"{TOPICS}/GetSubscriptionFailurePolicy"
        policy, kind = await self._calls.ask(path, messages.SUBSCRIPTION, name, messages.FAILURE_POLICY, at=name.topic)
        if policy is None:
            await self._require_subscription(name)
        return policy, kind

    async def set_failure_policy(self, wanted: SetFailurePolicy) -> None:
        await self._require_topic(wanted.name.topic)
        path = f"{TOPICS}/SetSubscriptionFailurePolicy"
        await self._calls.do(path, messages.SET_FAILURE_POLICY, wanted, at=wanted.name.topic)

    async def dispatch_window(self, name: SubscriptionName) -> int | None:
        path = f"{TOPICS}/GetSubscriptionDispatchConfig"  # its request has the layout of the one for failure policies
        window = await self._calls.ask(path, messages.SUBSCRIPTION, name, messages.DISPATCH_WINDOW, at=name.topic)
        if window is None:
            await self._require_subscription(name)
        return window

    async def set_dispatch_window(self, wanted: SetDispatchWindow) -> None:
        await self._require_topic(wanted.name.topic)
        path = f"{TOPICS}/SetSubscriptionDispatchConfig"
        await self._calls.do(path, messages.SET_DISPATCH_WINDOW, wanted, at=wanted.name.topic)

    # Policies of topics and namespaces

    async def namespace_limits(self, namespace: str) -> PoliciesView:
        act, path = "tell all limits of a namespace", f"{_POLICIES}/GetNamespacePolicies"
        return await self._ours(act, path, control.NAMESPACE_POLICIES_OF, namespace, control.POLICIES_VIEW)

    async def set_namespace_policies(self, wanted: SetNamespacePolicies) -> PoliciesView:
        act, path = "change limits while it runs", f"{_POLICIES}/SetNamespacePolicies"
        return await self._ours(act, path, control.SET_NAMESPACE_POLICIES, wanted, control.POLICIES_VIEW)

    async def topic_policies(self, topic: TopicName) -> PoliciesView:
        act, path = "tell limits of a topic", f"{_POLICIES}/GetTopicPolicies"
        return await self._ours(act, path, control.TOPIC_POLICIES_OF, topic, control.POLICIES_VIEW, at=topic)

    async def set_topic_policies(self, wanted: SetTopicPolicies) -> PoliciesView:
        act, path = "set limits of a topic", f"{_POLICIES}/SetTopicPolicies"
        return await self._ours(act, path, control.SET_TOPIC_POLICIES, wanted, control.POLICIES_VIEW, at=wanted.topic)

    # Positions and connections

    async def create_subscription(self, wanted: CreateSubscription) -> SubscriptionPosition:
        act, path = "create subscriptions that nobody subscribes to", f"{_POSITIONS}/CreateSubscription"
        request, topic = control.CREATE_SUBSCRIPTION, wanted.name.topic
        return await self._ours(act, path, request, wanted, control.POSITION, at=topic)

    async def retry_blocked(self, name: SubscriptionName) -> SubscriptionPosition:
        act, path = "retry what blocks a subscription", f"{_POSITIONS}/RetryBlocked"
        return await self._ours(act, path, control.SUBSCRIPTION, name, control.POSITION, at=name.topic)

    async def peek(self, wanted: PeekMessages) -> PeekedPage:
        act, path = "show stored messages", f"{_POSITIONS}/Peek"
        return await self._ours(act, path, control.PEEK, wanted, control.PEEKED, at=wanted.topic)

    async def add_partitions(self, wanted: AddPartitions) -> Sequence[TopicName]:
        act, path = "add partitions", f"{_POSITIONS}/AddPartitions"
        return await self._ours(act, path, control.ADD_PARTITIONS, wanted, control.PARTITIONS, at=wanted.base)

    async def topic_connections(self, topic: TopicName) -> tuple[Sequence[TopicConnection], int]:
        act, path = "tell who is connected", f"{_POSITIONS}/ListConnections"
        try:
            return await self._ours(act, path, control.LIST_CONNECTIONS, topic, control.CONNECTIONS, at=topic)
        except TopicNotServedError:
            partitions = [info.topic for info in await self.topics(topic.namespace) if info.base == topic]
            if not partitions:
                raise
        asked = (
            self._calls.ask(path, control.LIST_CONNECTIONS, name, control.CONNECTIONS, at=name) for name in partitions
        )
        told = await asyncio.gather(*asked)
        shown = sorted(
            (each for found, _ in told for each in found),
            key=lambda each: (each.subscription is None, each.topic, each.subscription or "", each.name),
        )
        return shown[:CONNECTIONS_SHOWN_MAX], sum(count for _, count in told)

    async def disconnect(self, wanted: DisconnectClient) -> None:
        act, path = "disconnect clients", f"{_POSITIONS}/DisconnectClient"
        await self._ours(act, path, control.DISCONNECT_CLIENT, wanted, control.DISCONNECTED, at=wanted.topic)

    # The schema registry

    async def subjects(self) -> Sequence[SubjectSummary]:
        return await self._schemas.subjects()

    async def schema_versions(self, subject: str) -> Sequence[SchemaVersionInfo]:
        return await self._schemas.versions(subject)

    async def subject_of(self, schema_id: int) -> str:
        return await self._schemas.subject_of(schema_id)

    async def find_version(self, wanted: FindVersion) -> VersionDescription:
        return await self._schemas.find(wanted)

    async def register_version(self, wanted: RegisterVersion) -> RegisteredSchema:
        return await self._schemas.register(wanted)

    async def check_version(self, wanted: CheckVersion) -> CheckedVersion:
        return await self._schemas.check(wanted)

    async def schema_mode(self, wanted: SetMode) -> ModeAnswer:
        return await self._schemas.mode(wanted)

    async def configure_topic_schema(self, topic: TopicName, schema: TopicSchema) -> None:
        await self._schemas.configure_topic(topic, schema)

    async def topic_schema(self, topic: TopicName) -> TopicSchemaConfig:
        return await self._schemas.topic_schema(topic)

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

    async def record(self, entry: AuditEntry) -> AuditReceipt | None:
        return await (await self._plans_and_audit()).record(entry)

    async def audit(self, start: int, limit: int, log: AuditLogPlace | None = None) -> AuditPage:
        if log is None:
            return await (await self._plans_and_audit()).audit(start, limit)
        if log.admin_url is None:
            raise UnavailableError(
                f"no broker that runs serves {log.topic}: start {f'broker {log.broker_id}' if log.broker_id else 'one'}"
            )
        try:
            async with asyncio.timeout(self._pool.each_s):
                return await BrokerPlansAndAudit(self._pool.to(log.admin_url)).audit(start, limit, log.topic)
        except TimeoutError:
            raise DeadlineExceededError(f"broker {log.broker_id} did not answer in time") from None

    async def audit_logs(self) -> Sequence[AuditLogPlace]:
        if not await self._is_ours():
            return ()
        urls = {broker_id: broker.url for broker_id, broker in (await self._each.running()).items()}
        infos = [info for info in await self.topics(AUDIT_TOPIC.namespace) if info.topic.is_of(AUDIT_TOPIC)]
        return [
            AuditLogPlace(topic=info.topic, broker_id=info.broker_id, admin_url=urls.get(info.broker_id or ""))
            for info in infos
        ]

    # Beneath

    async def _is_ours_by_its_answer(self) -> bool:
        """The original has no such call; which one is asked does not matter, so it is one that reads nothing."""
        try:
            await self._of_broker.audit(_BEYOND_ALL, 1)
        except UnsupportedError:
            return False
        except (NotPermittedError, InvalidRequestError):
            return True
        return True

    async def _is_ours(self) -> bool:
        return (await self.connection()).is_ours

    async def _ours(
        self,
        act: str,
        path: str,
        request: Codec[Request],
        value: Request,
        answer: Codec[Answer],
        *,
        at: TopicName | None = None,
    ) -> Answer:
        """A call that only our brokers have: as `AdminCalls.ask`. Raises UnsupportedError, which says `act`."""
        await self._require_ours(act)
        return await self._calls.ask(path, request, value, answer, at=at)

    async def _require_topic(self, topic: TopicName) -> None:
        if not await self._is_ours():
            await self._original.require_topic(topic)

    async def _require_subscription(self, name: SubscriptionName) -> None:
        if not await self._is_ours():
            await self._original.require_subscription(name)

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

        Raises the refusal for an operation that is about no single topic.
        """
        if arguments.get("topic") is None:
            raise refusal
        return BrokerPlansAndAudit(await self._calls.serving(TopicName.parse(str(arguments["topic"]))))

    async def _create(self, path: str, request: Codec[Request], value: Request, topic: TopicName) -> None:
        try:
            await self._calls.do(path, request, value)
        except NotFoundError as error:
            if await self._is_ours():
                raise
            await self._original.explain_topic_refused(topic, error)
