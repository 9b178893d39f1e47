"""The second part of the demo: a person and an assistant look after the broker that the first half filled."""

import asyncio
import contextlib
import json
import os
import pty
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters

from danube.testing.processes.broker import BrokerProcess
from scripts.demo_programs import STEP_S_MAX, DemoFailedError, Programs
from scripts.demo_security import ASSISTANT, DemoSecurity

_BIN = Path(sys.executable).parent
_ADMIN = _BIN / "danube-admin"
_SCRATCH = "/default/scratch"
PICTURES = Path("build") / "demo"
"""In the checkout, where they outlive the demo's own folder."""
_READ_BYTES = 4_096


class AdminStory:
    """Steps 7 to 10, each told and checked."""

    def __init__(self, programs: Programs, broker: BrokerProcess, security: DemoSecurity) -> None:
        self._programs = programs
        self._broker = broker
        self._security = security

    async def tell(self) -> None:
        """Every step in order. Raises DemoFailedError where something is not as promised."""
        await self._look_around()
        await self._let_an_assistant_work()
        await self._draw()

    async def _look_around(self) -> None:
        _tell("7/14 danube-admin looks around")
        topics = await self._ask("topics", "list", "--namespace", "default")
        for topic in topics:
            _tell(f"    {topic['name']}  {topic['delivery']}")
        described = await self._ask("topics", "describe", "/default/airports")
        for state in described["subscription_states"]:
            _tell(f"    {described['topic']} {state['name']:<6} lag {state['lag_messages']:,}")
        await self._ask("topics", "create", _SCRATCH)
        where = ["--service-addr", self._broker.endpoints.service_url, "--topic", _SCRATCH]
        await self._programs.run("produce", _BIN / "danube", "produce", *where, "-m", "note", "--count", "5", "-q")
        _tell(f"    made {_SCRATCH} with 5 messages, for somebody to tidy up")

    async def _let_an_assistant_work(self) -> None:
        if self._security.is_on:
            await self._bind_the_assistant()
        _tell("8/14 An assistant (the MCP SDK's client, over stdio) works through danube-admin mcp")
        async with self._assistant() as assistant:
            topics = await _tool(assistant, "list_topics", namespace="default")
            _tell(f"    list_topics: {', '.join(row['name'] for row in topics['topics'])}")
            lag = await _tool(assistant, "analyze_consumer_lag", topic="/default/airports")
            _tell(f"    analyze_consumer_lag (answered by {lag['answered_by']}): {lag['total']} groups")
            await self._delete_with_consent(assistant)

    async def _bind_the_assistant(self) -> None:
        who = ["--principal-type", "user", "--principal-name", ASSISTANT]
        await self._ask("security", "bindings", "create", ASSISTANT, *who, "--roles", "operator", "--scope", "cluster")
        _tell("    The assistant has the role operator, and a token of the scope operator, which cannot approve")

    async def _delete_with_consent(self, assistant: Client) -> None:
        planned = await _tool(assistant, "delete_topic", topic=_SCRATCH)
        plan = planned["plan"]
        _tell(
            f"    delete_topic {_SCRATCH}: {planned['status']}; {plan['plan_id']} touches {plan['messages']} messages"
        )
        refused = await assistant.call_tool("delete_topic", {"topic": _SCRATCH, "plan_id": plan["plan_id"]})
        if not refused.is_error:
            raise DemoFailedError("a plan was applied that nobody had approved")
        _tell("9/14 Called again too early it is refused; a person approves in a terminal")
        await self._approve(plan["plan_id"])
        done = await _tool(assistant, "delete_topic", topic=_SCRATCH, plan_id=plan["plan_id"])
        names = [topic["name"] for topic in await self._ask("topics", "list", "--namespace", "default")]
        if done["status"] != "applied" or _SCRATCH in names:
            raise DemoFailedError(f"{_SCRATCH} is still there after an approved plan was applied")
        trail = await self._ask("audit", "--verify-all")
        if not trail["is_intact"]:
            raise DemoFailedError(f"the audit log is broken: {trail['reason']}")
        _tell(f"    delete_topic with the plan: {done['status']}; audit log: {trail['checked']} records, chain intact")

    async def _approve(self, plan_id: str) -> None:
        """On a pseudo-terminal, as `plans approve` wants one: type what it asks for."""
        ours, theirs = pty.openpty()
        process = await self._programs.start_on_terminal(theirs, _ADMIN, *self._where("plans", "approve", plan_id))
        os.close(theirs)
        os.write(ours, f"{plan_id}\n".encode())
        async with asyncio.timeout(STEP_S_MAX):
            shown, code = await asyncio.to_thread(_read_all, ours), await process.wait()
        os.close(ours)
        if code != 0:
            raise DemoFailedError(f"plans approve ended with {code}:\n{shown}")
        _tell(f"    $ danube-admin plans approve {plan_id}   (typed on a terminal)")

    async def _draw(self) -> None:
        PICTURES.mkdir(parents=True, exist_ok=True)
        picture = PICTURES / "danube-admin-tui.svg"
        await self._programs.run("tui", _ADMIN, *self._where("tui", "--screenshot", str(picture)))
        if "<svg" not in picture.read_text():
            raise DemoFailedError(f"{picture} is no picture")
        _tell(f"10/14 The TUI, drawn once: {picture}")

    @contextlib.asynccontextmanager
    async def _assistant(self) -> AsyncIterator[Client]:
        server = StdioServerParameters(command=str(_ADMIN), args=self._where("mcp"), env=self._of_the_assistant())
        async with asyncio.timeout(STEP_S_MAX), Client(server) as client:
            yield client

    def _of_the_assistant(self) -> dict[str, str]:
        return {"PATH": os.environ["PATH"], **self._security.assistant}

    async def _ask(self, *arguments: str) -> Any:  # noqa: ANN401 - any JSON
        output = await self._programs.run("danube-admin", _ADMIN, *self._where(*arguments), "-o", "json")
        return json.loads(output)

    def _where(self, *arguments: str) -> list[str]:
        return [*arguments, "--endpoint", self._broker.endpoints.admin_url]


async def _tool(assistant: Client, name: str, **arguments: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
    answer = await assistant.call_tool(name, arguments)
    if answer.is_error or answer.structured_content is None:
        raise DemoFailedError(f"the tool {name} failed: {answer.content}")
    return dict(answer.structured_content)


def _read_all(terminal: int) -> str:
    """Read a program's terminal until it closes it."""
    said = b""
    with contextlib.suppress(OSError):  # Linux's way to say that the other end is closed
        while part := os.read(terminal, _READ_BYTES):
            said += part
    return said.decode(errors="replace")


def _tell(line: str) -> None:
    print(line, flush=True)
