"""NATS JetStream as a peer: a stream on disk, publishes with acknowledgement, a pull consumer with one for each."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from danube.cli.compare.peer import Arrived
from danube.model.errors import UnavailableError
from danube.model.limits.faces import COMPARE_IN_FLIGHT, COMPARE_POLL_S, COMPARE_PULLED
from danube.model.untrusted_json import decode_json
from danube.rpc.address import split_address


class _Line:
    """One connection to a NATS server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer
        options = {"verbose": False, "pedantic": False, "headers": True, "no_responders": True}
        self.inbox = f"in{time.time_ns()}"
        writer.write(b"CONNECT %s\r\nSUB %s.> 1\r\n" % (json.dumps(options).encode(), self.inbox.encode()))

    def put(self, subject: str, payload: bytes, reply: str = "") -> None:
        """Publish."""
        self.writer.write(b"PUB %s %s %d\r\n%s\r\n" % (subject.encode(), reply.encode(), len(payload), payload))

    async def message(self) -> tuple[str, bytes | None]:
        """Subject to reply to, and payload of the next message; no payload for a status."""
        while True:
            kind, *words = (await self._reader.readuntil(b"\r\n")).split()
            if kind == b"PING":
                self.writer.write(b"PONG\r\n")
            elif kind in {b"MSG", b"HMSG"}:
                payload = (await self._reader.readexactly(int(words[-1]) + 2))[:-2]
                if kind == b"HMSG":
                    return "", None
                return (words[2].decode() if len(words) == 4 else ""), payload
            elif kind == b"-ERR":
                raise UnavailableError(f"NATS refused: {b' '.join(words).decode(errors='replace')}")

    async def ask(self, call: str, request: object) -> None:
        """Make a call of JetStream's API. Raises UnavailableError."""
        self.put(f"$JS.API.{call}", json.dumps(request).encode(), f"{self.inbox}.answer")
        await self.checked()

    async def checked(self) -> None:
        """The next message, which has to be an answer without an error."""
        _, answer = await self.message()
        if answer is None or "error" in decode_json(answer):
            raise UnavailableError(f"NATS refused: {answer!r}; is JetStream on?")


class NatsPeer:
    """A `Peer`."""

    def __init__(self, up: _Line, down: _Line, stream: str) -> None:
        self.name = "NATS JetStream"
        self._up = up
        self._down = down
        self._stream = stream
        self._unanswered = 0
        self._pulled = 0

    async def publish(self, payloads: Sequence[bytes]) -> None:
        for payload in payloads:
            self.start(payload)
            if self._unanswered >= COMPARE_IN_FLIGHT:
                await self._up.writer.drain()
                await self._answer()
        await self._answers()

    def start(self, payload: bytes) -> None:
        self._unanswered += 1
        self._up.put(self._stream, payload, f"{self._up.inbox}.stored")

    async def flush(self) -> None:
        await self._answers()
        await self._down.writer.drain()

    async def receive(self) -> Arrived:
        if not self._pulled:
            self._pulled = COMPARE_PULLED
            pull = {"batch": COMPARE_PULLED, "expires": int(COMPARE_POLL_S * 1e9)}
            call = f"$JS.API.CONSUMER.MSG.NEXT.{self._stream}.c"
            self._down.put(call, json.dumps(pull).encode(), f"{self._down.inbox}.pulled")
        reply, payload = await self._down.message()
        at_s = time.monotonic()
        if payload is None:  # the pull has expired
            self._pulled = 0
            return Arrived((), at_s)
        self._pulled -= 1
        self._down.put(reply, b"+ACK")
        return Arrived((payload,), at_s)

    async def _answers(self) -> None:
        while self._unanswered:
            await self._answer()

    async def _answer(self) -> None:
        await self._up.checked()
        self._unanswered -= 1


@asynccontextmanager
async def nats_peer(address: str) -> AsyncIterator[NatsPeer]:
    """Connect to a server at `host:port`, and make a stream, which is deleted at the end. Raises UnavailableError."""
    up, down = [_Line(*await _opened(address)) for _ in range(2)]
    stream = f"danube_compare_{time.time_ns()}"
    try:
        await up.ask(f"STREAM.CREATE.{stream}", {"name": stream, "subjects": [stream], "storage": "file"})
        consumer = {"durable_name": "c", "ack_policy": "explicit", "deliver_policy": "all", "max_ack_pending": -1}
        await up.ask(f"CONSUMER.DURABLE.CREATE.{stream}.c", {"stream_name": stream, "config": consumer})
        yield NatsPeer(up, down, stream)
        await up.ask(f"STREAM.DELETE.{stream}", {})
    finally:
        up.writer.close()
        down.writer.close()


async def _opened(address: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    try:
        return await asyncio.open_connection(*split_address(address))
    except OSError as error:
        raise UnavailableError(f"NATS does not answer at {address}: {error}") from error
