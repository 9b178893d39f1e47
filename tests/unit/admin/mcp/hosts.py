"""Assistants' programs to test with: the SDK's client, in both eras of the protocol."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mcp import Client
from mcp.server.lowlevel import Server
from mcp_types import CallToolResult, ElicitRequestParams, ElicitResult, Implementation

from danube.admin.access import AccessLevel, ApprovalMode, Guard
from danube.admin.mcp.server import build_server
from danube.admin.mcp.tool_catalogue import DEFAULT_TOOLSETS, ToolCatalogue
from danube.admin.mcp.transport.http import HttpOptions, HttpServer
from danube.admin.mcp.transport.tokens import BearerToken
from tests.faces.memory_gateway import MemoryGateway

ERAS = ("2026-07-28", "legacy")
HOST = Implementation(name="test-host", version="7")


class Person:
    """Who is asked by the host, and what they were asked."""

    def __init__(self, action: str, **content: Any) -> None:
        self.questions: list[str] = []
        self._answer = ElicitResult.model_validate({"action": action, "content": content or None})

    async def __call__(self, context: Any, params: ElicitRequestParams) -> ElicitResult:
        self.questions.append(params.message)
        return self._answer


@asynccontextmanager
async def host(
    gateway: MemoryGateway,
    era: str = ERAS[0],
    *,
    access: AccessLevel = AccessLevel.DESTROY,
    approval: ApprovalMode = ApprovalMode.DESTROY,
    toolsets: tuple[str, ...] = DEFAULT_TOOLSETS,
    person: Person | None = None,
) -> AsyncIterator[Client]:
    """A host that is connected to a server in this process."""
    catalogue = ToolCatalogue(guard=Guard(access, approval), toolsets=toolsets)
    server = build_server(gateway, gateway.clock, catalogue, who="ann@desk")
    async with Client(server, mode=era, elicitation_callback=person, client_info=HOST) as client:
        yield client


@asynccontextmanager
async def listening(server: Server[Any], secret: str) -> AsyncIterator[str]:
    """The address of a server that listens in this process, for who has the secret."""
    http = HttpServer(server, HttpOptions(port=0), BearerToken(secret, "a test"))
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(http.serve())
        try:
            yield http.address
        finally:
            task.cancel()
            for each in asyncio.all_tasks():  # of the SDK's event streams, which end with their process
                if getattr(each.get_coro(), "__name__", "") == "_shutdown_watcher":
                    each.cancel()


def text_of(answer: CallToolResult) -> str:
    """The text beside the structure."""
    return "".join(getattr(part, "text", "") for part in answer.content)


def size_of(answer: CallToolResult) -> int:
    """Bytes of an answer on its way."""
    return len(answer.model_dump_json(by_alias=True, exclude_none=True).encode())
