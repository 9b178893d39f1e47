"""Plans over the admin port of a whole broker: what is promised is what happens, once."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from danube.metadata.records.catalog import ExtraWrites, Records, TopicRecord
from danube.metadata.transaction_builder import TransactionBuilder
from danube.model.errors import (
    DanubeError,
    InvalidNameError,
    InvalidRequestError,
    LimitReachedError,
    NamespaceNotFoundError,
    PlanNotFoundError,
    PlanRefusedError,
    PlanWaitsError,
    PreconditionFailedError,
    SubscriptionNotFoundError,
    TopicNotFoundError,
    UnsupportedError,
)
from danube.model.limits.broker import PLANS_OPEN_PER_CALLER_MAX
from danube.model.plans.plan import Approval, Effect, Face, Plan, PlanStatus
from danube.model.records.audit import AUDIT_TOPIC
from danube.model.subscription import SubscriptionType
from danube.model.topic import DispatchStrategy, TopicName
from danube.testing.in_process_broker import Cell, StartBroker
from danube.testing.patience import PATIENCE_S
from danube.testing.peers.admin import ASSISTANT, PERSON
from danube.testing.peers.client import Inbox

TURNS = 20
"""Of the broker's metadata: more than a subscription takes to be made."""


async def left(cell: Cell, topic: TopicName, inbox: Inbox) -> None:
    """Return once the broker has seen the stream's end."""
    inbox.close()
    async with asyncio.timeout(PATIENCE_S):
        while any(one.connected_count for one in (await cell.admin.describe(topic))[0].subscriptions):
            pass


async def idle_subscription(cell: Cell, topic: TopicName, *, unread: int = 0) -> None:
    """A topic whose one subscription has been used and is not now."""
    producer = await cell.client.create_producer(topic)
    await left(cell, topic, await cell.client.receive(await cell.client.subscribe(topic)))
    for _ in range(unread):
        await cell.client.send(topic, producer, b"x")


async def topics(cell: Cell) -> list[TopicName]:
    return [info.topic for info in await cell.admin.topics("default")]


# What a plan says


async def test_plan_for_a_topic_says_what_goes_with_it(cell: Cell, topic: TopicName) -> None:
    producer = await cell.client.create_producer(topic)
    for name in ("b", "a"):
        await cell.client.receive(await cell.client.subscribe(topic, name))
    for _ in range(3):
        await cell.client.send(topic, producer, b"x")
    impact = (await cell.admin.plan("delete_topic", topic=str(topic))).impact
    assert impact.changes == (
        "Delete topic /default/orders.",
        "Delete 2 subscriptions.",
        "Disconnect 2 consumers.",
        "Detach 1 producer.",
    )
    assert impact.irreversible[0].startswith("3 stored messages of ")
    assert (impact.topics, impact.topic_count) == (("/default/orders",), 1)
    assert (impact.subscriptions, impact.subscription_count) == (("/default/orders a", "/default/orders b"), 2)
    assert (impact.producers, impact.consumers, impact.messages) == (1, 2, 3)
    assert impact.bytes is not None
    assert impact.bytes > 0


async def test_plan_changes_nothing(cell: Cell, topic: TopicName) -> None:
    await cell.admin.create_topic(topic)
    plan = await cell.admin.plan("delete_topic", topic=str(topic))
    assert plan.status(plan.created_ms) is PlanStatus.READY
    assert await cell.admin.get_plan(plan.plan_id) == plan
    assert await topics(cell) == [topic]


async def test_plan_for_a_base_name_is_for_all_partitions_and_names_some(cell: Cell, topic: TopicName) -> None:
    await cell.admin.create_partitioned_topic(topic, 25)
    impact = (await cell.admin.plan("delete_topic", topic=str(topic))).impact
    assert impact.changes == ("Delete topic /default/orders, which has 25 partitions.",)
    assert impact.topics == tuple(f"/default/orders-part-{index}" for index in range(20))
    assert impact.topic_count == 25


