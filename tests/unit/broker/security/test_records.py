"""Records of what faces do: of the beginning and of the end, once, by the broker or by the face."""

import sys
from pathlib import Path
from typing import cast

import pytest

from danube.admin.access import Guard
from danube.admin.analytics.jobs import JOBS
from danube.admin.execution import Session, execute, parse_arguments
from danube.admin.grpc_gateway.broker_connection import WhoRecords, who_records
from danube.admin.operations import operation_of
from danube.admin.operations.analytics import analytics
from danube.admin.operations.cluster.plans_and_audit import AuditTrail
from danube.admin.operations.fields import Result
from danube.admin.operations.plan_views import PlannedResult
from danube.broker.services.call import Audit
from danube.broker.services.catalogue import ADMIN_CALLS, CLIENT_CALLS
from danube.model.errors import InternalError, NotPermittedError, TopicNotFoundError
from danube.model.plans.plan import Caller, Face
from danube.model.records.audit import Origin, Outcome
from danube.model.topic import TopicName
from danube.runtime.clock import SystemClock
from danube.wire import admin_messages
from tests.unit.broker.security.conftest import OWN, ROOT, secure_broker
from tests.unit.broker.security.scene import gateway

ADA = Caller(who="ada@desk", face=Face.CLI)


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
        gateway(secure, secure.token(ROOT), tmp_path / "state") as reached,
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
        gateway(secure, secure.token(ROOT), tmp_path / "state") as reached,
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
        gateway(secure, secure.token(ROOT), tmp_path / "state") as reached,
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
