"""What every AdminGateway promises: in memory, over gRPC to a broker of ours, and to the original as far as it goes."""

from dataclasses import replace

import pytest

from danube.model import errors
from danube.model.calls.admin import CreatePartitionedTopic, CreateTopic, DescribeTopics
from danube.model.plans.plan import (
    Approval,
    Caller,
    Decision,
    Effect,
    Face,
    Plan,
    PlanApplication,
    PlanRequest,
    PlanStatus,
)
from danube.model.records.audit import AUDIT_TOPIC, AuditEntry, AuditReceipt, Outcome, verify
from danube.model.topic import DispatchStrategy, TopicName
from tests.contracts.admin_worlds import AdminWorld
from tests.faces.seeded import AUDIT, BILLING, EVENTS, ORDERS, PARTITIONS, STAGING, TICKS

pytestmark = pytest.mark.slow  # together they take long

PERSON = Caller(who="ada@desk", face=Face.CLI)
ASSISTANT = Caller(who="ada@desk", face=Face.MCP, client="host 1.0")
SEEDED = (*(EVENTS.partition(index) for index in range(PARTITIONS)), ORDERS, TICKS)
MISSING = TopicName("default", "missing")


def request_for(operation: str, *, needs_approval: bool = False, **arguments: object) -> PlanRequest:
    return PlanRequest(
        operation=operation,
        arguments=arguments,
        effect=Effect.DESTROY,
        caller=ASSISTANT if needs_approval else PERSON,
        needs_approval=needs_approval,
    )


async def planned(world: AdminWorld, operation: str, *, needs_approval: bool = False, **arguments: object) -> Plan:
    return await world.gateway.create_plan(request_for(operation, needs_approval=needs_approval, **arguments))


def application_of(plan: Plan) -> PlanApplication:
    return PlanApplication(
        plan_id=plan.plan_id, operation=plan.operation, arguments=plan.arguments, caller=plan.asked_by
    )


# Brokers and namespaces


async def test_it_says_where_it_leads_and_who_keeps_the_plans(world: AdminWorld) -> None:
    connection = await world.gateway.connection()
    assert connection.is_ours is world.is_ours
    assert (connection.state_folder is None) is world.is_ours


async def test_brokers_are_listed_with_addresses_that_can_be_dialled(world: AdminWorld) -> None:
    (broker,) = await world.gateway.brokers()
    assert broker.status == "active"
    assert broker.broker_id.isdigit()
    assert "0.0.0.0" not in broker.admin_url


async def test_outside_a_cluster_nobody_leads_and_nobody_agrees(world: AdminWorld) -> None:
    assert await world.gateway.leader() is None
    with pytest.raises(errors.UnsupportedError, match="stands alone"):
        await world.gateway.raft_status()


async def test_namespaces_are_listed_once_each_in_order(world: AdminWorld) -> None:
    assert list(await world.gateway.namespaces()) == ["default", STAGING, "system"]


async def test_a_namespace_is_created_once(world: AdminWorld) -> None:
    await world.gateway.create_namespace("payments")
    assert "payments" in await world.gateway.namespaces()
    with pytest.raises(errors.AlreadyExistsError, match="payments"):
        await world.gateway.create_namespace("payments")


async def test_policies_of_a_missing_namespace_are_not_found(world: AdminWorld) -> None:
    assert (await world.gateway.namespace_policies("default")).max_publish_rate == 0
    with pytest.raises(errors.NotFoundError):
        await world.gateway.namespace_policies("missing")


# Topics and subscriptions


async def test_topics_of_a_namespace_come_in_order_with_their_partitions(world: AdminWorld) -> None:
    infos = await world.gateway.topics("default")
    assert tuple(info.topic for info in infos) == SEEDED
    assert [info.strategy for info in infos if info.topic == TICKS] == [DispatchStrategy.NON_RELIABLE]


async def test_topics_of_a_missing_namespace_are_not_found(world: AdminWorld) -> None:
    assert list(await world.gateway.topics(STAGING)) == []
    with pytest.raises(errors.NamespaceNotFoundError):
        await world.gateway.topics("missing")


async def test_topics_of_a_broker_are_found_by_its_id_and_of_no_other(world: AdminWorld) -> None:
    (broker,) = await world.gateway.brokers()
    assert set(SEEDED) <= {info.topic for info in await world.gateway.topics_on(broker.broker_id)}
    with pytest.raises(errors.NotFoundError):
        await world.gateway.topics_on("12345")


