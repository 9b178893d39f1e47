"""The one way from a face to the cluster: levels, plans, and what the log has of each call."""

import logging
from collections.abc import Mapping
from dataclasses import replace

import pytest
from pydantic import Field, SecretStr

from danube.admin.access import AccessLevel, ApprovalMode, Guard
from danube.admin.execution import Session, decide, execute, parse_arguments
from danube.admin.operations import operation_of
from danube.admin.operations.fields import Params, Result
from danube.admin.operations.operation import Call, Example, Operation
from danube.admin.operations.plan_views import PlannedResult
from danube.model.errors import (
    AccessLevelError,
    AlreadyExistsError,
    BrokerUnreachableError,
    InvalidRequestError,
    PlanRefusedError,
    PlanWaitsError,
    StorageUnavailableError,
    TopicNotFoundError,
)
from danube.model.plans.plan import Caller, Effect, Face, PlanStatus
from danube.model.records.audit import AuditRecord, Outcome
from tests.faces.memory_gateway import MemoryGateway
from tests.faces.seeded import seeded_gateway

ORDERS = {"topic": "/default/orders"}


@pytest.fixture
def gateway() -> MemoryGateway:
    return seeded_gateway()


def session_of(gateway: MemoryGateway, guard: Guard | None = None, face: Face = Face.CLI) -> Session:
    caller = Caller(who="ada@desk", face=face)
    return Session(gateway=gateway, caller=caller, clock=gateway.clock, guard=guard or Guard())


async def call(
    gateway: MemoryGateway,
    name: str,
    arguments: Mapping[str, object],
    *,
    plan_id: str | None = None,
    guard: Guard | None = None,
    face: Face = Face.CLI,
) -> Result:
    operation = operation_of(name)
    params = parse_arguments(operation, dict(arguments))
    return await execute(session_of(gateway, guard, face), operation, params, plan_id=plan_id)


async def planned(gateway: MemoryGateway, name: str, arguments: Mapping[str, object], face: Face = Face.CLI) -> str:
    result = await call(gateway, name, arguments, face=face)
    assert isinstance(result, PlannedResult)
    return result.plan.plan_id


def outcomes(gateway: MemoryGateway) -> list[Outcome]:
    return [record.entry.outcome for record in gateway.audit_records]


def last(gateway: MemoryGateway) -> AuditRecord:
    return gateway.audit_records[-1]


# Arguments


def test_wrong_arguments_are_named_one_by_one() -> None:
    with pytest.raises(InvalidRequestError, match=r"create_topic: partitions: .*; colour: "):
        parse_arguments(operation_of("create_topic"), {"name": "/a/b", "partitions": -1, "colour": "red"})


def test_what_was_wrong_is_not_repeated_since_it_may_be_a_secret() -> None:
    with pytest.raises(InvalidRequestError) as caught:
        parse_arguments(operation_of("describe_topic"), {"topic": ["hunter2"]})
    assert "hunter2" not in str(caught.value)


# What is only read


async def test_a_read_is_recorded_once_it_is_done(gateway: MemoryGateway) -> None:
    await call(gateway, "list_topics", {})
    assert outcomes(gateway) == [Outcome.DONE]
    assert last(gateway).entry.caller == Caller(who="ada@desk", face=Face.CLI)


async def test_a_read_that_failed_is_recorded_with_its_error(gateway: MemoryGateway) -> None:
    with pytest.raises(TopicNotFoundError):
        await call(gateway, "describe_topic", {"topic": "/default/missing"})
    assert (last(gateway).entry.outcome, last(gateway).entry.error) == (Outcome.FAILED, "TOPIC_NOT_FOUND")
    assert "/default/missing" in last(gateway).entry.detail


async def test_a_read_is_answered_while_the_log_cannot_be_written(
    gateway: MemoryGateway, caplog: pytest.LogCaptureFixture
) -> None:
    gateway.failures["record"] = StorageUnavailableError("the disk is full")
    with caplog.at_level(logging.WARNING):
        await call(gateway, "health_check", {})
    assert "the disk is full" in caplog.text


# What acts at once


