"""plans.* and audit: what people see and decide. None of it is a tool: an assistant is what they oversee."""

from collections import deque
from collections.abc import AsyncIterator
from enum import StrEnum
from functools import partial
from typing import Annotated, Any

from pydantic import Field

from danube.admin.access import AccessLevel
from danube.admin.gateway import AuditLogPlace
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
from danube.admin.operations.paging import page_of
from danube.admin.operations.plan_views import PlanView, plan_view
from danube.model.errors import DanubeError, InvalidRequestError
from danube.model.limits.broker import AUDIT_PAGE_MAX, PARTITIONS_MAX
from danube.model.limits.inspection import AUDIT_SEARCH_MAX
from danube.model.plans.plan import Decision, Effect, Face, PlanStatus
from danube.model.records.audit import AUDIT_TOPIC, AuditPage, AuditRecord, ChainCheck, ChainVerdict, Outcome


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
        default=None, ge=0, description="Only records before this sequence; the newest without it."
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

    sequence: Annotated[int, VOLATILE] = Field(description="Its place in the log.")
    at_ms: Millis
    who: Annotated[str, VOLATILE] = Field(description="Who called.")
    face: Annotated[Face, VOLATILE] = Field(description="Through which face.")
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
    broker_id: Annotated[str | None, VOLATILE] = Field(description="The broker that serves it.")
    verdict: LogVerdict = Field(
        description="`intact`: what was checked is what was written. `unreachable`: it could not be read."
    )
    checked: Annotated[int, VOLATILE] = Field(description="Records that were checked.")
    total: Annotated[int | None, VOLATILE] = Field(description="Records there are; null where that is not known.")
    broken_at: int | None = Field(description="The sequence of the first record that does not fit.")
    reason: Annotated[str, VOLATILE] = Field(description="Why it does not fit, or cannot be read; empty otherwise.")


class AuditTrail(Result):
    """The audit log of the broker that was asked, newest record last, and the verdict on what was checked."""

    is_intact: bool = Field(description="Whether the records that were checked are what was written.")
    checked: Annotated[int, VOLATILE] = Field(description="Records that were checked, in all logs.")
    broken_at: int | None = Field(description="The sequence of the first record that does not fit.")
    reason: str = Field(description="Why it does not fit; empty when all do.")
    unreachable: int = Field(description="Logs that could not be read, so nobody knows whether they are intact.")
    total: Annotated[int, VOLATILE] = Field(description="Records there are in the log that is shown.")
    keeper: Annotated[str, VOLATILE] = Field(description="The broker whose log is shown: each has its own.")
    logs: list[AuditLogRow] = Field(
        description="With `verify_all` the logs of all brokers, those with trouble first; otherwise none."
    )
    records: Annotated[list[AuditRow], VOLATILE] = Field(description="The records asked for, in their order.")


async def _plans(call: Call, params: ListPlansParams) -> PlanList:
    now_ms = call.clock.now_ms()
    views = sorted((plan_view(plan, now_ms) for plan in await call.gateway.plans()), key=lambda view: view.plan_id)
    wanted = [view for view in views if params.status in {None, view.status}]
    page, cursor = page_of(wanted, lambda view: view.plan_id, params)
    return PlanList(total=len(wanted), next_cursor=cursor, plans=page)


async def _decide(call: Call, params: PlanParams, *, approve: bool) -> PlanView:
    decision = Decision(plan_id=params.plan_id, approve=approve, caller=call.caller)
    return plan_view(await call.gateway.decide_plan(decision), call.clock.now_ms())


async def _audit(call: Call, params: AuditParams) -> AuditTrail:
    newest = await call.gateway.audit(0, 1)
    end = newest.end if params.before is None else min(newest.end, params.before)
    is_filtered = any(getattr(params, name) is not None for name in _FILTERS)
    first = max(newest.start, end - (AUDIT_SEARCH_MAX if is_filtered else params.limit))
    since_ms = call.clock.now_ms() - params.last * 1_000 if params.last is not None else 0
    check, shown = ChainCheck(start=first), deque[AuditRecord](maxlen=params.limit)
    async for records in _pages(call, first, end, None):
        check.add(records)
        shown += (record for record in records if _is_wanted(record, params, since_ms))
    check.end(end)
    logs = await _all_logs(call) if params.verify_all else []
    broken = next((row for row in logs if row.verdict is LogVerdict.BROKEN), None)
    where = f"{broken.log}: " if broken is not None and len(logs) > 1 else ""
    told = broken or check.verdict
    return AuditTrail(
        is_intact=check.verdict.is_intact and broken is None,
        checked=sum(row.checked for row in logs) if logs else check.verdict.checked,
        broken_at=told.broken_at,
        reason=f"{where}{told.reason}",
        unreachable=sum(row.verdict is LogVerdict.UNREACHABLE for row in logs),
        total=newest.end - newest.start,
        keeper=shown[-1].keeper if shown else "",
        logs=logs,
        records=[_row(record) for record in shown],
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


async def _all_logs(call: Call) -> list[AuditLogRow]:
    """The checks of the logs of all brokers, those with trouble first."""
    places = (await call.gateway.audit_logs())[:PARTITIONS_MAX]
    rows = [await _checked(call, place, place) for place in places]
    if not rows:
        rows = [await _checked(call, AuditLogPlace(topic=AUDIT_TOPIC, broker_id=None, admin_url=None), None)]
    return sorted(rows, key=lambda row: ([*LogVerdict].index(row.verdict), row.log))


async def _checked(call: Call, place: AuditLogPlace, log: AuditLogPlace | None) -> AuditLogRow:
    """The check of a whole log, page by page: it may be longer than fits in memory."""
    check = ChainCheck(start=0)
    page: AuditPage | None = None
    try:
        page = await call.gateway.audit(0, 1, log)
        async for records in _pages(call, 0, page.end, log):
            check.add(records)
        check.end(page.end)
    except InvalidRequestError as error:
        check.fail(None, str(error))  # a record that is none
    except DanubeError as error:
        row = _log_row(place, check.verdict, page)
        is_known = row.verdict is LogVerdict.BROKEN
        return row if is_known else row.model_copy(update={"verdict": LogVerdict.UNREACHABLE, "reason": str(error)})
    return _log_row(place, check.verdict, page)


def _log_row(place: AuditLogPlace, verdict: ChainVerdict, page: AuditPage | None) -> AuditLogRow:
    return AuditLogRow.of(
        place,
        verdict,
        log=str(place.topic),
        verdict=LogVerdict.INTACT if verdict.is_intact else LogVerdict.BROKEN,
        total=page.end - page.start if page is not None else None,
    )


async def _pages(call: Call, start: int, end: int, log: AuditLogPlace | None) -> AsyncIterator[list[AuditRecord]]:
    """The records of a log from one sequence up to another."""
    while start < end:
        page = await call.gateway.audit(start, min(AUDIT_PAGE_MAX, end - start), log)
        if not page.records:
            break
        yield [record for record in page.records if record.sequence < end]
        start = page.records[-1].sequence + 1
        await call.report(min(start, end), end, "reading the audit log")


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
    listing=Listing(rows="plans", key="plan_id"),
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
    run=_audit,
    is_tool=False,
    examples=(Example("The newest calls"), Example("Check the whole log", {"limit": 1, "verify_all": True})),
)

OPERATIONS = (LIST_PLANS, APPROVE_PLAN, REJECT_PLAN, AUDIT)
