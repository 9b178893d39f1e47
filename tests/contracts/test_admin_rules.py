"""What every AdminGateway promises of rules, positions and connections."""

from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from danube.admin.gateway import AdminGateway
from danube.model import errors
from danube.model.calls.admin import DescribeTopics
from danube.model.calls.positions import AddPartitions, CreateSubscription, DisconnectClient, PeekMessages
from danube.model.calls.stream import FetchFrom, FetchStart, FetchTime
from danube.model.plans.durability import Durability
from danube.model.plans.plan import Caller, Effect, Face, Plan, PlanApplication, PlanRequest
from danube.model.policies import (
    FailurePolicy,
    PoisonPolicy,
    Policies,
    PolicyChange,
    SetDispatchWindow,
    SetFailurePolicy,
    SetNamespacePolicies,
    SetTopicPolicies,
    SubscriptionName,
)
from danube.model.subscription import SubscriptionType
from danube.model.topic import TopicName
from tests.contracts.admin_worlds import AdminWorld, admin_world
from tests.faces.seeded import AUDIT, BILLING, EVENTS, MESSAGES, ORDERS, PARTITIONS, PAYLOAD, STAGING, TICKS

pytestmark = pytest.mark.slow  # together they take long

PERSON = Caller(who="ada@desk", face=Face.CLI)
MISSING = TopicName("default", "missing")
DROPPING = FailurePolicy(max_redelivery_count=3, poison=PoisonPolicy.DROP)
LIMITED = PolicyChange(given=Policies(max_publish_rate=7, max_message_size=60))


