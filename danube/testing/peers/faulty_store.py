"""A proxy in front of a server of the S3 protocol that misbehaves: for tests of what a client makes of it.

Each request has a connection and a thread of its own. The caller gives the chance.
"""

import http.client
import random
import socket
import struct
import threading
from collections import Counter
from collections.abc import Mapping
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self

from danube.rpc.address import join_address, split_address

_TIMEOUT_S = 30.0
_RESET_AT_ONCE = struct.pack("ii", 1, 0)
_SLOW_DOWN = (
    b"<?xml version='1.0'?><Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
)
_OF_ONE_HOP = {"connection", "transfer-encoding", "content-length", "keep-alive"}


class StoreFault(StrEnum):
    """Misbehaviour of a request."""

    SLOW_DOWN = "slow down"
    """503 SlowDown, and nothing is done."""
    RESET = "reset"
    """The connection is reset before the request reaches the server."""
    LOST = "lost"
    """The request is done, and the connection reset instead of an answer."""
    TRUNCATED = "truncated"
    """The request is done, and the answer's body ends in the middle."""
    STALLED = "stalled"
    """The request is done, and no answer comes until the client gives up."""


class FaultyStoreProxy:
    """Forwards to `target`, and misbehaves by these shares of all requests. A context manager."""

    def __init__(self, target: str, chance: random.Random, shares: Mapping[StoreFault, float]) -> None:
        """`target` is `host:port`."""
        self.target = target
        self.shares = dict(shares)
        self.made: Counter[StoreFault] = Counter()
        self.forwarded = 0
        self._chance = chance
        self._lock = threading.Lock()
        self._closing = threading.Event()
        proxy = self

        class Handler(_Handler):
            owner = proxy

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="faulty store", daemon=True)

    @property
    def endpoint(self) -> str:
        """Its address as a setting."""
        return f"http://{join_address(*self._server.server_address[:2])}"  # type: ignore[arg-type]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()

    def draw(self) -> StoreFault | None:
        """The fault of the next request; None for most."""
        with self._lock:
            self.forwarded += 1
            drawn = self._chance.random()
            for fault, share in self.shares.items():
                drawn -= share
                if drawn < 0:
                    self.made[fault] += 1
                    return fault
        return None

    def stall(self) -> None:
        """Wait until the test ends, at most as long as any client waits."""
        self._closing.wait(_TIMEOUT_S)


class _Handler(BaseHTTPRequestHandler):
    """One connection."""

    owner: FaultyStoreProxy
    protocol_version = "HTTP/1.1"

    def _answer(self) -> None:
        self.close_connection = True
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        fault = self.owner.draw()
        if fault is StoreFault.RESET:
            self._reset()
            return
        if fault is StoreFault.SLOW_DOWN:
            self._send(503, {"Content-Type": "application/xml"}, _SLOW_DOWN)
            return
        status, headers, content = self._forward(body)
        if fault is StoreFault.LOST:
            self._reset()
        elif fault is StoreFault.STALLED:
            self.owner.stall()
        elif fault is StoreFault.TRUNCATED:
            self._send(status, headers, content, cut=len(content) // 2)
            self._reset()
        else:
            self._send(status, headers, content)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _answer  # noqa: N815 - as the library calls them

    def _forward(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
        host, port = split_address(self.owner.target)
        connection = http.client.HTTPConnection(host, port, timeout=_TIMEOUT_S)
        try:
            headers = {
                name: value for name, value in self.headers.items() if name.lower() not in {"connection", "expect"}
            }
            connection.request(self.command, self.path, body or None, headers)
            answer = connection.getresponse()
            content = answer.read()
            kept = {name: value for name, value in answer.getheaders() if name.lower() not in _OF_ONE_HOP}
            if self.command == "HEAD":
                kept["Content-Length"] = answer.getheader("Content-Length") or "0"
            return answer.status, kept, content
        finally:
            connection.close()

    def _send(self, status: int, headers: Mapping[str, str], content: bytes, *, cut: int | None = None) -> None:
        self.send_response_only(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if "Content-Length" not in headers:
            self.send_header("Content-Length", str(len(content)))
        self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content[:cut])
        self.wfile.flush()

    def _reset(self) -> None:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_AT_ONCE)
        self.connection.close()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """Nothing: the test asserts."""
