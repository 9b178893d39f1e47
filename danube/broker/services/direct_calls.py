"""Direct calls of the admin port that move, destroy or change security: in the audit log, and under the approval rules.

Faces of ours act by plans and write their own records; the original's tools call directly.
"""

import logging

from danube.broker.security.current import current_principal
from danube.broker.services.call import Call
from danube.broker.services.context import ServiceContext
from danube.model.errors import DanubeError, InternalError, PlanWaitsError, UnavailableError
from danube.model.plans.plan import Arguments, Caller, Effect, Face
from danube.model.records.audit import AuditEntry, Outcome
from danube.rpc.carrier import UnaryCall, UnaryHandler

_log = logging.getLogger(__name__)
_ORIGINAL = "danube_admin."
_SECURITY = "danube_admin.SecurityAdmin/"


def is_direct(method: str, call: Call) -> bool:
    """True for a call of the original's admin API that is recorded: it moves, destroys, or changes security."""
    if not method.startswith(_ORIGINAL):
        return False
    return call.effect.is_planned or (method.startswith(_SECURITY) and call.effect is not Effect.READ)


def recorded(method: str, call: Call, handler: UnaryHandler, context: ServiceContext) -> UnaryHandler:
    """The handler, which begins once the record of its call is durable. Calls that are not recorded keep theirs.

    A call that waits for an approval which it cannot have is refused with PlanWaitsError, and recorded as well.
    """
    if not is_direct(method, call):
        return handler

    def handle(request: bytes, unary: UnaryCall) -> None:
        context.tasks.spawn(_record_and_handle(method, call, handler, context, (request, unary)), "a direct call")

    return handle


async def _record_and_handle(
    method: str, call: Call, handler: UnaryHandler, context: ServiceContext, asked: tuple[bytes, UnaryCall]
) -> None:
    request, unary = asked
    entry = _entry(method, call, context, unary, request)
    try:
        if call.effect is Effect.DESTROY:
            await context.make_room()  # on a full disk, also for the record
        await _record(context, entry)
        answer = handler(request, unary)
        if answer is not None:
            unary.reply(answer)
    except DanubeError as error:
        unary.fail(error)
    except BaseException:
        unary.fail(InternalError("internal error; the broker's log has the details"))
        raise


def _entry(method: str, call: Call, context: ServiceContext, unary: UnaryCall, request: bytes) -> AuditEntry:
    """The record of a call: refused where it waits for an approval."""
    operation = method.rpartition("/")[2]
    waits = not method.startswith(_SECURITY) and context.control.plans.approval.asks(call.effect)
    principal = current_principal()
    who = str(principal) if principal else unary.caller.address
    return AuditEntry(
        caller=Caller(who=who, face=Face.DIRECT, client=unary.caller.user_agent[:100]),
        operation=operation,
        arguments=_named(call, context, request),
        effect=call.effect,
        outcome=Outcome.REFUSED if waits else Outcome.STARTED,
    )


def _named(call: Call, context: ServiceContext, request: bytes) -> Arguments:
    """Topics or namespaces that the request names; nothing else of it, which may be secret."""
    try:
        targets = () if call.targets is None else call.targets(context, request)
    except DanubeError:
        return {}
    return {"resources": [str(target) for target in targets]} if targets else {}


async def _record(context: ServiceContext, entry: AuditEntry) -> None:
    """Record a call. Raises PlanWaitsError for one that is refused.

    Raises UnavailableError where it cannot be recorded and security is on: nothing is done unrecorded then.
    """
    try:
        await context.control.audit.record(entry)
    except DanubeError as error:
        _log.error("a direct call of %s is not in the audit log: %s", entry.operation, error)
        if context.gate is not None:
            raise UnavailableError(
                f"{entry.operation} was not carried out, for the audit log cannot be written: {error}"
            ) from error
    if entry.outcome is Outcome.REFUSED:
        raise PlanWaitsError(
            f"{entry.operation} needs the approval of somebody else (auth.approval): make a plan for it with"
            " danube-admin"
        )
