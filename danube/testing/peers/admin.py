"""An administrator that makes each call by itself and retries nothing, on a channel to the admin port."""

from collections.abc import Iterable, Mapping, Sequence

from danube.model.calls.admin import (
    BrokerDescription,
    BrokerInfo,
    CreatePartitionedTopic,
    CreateTopic,
    DescribeCursor,
    DescribeTopics,
    NamespacePolicies,
    TopicDescription,
    TopicDetails,
    TopicInfo,
    TopicsPage,
    Unsubscribe,
)
from danube.model.calls.positions import (
    AddPartitions,
    Connection,
    CreateSubscription,
    DisconnectClient,
    PeekedPage,
    PeekMessages,
    SeekSubscription,
    SubscriptionPosition,
)
from danube.model.calls.schemas import RegisteredSchema, RegisterVersion
from danube.model.calls.stream import FetchFrom, FetchStart
from danube.model.limits.broker import AUDIT_PAGE_MAX, DESCRIBE_TOPICS_DEFAULT, PEEK_PAYLOAD_BYTES_MAX, PLANS_PAGE_MAX
from danube.model.plans.plan import (
    Caller,
    Decision,
    Effect,
    Face,
    ListPlans,
    Plan,
    PlanApplication,
    PlanCursor,
    PlanRequest,
    PlansPage,
)
from danube.model.policies import (
    FailurePolicy,
    Policies,
    PoliciesView,
    PolicyChange,
    SetDispatchWindow,
    SetFailurePolicy,
    SetNamespacePolicies,
    SetTopicPolicies,
    SubscriptionName,
)
from danube.model.records.audit import AuditEntry, AuditPage, AuditReceipt, ReadAudit
from danube.model.subscription import SubscriptionType
from danube.model.topic import DispatchStrategy, TopicName
from danube.testing.peers.calls import Calls, Request
from danube.wire import admin_messages as admin
from danube.wire import control_messages as control
from danube.wire import plan_messages as plans
from danube.wire import schema_messages as schemas
from danube.wire.codec import Codec

TOPICS = "/danube_admin.TopicAdmin"
NAMESPACES = "/danube_admin.NamespaceAdmin"
BROKERS = "/danube_admin.BrokerAdmin"
INSPECTION = "/danube.control.Inspection"
PLANS = "/danube.control.Plans"
AUDIT = "/danube.control.Audit"
POLICIES = "/danube.control.Policies"
POSITIONS = "/danube.control.Positions"
SCHEMAS = "/danube.control.Schemas"

PERSON = Caller(who="ada@desk", face=Face.CLI)
ASSISTANT = Caller(who="ada@desk", face=Face.MCP, client="host 1.0")