async def test_plan_to_unsubscribe_says_what_was_not_acknowledged(cell: Cell, topic: TopicName) -> None:
    await idle_subscription(cell, topic, unread=2)
    impact = (await cell.admin.plan("unsubscribe", topic=str(topic), subscription="subscription")).impact
    assert impact.changes == (
        "Delete subscription 'subscription' of /default/orders.",
        "Forget 1 consumer that it had.",
    )
    assert impact.irreversible[0].startswith("Its place in the topic is lost, with 2 messages not acknowledged.")
    assert (impact.messages, impact.consumers) == (0, 0)


async def test_non_reliable_topic_loses_no_messages(cell: Cell, topic: TopicName) -> None:
    await cell.admin.create_topic(topic, DispatchStrategy.NON_RELIABLE)
    plan = await cell.admin.plan("delete_topic", topic=str(topic))
    assert (plan.impact.messages, plan.impact.bytes) == (0, 0)
    await cell.admin.apply(plan)
    assert await topics(cell) == []


# What cannot be planned


@pytest.mark.parametrize(
    ("operation", "arguments", "error"),
    [
        ("delete_topic", {"topic": "/default/none"}, TopicNotFoundError),
        ("delete_topic", {"topic": "/default/parted-part-0"}, PreconditionFailedError),
        ("delete_topic", {"topic": str(AUDIT_TOPIC)}, PreconditionFailedError),
        ("delete_topic", {"topic": "default/none"}, InvalidNameError),
        ("delete_topic", {}, InvalidRequestError),
        ("delete_topic", {"topic": 7}, InvalidRequestError),
        ("delete_topic", {"topic": "/default/busy", "force": True}, InvalidRequestError),
        ("delete_namespace", {"namespace": "none"}, NamespaceNotFoundError),
        ("delete_namespace", {"namespace": "default"}, PreconditionFailedError),
        ("delete_namespace", {"namespace": "full"}, PreconditionFailedError),
        ("delete_namespace", {"namespace": "a/b"}, InvalidNameError),
        ("unsubscribe", {"topic": "/default/none", "subscription": "s"}, TopicNotFoundError),
        ("unsubscribe", {"topic": "/default/busy", "subscription": "none"}, SubscriptionNotFoundError),
        ("unsubscribe", {"topic": "/default/busy", "subscription": "subscription"}, PreconditionFailedError),
        ("unsubscribe", {"topic": "/default/busy", "subscription": ""}, InvalidNameError),
        ("trigger_a_flood", {}, UnsupportedError),
    ],
)
async def test_no_plan_is_made_for_what_could_not_be_done(
    cell: Cell, operation: str, arguments: dict[str, Any], error: type[DanubeError]
) -> None:
    busy = TopicName("default", "busy")
    await cell.admin.create_namespace("full")
    await cell.admin.create_topic(TopicName("full", "t"))
    await cell.admin.create_partitioned_topic(TopicName("default", "parted"), 2)
    await cell.admin.create_topic(busy)
    await cell.client.receive(await cell.client.subscribe(busy))
    with pytest.raises(error):
        await cell.admin.plan(operation, **arguments)
    assert (await cell.admin.plans_page()).plans == ()


async def test_plan_with_another_effect_is_refused(cell: Cell, topic: TopicName) -> None:
    await cell.admin.create_topic(topic)
    with pytest.raises(InvalidRequestError, match="has the effect destroy, not move"):
        await cell.admin.plan("delete_topic", effect=Effect.MOVE, topic=str(topic))


# Applying


async def test_applied_plan_deletes_the_topic_and_says_who_did_it(cell: Cell, topic: TopicName) -> None:
    await cell.admin.create_topic(topic)
    plan = await cell.admin.plan("delete_topic", topic=str(topic))
    applied = await cell.admin.apply(plan)
    assert (applied.applied_by, applied.status(plan.expires_ms)) == (PERSON, PlanStatus.APPLIED)
    assert await cell.admin.get_plan(plan.plan_id) == applied
    assert await topics(cell) == []


