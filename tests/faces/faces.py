"""Each face as its users reach it, opened once for all calls to a place: a call answers what the face said, as JSON.

The assistant's server on pipes is a process, and so is the command where somebody types at a terminal. All else is in
this process.
"""

import asyncio
import json
import os
import pty
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from textual.pilot import Pilot
from typer.testing import CliRunner

from danube.admin.__main__ import app as command_line
from danube.admin.__main__ import connect
from danube.admin.access import AccessLevel, Guard
from danube.admin.cli.parameters import fields_of
from danube.admin.grpc_gateway import open_gateway
from danube.admin.mcp.server import build_server
from danube.admin.mcp.tool_catalogue import ALL_TOOLSETS, ToolCatalogue
from danube.admin.operations import operation_of
from danube.admin.operations.operation import AnyOperation
from danube.admin.target import PROGRAM
from danube.admin.tui.app import AdminApp
from danube.admin.web.pages.catalog import api_method, api_path, page_path
from danube.admin.web.protection.exposure import Exposure, WebToken
from danube.admin.web.serving import serving
from danube.model.exit_codes import ExitCode
from danube.model.plans.plan import Caller, Face, PlanStatus
from danube.runtime.clock import SystemClock
from danube.testing.patience import PATIENCE_S
from tests.faces.pilot import run_operation
from tests.faces.places import Place
from tests.unit.admin.mcp.hosts import listening

ADMIN = Path(sys.executable).with_name("danube-admin")
STEP_S_MAX = PATIENCE_S
SESSION_S_MAX = 2 * STEP_S_MAX  # of an assistant, who plans, waits for a yes and applies
TOKEN = "a-token-of-the-test-suite-0123456789"
CallFace = Callable[[AnyOperation, dict[str, Any], str | None], Awaitable[Any]]
"""(operation, arguments, plan_id) -> the answer."""
OpenFace = Callable[[Place], AbstractAsyncContextManager[CallFace]]


@asynccontextmanager
async def by_cli(place: Place) -> AsyncIterator[CallFace]:
    """The command; a person's consent is typed on a terminal."""
    yield partial(call_command, place)


async def call_command(place: Place, operation: AnyOperation, arguments: dict[str, Any], plan_id: str | None) -> Any:
    """One command."""
    words = [*operation.words, *typed(operation, arguments), *place.flags, "-o", "json"]
    if operation.needs_person:
        return json.loads(await on_terminal(words, arguments["plan_id"]))
    if plan_id is not None:
        words += ["--plan-id", plan_id]
    code, out, err = await run(words)
    answer = json.loads(out or "null")
    waits = operation.is_planned and plan_id is None and answer["status"] != PlanStatus.SHOWN  # nobody could be asked
    assert code == (ExitCode.NEEDS_YES if waits else ExitCode.OK), (code, out, err)
    return answer


def typed(operation: AnyOperation, arguments: dict[str, Any]) -> list[str]:
    """Arguments as a person types them."""
    words = [str(arguments[name]) for name in operation.positional if name in arguments]
    fields = fields_of(operation)
    for name, value in arguments.items():
        if name not in operation.positional:
            given = value if isinstance(value, list) else [value]
            if isinstance(value, bool):
                words.append(fields[name].option if value else f"--{fields[name].opposite}")
            else:
                words += [word for each in given for word in (fields[name].option, str(each))]
    return words


async def run(words: list[str]) -> tuple[int, str, str]:
    """`danube-admin` with these words: exit code, output, errors."""

    def invoke() -> tuple[int, str, str]:
        ended = CliRunner().invoke(command_line(connect), words, prog_name=PROGRAM)
        return ended.exit_code, ended.stdout, ended.stderr

    return await asyncio.to_thread(invoke)


async def on_terminal(words: list[str], answer: str) -> str:
    """`danube-admin` on a terminal where somebody types `answer`; what it said between the question and its end."""
    ours, theirs = pty.openpty()
    process = await asyncio.create_subprocess_exec(
        ADMIN, *words, stdin=theirs, stdout=theirs, stderr=asyncio.subprocess.DEVNULL, start_new_session=True
    )
    os.close(theirs)
    os.write(ours, f"{answer}\n".encode())
    said = asyncio.create_task(asyncio.to_thread(read_all, ours))
    async with asyncio.timeout(STEP_S_MAX):
        code, text = await process.wait(), await said
    os.close(ours)
    assert code == 0, text
    return text[text.rindex("\n{") : text.rindex("}") + 1]


def read_all(terminal: int) -> str:
    """Everything said on a terminal until its other end is closed."""
    said = b""
    try:
        while part := os.read(terminal, 4_096):
            said += part
    except OSError:  # how Linux says that the other end is closed
        pass
    return said.decode()


@asynccontextmanager
async def by_mcp_stdio(place: Place) -> AsyncIterator[CallFace]:
    """The tool, through the SDK's client, over the pipes of a process."""
    server = StdioServerParameters(
        command=str(ADMIN), args=["mcp", "--toolsets", ALL_TOOLSETS, *place.flags], env=dict(os.environ)
    )
    async with asyncio.timeout(SESSION_S_MAX), Client(server) as client:
        yield partial(call_tool, client)


@asynccontextmanager
async def by_mcp_http(place: Place) -> AsyncIterator[CallFace]:
    """The tool, through the SDK's client, over HTTP."""
    offer = ToolCatalogue(guard=place.target.guard, toolsets=(ALL_TOOLSETS,))
    server = build_server(place.gateway, SystemClock(), offer, who="host@test")
    async with asyncio.timeout(SESSION_S_MAX), listening(server, TOKEN) as url, http_client(url) as client:
        yield partial(call_tool, client)


