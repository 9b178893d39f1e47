"""Every operation there is: declared whole, and its examples work on the seeded cluster."""

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from danube.admin.access import Guard
from danube.admin.execution import Session, execute, parse_arguments
from danube.admin.operations import BY_NAME, REGISTRY, operation_of
from danube.admin.operations.cluster.members import CLUSTER_STATUS, ClusterStatus
from danube.admin.operations.fields import Volatile, marks
from danube.admin.operations.operation import AnyOperation, Example, Operation
from danube.admin.operations.plan_views import PlannedResult
from danube.admin.present import view_of
from danube.model.calls.admin import UNREACHABLE, BrokerState
from danube.model.errors import InvalidNameError, InvalidRequestError, NotFoundError, NotPermittedError
from danube.model.limits.broker import DESCRIBE_TOPICS_MAX
from danube.model.plans.plan import Caller, Effect, Face, PlanStatus
from danube.model.records.audit import GENESIS, AuditPage, AuditRecord, next_record
from danube.model.topic import DispatchStrategy, TopicName
from tests.faces.memory_gateway import MemoryGateway
from tests.faces.seeded import seeded_gateway

EXAMPLES = [
    pytest.param(operation, example, id=f"{operation.name}-{number}")
    for operation in REGISTRY
    for number, example in enumerate(operation.examples)
]


def session_of(gateway: MemoryGateway) -> Session:
    return Session(gateway=gateway, caller=Caller(who="ada@desk", face=Face.CLI), clock=gateway.clock, guard=Guard())


@pytest.mark.parametrize(("operation", "example"), EXAMPLES)
async def test_every_example_works_on_the_seeded_cluster(operation: AnyOperation, example: Example) -> None:
    gateway = seeded_gateway()
    params = parse_arguments(operation, example.arguments)
    result = await execute(session_of(gateway), operation, params)
    assert isinstance(result, operation.result)
    assert view_of(operation, result) is not None
    if isinstance(result, PlannedResult) and result.status is PlanStatus.SHOWN:
        assert operation.name == "trigger_rebalance"  # one broker has nothing to move
    elif isinstance(result, PlannedResult):
        before = gateway.digest()
        done = await execute(session_of(gateway), operation, params, plan_id=result.plan.plan_id)
        assert isinstance(done, PlannedResult)
        assert done.status is PlanStatus.APPLIED
        assert gateway.digest() != before


@pytest.mark.parametrize(("operation", "example"), EXAMPLES)
async def test_what_reads_changes_nothing(operation: AnyOperation, example: Example) -> None:
    if operation.effect is not Effect.READ:
        return
    gateway = seeded_gateway()
    before, plans = gateway.digest(), dict(gateway.stored_plans)
    await execute(session_of(gateway), operation, parse_arguments(operation, example.arguments))
    assert (gateway.digest(), gateway.stored_plans) == (before, plans)


@pytest.mark.parametrize(("operation", "example"), EXAMPLES)
async def test_what_is_not_marked_as_volatile_is_the_same_on_two_calls(
    operation: AnyOperation, example: Example
) -> None:
    params = parse_arguments(operation, example.arguments)
    first = await execute(session_of(seeded_gateway()), operation, params)
    second = await execute(session_of(seeded_gateway()), operation, params)
    volatile = marks(operation.result, Volatile)
    assert first.model_dump(exclude=set(volatile)) == second.model_dump(exclude=set(volatile))


def test_names_and_words_are_unique() -> None:
    assert len(BY_NAME) == len(REGISTRY)
    assert len({operation.words for operation in REGISTRY}) == len(REGISTRY)


def test_an_unknown_operation_is_not_found_and_the_known_ones_are_named() -> None:
    with pytest.raises(NotFoundError, match="list_brokers"):
        operation_of("list_everything")