async def test_plan_that_a_person_looked_at_is_not_applied_by_an_assistant(cell: Cell, topic: TopicName) -> None:
    await cell.admin.create_topic(topic)
    shown = await cell.admin.plan("delete_topic", caller=replace(PERSON, face=Face.WEB), topic=str(topic))
    for caller in (ASSISTANT, PERSON, replace(PERSON, face=Face.WEB, who="bob")):
        with pytest.raises(PlanRefusedError, match="ask for a plan of your own"):
            await cell.admin.apply(shown, caller=caller)
    assert await topics(cell) == [topic]
    await cell.admin.apply(shown, caller=replace(PERSON, face=Face.WEB))
    assert await topics(cell) == []


async def test_dry_run_is_shown_and_can_never_be_applied(cell: Cell, topic: TopicName) -> None:
    await cell.admin.create_topic(topic)
    shown = await cell.admin.plan("delete_topic", dry_run=True, topic=str(topic))
    assert (shown.plan_id, shown.status(shown.created_ms)) == ("", PlanStatus.SHOWN)
    assert shown.impact.changes == ("Delete topic /default/orders.",)
    assert not (await cell.admin.plans_page()).plans
    with pytest.raises(PlanNotFoundError):
        await cell.admin.apply(shown)
    assert await topics(cell) == [topic]


async def test_assistant_that_fills_its_place_stops_nobody_else(cell: Cell, topic: TopicName) -> None:
    await cell.admin.create_topic(topic)
    for _ in range(PLANS_OPEN_PER_CALLER_MAX):
        await cell.admin.plan("delete_topic", caller=ASSISTANT, needs_approval=True, topic=str(topic))
    with pytest.raises(LimitReachedError, match="the most that one caller may have"):
        await cell.admin.plan("delete_topic", caller=ASSISTANT, needs_approval=True, topic=str(topic))
    await cell.admin.apply(await cell.admin.plan("delete_topic", topic=str(topic)))
    assert await topics(cell) == []


async def test_applied_plan_for_a_base_name_deletes_all_partitions(cell: Cell, topic: TopicName) -> None:
    await cell.admin.create_partitioned_topic(topic, 25)
    await cell.admin.apply(await cell.admin.plan("delete_topic", topic=str(topic)))
    assert await topics(cell) == []


async def test_applied_plan_deletes_the_namespace(cell: Cell) -> None:
    await cell.admin.create_namespace("apart")
    await cell.admin.apply(await cell.admin.plan("delete_namespace", namespace="apart"))
    assert "apart" not in await cell.admin.namespaces()


async def test_applied_plan_deletes_the_subscription(cell: Cell, topic: TopicName) -> None:
    await idle_subscription(cell, topic, unread=1)
    plan = await cell.admin.plan("unsubscribe", topic=str(topic), subscription="subscription")
    await cell.admin.apply(plan)
    assert await cell.admin.subscriptions(topic) == ()


async def test_plan_and_what_it_did_outlive_a_restart(start_broker: StartBroker, topic: TopicName) -> None:
    cell = await start_broker()
    await cell.admin.create_topic(topic)
    plan = await cell.admin.plan("delete_topic", topic=str(topic))
    cell = await start_broker()
    applied = await cell.admin.apply(plan)
    cell = await start_broker()
    assert await cell.admin.get_plan(plan.plan_id) == applied
    assert await topics(cell) == []


async def test_plan_applied_twice_is_refused(cell: Cell, topic: TopicName) -> None:
    await cell.admin.create_topic(topic)
    plan = await cell.admin.plan("delete_topic", topic=str(topic))
    await cell.admin.apply(plan)
    await cell.admin.create_topic(topic)
    with pytest.raises(PlanRefusedError, match="applied already and acts once"):
        await cell.admin.apply(plan)
    assert await topics(cell) == [topic]


