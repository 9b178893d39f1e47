"""Calls that move, destroy, or change something for good: recorded by the broker, and under its approval rules.

The beginning is durable before anything is done. How the call ended follows, and nobody waits for that record. A call
that is refused before it begins, by an approval rule or the gate, leaves that one record.

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
    InvalidRequestError,
    NotPermittedError,
    PlanRefusedError,
    PlanWaitsError,
    UnavailableError,
)
from danube.model.plans.plan import Arguments, Caller, Effect, Face, PlanRequest
from danube.model.records.audit import AuditEntry, Outcome
from danube.model.records.connectors import Change
from danube.model.security.principal import Principal, PrincipalKind, name_of
from danube.rpc.carrier import Caller as Peer
from danube.rpc.carrier import UnaryCall, UnaryHandler
from danube.security.redaction import redacted
from danube.wire.plan_messages import claimed_caller
from danube.wire.schema_messages import SET_MODE

_log = logging.getLogger(__name__)
_WORDS = re.compile(r"(?<!^)(?=[A-Z])")
_CLIENT_CHARS_MAX = 100
_OPERATIONS = {
    "AddNode": "add_cluster_node",
    "ChangeConnector": "restart_connector",
    "ClearRule": "clear_balance_rule",
    "PromoteNode": "promote_cluster_node",
    "PutSchedule": "add_schedule",
    "RemoveNode": "remove_cluster_node",
    "RequestRun": "run_schedule",
    "Seek": "seek_subscription",
    "SetAutomatic": "set_automatic_balance",
    "SetCompatibilityMode": "set_schema_compatibility_mode",
    "SetMode": "set_schema_compatibility_mode",
    "SetRule": "set_balance_rule",
    "UpdateTopicValidationPolicy": "set_validation_policy",
}
"""Operations of administrators by their calls, where those have other names."""


def operation_of(method: str, content: Arguments) -> str:
    """Name in the audit log of what a call does: that of the operation which makes it, of a plan the planned one."""
    planned, approve = content.get("operation"), content.get("approve")
    if method in {"CreatePlan", "ApplyPlan"} and isinstance(planned, str) and planned:
        return planned
    if method == "ChangeConnector" and content.get("change") in set(Change):
        return f"{content['change']}_connector"
    if method == "DecidePlan":
        return "approve_plan" if approve else "reject_plan"
    return _OPERATIONS.get(method) or _WORDS.sub("_", method).lower()


class CallRecorder:
    """Recorder of one entry of the catalogue."""

    __slots__ = ("_call", "_context", "_method")

    def __init__(self, method: str, call: Call, context: ServiceContext) -> None:
        self._method = method.rpartition("/")[2]
        self._call = call
        self._context = context

    def recorded(self, handler: UnaryHandler) -> UnaryHandler:
        """The handler, which begins once the record of its call is durable. Calls that are not recorded keep theirs.

        A call that waits for an approval is refused with PlanWaitsError, and recorded as well.
        """
        call, context, reads = self._call, self._context, self._call.request
        if call.rule is not Audit.RECORDED:
            return handler
        assert reads is not None  # noqa: S101 - the catalogue was checked

        def handle(request: bytes, unary: UnaryCall) -> bytes | None:
            if call.effect_of(request) is Effect.READ or _is_among_brokers(call, context):
                return handler(request, unary)
            asked = self._asked(request, unary, reads.content(request))
            context.tasks.spawn(_record_and_handle(asked, handler), "a recorded call")
            return None

        return handle

    def refuse(self, request: bytes, unary: UnaryCall, error: NotPermittedError) -> None:
        """Record that the gate refused a call which is recorded, unless its caller is above the rate of refusals."""
        call = self._call
        if call.rule is not Audit.RECORDED or call.request is None or call.effect_of(request) is Effect.READ:
            return
        if not self._context.control.audit.takes_refusal_of(str(current_principal())):
            return
        try:
            content = call.request.content(request)
        except InvalidRequestError:
            content = {}
        _RecordedCall(self._asked(request, unary, content)).end(error)

    def _asked(self, request: bytes, unary: UnaryCall, content: Arguments) -> "_Asked":
        return _Asked(
            method=self._method,
            call=self._call,
            context=self._context,
            request=request,
            unary=unary,
            effect=self._call.effect_of(request),
            content=_without_secrets(content),
            caller=_caller(unary),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """One request for a recorded call."""

    method: str
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
        if plans.makes(operation_of(self.method, self.content)):
            raise PlanWaitsError(
                f"{self.method} needs the approval of somebody else (auth.approval): make a plan for it with"
                " danube-admin"
            )
        await plans.check_consent(
            PlanRequest(
                operation=self.method,
                arguments=self.content,
                effect=self.effect,
                caller=replace(self.caller, face=Face.DIRECT, client=""),  # a face is what the caller says
                needs_approval=True,
            )
        )

    def entry(self, outcome: Outcome) -> AuditEntry:
        return AuditEntry(
            caller=self.caller,
            operation=operation_of(self.method, self.content),
            arguments=self.content,
            effect=self.effect,
            outcome=outcome,
            plan_id=self.content.get("plan_id"),
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
        entry = asked.entry(Outcome.DONE)
        if asked.call.plan_in is not None:
            entry = replace(entry, outcome=Outcome.PLANNED, plan_id=asked.call.plan_in(response) or None)
        self._write(entry)
        asked.unary.reply(response)

    def fail(self, error: DanubeError) -> None:
        self.end(error)
        self._asked.unary.fail(error)

    def end(self, error: DanubeError) -> None:
        """Record that it ended with this error."""
        self._write(_failed(self._asked.entry(Outcome.FAILED), error))

    def on_cancel(self, callback: Callable[[], None]) -> None:
        self._asked.unary.on_cancel(callback)

    def _write(self, entry: AuditEntry) -> None:
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
    claimed = claimed_caller(unary.caller.metadata)
    known = str(principal) if principal else claimed.who if claimed else address.rpartition(":")[0] or address
    if claimed is not None:
        return replace(claimed, who=known)
    return Caller(who=known or "somebody", face=Face.DIRECT, client=unary.caller.user_agent[:_CLIENT_CHARS_MAX])


def _is_among_brokers(call: Call, context: ServiceContext) -> bool:
    principal = current_principal()
    if context.gate is None:
        return call.action is Action.REPLICATE
    return principal is not None and principal.id.kind is PrincipalKind.BROKER


async def _record_and_handle(asked: _Asked, handler: UnaryHandler) -> None:
    unary = _RecordedCall(asked)
    try:
        if asked.effect is Effect.DESTROY or asked.call.makes_room:
            await asked.context.make_room()  # on a full disk, also for the record
        if asked.waits:
            await asked.check_consent()
        await _write(asked.context, asked.entry(Outcome.STARTED))
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


def recorder_of_modes(
    context: ServiceContext,
) -> Callable[[SetMode, Callable[[], None]], AbstractAsyncContextManager[None]]:
    """Records that a mode is set over HTTP, as the call of gRPC is: what the check refuses, too.

    Raises UnavailableError, and what the check raises.
    """

    @asynccontextmanager
    async def record(wanted: SetMode, check: Callable[[], None]) -> AsyncIterator[None]:
        principal = current_principal()
        entry = AuditEntry(
            caller=Caller(who=str(principal or "somebody"), face=Face.DIRECT, client="schemas over HTTP"),
            operation=operation_of("SetMode", {}),
            arguments=SET_MODE.content(SET_MODE.encode(wanted)),
            effect=Effect.WRITE,
            outcome=Outcome.STARTED,
        )
        try:
            check()
        except NotPermittedError as error:
            if context.control.audit.takes_refusal_of(str(principal)):
                await _write_end(context, _failed(entry, error), principal)
            raise
        await _write(context, entry)
        try:
            yield
        except DanubeError as error:
            await _write_end(context, _failed(entry, error), principal)
            raise
        await _write_end(context, replace(entry, outcome=Outcome.DONE), principal)

    return record
