"""Calls that move, destroy, or change something for good: recorded by the broker, and under its approval rules.

The beginning is durable before anything is done. How the call ended follows, and nobody waits for that record.

On every port, whoever calls: the effect of the request decides. What brokers do to each other is part of something that
is recorded where it was asked for.
"""

import logging
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace

from danube.broker.security.current import ActingAs, current_principal
from danube.broker.services.call import Action, Audit, Call
from danube.broker.services.context import ServiceContext
from danube.model.calls.schemas import SetMode
from danube.model.errors import (
    DanubeError,
    InternalError,
    NotPermittedError,
    PlanRefusedError,
    PlanWaitsError,
    UnavailableError,
)
from danube.model.plans.plan import Arguments, Caller, Effect, Face, PlanRequest
from danube.model.records.audit import AuditEntry, Outcome
from danube.model.security.principal import Principal, PrincipalKind, name_of
from danube.rpc.carrier import Caller as Peer
from danube.rpc.carrier import UnaryCall, UnaryHandler
from danube.security.redaction import redacted
from danube.wire.plan_messages import told_caller
from danube.wire.schema_messages import SET_MODE

_log = logging.getLogger(__name__)
_WORDS = re.compile(r"(?<!^)(?=[A-Z])")
_CLIENT_CHARS_MAX = 100


def recorded(method: str, call: Call, handler: UnaryHandler, context: ServiceContext) -> UnaryHandler:
    """The handler, which begins once the record of its call is durable. Calls that are not recorded keep theirs.

    A call that waits for an approval is refused with PlanWaitsError, and recorded as well.
    """
    if call.rule is not Audit.RECORDED:
        return handler
    reads, operation = call.request, method.rpartition("/")[2]
    assert reads is not None  # noqa: S101 - the catalogue was checked

    def handle(request: bytes, unary: UnaryCall) -> bytes | None:
        effect = call.effect_of(request)
        if effect is Effect.READ or _is_among_brokers(call, context):
            return handler(request, unary)
        asked = _Asked(
            operation=operation,
            call=call,
            context=context,
            request=request,
            unary=unary,
            effect=effect,
            content=_without_secrets(reads.content(request)),
            caller=_caller(unary),
        )
        context.tasks.spawn(_record_and_handle(asked, handler), "a recorded call")
        return None

    return handle


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """One request for a recorded call."""

    operation: str
    call: Call
    context: ServiceContext
    request: bytes
    unary: UnaryCall
    effect: Effect
    content: Arguments
    caller: Caller

    @property
    def waits(self) -> bool:
        """True if it takes an approval: for what it destroys or moves, or for the rights that it gives to others."""
        if self.call.has_consent:
            return False
        control, grants = self.context.control, self.call.grants_to
        if control.plans.approval.asks(self.effect):
            return True
        if grants is None or not control.plans.approval.two_person:
            return False
        own = name_of(self.caller.who)
        others = set(grants(self.context, self.request)) - {own}
        return bool(others) and control.security.has_other_approver(own)

    async def check_consent(self) -> None:
        """Use up the consent to this call. Raises PlanWaitsError where there is none."""
        plans = self.context.control.plans
        if plans.makes(_WORDS.sub("_", self.operation).lower()):
            raise PlanWaitsError(
                f"{self.operation} needs the approval of somebody else (auth.approval): make a plan for it with"
                " danube-admin"
            )
        await plans.check_consent(
            PlanRequest(
                operation=self.operation,
                arguments=self.content,
                effect=self.effect,
                caller=self.caller,
                needs_approval=True,
            )
        )

    def entry(self, waiting: PlanWaitsError | None) -> AuditEntry:
        return AuditEntry(
            caller=self.caller,
            operation=self.operation,
            arguments=self.content,
            effect=self.effect,
            outcome=Outcome.STARTED if waiting is None else Outcome.REFUSED,
            plan_id=self.content.get("plan_id"),
            error=None if waiting is None else waiting.code,
            detail="" if waiting is None else str(waiting),
        )


