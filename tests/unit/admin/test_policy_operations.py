"""Setting and showing policies: what is taken, what is refused, what is answered."""

from typing import Any

import pytest

from danube.admin.access import Guard
from danube.admin.execution import Session, execute, parse_arguments
from danube.admin.operations import operation_of
from danube.admin.operations.topics.policies import PolicyName
from danube.admin.present import view_of
from danube.model.errors import DanubeError, InvalidRequestError, SubscriptionNotFoundError, UnsupportedError
from danube.model.limits.broker import RETENTION_BYTES_MAX
from danube.model.plans.plan import Caller, Face
from danube.model.policies import PLANNED_NAMES, POLICY_NAMES, RETENTION_NAMES
from tests.faces.memory_gateway import MemoryGateway
from tests.faces.seeded import BILLING, ORDERS, seeded_gateway

SUBSCRIPTION = {"topic": str(ORDERS), "subscription": BILLING}
WHOLE: dict[str, Any] = {
    **SUBSCRIPTION,
    "max_redelivery_count": 5,
    "ack_timeout_ms": 30_000,
    "base_redelivery_delay_ms": 1_000,
    "max_redelivery_delay_ms": 60_000,
    "poison_policy": "block",
}


async def asked(gateway: MemoryGateway, name: str, **arguments: Any) -> dict[str, Any]:
    operation = operation_of(name)
    caller = Caller(who="ada@desk", face=Face.CLI)
    session = Session(gateway=gateway, caller=caller, clock=gateway.clock, guard=Guard())
    return (await execute(session, operation, parse_arguments(operation, arguments))).model_dump(mode="json")


async def applied(gateway: MemoryGateway, name: str, **arguments: Any) -> None:
    """What acts by a plan: the plan, and then the act."""
    operation = operation_of(name)
    session = Session(gateway=gateway, caller=Caller(who="ada@desk", face=Face.CLI), clock=gateway.clock, guard=Guard())
    params = parse_arguments(operation, arguments)
    plan = (await execute(session, operation, params)).model_dump()["plan"]
    await execute(session, operation, params, plan_id=plan["plan_id"])


# Failure policy


async def test_a_policy_for_a_subscription_that_does_not_exist_yet_is_shown_listed_and_deleted() -> None:
    gateway = seeded_gateway()
    later = {"topic": SUBSCRIPTION["topic"], "subscription": "later"}
    answer = await asked(gateway, "set_subscription_failure_policy", **{**WHOLE, **later})
    assert (answer["is_set"], answer["subscription_type"]) == (True, "")
    for operation in ("describe_topic", "list_subscriptions"):
        assert (await asked(gateway, operation, topic=later["topic"]))["pending_policies"] == ["later"]
    await applied(gateway, "unsubscribe", **later)
    assert (await asked(gateway, "list_subscriptions", topic=later["topic"]))["pending_policies"] == []


async def test_where_no_failure_policy_is_set_the_answer_says_so() -> None:
    answer = await asked(seeded_gateway(), "get_subscription_failure_policy", **SUBSCRIPTION)
    assert answer == {
        **SUBSCRIPTION,
        "subscription_type": "Exclusive",
        "is_set": False,
        **dict.fromkeys(
            ("max_redelivery_count", "ack_timeout_ms", "base_redelivery_delay_ms", "max_redelivery_delay_ms")
        ),
        **dict.fromkeys(("backoff_strategy", "poison_policy", "dead_letter_topic")),
    }


async def test_the_whole_policy_is_replaced() -> None:
    gateway = seeded_gateway()
    letters = {"poison_policy": "dead_letter", "dead_letter_topic": "default/failed"}
    await asked(gateway, "set_subscription_failure_policy", **{**WHOLE, **letters})
    answer = await asked(gateway, "set_subscription_failure_policy", **WHOLE)
    assert answer["backoff_strategy"] == "fixed"
    assert (answer["poison_policy"], answer["dead_letter_topic"]) == ("block", None)
    assert answer == await asked(gateway, "get_subscription_failure_policy", **SUBSCRIPTION)


