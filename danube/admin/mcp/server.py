"""The server itself: one registry behind the protocol's methods, for both of its eras."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mcp.server.caching import CacheHint
from mcp.server.lowlevel import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CallToolRequestParams,
    CompleteRequestParams,
    CompleteResult,
    Completion,
    GetPromptRequestParams,
    GetPromptResult,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    TextResourceContents,
)

from danube import __version__
from danube.admin.completion import names_of
from danube.admin.gateway import AdminGateway
from danube.admin.mcp.calls import Answer, Context, ToolCalls
from danube.admin.mcp.protocol.instructions import instructions_of
from danube.admin.mcp.protocol.prompts import prompt_of, prompts_of
from danube.admin.mcp.protocol.resources import JSON, RESOURCES, TEMPLATES, Resources
from danube.admin.mcp.tool_catalogue import ToolCatalogue
from danube.admin.mcp.tools import tools_of
from danube.admin.mcp.transport.tokens import passing_token
from danube.admin.mcp.untrusted_text import untrusted_error
from danube.admin.present import printable
from danube.model.errors import DanubeError, InvalidRequestError, NotFoundError
from danube.model.limits.faces import (
    MCP_ASK_TIMEOUT_S,
    MCP_COMPLETION_TIMEOUT_S,
    MCP_COMPLETIONS_MAX,
    MCP_LIST_CACHE_MS,
)
from danube.runtime.clock import Clock

DEFAULT_NAME = "danube"
_KINDS = {"namespace": "namespace", "topic": "topic", "name": "topic", "subscription": "subscription"}
"""What arguments of prompts and resources name."""


def build_server(
    gateway: AdminGateway, clock: Clock, catalogue: ToolCatalogue, *, who: str, name: str = DEFAULT_NAME
) -> Server[Any]:
    """A server for these tools; whoever runs it chooses the transport."""
    calls = ToolCalls(gateway, clock, catalogue, who)
    methods = _Methods(gateway, calls, catalogue)

    @asynccontextmanager
    async def lifespan(_server: Server[Any]) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await calls.drain()

    server: Server[Any] = Server(
        name,
        lifespan=lifespan,
        title="Danube",
        version=__version__,
        description="Administers a Danube messaging cluster.",
        instructions=instructions_of(catalogue),
        cache_hints={"tools/list": CacheHint(ttl_ms=MCP_LIST_CACHE_MS)},
        get_tool_input_schema=methods.input_schema,
        on_list_tools=methods.list_tools,
        on_call_tool=methods.call_tool,
        on_list_prompts=methods.list_prompts,
        on_get_prompt=methods.get_prompt,
        on_list_resources=methods.list_resources,
        on_list_resource_templates=methods.list_templates,
        on_read_resource=methods.read_resource,
        on_completion=methods.complete,
    )
    # seals what comes back with an approval: nobody can approve another plan than the one that was shown
    security = RequestStateSecurity.ephemeral(ttl=MCP_ASK_TIMEOUT_S)
    server.middleware.append(RequestStateBoundary(security, default_audience=name))
    return server


class _Methods:
    """The protocol's methods."""

    def __init__(self, gateway: AdminGateway, calls: ToolCalls, catalogue: ToolCatalogue) -> None:
        self._gateway = gateway
        self._calls = calls
        self._catalogue = catalogue
        self._tools = tools_of(catalogue)
        self._schemas = {tool.name: tool.input_schema for tool in self._tools}
        self._resources = Resources(calls, catalogue)

    def input_schema(self, name: str) -> dict[str, Any] | None:
        return self._schemas.get(name)

    async def list_tools(self, _context: Context, _params: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=list(self._tools))

    async def call_tool(self, context: Context, params: CallToolRequestParams) -> Answer:
        with passing_token(context):
            return await self._calls.call(context, params)

    async def list_prompts(self, _context: Context, _params: PaginatedRequestParams | None) -> ListPromptsResult:
        return ListPromptsResult(prompts=prompts_of(self._catalogue))

    async def get_prompt(self, _context: Context, params: GetPromptRequestParams) -> GetPromptResult:
        try:
            return prompt_of(self._catalogue, params.name, params.arguments or {})
        except DanubeError as error:
            raise _protocol_error(error) from None

    async def list_resources(self, _context: Context, _params: PaginatedRequestParams | None) -> ListResourcesResult:
        return ListResourcesResult(resources=list(RESOURCES))

    async def list_templates(
        self, _context: Context, _params: PaginatedRequestParams | None
    ) -> ListResourceTemplatesResult:
        return ListResourceTemplatesResult(resource_templates=list(TEMPLATES))

    async def read_resource(self, context: Context, params: ReadResourceRequestParams) -> ReadResourceResult:
        uri = str(params.uri)
        try:
            with passing_token(context):
                text = await self._resources.read(context, uri)
        except DanubeError as error:
            raise _protocol_error(error) from None
        return ReadResourceResult(contents=[TextResourceContents(uri=uri, mime_type=JSON, text=text)])

    async def complete(self, context: Context, params: CompleteRequestParams) -> CompleteResult:
        with passing_token(context):
            return CompleteResult(completion=await _complete(self._gateway, params))


def _protocol_error(error: DanubeError) -> MCPError:
    is_wrong = isinstance(error, (InvalidRequestError, NotFoundError))
    return MCPError(INVALID_PARAMS if is_wrong else INTERNAL_ERROR, untrusted_error(error))


async def _complete(gateway: AdminGateway, params: CompleteRequestParams) -> Completion:
    """The names that begin with what was typed, then those that contain it; none where nobody can be asked.

    It reads names alone and is not written to the audit log: it is called at every key.
    """
    given = (params.context.arguments if params.context else None) or {}
    try:
        async with asyncio.timeout(MCP_COMPLETION_TIMEOUT_S):
            names = await names_of(gateway, _KINDS.get(params.argument.name, ""), topic=given.get("topic"))
    except (DanubeError, TimeoutError):
        names = ()
    typed = params.argument.value.casefold()
    found = sorted(
        (name for name in names if typed in name.casefold() and printable(name) == name),
        key=lambda name: (not name.casefold().lstrip("/").startswith(typed.lstrip("/")), name),
    )
    shown = found[:MCP_COMPLETIONS_MAX]
    return Completion(values=shown, total=len(found), has_more=len(found) > len(shown))