class _RecordedCall:
    """A call whose end is recorded."""

    __slots__ = ("_asked", "_principal")

    def __init__(self, asked: _Asked) -> None:
        self._asked = asked
        self._principal = current_principal()

    @property
    def caller(self) -> Peer:
        return self._asked.unary.caller

    def reply(self, response: bytes) -> None:
        asked = self._asked
        entry = replace(asked.entry(None), outcome=Outcome.DONE)
        if asked.call.plan_in is not None:
            entry = replace(entry, outcome=Outcome.PLANNED, plan_id=asked.call.plan_in(response) or None)
        self._end(entry)
        asked.unary.reply(response)

    def fail(self, error: DanubeError) -> None:
        self._end(_failed(self._asked.entry(None), error))
        self._asked.unary.fail(error)

    def on_cancel(self, callback: Callable[[], None]) -> None:
        self._asked.unary.on_cancel(callback)

    def _end(self, entry: AuditEntry) -> None:
        tasks = self._asked.context.tasks
        if not tasks.closed:
            tasks.spawn(_write_end(self._asked.context, entry, self._principal), "the record of an end")


def _failed(entry: AuditEntry, error: DanubeError) -> AuditEntry:
    refused = isinstance(error, (NotPermittedError, PlanRefusedError))
    detail = redacted(str(error)) if error.public else ""
    return replace(entry, outcome=Outcome.REFUSED if refused else Outcome.FAILED, error=error.code, detail=detail)


def _caller(unary: UnaryCall) -> Caller:
    principal = current_principal()
    address = unary.caller.address
    told = told_caller(unary.caller.metadata)
    known = str(principal) if principal else told.who if told else address.rpartition(":")[0] or address
    if told is not None:
        return replace(told, who=known)
    return Caller(who=known or "somebody", face=Face.DIRECT, client=unary.caller.user_agent[:_CLIENT_CHARS_MAX])


def _is_among_brokers(call: Call, context: ServiceContext) -> bool:
    principal = current_principal()
    if context.gate is None:
        return call.action is Action.REPLICATE
    return principal is not None and principal.id.kind is PrincipalKind.BROKER


async def _record_and_handle(asked: _Asked, handler: UnaryHandler) -> None:
    unary = asked.unary
    try:
        if asked.effect is Effect.DESTROY or asked.call.makes_room:
            await asked.context.make_room()  # on a full disk, also for the record
        await _record(asked)
        unary = _RecordedCall(asked)
        answer = handler(asked.request, unary)
        if answer is not None:
            unary.reply(answer)
    except DanubeError as error:
        unary.fail(error)
    except BaseException:
        unary.fail(InternalError("internal error; the broker's log has the details"))
        raise


def _without_secrets(content: Arguments) -> Arguments:
    return {name: redacted(value) if isinstance(value, str) else value for name, value in content.items()}


async def _record(asked: _Asked) -> None:
    """Record a call. Raises PlanWaitsError for one that waits, and as `_write`."""
    waiting: PlanWaitsError | None = None
    if asked.waits:
        try:
            await asked.check_consent()
        except PlanWaitsError as error:
            waiting = error
    await _write(asked.context, asked.entry(waiting))
    if waiting is not None:
        raise waiting


async def _write(context: ServiceContext, entry: AuditEntry) -> None:
    """Raises UnavailableError where it cannot be recorded and security is on: nothing is done unrecorded then."""
    try:
        await context.control.audit.record(entry)
    except DanubeError as error:
        _log.error("a call of %s is not in the audit log: %s", entry.operation, error)
        if context.gate is not None:
            raise UnavailableError(
                f"{entry.operation} was not carried out, for the audit log cannot be written: {error}"
            ) from error


async def _write_end(context: ServiceContext, entry: AuditEntry, principal: Principal | None) -> None:
    """Record how a call ended, as far as the log can be written: it is done already."""
    try:
        if principal is None:
            await context.control.audit.record(entry)
        else:
            with ActingAs(principal):
                await context.control.audit.record(entry)
    except DanubeError as error:
        _log.warning("the audit log has no record that %s ended as %s: %s", entry.operation, entry.outcome, error)


def recorder_of_modes(context: ServiceContext) -> Callable[[SetMode], AbstractAsyncContextManager[None]]:
    """Records that a mode is set over HTTP, as the call of gRPC is. Raises UnavailableError."""

    @asynccontextmanager
    async def record(wanted: SetMode) -> AsyncIterator[None]:
        principal = current_principal()
        entry = AuditEntry(
            caller=Caller(who=str(principal or "somebody"), face=Face.DIRECT, client="schemas over HTTP"),
            operation="SetMode",
            arguments=SET_MODE.content(SET_MODE.encode(wanted)),
            effect=Effect.WRITE,
            outcome=Outcome.STARTED,
        )
        await _write(context, entry)
        try:
            yield
        except DanubeError as error:
            await _write_end(context, _failed(entry, error), principal)
            raise
        await _write_end(context, replace(entry, outcome=Outcome.DONE), principal)

    return record