async def test_a_topic_is_shown_with_its_subscriptions(world: AdminWorld) -> None:
    details = await world.gateway.topic(ORDERS)
    assert details.info.topic == ORDERS
    assert details.info.strategy is DispatchStrategy.RELIABLE
    assert details.subscriptions == (AUDIT, BILLING)


@pytest.mark.parametrize("name", [MISSING, EVENTS], ids=["missing", "base of partitions"])
async def test_what_is_no_topic_of_its_own_is_not_found(world: AdminWorld, name: TopicName) -> None:
    with pytest.raises(errors.TopicNotFoundError):
        await world.gateway.topic(name)
    with pytest.raises(errors.TopicNotFoundError):
        await world.gateway.subscriptions(name)


async def test_subscriptions_are_listed_once_each_in_order(world: AdminWorld) -> None:
    assert list(await world.gateway.subscriptions(ORDERS)) == [AUDIT, BILLING]
    assert list(await world.gateway.subscriptions(TICKS)) == []


async def test_a_topic_is_created_once_and_in_a_namespace_that_is_there(world: AdminWorld) -> None:
    wanted = CreateTopic(topic=TopicName("default", "invoices"), strategy=DispatchStrategy.RELIABLE)
    await world.gateway.create_topic(wanted)
    assert (await world.gateway.topic(wanted.topic)).info.strategy is DispatchStrategy.RELIABLE
    with pytest.raises(errors.TopicExistsError):
        await world.gateway.create_topic(wanted)
    with pytest.raises(errors.NamespaceNotFoundError):
        await world.gateway.create_topic(replace(wanted, topic=TopicName("missing", "invoices")))


async def test_partitions_are_created_and_not_a_second_time(world: AdminWorld) -> None:
    clicks = TopicName("default", "clicks")
    wanted = CreatePartitionedTopic(base=clicks, partitions=2, strategy=DispatchStrategy.RELIABLE)
    await world.gateway.create_partitioned_topic(wanted)
    names = {info.topic for info in await world.gateway.topics("default")}
    assert names - set(SEEDED) == {clicks.partition(0), clicks.partition(1)}
    with pytest.raises(errors.TopicExistsError):
        await world.gateway.create_partitioned_topic(wanted)


# What our brokers tell beyond the original


async def test_our_brokers_describe_topics_in_full_and_the_original_says_that_it_cannot(world: AdminWorld) -> None:
    wanted = DescribeTopics(topics=(ORDERS,), page_size=10)
    if not world.is_ours:
        with pytest.raises(errors.UnsupportedError, match="only brokers of this project"):
            await world.gateway.describe_topics(wanted)
        return
    (topic,) = (await world.gateway.describe_topics(wanted)).topics
    lags = {each.name: each.reliable.lag for each in topic.subscriptions if each.reliable}
    connected = {each.name: each.connected_count for each in topic.subscriptions}
    assert lags == {AUDIT: 5, BILLING: 3}
    assert connected == {AUDIT: 0, BILLING: 1}


async def test_topics_are_described_a_page_at_a_time(world: AdminWorld) -> None:
    if not world.is_ours:
        return
    names, after = [], None
    while True:
        page = await world.gateway.describe_topics(DescribeTopics(namespace="default", page_size=2, after=after))
        names += [topic.topic for topic in page.topics]
        if (after := page.next) is None:
            break
    assert tuple(names) == SEEDED


async def test_our_brokers_describe_themselves(world: AdminWorld) -> None:
    if not world.is_ours:
        with pytest.raises(errors.UnsupportedError):
            await world.gateway.describe_broker()
        return
    description = await world.gateway.describe_broker()
    assert description.is_healthy
    assert description.consumers == 1
    assert description.subscriptions == 2


# Plans


async def test_a_plan_says_what_it_touches_and_changes_nothing(world: AdminWorld) -> None:
    plan = await planned(world, "delete_topic", topic=str(ORDERS))
    assert plan.impact.topics == (str(ORDERS),)
    assert plan.impact.subscriptions == (f"{ORDERS} {AUDIT}", f"{ORDERS} {BILLING}")
    assert plan.impact.messages == (5 if world.is_ours else None)
    assert plan.impact.consumers == (1 if world.is_ours else None)
    assert plan.impact.changes
    assert plan.impact.irreversible
    assert tuple(info.topic for info in await world.gateway.topics("default")) == SEEDED


