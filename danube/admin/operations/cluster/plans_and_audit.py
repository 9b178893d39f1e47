"""plans.* and audit: what people see and decide. None of it is a tool: an assistant is what they oversee."""

from enum import StrEnum
from functools import partial
from typing import Annotated, Any

from pydantic import Field

from danube.admin.access import AccessLevel
from danube.admin.operations.cluster.audit_logs import ReadLog, WantedRecords, newest_of, read_audit_logs
from danube.admin.operations.fields import (
    VOLATILE,
    WIDE,
    Completes,
    Millis,
    PageParams,
    PageResult,
    Params,
    Result,
    SpanS,
)
from danube.admin.operations.operation import Call, Example, Listing, Operation
from danube.admin.operations.plan_views import PlanView, plan_view
from danube.model.limits.broker import AUDIT_PAGE_MAX
from danube.model.plans.plan import Decision, Effect, Face, PlanStatus
from danube.model.records.audit import AuditRecord, Origin, Outcome


class ListPlansParams(PageParams):
    """Which plans."""

    status: PlanStatus | None = Field(default=None, description="Only plans that stand so.")


class PlanParams(Params):
    """One plan."""

    plan_id: Annotated[str, Completes("plan")] = Field(min_length=1, max_length=60, description="The plan's id.")


class PlanList(PageResult):
    """Plans."""

    plans: list[PlanView] = Field(description="Sorted by id.")


class AuditParams(Params):
    """Which records."""

    limit: int = Field(default=50, ge=1, le=AUDIT_PAGE_MAX, description="The most records to show.")
    before: int | None = Field(
        default=None, ge=0, description="Only records from before this time, as `at_ms` has it; the newest without it."
    )
    who: str | None = Field(default=None, max_length=300, description="Only calls of who has this in the name.")
    face: Face | None = Field(default=None, description="Only calls through this face.")
    operation: str | None = Field(default=None, max_length=60, description="Only calls of this operation.")
    outcome: Outcome | None = Field(default=None, description="Only calls that ended so.")
    last: Annotated[SpanS, Field(ge=1)] | None = Field(
        default=None, description="Only calls of the last so many seconds, or such as 2h or 7d."
    )
    verify_all: bool = Field(
        default=False,
        description="Check the logs of all brokers, each from its first record, not only what is shown.",
    )


class AuditRow(Result):
    """One call."""

    sequence: Annotated[int, VOLATILE] = Field(description="Its place in the log of its broker.")
    keeper: Annotated[str, VOLATILE] = Field(
        title="Broker", description="The broker that recorded it: each has its own log."
    )
    at_ms: Millis
    who: Annotated[str, VOLATILE] = Field(description="Who called.")
    face: Annotated[Face, VOLATILE] = Field(description="Through which face.")
    origin: Annotated[Origin | None, VOLATILE] = Field(
        description="`seen`: the broker itself was asked for it. `claimed`: a client told it."
    )
    client: Annotated[str, VOLATILE, WIDE] = Field(description="Through which program, where that is not ours.")
    operation: str = Field(description="What was called.")
    arguments: dict[str, Any] = Field(description="With what; secrets are left out.")
    plan_id: Annotated[str | None, VOLATILE] = Field(description="The plan that was made or applied.")
    outcome: Outcome = Field(description="How it ended; `started` alone: nobody knows.")
    error: str | None = Field(description="The code of the error.")
    detail: Annotated[str, WIDE, VOLATILE] = Field(description="What was said.")
    hash: Annotated[str, WIDE, VOLATILE] = Field(description="The hash of this record.")


class LogVerdict(StrEnum):
    """The outcome of the check of one audit log; the worst first."""

    BROKEN = "broken"
    UNREACHABLE = "unreachable"
    INTACT = "intact"


class AuditLogRow(Result):
    """The check of one broker's audit log."""

    log: str = Field(description="Its topic: in a cluster each broker has a partition of its own.")
    broker_id: Annotated[str | None, VOLATILE] = Field(title="Broker", description="The broker that serves it.")
    verdict: LogVerdict = Field(
        description="`intact`: what was checked is what was written. `unreachable`: it could not be read."
    )
    checked: Annotated[int, VOLATILE] = Field(description="Records that were checked.")
    total: Annotated[int | None, VOLATILE] = Field(description="Records there are; null where that is not known.")
    broken_at: int | None = Field(description="The sequence of the first record that does not fit.")
    reason: Annotated[str, VOLATILE] = Field(description="Why it does not fit, or cannot be read; empty otherwise.")


class AuditTrail(Result):
    """The audit logs of all brokers as one, newest record last, and the verdict on what was checked."""

    is_intact: bool = Field(description="Whether the records that were checked are what was written.")
    checked: Annotated[int, VOLATILE] = Field(description="Records that were checked, in all logs.")
    broken_at: int | None = Field(description="The sequence of the first record that does not fit.")
    reason: str = Field(description="Why it does not fit; empty when all do.")
    unreachable: int = Field(
        description="With `verify_all` the logs that could not be read, so nobody knows whether they are intact."
    )
    total: Annotated[int, VOLATILE] = Field(description="Records there are in all logs that could be read.")
    logs: list[AuditLogRow] = Field(
        description="The logs that were read, those with trouble first; a single one only with `verify_all`."
    )
    records: Annotated[list[AuditRow], VOLATILE] = Field(description="The records asked for, by their time.")

    def remarks(self) -> tuple[str, ...]:
        """The logs whose records are missing."""
        missing = [row for row in self.logs if row.verdict is LogVerdict.UNREACHABLE]
        return tuple(f"Records of {row.log} are missing here: {row.reason}" for row in missing)


