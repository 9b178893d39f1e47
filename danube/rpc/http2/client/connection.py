"""The asking end of a connection: unary calls as futures, streams by their own objects."""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Protocol

from danube.model import errors
from danube.model.errors import DanubeError
from danube.model.limits import http2 as limits
from danube.rpc.carrier import CarrierOptions
from danube.rpc.http2.client.answers import answer_error, reset_error
from danube.rpc.http2.deadlines import Deadlines
from danube.rpc.http2.driver import ConnectionDriver
from danube.rpc.http2.protocol.connection import Connection, ConnectionOptions
from danube.rpc.http2.protocol.events import (
    ConnectionFailed,
    DataReceived,
    GoingAway,
    HeadersReceived,
    PingAnswered,
    Settled,
    StreamReset,
    StreamSent,
)
from danube.rpc.http2.protocol.frames import ErrorCode
from danube.rpc.http2.protocol.header_blocks import encode, encode_secret
from danube.rpc.http2.protocol.heads import ResponseHead, response_head, timeout_text
from danube.rpc.http2.protocol.messages import MessageReader
from danube.rpc.http2.protocol.streams import Stream
from danube.runtime.clock import Clock, TimerHandle
from danube.runtime.tasks import resolve

_USER_AGENT = b"danube-python"
_SECRET = frozenset({"authorization"})
Metadata = Sequence[tuple[str, str]]


class Asking(Protocol):
    """A call of this client, unary or a stream."""

    stream: Stream | None

    def on_head(self, head: ResponseHead, *, ended: bool) -> None:
        """Headers of the answer, or its trailers."""

    def on_data(self, data: bytes, *, ended: bool) -> None:
        """Bytes of the answer."""

    def on_end(self, error: DanubeError) -> None:
        """The call ended without its status."""

    def on_room(self) -> None:
        """More may be sent."""


class UnaryAnswer:
    """The answer of one unary call, on its way."""

    __slots__ = ("_connection", "_message", "_reader", "future", "stream")

    def __init__(self, connection: "ClientConnection") -> None:
        self.stream: Stream | None = None
        self.future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._connection = connection
        self._reader: MessageReader | None = None
        self._message: bytes | None = None

    def on_head(self, head: ResponseHead, *, ended: bool) -> None:
        error = answer_error(head, self._connection.address, ended=ended)
        if error is not None:
            self.on_end(error)
        elif ended and self._message is None:
            self.on_end(errors.InternalError(f"{self._connection.address} ended a call without its answer"))
        elif ended and self._message is not None:
            self._connection.forget(self)
            resolve(self.future, self._message)

    def on_data(self, data: bytes, *, ended: bool) -> None:
        if self._reader is None:
            self._reader = MessageReader(self._connection.options.receive_bytes_max)
        try:
            messages = self._reader.feed(data)
        except DanubeError as error:
            self._connection.cancel(self)
            self.on_end(type(error)(f"the answer of {self._connection.address}: {error}"))
            return
        if messages:
            self._message = messages[0]
        elif self.stream is not None and self._reader.missing_bytes > self.stream.receive_window:
            self._connection.connection.let_in(self.stream, self._reader.missing_bytes)
        if ended:
            self.on_end(errors.InternalError(f"{self._connection.address} ended a call without its status"))

    def on_end(self, error: DanubeError) -> None:
        self._connection.cancel(self)
        if not self.future.done():
            self.future.set_exception(error)

    def on_room(self) -> None:
        """The request is given to the transport as a whole."""