async def test_a_plan_is_applied_once(world: AdminWorld) -> None:
    plan = await planned(world, "delete_topic", topic=str(ORDERS))
    applied = await world.gateway.apply_plan(application_of(plan))
    assert applied.status(plan.created_ms) is PlanStatus.APPLIED
    assert ORDERS not in {info.topic for info in await world.gateway.topics("default")}
    with pytest.raises(errors.PlanRefusedError, match="applied already"):
        await world.gateway.apply_plan(application_of(plan))


async def test_a_base_name_deletes_all_its_partitions(world: AdminWorld) -> None:
    plan = await planned(world, "delete_topic", topic=str(EVENTS))
    assert plan.impact.topic_count == PARTITIONS
    await world.gateway.apply_plan(application_of(plan))
    assert [info.topic for info in await world.gateway.topics("default")] == [ORDERS, TICKS]


async def test_one_partition_alone_is_not_planned_to_be_deleted(world: AdminWorld) -> None:
    with pytest.raises(errors.PreconditionFailedError, match="partition"):
        await planned(world, "delete_topic", topic=str(EVENTS.partition(1)))


async def test_a_plan_for_what_is_not_there_is_not_made(world: AdminWorld) -> None:
    with pytest.raises(errors.TopicNotFoundError):
        await planned(world, "delete_topic", topic=str(MISSING))
    with pytest.raises(errors.NamespaceNotFoundError):
        await planned(world, "delete_namespace", namespace="missing")
    with pytest.raises(errors.SubscriptionNotFoundError):
        await planned(world, "unsubscribe", topic=str(ORDERS), subscription="missing")


async def test_an_empty_namespace_is_deleted_and_one_with_topics_is_not_planned(world: AdminWorld) -> None:
    await world.gateway.apply_plan(application_of(await planned(world, "delete_namespace", namespace=STAGING)))
    assert STAGING not in await world.gateway.namespaces()
    await world.gateway.create_namespace("busy")
    topic = CreateTopic(topic=TopicName("busy", "one"), strategy=DispatchStrategy.RELIABLE)
    await world.gateway.create_topic(topic)
    with pytest.raises(errors.PreconditionFailedError):
        await planned(world, "delete_namespace", namespace="busy")


async def test_a_subscription_without_consumers_is_deleted(world: AdminWorld) -> None:
    plan = await planned(world, "unsubscribe", topic=str(ORDERS), subscription=AUDIT)
    await world.gateway.apply_plan(application_of(plan))
    assert list(await world.gateway.subscriptions(ORDERS)) == [BILLING]


async def test_a_subscription_with_a_consumer_is_kept(world: AdminWorld) -> None:
    with pytest.raises(errors.PreconditionFailedError, match="consumer"):
        plan = await planned(world, "unsubscribe", topic=str(ORDERS), subscription=BILLING)
        await world.gateway.apply_plan(application_of(plan))
    assert BILLING in await world.gateway.subscriptions(ORDERS)


async def test_a_plan_is_refused_when_subscriptions_have_gone_since(world: AdminWorld) -> None:
    plan = await planned(world, "delete_topic", topic=str(ORDERS))
    other = await planned(world, "unsubscribe", topic=str(ORDERS), subscription=AUDIT)
    await world.gateway.apply_plan(application_of(other))
    with pytest.raises(errors.PlanRefusedError, match="changed since"):
        await world.gateway.apply_plan(application_of(plan))


async def test_a_plan_is_refused_for_other_arguments(world: AdminWorld) -> None:
    plan = await planned(world, "delete_topic", topic=str(TICKS))
    other = replace(application_of(plan), arguments={"topic": str(ORDERS)})
    with pytest.raises(errors.PlanRefusedError, match="was made for"):
        await world.gateway.apply_plan(other)
    assert ORDERS in {info.topic for info in await world.gateway.topics("default")}