@pytest.mark.parametrize("word", ["dead-letter", "dead_letter", "Dead-Letter"])
async def test_the_original_s_two_spellings_of_dead_letter_are_taken(word: str) -> None:
    arguments = {**WHOLE, "poison_policy": word, "dead_letter_topic": "default/failed"}
    answer = await asked(seeded_gateway(), "set_subscription_failure_policy", **arguments)
    assert (answer["poison_policy"], answer["dead_letter_topic"]) == ("dead_letter", "/default/failed")


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"poison_policy": "drop"}, "danube-admin topics set-drop-policy"),
        ({"poison_policy": "keep"}, "'dead_letter', 'block' or 'drop'"),
        ({"poison_policy": ""}, "'dead_letter', 'block' or 'drop'"),
        ({"backoff_strategy": "linear"}, "'fixed' or 'exponential'"),
        ({"poison_policy": "dead_letter"}, "needs dead_letter_topic"),
        ({"poison_policy": "dead_letter", "dead_letter_topic": str(ORDERS)}, "the topic itself"),
        ({"base_redelivery_delay_ms": 60_001}, "above max_redelivery_delay_ms"),
        ({"ack_timeout_ms": 0}, "ack_timeout_ms"),
        ({"max_redelivery_count": -1}, "max_redelivery_count"),
        ({"max_redelivery_count": None}, "max_redelivery_count"),
    ],
)
async def test_a_policy_that_cannot_be_is_refused_and_nothing_is_set(changed: dict[str, Any], problem: str) -> None:
    gateway = seeded_gateway()
    before = gateway.digest()
    with pytest.raises(InvalidRequestError, match=problem):
        await asked(gateway, "set_subscription_failure_policy", **{**WHOLE, **changed})
    assert gateway.digest() == before


async def test_durations_are_shown_with_their_unit() -> None:
    operation = operation_of("set_subscription_failure_policy")
    answer = await asked(seeded_gateway(), operation.name, **WHOLE)
    facts = dict(view_of(operation, operation.result.model_validate(answer)).facts)
    assert facts["Ack timeout (ms)"] == "30,000"


# Dispatch


async def test_a_window_is_set_within_its_bounds() -> None:
    gateway = seeded_gateway()
    assert (await asked(gateway, "get_subscription_dispatch_config", **SUBSCRIPTION))["max_unacked_messages"] is None
    for window in (1, 10_000):
        answer = await asked(gateway, "set_subscription_dispatch_config", **SUBSCRIPTION, max_unacked_messages=window)
        assert answer["max_unacked_messages"] == window
    for window in (0, 10_001):
        with pytest.raises(InvalidRequestError, match="max_unacked_messages"):
            await asked(gateway, "set_subscription_dispatch_config", **SUBSCRIPTION, max_unacked_messages=window)


async def test_a_subscription_that_is_not_there_has_no_policies() -> None:
    for name in ("get_subscription_failure_policy", "get_subscription_dispatch_config"):
        with pytest.raises(SubscriptionNotFoundError):
            await asked(seeded_gateway(), name, topic=str(ORDERS), subscription="missing")


# Limits


def test_every_limit_has_a_name_and_a_field_but_those_that_take_a_plan() -> None:
    assert tuple(PolicyName) == tuple(name for name in POLICY_NAMES if name not in PLANNED_NAMES)
    for name in ("set_namespace_policies", "set_topic_policies"):
        fields = set(operation_of(name).params.model_fields)
        assert set(PolicyName) < fields
        assert not fields & set(PLANNED_NAMES)


async def test_limits_of_a_namespace_are_shown_where_they_are_asked_for() -> None:
    gateway = seeded_gateway()
    await asked(gateway, "set_namespace_policies", namespace="default", max_publish_rate=9, max_message_size=60)
    shown = await asked(gateway, "get_namespace_policies", namespace="default")
    assert (shown["max_publish_rate"], shown["max_message_size"], shown["max_publish_rate_bytes"]) == (9, 60, 0)
    topic = await asked(gateway, "get_topic_policies", topic=str(ORDERS))
    assert (topic["max_publish_rate"], topic["set_here"]) == (9, [])


