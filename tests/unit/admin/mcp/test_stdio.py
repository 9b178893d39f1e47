"""The server on standard input and output: its transport in this process, and the command as a process of its own."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCNotification, JSONRPCResponse

from danube.admin.mcp.transport.stdio import MessageReader, MessageWriter, OpenRequests
from danube.model.limits.faces import MCP_MESSAGE_BYTES_MAX
from danube.testing.patience import PATIENCE_S
from tests.unit.admin.mcp.hosts import ERAS, text_of

ROOT = Path(__file__).parents[4]
PROGRAM = str(Path(__file__).with_name("program.py"))
WAIT_S = PATIENCE_S
AT_ONCE_S = 2.0
"""Or for as long as the start took, on a machine that does other work."""
TRIES = 3
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}},
}
READY = {"jsonrpc": "2.0", "method": "notifications/initialized"}
CALL = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "list_namespaces", "arguments": {}}}


class Pipe:
    """A reader on one end of a pipe."""

    def __init__(self) -> None:
        source, self.end = os.pipe()
        os.set_blocking(source, False)
        self.source = source
        self.reader = MessageReader(source, OpenRequests())


@pytest.fixture
async def pipe() -> AsyncIterator[Pipe]:
    made = Pipe()
    yield made
    os.close(made.source)


def written(*messages: Any) -> bytes:
    return b"".join(json.dumps(each).encode() + b"\n" for each in messages)


async def test_messages_are_read_whole_however_they_arrive(pipe: Pipe) -> None:
    data = written(READY, READY)
    async with asyncio.timeout(WAIT_S), asyncio.TaskGroup() as tasks:
        first = tasks.create_task(pipe.reader.receive())
        for byte in data:
            os.write(pipe.end, bytes([byte]))
        items = [await first, await pipe.reader.receive()]
    os.close(pipe.end)
    assert [isinstance(item, SessionMessage) for item in items] == [True, True]


async def test_what_is_no_message_is_an_error_and_the_next_one_is_read(pipe: Pipe) -> None:
    os.write(pipe.end, b"no json\n" + written(READY))
    async with asyncio.timeout(WAIT_S):
        items = [await pipe.reader.receive(), await pipe.reader.receive()]
    os.close(pipe.end)
    assert isinstance(items[0], ValueError)
    assert isinstance(items[1], SessionMessage)


async def test_a_line_that_is_too_long_is_thrown_away_and_the_next_one_is_read(pipe: Pipe) -> None:
    async def write() -> None:
        os.set_blocking(pipe.end, False)
        rest = memoryview(b"x" * (MCP_MESSAGE_BYTES_MAX + 100_000) + b"\n" + written(READY))
        while rest:
            try:
                rest = rest[os.write(pipe.end, rest) :]
            except BlockingIOError:
                await anyio.wait_writable(pipe.end)

    async with asyncio.timeout(WAIT_S), asyncio.TaskGroup() as tasks:
        tasks.create_task(write())
        items = [await pipe.reader.receive(), await pipe.reader.receive()]
    os.close(pipe.end)
    assert isinstance(items[0], ValueError)
    assert isinstance(items[1], SessionMessage)


async def test_the_end_of_the_input_ends_the_messages(pipe: Pipe) -> None:
    os.close(pipe.end)
    async with asyncio.timeout(WAIT_S):
        assert [item async for item in pipe.reader] == []


async def test_the_end_of_the_input_waits_for_the_answers_that_are_due() -> None:
    source, end = os.pipe()
    os.set_blocking(source, False)
    requests = OpenRequests()
    reader = MessageReader(source, requests)
    os.write(end, written(CALL))
    os.close(end)
    async with asyncio.timeout(WAIT_S), asyncio.TaskGroup() as tasks:
        await reader.receive()
        rest = tasks.create_task(_all(reader))
        for _ in range(20):
            await asyncio.sleep(0)
        was_done = rest.done()
        requests.written(JSONRPCResponse(jsonrpc="2.0", id=2, result={}))
        assert await rest == []
    os.close(source)
    assert not was_done


async def _all(reader: MessageReader) -> list[object]:
    return [item async for item in reader]


async def test_a_host_that_reads_slowly_gets_everything_and_one_that_left_is_told_of() -> None:
    source, end = os.pipe()
    os.set_blocking(end, False)
    writer = MessageWriter(end, OpenRequests())
    message = SessionMessage(JSONRPCNotification(jsonrpc="2.0", method="x", params={"text": "y" * 500_000}))
    async with asyncio.timeout(WAIT_S), asyncio.TaskGroup() as tasks:
        for _ in range(2):
            tasks.create_task(writer.send(message))
        os.set_blocking(source, False)
        data = b""
        while data.count(b"\n") < 2:
            await anyio.wait_readable(source)
            data += os.read(source, 65_536)
    assert [len(json.loads(line)["params"]["text"]) for line in data.splitlines()] == [500_000] * 2
    os.close(source)
    with pytest.raises(anyio.BrokenResourceError):
        await writer.send(message)
    os.close(end)


# As a process


@asynccontextmanager
async def process(*arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    started = await asyncio.create_subprocess_exec(
        sys.executable,
        PROGRAM,
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    try:
        async with asyncio.timeout(WAIT_S):
            yield started
    finally:
        if started.returncode is None:
            started.kill()
        await started.wait()


async def connected(started: asyncio.subprocess.Process) -> None:
    assert started.stdin is not None
    assert started.stdout is not None
    started.stdin.write(written(HELLO, READY))
    assert json.loads(await started.stdout.readline())["id"] == 1


@pytest.mark.cluster
@pytest.mark.parametrize("era", ERAS)
async def test_a_host_starts_the_command_and_calls_its_tools(era: str) -> None:
    server = StdioServerParameters(command=sys.executable, args=[PROGRAM, "mcp"], env={"PYTHONPATH": str(ROOT)})
    async with asyncio.timeout(WAIT_S), Client(server, mode=era) as client:
        answer = await client.call_tool("list_namespaces", {})
    assert "default" in text_of(answer)


@pytest.mark.cluster
async def test_what_came_before_the_end_of_the_input_is_answered_and_nothing_else_is_written() -> None:
    async with process("mcp") as started:
        output, errors = await started.communicate(written(HELLO, READY, CALL))
    assert [json.loads(line)["id"] for line in output.splitlines()] == [1, 2]
    assert errors == b""
    assert started.returncode == 0


@pytest.mark.cluster
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
async def test_a_signal_ends_it_at_once_and_quietly(number: signal.Signals, code: int) -> None:
    now_s = asyncio.get_running_loop().time
    for _ in range(TRIES):
        began_s = now_s()
        async with process("mcp") as started:
            await connected(started)
            at_once_s, told_s = max(AT_ONCE_S, now_s() - began_s), now_s()
            started.send_signal(number)
            assert await started.wait() == code
            took_s = now_s() - told_s
            assert started.stderr is not None
            assert await started.stderr.read() == b""
        if took_s < at_once_s:
            break
    assert took_s < at_once_s


@pytest.mark.cluster
async def test_a_flag_that_is_wrong_is_told_before_anything_is_served() -> None:
    async with process("mcp", "--toolsets", "defualt") as started:
        output, errors = await started.communicate()
    assert (output, started.returncode) == (b"", 2)
    assert b"there is no toolset 'defualt'" in errors