def declared(**changes: Any) -> AnyOperation:
    operation = operation_of("list_brokers")
    fields: dict[str, Any] = {name: getattr(operation, name) for name in Operation.__dataclass_fields__}
    return Operation(**{**fields, **changes})


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"name": "List"}, "snake case"),
        ({"summary": "no sentence"}, "a sentence"),
        ({"examples": ()}, "no example"),
        ({"effect": Effect.DESTROY}, "by a plan"),
        ({"run": None}, "by a plan"),
        ({"needs_person": True}, "no tool"),
        ({"positional": ("nothing",)}, "no parameter"),
    ],
)
def test_a_declaration_that_lacks_something_is_refused_at_once(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(TypeError, match=problem):
        declared(**changes)


@pytest.mark.parametrize(
    ("given", "taken"),
    [("/default/orders", "/default/orders"), ("default/orders", "/default/orders")],
)
def test_a_topic_may_be_written_without_its_slash(given: str, taken: str) -> None:
    params = parse_arguments(operation_of("describe_topic"), {"topic": given})
    assert params.model_dump()["topic"] == taken


@pytest.mark.parametrize("topic", ["orders", "/default", "/default/orders/more", "/default/or ders", "//", ""])
def test_what_is_no_topic_name_is_refused(topic: str) -> None:
    with pytest.raises((InvalidRequestError, InvalidNameError)):
        parse_arguments(operation_of("describe_topic"), {"topic": topic})


async def test_topics_of_all_namespaces_are_listed_when_none_is_named() -> None:
    gateway = seeded_gateway()
    await execute(session_of(gateway), *_call("create_topic", {"name": "/staging/one"}))
    result = await execute(session_of(gateway), *_call("list_topics", {}))
    assert [row["name"] for row in result.model_dump()["topics"]][-1] == "/staging/one"


async def test_a_listing_says_of_how_many_topics_it_did_not_ask_lag_and_size() -> None:
    gateway = seeded_gateway()
    for number in range(DESCRIBE_TOPICS_MAX + 1):
        gateway.cluster.add_topic(TopicName("default", f"z{number}"), DispatchStrategy.RELIABLE)
    told = (await execute(session_of(gateway), *_call("list_topics", {}))).model_dump()
    rest = told["total"] - DESCRIBE_TOPICS_MAX
    assert told["not_answered"] == [f"lag and size of {rest} more topics: ask for pages, with a limit"]
    assert [row["lag_messages"] for row in told["topics"][-rest:]] == [None] * rest
    assert (await execute(session_of(gateway), *_call("list_topics", {"limit": 5}))).model_dump()["not_answered"] == []


async def test_the_log_is_checked_from_the_beginning_when_that_is_asked() -> None:
    gateway = seeded_gateway()
    for _ in range(5):
        await execute(session_of(gateway), *_call("list_namespaces", {}))
    gateway.audit_records[1] = replace(gateway.audit_records[1], at_ms=1)
    newest = await execute(session_of(gateway), *_call("audit", {"limit": 2}))
    whole = await execute(session_of(gateway), *_call("audit", {"limit": 2, "verify_all": True}))
    assert newest.model_dump()["is_intact"]
    assert whole.model_dump()["broken_at"] == 1


async def test_the_logs_of_all_brokers_are_checked_and_those_with_trouble_come_first() -> None:
    gateway = seeded_gateway()
    for _ in range(4):
        await execute(session_of(gateway), *_call("list_namespaces", {}))
    whole = list(gateway.audit_records)
    gateway.other_audit_logs = {"2": whole, "3": None, "4": [whole[0], *whole[2:]]}
    trail = (await execute(session_of(gateway), *_call("audit", {"verify_all": True}))).model_dump()
    rows = {row["broker_id"]: (row["verdict"], row["checked"], row["broken_at"]) for row in trail["logs"]}
    assert [*rows] == ["4", "3", "1", "2"]
    assert rows == {
        "4": ("broken", 1, 2),
        "3": ("unreachable", 0, None),
        "1": ("intact", 4, None),
        "2": ("intact", 4, None),
    }
    told = "/system/audit-part-3: record 1 should stand in its place"
    assert (trail["is_intact"], trail["broken_at"], trail["reason"], trail["unreachable"]) == (False, 2, told, 1)
    assert (trail["checked"], trail["total"]) == (9, 12)


async def test_records_of_all_logs_are_shown_by_their_time_and_a_log_that_is_not_read_is_named() -> None:
    gateway = seeded_gateway()
    for _ in range(4):
        await execute(session_of(gateway), *_call("list_namespaces", {}))
    newest_ms = max(record.at_ms for record in gateway.audit_records)
    other: list[AuditRecord] = []
    for number, at_ms in enumerate((1, newest_ms + 1, newest_ms)):  # its clock was set back
        previous = other[-1].hash if other else GENESIS
        entry = gateway.audit_records[0].entry
        other.append(next_record(entry, sequence=number, at_ms=at_ms, keeper="2", previous=previous))
    gateway.other_audit_logs = {"2": other, "3": None}
    trail = await execute(session_of(gateway), *_call("audit", {}))
    found = [(row["keeper"], row["sequence"]) for row in trail.model_dump()["records"]]
    assert found == [("2", 0), *(("1", number) for number in range(4)), ("2", 1), ("2", 2)]
    assert next((row["broker_id"], row["verdict"]) for row in trail.model_dump()["logs"]) == ("3", "unreachable")
    (remark,) = trail.remarks()
    assert remark.startswith("Records of /system/audit-part-2 are missing here: no broker that runs serves")
    before = await execute(session_of(gateway), *_call("audit", {"before": newest_ms + 1, "limit": 6}))
    assert [row["sequence"] for row in before.model_dump()["records"]] == [0, 0, 1, 2, 3, 4]


async def test_a_cluster_none_of_whose_audit_logs_can_be_read_is_an_error() -> None:
    gateway = seeded_gateway()
    gateway.other_audit_logs = {"2": None}
    gateway.audit = partial(refused, gateway)  # type: ignore[method-assign]
    with pytest.raises(NotPermittedError):
        await execute(session_of(gateway), *_call("audit", {}))


async def refused(*_: object) -> AuditPage:
    raise NotPermittedError("alice may not read the audit log")


async def test_a_log_that_is_shown_is_broken_where_records_of_it_are_lost() -> None:
    gateway = seeded_gateway()
    for _ in range(4):
        await execute(session_of(gateway), *_call("list_namespaces", {}))
    del gateway.audit_records[1:3]
    trail = (await execute(session_of(gateway), *_call("audit", {}))).model_dump()
    assert (trail["is_intact"], trail["broken_at"]) == (False, 3)
    assert trail["reason"] == "records 1 to 2 should stand before it"


async def test_health_is_critical_when_the_broker_takes_no_messages() -> None:
    gateway = seeded_gateway()
    gateway.stopped_reason = "a sync failed"
    result = await execute(session_of(gateway), *_call("health_check", {}))
    assert result.model_dump()["verdict"] == "critical"


@pytest.mark.parametrize(
    ("storage", "check", "verdict", "said"),
    [
        (
            {"refused_reason": "the disk has 3 MiB left"},
            "messages",
            "critical",
            "takes no messages: the disk has 3 MiB",
        ),
        ({"refused_topics": 2}, "storage", "critical", "not served: 2"),
        ({"disk_is_low": True, "disk_free_bytes": 5 << 20}, "storage", "warning", "5.0 MiB of the disk are free"),
        ({"quarantined_topics": 1}, "storage", "warning", "keep the journal growing"),
        ({"disk_free_bytes": None}, "storage", "ok", "0 segments"),
    ],
)
async def test_health_says_how_the_storage_is(storage: dict[str, Any], check: str, verdict: str, said: str) -> None:
    gateway = seeded_gateway()
    gateway.storage = replace(gateway.storage, **storage)
    health = (await execute(session_of(gateway), *_call("health_check", {}))).model_dump()
    (found,) = [one for one in health["checks"] if one["name"] == check]
    assert (health["verdict"], found["status"]) == (verdict, verdict)
    assert said in found["detail"]


async def test_blocked_subscription_is_a_state_a_count_and_a_warning_with_the_next_call() -> None:
    gateway = seeded_gateway()
    describe = _call("describe_topic", {"topic": "/default/orders"})
    for is_blocked, state, verdict in ((True, "blocked", "warning"), (False, "active", "ok")):
        gateway.cluster.topics["/default/orders"].subscriptions["billing"].is_blocked = is_blocked
        states = (await execute(session_of(gateway), *describe)).model_dump()["subscription_states"]
        found = {one["name"]: (one["state"], one["blocked"]) for one in states}
        assert found == {"audit": ("idle", 0), "billing": (state, int(is_blocked))}
        health = (await execute(session_of(gateway), *_call("health_check", {}))).model_dump()
        (check,) = [one for one in health["checks"] if one["name"] == "subscriptions"]
        assert (health["verdict"], check["status"]) == (verdict, verdict)
        assert ("1 subscription blocked" in check["detail"] and "a retry sends again" in check["detail"]) is is_blocked


async def test_health_and_totals_are_of_all_brokers_and_name_those_that_do_not_answer() -> None:
    gateway = seeded_gateway()
    gateway.cluster.brokers.append(replace(gateway.cluster.brokers[0], broker_id="2"))
    gateway.cluster.leader = "1"
    gateway.cluster.topics["/default/orders"].subscriptions["billing"].is_blocked = True
    for silent, status in ((), "warning"), (("2",), "warning"), (("1",), "unknown"):
        gateway.silent_brokers = dict.fromkeys(silent, "it did not answer within 3 s")
        health = (await execute(session_of(gateway), *_call("health_check", {}))).model_dump()
        checks = {one["name"]: one for one in health["checks"]}
        assert (health["verdict"], checks["subscriptions"]["status"]) == ("warning", status)
        assert ("answers" in checks) is bool(silent)
        state = (await execute(session_of(gateway), *_call("cluster_status", {}))).model_dump()
        if silent:
            told = f"{silent[0]}: it did not answer within 3 s"
            assert told in checks["answers"]["detail"]
            assert state["not_answered"] == [f"broker {told}"]
    assert (state["subscriptions"], state["consumers"]) == (0, 0)  # what is known without the first one


async def test_topics_of_a_broker_that_is_gone_make_health_critical() -> None:
    gateway = seeded_gateway()
    seen_ms = gateway.clock.now_ms() - 90_000
    gone = BrokerState(broker_id="77", status=UNREACHABLE, topics=3, last_seen_ms=seen_ms)
    nobody = BrokerState(broker_id="0", status=UNREACHABLE, topics=2)
    idle = BrokerState(broker_id="78", status=UNREACHABLE, topics=0)
    for more, status, said in (
        ((), "ok", "the brokers of all "),
        ((idle,), "ok", "the brokers of all "),
        ((gone,), "critical", "topics that nobody serves: 3 (3 of broker 77, which is unreachable for 1 m 30 s)."),
        ((nobody, gone), "critical", "nobody serves: 5 (2 belong to no broker; 3 of broker 77"),
    ):
        gateway.cluster.gone = more
        health = (await execute(session_of(gateway), *_call("health_check", {}))).model_dump()
        (found,) = [one for one in health["checks"] if one["name"] == "topics without owner"]
        assert (health["verdict"], found["status"]) == (status, status)
        assert said in found["detail"]


async def test_a_topic_is_described_with_what_it_takes() -> None:
    shown = (
        await execute(session_of(seeded_gateway()), *_call("describe_topic", {"topic": "/default/orders"}))
    ).model_dump()
    assert (shown["stored_bytes"], shown["segments"], shown["unsynced_bytes"], shown["messages_expired"]) == (
        100,
        0,
        0,
        0,
    )
    assert shown["oldest_message_ms"] <= shown["newest_message_ms"]


async def test_on_the_original_what_it_does_not_tell_is_unknown() -> None:
    gateway = seeded_gateway()
    gateway.is_original = True
    health = await execute(session_of(gateway), *_call("health_check", {}))
    topic = await execute(session_of(gateway), *_call("describe_topic", {"topic": "/default/orders"}))
    assert health.model_dump()["verdict"] == "ok"
    assert topic.model_dump()["end_offset"] is None
    assert topic.model_dump()["subscriptions"] == ["audit", "billing"]


def _call(name: str, arguments: dict[str, Any]) -> tuple[AnyOperation, Any]:
    operation = operation_of(name)
    return operation, parse_arguments(operation, arguments)


async def test_an_original_broker_that_stands_alone_has_a_status_too() -> None:
    gateway = seeded_gateway()
    gateway.is_original = True
    status = await execute(session_of(gateway), operation_of("cluster_status"), parse_arguments(CLUSTER_STATUS, {}))
    assert isinstance(status, ClusterStatus)
    assert (status.mode, status.self_node_id, status.leader, status.topics) == ("standalone", "1", None, None)


def test_a_secret_is_declared_where_it_is_answered_and_so_is_one_of_another_operation() -> None:
    told = {
        operation.name
        for operation in REGISTRY
        if any("never shown again" in (info.description or "") for info in operation.result.model_fields.values())
    }
    assert {operation.name for operation in REGISTRY if operation.is_secret} == told == {"create_api_key"}
    assert replace(BY_NAME["create_api_key"], name="create_other_key").is_secret