async def test_retention_is_set_by_a_plan_and_shown_as_people_say_it() -> None:
    gateway = seeded_gateway()
    await applied(gateway, "set_namespace_retention", namespace="default", time_s=86_400, bytes=1 << 40)
    await applied(gateway, "set_namespace_retention", namespace="default", drops_unread=True)
    await applied(gateway, "set_topic_retention", topic=str(ORDERS), drops_unread=False)
    kept = await asked(gateway, "get_topic_policies", topic=str(ORDERS))
    assert kept["set_here"] == ["retention_drops_unread"]
    assert [kept[name] for name in RETENTION_NAMES] == [86_400, 1 << 40, False]
    shown = await asked(gateway, "get_namespace_policies", namespace="default")
    assert [shown[name] for name in RETENTION_NAMES] == [86_400, 1 << 40, True]


async def test_durability_is_set_by_a_plan_and_shown_by_its_name() -> None:
    gateway = seeded_gateway()
    await applied(gateway, "set_namespace_durability", namespace="default", durability="interval")
    kept = await asked(gateway, "get_topic_policies", topic=str(ORDERS))
    assert (kept["set_here"], kept["durability"]) == ([], "interval")
    await applied(gateway, "set_topic_durability", topic=str(ORDERS), durability="os")
    kept = await asked(gateway, "get_topic_policies", topic=str(ORDERS))
    assert (kept["set_here"], kept["durability"]) == (["durability"], "os")
    assert (await asked(gateway, "describe_topic", topic=str(ORDERS)))["durability"] == "os"
    assert (await asked(gateway, "get_namespace_policies", namespace="default"))["durability"] == "interval"
    await applied(gateway, "set_topic_durability", topic=str(ORDERS), clear=True)
    assert (await asked(gateway, "get_topic_policies", topic=str(ORDERS)))["durability"] == "interval"


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({}, "Nothing to change"),
        ({"durability": "soon"}, "'fsync', 'interval' or 'os'"),
        ({"durability": 2}, "'fsync', 'interval' or 'os'"),
        ({"durability": "os", "clear": True}, "set and cleared at once"),
    ],
)
async def test_a_durability_that_cannot_be_is_not_even_planned(change: dict[str, Any], problem: str) -> None:
    gateway = seeded_gateway()
    with pytest.raises(InvalidRequestError, match=problem):
        await asked(gateway, "set_topic_durability", topic=str(ORDERS), **change)
    assert len(gateway.stored_plans) == len(seeded_gateway().stored_plans)


async def test_of_a_broker_that_does_not_tell_its_durability_is_not_known() -> None:
    gateway = seeded_gateway()
    gateway.is_original = True
    assert (await asked(gateway, "get_namespace_policies", namespace="default"))["durability"] is None
    assert (await asked(gateway, "describe_topic", topic=str(ORDERS)))["durability"] is None


async def test_what_is_cleared_is_inherited_again_but_what_is_given_with_it() -> None:
    gateway = seeded_gateway()
    await applied(gateway, "set_topic_retention", topic=str(ORDERS), time_s=60, bytes=1_000, drops_unread=True)
    await applied(gateway, "set_topic_retention", topic=str(ORDERS), time_s=90, clear=True)
    kept = await asked(gateway, "get_topic_policies", topic=str(ORDERS))
    assert (kept["set_here"], kept["retention_time_s"], kept["retention_bytes"]) == (["retention_time_s"], 90, 0)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({}, "Nothing to change"),
        ({"clear": False}, "Nothing to change"),
        ({"time_s": -1}, "time_s"),
        ({"bytes": RETENTION_BYTES_MAX + 1}, "bytes"),
        ({"drops_unread": 2}, "drops_unread"),
        ({"max_publish_rate": 1}, "max_publish_rate"),
    ],
)
async def test_a_retention_that_cannot_be_is_not_even_planned(change: dict[str, Any], problem: str) -> None:
    gateway = seeded_gateway()
    with pytest.raises(InvalidRequestError, match=problem):
        await asked(gateway, "set_topic_retention", topic=str(ORDERS), **change)
    assert len(gateway.stored_plans) == len(seeded_gateway().stored_plans)