async def _plans(call: Call, params: ListPlansParams) -> PlanList:
    now_ms = call.clock.now_ms()
    views = [plan_view(plan, now_ms) for plan in await call.gateway.plans()]
    return PlanList(plans=[view for view in views if params.status in {None, view.status}])


async def _decide(call: Call, params: PlanParams, *, approve: bool) -> PlanView:
    decision = Decision(plan_id=params.plan_id, approve=approve, caller=call.caller)
    return plan_view(await call.gateway.decide_plan(decision), call.clock.now_ms())


async def _audit(call: Call, params: AuditParams) -> AuditTrail:
    since_ms = call.clock.now_ms() - params.last * 1_000 if params.last is not None else 0
    is_search = any(getattr(params, name) is not None for name in _FILTERS)
    wanted = WantedRecords(
        limit=params.limit + 1,
        before_ms=params.before,
        takes=(lambda record: _is_wanted(record, params, since_ms)) if is_search else None,
        is_whole=params.verify_all,
    )
    found = await read_audit_logs(call, wanted)
    logs = sorted(map(_log_row, found), key=lambda row: ([*LogVerdict].index(row.verdict), row.log))
    broken = next((row for row in logs if row.verdict is LogVerdict.BROKEN), None)
    where = f"{broken.log}: " if broken is not None and len(logs) > 1 else ""
    return AuditTrail(
        is_intact=broken is None,
        checked=sum(row.checked for row in logs),
        broken_at=broken.broken_at if broken else None,
        reason=f"{where}{broken.reason}" if broken else "",
        unreachable=sum(row.verdict is LogVerdict.UNREACHABLE for row in logs) if params.verify_all else 0,
        total=sum(row.total or 0 for row in logs),
        logs=logs if params.verify_all or len(logs) > 1 else [],
        records=[_row(record) for record in newest_of(found, params.limit)],
    )


_FILTERS = ("who", "face", "operation", "outcome", "last")


def _is_wanted(record: AuditRecord, params: AuditParams, since_ms: int) -> bool:
    entry = record.entry
    return (
        (params.who is None or params.who.casefold() in entry.caller.who.casefold())
        and (params.face is None or entry.caller.face is params.face)
        and (params.operation is None or entry.operation == params.operation)
        and (params.outcome is None or entry.outcome is params.outcome)
        and record.at_ms >= since_ms
    )


def _log_row(log: ReadLog) -> AuditLogRow:
    verdict, reason = LogVerdict.INTACT if log.verdict.is_intact else LogVerdict.BROKEN, log.verdict.reason
    if log.fault is not None and log.verdict.is_intact:
        verdict, reason = LogVerdict.UNREACHABLE, str(log.fault)
    return AuditLogRow.of(
        log.place, log.verdict, log=str(log.place.topic), verdict=verdict, reason=reason, total=log.total
    )


def _row(record: AuditRecord) -> AuditRow:
    return AuditRow.of(record, record.entry, record.entry.caller)


LIST_PLANS = Operation(
    name="list_plans",
    words=("plans", "list"),
    summary="List plans: waiting for approval, ready, and finished.",
    effect=Effect.READ,
    params=ListPlansParams,
    result=PlanList,
    run=_plans,
    pages=Listing(rows="plans", name="plan_id"),
    toolset="plans",
    examples=(Example("Every plan"), Example("Those that wait for approval", {"status": "waiting"})),
)

APPROVE_PLAN = Operation(
    name="approve_plan",
    words=("plans", "approve"),
    summary="Approve a waiting plan: its caller may then apply it.",
    effect=Effect.DESTROY,
    params=PlanParams,
    result=PlanView,
    run=partial(_decide, approve=True),
    positional=("plan_id",),
    is_tool=False,
    needs_person=True,
    examples=(Example("The plan that waits", {"plan_id": "plan-seeded"}),),
)

REJECT_PLAN = Operation(
    name="reject_plan",
    words=("plans", "reject"),
    summary="Reject a waiting plan: it can no longer be applied.",
    effect=Effect.WRITE,
    params=PlanParams,
    result=PlanView,
    run=partial(_decide, approve=False),
    positional=("plan_id",),
    is_tool=False,
    access=AccessLevel.WRITE,
    examples=(Example("The plan that waits", {"plan_id": "plan-seeded"}),),
)

AUDIT = Operation(
    name="audit",
    words=("audit",),
    summary="Show the audit log, and verify that no record was changed or removed.",
    description="Exit code 8 when a chain is broken, 5 when a log that is to be checked cannot be read.",
    effect=Effect.READ,
    params=AuditParams,
    result=AuditTrail,
    rows="records",
    run=_audit,
    is_tool=False,
    examples=(Example("The newest calls"), Example("Check the whole log", {"limit": 1, "verify_all": True})),
)

OPERATIONS = (LIST_PLANS, APPROVE_PLAN, REJECT_PLAN, AUDIT)