async def test_plan_is_refused_for_other_arguments(cell: Cell, topic: TopicName) -> None:
    other = TopicName("default", "other")
    for name in (topic, other):
        await cell.admin.create_topic(name)
    plan = await cell.admin.plan("delete_topic", topic=str(other))
    forged = replace(plan, arguments={"topic": str(topic)})
    with pytest.raises(PlanRefusedError, match="was made for"):
        await cell.admin.apply(forged)
    assert await topics(cell) == [topic, other]


async def test_plan_for_an_empty_topic_does_not_delete_a_full_one(cell: Cell, topic: TopicName) -> None:
    await cell.admin.create_topic(topic)
    plan = await cell.admin.plan("delete_topic", topic=str(topic))
    producer = await cell.client.create_producer(topic)
    await cell.client.send(topic, producer, b"x")
    with pytest.raises(PlanRefusedError, match="was made for 0 messages and now there are 1"):
        await cell.admin.apply(plan)
    assert await topics(cell) == [topic]


async def test_plan_does_not_delete_a_subscription_that_it_does_not_know(cell: Cell, topic: TopicName) -> None:
    await cell.client.create_producer(topic)
    plan = await cell.admin.plan("delete_topic", topic=str(topic))
    await left(cell, topic, await cell.client.receive(await cell.client.subscribe(topic)))
    with pytest.raises(PlanRefusedError, match="has changed"):
        await cell.admin.apply(plan)


async def test_plan_does_not_delete_a_topic_made_anew(cell: Cell, topic: TopicName) -> None:
    await cell.admin.create_topic(topic)
    plan = await cell.admin.plan("delete_topic", topic=str(topic))
    await cell.admin.delete_topic(topic)
    with pytest.raises(TopicNotFoundError):
        await cell.admin.apply(plan)
    await cell.admin.create_topic(topic)
    with pytest.raises(PlanRefusedError, match="has changed"):
        await cell.admin.apply(plan)


async def test_plan_does_not_delete_a_namespace_made_anew(cell: Cell) -> None:
    await cell.admin.create_namespace("apart")
    plan = await cell.admin.plan("delete_namespace", namespace="apart")
    await cell.admin.delete_namespace("apart")
    await cell.admin.create_namespace("apart")
    with pytest.raises(PlanRefusedError, match="has changed"):
        await cell.admin.apply(plan)


async def test_plan_does_not_delete_a_subscription_made_anew(cell: Cell, topic: TopicName) -> None:
    await idle_subscription(cell, topic)
    plan = await cell.admin.plan("unsubscribe", topic=str(topic), subscription="subscription")
    await cell.admin.unsubscribe(topic)
    await idle_subscription(cell, topic)
    with pytest.raises(PlanRefusedError, match="has changed"):
        await cell.admin.apply(plan)


async def test_plan_to_unsubscribe_is_refused_once_a_consumer_is_back(cell: Cell, topic: TopicName) -> None:
    await idle_subscription(cell, topic)
    plan = await cell.admin.plan("unsubscribe", topic=str(topic), subscription="subscription")
    inbox = await cell.client.receive(await cell.client.subscribe(topic))
    with pytest.raises(PreconditionFailedError, match="is connected"):
        await cell.admin.apply(plan)
    inbox.close()


# Approval