async def test_a_change_is_recorded_before_it_is_tried_and_when_it_is_done(gateway: MemoryGateway) -> None:
    await call(gateway, "create_namespace", {"namespace": "payments"})
    assert outcomes(gateway) == [Outcome.STARTED, Outcome.DONE]
    assert gateway.calls == ["record", "create_namespace", "record"]


async def test_a_change_that_cannot_be_recorded_is_not_made(gateway: MemoryGateway) -> None:
    gateway.failures["record"] = StorageUnavailableError("the disk is full")
    before = gateway.digest()
    with pytest.raises(StorageUnavailableError):
        await call(gateway, "create_namespace", {"namespace": "payments"})
    assert gateway.digest() == before


async def test_a_change_that_failed_is_recorded_as_failed(gateway: MemoryGateway) -> None:
    with pytest.raises(AlreadyExistsError):
        await call(gateway, "create_namespace", {"namespace": "default"})
    assert outcomes(gateway) == [Outcome.STARTED, Outcome.FAILED]


async def test_the_error_of_the_call_is_told_though_the_log_cannot_be_reached_either(gateway: MemoryGateway) -> None:
    gateway.failures["*"] = BrokerUnreachableError("nobody answers")
    with pytest.raises(BrokerUnreachableError, match="nobody answers"):
        await call(gateway, "list_topics", {})


async def test_what_acts_at_once_takes_no_plan(gateway: MemoryGateway) -> None:
    before = gateway.digest()
    with pytest.raises(InvalidRequestError, match="leave it out"):
        await call(gateway, "create_namespace", {"namespace": "payments"}, plan_id="plan-seeded")
    assert gateway.digest() == before


# Levels


@pytest.mark.parametrize(
    ("name", "arguments", "level"),
    [
        ("create_namespace", {"namespace": "payments"}, AccessLevel.READ),
        ("delete_topic", ORDERS, AccessLevel.WRITE),
        ("approve_plan", {"plan_id": "plan-seeded"}, AccessLevel.WRITE),
    ],
)
async def test_what_is_above_the_level_is_refused_recorded_and_not_asked_for(
    gateway: MemoryGateway, name: str, arguments: dict[str, object], level: AccessLevel
) -> None:
    before, plans = gateway.digest(), dict(gateway.stored_plans)
    with pytest.raises(AccessLevelError):
        await call(gateway, name, arguments, guard=Guard(level=level))
    assert gateway.calls == ["record"]
    assert outcomes(gateway) == [Outcome.REFUSED]
    assert (gateway.digest(), gateway.stored_plans) == (before, plans)


# Plans


async def test_without_a_plan_nothing_is_destroyed_and_a_plan_is_answered(gateway: MemoryGateway) -> None:
    before = gateway.digest()
    result = await call(gateway, "delete_topic", ORDERS)
    assert isinstance(result, PlannedResult)
    assert result.status is PlanStatus.READY
    assert result.plan.plan_id in result.next_step
    assert gateway.digest() == before
    assert outcomes(gateway) == [Outcome.PLANNED]
    assert last(gateway).entry.plan_id == result.plan.plan_id


async def test_with_its_plan_it_is_done_once(gateway: MemoryGateway) -> None:
    plan_id = await planned(gateway, "delete_topic", ORDERS)
    result = await call(gateway, "delete_topic", ORDERS, plan_id=plan_id)
    assert isinstance(result, PlannedResult)
    assert result.status is PlanStatus.APPLIED
    with pytest.raises(PlanRefusedError, match="applied already"):
        await call(gateway, "delete_topic", ORDERS, plan_id=plan_id)
    ended = [Outcome.PLANNED, Outcome.STARTED, Outcome.DONE, Outcome.STARTED, Outcome.REFUSED]
    assert outcomes(gateway) == ended


async def test_a_plan_whose_application_cannot_be_recorded_is_not_applied(gateway: MemoryGateway) -> None:
    plan_id = await planned(gateway, "delete_topic", ORDERS)
    gateway.failures["record"] = StorageUnavailableError("the disk is full")
    before = gateway.digest()
    with pytest.raises(StorageUnavailableError):
        await call(gateway, "delete_topic", ORDERS, plan_id=plan_id)
    assert gateway.digest() == before
    assert gateway.stored_plans[plan_id].applied_ms is None


