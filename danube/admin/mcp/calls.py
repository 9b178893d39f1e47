"""One tool call: from the host's arguments to its answer, always through `danube.admin.execution`."""

import asyncio
import logging
from dataclasses import dataclass, replace
from typing import Any, TypeGuard

from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, CallToolRequestParams, CallToolResult, InputRequiredResult

from danube.admin.execution import Session, decide, execute, parse_arguments
from danube.admin.gateway import AdminGateway
from danube.admin.mcp.answers import answer_of, error_answer
from danube.admin.mcp.approval import Reply, ask, asks_by_result, can_ask, question_result, reply_of
from danube.admin.mcp.audit_writer import AuditWriter
from danube.admin.mcp.failures import PLAN_ID, check_arguments, error_text
from danube.admin.mcp.progress import Progress
from danube.admin.mcp.tool_catalogue import ToolCatalogue, UnknownToolError
from danube.admin.mcp.untrusted_text import untrusted_error
from danube.admin.operations.fields import PageParams, Params, Result
from danube.admin.operations.operation import AnyOperation
from danube.admin.operations.plan_views import PlannedResult, planned_result
from danube.admin.present import printable
from danube.model.errors import DanubeError, DeadlineExceededError, InvalidRequestError
from danube.model.limits.broker import CALLER_CHARS_MAX
from danube.model.limits.faces import (
    MCP_CALL_TIMEOUT_S,
    MCP_CALLS_MAX,
    MCP_FOLLOW_S,
    MCP_ROWS_DEFAULT,
)
from danube.model.plans.plan import Caller, Face, PlanStatus
from danube.runtime.clock import Clock

_log = logging.getLogger(__name__)

Context = ServerRequestContext[Any, Any]
Answer = CallToolResult | InputRequiredResult

_UNANSWERED = "A person was asked and did not approve: declined, closed, or not there."


@dataclass(frozen=True, slots=True)
class _Asked:
    """A call that was understood."""

    operation: AnyOperation
    params: Params
    plan_id: str | None


