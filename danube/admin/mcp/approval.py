"""Asking the person before the assistant, where their program can: a plan is approved there and then, or it waits on.

In the protocol's older era the question is a request to the host in the middle of the call. In the newer one the call
ends with the question, and the host calls again with the answer and our state, which is sealed on its way.
Declined, cancelled, not answered and not able to be asked are one: the plan keeps waiting and nothing happens.
"""

import asyncio
from dataclasses import dataclass
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CallToolRequestParams,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from danube.admin.operations.plan_views import PlanView
from danube.admin.present import plan_view_of
from danube.model.limits.faces import MCP_ASK_TIMEOUT_S

Context = ServerRequestContext[Any, Any]

_QUESTION = "approval"
_FIELD = "approve"
_TEXT_CHARS_MAX = 4_000
_NOT_ASKED = frozenset({"Status", "Operation"})
"""Facts that say again what the question says."""
_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        _FIELD: {
            "type": "boolean",
            "title": "Approve this plan",
            "description": "Yes: it is carried out now. No: nothing happens, and the plan keeps waiting.",
            "default": False,
        }
    },
    "required": [_FIELD],
}


@dataclass(frozen=True, slots=True)
class Reply:
    """The reply to a question of the newer era."""

    plan_id: str
    is_approved: bool


def can_ask(context: Context) -> bool:
    """True if the host says that it can put a form before a person."""
    capabilities = context.session.client_capabilities
    elicitation = capabilities.elicitation if capabilities is not None else None
    return elicitation is not None and (elicitation.form is not None or elicitation.url is None)


def asks_by_result(context: Context) -> bool:
    """True if a question ends the call (the newer era) instead of interrupting it."""
    return context.protocol_version in MODERN_PROTOCOL_VERSIONS


def question_result(plan: PlanView) -> InputRequiredResult:
    """The question about a plan, as the end of a call."""
    request = ElicitRequest(params=ElicitRequestFormParams(message=question_text(plan), requested_schema=_SCHEMA))
    return InputRequiredResult(input_requests={_QUESTION: request}, request_state=plan.plan_id)


def reply_of(params: CallToolRequestParams) -> Reply | None:
    """The reply to such a question; None where this call is no reply. The state was unsealed: it is ours."""
    if params.request_state is None:
        return None
    answer = (params.input_responses or {}).get(_QUESTION)
    return Reply(params.request_state, isinstance(answer, ElicitResult) and _is_yes(answer))


async def ask(context: Context, plan: PlanView) -> bool:
    """Ask in the middle of the call whether the plan may be carried out; False for anything but a clear yes."""
    try:
        async with asyncio.timeout(MCP_ASK_TIMEOUT_S):
            answer = await context.session.elicit_form(question_text(plan), _SCHEMA, context.request_id)
    except (MCPError, ValidationError, TimeoutError):  # no way back to the host, a host that fails, or nobody there
        return False
    return _is_yes(answer)


def question_text(plan: PlanView) -> str:
    """The question that a person reads: the same words for the same plan."""
    view = plan_view_of(plan)
    facts = [f"{label}: {value}" for label, value in view.facts if label not in _NOT_ASKED]
    text = "\n".join([f"An assistant asks to carry out {plan.operation}. May it?", "", *view.notes, *facts])
    return text if len(text) <= _TEXT_CHARS_MAX else f"{text[:_TEXT_CHARS_MAX]}..."


def _is_yes(answer: ElicitResult) -> bool:
    # a host that confirms an empty form has asked nobody: the field itself must say yes
    return answer.action == "accept" and answer.content is not None and answer.content.get(_FIELD) is True
