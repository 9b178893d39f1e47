"""Durability by a plan: the plan says what a power cut may take, and from then on publishes are acknowledged so."""

from typing import Any

import pytest

from danube.broker import assembly
from danube.broker.config.values import storage_settings
from danube.model.errors import (
    DanubeError,
    InvalidRequestError,
    NamespaceNotFoundError,
    PlanRefusedError,
    PlanWaitsError,
    PreconditionFailedError,
    TopicNotFoundError,
)
from danube.model.plans.durability import Durability
from danube.model.plans.plan import Effect, Impact, Plan
from danube.model.policies import Policies
from danube.model.records.audit import AUDIT_TOPIC, AuditEntry, Outcome
from danube.model.records.telemetry import TELEMETRY_TOPIC
from danube.model.topic import DispatchStrategy, TopicName
from danube.testing.in_process_broker import Cell, StartBroker
from danube.testing.peers.admin import ASSISTANT, PERSON
from tests.unit.broker.keeper import Keeper

OTHER = TopicName("default", "other")
PASSING = TopicName("default", "passing")
ENTRY = AuditEntry(caller=PERSON, operation="list_topics", arguments={}, effect=Effect.READ, outcome=Outcome.DONE)
INTERVAL = "after the write, synced within 100 ms (interval)"
ALWAYS = "What a power cut has taken never comes back, though its producers were told that it is stored."


async def planned(cell: Cell, name: TopicName | str, durability: str | None = None, **arguments: Any) -> Plan:
    wanted = {"durability": durability, **arguments} if durability else arguments
    if isinstance(name, str):
        return await cell.admin.plan("set_namespace_durability", namespace=name, **wanted)
    return await cell.admin.plan("set_topic_durability", topic=str(name), **wanted)


async def impact_of(cell: Cell, name: TopicName | str, durability: str | None = None, **arguments: Any) -> Impact:
    return (await planned(cell, name, durability, **arguments)).impact


async def set_durability(cell: Cell, name: TopicName | str, durability: str | None = None, **arguments: Any) -> None:
    await cell.admin.apply(await planned(cell, name, durability, **arguments))


async def holding(cell: Cell, name: TopicName) -> int | None:
    return (await cell.admin.topic_policies(name)).holding.durability


@pytest.fixture
def keepers(keepers: list[Keeper], monkeypatch: pytest.MonkeyPatch) -> list[Keeper]:
    """With files of the usual size, so that the journal begins none, with syncs of its own, between two counts."""
    monkeypatch.setattr(assembly, "storage_settings", storage_settings)
    return keepers


async def syncs_of(cell: Cell, keeper: Keeper, topic: TopicName, messages: int = 3) -> int:
    """How often the journal syncs for so many messages, each of which waits for the one before."""
    producer = await cell.client.create_producer(topic)
    await cell.admin.audit()  # which waits for records of ends
    before = keeper.storage.stats.journal.syncs
    for _ in range(messages):
        await cell.client.send(topic, producer, b"x")
    return keeper.storage.stats.journal.syncs - before


# What a plan says


async def test_the_plan_says_what_a_power_cut_may_take_then(cell: Cell, topic: TopicName) -> None:
    await cell.admin.create_topic(topic)
    impact = await impact_of(cell, topic, "interval")
    assert impact.changes == (
        "Set the durability of topic /default/orders.",
        f"/default/orders: acknowledged after the sync (fsync) now, and then {INTERVAL}.",
    )
    assert impact.irreversible == (
        "/default/orders: a power cut may take what was acknowledged in the last 100 ms.",
        ALWAYS,
    )
    assert (impact.topics, impact.topic_count, impact.messages) == (("/default/orders",), 1, 0)
    weakest = await impact_of(cell, topic, "os")
    assert "the system had not written yet" in weakest.irreversible[0]


async def test_the_plan_goes_by_the_interval_that_the_broker_has(start_broker: StartBroker, topic: TopicName) -> None:
    cell = await start_broker(sync_interval_ms=2_000)
    await cell.admin.create_topic(topic)
    impact = await impact_of(cell, topic, "interval")
    assert "synced within 2,000 ms (interval)" in impact.changes[1]
    assert "in the last 2,000 ms" in impact.irreversible[0]


async def test_a_change_to_what_is_stronger_loses_nothing(start_broker: StartBroker, topic: TopicName) -> None:
    cell = await start_broker(durability="os")
    await cell.admin.create_topic(topic)
    for durability in ("interval", "fsync"):
        impact = await impact_of(cell, topic, durability)
        assert f"({durability})." in impact.changes[1]
        assert impact.irreversible == ()
    assert (await impact_of(cell, topic, "os")).changes[1:] == (
        "It changes nothing for the topics that are there now.",
    )


