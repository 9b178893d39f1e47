"""Retention by a plan: the plan says what would be deleted, that is what is deleted, and nothing else changes it."""

from typing import Any

import pytest

from danube.broker.topics.drain import Cause, ClientDrain
from danube.model.calls.stream import FetchFrom
from danube.model.errors import (
    DanubeError,
    InvalidRequestError,
    NamespaceNotFoundError,
    PlanRefusedError,
    PlanWaitsError,
    PreconditionFailedError,
    StorageUnavailableError,
    TopicNotFoundError,
    TopicNotServedError,
)
from danube.model.plans.plan import Impact, Plan
from danube.model.policies import Policies
from danube.model.records.audit import AUDIT_TOPIC
from danube.model.records.telemetry import TELEMETRY_TOPIC
from danube.model.topic import DispatchStrategy, TopicName
from danube.testing.in_process_broker import Cell, StartBroker
from danube.testing.peers.admin import ASSISTANT, PERSON
from tests.unit.broker.keeper import Keeper
from tests.unit.storage.store.storage_world import flush_all

OTHER = TopicName("default", "other")
KEPT_BYTES = 10_000
MESSAGES = 60
PAYLOAD = b"x" * 400


@pytest.fixture
async def filled(keepers: list[Keeper], start_broker: StartBroker, topic: TopicName) -> tuple[Cell, Keeper]:
    """A broker with a topic of many segments, and what keeps them."""
    cell = await start_broker(telemetry_interval_s=0)
    await fill(cell, topic)
    await flush_all(keepers[-1].storage)
    return cell, keepers[-1]


async def fill(cell: Cell, topic: TopicName, count: int = MESSAGES) -> None:
    producer = await cell.client.create_producer(topic)
    for _ in range(count):
        await cell.client.send(topic, producer, PAYLOAD)


async def start_of(cell: Cell, topic: TopicName) -> int:
    (described,) = await cell.admin.describe(topic)
    return described.start_offset


async def planned(cell: Cell, name: TopicName | str, **arguments: Any) -> Plan:
    if isinstance(name, str):
        return await cell.admin.plan("set_namespace_retention", namespace=name, **arguments)
    return await cell.admin.plan("set_topic_retention", topic=str(name), **arguments)


async def impact_of(cell: Cell, name: TopicName | str, **arguments: Any) -> Impact:
    return (await planned(cell, name, **arguments)).impact


async def set_retention(cell: Cell, name: TopicName | str, **arguments: Any) -> None:
    await cell.admin.apply(await planned(cell, name, **arguments))


# What a plan says


async def test_the_plan_says_what_goes_and_that_is_what_goes(filled: tuple[Cell, Keeper], topic: TopicName) -> None:
    cell, keeper = filled
    plan = await planned(cell, topic, bytes=KEPT_BYTES)
    assert plan.impact.changes == (
        "Set the retention of topic /default/orders.",
        "/default/orders: retention: unlimited -> 9.8 KiB (unread kept).",
    )
    assert await keeper.let_go() == 0
    await cell.admin.apply(plan)
    segments = await keeper.let_go()
    gone = await start_of(cell, topic)
    assert gone > 0
    lost, always = plan.impact.irreversible
    assert lost.startswith(f"/default/orders loses at once {gone} messages of ")
    assert f" in {segments} segments, stored 20" in lost
    assert lost.endswith("; no subscription needs them.")
    assert always.startswith("Deleted messages never come back.")
    assert plan.impact.messages is not None
    assert gone <= plan.impact.messages < MESSAGES
    assert (plan.impact.topics, plan.impact.topic_count) == (("/default/orders",), 1)


