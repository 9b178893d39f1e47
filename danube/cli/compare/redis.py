"""Redis Streams as a peer: XADD in a pipeline, XREADGROUP, and XACK for what was read at once."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from danube.cli.compare.peer import Arrived
from danube.model.errors import UnavailableError
from danube.model.limits.faces import COMPARE_PIPELINE, COMPARE_POLL_S
from danube.rpc.address import split_address


class _Line:
    """One connection to a Redis server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer

    def put(self, *words: bytes) -> None:
        """Send a command."""
        self.writer.write(b"*%d\r\n%s" % (len(words), b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)))

    async def answer(self) -> Any:  # noqa: ANN401 - of any command
        """The next answer. Raises UnavailableError for an error."""
        line = (await self._reader.readuntil(b"\r\n"))[:-2]
        kind, rest = line[:1], line[1:]
        if kind == b"-":
            raise UnavailableError(f"Redis refused: {rest.decode(errors='replace')}")
        if kind == b"$":
            return None if rest == b"-1" else (await self._reader.readexactly(int(rest) + 2))[:-2]
        if kind == b"*":
            return None if rest == b"-1" else [await self.answer() for _ in range(int(rest))]
        return rest

    async def ask(self, *words: bytes) -> Any:  # noqa: ANN401 - of any command
        """Send a command; answers what it answers."""
        self.put(*words)
        return await self.answer()


class RedisPeer:
    """A `Peer`."""

    def __init__(self, up: _Line, down: _Line, key: bytes) -> None:
        self.name = "Redis Streams"
        self._up = up
        self._down = down
        self._key = key
        self._unanswered = 0

    async def publish(self, payloads: Sequence[bytes]) -> None:
        for payload in payloads:
            self.start(payload)
            if self._unanswered >= COMPARE_PIPELINE:
                await self._answers()
        await self._answers()

    def start(self, payload: bytes) -> None:
        self._unanswered += 1
        self._up.put(b"XADD", self._key, b"*", b"d", payload)

    async def flush(self) -> None:
        await self._answers()

    async def receive(self) -> Arrived:
        read = (b"COUNT", b"%d" % COMPARE_PIPELINE, b"BLOCK", b"%d" % (COMPARE_POLL_S * 1_000))
        found = await self._down.ask(b"XREADGROUP", b"GROUP", b"g", b"c", *read, b"STREAMS", self._key, b">")
        at_s = time.monotonic()
        if not found:
            return Arrived((), at_s)
        ((_, entries),) = found
        await self._down.ask(b"XACK", self._key, b"g", *(identity for identity, _ in entries))
        return Arrived([fields[1] for _, fields in entries], at_s)

    async def _answers(self) -> None:
        while self._unanswered:
            await self._up.answer()
            self._unanswered -= 1


@asynccontextmanager
async def redis_peer(address: str) -> AsyncIterator[RedisPeer]:
    """Connect to a server at `host:port`, and make a stream, which is deleted at the end. Raises UnavailableError."""
    up, down = [_Line(*await _opened(address)) for _ in range(2)]
    key = b"danube-compare-%d" % time.time_ns()
    try:
        await up.ask(b"XGROUP", b"CREATE", key, b"g", b"$", b"MKSTREAM")
        yield RedisPeer(up, down, key)
        await up.ask(b"DEL", key)
    finally:
        up.writer.close()
        down.writer.close()


async def _opened(address: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    try:
        return await asyncio.open_connection(*split_address(address))
    except OSError as error:
        raise UnavailableError(f"Redis does not answer at {address}: {error}") from error
