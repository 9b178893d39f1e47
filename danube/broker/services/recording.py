"""Calls that move, destroy, or change something for good: recorded by the broker, and under its approval rules.

On every port, whoever calls: the effect of the request decides. What brokers do to each other is part of something that
is recorded where it was asked for.
"""

import logging
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from danube.broker.security.current import current_principal
from danube.broker.services.call import Action, Audit, Call
from danube.broker.services.context import ServiceContext
from danube.model.calls.schemas import SetMode
from danube.model.errors import DanubeError, InternalError, PlanWaitsError, UnavailableError
from danube.model.plans.plan import Arguments, Caller, Effect, Face, PlanRequest
from danube.model.records.audit import AuditEntry, Outcome
from danube.model.security.principal import PrincipalKind, name_of
from danube.rpc.carrier import UnaryCall, UnaryHandler
from danube.security.redaction import redacted
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


def _caller(unary: UnaryCall) -> Caller:
    principal = current_principal()
    address = unary.caller.address
    who = str(principal) if principal else address.rpartition(":")[0] or address or "somebody"
    return Caller(who=who, face=Face.DIRECT, client=unary.caller.user_agent[:_CLIENT_CHARS_MAX])


def _is_among_brokers(call: Call, context: ServiceContext) -> bool:
    principal = current_principal()
    if context.gate is None:
        return call.action is Action.REPLICATE
    return principal is not None and principal.id.kind is PrincipalKind.BROKER


async def _record_and_handle(asked: _Asked, handler: UnaryHandler) -> None:
    try:
        if asked.effect is Effect.DESTROY or asked.call.makes_room:
            await asked.context.make_room()  # on a full disk, also for the record
        await _record(asked)
        answer = handler(asked.request, asked.unary)
        if answer is not None:
            asked.unary.reply(answer)
    except DanubeError as error:
        asked.unary.fail(error)
    except BaseException:
        asked.unary.fail(InternalError("internal error; the broker's log has the details"))
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


def recorder_of_modes(context: ServiceContext) -> Callable[[SetMode], Awaitable[None]]:
    """Records that a mode is set over HTTP, as the call of gRPC is. Raises UnavailableError."""

    async def record(wanted: SetMode) -> None:
        principal = current_principal()
        await _write(
            context,
            AuditEntry(
                caller=Caller(who=str(principal or "somebody"), face=Face.DIRECT, client="schemas over HTTP"),
                operation="SetMode",
                arguments=SET_MODE.content(SET_MODE.encode(wanted)),
                effect=Effect.WRITE,
                outcome=Outcome.STARTED,
            ),
        )

    return record
