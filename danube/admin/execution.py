"""The one way from any face to the cluster: check the level, plan or apply or run, and write the audit log.

A change that cannot be recorded is not made: its record `started` is durable before it is tried. How a call ended, what
was only read and what was refused is recorded as far as the log can be reached: who looks into a broker that cannot
write any more still gets answers. What a broker records itself has no second record (`danube/admin/operations/act.py`).
"""

import logging
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import ValidationError

from danube.admin.access import Guard
from danube.admin.broker_names import learn_what_is_in, named, with_ids
from danube.admin.gateway import AdminGateway
from danube.admin.operations.act import acting
from danube.admin.operations.fields import Params, Result
from danube.admin.operations.operation import AnyOperation, Call, Operation, Report, say_nothing
from danube.admin.operations.plan_views import PlannedResult, planned_result
from danube.model.errors import (
    DanubeError,
    InvalidRequestError,
    NotPermittedError,
    PlanRefusedError,
)
from danube.model.plans.plan import Arguments, Caller, Decision, Effect, Face, PlanApplication, PlanRequest
from danube.model.records.audit import AuditEntry, Outcome, bounded
from danube.runtime.clock import Clock

P = TypeVar("P", bound=Params)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A caller at one face, under its rules."""

    gateway: AdminGateway
    caller: Caller
    clock: Clock
    guard: Guard
    report: Report = say_nothing
    follow_s: float = 0.0
    """Longest wait of the face for the end of what an applied plan began."""
    background: Callable[[Coroutine[Any, Any, None]], Awaitable[None]] | None = None
    """Writes the record of a read behind its answer; without it the answer waits for the record."""
    is_refresh: bool = False
    """True for a read that was recorded a moment ago: it leaves no record of its own."""


def parse_arguments(operation: AnyOperation, arguments: dict[str, Any]) -> Params:
    """The parameters of an operation. Raises InvalidRequestError, which names each argument that is wrong."""
    try:
        params: Params = operation.params.model_validate(arguments)
    except ValidationError as error:
        problems = "; ".join(_problem(each) for each in error.errors(include_url=False, include_input=False))
        raise InvalidRequestError(f"{operation.name}: {problems}") from None
    return params


async def execute(
    session: Session,
    operation: Operation[P, Any],
    params: P,
    *,
    plan_id: str | None = None,
    dry_run: bool = False,
) -> Result:
    """Carry an operation out; a planned one answers a plan without `plan_id`, and applies it with one.

    With `dry_run` the plan is only shown, and can never be applied. Raises DanubeError; the log has it then.
    """
    with acting(session.caller):
        return await _execute(session, operation, params, plan_id, dry_run=dry_run)


async def _execute(
    session: Session, operation: Operation[P, Any], params: P, plan_id: str | None, *, dry_run: bool
) -> Result:
    try:
        session.guard.check(operation.name, operation.level_of(params))
        params = await with_ids(params, session.gateway)
        if operation.is_planned:
            result: Result = await _planned(session, operation, params, plan_id, dry_run=dry_run)
        elif plan_id is not None:
            raise InvalidRequestError(f"{operation.name} acts at once and takes no plan_id: leave it out")
        else:
            result = await _run(session, operation, params)
    except DanubeError as error:
        await _record_error(session, operation, params, error, plan_id)
        await learn_what_is_in(str(error), session.gateway)
        error.args = (named(str(error)), *error.args[1:])
        raise
    await learn_what_is_in(repr(result), session.gateway)
    return result


async def decide(session: Session, operation: AnyOperation, params: Params, plan_id: str, *, approve: bool) -> None:
    """Approve or reject the plan that `operation` answered: a person was asked by the face itself.

    Raises DanubeError; the log has it then.
    """
    with acting(session.caller):
        await _decide(session, operation, params, plan_id, approve=approve)


async def _decide(session: Session, operation: AnyOperation, params: Params, plan_id: str, *, approve: bool) -> None:
    decision = Decision(plan_id=plan_id, approve=approve, caller=session.caller)
    params = await with_ids(params, session.gateway)
    asked = "approving the plan" if approve else "rejecting the plan"
    try:
        await session.gateway.record(_entry(session, operation, params, Outcome.STARTED, plan_id=plan_id, detail=asked))
        await session.gateway.decide_plan(decision)
    except DanubeError as error:
        await _record_error(session, operation, params, error, plan_id)
        raise
    detail = "approved" if approve else "rejected"
    await _record_quietly(session, _entry(session, operation, params, Outcome.DONE, plan_id=plan_id, detail=detail))


async def record_refusal(session: Session, operation: AnyOperation, params: Params, error: DanubeError) -> None:
    """Put a call that a face itself refuses into the log, as far as that can be reached."""
    await _record_error(session, operation, params, error, None)


async def _run(session: Session, operation: Operation[P, Any], params: P) -> Result:
    if session.caller.face is Face.MCP and operation.effect_of(params) is Effect.DESTROY:
        raise NotPermittedError(
            f"{operation.name} loses messages or rights for good with these arguments, and no assistant does that: a"
            f" person calls `danube-admin {operation.command}`"
        )
    if operation.effect is not Effect.READ:
        await session.gateway.record(_entry(session, operation, params, Outcome.STARTED))
    result: Result = await operation.answer(_call(session), params)
    if session.is_refresh and operation.effect is Effect.READ:
        return result
    noting = _record_quietly(session, _entry(session, operation, params, Outcome.DONE))
    if operation.effect is Effect.READ and session.background is not None:
        await session.background(noting)
    else:
        await noting
    return result


async def _planned(
    session: Session, operation: AnyOperation, params: Params, plan_id: str | None, *, dry_run: bool
) -> PlannedResult:
    arguments = _arguments(params)
    if plan_id is None:
        request = PlanRequest(
            operation=operation.name,
            arguments=arguments,
            effect=operation.effect,
            caller=session.caller,
            needs_approval=session.guard.needs_approval(operation.effect, session.caller.face),
            dry_run=dry_run,
        )
        plan = await session.gateway.create_plan(request)
        outcome = Outcome.PLANNED
    else:
        await session.gateway.record(_entry(session, operation, params, Outcome.STARTED, plan_id=plan_id))
        application = PlanApplication(
            plan_id=plan_id, operation=operation.name, arguments=arguments, caller=session.caller
        )
        plan = await session.gateway.apply_plan(application)
        outcome = Outcome.DONE
    await _record_quietly(session, _entry(session, operation, params, outcome, plan_id=plan.plan_id or None))
    result = planned_result(plan, session.clock.now_ms())
    if outcome is Outcome.DONE and operation.follow is not None and session.follow_s > 0:
        return result.followed(await operation.follow(_call(session), plan, session.follow_s))
    return result


def _call(session: Session) -> Call:
    return Call(gateway=session.gateway, clock=session.clock, caller=session.caller, report=session.report)


async def _record_error(
    session: Session, operation: AnyOperation, params: Params, error: DanubeError, plan_id: str | None
) -> None:
    refused = isinstance(error, (NotPermittedError, PlanRefusedError))
    outcome = Outcome.REFUSED if refused else Outcome.FAILED
    await _record_quietly(
        session, _entry(session, operation, params, outcome, plan_id=plan_id, detail=str(error), error=error.code)
    )


async def _record_quietly(session: Session, entry: AuditEntry) -> None:
    """Write down what has happened already; it stays so, and its answer is given, when the log cannot be reached."""
    try:
        await session.gateway.record(entry)
    except DanubeError as error:
        _log.warning("the audit log has no record that %s ended as %s: %s", entry.operation, entry.outcome, error)


def _entry(
    session: Session,
    operation: AnyOperation,
    params: Params,
    outcome: Outcome,
    *,
    plan_id: str | None = None,
    detail: str = "",
    error: str | None = None,
) -> AuditEntry:
    return bounded(
        AuditEntry(
            caller=session.caller,
            operation=operation.name,
            arguments=_arguments(params),
            effect=operation.effect_of(params),
            outcome=outcome,
            plan_id=plan_id,
            error=error,
            detail=detail,
        )
    )


def _arguments(params: Params) -> Arguments:
    """As JSON values; pydantic writes a SecretStr as asterisks."""
    return params.model_dump(mode="json")


def _problem(error: Any) -> str:  # noqa: ANN401 - pydantic's own typed dict
    where = ".".join(str(each) for each in error["loc"])
    return f"{where}: {error['msg']}" if where else str(error["msg"])
