"""Errors as an assistant reads them: the sentence, and the next call to make. Pure."""

from collections.abc import Sequence
from typing import Any

from danube.admin.mcp.tool_catalogue import ToolCatalogue, nearest_of
from danube.admin.mcp.untrusted_text import untrusted_error
from danube.admin.operations.fields import Completes, Params
from danube.admin.operations.operation import AnyOperation
from danube.model import errors
from danube.model.errors import DanubeError, InvalidRequestError
from danube.model.plans.plan import canonical

PLAN_ID = "plan_id"

_LIST_OF = {
    "broker": "list_brokers",
    "namespace": "list_namespaces",
    "topic": "list_topics",
    "subscription": "describe_topic",
}
"""Which tool lists what a parameter names."""
_MISSING: dict[type[DanubeError], str] = {
    errors.NamespaceNotFoundError: "namespace",
    errors.TopicNotFoundError: "topic",
    errors.SubscriptionNotFoundError: "subscription",
}
_ADVICE: tuple[tuple[type[DanubeError], str], ...] = (
    (errors.PlanNotFoundError, "Call {name} without plan_id to get a new plan."),
    (
        errors.PlanWaitsError,
        "Tell the person what the plan does and that it waits for them; call {name} with the same plan_id afterwards.",
    ),
    (errors.AccessLevelError, "Nothing was changed. Tell the person; do not try another way."),
    (errors.PlanRefusedError, "Nothing was changed."),
    (
        errors.DeadlineExceededError,
        "It may have been carried out or not: look at the state of the cluster before you call again.",
    ),
    (
        errors.UnavailableError,
        "Whoever runs the cluster can check that the broker is up and the endpoint right; then call again.",
    ),
    (errors.UnauthenticatedError, "The token or certificate of this server is wrong: a person has to set another."),
)


def error_text(operation: AnyOperation, error: DanubeError, catalogue: ToolCatalogue) -> str:
    """The error's sentence, in which names stand, as data; and what to do next, in our words."""
    said = (untrusted_error(error), _next(operation, error, catalogue).strip())
    return catalogue.told("\n".join(filter(None, said)))


def check_arguments(operation: AnyOperation, arguments: dict[str, Any]) -> None:
    """Raise InvalidRequestError for arguments that the tool does not have, with the nearest one that it has."""
    known = [*operation.params.model_fields, *([PLAN_ID] if operation.is_planned else [])]
    unknown = [name for name in arguments if name not in known]
    if unknown:
        problems = "; ".join(f"there is no argument {name[:60]!r}{nearest_of(name, known)}" for name in unknown[:5])
        raise InvalidRequestError(f"{operation.name} takes {', '.join(known) or 'no arguments'}; {problems}")


def _next(operation: AnyOperation, error: DanubeError, catalogue: ToolCatalogue) -> str:
    if isinstance(error, InvalidRequestError):
        return f" A call that works: {canonical(operation.examples[0].arguments)}"
    for kind, advice in _ADVICE:
        if isinstance(error, kind):
            return f" {advice.format(name=operation.name)}"
    if isinstance(error, errors.NotFoundError):
        tools = _listing_tools(operation.params, error, catalogue)
        return f" Next: call {' or '.join(tools)}." if tools else ""
    return " The same call may work later." if error.retryable else ""


def _listing_tools(params: type[Params], error: DanubeError, catalogue: ToolCatalogue) -> Sequence[str]:
    """The tools that list what was not found: known by the error, else by what the parameters name."""
    kinds = [kind for missing, kind in _MISSING.items() if isinstance(error, missing)] or [
        mark.kind for info in params.model_fields.values() for mark in info.metadata if isinstance(mark, Completes)
    ]
    return [_LIST_OF[kind] for kind in dict.fromkeys(kinds) if _LIST_OF.get(kind) in catalogue.names]