@asynccontextmanager
async def mcp_over_http(place: Place, *flags: str) -> AsyncIterator[Client]:
    """A client of `danube-admin mcp --http`, a process on a port of its own."""
    process = await asyncio.create_subprocess_exec(
        ADMIN,
        *("mcp", "--toolsets", "all", "--http", "--port", "0", *place.flags, *flags),
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "DANUBE_MCP_TOKEN": TOKEN},
    )
    try:
        assert process.stderr is not None
        url = ""
        while "http://" not in url:
            line = (await process.stderr.readline()).decode()
            assert line, "the server ended"
            url = next((word.rstrip(".,") for word in line.split() if word.startswith("http://127")), "")
        async with http_client(url) as client:
            yield client
    finally:
        process.terminate()
        await process.communicate()


@asynccontextmanager
async def http_client(url: str) -> AsyncIterator[Client]:
    """The SDK's client, with the token."""
    http = httpx2.AsyncClient(headers={"Authorization": f"Bearer {TOKEN}"}, trust_env=False, timeout=PATIENCE_S)
    async with http, Client(streamable_http_client(url, http_client=http)) as client:
        yield client


def without_notice(answer: Any) -> Any:
    """The fields of an answer, as other faces have them: without the notice for assistants."""
    fields = answer.structured_content
    return fields and {name: value for name, value in fields.items() if name != "notice"}


async def call_tool(client: Client, operation: AnyOperation, arguments: dict[str, Any], plan_id: str | None) -> Any:
    """What a tool answers; the text beside it is checked not to be empty."""
    given = arguments if plan_id is None else {**arguments, "plan_id": plan_id}
    answer = await client.call_tool(operation.name, given)
    assert not answer.is_error, answer.content
    assert answer.content
    return without_notice(answer)


@asynccontextmanager
async def by_tui(place: Place) -> AsyncIterator[CallFace]:
    """The form, filled in and sent off on a screen that nobody sees; a plan is applied by typing what is asked for."""
    caller = Caller(who="person@test", face=Face.TUI)
    app = AdminApp(place.gateway, place.target, clock=SystemClock(), caller=caller)
    async with app.run_test() as pilot:
        yield partial(fill_in_form, pilot)


async def fill_in_form(
    pilot: Pilot[None], operation: AnyOperation, arguments: dict[str, Any], plan_id: str | None
) -> Any:
    """One form."""
    result = await run_operation(pilot, operation, arguments, apply=plan_id is not None)
    return result.model_dump(mode="json")


@asynccontextmanager
async def by_web(place: Place) -> AsyncIterator[CallFace]:
    """The HTTP API, with a token; a person's consent is given on the page."""
    async with web_client(place, AccessLevel.DESTROY) as client:
        yield partial(call_api, client)


async def call_api(
    client: httpx2.AsyncClient, operation: AnyOperation, arguments: dict[str, Any], plan_id: str | None
) -> Any:
    """One call that must succeed."""
    if operation.needs_person:
        return await consent_on_page(client, operation, arguments)
    reply = await ask_web(client, operation, arguments if plan_id is None else {**arguments, "plan_id": plan_id})
    assert reply.status_code == 200, reply.text
    return reply.json()


@asynccontextmanager
async def web_client(place: Place, level: AccessLevel) -> AsyncIterator[httpx2.AsyncClient]:
    """A browser before a server of its own, which knows one token."""
    exposure = Exposure(listen_addr="127.0.0.1:0", tokens=(WebToken("tester", TOKEN),))
    target = replace(place.target, guard=Guard(level))
    async with serving(open_gateway, target, exposure) as running:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with httpx2.AsyncClient(
            base_url=running.url, headers=headers, trust_env=False, timeout=PATIENCE_S
        ) as client:
            yield client


async def ask_web(client: httpx2.AsyncClient, operation: AnyOperation, given: dict[str, Any]) -> httpx2.Response:
    """One call of the HTTP API."""
    if api_method(operation) == "GET":
        query = {name: str(value).lower() if isinstance(value, bool) else value for name, value in given.items()}
        return await client.get(api_path(operation), params=query)
    return await client.post(api_path(operation), json=given)


async def consent_on_page(client: httpx2.AsyncClient, operation: AnyOperation, arguments: dict[str, Any]) -> Any:
    """Log in, open the operation's page, type the plan's id and send the form; the plan as the API tells it then."""
    del client.headers["Authorization"]
    origin = {"Origin": str(client.base_url).rstrip("/")}
    await client.post("/login", data={"token": TOKEN, "_csrf": await form_secret(client, "/login")}, headers=origin)
    secret = await form_secret(client, page_path(operation))
    form = {**arguments, "_csrf": secret, "_confirm": arguments["plan_id"]}
    sent = await client.post(page_path(operation), data=form, headers=origin, follow_redirects=True)
    assert sent.status_code == 200, sent.text
    listed = await client.get(api_path(operation_of("list_plans")))
    return next(plan for plan in listed.json()["plans"] if plan["plan_id"] == arguments["plan_id"])


async def form_secret(client: httpx2.AsyncClient, path: str) -> str:
    """What a page's forms carry, so that no other site can send them."""
    page = (await client.get(path)).text
    found = re.search(r'name="_csrf" value="([^"]+)"', page)
    assert found, page
    return found[1]


FACES: dict[str, OpenFace] = {
    "cli": by_cli,
    "tui": by_tui,
    "mcp_stdio": by_mcp_stdio,
    "mcp_http": by_mcp_http,
    "web": by_web,
}