async def test_the_plan_says_who_has_not_read_what_goes(filled: tuple[Cell, Keeper], topic: TopicName) -> None:
    cell, keeper = filled
    await cell.admin.create_subscription(topic, "late", start=10)
    await cell.admin.create_subscription(topic, "done", start=FetchFrom.LATEST)
    keeping = await impact_of(cell, topic, bytes=1)
    assert keeping.messages is not None
    assert keeping.messages <= 10
    assert keeping.subscriptions == ()
    impact = await impact_of(cell, topic, bytes=1, drops_unread=True)
    assert impact.messages == MESSAGES
    assert f"; unread by 'late' ({MESSAGES - 10})." in impact.irreversible[0]
    assert (impact.subscriptions, impact.subscription_count) == (("/default/orders late",), 1)
    assert impact.changes[1] == "/default/orders: retention: unlimited -> 1 B (unread dropped)."
    await set_retention(cell, topic, bytes=1, drops_unread=True)
    await keeper.let_go()
    assert await start_of(cell, topic) > 10


async def test_what_is_not_in_segments_yet_is_told_too(cell: Cell, topic: TopicName) -> None:
    await fill(cell, topic, 10)
    impact = await impact_of(cell, topic, bytes=1)
    assert impact.irreversible[0].startswith("/default/orders loses up to 10 messages of ")
    assert "as soon as newer segments follow them" in impact.irreversible[0]
    assert impact.messages == 10
    impact = await impact_of(cell, topic, time_s=3_600)
    assert (impact.messages, impact.bytes) == (0, 0)
    assert [text.split(".")[0] for text in impact.irreversible] == ["Deleted messages never come back"]


async def test_a_change_that_keeps_more_is_a_plan_that_deletes_nothing(
    filled: tuple[Cell, Keeper], topic: TopicName
) -> None:
    cell, keeper = filled
    await set_retention(cell, topic, bytes=KEPT_BYTES)
    plan = await planned(cell, topic, clear=True)
    assert plan.impact.changes[1] == "/default/orders: retention: 9.8 KiB (unread kept) -> unlimited."
    assert (plan.impact.messages, plan.impact.irreversible) == (0, ())
    await cell.admin.apply(plan)
    assert await keeper.let_go() == 0
    assert (await cell.admin.topic_policies(topic)).own == Policies()


async def test_the_plan_for_a_namespace_is_for_the_topics_that_it_changes(
    filled: tuple[Cell, Keeper], topic: TopicName
) -> None:
    cell, keeper = filled
    await fill(cell, OTHER)
    await flush_all(keeper.storage)
    await cell.admin.create_topic(TopicName("default", "passing"), DispatchStrategy.NON_RELIABLE)
    await set_retention(cell, OTHER, bytes=1 << 40)
    plan = await planned(cell, "default", bytes=KEPT_BYTES)
    assert plan.impact.changes[0] == "Set the retention of namespace default, for topics that are made later, too."
    assert plan.impact.topics == (str(topic),)
    await cell.admin.apply(plan)
    await keeper.let_go()
    assert [await start_of(cell, each) > 0 for each in (topic, OTHER)] == [True, False]
    changes = (await impact_of(cell, "default", bytes=KEPT_BYTES)).changes
    assert changes[1:] == ("It changes nothing for the topics that are there now.",)


async def test_the_plan_names_the_topics_that_lose_most_and_counts_the_others(cell: Cell, topic: TopicName) -> None:
    await cell.admin.create_partitioned_topic(topic, 25)
    for index, count in ((7, 1), (24, 2)):
        await fill(cell, topic.partition(index), count)
    impact = await impact_of(cell, topic, bytes=1)
    assert (len(impact.topics), impact.topic_count) == (20, 25)
    assert impact.topics[:3] == tuple(str(topic.partition(index)) for index in (24, 7, 0))
    assert len(impact.changes) == 22
    assert impact.changes[-1] == "And 5 more topics."
    assert impact.messages == 3


# What is refused


