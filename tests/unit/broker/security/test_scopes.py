"""Every operation, from the faces in turn, with a token of every scope: refused is what a table by hand says."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from danube.admin.access import Guard
from danube.admin.execution import Session, execute, parse_arguments
from danube.admin.grpc_gateway.broker_connection import ConnectionPool
from danube.admin.grpc_gateway.gateway import GrpcGateway
from danube.admin.grpc_gateway.recorded_calls import WhoRecords, who_records
from danube.admin.local_state import LocalState
from danube.admin.operations import REGISTRY
from danube.admin.operations.operation import AnyOperation
from danube.admin.target import Target
from danube.broker.services.call import Audit
from danube.broker.services.catalogue import ADMIN_CALLS, CLIENT_CALLS
from danube.model.errors import DanubeError, NotPermittedError
from danube.model.plans.plan import Caller, Face
from danube.model.records.audit import Origin, Outcome
from danube.model.security.principal import TokenScope
from danube.runtime.blocking import BlockingThread
from danube.runtime.clock import SystemClock
from danube.runtime.rng import SystemRng
from danube.testing.patience import PATIENCE_S
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
            operation = next(each for each in REGISTRY if each.name == name)
            await execute(session, operation, parse_arguments(operation, arguments))
        for record in (await reached.audit(0, 100)).records:
            assert record.entry.caller == Caller(who=f"user:{ROOT}", face=Face.WEB, client="a browser")
            told.append((record.entry.operation, record.entry.outcome, record.origin))
    assert told == [
        ("CreateNamespace", Outcome.STARTED, Origin.SEEN),
        ("CreateNamespace", Outcome.DONE, Origin.SEEN),
        ("create_topic", Outcome.STARTED, Origin.CLAIMED),
        ("create_topic", Outcome.DONE, Origin.CLAIMED),
        ("CreatePlan", Outcome.STARTED, Origin.SEEN),
        ("CreatePlan", Outcome.PLANNED, Origin.SEEN),
    ]


async def refused(session: Session, operation: AnyOperation) -> bool:
    """True if the token's scope is the reason; any other error comes from what the call is about."""
    try:
        await execute(session, operation, parse_arguments(operation, dict(operation.examples[0].arguments)))
    except NotPermittedError as error:
        return "scope" in str(error)
    except DanubeError:
        return False
    return False