class ClientConnection(ConnectionDriver):
    """One connection to a server."""

    def __init__(self, address: str, options: CarrierOptions, clock: Clock, scheme: bytes) -> None:
        settings = ConnectionOptions(
            is_server=False,
            streams_max=0,
            stream_window_bytes=limits.HTTP2_ANSWER_WINDOW_BYTES,
            metadata_bytes_max=options.metadata_bytes_max,
        )
        super().__init__(Connection(settings, response_head), clock)
        self.address = address
        self.options = options
        self.settled: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done once the server has said that it speaks HTTP/2, or the connection is lost."""
        self.end_reason = ""
        """Cause of the connection's end."""
        self._scheme = scheme
        self._calls: dict[int, Asking] = {}
        self._going_away = False
        self._blocks: dict[tuple[str, tuple[tuple[str, str], ...], float | None], bytes] = {}
        self._deadlines = Deadlines(clock, self._expire)
        self._timeouts_s: dict[int, float] = {}
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._timer: TimerHandle | None = None
        self._reactions = {
            HeadersReceived: self._on_headers,
            DataReceived: self._on_data,
            StreamReset: self._on_reset,
            StreamSent: self._on_sent,
            Settled: self._on_settled,
            PingAnswered: _nothing,
            GoingAway: self._on_going_away,
            ConnectionFailed: self.on_failed,
        }

    @property
    def usable(self) -> bool:
        """True if new calls may go this way."""
        table = self.connection.table
        return not (self.lost or self._going_away or self.connection.failed) and table.has_numbers

    @property
    def has_room(self) -> bool:
        """True unless the server has as many calls as it takes."""
        return len(self.connection.streams) < self.connection.peer_streams_max

    async def room(self) -> None:
        """Return when a call has ended, or the connection has."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        await waiter

    def begin(self, path: str, request: bytes, timeout_s: float | None, metadata: Metadata) -> UnaryAnswer:
        """Send a unary call."""
        answer = UnaryAnswer(self)
        stream = self.open(answer, path, timeout_s, metadata)
        self.connection.sender.message(stream, request, ended=True)
        return answer

    def open(self, call: Asking, path: str, timeout_s: float | None, metadata: Metadata) -> Stream:
        """Open the stream of a call."""
        stream = self.connection.open_stream(self._block(path, tuple(metadata), timeout_s))
        call.stream = stream
        self._calls[stream.id] = call
        if timeout_s is not None:
            self._timeouts_s[stream.id] = timeout_s
            self._deadlines.add(stream.id, self.clock.monotonic_s() + timeout_s)
        self.flush_soon()
        return stream

    def forget(self, call: Asking) -> None:
        """The call has its end."""
        stream = call.stream
        if stream is None or self._calls.get(stream.id) is not call:
            return
        del self._calls[stream.id]
        self._deadlines.discard(stream.id)
        self._timeouts_s.pop(stream.id, None)
        if self._going_away and not self._calls:
            self.close()
        elif self._waiting:
            self._wake()

    def cancel(self, call: Asking) -> None:
        """Give up a call, if it is under way."""
        stream = call.stream
        if stream is not None:
            if self.connection.streams.get(stream.id) is stream:
                self.connection.reset(stream, ErrorCode.NO_ERROR if stream.remote_closed else ErrorCode.CANCEL)
                self.flush_soon()
            self.forget(call)

    async def gone(self) -> None:
        """Return once the connection is closed."""
        await asyncio.shield(self._gone)

    def retire(self) -> None:
        """Take no new call, and close after the last one."""
        self._going_away = True
        if not self._calls:
            self.close()

    def end(self, error: DanubeError) -> None:
        """End all calls, and the connection."""
        self.end_reason = self.end_reason or str(error)
        self._going_away = True
        for call in tuple(self._calls.values()):
            call.on_end(error)
        if not self.connection.failed:
            self.connection.go_away()
        self.close()

    # asyncio.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._tick_later()

    def resume_writing(self) -> None:
        super().resume_writing()
        for call in tuple(self._calls.values()):
            call.on_room()

    def on_failed(self, event: ConnectionFailed) -> None:
        self.end_reason = f"it does not speak HTTP/2 as it should ({event.reason})"
        super().on_failed(event)

    def on_lost(self, reason: str) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._deadlines.close()
        self.end_reason = self.end_reason or reason
        resolve(self.settled, None)
        resolve(self._gone, None)
        error = errors.BrokerUnreachableError(f"cannot reach {self.address}: {self.end_reason}")
        for call in tuple(self._calls.values()):
            call.on_end(error)
        self._calls.clear()
        self._wake()

    # Events.

    def _on_headers(self, event: HeadersReceived[ResponseHead]) -> None:
        call = self._calls.get(event.stream_id)
        if call is not None and event.head.is_final:
            call.on_head(event.head, ended=event.ended)

    def _on_data(self, event: DataReceived) -> None:
        call = self._calls.get(event.stream_id)
        if call is not None:
            call.on_data(event.data, ended=event.ended)

    def _on_reset(self, event: StreamReset) -> None:
        call = self._calls.get(event.stream_id)
        if call is not None:
            call.on_end(reset_error(event, self.address))

    def _on_sent(self, event: StreamSent) -> None:
        call = self._calls.get(event.stream_id)
        if call is not None:
            call.on_room()

    def _on_settled(self, event: Settled) -> None:
        del event
        resolve(self.settled, None)
        self._wake()

    def _on_going_away(self, event: GoingAway) -> None:
        self._going_away = True
        self.end_reason = self.end_reason or f"it is stopping ({event.reason or ErrorCode.NO_ERROR.name})"
        error = errors.BrokerUnreachableError(f"{self.address} is stopping and did not take the call: connect again")
        for stream_id, call in tuple(self._calls.items()):
            if stream_id > event.last_stream_id:
                call.on_end(error)
        self._wake()

    def _expire(self, stream_id: int) -> None:
        call = self._calls.get(stream_id)
        if call is not None:
            waited_s = self._timeouts_s.get(stream_id, 0.0)
            self.cancel(call)
            call.on_end(errors.DeadlineExceededError(f"no answer from {self.address} within {waited_s:g} s"))

    def _block(self, path: str, metadata: tuple[tuple[str, str], ...], timeout_s: float | None) -> bytes:
        key = path, metadata, timeout_s
        block = self._blocks.get(key)
        if block is not None:
            return block
        fields = [
            (b":method", b"POST"),
            (b":scheme", self._scheme),
            (b":path", path.encode()),
            (b":authority", self.address.encode()),
            (b"content-type", b"application/grpc"),
            (b"te", b"trailers"),
            (b"user-agent", _USER_AGENT),
        ]
        if timeout_s is not None:
            fields.append((b"grpc-timeout", timeout_text(timeout_s)))
        open_ones = [(name.lower().encode(), text.encode()) for name, text in metadata if name.lower() not in _SECRET]
        secret = [(name.lower().encode(), text.encode()) for name, text in metadata if name.lower() in _SECRET]
        block = encode([*fields, *open_ones]) + b"".join(encode_secret(name, text) for name, text in secret)
        if len(self._blocks) >= limits.HTTP2_CALL_HEADERS_CACHED:
            self._blocks.clear()
        self._blocks[key] = block
        return block

    def _wake(self) -> None:
        """Let as many calls go as there is room for."""
        room = len(self._waiting)
        if self.usable:
            room = min(room, self.connection.peer_streams_max - len(self.connection.streams))
        while room > 0 and self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                room -= 1

    def _tick_later(self) -> None:
        self._timer = self.clock.call_at(self.clock.monotonic_s() + limits.HTTP2_TICK_S, self._tick)

    def _tick(self) -> None:
        if not self.lost:
            if self._calls or self.connection.failed:
                self.tick(self.clock.monotonic_s())
            self._tick_later()


def _nothing(event: object) -> None:
    """An event that a client does not act on."""