async def test_the_plan_of_an_assistant_waits_for_a_person(gateway: MemoryGateway) -> None:
    plan_id = await planned(gateway, "delete_topic", ORDERS, Face.MCP)
    with pytest.raises(PlanWaitsError):
        await call(gateway, "delete_topic", ORDERS, plan_id=plan_id, face=Face.MCP)
    assert outcomes(gateway)[-1] is Outcome.REFUSED
    await call(gateway, "approve_plan", {"plan_id": plan_id})
    await call(gateway, "delete_topic", ORDERS, plan_id=plan_id, face=Face.MCP)
    assert "/default/orders" not in gateway.cluster.topics


async def test_with_approval_none_the_plan_of_an_assistant_waits_for_nobody(gateway: MemoryGateway) -> None:
    result = await call(gateway, "delete_topic", ORDERS, guard=Guard(approval=ApprovalMode.NONE), face=Face.MCP)
    assert isinstance(result, PlannedResult)
    assert result.status is PlanStatus.READY


# A person who is asked by the face


async def test_a_yes_to_the_face_is_recorded_before_and_after(gateway: MemoryGateway) -> None:
    plan_id = await planned(gateway, "delete_topic", ORDERS, Face.MCP)
    operation = operation_of("delete_topic")
    host = session_of(gateway, face=Face.MCP_HOST)
    await decide(host, operation, parse_arguments(operation, ORDERS), plan_id, approve=True)
    assert outcomes(gateway) == [Outcome.PLANNED, Outcome.STARTED, Outcome.DONE]
    assert last(gateway).entry.detail == "approved"
    assert last(gateway).entry.caller.face is Face.MCP_HOST


async def test_a_yes_that_cannot_be_recorded_does_not_count(gateway: MemoryGateway) -> None:
    plan_id = await planned(gateway, "delete_topic", ORDERS, Face.MCP)
    gateway.failures["record"] = StorageUnavailableError("the disk is full")
    operation = operation_of("delete_topic")
    host = session_of(gateway, face=Face.MCP_HOST)
    with pytest.raises(StorageUnavailableError):
        await decide(host, operation, parse_arguments(operation, ORDERS), plan_id, approve=True)
    assert gateway.stored_plans[plan_id].decided_by is None


async def test_a_yes_of_the_assistant_itself_is_refused_and_recorded(gateway: MemoryGateway) -> None:
    plan_id = await planned(gateway, "delete_topic", ORDERS, Face.MCP)
    operation = operation_of("delete_topic")
    assistant = session_of(gateway, face=Face.MCP)
    with pytest.raises(PlanRefusedError, match="assistant"):
        await decide(assistant, operation, parse_arguments(operation, ORDERS), plan_id, approve=True)
    assert outcomes(gateway)[-1] is Outcome.REFUSED


# Secrets and lengths


class _LoginParams(Params):
    password: SecretStr = Field(description="A secret.")
    note: str = Field(default="", description="Any text.")


class _Welcome(Result):
    text: str = Field(description="What is said.")


async def _login(call: Call, params: _LoginParams) -> _Welcome:
    return _Welcome(text=f"{len(params.password.get_secret_value())} characters")


LOGIN = Operation(
    name="login",
    words=("login",),
    summary="Log in.",
    effect=Effect.WRITE,
    params=_LoginParams,
    result=_Welcome,
    run=_login,
    examples=(Example("A login", {"password": "hunter2"}),),
)


async def test_a_secret_reaches_the_operation_and_not_the_log(gateway: MemoryGateway) -> None:
    result = await execute(session_of(gateway), LOGIN, _LoginParams(password=SecretStr("hunter2")))
    assert result == _Welcome(text="7 characters")
    assert "hunter2" not in repr(gateway.audit_records)


async def test_the_log_keeps_the_beginning_of_what_is_too_long(gateway: MemoryGateway) -> None:
    session = session_of(gateway)
    session = replace(session, caller=Caller(who="a" * 10_000, face=Face.WEB))
    await execute(session, LOGIN, _LoginParams(password=SecretStr("x"), note="n" * 100_000))
    assert len(repr(last(gateway))) < 10_000