async def test_one_limit_is_set_while_another_is_inherited_again() -> None:
    gateway = seeded_gateway()
    await asked(gateway, "set_topic_policies", topic=str(ORDERS), max_message_size=10, max_consumers_per_topic=3)
    answer = await asked(
        gateway, "set_topic_policies", topic=str(ORDERS), max_publish_rate=0, unset=["max-message-size"]
    )
    assert answer["set_here"] == ["max_consumers_per_topic", "max_publish_rate"]
    assert (answer["max_message_size"], answer["max_consumers_per_topic"]) == (0, 3)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({}, "Nothing to change"),
        ({"unset": ["retention"]}, "max_message_size"),
        ({"unset": ["retention_bytes"]}, "max_message_size"),
        ({"unset": ["durability"]}, "max_message_size"),
        ({"durability": "os"}, "durability"),
        ({"unset": ["max_publish_rate"], "max_publish_rate": 1}, "set and unset at once"),
        ({"max_publish_rate": -1}, "max_publish_rate"),
        ({"max_publish_rate": 2**32}, "max_publish_rate"),
        ({"retention_bytes": 1}, "retention_bytes"),
    ],
)
async def test_a_change_that_makes_no_sense_is_refused(change: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidRequestError, match=problem):
        await asked(seeded_gateway(), "set_topic_policies", topic=str(ORDERS), **change)


async def test_the_original_answers_what_it_has_and_refuses_the_rest() -> None:
    gateway = seeded_gateway()
    gateway.is_original = True
    await asked(gateway, "set_subscription_failure_policy", **WHOLE)
    shown = await asked(gateway, "get_namespace_policies", namespace="default")
    assert (shown["max_publish_rate"], shown["message_ttl_s"]) == (0, None)
    with pytest.raises(UnsupportedError):
        await asked(gateway, "set_namespace_policies", namespace="default", max_publish_rate=1)


async def test_a_namespace_that_is_not_there_has_no_limits() -> None:
    with pytest.raises(DanubeError, match="there is no namespace 'missing'"):
        await asked(seeded_gateway(), "get_namespace_policies", namespace="missing")


async def test_effective_limits_are_shown_with_the_place_that_they_come_from() -> None:
    gateway = seeded_gateway()
    await asked(gateway, "set_namespace_policies", namespace="default", max_publish_rate=9, max_message_size=2_048)
    await applied(gateway, "set_topic_retention", topic=str(ORDERS), time_s="7d")
    kept = await asked(gateway, "get_topic_policies", topic=str(ORDERS))
    wanted = {"retention_time_s": "topic", "max_publish_rate": "namespace", "max_consumers_per_topic": "broker"}
    assert {name: kept["origins"][name] for name in wanted} == wanted
    assert set(kept["origins"]) == set(POLICY_NAMES)
    operation = operation_of("get_topic_policies")
    facts = dict(view_of(operation, operation.result.model_validate(kept)).facts)
    assert facts["Retention time (s)"] == "7 d (topic)"
    assert facts["Max message size (bytes)"] == "2.0 KiB (namespace)"
    assert facts["Max consumers per topic"] == "no limit (broker)"
    shown = await asked(gateway, "get_namespace_policies", namespace="default")
    assert (shown["origins"]["max_publish_rate"], shown["origins"]["message_ttl_s"]) == ("namespace", "broker")
    described = await asked(gateway, "describe_topic", topic=str(ORDERS))
    told = {row["policy"]: (row["value"], row["source"]) for row in described["policies"]}
    assert (told["retention_time_s"], told["max_publish_rate"]) == ((7 * 86_400, "topic"), (9, "namespace"))
    assert told.keys() == set(POLICY_NAMES)
    operation = operation_of("describe_topic")
    (table,) = [
        each
        for each in view_of(operation, operation.result.model_validate(described)).tables
        if each.title == "Policies"
    ]
    assert ("max_message_size", "2.0 KiB", "namespace") in table.rows
    gateway.is_original = True
    assert (await asked(gateway, "get_namespace_policies", namespace="default"))["origins"] == {}
    assert (await asked(gateway, "describe_topic", topic=str(ORDERS)))["policies"] == []
