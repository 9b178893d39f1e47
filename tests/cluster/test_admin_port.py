"""The admin port of one real broker process, over gRPC."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest

from danube.model.calls.stream import FetchFrom
from danube.model.errors import (
    NamespaceNotFoundError,
    PlanRefusedError,
    PlanWaitsError,
    PreconditionFailedError,
    UnsupportedError,
)
from danube.model.plans.plan import Effect, Plan
from danube.model.policies import FailurePolicy, PoisonPolicy
from danube.model.records.audit import GENESIS, AuditEntry, AuditReceipt, Outcome, verify
from danube.model.subscription import SubscriptionType
from danube.model.topic import TopicName
from danube.rpc.grpc.carrier import GrpcCarrier
from danube.runtime.clock import SystemClock
from danube.testing.peers.admin import ASSISTANT, AdminPeer
from danube.testing.processes.broker import BrokerProcess

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]

T = TypeVar("T")


def ask(broker: BrokerProcess, question: Callable[[AdminPeer], Awaitable[T]]) -> T:
    """Connect, ask, and go."""

    async def asking() -> T:
        channel = GrpcCarrier(SystemClock()).connect(broker.endpoints.admin)
        try:
            return await question(AdminPeer(channel))
        finally:
            await channel.close()

    return asyncio.run(asking())


def test_namespaces_and_topics_outlive_kill_9(broker: BrokerProcess) -> None:
    topic = TopicName("apart", "orders")

    async def change(admin: AdminPeer) -> None:
        for name in ("apart", "gone"):
            await admin.create_namespace(name)
        await admin.create_topic(topic)
        await admin.delete_namespace("gone")

    ask(broker, change)
    broker.kill()
    broker.start()
    assert ask(broker, lambda admin: admin.namespaces()) == ("apart", "default", "system")
    (described,) = ask(broker, lambda admin: admin.describe_page(namespace="apart")).topics
    assert described.topic == topic


def test_refusals_come_with_their_class_and_their_sentence(broker: BrokerProcess) -> None:
    with pytest.raises(PreconditionFailedError, match="built in"):
        ask(broker, lambda admin: admin.delete_namespace("default"))
    with pytest.raises(NamespaceNotFoundError):
        ask(broker, lambda admin: admin.topics("nowhere"))
    with pytest.raises(UnsupportedError, match="a standalone broker"):
        ask(broker, lambda admin: admin.call("/danube_admin.ClusterAdmin/ClusterStatus"))


def test_broker_tells_where_its_ports_are(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", flags=["--prom-exporter", "127.0.0.1:0"]) as broker:
        (info,) = ask(broker, lambda admin: admin.brokers())
    ports = broker.endpoints
    assert (info.broker_url, info.admin_url, info.metrics_url) == (
        f"http://{ports.broker}",
        f"http://{ports.admin}",
        f"http://{ports.metrics}",
    )


def test_life_of_a_plan_outlives_kill_9_at_every_step(broker: BrokerProcess) -> None:
    topic = TopicName("default", "orders")

    async def ask_for_a_plan(admin: AdminPeer) -> Plan:
        await admin.create_partitioned_topic(topic, 3)
        return await admin.plan("delete_topic", caller=ASSISTANT, needs_approval=True, topic=str(topic))

    plan = ask(broker, ask_for_a_plan)
    again(broker)
    with pytest.raises(PlanWaitsError, match="plans approve"):
        ask(broker, lambda admin: admin.apply(plan, caller=ASSISTANT))
    approved = ask(broker, lambda admin: admin.decide(plan.plan_id))
    again(broker)
    assert ask(broker, lambda admin: admin.get_plan(plan.plan_id)) == approved
    applied = ask(broker, lambda admin: admin.apply(plan, caller=ASSISTANT))
    again(broker)
    assert ask(broker, lambda admin: admin.plans_page()).plans == (applied,)
    assert ask(broker, lambda admin: admin.topics("default")) == ()
    with pytest.raises(PlanRefusedError, match="acts once"):
        ask(broker, lambda admin: admin.apply(plan, caller=ASSISTANT))


def test_audit_log_is_one_chain_across_kill_9(broker: BrokerProcess) -> None:
    entry = AuditEntry(
        caller=ASSISTANT, operation="delete_topic", arguments={}, effect=Effect.DESTROY, outcome=Outcome.PLANNED
    )

    async def record_many(admin: AdminPeer) -> list[AuditReceipt]:
        return await asyncio.gather(*(admin.record(entry) for _ in range(20)))

    receipts = []
    for _ in range(3):
        receipts += ask(broker, record_many)
        again(broker)
    records = ask(broker, lambda admin: admin.audit()).records
    assert verify(records, previous=GENESIS).is_intact
    assert {receipt.sequence: receipt.hash for receipt in receipts} == {one.sequence: one.hash for one in records}


def again(broker: BrokerProcess) -> None:
    """Kill the broker and start it."""
    broker.kill()
    broker.start()


def test_policies_and_places_outlive_kill_9(broker: BrokerProcess) -> None:
    topic = TopicName("default", "orders")
    policy = FailurePolicy(max_redelivery_count=2, poison=PoisonPolicy.DROP)

    async def change(admin: AdminPeer) -> None:
        await admin.create_topic(topic)
        await admin.create_subscription(topic, start=FetchFrom.EARLIEST)
        await admin.set_failure_policy(topic, policy)
        await admin.set_window(topic, 77)
        await admin.set_topic_policies(topic, max_producers_per_topic=0)
        await admin.set_namespace_policies("default", max_producers_per_topic=4, max_message_size=60)

    async def look(admin: AdminPeer) -> tuple[object, ...]:
        holding = (await admin.topic_policies(topic)).holding
        limits = (holding.max_producers_per_topic, holding.max_message_size)
        return (*await admin.failure_policy(topic), await admin.window(topic), limits)

    ask(broker, change)
    broker.kill()
    broker.start()
    assert ask(broker, look) == (policy, SubscriptionType.EXCLUSIVE, 77, (0, 60))