@pytest.fixture(params=["memory", "broker"])
async def ours(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[AdminGateway]:
    async with admin_world(request.param, tmp_path / "data") as world:
        yield world.gateway


def named(subscription: str = BILLING, topic: TopicName = ORDERS) -> SubscriptionName:
    return SubscriptionName(topic=topic, subscription=subscription)


async def planned(gateway: AdminGateway, operation: str, **arguments: object) -> Plan:
    return await gateway.create_plan(
        PlanRequest(
            operation=operation, arguments=arguments, effect=Effect.DESTROY, caller=PERSON, needs_approval=False
        )
    )


async def apply(gateway: AdminGateway, plan: Plan) -> None:
    await gateway.apply_plan(
        PlanApplication(plan_id=plan.plan_id, operation=plan.operation, arguments=plan.arguments, caller=PERSON)
    )


async def position_of(gateway: AdminGateway, subscription: str) -> int:
    return (await gateway.retry_blocked(named(subscription))).position


# Rules of a subscription


async def test_a_failure_policy_is_read_as_it_was_set(world: AdminWorld) -> None:
    assert await world.gateway.failure_policy(named()) == (None, SubscriptionType.EXCLUSIVE)
    await world.gateway.set_failure_policy(SetFailurePolicy(name=named(), policy=DROPPING))
    assert await world.gateway.failure_policy(named()) == (DROPPING, SubscriptionType.EXCLUSIVE)
    assert (await world.gateway.failure_policy(named(AUDIT)))[0] is None


async def test_a_window_is_read_as_it_was_set(world: AdminWorld) -> None:
    assert await world.gateway.dispatch_window(named()) is None
    await world.gateway.set_dispatch_window(SetDispatchWindow(name=named(), window=77))
    assert await world.gateway.dispatch_window(named()) == 77


async def test_nothing_is_set_for_a_topic_that_is_not_there(world: AdminWorld) -> None:
    name = named(topic=MISSING)
    with pytest.raises(errors.TopicNotFoundError):
        await world.gateway.set_failure_policy(SetFailurePolicy(name=name, policy=DROPPING))
    with pytest.raises(errors.TopicNotFoundError):
        await world.gateway.failure_policy(name)
    with pytest.raises(errors.TopicNotFoundError):
        await world.gateway.set_dispatch_window(SetDispatchWindow(name=name, window=5))
    with pytest.raises(errors.TopicNotFoundError):
        await world.gateway.dispatch_window(name)


async def test_policies_of_a_subscription_that_does_not_exist_yet_are_kept(world: AdminWorld) -> None:
    later = named("later")
    with pytest.raises(errors.SubscriptionNotFoundError):
        await world.gateway.failure_policy(later)
    with pytest.raises(errors.SubscriptionNotFoundError):
        await world.gateway.dispatch_window(later)
    await world.gateway.set_failure_policy(SetFailurePolicy(name=later, policy=DROPPING))
    await world.gateway.set_dispatch_window(SetDispatchWindow(name=later, window=77))
    assert await world.gateway.failure_policy(later) == (DROPPING, SubscriptionType.EXCLUSIVE)
    assert await world.gateway.dispatch_window(later) == 77


# What is ours alone

OURS_ALONE: dict[str, Callable[[AdminGateway], Coroutine[Any, Any, object]]] = {
    "tell all limits": lambda gateway: gateway.namespace_limits(STAGING),
    "change limits": lambda gateway: gateway.set_namespace_policies(
        SetNamespacePolicies(namespace=STAGING, change=LIMITED)
    ),
    "tell limits of a topic": lambda gateway: gateway.topic_policies(ORDERS),
    "set limits of a topic": lambda gateway: gateway.set_topic_policies(SetTopicPolicies(topic=ORDERS, change=LIMITED)),
    "create subscriptions": lambda gateway: gateway.create_subscription(
        CreateSubscription(name=named("new"), type=SubscriptionType.SHARED, start=FetchFrom.LATEST)
    ),
    "retry what blocks": lambda gateway: gateway.retry_blocked(named()),
    "show stored messages": lambda gateway: gateway.peek(peeking(FetchFrom.EARLIEST)),
    "add partitions": lambda gateway: gateway.add_partitions(AddPartitions(base=EVENTS, count=1)),
    "tell who is connected": lambda gateway: gateway.topic_connections(ORDERS),
    "disconnect clients": lambda gateway: gateway.disconnect(DisconnectClient(topic=ORDERS, client_id=1)),
}


def peeking(
    start: FetchStart, *, topic: TopicName = ORDERS, count: int = 10, payload_bytes_max: int = 100
) -> PeekMessages:
    return PeekMessages(topic=topic, start=start, count=count, payload_bytes_max=payload_bytes_max)


async def test_on_the_original_each_is_refused_with_what_it_does_not_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    async with admin_world("original", tmp_path) as world:
        for words, ask in OURS_ALONE.items():
            with pytest.raises(errors.UnsupportedError, match=f"does not {words}.*the original has no such call"):
                await ask(world.gateway)
        planned_ones = ("seek_subscription", "skip_messages", "set_topic_retention", "set_namespace_retention")
        for operation in (*planned_ones, "set_topic_durability", "set_namespace_durability"):
            with pytest.raises(errors.UnsupportedError, match=operation):
                await planned(world.gateway, operation, topic=str(ORDERS), subscription=AUDIT)


async def test_a_topic_has_the_limits_of_its_namespace_until_it_has_its_own(ours: AdminGateway) -> None:
    of_namespace = await ours.set_namespace_policies(SetNamespacePolicies(namespace="default", change=LIMITED))
    assert of_namespace.own == LIMITED.given
    assert await ours.namespace_limits("default") == of_namespace
    inherited = await ours.topic_policies(ORDERS)
    assert (inherited.own, inherited.holding.max_publish_rate) == (Policies(), 7)
    change = PolicyChange(given=Policies(max_publish_rate=9))
    own = await ours.set_topic_policies(SetTopicPolicies(topic=ORDERS, change=change))
    assert (own.own, own.holding.max_publish_rate, own.holding.max_message_size) == (change.given, 9, 60)
    again = PolicyChange(unset=frozenset({"max_publish_rate"}))
    assert (await ours.set_topic_policies(SetTopicPolicies(topic=ORDERS, change=again))) == inherited


async def test_limits_of_a_base_name_are_those_of_all_its_partitions(ours: AdminGateway) -> None:
    await ours.set_topic_policies(SetTopicPolicies(topic=EVENTS, change=LIMITED))
    for index in range(PARTITIONS):
        assert (await ours.topic_policies(EVENTS.partition(index))).own == LIMITED.given


async def test_retention_is_set_by_a_plan_and_shown_with_the_other_limits(ours: AdminGateway) -> None:
    await apply(ours, await planned(ours, "set_namespace_retention", namespace="default", time_s=90, bytes=1 << 40))
    await apply(ours, await planned(ours, "set_topic_retention", topic=str(EVENTS), drops_unread=True, clear=False))
    for index in range(PARTITIONS):
        view = await ours.topic_policies(EVENTS.partition(index))
        assert view.own == Policies(retention_drops_unread=1)
        assert (view.holding.retention_time_s, view.holding.retention_bytes) == (90, 1 << 40)
    await apply(ours, await planned(ours, "set_namespace_retention", namespace="default", bytes=7, clear=True))
    assert (await ours.namespace_limits("default")).own == Policies(retention_bytes=7)


async def test_retention_of_what_is_not_there_or_keeps_nothing_is_not_planned(ours: AdminGateway) -> None:
    with pytest.raises(errors.TopicNotFoundError):
        await planned(ours, "set_topic_retention", topic=str(MISSING), time_s=1)
    with pytest.raises(errors.NamespaceNotFoundError):
        await planned(ours, "set_namespace_retention", namespace="missing", time_s=1)
    with pytest.raises(errors.PreconditionFailedError):
        await planned(ours, "set_topic_retention", topic=str(TICKS), time_s=1)
    with pytest.raises(errors.InvalidRequestError):
        await planned(ours, "set_topic_retention", topic=str(ORDERS))


async def test_durability_is_set_by_a_plan_and_shown_with_the_limits_and_the_topic(ours: AdminGateway) -> None:
    assert (await ours.topic_policies(ORDERS)).holding.durability == Durability.FSYNC.number
    await apply(ours, await planned(ours, "set_namespace_durability", namespace="default", durability="interval"))
    await apply(ours, await planned(ours, "set_topic_durability", topic=str(EVENTS), durability="os", clear=False))
    for index in range(PARTITIONS):
        view = await ours.topic_policies(EVENTS.partition(index))
        assert (view.own, view.holding.durability) == (Policies(durability=2), 2)
    assert (await ours.topic_policies(ORDERS)).holding.durability == Durability.INTERVAL.number
    page = await ours.describe_topics(DescribeTopics(topics=(ORDERS, EVENTS.partition(0)), page_size=2))
    shown = {each.topic: each.storage.durability for each in page.topics if each.storage is not None}
    assert shown == {ORDERS: Durability.INTERVAL, EVENTS.partition(0): Durability.OS}
    await apply(ours, await planned(ours, "set_namespace_durability", namespace="default", clear=True))
    assert (await ours.namespace_limits("default")).own == Policies()
    assert (await ours.namespace_limits("default")).holding.durability == Durability.FSYNC.number


async def test_durability_of_what_is_not_there_or_keeps_nothing_is_not_planned(ours: AdminGateway) -> None:
    with pytest.raises(errors.TopicNotFoundError):
        await planned(ours, "set_topic_durability", topic=str(MISSING), durability="os")
    with pytest.raises(errors.NamespaceNotFoundError):
        await planned(ours, "set_namespace_durability", namespace="missing", durability="os")
    with pytest.raises(errors.PreconditionFailedError):
        await planned(ours, "set_topic_durability", topic=str(TICKS), durability="os")
    assert (await ours.topic_policies(TICKS)).holding.durability is None
    for arguments in ({}, {"durability": "soon"}, {"durability": 2}):
        with pytest.raises(errors.InvalidRequestError):
            await planned(ours, "set_topic_durability", topic=str(ORDERS), **arguments)


async def test_limits_of_what_is_not_there_are_not_found(ours: AdminGateway) -> None:
    with pytest.raises(errors.TopicNotFoundError):
        await ours.topic_policies(MISSING)
    with pytest.raises(errors.NamespaceNotFoundError):
        await ours.namespace_limits("missing")
    with pytest.raises(errors.NamespaceNotFoundError):
        await ours.set_namespace_policies(SetNamespacePolicies(namespace="missing", change=LIMITED))


# Positions


@pytest.mark.parametrize(
    ("start", "position"),
    [(FetchFrom.EARLIEST, 0), (FetchFrom.LATEST, MESSAGES), (3, 3), (FetchTime(0), 0), (FetchTime(2**45), MESSAGES)],
    ids=str,
)
async def test_a_subscription_begins_where_it_was_told_to(ours: AdminGateway, start: FetchStart, position: int) -> None:
    wanted = CreateSubscription(name=named("new"), type=SubscriptionType.SHARED, start=start)
    made = await ours.create_subscription(wanted)
    assert (made.position, made.lag) == (position, MESSAGES - position)
    assert "new" in await ours.subscriptions(ORDERS)
    with pytest.raises(errors.AlreadyExistsError):
        await ours.create_subscription(wanted)


async def test_an_offset_after_the_end_is_no_place(ours: AdminGateway) -> None:
    beyond = MESSAGES + 1
    with pytest.raises(errors.InvalidRequestError, match=f"offset {beyond}"):
        await ours.create_subscription(
            CreateSubscription(name=named("new"), type=SubscriptionType.SHARED, start=beyond)
        )
    with pytest.raises(errors.InvalidRequestError, match=f"offset {beyond}"):
        await planned(ours, "seek_subscription", topic=str(ORDERS), subscription=AUDIT, to=beyond)


@pytest.mark.parametrize(("to", "position"), [("latest", MESSAGES), (3, 3), ("2100-01-01T00:00:00.000Z", MESSAGES)])
async def test_seeking_ahead_passes_over_what_the_plan_said(ours: AdminGateway, to: object, position: int) -> None:
    plan = await planned(ours, "seek_subscription", topic=str(ORDERS), subscription=AUDIT, to=to)
    assert plan.impact.messages == position
    assert plan.impact.irreversible
    assert await position_of(ours, AUDIT) == 0
    await apply(ours, plan)
    assert await position_of(ours, AUDIT) == position


async def test_seeking_back_is_planned_and_loses_nothing(ours: AdminGateway) -> None:
    await apply(ours, await planned(ours, "seek_subscription", topic=str(ORDERS), subscription=AUDIT, to="latest"))
    back = await planned(ours, "seek_subscription", topic=str(ORDERS), subscription=AUDIT, to="earliest")
    assert (back.impact.messages, back.impact.irreversible) == (0, ())
    assert str(MESSAGES) in " ".join(back.impact.changes)
    await apply(ours, back)
    assert await position_of(ours, AUDIT) == 0


async def test_the_next_messages_are_skipped_and_no_others(ours: AdminGateway) -> None:
    plan = await planned(ours, "skip_messages", topic=str(ORDERS), subscription=AUDIT, count=2)
    assert plan.impact.messages == 2
    await apply(ours, plan)
    assert await position_of(ours, AUDIT) == 2


async def test_where_nothing_blocks_nothing_is_skipped(ours: AdminGateway) -> None:
    plan = await planned(ours, "skip_messages", topic=str(ORDERS), subscription=AUDIT, count=0)
    assert plan.impact.messages == 0
    await apply(ours, plan)
    assert await position_of(ours, AUDIT) == 0


async def test_what_keeps_no_place_cannot_be_put_elsewhere(ours: AdminGateway) -> None:
    with pytest.raises(errors.SubscriptionNotFoundError):
        await ours.retry_blocked(named("missing"))
    with pytest.raises(errors.SubscriptionNotFoundError):
        await planned(ours, "seek_subscription", topic=str(ORDERS), subscription="missing", to="latest")
    with pytest.raises(errors.PreconditionFailedError, match="not reliable"):
        await ours.retry_blocked(named(topic=TICKS))


async def test_stored_messages_are_shown_from_a_place_on_and_cut(ours: AdminGateway) -> None:
    page = await ours.peek(peeking(1, count=2, payload_bytes_max=8))
    assert (page.start_offset, page.end_offset) == (0, MESSAGES)
    assert [message.offset for message in page.messages] == [1, 2]
    assert {(message.payload, message.payload_size) for message in page.messages} == {(PAYLOAD[:8], len(PAYLOAD))}
    assert {message.producer_name for message in page.messages} == {"orders-1"}
    assert (await ours.peek(peeking(FetchFrom.LATEST))).messages == ()


async def test_a_topic_that_stores_nothing_has_nothing_to_show(ours: AdminGateway) -> None:
    with pytest.raises(errors.PreconditionFailedError, match="keeps no messages"):
        await ours.peek(peeking(FetchFrom.EARLIEST, topic=TICKS))
    with pytest.raises(errors.TopicNotFoundError):
        await ours.peek(peeking(FetchFrom.EARLIEST, topic=MISSING))


async def test_partitions_are_added_at_the_end(ours: AdminGateway) -> None:
    names = await ours.add_partitions(AddPartitions(base=EVENTS, count=2))
    assert list(names) == [EVENTS.partition(index) for index in range(PARTITIONS + 2)]
    assert names[-1] in {info.topic for info in await ours.topics("default")}
    with pytest.raises(errors.DanubeError):
        await ours.add_partitions(AddPartitions(base=ORDERS, count=1))


# Connections


async def test_consumers_are_listed_before_producers(ours: AdminGateway) -> None:
    shown, count = await ours.topic_connections(ORDERS)
    assert count == 2
    assert [(each.name, each.subscription, each.topic) for each in shown] == [
        ("billing-1", BILLING, ORDERS),
        ("orders-1", None, ORDERS),
    ]
    assert (await ours.topic_connections(TICKS))[1] == 0


async def test_a_client_is_disconnected_and_is_gone_from_the_list(ours: AdminGateway) -> None:
    shown, _ = await ours.topic_connections(ORDERS)
    for client in shown:
        await ours.disconnect(DisconnectClient(topic=ORDERS, client_id=client.client_id))
    assert (await ours.topic_connections(ORDERS))[1] == 0
    with pytest.raises(errors.NotFoundError, match="connected"):
        await ours.disconnect(DisconnectClient(topic=ORDERS, client_id=shown[0].client_id))
