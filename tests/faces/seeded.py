"""The cluster that every example of every operation works on: in memory, and the same on a real broker.

Namespaces default, staging (empty) and system; of topics `/default/orders` (reliable, with the subscriptions `billing`,
whose consumer has 3 messages left to acknowledge, and `audit`, which has no connected consumer), `/default/events`
(3 partitions, reliable) and `/default/ticks` (not reliable). The registry has two versions of `orders-value`, and
`/default/ticks` follows it. The role `auditor`, the binding `auditors` of user:anna and an API key of the service
`shop`. The schedule `nightly` of the job lag, and the connector `orders-out`. In memory a plan `plan-seeded` waits for
approval; a real broker gives its plans and keys ids of its own.
"""

from dataclasses import dataclass

from danube.model.calls.admin import BrokerInfo, NamespacePolicies
from danube.model.plans.plan import Caller, Effect, Face, PlanRequest, new_plan
from danube.model.records.connectors import ConnectorBook
from danube.model.topic import DispatchStrategy, TopicName
from danube.runtime.clock import Clock
from danube.testing.peers.admin import AdminPeer
from danube.testing.peers.client import Inbox, Peer
from danube.wire import plan_messages
from danube.wire.security import messages as security
from tests.faces.memory_cluster import MemorySubscription, impact_on
from tests.faces.memory_connectors import SEEDED_RUNNER
from tests.faces.memory_gateway import MemoryGateway
from tests.faces.memory_schedules import SEEDED_SCHEDULE
from tests.faces.memory_schemas import SEEDED_VERSIONS, SUBJECT
from tests.faces.memory_security import SEEDED_BINDING, SEEDED_KEY_OF, SEEDED_ROLE

ORDERS = TopicName("default", "orders")
EVENTS = TopicName("default", "events")
TICKS = TopicName("default", "ticks")
STAGING = "staging"
BILLING = "billing"
AUDIT = "audit"
MESSAGES = 5
ACKNOWLEDGED = 2  # of those, by `billing`; `audit` has acknowledged none
PAYLOAD = b"an order of 20 bytes"
PARTITIONS = 3
PLAN_ID = "plan-seeded"
BROKER_ID = "1"
ASSISTANT = Caller(who="assistant@seed", face=Face.MCP, client="seed 1.0")

SEEDED_REQUEST = PlanRequest(
    operation="delete_namespace",
    arguments={"namespace": STAGING},
    effect=Effect.DESTROY,
    caller=ASSISTANT,
    needs_approval=True,
)
"""The request of the plan that waits."""


def seeded_gateway(clock: Clock | None = None) -> MemoryGateway:
    """A gateway to the seeded cluster."""
    gateway = MemoryGateway(clock)
    cluster, now_ms = gateway.cluster, gateway.clock.now_ms()
    cluster.brokers.append(_BROKER)
    for namespace in ("default", STAGING, "system"):
        cluster.namespaces[namespace] = NamespacePolicies()
    orders = cluster.add_topic(ORDERS, DispatchStrategy.RELIABLE, created_ms=now_ms)
    orders.messages, orders.message_bytes = MESSAGES, MESSAGES * len(PAYLOAD)
    orders.payload = PAYLOAD.decode()
    orders.producers, orders.producer_names = 1, ["orders-1"]
    unanswered = MESSAGES - ACKNOWLEDGED
    orders.subscriptions[BILLING] = MemorySubscription(
        name=BILLING, created_ms=now_ms, position=ACKNOWLEDGED, in_flight=unanswered, consumers=["billing-1"]
    )
    orders.subscriptions[AUDIT] = MemorySubscription(name=AUDIT, created_ms=now_ms)
    for index in range(PARTITIONS):
        cluster.add_topic(EVENTS.partition(index), DispatchStrategy.RELIABLE, created_ms=now_ms)
    cluster.add_topic(TICKS, DispatchStrategy.NON_RELIABLE, created_ms=now_ms)
    gateway.seed_schemas(TICKS)
    gateway.security.seed()
    gateway.job_schedules.seed()
    gateway.connector_book = ConnectorBook(runners=(SEEDED_RUNNER,))
    impact = impact_on(cluster, SEEDED_REQUEST.operation, SEEDED_REQUEST.arguments)
    gateway.stored_plans[PLAN_ID] = new_plan(SEEDED_REQUEST, impact, plan_id=PLAN_ID, now_ms=now_ms)
    return gateway


@dataclass(frozen=True, slots=True)
class Seed:
    """The open streams of a seeded broker."""

    inbox: Inbox  # of the consumer of `billing`
    key_id: str  # of the API key

    def close(self) -> None:
        """Disconnect that consumer."""
        self.inbox.close()


async def seed(client: Peer, admin: AdminPeer) -> Seed:
    """Make a fresh broker the seeded one, through a peer on each of its ports."""
    await admin.create_namespace(STAGING)
    await admin.create_topic(ORDERS)
    await admin.create_partitioned_topic(EVENTS, PARTITIONS)
    await admin.create_topic(TICKS, DispatchStrategy.NON_RELIABLE)
    for version in SEEDED_VERSIONS:
        await admin.register_schema(version)
    await admin.bind_schema(TICKS, SUBJECT)
    audit = await client.receive(await client.subscribe(ORDERS, AUDIT, "audit-1"))
    billing = await client.receive(await client.subscribe(ORDERS, BILLING, "billing-1"))
    producer_id = await client.create_producer(ORDERS, "orders-1")
    for _ in range(MESSAGES):
        await client.send(ORDERS, producer_id, PAYLOAD, producer="orders-1")
    for message in (await billing.take(MESSAGES))[:ACKNOWLEDGED]:
        await client.acknowledge(ORDERS, message.offset, BILLING)
    await audit.take(MESSAGES)
    audit.close()
    put, kept = "/danube.control.Schedules/PutSchedule", plan_messages.SCHEDULE
    await admin.ask(put, kept, SEEDED_SCHEDULE, kept)
    report = "/danube.control.Connectors/ReportConnectors"
    await admin.ask(report, plan_messages.REPORT_CONNECTORS, SEEDED_RUNNER, plan_messages.CONNECTOR_WISHES)
    return Seed(billing, await _secured(admin))


async def _secured(admin: AdminPeer) -> str:
    """The id of the API key that was made."""
    grants, proofs = "/danube_admin.SecurityAdmin", "/danube.control.Security"
    await admin.ask(f"{grants}/CreateRole", security.CREATE_ROLE, SEEDED_ROLE, security.ROLE_CREATED)
    await admin.ask(f"{grants}/CreateBinding", security.CREATE_BINDING, SEEDED_BINDING, security.BINDING_CREATED)
    path, answer = f"{proofs}/CreateApiKey", security.API_KEY_CREATED
    return (await admin.ask(path, security.CREATE_API_KEY, SEEDED_KEY_OF, answer)).id


_BROKER = BrokerInfo(
    broker_id=BROKER_ID,
    broker_url="http://127.0.0.1:6650",
    role="None",
    status="active",
    admin_url="http://127.0.0.1:50051",
)