async def test_the_plan_for_a_namespace_names_the_topics_that_it_changes_and_those_to_come(
    cell: Cell, topic: TopicName
) -> None:
    for name in (topic, OTHER):
        await cell.admin.create_topic(name)
    await cell.admin.create_topic(PASSING, DispatchStrategy.NON_RELIABLE)
    await set_durability(cell, OTHER, "fsync")
    impact = await impact_of(cell, "default", "interval")
    assert impact.changes[0] == "Set the durability of namespace default, for topics that are made later, too."
    for lines in (impact.changes[1:], impact.irreversible[:-1]):
        assert [line.split(":")[0] for line in lines] == ["/default/orders", "Topics that are made later"]
    assert (impact.topics, impact.topic_count) == ((str(topic),), 1)


async def test_topics_that_become_weaker_are_named_first_and_the_others_counted(cell: Cell, topic: TopicName) -> None:
    await cell.admin.create_partitioned_topic(topic, 25)
    await set_durability(cell, topic.partition(3), "os")
    impact = await impact_of(cell, topic, "interval")
    assert (len(impact.topics), impact.topic_count) == (20, 25)
    assert str(topic.partition(3)) not in impact.topics
    assert impact.changes[-1] == "And 5 more topics."
    assert impact.irreversible[-2:] == ("And as much of 4 more topics.", ALWAYS)


# What is refused


@pytest.mark.parametrize(
    ("operation", "arguments", "error"),
    [
        ("set_topic_durability", {"topic": "/default/none", "durability": "os"}, TopicNotFoundError),
        ("set_topic_durability", {"topic": str(AUDIT_TOPIC), "durability": "os"}, PreconditionFailedError),
        ("set_topic_durability", {"topic": str(AUDIT_TOPIC), "clear": True}, PreconditionFailedError),
        ("set_topic_durability", {"topic": "/default/passing", "durability": "os"}, PreconditionFailedError),
        ("set_topic_durability", {"topic": "/default/orders"}, InvalidRequestError),
        ("set_topic_durability", {"topic": "/default/orders", "durability": 2}, InvalidRequestError),
        ("set_topic_durability", {"topic": "/default/orders", "durability": "soon"}, InvalidRequestError),
        ("set_topic_durability", {"topic": "/default/orders", "durability": "os", "clear": True}, InvalidRequestError),
        ("set_topic_durability", {"topic": "/default/orders", "durability": "os", "x": 1}, InvalidRequestError),
        ("set_topic_durability", {"namespace": "default", "durability": "os"}, InvalidRequestError),
        ("set_namespace_durability", {"namespace": "none", "durability": "os"}, NamespaceNotFoundError),
        ("set_namespace_durability", {"namespace": "system", "durability": "os"}, PreconditionFailedError),
        ("set_namespace_durability", {"namespace": "default"}, InvalidRequestError),
    ],
)
async def test_no_plan_is_made_for_what_could_not_be_done(
    cell: Cell, topic: TopicName, operation: str, arguments: dict[str, Any], error: type[DanubeError]
) -> None:
    await cell.admin.create_topic(topic)
    await cell.admin.create_topic(PASSING, DispatchStrategy.NON_RELIABLE)
    with pytest.raises(error):
        await cell.admin.plan(operation, **arguments)
    assert (await cell.admin.plans_page()).plans == ()


async def test_an_assistants_plan_waits_for_a_person(cell: Cell, topic: TopicName) -> None:
    await cell.admin.create_topic(topic)
    plan = await cell.admin.plan(
        "set_topic_durability", caller=ASSISTANT, needs_approval=True, topic=str(topic), durability="os"
    )
    with pytest.raises(PlanWaitsError):
        await cell.admin.apply(plan, caller=ASSISTANT)
    assert await holding(cell, topic) == 0
    await cell.admin.decide(plan.plan_id, caller=PERSON)
    await cell.admin.apply(plan, caller=ASSISTANT)
    assert await holding(cell, topic) == 2


async def test_a_plan_applied_twice_is_refused(cell: Cell, topic: TopicName) -> None:
    await cell.admin.create_topic(topic)
    plan = await planned(cell, topic, "os")
    await cell.admin.apply(plan)
    await set_durability(cell, topic, clear=True)
    with pytest.raises(PlanRefusedError, match="applied already and acts once"):
        await cell.admin.apply(plan)
    assert await holding(cell, topic) == 0


async def test_a_plan_is_refused_once_the_durability_is_another_one(cell: Cell, topic: TopicName) -> None:
    await cell.admin.create_topic(topic)
    plans = [await planned(cell, name, "os") for name in (topic, "default")]
    await set_durability(cell, topic, "interval")
    for plan in plans:
        with pytest.raises(PlanRefusedError, match="has changed"):
            await cell.admin.apply(plan)
    assert await holding(cell, topic) == 1
    assert (await cell.admin.namespace_policies("default")).own == Policies()


