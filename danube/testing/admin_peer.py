"""An administrator that makes each call by itself and retries nothing, on a channel to the admin port."""

from danube.model.admin_calls import (
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
from danube.model.audit import AuditEntry, AuditPage, AuditReceipt, ReadAudit
from danube.model.limits import AUDIT_PAGE_MAX, DESCRIBE_TOPICS_DEFAULT, PLANS_PAGE_MAX
from danube.model.plans import (
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
from danube.model.topic import DispatchStrategy, TopicName
from danube.rpc.carrier import Channel
from danube.wire import (
    decode_admin,
    decode_control,
    decode_oversight,
    encode_admin,
    encode_control,
    encode_oversight,
)

PERSON = Caller(who="ada@desk", face=Face.CLI)
ASSISTANT = Caller(who="ada@desk", face=Face.MCP, client="host 1.0")


class AdminPeer:
    """Calls over one channel; each raises the DanubeError that the broker answers."""

    def __init__(self, channel: Channel, *, timeout_s: float = 10.0) -> None:
        self._channel = channel
        self._timeout_s = timeout_s

    async def call(self, path: str, request: bytes = encode_admin.EMPTY) -> bytes:
        """One unary call, as it is."""
        return await self._channel.call(path, request, timeout_s=self._timeout_s)

    async def create_topic(self, topic: TopicName, strategy: DispatchStrategy = DispatchStrategy.RELIABLE) -> None:
        """Create a topic."""
        request = encode_admin.create_topic(CreateTopic(topic=topic, strategy=strategy))
        await self._done("/danube_admin.TopicAdmin/CreateTopic", request)

    async def create_partitioned_topic(self, base: TopicName, partitions: int) -> None:
        """Create the partitions of a reliable topic."""
        request = CreatePartitionedTopic(base=base, partitions=partitions, strategy=DispatchStrategy.RELIABLE)
        await self._done(
            "/danube_admin.TopicAdmin/CreatePartitionedTopic", encode_admin.create_partitioned_topic(request)
        )

    async def delete_topic(self, topic: TopicName) -> None:
        """Delete a topic, or all partitions of a base name."""
        await self._done("/danube_admin.TopicAdmin/DeleteTopic", encode_admin.topic(topic))

    async def topics(self, namespace: str) -> tuple[TopicInfo, ...]:
        """List the topics of a namespace."""
        path = "/danube_admin.TopicAdmin/ListNamespaceTopics"
        return decode_admin.topics(await self.call(path, encode_admin.namespace(namespace)))

    async def topics_on(self, broker_id: str) -> tuple[TopicInfo, ...]:
        """List the topics of a broker."""
        path = "/danube_admin.TopicAdmin/ListBrokerTopics"
        return decode_admin.topics(await self.call(path, encode_admin.broker(broker_id)))

    async def topic(self, topic: TopicName) -> TopicDetails:
        """Show a topic."""
        answer = await self.call("/danube_admin.TopicAdmin/DescribeTopic", encode_admin.topic(topic))
        return decode_admin.topic_details(answer)

    async def subscriptions(self, topic: TopicName) -> tuple[str, ...]:
        """List the subscriptions of a topic."""
        answer = await self.call("/danube_admin.TopicAdmin/ListSubscriptions", encode_admin.topic(topic))
        return decode_admin.subscriptions(answer)

    async def unsubscribe(self, topic: TopicName, subscription: str = "subscription") -> None:
        """Delete a subscription."""
        request = encode_admin.unsubscribe(Unsubscribe(topic=topic, subscription=subscription))
        await self._done("/danube_admin.TopicAdmin/Unsubscribe", request)

    async def namespaces(self) -> tuple[str, ...]:
        """List the namespaces."""
        return decode_admin.namespaces(await self.call("/danube_admin.BrokerAdmin/ListNamespaces"))

    async def namespace_topics(self, namespace: str) -> tuple[TopicName, ...]:
        """List the names of a namespace's topics, by the call that leaves the leading slash out."""
        path = "/danube_admin.NamespaceAdmin/GetNamespaceTopics"
        return decode_admin.namespace_topics(await self.call(path, encode_admin.namespace(namespace)))

    async def policies(self, namespace: str) -> NamespacePolicies:
        """Show the limits of a namespace."""
        path = "/danube_admin.NamespaceAdmin/GetNamespacePolicies"
        return decode_admin.policies(await self.call(path, encode_admin.namespace(namespace)))

    async def create_namespace(self, namespace: str) -> None:
        """Create a namespace."""
        await self._done("/danube_admin.NamespaceAdmin/CreateNamespace", encode_admin.namespace(namespace))

    async def delete_namespace(self, namespace: str) -> None:
        """Delete a namespace."""
        await self._done("/danube_admin.NamespaceAdmin/DeleteNamespace", encode_admin.namespace(namespace))

    async def brokers(self) -> tuple[BrokerInfo, ...]:
        """List the brokers."""
        return decode_admin.brokers(await self.call("/danube_admin.BrokerAdmin/ListBrokers"))

    async def leader(self) -> str | None:
        """Ask who leads."""
        return decode_admin.leader(await self.call("/danube_admin.BrokerAdmin/GetLeaderBroker"))

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
        return decode_control.topics_page(await self.call(path, encode_control.describe_topics(wanted)))

    async def describe(self, *topics: TopicName) -> tuple[TopicDescription, ...]:
        """Describe topics that fit on one page."""
        return (await self.describe_page(*topics)).topics

    async def describe_broker(self) -> BrokerDescription:
        """Describe the broker that is asked."""
        path = "/danube.control.Inspection/DescribeBroker"
        return decode_control.broker_description(await self.call(path, encode_control.describe_broker()))

    async def plan(
        self,
        operation: str,
        *,
        effect: Effect = Effect.DESTROY,
        caller: Caller = PERSON,
        needs_approval: bool = False,
        **arguments: object,
    ) -> Plan:
        """Ask for a plan."""
        request = PlanRequest(
            operation=operation, arguments=arguments, effect=effect, caller=caller, needs_approval=needs_approval
        )
        return decode_oversight.plan(
            await self.call("/danube.control.Plans/CreatePlan", encode_oversight.create_plan(request))
        )

    async def get_plan(self, plan_id: str) -> Plan:
        """Show a plan."""
        answer = await self.call("/danube.control.Plans/GetPlan", encode_oversight.get_plan(plan_id))
        return decode_oversight.plan(answer)

    async def plans_page(
        self, *, page_size: int = PLANS_PAGE_MAX, open_only: bool = False, after: PlanCursor | None = None
    ) -> PlansPage:
        """List a page of plans."""
        wanted = ListPlans(page_size=page_size, open_only=open_only, after=after)
        answer = await self.call("/danube.control.Plans/ListPlans", encode_oversight.list_plans(wanted))
        return decode_oversight.plans_page(answer)

    async def decide(self, plan_id: str, *, approve: bool = True, caller: Caller = PERSON) -> Plan:
        """Approve or reject a plan."""
        decision = Decision(plan_id=plan_id, approve=approve, caller=caller)
        answer = await self.call("/danube.control.Plans/DecidePlan", encode_oversight.decide_plan(decision))
        return decode_oversight.plan(answer)

    async def apply(self, plan: Plan, *, caller: Caller = PERSON) -> Plan:
        """Apply a plan, for the operation and arguments that it was made for."""
        application = PlanApplication(
            plan_id=plan.plan_id, operation=plan.operation, arguments=plan.arguments, caller=caller
        )
        answer = await self.call("/danube.control.Plans/ApplyPlan", encode_oversight.apply_plan(application))
        return decode_oversight.plan(answer)

    async def record(self, entry: AuditEntry) -> AuditReceipt:
        """Write an entry into the audit log."""
        answer = await self.call("/danube.control.Audit/Record", encode_oversight.audit_entry(entry))
        return decode_oversight.audit_receipt(answer)

    async def audit(self, start: int = 0, limit: int = AUDIT_PAGE_MAX) -> AuditPage:
        """Read a page of the audit log."""
        request = encode_oversight.read_audit(ReadAudit(start=start, limit=limit))
        return decode_oversight.audit_page(await self.call("/danube.control.Audit/Read", request))

    async def _done(self, path: str, request: bytes) -> None:
        if not decode_admin.success(await self.call(path, request)):
            raise AssertionError(f"{path} answered OK and no success")