async def test_plan_that_needs_approval_waits_for_a_person(cell: Cell, topic: TopicName) -> None:
    await cell.admin.create_topic(topic)
    plan = await cell.admin.plan("delete_topic", caller=ASSISTANT, needs_approval=True, topic=str(topic))
    with pytest.raises(PlanWaitsError, match=f"danube-admin plans approve {plan.plan_id}"):
        await cell.admin.apply(plan, caller=ASSISTANT)
    with pytest.raises(PlanRefusedError, match="an assistant cannot decide"):
        await cell.admin.decide(plan.plan_id, caller=ASSISTANT)
    assert await topics(cell) == [topic]
    decided = await cell.admin.decide(plan.plan_id, caller=PERSON)
    assert (decided.approval, decided.decided_by) == (Approval.APPROVED, PERSON)
    applied = await cell.admin.apply(plan, caller=ASSISTANT)
    assert (applied.decided_by, applied.applied_by) == (PERSON, ASSISTANT)


async def test_rejected_plan_is_never_applied(cell: Cell, topic: TopicName) -> None:
    await cell.admin.create_topic(topic)
    plan = await cell.admin.plan("delete_topic", needs_approval=True, topic=str(topic))
    await cell.admin.decide(plan.plan_id, approve=False)
    with pytest.raises(PlanRefusedError, match="was rejected"):
        await cell.admin.apply(plan)
    with pytest.raises(PlanRefusedError, match="waits for no decision"):
        await cell.admin.decide(plan.plan_id)


@pytest.mark.parametrize("plan_id", ["plan-0123456789ab", "", "x" * 200, "../plans", "plan-0123456789AB"])
async def test_plan_that_is_not_there_is_not_found_wherever_it_is_asked_for(cell: Cell, plan_id: str) -> None:
    calls: list[Callable[[], Awaitable[object]]] = [
        lambda: cell.admin.get_plan(plan_id),
        lambda: cell.admin.decide(plan_id),
    ]
    for call in calls:
        with pytest.raises(PlanNotFoundError):
            await call()


# Races


async def test_of_two_who_apply_a_plan_at_once_one_acts(cell: Cell, topic: TopicName) -> None:
    await cell.admin.create_partitioned_topic(topic, 3)
    plan = await cell.admin.plan("delete_topic", topic=str(topic))
    ends = await asyncio.gather(*(cell.admin.apply(plan) for _ in range(4)), return_exceptions=True)
    assert sum(isinstance(end, Plan) for end in ends) == 1
    assert {str(end) for end in ends if not isinstance(end, Plan)} == {
        f"plan {plan.plan_id} was applied already and acts once: ask for a new plan"
    }


async def test_plan_applied_elsewhere_before_the_transaction_is_not_applied_again(
    cell: Cell, topic: TopicName, monkeypatch: pytest.MonkeyPatch
) -> None:
    await cell.admin.create_namespace("apart")
    plan = await cell.admin.plan("delete_namespace", namespace="apart")
    delete, first = Records.delete_namespace, True

    async def slowly(records: Records, name: str, *, extra_writes: ExtraWrites | None = None) -> None:
        nonlocal first
        if first:
            first = False
            await cell.admin.apply(plan)
            await cell.admin.create_namespace("apart")
        await delete(records, name, extra_writes=extra_writes)

    monkeypatch.setattr(Records, "delete_namespace", slowly)
    with pytest.raises(PlanRefusedError, match="acts once"):
        await cell.admin.apply(plan)
    assert "apart" in await cell.admin.namespaces()


@pytest.mark.parametrize("turn", range(6))
async def test_plan_decided_about_while_it_is_applied_is_approved_and_applied_or_neither(cell: Cell, turn: int) -> None:
    await cell.admin.create_namespace("apart")
    plan = await cell.admin.plan("delete_namespace", needs_approval=True, namespace="apart")

    async def apply_a_little_later() -> object:
        for _ in range(turn):
            await asyncio.sleep(0)
        return await cell.admin.apply(plan)

    decided, applied = await asyncio.gather(
        cell.admin.decide(plan.plan_id, approve=turn % 2 == 0), apply_a_little_later(), return_exceptions=True
    )
    assert isinstance(decided, Plan)
    now = await cell.admin.get_plan(plan.plan_id)
    is_done = "apart" not in await cell.admin.namespaces()
    assert isinstance(applied, Plan) == is_done == (now.applied_ms is not None)
    assert not is_done or now.approval is Approval.APPROVED