class ToolCalls:
    """Carries out the tool calls of all hosts of one server."""

    def __init__(self, gateway: AdminGateway, clock: Clock, catalogue: ToolCatalogue, who: str) -> None:
        self._gateway = gateway
        self._clock = clock
        self._catalogue = catalogue
        self._who = who
        self._running = 0
        self._audit_writer = AuditWriter(clock)

    async def call(self, context: Context, params: CallToolRequestParams) -> Answer:
        """The answer to one call; what goes wrong is an answer too. Raises MCPError for a tool that does not exist."""
        if self._running >= MCP_CALLS_MAX:
            return error_answer(f"{MCP_CALLS_MAX} calls are running already: wait until some of them have ended")
        self._running += 1
        try:
            operation = self._catalogue.find(params.name)
            return await self._called(context, operation, params)
        except UnknownToolError as error:
            raise MCPError(INVALID_PARAMS, untrusted_error(error)) from None
        except DanubeError as error:
            return error_answer(untrusted_error(error))
        finally:
            self._running -= 1

    async def run(self, context: Context, operation: AnyOperation, arguments: dict[str, Any]) -> Result:
        """The result of an operation that only reads, for a resource. Raises DanubeError."""
        return await self._execute(
            self.session(context), _Asked(operation, parse_arguments(operation, arguments), None)
        )

    def session(self, context: Context) -> Session:
        return Session(
            gateway=self._gateway,
            caller=Caller(who=self._caller_of(context), face=Face.MCP, client=_client_of(context)),
            clock=self._clock,
            guard=self._catalogue.guard,
            report=Progress(context.session.report_progress, self._clock).report,
            follow_s=MCP_FOLLOW_S,
            background=self._audit_writer.do,
        )

    async def drain(self) -> None:
        """Nobody calls any more: wait for the records that are on their way."""
        await self._audit_writer.drain()

    async def _called(self, context: Context, operation: AnyOperation, params: CallToolRequestParams) -> Answer:
        try:
            asked = _understood(operation, dict(params.arguments or {}))
            if reply := reply_of(params):
                return await self._replied(context, asked, reply)
            result = await self._execute(self.session(context), asked)
            if _waits(result) and can_ask(context):
                return await self._ask(context, asked, result)
            return answer_of(operation, result, self._catalogue)
        except DanubeError as error:
            return error_answer(error_text(operation, error, self._catalogue))
        except Exception:
            _log.exception("%s failed", operation.name)
            return error_answer(
                f"{operation.name} failed by a fault of danube-admin itself: its log on stderr says more"
            )

    async def _ask(self, context: Context, asked: _Asked, result: PlannedResult) -> Answer:
        if asks_by_result(context):
            return question_result(result.plan)
        return await self._answered(context, asked, result, is_approved=await ask(context, result.plan))

    async def _replied(self, context: Context, asked: _Asked, reply: Reply) -> Answer:
        plan = await self._gateway.plan(reply.plan_id)
        result = planned_result(plan, self._clock.now_ms())
        return await self._answered(context, asked, result, is_approved=reply.is_approved)

    async def _answered(self, context: Context, asked: _Asked, result: PlannedResult, *, is_approved: bool) -> Answer:
        if is_approved:
            return await self._approved(context, asked, result.plan.plan_id)
        unanswered = result.model_copy(update={"next_step": f"{_UNANSWERED} {result.next_step}"})
        return answer_of(asked.operation, unanswered, self._catalogue)

    async def _approved(self, context: Context, asked: _Asked, plan_id: str) -> Answer:
        """Write down that the person approved, then do it as the assistant."""
        session = self.session(context)
        session.guard.check(asked.operation.name, asked.operation.level)
        person = replace(session, caller=replace(session.caller, face=Face.MCP_HOST))
        await decide(person, asked.operation, asked.params, plan_id, approve=True)
        done = await self._execute(session, replace(asked, plan_id=plan_id))
        return answer_of(asked.operation, done, self._catalogue)

    async def _execute(self, session: Session, asked: _Asked) -> Result:
        try:
            async with asyncio.timeout(MCP_CALL_TIMEOUT_S):
                return await execute(session, asked.operation, asked.params, plan_id=asked.plan_id)
        except TimeoutError:
            raise DeadlineExceededError(
                f"{asked.operation.name} took longer than {MCP_CALL_TIMEOUT_S:.0f} seconds"
            ) from None

    def _caller_of(self, context: Context) -> str:
        """The user of this process on standard input; over HTTP, whoever has the token, and from where."""
        request = context.request
        if request is None:
            return self._who
        peer = getattr(request, "client", None)
        return f"bearer@{peer.host}" if peer is not None else "bearer"


def _understood(operation: AnyOperation, arguments: dict[str, Any]) -> _Asked:
    """The call, with an assistant's default for the rows of a page. Raises InvalidRequestError."""
    check_arguments(operation, arguments)
    plan_id = arguments.pop(PLAN_ID, None)
    if plan_id is not None and not (isinstance(plan_id, str) and plan_id):
        raise InvalidRequestError(f"{operation.name}: plan_id is the text that a call without one answered")
    params = parse_arguments(operation, arguments)
    if isinstance(params, PageParams) and params.limit is None:
        params = params.model_copy(update={"limit": MCP_ROWS_DEFAULT})
    return _Asked(operation, params, plan_id)


def _waits(result: Result) -> TypeGuard[PlannedResult]:
    return isinstance(result, PlannedResult) and result.status is PlanStatus.WAITING


def _client_of(context: Context) -> str:
    """The host's program and version, as it calls itself."""
    known = context.session.client_params
    if known is None:
        return ""
    return printable(f"{known.client_info.name} {known.client_info.version}".strip())[:CALLER_CHARS_MAX]