class AdminPeer(Calls):
    """The calls of an administrator."""

    async def create_topic(self, topic: TopicName, strategy: DispatchStrategy = DispatchStrategy.RELIABLE) -> None:
        """Create a topic."""
        await self._done(f"{TOPICS}/CreateTopic", admin.CREATE_TOPIC, CreateTopic(topic=topic, strategy=strategy))

    async def create_partitioned_topic(self, base: TopicName, partitions: int) -> None:
        """Create the partitions of a reliable topic."""
        wanted = CreatePartitionedTopic(base=base, partitions=partitions, strategy=DispatchStrategy.RELIABLE)
        await self._done(f"{TOPICS}/CreatePartitionedTopic", admin.CREATE_PARTITIONED_TOPIC, wanted)

    async def register_schema(self, wanted: RegisterVersion) -> RegisteredSchema:
        """Register a version of a schema."""
        return await self.ask(
            f"{SCHEMAS}/RegisterVersion", schemas.REGISTER_VERSION, wanted, schemas.VERSION_REGISTERED
        )

    async def bind_schema(self, topic: TopicName, subject: str, policy: str = "warn") -> None:
        """Have a topic follow a subject."""
        wanted = (str(topic), subject, policy, False)
        path = "/danube_schema.SchemaRegistry/ConfigureTopicSchema"
        await self.ask(path, schemas.CONFIGURE_TOPIC_SCHEMA, wanted, schemas.OUTCOME)

    async def delete_topic(self, topic: TopicName) -> None:
        """Delete a topic, or all partitions of a base name."""
        await self._done(f"{TOPICS}/DeleteTopic", admin.TOPIC, topic)

    async def topics(self, namespace: str) -> Sequence[TopicInfo]:
        """List the topics of a namespace."""
        return await self.ask(f"{TOPICS}/ListNamespaceTopics", admin.NAMESPACE, namespace, admin.TOPICS)

    async def topics_on(self, broker_id: str) -> Sequence[TopicInfo]:
        """List the topics of a broker."""
        return await self.ask(f"{TOPICS}/ListBrokerTopics", admin.BROKER, broker_id, admin.TOPICS)

    async def topic(self, topic: TopicName) -> TopicDetails:
        """Show a topic."""
        return await self.ask(f"{TOPICS}/DescribeTopic", admin.TOPIC, topic, admin.TOPIC_DETAILS)

    async def subscriptions(self, topic: TopicName) -> Sequence[str]:
        """List the subscriptions of a topic."""
        return await self.ask(f"{TOPICS}/ListSubscriptions", admin.TOPIC, topic, admin.SUBSCRIPTIONS)

    async def unsubscribe(self, topic: TopicName, subscription: str = "subscription") -> None:
        """Delete a subscription."""
        wanted = Unsubscribe(topic=topic, subscription=subscription)
        await self._done(f"{TOPICS}/Unsubscribe", admin.UNSUBSCRIBE, wanted)

    async def namespaces(self) -> Sequence[str]:
        """List the namespaces."""
        return await self.ask(f"{BROKERS}/ListNamespaces", admin.EMPTY, None, admin.NAMESPACES)

    async def namespace_topics(self, namespace: str) -> Sequence[TopicName]:
        """List the names of a namespace's topics, by the call that leaves the leading slash out."""
        path = f"{NAMESPACES}/GetNamespaceTopics"
        return await self.ask(path, admin.NAMESPACE, namespace, admin.NAMESPACE_TOPICS)

    async def policies(self, namespace: str) -> NamespacePolicies:
        """Show the limits of a namespace."""
        return await self.ask(f"{NAMESPACES}/GetNamespacePolicies", admin.NAMESPACE, namespace, admin.POLICIES)

    async def create_namespace(self, namespace: str) -> None:
        """Create a namespace."""
        await self._done(f"{NAMESPACES}/CreateNamespace", admin.NAMESPACE, namespace)

    async def delete_namespace(self, namespace: str) -> None:
        """Delete a namespace."""
        await self._done(f"{NAMESPACES}/DeleteNamespace", admin.NAMESPACE, namespace)

    async def brokers(self) -> Sequence[BrokerInfo]:
        """List the brokers."""
        return await self.ask(f"{BROKERS}/ListBrokers", admin.EMPTY, None, admin.BROKERS)

    async def leader(self) -> str | None:
        """Ask who leads."""
        return await self.ask(f"{BROKERS}/GetLeaderBroker", admin.EMPTY, None, admin.LEADER)

    async def describe_page(
        self,
        *topics: TopicName,
        namespace: str | None = None,
        page_size: int = DESCRIBE_TOPICS_DEFAULT,
        after: DescribeCursor | None = None,
    ) -> TopicsPage:
        """Describe a page of topics."""
        wanted = DescribeTopics(namespace=namespace, topics=topics, page_size=page_size, after=after)
        return await self.ask(f"{INSPECTION}/DescribeTopics", control.DESCRIBE_TOPICS, wanted, control.TOPICS_PAGE)

    async def describe(self, *topics: TopicName) -> tuple[TopicDescription, ...]:
        """Describe topics that fit on one page."""
        return (await self.describe_page(*topics)).topics

    async def describe_broker(self) -> BrokerDescription:
        """Describe the broker that is asked."""
        path = f"{INSPECTION}/DescribeBroker"
        return await self.ask(path, control.DESCRIBE_BROKER, None, control.BROKER_DESCRIPTION)

    async def plan(
        self,
        operation: str,
        *,
        effect: Effect = Effect.DESTROY,
        caller: Caller = PERSON,
        needs_approval: bool = False,
        dry_run: bool = False,
        **arguments: object,
    ) -> Plan:
        """Ask for a plan."""
        request = PlanRequest(
            operation=operation,
            arguments=arguments,
            effect=effect,
            caller=caller,
            needs_approval=needs_approval,
            dry_run=dry_run,
        )
        return await self.ask(f"{PLANS}/CreatePlan", plans.CREATE_PLAN, request, plans.PLAN)

    async def get_plan(self, plan_id: str) -> Plan:
        """Show a plan."""
        return await self.ask(f"{PLANS}/GetPlan", plans.GET_PLAN, plan_id, plans.PLAN)

    async def plans_page(
        self, *, page_size: int = PLANS_PAGE_MAX, open_only: bool = False, after: PlanCursor | None = None
    ) -> PlansPage:
        """List a page of plans."""
        wanted = ListPlans(page_size=page_size, open_only=open_only, after=after)
        return await self.ask(f"{PLANS}/ListPlans", plans.LIST_PLANS, wanted, plans.PLANS_PAGE)

    async def decide(self, plan_id: str, *, approve: bool = True, caller: Caller = PERSON) -> Plan:
        """Approve or reject a plan."""
        decision = Decision(plan_id=plan_id, approve=approve, caller=caller)
        return await self.ask(f"{PLANS}/DecidePlan", plans.DECIDE_PLAN, decision, plans.PLAN)

    async def apply(self, plan: Plan, *, caller: Caller = PERSON) -> Plan:
        """Apply a plan, for the operation and arguments that it was made for."""
        application = PlanApplication(
            plan_id=plan.plan_id, operation=plan.operation, arguments=plan.arguments, caller=caller
        )
        return await self.ask(f"{PLANS}/ApplyPlan", plans.APPLY_PLAN, application, plans.PLAN)

    async def record(self, entry: AuditEntry) -> AuditReceipt:
        """Write an entry into the audit log."""
        return await self.ask(f"{AUDIT}/Record", plans.AUDIT_ENTRY, entry, plans.AUDIT_RECEIPT)

    async def audit(self, start: int = 0, limit: int = AUDIT_PAGE_MAX, topic: TopicName | None = None) -> AuditPage:
        """Read a page of the broker's own audit log, or of another one."""
        request = plans.READ_AUDIT.encode(ReadAudit(start=start, limit=limit, topic=topic))
        return plans.decode_audit_page(await self.call(f"{AUDIT}/Read", request))

    async def set_failure_policy(
        self, topic: TopicName, policy: FailurePolicy, subscription: str = "subscription"
    ) -> None:
        """Replace the failure policy of a subscription."""
        wanted = SetFailurePolicy(name=_name(topic, subscription), policy=policy)
        await self._done(f"{TOPICS}/SetSubscriptionFailurePolicy", admin.SET_FAILURE_POLICY, wanted)

    async def failure_policy(
        self, topic: TopicName, subscription: str = "subscription"
    ) -> tuple[FailurePolicy | None, SubscriptionType]:
        """Ask for the failure policy that was set, and for the subscription's type."""
        path, name = f"{TOPICS}/GetSubscriptionFailurePolicy", _name(topic, subscription)
        policy, kind = await self.ask(path, admin.SUBSCRIPTION, name, admin.FAILURE_POLICY)
        return policy, kind

    async def set_window(self, topic: TopicName, window: int, subscription: str = "subscription") -> None:
        """Replace how many messages a consumer may hold unacknowledged."""
        wanted = SetDispatchWindow(name=_name(topic, subscription), window=window)
        await self._done(f"{TOPICS}/SetSubscriptionDispatchConfig", admin.SET_DISPATCH_WINDOW, wanted)

    async def window(self, topic: TopicName, subscription: str = "subscription") -> int | None:
        """Ask how many messages a consumer may hold unacknowledged, if that was set."""
        path, name = f"{TOPICS}/GetSubscriptionDispatchConfig", _name(topic, subscription)
        return await self.ask(path, admin.SUBSCRIPTION, name, admin.DISPATCH_WINDOW)

    async def namespace_policies(self, namespace: str) -> PoliciesView:
        """Ask for the limits of a namespace, as they were set and as they hold."""
        path = f"{POLICIES}/GetNamespacePolicies"
        return await self.ask(path, control.NAMESPACE_POLICIES_OF, namespace, control.POLICIES_VIEW)

    async def set_namespace_policies(self, namespace: str, *unset: str, **limits: int) -> PoliciesView:
        """Set some limits of a namespace and unset others."""
        wanted = SetNamespacePolicies(namespace=namespace, change=_change(limits, unset))
        path = f"{POLICIES}/SetNamespacePolicies"
        return await self.ask(path, control.SET_NAMESPACE_POLICIES, wanted, control.POLICIES_VIEW)

    async def topic_policies(self, topic: TopicName) -> PoliciesView:
        """Ask for the limits of a topic, as they were set and as they hold."""
        return await self.ask(f"{POLICIES}/GetTopicPolicies", control.TOPIC_POLICIES_OF, topic, control.POLICIES_VIEW)

    async def set_topic_policies(self, topic: TopicName, *unset: str, **limits: int) -> PoliciesView:
        """Set some limits of a topic and unset others."""
        wanted = SetTopicPolicies(topic=topic, change=_change(limits, unset))
        return await self.ask(f"{POLICIES}/SetTopicPolicies", control.SET_TOPIC_POLICIES, wanted, control.POLICIES_VIEW)

    async def create_subscription(
        self,
        topic: TopicName,
        subscription: str = "subscription",
        kind: SubscriptionType = SubscriptionType.EXCLUSIVE,
        start: FetchStart = FetchFrom.LATEST,
    ) -> SubscriptionPosition:
        """Create a subscription that nobody has subscribed to."""
        wanted = CreateSubscription(name=_name(topic, subscription), type=kind, start=start)
        path = f"{POSITIONS}/CreateSubscription"
        return await self.ask(path, control.CREATE_SUBSCRIPTION, wanted, control.POSITION)

    async def seek(self, topic: TopicName, to: FetchStart, subscription: str = "subscription") -> SubscriptionPosition:
        """Move a subscription to another position, where no unread message is skipped."""
        wanted = SeekSubscription(name=_name(topic, subscription), to=to)
        return await self.ask(f"{POSITIONS}/Seek", control.SEEK, wanted, control.POSITION)

    async def retry_blocked(self, topic: TopicName, subscription: str = "subscription") -> SubscriptionPosition:
        """Send what blocks a subscription again."""
        path, name = f"{POSITIONS}/RetryBlocked", _name(topic, subscription)
        return await self.ask(path, control.SUBSCRIPTION, name, control.POSITION)

    async def peek(
        self,
        topic: TopicName,
        start: FetchStart = FetchFrom.EARLIEST,
        *,
        count: int = 0,
        payload_bytes_max: int = PEEK_PAYLOAD_BYTES_MAX,
    ) -> PeekedPage:
        """Read stored messages without a subscription."""
        wanted = PeekMessages(topic=topic, start=start, count=count, payload_bytes_max=payload_bytes_max)
        return await self.ask(f"{POSITIONS}/Peek", control.PEEK, wanted, control.PEEKED)

    async def add_partitions(self, base: TopicName, count: int) -> Sequence[TopicName]:
        """Give a partitioned topic more partitions; answers all it has."""
        wanted = AddPartitions(base=base, count=count)
        return await self.ask(f"{POSITIONS}/AddPartitions", control.ADD_PARTITIONS, wanted, control.PARTITIONS)

    async def connections(self, topic: TopicName) -> tuple[tuple[Connection, ...], int]:
        """List who is connected to a topic, and how many there are."""
        return await self.ask(f"{POSITIONS}/ListConnections", control.LIST_CONNECTIONS, topic, control.CONNECTIONS)

    async def disconnect(self, topic: TopicName, client_id: int) -> None:
        """Detach a producer or end a consumer's stream."""
        wanted = DisconnectClient(topic=topic, client_id=client_id)
        await self.ask(f"{POSITIONS}/DisconnectClient", control.DISCONNECT_CLIENT, wanted, control.DISCONNECTED)

    async def _done(self, path: str, request: Codec[Request], value: Request) -> None:
        if not await self.ask(path, request, value, admin.DONE):
            raise AssertionError(f"{path} answered OK and no success")


def _name(topic: TopicName, subscription: str) -> SubscriptionName:
    return SubscriptionName(topic=topic, subscription=subscription)


def _change(limits: Mapping[str, int], unset: Iterable[str]) -> PolicyChange:
    return PolicyChange(given=Policies(**limits), unset=frozenset(unset))