async def test_a_plan_that_waits_is_applied_only_after_a_person_approved_it(world: AdminWorld) -> None:
    plan = await planned(world, "delete_topic", needs_approval=True, topic=str(TICKS))
    assert plan.approval is Approval.WAITING
    with pytest.raises(errors.PlanWaitsError):
        await world.gateway.apply_plan(application_of(plan))
    with pytest.raises(errors.PlanRefusedError, match="assistant"):
        await world.gateway.decide_plan(Decision(plan_id=plan.plan_id, approve=True, caller=ASSISTANT))
    await world.gateway.decide_plan(Decision(plan_id=plan.plan_id, approve=True, caller=PERSON))
    await world.gateway.apply_plan(application_of(plan))
    assert TICKS not in {info.topic for info in await world.gateway.topics("default")}


async def test_a_rejected_plan_is_never_applied(world: AdminWorld) -> None:
    plan = await planned(world, "delete_topic", needs_approval=True, topic=str(TICKS))
    rejected = await world.gateway.decide_plan(Decision(plan_id=plan.plan_id, approve=False, caller=PERSON))
    assert rejected.decided_by == PERSON
    with pytest.raises(errors.PlanRefusedError, match="rejected"):
        await world.gateway.apply_plan(application_of(plan))


async def test_plans_are_kept_as_they_were_made_and_listed(world: AdminWorld) -> None:
    plan = await planned(world, "delete_topic", topic=str(TICKS))
    assert await world.gateway.plan(plan.plan_id) == plan
    assert plan in await world.gateway.plans()
    with pytest.raises(errors.PlanNotFoundError):
        await world.gateway.plan("plan-000000000000")


# Audit and system topics


def entry(detail: str) -> AuditEntry:
    return AuditEntry(
        caller=PERSON,
        operation="list_topics",
        arguments={"namespace": "default"},
        effect=Effect.READ,
        outcome=Outcome.DONE,
        detail=detail,
    )


async def test_what_is_recorded_is_read_in_order_and_hangs_together(world: AdminWorld) -> None:
    receipts = [await kept(world, entry(str(number))) for number in range(3)]
    page = await world.gateway.audit(receipts[0].sequence, 10)
    assert [record.entry for record in page.records] == [entry(str(number)) for number in range(3)]
    assert [record.hash for record in page.records] == [receipt.hash for receipt in receipts]
    assert page.end == receipts[-1].sequence + 1
    assert verify((await world.gateway.audit(0, 100)).records).is_intact


async def kept(world: AdminWorld, entry: AuditEntry) -> AuditReceipt:
    receipt = await world.gateway.record(entry)
    assert receipt is not None
    return receipt


async def test_each_audit_log_that_a_broker_keeps_can_be_read(world: AdminWorld) -> None:
    receipt = await kept(world, entry("1"))
    logs = await world.gateway.audit_logs()
    if not (await world.gateway.connection()).is_ours:
        assert logs == ()
        return
    (own,) = logs
    assert str(own.topic) == "/system/audit"
    page = await world.gateway.audit(receipt.sequence, 1, own)
    assert [record.hash for record in page.records] == [receipt.hash]


async def test_a_page_of_the_log_is_as_long_as_asked(world: AdminWorld) -> None:
    for number in range(5):
        await world.gateway.record(entry(str(number)))
    first, after = await world.gateway.audit(0, 2), await world.gateway.audit(100, 2)
    assert len(first.records) == 2
    assert first.end >= 5
    assert after.records == ()


async def test_a_missing_system_topic_has_no_records(world: AdminWorld) -> None:
    if not world.is_ours:
        with pytest.raises(errors.UnsupportedError):
            await world.gateway.system_records(MISSING, since_ms=0, limit=10)
        return
    assert list(await world.gateway.system_records(MISSING, since_ms=0, limit=10)) == []


async def test_the_newest_records_of_a_system_topic_are_read(world: AdminWorld) -> None:
    if world.kind != "broker":
        return
    receipts = [await kept(world, entry(str(number))) for number in range(4)]
    records = await world.gateway.system_records(AUDIT_TOPIC, since_ms=0, limit=2)
    assert [record.offset for record in records] == [receipt.sequence for receipt in receipts[-2:]]
    assert b'"detail":"3"' in records[-1].payload
    later = (await world.gateway.audit(receipts[-1].sequence, 1)).records[0].at_ms + 60_000
    assert list(await world.gateway.system_records(AUDIT_TOPIC, since_ms=later, limit=2)) == []
