"""The protocol on standard input and output: one JSON message a line, nothing else on standard output.

The SDK's own transport reads standard input in a thread that nothing can interrupt; this one waits on the event loop,
so that Ctrl-C is heard at once. While it serves, whatever else is written to standard output goes to standard error.
"""

import asyncio
import contextlib
import os
import stat
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Self

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCRequest, JSONRPCResponse, jsonrpc_message_adapter

from danube.model.limits.faces import CLI_READ_BYTES, MCP_DRAIN_S, MCP_MESSAGE_BYTES_MAX

Item = SessionMessage | Exception

_STDIN, _STDOUT, _STDERR = 0, 1, 2


class OpenRequests:
    """Requests of the host that have no answer yet."""

    def __init__(self) -> None:
        self._ids: set[str] = set()
        self._none = asyncio.Event()
        self._none.set()

    def read(self, message: Any) -> None:  # noqa: ANN401 - any JSON-RPC message
        if isinstance(message, JSONRPCRequest):
            self._ids.add(str(message.id))
            self._none.clear()

    def written(self, message: Any) -> None:  # noqa: ANN401 - any JSON-RPC message
        if isinstance(message, (JSONRPCResponse, JSONRPCError)):
            self._ids.discard(str(message.id))
            if not self._ids:
                self._none.set()

    async def drained(self) -> None:
        """Wait until all are answered, for a moment at most."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(MCP_DRAIN_S):
                await self._none.wait()


class _Stream:
    """The part of the SDK's protocol of a stream that both directions share."""

    async def aclose(self) -> None:
        return None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        await self.aclose()


class MessageReader(_Stream):
    """Messages from a descriptor; what is no message is handed on as an error, and the next one is read.

    At the end of the input it waits for the answers that are still due, since the SDK ends every call with it.
    """

    def __init__(self, descriptor: int, requests: OpenRequests) -> None:
        self._descriptor = descriptor
        self._requests = requests
        self._lines = _Lines()

    async def receive(self) -> Item:
        """The next message. Raises EndOfStream."""
        line = await self._line()
        if line is None:
            await self._requests.drained()
            raise anyio.EndOfStream
        try:
            message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValueError as error:
            return error
        self._requests.read(message)
        return SessionMessage(message)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Item:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def _line(self) -> bytes | None:
        while (line := self._lines.pop()) is None:
            await _ready(asyncio.get_running_loop().add_reader, self._descriptor)
            try:
                chunk = os.read(self._descriptor, CLI_READ_BYTES)
            except BlockingIOError:  # somebody else was faster
                continue
            if not chunk:
                return None
            self._lines.feed(chunk)
        return line


class MessageWriter(_Stream):
    """Messages to a descriptor, one after the other."""

    def __init__(self, descriptor: int, requests: OpenRequests) -> None:
        self._descriptor = descriptor
        self._requests = requests
        self._turn = asyncio.Lock()

    async def send(self, item: SessionMessage, /) -> None:
        """Write a message. Raises BrokenResourceError when nobody reads any more."""
        data = item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
        async with self._turn:
            try:
                await self._write(memoryview(data))
            except OSError:
                raise anyio.BrokenResourceError from None
        self._requests.written(item.message)

    async def _write(self, rest: memoryview) -> None:
        while rest:
            try:
                rest = rest[os.write(self._descriptor, rest) :]
            except BlockingIOError:
                await _ready(asyncio.get_running_loop().add_writer, self._descriptor)


@contextlib.contextmanager
def standard_streams() -> Iterator[tuple[int, int]]:
    """Descriptors of the host, to read from and to write to, for as long as this lasts.

    Pipes and sockets do not block then. Terminals keep their mode, which they share with the shell.
    """
    host = os.dup(_STDOUT)
    pipes = [each for each in (_STDIN, host) if _is_pipe(each) and os.get_blocking(each)]
    os.dup2(_STDERR, _STDOUT)
    try:
        for each in pipes:
            os.set_blocking(each, False)
        yield _STDIN, host
    finally:
        for each in pipes:
            os.set_blocking(each, True)
        os.dup2(host, _STDOUT)
        os.close(host)


class _Lines:
    """Cuts a stream into lines; one that is too long is thrown away up to its end."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._lines: list[bytes] = []
        self._skips = False

    def feed(self, chunk: bytes) -> None:
        *complete, rest = (bytes(self._rest) + chunk).split(b"\n") if b"\n" in chunk else [chunk]
        if not complete:
            self._rest += chunk
        else:
            self._rest = bytearray(rest)
            self._keep(complete)
        if len(self._rest) > MCP_MESSAGE_BYTES_MAX:
            self._rest.clear()
            self._skips = True

    def pop(self) -> bytes | None:
        """The next complete line; None when more has to be read."""
        return self._lines.pop(0) if self._lines else None

    def _keep(self, complete: list[bytes]) -> None:
        if self._skips:
            complete[0] = b""  # no JSON: the reader reports an error in its place
            self._skips = False
        self._lines += complete


def _is_pipe(descriptor: int) -> bool:
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


async def _ready(add: Callable[..., None], descriptor: int) -> None:
    """Wait until a descriptor can be read from, or written to."""
    loop = asyncio.get_running_loop()
    is_ready = asyncio.Event()
    try:
        add(descriptor, is_ready.set)
    except PermissionError:  # an ordinary file, which never makes anyone wait
        return
    try:
        await is_ready.wait()
    finally:
        (loop.remove_reader if add == loop.add_reader else loop.remove_writer)(descriptor)
