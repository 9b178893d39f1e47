"""An administrator that makes each call by itself and retries nothing, on a channel to the admin port."""

from collections.abc import Sequence

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
from danube.rpc.carrier import Channel
from danube.testing.patience import PATIENCE_S
from danube.wire import admin_messages, control_messages, plan_messages

PERSON = Caller(who="ada@desk", face=Face.CLI)
ASSISTANT = Caller(who="ada@desk", face=Face.MCP, client="host 1.0")


class AdminPeer:
    """Calls over one channel; each raises the DanubeError that the broker answers."""

    def __init__(self, channel: Channel, *, timeout_s: float = PATIENCE_S) -> None:
        self._channel = channel
        self._timeout_s = timeout_s

    async def call(self, path: str, request: bytes = b"") -> bytes:
        """One unary call, as it is."""
        return await self._channel.call(path, request, timeout_s=self._timeout_s)

    async def create_topic(self, topic: TopicName, strategy: DispatchStrategy = DispatchStrategy.RELIABLE) -> None:
        """Create a topic."""
        request = admin_messages.CREATE_TOPIC.encode(CreateTopic(topic=topic, strategy=strategy))
        await self._done("/danube_admin.TopicAdmin/CreateTopic", request)

    async def create_partitioned_topic(self, base: TopicName, partitions: int) -> None:
        """Create the partitions of a reliable topic."""
        request = CreatePartitionedTopic(base=base, partitions=partitions, strategy=DispatchStrategy.RELIABLE)
        await self._done(
            "/danube_admin.TopicAdmin/CreatePartitionedTopic", admin_messages.CREATE_PARTITIONED_TOPIC.encode(request)
        )

    async def delete_topic(self, topic: TopicName) -> None:
        """Delete a topic, or all partitions of a base name."""
        await self._done("/danube_admin.TopicAdmin/DeleteTopic", admin_messages.TOPIC.encode(topic))

    async def topics(self, namespace: str) -> Sequence[TopicInfo]:
        """List the topics of a namespace."""
        path = "/danube_admin.TopicAdmin/ListNamespaceTopics"
        return admin_messages.TOPICS.decode(await self.call(path, admin_messages.NAMESPACE.encode(namespace)))

    async def topics_on(self, broker_id: str) -> Sequence[TopicInfo]:
        """List the topics of a broker."""
        path = "/danube_admin.TopicAdmin/ListBrokerTopics"
        return admin_messages.TOPICS.decode(await self.call(path, admin_messages.BROKER.encode(broker_id)))

    async def topic(self, topic: TopicName) -> TopicDetails:
        """Show a topic."""
        answer = await self.call("/danube_admin.TopicAdmin/DescribeTopic", admin_messages.TOPIC.encode(topic))
        return admin_messages.TOPIC_DETAILS.decode(answer)

    async def subscriptions(self, topic: TopicName) -> Sequence[str]:
        """List the subscriptions of a topic."""
        answer = await self.call("/danube_admin.TopicAdmin/ListSubscriptions", admin_messages.TOPIC.encode(topic))
        return admin_messages.SUBSCRIPTIONS.decode(answer)

    async def unsubscribe(self, topic: TopicName, subscription: str = "subscription") -> None:
        """Delete a subscription."""
        request = admin_messages.UNSUBSCRIBE.encode(Unsubscribe(topic=topic, subscription=subscription))
        await self._done("/danube_admin.TopicAdmin/Unsubscribe", request)

    async def namespaces(self) -> Sequence[str]:
        """List the namespaces."""
        return admin_messages.NAMESPACES.decode(await self.call("/danube_admin.BrokerAdmin/ListNamespaces"))

    async def namespace_topics(self, namespace: str) -> Sequence[TopicName]:
        """List the names of a namespace's topics, by the call that leaves the leading slash out."""
        path = "/danube_admin.NamespaceAdmin/GetNamespaceTopics"
        return admin_messages.NAMESPACE_TOPICS.decode(await self.call(path, admin_messages.NAMESPACE.encode(namespace)))

    async def policies(self, namespace: str) -> NamespacePolicies:
        """Show the limits of a namespace."""
        path = "/danube_admin.NamespaceAdmin/GetNamespacePolicies"
        return admin_messages.POLICIES.decode(await self.call(path, admin_messages.NAMESPACE.encode(namespace)))

    async def create_namespace(self, namespace: str) -> None:
        """Create a namespace."""
        await self._done("/danube_admin.NamespaceAdmin/CreateNamespace", admin_messages.NAMESPACE.encode(namespace))

    async def delete_namespace(self, namespace: str) -> None:
        """Delete a namespace."""
        await self._done("/danube_admin.NamespaceAdmin/DeleteNamespace", admin_messages.NAMESPACE.encode(namespace))

    async def brokers(self) -> Sequence[BrokerInfo]:
        """List the brokers."""
        return admin_messages.BROKERS.decode(await self.call("/danube_admin.BrokerAdmin/ListBrokers"))

    async def leader(self) -> str | None:
        """Ask who leads."""
        return admin_messages.LEADER.decode(await self.call("/danube_admin.BrokerAdmin/GetLeaderBroker"))

    async def describe_page(
        self,
        *topics: TopicName,
        namespace: str | None = None,
        page_size: int = DESCRIBE_TOPICS_DEFAULT,
        after: DescribeCursor | None = None,
    ) -> TopicsPage:
        """Describe a page of topics."""
        wanted = DescribeTopics(namespace=namespace, topics=topics, page_size=page_size, after=after)
        path = "/danube.control.Inspection/DescribeTopics"
        return control_messages.TOPICS_PAGE.decode(
            await self.call(path, control_messages.DESCRIBE_TOPICS.encode(wanted))
        )

    async def describe(self, *topics: TopicName) -> tuple[TopicDescription, ...]:
        """Describe topics that fit on one page."""
        return (await self.describe_page(*topics)).topics

    async def describe_broker(self) -> BrokerDescription:
        """Describe the broker that is asked."""
        path = "/danube.control.Inspection/DescribeBroker"
        return control_messages.BROKER_DESCRIPTION.decode(
            await self.call(path, control_messages.DESCRIBE_BROKER.encode(None))
        )

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
        return plan_messages.PLAN.decode(
            await self.call("/danube.control.Plans/CreatePlan", plan_messages.CREATE_PLAN.encode(request))
        )

    async def get_plan(self, plan_id: str) -> Plan:
        """Show a plan."""
        answer = await self.call("/danube.control.Plans/GetPlan", plan_messages.GET_PLAN.encode(plan_id))
        return plan_messages.PLAN.decode(answer)

    async def plans_page(
        self, *, page_size: int = PLANS_PAGE_MAX, open_only: bool = False, after: PlanCursor | None = None
    ) -> PlansPage:
        """List a page of plans."""
        wanted = ListPlans(page_size=page_size, open_only=open_only, after=after)
        answer = await self.call("/danube.control.Plans/ListPlans", plan_messages.LIST_PLANS.encode(wanted))
        return plan_messages.PLANS_PAGE.decode(answer)

    async def decide(self, plan_id: str, *, approve: bool = True, caller: Caller = PERSON) -> Plan:
        """Approve or reject a plan."""
        decision = Decision(plan_id=plan_id, approve=approve, caller=caller)
        answer = await self.call("/danube.control.Plans/DecidePlan", plan_messages.DECIDE_PLAN.encode(decision))
        return plan_messages.PLAN.decode(answer)

    async def apply(self, plan: Plan, *, caller: Caller = PERSON) -> Plan:
        """Apply a plan, for the operation and arguments that it was made for."""
        application = PlanApplication(
            plan_id=plan.plan_id, operation=plan.operation, arguments=plan.arguments, caller=caller
        )
        answer = await self.call("/danube.control.Plans/ApplyPlan", plan_messages.APPLY_PLAN.encode(application))
        return plan_messages.PLAN.decode(answer)

    async def record(self, entry: AuditEntry) -> AuditReceipt:
        """Write an entry into the audit log."""
        answer = await self.call("/danube.control.Audit/Record", plan_messages.AUDIT_ENTRY.encode(entry))
        return plan_messages.AUDIT_RECEIPT.decode(answer)

    async def audit(self, start: int = 0, limit: int = AUDIT_PAGE_MAX, topic: TopicName | None = None) -> AuditPage:
        """Read a page of the broker's own audit log, or of another one."""
        request = plan_messages.READ_AUDIT.encode(ReadAudit(start=start, limit=limit, topic=topic))
        return plan_messages.decode_audit_page(await self.call("/danube.control.Audit/Read", request))

    async def set_failure_policy(
        self, topic: TopicName, policy: FailurePolicy, subscription: str = "subscription"
    ) -> None:
        """Replace the failure policy of a subscription."""
        call = SetFailurePolicy(name=SubscriptionName(topic=topic, subscription=subscription), policy=policy)
        path = "/danube_admin.TopicAdmin/SetSubscriptionFailurePolicy"
        await self._done(path, admin_messages.SET_FAILURE_POLICY.encode(call))

    async def failure_policy(
        self, topic: TopicName, subscription: str = "subscription"
    ) -> tuple[FailurePolicy | None, SubscriptionType]:
        """Ask for the failure policy that was set, and for the subscription's type."""
        name = SubscriptionName(topic=topic, subscription=subscription)
        path = "/danube_admin.TopicAdmin/GetSubscriptionFailurePolicy"
        policy, kind = admin_messages.FAILURE_POLICY.decode(
            await self.call(path, admin_messages.SUBSCRIPTION.encode(name))
        )
        return policy, kind

    async def set_window(self, topic: TopicName, window: int, subscription: str = "subscription") -> None:
        """Replace how many messages a consumer may hold unacknowledged."""
        call = SetDispatchWindow(name=SubscriptionName(topic=topic, subscription=subscription), window=window)
        path = "/danube_admin.TopicAdmin/SetSubscriptionDispatchConfig"
        await self._done(path, admin_messages.SET_DISPATCH_WINDOW.encode(call))

    async def window(self, topic: TopicName, subscription: str = "subscription") -> int | None:
        """Ask how many messages a consumer may hold unacknowledged, if that was set."""
        name = SubscriptionName(topic=topic, subscription=subscription)
        path = "/danube_admin.TopicAdmin/GetSubscriptionDispatchConfig"
        return admin_messages.DISPATCH_WINDOW.decode(await self.call(path, admin_messages.SUBSCRIPTION.encode(name)))

    async def namespace_policies(self, namespace: str) -> PoliciesView:
        """Ask for the limits of a namespace, as they were set and as they hold."""
        path = "/danube.control.Policies/GetNamespacePolicies"
        return control_messages.POLICIES_VIEW.decode(
            await self.call(path, control_messages.NAMESPACE_POLICIES_OF.encode(namespace))
        )

    async def set_namespace_policies(self, namespace: str, *unset: str, **limits: int) -> PoliciesView:
        """Set some limits of a namespace and unset others."""
        change = PolicyChange(given=Policies(**limits), unset=frozenset(unset))
        request = control_messages.SET_NAMESPACE_POLICIES.encode(
            SetNamespacePolicies(namespace=namespace, change=change)
        )
        return control_messages.POLICIES_VIEW.decode(
            await self.call("/danube.control.Policies/SetNamespacePolicies", request)
        )

    async def topic_policies(self, topic: TopicName) -> PoliciesView:
        """Ask for the limits of a topic, as they were set and as they hold."""
        path = "/danube.control.Policies/GetTopicPolicies"
        return control_messages.POLICIES_VIEW.decode(
            await self.call(path, control_messages.TOPIC_POLICIES_OF.encode(topic))
        )

    async def set_topic_policies(self, topic: TopicName, *unset: str, **limits: int) -> PoliciesView:
        """Set some limits of a topic and unset others."""
        change = PolicyChange(given=Policies(**limits), unset=frozenset(unset))
        request = control_messages.SET_TOPIC_POLICIES.encode(SetTopicPolicies(topic=topic, change=change))
        return control_messages.POLICIES_VIEW.decode(
            await self.call("/danube.control.Policies/SetTopicPolicies", request)
        )

    async def create_subscription(
        self,
        topic: TopicName,
        subscription: str = "subscription",
        kind: SubscriptionType = SubscriptionType.EXCLUSIVE,
        start: FetchStart = FetchFrom.LATEST,
    ) -> SubscriptionPosition:
        """Create a subscription that nobody has subscribed to."""
        name = SubscriptionName(topic=topic, subscription=subscription)
        request = control_messages.CREATE_SUBSCRIPTION.encode(CreateSubscription(name=name, type=kind, start=start))
        return control_messages.POSITION.decode(
            await self.call("/danube.control.Positions/CreateSubscription", request)
        )

    async def seek(self, topic: TopicName, to: FetchStart, subscription: str = "subscription") -> SubscriptionPosition:
        """Put a subscription elsewhere, where no unread message is passed over."""
        name = SubscriptionName(topic=topic, subscription=subscription)
        request = control_messages.SEEK.encode(SeekSubscription(name=name, to=to))
        return control_messages.POSITION.decode(await self.call("/danube.control.Positions/Seek", request))

    async def retry_blocked(self, topic: TopicName, subscription: str = "subscription") -> SubscriptionPosition:
        """Send what blocks a subscription again."""
        request = control_messages.SUBSCRIPTION.encode(SubscriptionName(topic=topic, subscription=subscription))
        return control_messages.POSITION.decode(await self.call("/danube.control.Positions/RetryBlocked", request))

    async def peek(
        self,
        topic: TopicName,
        start: FetchStart = FetchFrom.EARLIEST,
        *,
        count: int = 0,
        payload_bytes_max: int = PEEK_PAYLOAD_BYTES_MAX,
    ) -> PeekedPage:
        """Look at stored messages."""
        wanted = PeekMessages(topic=topic, start=start, count=count, payload_bytes_max=payload_bytes_max)
        return control_messages.PEEKED.decode(
            await self.call("/danube.control.Positions/Peek", control_messages.PEEK.encode(wanted))
        )

    async def add_partitions(self, base: TopicName, count: int) -> Sequence[TopicName]:
        """Give a partitioned topic more partitions; answers all it has."""
        request = control_messages.ADD_PARTITIONS.encode(AddPartitions(base=base, count=count))
        return control_messages.PARTITIONS.decode(await self.call("/danube.control.Positions/AddPartitions", request))

    async def connections(self, topic: TopicName) -> tuple[tuple[Connection, ...], int]:
        """List who is connected to a topic, and how many there are."""
        request = control_messages.LIST_CONNECTIONS.encode(topic)
        return control_messages.CONNECTIONS.decode(
            await self.call("/danube.control.Positions/ListConnections", request)
        )

    async def disconnect(self, topic: TopicName, client_id: int) -> None:
        """Detach a producer or end a consumer's stream."""
        request = control_messages.DISCONNECT_CLIENT.encode(DisconnectClient(topic=topic, client_id=client_id))
        await self.call("/danube.control.Positions/DisconnectClient", request)

    async def _done(self, path: str, request: bytes) -> None:
        if not admin_messages.DONE.decode(await self.call(path, request)):
            raise AssertionError(f"{path} answered OK and no success")
