"""Direct calls of the admin port that move, destroy or change security: in the audit log, and under the approval rules.

Faces of ours act by plans and write their own records; the original's tools call directly.
"""

import logging

from danube.broker.security.current import current_principal
from danube.broker.services.call import Call
from danube.broker.services.context import ServiceContext
from danube.model.errors import DanubeError, PlanWaitsError
from danube.model.plans.plan import Arguments, Caller, Effect, Face
from danube.model.records.audit import AuditEntry, Outcome
from danube.rpc.carrier import UnaryCall

_log = logging.getLogger(__name__)
_ORIGINAL = "danube_admin."
_SECURITY = "danube_admin.SecurityAdmin/"


def is_direct(method: str, call: Call) -> bool:
    """True for a call of the original's admin API that is recorded: it moves, destroys, or changes security."""
    if not method.startswith(_ORIGINAL):
        return False
    return call.effect.is_planned or (method.startswith(_SECURITY) and call.effect is not Effect.READ)


def admit_direct(method: str, call: Call, context: ServiceContext, unary: UnaryCall, request: bytes) -> None:
    """Record the call. Raises PlanWaitsError where the broker's rules ask for an approval that it cannot have."""
    operation = method.rpartition("/")[2]
    waits = not method.startswith(_SECURITY) and context.control.plans.approval.asks(call.effect)
    principal = current_principal()
    who = str(principal) if principal else unary.caller.address
    entry = AuditEntry(
        caller=Caller(who=who, face=Face.DIRECT, client=unary.caller.user_agent[:100]),
        operation=operation,
        arguments=_named(call, context, request),
        effect=call.effect,
        outcome=Outcome.REFUSED if waits else Outcome.STARTED,
    )
    context.tasks.spawn(_record(context, entry), "record a direct call")
    if waits:
        raise PlanWaitsError(
            f"{operation} needs the approval of somebody else (auth.approval): make a plan for it with danube-admin"
        )


def _named(call: Call, context: ServiceContext, request: bytes) -> Arguments:
    """Topics or namespaces that the request names; nothing else of it, which may be secret."""
    try:
        targets = () if call.targets is None else call.targets(context, request)
    except DanubeError:
        return {}
    return {"resources": [str(target) for target in targets]} if targets else {}


async def _record(context: ServiceContext, entry: AuditEntry) -> None:
    try:
        await context.control.audit.record(entry)
    except DanubeError as error:
        _log.error("a direct call of %s is not in the audit log: %s", entry.operation, error)