async def test_topic_made_anew_while_its_plan_is_applied_stays(
    cell: Cell, topic: TopicName, monkeypatch: pytest.MonkeyPatch
) -> None:
    await cell.admin.create_topic(topic)
    plan = await cell.admin.plan("delete_topic", topic=str(topic))
    ends = await asyncio.gather(
        cell.admin.delete_topic(topic),
        cell.admin.create_topic(topic),
        cell.admin.apply(plan),
        return_exceptions=True,
    )
    now = await cell.admin.get_plan(plan.plan_id)
    assert isinstance(ends[2], Plan) == (now.applied_ms is not None)
    made_again = not isinstance(ends[1], BaseException)
    assert await topics(cell) == ([topic] if made_again else [])


async def test_no_subscription_comes_between_the_last_look_at_a_topic_and_its_deletion(
    cell: Cell, topic: TopicName, monkeypatch: pytest.MonkeyPatch
) -> None:
    await cell.admin.create_topic(topic)
    plan = await cell.admin.plan("delete_topic", topic=str(topic))
    delete, joining = Records.delete_topics, []

    async def look_and_let_others(draft: TransactionBuilder, extra_writes: ExtraWrites) -> None:
        await extra_writes(draft)
        joining.append(asyncio.get_running_loop().create_task(cell.client.subscribe(topic)))
        for _ in range(TURNS):
            await cell.admin.plans_page()

    async def delete_topics(
        records: Records, gone: Sequence[TopicRecord], *, extra_writes: ExtraWrites | None = None
    ) -> None:
        assert extra_writes is not None
        await delete(records, gone, extra_writes=partial(look_and_let_others, extra_writes=extra_writes))

    monkeypatch.setattr(Records, "delete_topics", delete_topics)
    await cell.admin.apply(plan)
    with pytest.raises(TopicNotFoundError):
        await joining[0]


# Listing


async def test_plans_are_listed_newest_first_page_by_page(cell: Cell, topic: TopicName) -> None:
    await cell.admin.create_topic(topic)
    made = [await cell.admin.plan("delete_topic", topic=str(topic)) for _ in range(5)]
    wanted = sorted(made, key=lambda plan: (-plan.created_ms, plan.plan_id))
    seen: list[Plan] = []
    page = await cell.admin.plans_page(page_size=2)
    while True:
        seen += page.plans
        if page.next is None:
            break
        page = await cell.admin.plans_page(page_size=2, after=page.next)
    assert seen == wanted
    assert page.now_ms >= made[-1].created_ms


async def test_plans_that_are_over_can_be_left_out(cell: Cell, topic: TopicName) -> None:
    await cell.admin.create_topic(topic)
    waits = await cell.admin.plan("delete_topic", needs_approval=True, topic=str(topic))
    rejected = await cell.admin.plan("delete_topic", needs_approval=True, topic=str(topic))
    await cell.admin.decide(rejected.plan_id, approve=False)
    assert len((await cell.admin.plans_page()).plans) == 2
    assert (await cell.admin.plans_page(open_only=True)).plans == (waits,)


async def test_page_of_plans_with_the_longest_names_can_be_received(cell: Cell) -> None:
    await cell.admin.create_namespace("n" * 255)
    base = TopicName("n" * 255, "t" * 240)
    await cell.admin.create_partitioned_topic(base, 20)
    for index in range(20):
        await cell.client.subscribe(base.partition(index), "ü" * 127, kind=SubscriptionType.SHARED)
    plans = [await cell.admin.plan("delete_topic", topic=str(base)) for _ in range(60)]
    page = await cell.admin.plans_page()
    assert 20 < len(page.plans) < len(plans)
    assert page.next is not None
    assert len((await cell.admin.plans_page(after=page.next)).plans) > 0
