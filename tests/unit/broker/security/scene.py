"""Acts on a broker with security, by plans and through faces, and what its audit log has of them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from danube.admin.grpc_gateway.broker_connection import ConnectionPool
from danube.admin.grpc_gateway.gateway import GrpcGateway
from danube.admin.local_state import LocalState
from danube.admin.target import Target
from danube.model.plans.plan import Caller, Decision, Effect, Face, Plan, PlanApplication, PlanRequest
from danube.model.records.audit import AuditRecord, Outcome, ReadAudit
from danube.runtime.blocking import BlockingThread
from danube.runtime.clock import SystemClock
from danube.runtime.rng import SystemRng
from danube.testing.patience import PATIENCE_S
from danube.wire import plan_messages
from tests.unit.broker.security.conftest import OWN, ROOT, Proven, SecureCell

PLANS = "/danube.control.Plans"
ADA = Caller(who="ada", face=Face.CLI)
OPERATIONS = {
    **dict.fromkeys(("CreatePlan", "ApplyPlan"), "delete_topic"),
    **dict.fromkeys(("SetCompatibilityMode", "SetMode"), "set_schema_compatibility_mode"),
    "AddNode": "add_cluster_node",
    "ChangeConnector": "restart_connector",
    "ClearRule": "clear_balance_rule",
    "DecidePlan": "reject_plan",
    "PromoteNode": "promote_cluster_node",
    "PutSchedule": "add_schedule",
    "RemoveNode": "remove_cluster_node",
    "RequestRun": "run_schedule",
    "Seek": "seek_subscription",
    "SetAutomatic": "set_automatic_balance",
    "SetRule": "set_balance_rule",
    "UpdateTopicValidationPolicy": "set_validation_policy",
}
"""Operations of administrators that make a call of another name; what is decided here says no."""


def operation_of(method: str) -> str:
    return OPERATIONS.get(method) or "".join(f"_{each.lower()}" if each.isupper() else each for each in method)[1:]


@asynccontextmanager
async def gateway(secure: SecureCell, token: str | None, folder: Path) -> AsyncIterator[GrpcGateway]:
    """A face's way to the broker, with this token."""
    endpoint = f"https://{secure.cell.broker.addresses.admin}"
    target = Target(endpoint=endpoint, token=token, tls=True, timeout_s=PATIENCE_S)
    runner, pool = BlockingThread("admin-files"), ConnectionPool(target, secure.cell.carrier)
    try:
        yield GrpcGateway(
            pool, LocalState(lambda: folder, endpoint, clock=SystemClock(), rng=SystemRng(), runner=runner)
        )
    finally:
        await pool.close()
        await runner.aclose()


async def audited(secure: SecureCell) -> list[AuditRecord]:
    root, found = secure.channel(secure.token(ROOT)), list[AuditRecord]()
    while True:
        wanted = plan_messages.READ_AUDIT.encode(ReadAudit(start=len(found), limit=1_000))
        page = plan_messages.decode_audit_page(await root.call("/danube.control.Audit/Read", wanted))
        found += page.records
        if len(found) == page.end:
            return found


def begun(records: list[AuditRecord]) -> list[AuditRecord]:
    """The beginnings of calls and those that wait, each beginning followed by its end."""
    rest, found = iter(records), list[AuditRecord]()
    for record in rest:
        found.append(record)
        if record.entry.outcome is Outcome.STARTED:
            end = next(rest).entry
            assert (end.caller, end.operation) == (record.entry.caller, record.entry.operation)
            assert end.outcome is not Outcome.STARTED
    return found


def deletion(topic: str) -> PlanRequest:
    return PlanRequest(
        operation="delete_topic", arguments={"topic": topic}, effect=Effect.DESTROY, caller=ADA, needs_approval=False
    )


async def plan_of(channel: Proven, topic: str = OWN) -> Plan:
    return plan_messages.PLAN.decode(
        await channel.call(f"{PLANS}/CreatePlan", plan_messages.CREATE_PLAN.encode(deletion(topic)))
    )


async def decide(channel: Proven, plan_id: str) -> Plan:
    decision = Decision(plan_id=plan_id, approve=True, caller=ADA)
    return plan_messages.PLAN.decode(
        await channel.call(f"{PLANS}/DecidePlan", plan_messages.DECIDE_PLAN.encode(decision))
    )


async def apply(channel: Proven, plan: Plan) -> None:
    wanted = PlanApplication(plan_id=plan.plan_id, operation=plan.operation, arguments=plan.arguments, caller=ADA)
    await channel.call(f"{PLANS}/ApplyPlan", plan_messages.APPLY_PLAN.encode(wanted))
