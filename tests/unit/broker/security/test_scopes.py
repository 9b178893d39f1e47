"""Every operation, from the faces in turn, with a token of every scope: refused is what a table by hand says."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import pytest

from danube.admin.access import Guard
from danube.admin.analytics.jobs import JOBS
from danube.admin.execution import Session, execute, parse_arguments
from danube.admin.grpc_gateway.broker_connection import ConnectionPool, WhoRecords, who_records
from danube.admin.grpc_gateway.gateway import GrpcGateway
from danube.admin.local_state import LocalState
from danube.admin.operations import REGISTRY, operation_of
from danube.admin.operations.analytics import analytics
from danube.admin.operations.cluster.plans_and_audit import AuditTrail
from danube.admin.operations.fields import Result
from danube.admin.operations.operation import AnyOperation
from danube.admin.operations.plan_views import PlannedResult
from danube.admin.target import Target
from danube.broker.services.call import Audit
from danube.broker.services.catalogue import ADMIN_CALLS, CLIENT_CALLS
from danube.model.errors import DanubeError, InternalError, NotPermittedError, TopicNotFoundError
from danube.model.plans.plan import Caller, Face
from danube.model.records.audit import Origin, Outcome
from danube.model.security.principal import TokenScope
from danube.model.topic import TopicName
from danube.runtime.blocking import BlockingThread
from danube.runtime.clock import SystemClock
from danube.runtime.rng import SystemRng
from danube.testing.patience import PATIENCE_S
from danube.wire import admin_messages
from tests.faces.test_refusals import EFFECTS
from tests.unit.broker.security.conftest import OWN, ROOT, SecureCell, secure_broker
from tests.unit.broker.security.test_matrix import digest

ALLOWED = {
    TokenScope.OBSERVER: {"read"},
    TokenScope.OPERATOR: {"read", "write", "move", "destroy"},
    TokenScope.ADMIN: {"read", "write", "move", "destroy", "guarded", "consent"},
}
"""Effects by `EFFECTS`; whether a plan waits for somebody else is another table."""
DECIDES = {"approve_plan", "reject_plan"}
"""Giving or withholding consent: for people alone."""
RIGHTS = {"delete_role", "delete_binding", "delete_api_key", "revoke_tokens"}
"""Takes a right away by a plan: for a token of scope admin alone."""
ELSEWHERE = {"run_analytics", "disconnect_client"}
"""Starts a program of its own on this machine; finds no client here, and so disconnects none."""
ADA = Caller(who="ada@desk", face=Face.CLI)
FACES = [Face.CLI, Face.TUI, Face.WEB, Face.MCP]


@asynccontextmanager
async def gateway(secure: SecureCell, scope: TokenScope, folder: Path) -> AsyncIterator[GrpcGateway]:
    endpoint = f"https://{secure.cell.broker.addresses.admin}"
    target = Target(endpoint=endpoint, token=secure.token(ROOT, scope), tls=True, timeout_s=PATIENCE_S)
    runner, pool = BlockingThread("admin-files"), ConnectionPool(target, secure.cell.carrier)
    try:
        yield GrpcGateway(
            pool, LocalState(lambda: folder, endpoint, clock=SystemClock(), rng=SystemRng(), runner=runner)
        )
    finally:
        await pool.close()
        await runner.aclose()


@pytest.mark.parametrize("scope", TokenScope)
async def test_every_operation_is_allowed_or_refused_as_the_table_says(
    scope: TokenScope, tmp_path: Path, authority: Path
) -> None:
    surprises = []
    async with secure_broker(tmp_path, authority) as secure, gateway(secure, scope, tmp_path / "state") as reached:
        for number, operation in enumerate(each for each in REGISTRY if each.name not in ELSEWHERE):
            before = await digest(secure)
            at_once = EFFECTS[operation.name] in {"guarded", "consent"}  # which an assistant is refused by its face
            faces = FACES[:3] if at_once else FACES
            caller = Caller(who="somebody", face=faces[number % len(faces)])
            session = Session(gateway=reached, caller=caller, clock=SystemClock(), guard=Guard())
            is_refused = await refused(session, operation)
            effect = "consent" if operation.name in DECIDES else EFFECTS[operation.name]
            effect = "guarded" if operation.name in RIGHTS else effect
            if is_refused is (effect in ALLOWED[scope]):
                surprises.append(f"{operation.name} ({effect}): refused {is_refused}")
            if is_refused and await digest(secure) != before:
                surprises.append(f"{operation.name} was refused and changed something")
    assert surprises == []


def test_a_face_knows_which_calls_a_broker_records() -> None:
    for calls in (ADMIN_CALLS, CLIENT_CALLS):
        for service, methods in calls.items():
            for method, call in methods.items():
                is_recorded = who_records(f"/{service}/{method}") is WhoRecords.BROKER
                assert is_recorded is (call.rule is Audit.RECORDED), method


async def test_an_act_of_a_face_has_one_record_of_its_beginning_and_one_of_its_end(
    tmp_path: Path, authority: Path
) -> None:
    told: list[tuple[str, Outcome, Origin | None]] = []
    async with (
        secure_broker(tmp_path, authority) as secure,
        gateway(secure, TokenScope.ADMIN, tmp_path / "state") as reached,
    ):
        caller = Caller(who="ada@desk", face=Face.WEB, client="a browser")
        session = Session(gateway=reached, caller=caller, clock=SystemClock(), guard=Guard())
        for name, arguments in (
            ("create_namespace", {"namespace": "wide"}),
            ("create_topic", {"name": OWN}),
            ("delete_topic", {"topic": OWN}),
        ):
            await call(session, name, **arguments)
        for record in (await reached.audit(0, 100)).records:
            assert record.entry.caller == Caller(who=f"user:{ROOT}", face=Face.WEB, client="a browser")
            told.append((record.entry.operation, record.entry.outcome, record.origin))
    assert told == [
        ("create_namespace", Outcome.STARTED, Origin.SEEN),
        ("create_namespace", Outcome.DONE, Origin.SEEN),
        ("create_topic", Outcome.STARTED, Origin.CLAIMED),
        ("create_topic", Outcome.DONE, Origin.CLAIMED),
        ("delete_topic", Outcome.STARTED, Origin.SEEN),
        ("delete_topic", Outcome.PLANNED, Origin.SEEN),
    ]


async def test_the_log_is_searched_by_the_name_of_an_operation_however_it_came(tmp_path: Path, authority: Path) -> None:
    async with (
        secure_broker(tmp_path, authority) as secure,
        gateway(secure, TokenScope.ADMIN, tmp_path / "state") as reached,
    ):
        session = Session(gateway=reached, caller=ADA, clock=SystemClock(), guard=Guard())
        await secure.create_topic(OWN)
        plan = cast("PlannedResult", await call(session, "delete_topic", topic=OWN))
        await call(session, "delete_topic", plan.plan.plan_id, topic=OWN)
        named = admin_messages.TOPIC.encode(TopicName.parse(OWN))
        with pytest.raises(TopicNotFoundError):
            await secure.channel(secure.token(ROOT)).call("/danube_admin.TopicAdmin/DeleteTopic", named)
        with pytest.raises(NotPermittedError):
            await secure.channel(secure.token("stranger")).call("/danube_admin.TopicAdmin/DeleteTopic", named)
        trail = cast("AuditTrail", await call(session, "audit", operation="delete_topic"))
    assert [(row.face, row.outcome, row.plan_id) for row in trail.records] == [
        (Face.CLI, Outcome.STARTED, None),
        (Face.CLI, Outcome.PLANNED, plan.plan.plan_id),
        (Face.CLI, Outcome.STARTED, plan.plan.plan_id),
        (Face.CLI, Outcome.DONE, plan.plan.plan_id),
        (Face.DIRECT, Outcome.STARTED, None),
        (Face.DIRECT, Outcome.FAILED, None),
        (Face.DIRECT, Outcome.REFUSED, None),
    ]


async def test_a_job_that_a_face_starts_itself_is_on_record_before_it_begins(
    tmp_path: Path, authority: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(analytics, "require_spark", lambda: None)
    monkeypatch.setattr(analytics, "command_of", lambda _: [sys.executable, "-c", "raise SystemExit(1)"])
    async with (
        secure_broker(tmp_path, authority) as secure,
        gateway(secure, TokenScope.ADMIN, tmp_path / "state") as reached,
    ):
        session = Session(gateway=reached, caller=ADA, clock=SystemClock(), guard=Guard())
        with pytest.raises(InternalError):
            await call(session, "run_analytics")
        JOBS.close()
        records = (await reached.audit(0, 100)).records
    assert [(each.entry.operation, each.entry.outcome, each.origin) for each in records] == [
        ("run_analytics", Outcome.STARTED, Origin.CLAIMED),
        ("run_analytics", Outcome.FAILED, Origin.CLAIMED),
    ]


async def call(session: Session, name: str, plan_id: str | None = None, /, **arguments: str) -> Result:
    operation = operation_of(name)
    return await execute(session, operation, parse_arguments(operation, arguments), plan_id=plan_id)


async def refused(session: Session, operation: AnyOperation) -> bool:
    """True if the token's scope is the reason; any other error comes from what the call is about."""
    try:
        await execute(session, operation, parse_arguments(operation, dict(operation.examples[0].arguments)))
    except NotPermittedError as error:
        return "scope" in str(error)
    except DanubeError:
        return False
    return False