@pytest.mark.parametrize(
    ("operation", "arguments", "error"),
    [
        ("set_topic_retention", {"topic": "/default/none", "time_s": 1}, TopicNotFoundError),
        ("set_topic_retention", {"topic": str(AUDIT_TOPIC), "time_s": 1}, PreconditionFailedError),
        ("set_topic_retention", {"topic": "/default/passing", "time_s": 1}, PreconditionFailedError),
        ("set_topic_retention", {"topic": "/default/orders"}, InvalidRequestError),
        ("set_topic_retention", {"topic": "/default/orders", "time_s": -1}, InvalidRequestError),
        ("set_topic_retention", {"topic": "/default/orders", "time_s": 1, "force": True}, InvalidRequestError),
        ("set_topic_retention", {"namespace": "default", "time_s": 1}, InvalidRequestError),
        ("set_topic_retention", {"topic": 7, "time_s": 1}, InvalidRequestError),
        ("set_namespace_retention", {"namespace": "none", "time_s": 1}, NamespaceNotFoundError),
        ("set_namespace_retention", {"namespace": "system", "time_s": 1}, PreconditionFailedError),
        ("set_namespace_retention", {"namespace": "default"}, InvalidRequestError),
    ],
)
async def test_no_plan_is_made_for_what_could_not_be_done(
    cell: Cell, topic: TopicName, operation: str, arguments: dict[str, Any], error: type[DanubeError]
) -> None:
    await cell.admin.create_topic(topic)
    await cell.admin.create_topic(TopicName("default", "passing"), DispatchStrategy.NON_RELIABLE)
    with pytest.raises(error):
        await cell.admin.plan(operation, **arguments)
    assert (await cell.admin.plans_page()).plans == ()


async def test_what_the_broker_tells_of_itself_may_be_kept_for_longer(cell: Cell) -> None:
    await set_retention(cell, TELEMETRY_TOPIC, time_s=30 * 86_400)
    holding = (await cell.admin.topic_policies(TELEMETRY_TOPIC)).holding
    assert (holding.retention_time_s, holding.retention_drops_unread) == (30 * 86_400, 1)


async def test_where_it_cannot_be_said_what_a_topic_would_lose_there_is_no_plan(
    filled: tuple[Cell, Keeper], topic: TopicName, start_broker: StartBroker
) -> None:
    cell, keeper = filled
    await cell.admin.create_topic(OTHER)
    await keeper.topics.unload(OTHER, ClientDrain(Cause.MOVED, f"topic {OTHER}"))
    for name in (OTHER, "default"):
        with pytest.raises(TopicNotServedError):
            await planned(cell, name, bytes=1)
    folder = keeper.folder(cell.settings.data_dir, topic)
    await start_broker(telemetry_interval_s=0)
    (manifest,) = folder.glob("*.manifest")
    manifest.write_bytes(manifest.read_bytes()[:-1])
    cell = await start_broker(telemetry_interval_s=0)
    for name in (topic, "default"):
        with pytest.raises(StorageUnavailableError, match="what is stored of /default/orders cannot be read"):
            await planned(cell, name, bytes=1)


async def test_an_assistants_plan_waits_for_a_person(filled: tuple[Cell, Keeper], topic: TopicName) -> None:
    cell, keeper = filled
    plan = await cell.admin.plan(
        "set_topic_retention", caller=ASSISTANT, needs_approval=True, topic=str(topic), bytes=KEPT_BYTES
    )
    with pytest.raises(PlanWaitsError):
        await cell.admin.apply(plan, caller=ASSISTANT)
    assert await keeper.let_go() == 0
    await cell.admin.decide(plan.plan_id, caller=PERSON)
    await cell.admin.apply(plan, caller=ASSISTANT)
    assert await keeper.let_go() > 0


async def test_a_plan_applied_twice_is_refused(cell: Cell, topic: TopicName) -> None:
    await cell.admin.create_topic(topic)
    plan = await planned(cell, topic, time_s=60)
    await cell.admin.apply(plan)
    await set_retention(cell, topic, clear=True)
    with pytest.raises(PlanRefusedError, match="applied already and acts once"):
        await cell.admin.apply(plan)
    assert (await cell.admin.topic_policies(topic)).own == Policies()


