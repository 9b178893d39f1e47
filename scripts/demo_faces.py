"""Faces of a broker for the demo: `danube-admin` as a person types it, and as an assistant's tools."""

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

from scripts.demo_programs import STEP_S_MAX, DemoFailedError, Programs

ADMIN = Path(sys.executable).parent / "danube-admin"
_READ_BYTES = 4_096


class Faces:
    """Ways to administer the broker at one endpoint."""

    def __init__(self, programs: Programs, endpoint: str) -> None:
        self._programs = programs
        self._endpoint = endpoint

    async def approve(self, plan_id: str) -> None:
        """On a pseudo-terminal, as `plans approve` wants one: type what it asks for."""
        ours, theirs = pty.openpty()
        process = await self._programs.start_on_terminal(theirs, ADMIN, *self.where("plans", "approve", plan_id))
        os.close(theirs)
        os.write(ours, f"{plan_id}\n".encode())
        async with asyncio.timeout(STEP_S_MAX):
            shown, code = await asyncio.to_thread(_read_all, ours), await process.wait()
        os.close(ours)
        if code != 0:
            raise DemoFailedError(f"plans approve ended with {code}:\n{shown}")
        tell(f"    $ danube-admin plans approve {plan_id}   (typed on a terminal)")

    @contextlib.asynccontextmanager
    async def assistant(self, *flags: str) -> AsyncIterator[Client]:
        """The MCP SDK's client with the tools of `danube-admin mcp`."""
        arguments = self.where("mcp", *flags)
        server = StdioServerParameters(command=str(ADMIN), args=arguments, env={"PATH": os.environ["PATH"]})
        async with asyncio.timeout(STEP_S_MAX), Client(server) as client:
            yield client

    async def ask(self, *arguments: str) -> Any:  # noqa: ANN401 - any JSON
        """The answer of `danube-admin`."""
        output = await self._programs.run("danube-admin", ADMIN, *self.where(*arguments), "-o", "json")
        return json.loads(output)

    def where(self, *arguments: str) -> list[str]:
        """Arguments for this broker."""
        return [*arguments, "--endpoint", self._endpoint]


async def tool(assistant: Client, name: str, **arguments: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
    """The structured answer of a tool. Raises DemoFailedError."""
    answer = await assistant.call_tool(name, arguments)
    if answer.is_error or answer.structured_content is None:
        raise DemoFailedError(f"the tool {name} failed: {answer.content}")
    return dict(answer.structured_content)


def tell(line: str) -> None:
    """Say a line of the story."""
    print(line, flush=True)


def _read_all(terminal: int) -> str:
    """Read a program's terminal until it closes it."""
    said = b""
    with contextlib.suppress(OSError):  # Linux's way to say that the other end is closed
        while part := os.read(terminal, _READ_BYTES):
            said += part
    return said.decode(errors="replace")