async def test_a_plan_is_refused_once_the_topic_sets_what_it_only_inherited(cell: Cell, topic: TopicName) -> None:
    await cell.admin.create_topic(topic)
    plan = await planned(cell, topic, "os")
    await set_durability(cell, topic, "fsync")
    with pytest.raises(PlanRefusedError, match="has changed"):
        await cell.admin.apply(plan)


async def test_a_plan_for_a_topic_is_refused_once_it_inherits_another_durability(cell: Cell, topic: TopicName) -> None:
    await cell.admin.create_topic(topic)
    plan = await planned(cell, topic, "os")
    await set_durability(cell, "default", "interval")
    with pytest.raises(PlanRefusedError, match="has changed"):
        await cell.admin.apply(plan)


async def test_a_plan_for_a_namespace_is_refused_once_it_has_another_topic(cell: Cell, topic: TopicName) -> None:
    plan = await planned(cell, "default", "os")
    await cell.admin.create_topic(topic)
    with pytest.raises(PlanRefusedError, match="has changed"):
        await cell.admin.apply(plan)


# What is set


async def test_what_neither_topic_nor_namespace_sets_is_as_the_broker_is_set(
    start_broker: StartBroker, topic: TopicName
) -> None:
    cell = await start_broker(durability="interval")
    await cell.admin.create_topic(topic)
    assert (await cell.admin.topic_policies(topic)).own == Policies()
    assert [await holding(cell, topic), (await cell.admin.namespace_policies("default")).holding.durability] == [1, 1]
    await set_durability(cell, "default", "os")
    assert await holding(cell, topic) == 2
    await set_durability(cell, topic, "fsync")
    assert await holding(cell, topic) == 0
    await set_durability(cell, topic, clear=True)
    assert await holding(cell, topic) == 2
    (described,) = await cell.admin.describe(topic)
    assert described.storage is not None
    assert described.storage.durability is Durability.OS


async def test_it_holds_at_once_for_open_topics_and_for_those_made_later(
    keepers: list[Keeper], start_broker: StartBroker, topic: TopicName
) -> None:
    cell = await start_broker(telemetry_interval_s=0)
    assert await syncs_of(cell, keepers[-1], topic) == 3
    await set_durability(cell, "default", "os")
    assert [await syncs_of(cell, keepers[-1], name) for name in (topic, OTHER)] == [0, 0]
    await set_durability(cell, topic, "fsync")
    assert [await syncs_of(cell, keepers[-1], name) for name in (topic, OTHER)] == [3, 0]


async def test_it_holds_after_a_restart_as_its_plan_does(
    keepers: list[Keeper], start_broker: StartBroker, topic: TopicName
) -> None:
    cell = await start_broker(telemetry_interval_s=0)
    await cell.admin.create_topic(topic)
    await cell.admin.create_topic(OTHER)
    plan = await planned(cell, topic, "os")
    cell = await start_broker(telemetry_interval_s=0)
    applied = await cell.admin.apply(plan)
    cell = await start_broker(telemetry_interval_s=0)
    assert await cell.admin.get_plan(plan.plan_id) == applied
    assert (await cell.admin.topic_policies(topic)).own == Policies(durability=2)
    assert [await syncs_of(cell, keepers[-1], name) for name in (topic, OTHER)] == [0, 3]


async def test_the_audit_log_is_synced_whatever_the_broker_is_set_to(
    keepers: list[Keeper], start_broker: StartBroker
) -> None:
    cell = await start_broker(telemetry_interval_s=0, durability="os")
    before = keepers[-1].storage.stats.journal.syncs
    await cell.admin.record(ENTRY)
    assert keepers[-1].storage.stats.journal.syncs > before
    assert await holding(cell, AUDIT_TOPIC) == 0


async def test_what_the_broker_tells_of_itself_is_as_durable_as_it_is_set_to(start_broker: StartBroker) -> None:
    cell = await start_broker(durability="interval")
    assert await holding(cell, TELEMETRY_TOPIC) == 1
    await set_durability(cell, TELEMETRY_TOPIC, "os")
    assert await holding(cell, TELEMETRY_TOPIC) == 2


async def test_other_limits_stay_when_durability_changes(cell: Cell, topic: TopicName) -> None:
    await cell.admin.create_topic(topic)
    await cell.admin.set_topic_policies(topic, max_publish_rate=7)
    await set_durability(cell, topic, "os")
    await cell.admin.set_topic_policies(topic, "max_publish_rate", max_consumers_per_topic=9)
    assert (await cell.admin.topic_policies(topic)).own == Policies(durability=2, max_consumers_per_topic=9)