async def test_a_plan_is_refused_once_the_retention_is_another_one(cell: Cell, topic: TopicName) -> None:
    await cell.admin.create_topic(topic)
    plans = [await planned(cell, name, time_s=60) for name in (topic, "default")]
    await set_retention(cell, topic, bytes=1 << 40)
    for plan in plans:
        with pytest.raises(PlanRefusedError, match="has changed"):
            await cell.admin.apply(plan)
    assert (await cell.admin.topic_policies(topic)).own == Policies(retention_bytes=1 << 40)
    assert (await cell.admin.namespace_policies("default")).own == Policies()


async def test_a_plan_for_a_topic_is_refused_once_it_inherits_another_retention(cell: Cell, topic: TopicName) -> None:
    await cell.admin.create_topic(topic)
    plan = await planned(cell, topic, time_s=60)
    await set_retention(cell, "default", time_s=90)
    with pytest.raises(PlanRefusedError, match="has changed"):
        await cell.admin.apply(plan)


async def test_a_plan_for_a_namespace_is_refused_once_it_has_another_topic(cell: Cell, topic: TopicName) -> None:
    plan = await planned(cell, "default", time_s=60)
    await cell.admin.create_topic(topic)
    with pytest.raises(PlanRefusedError, match="has changed"):
        await cell.admin.apply(plan)


async def test_a_plan_that_deletes_nothing_does_not_delete_what_came_since(cell: Cell, topic: TopicName) -> None:
    await cell.admin.create_topic(topic)
    plan = await planned(cell, topic, bytes=1)
    await fill(cell, topic, 3)
    with pytest.raises(PlanRefusedError, match="was made for 0 messages and now there are 3"):
        await cell.admin.apply(plan)
    assert (await cell.admin.topic_policies(topic)).own == Policies()


async def test_a_plan_does_not_take_from_a_subscription_that_it_does_not_name(
    filled: tuple[Cell, Keeper], topic: TopicName
) -> None:
    cell, _ = filled
    plan = await planned(cell, topic, bytes=KEPT_BYTES, drops_unread=True)
    await cell.admin.create_subscription(topic, start=FetchFrom.EARLIEST)
    with pytest.raises(PlanRefusedError, match="has changed"):
        await cell.admin.apply(plan)


# What is set


async def test_retention_is_inherited_limit_by_limit(start_broker: StartBroker, topic: TopicName) -> None:
    cell = await start_broker(retention_time_s=60, retention_drops_unread=True)
    await cell.admin.create_topic(topic)
    await set_retention(cell, "default", bytes=1 << 40)
    await set_retention(cell, topic, drops_unread=False)
    view = await cell.admin.topic_policies(topic)
    assert view.own == Policies(retention_drops_unread=0)
    holding = view.holding
    assert (holding.retention_time_s, holding.retention_bytes, holding.retention_drops_unread) == (60, 1 << 40, 0)
    await set_retention(cell, topic, time_s=0, clear=True)
    holding = (await cell.admin.topic_policies(topic)).holding
    assert (holding.retention_time_s, holding.retention_drops_unread) == (0, 1)


async def test_what_was_planned_and_its_plan_outlive_a_restart_together(
    start_broker: StartBroker, topic: TopicName
) -> None:
    cell = await start_broker()
    await cell.admin.create_partitioned_topic(topic, 2)
    await set_retention(cell, "default", time_s=90)
    plan = await planned(cell, topic, bytes=1 << 40)
    cell = await start_broker()
    applied = await cell.admin.apply(plan)
    cell = await start_broker()
    assert await cell.admin.get_plan(plan.plan_id) == applied
    for index in range(2):
        view = await cell.admin.topic_policies(topic.partition(index))
        assert (view.own, view.holding.retention_time_s) == (Policies(retention_bytes=1 << 40), 90)


async def test_other_limits_stay_when_retention_changes(cell: Cell, topic: TopicName) -> None:
    await cell.admin.create_topic(topic)
    await cell.admin.set_topic_policies(topic, max_publish_rate=7)
    await set_retention(cell, topic, time_s=60)
    await cell.admin.set_topic_policies(topic, "max_publish_rate", max_consumers_per_topic=9)
    assert (await cell.admin.topic_policies(topic)).own == Policies(retention_time_s=60, max_consumers_per_topic=9)
