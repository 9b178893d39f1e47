"""The serving end of a connection: finds the method of each request, and carries answers and failures back."""

import asyncio
from typing import TypeAlias

from danube.model.errors import (
    DanubeError,
    InvalidRequestError,
    LimitReachedError,
    UnavailableError,
    UnsupportedError,
)
from danube.model.limits import http2 as limits
from danube.rpc.address import join_address
from danube.rpc.answer import status_for
from danube.rpc.carrier import Caller
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
from danube.rpc.http2.protocol.header_blocks import encode
from danube.rpc.http2.protocol.heads import RequestHead, percent_encoded, read_timeout_s, request_head
from danube.rpc.http2.protocol.sender import ANSWER_HEADERS
from danube.rpc.http2.protocol.streams import Stream
from danube.rpc.http2.server.arrivals import Arrivals
from danube.rpc.http2.server.call import Http2Call
from danube.rpc.http2.server.side import Method, ServerSide
from danube.rpc.http2.server.stream import Http2ServerStream
from danube.rpc.http2.tls import common_name
from danube.wire.status import ERROR_CODE_KEY, Status

Answering: TypeAlias = Http2Call | Http2ServerStream

_NO_GRPC = b"this port speaks gRPC over HTTP/2: POST with the content type application/grpc\n"
_HTTP_1 = (b"GET ", b"POST", b"HEAD", b"PUT ", b"DELE", b"OPTI", b"PATC")
_HTTP_1_ANSWER = (
    b"HTTP/1.1 505 HTTP Version Not Supported\r\ncontent-type: text/plain\r\nconnection: close\r\n"
    b"content-length: %d\r\n\r\n%s" % (len(_NO_GRPC), _NO_GRPC)
)


class ServerConnection(ConnectionDriver):
    """One connection to a server."""

    def __init__(self, side: ServerSide) -> None:
        options = ConnectionOptions(
            is_server=True,
            streams_max=side.options.concurrent_calls_max,
            stream_window_bytes=limits.HTTP2_STREAM_WINDOW_BYTES,
            metadata_bytes_max=side.options.metadata_bytes_max,
        )
        super().__init__(Connection(options, request_head), side.clock)
        self.side = side
        self.arrivals = Arrivals()
        self._calls: dict[int, Answering] = {}
        self._marked: dict[Http2ServerStream, None] = {}
        self._held: dict[Http2ServerStream, None] = {}
        self._replies: dict[Http2Call, None] = {}
        """Answered, and waiting for credit."""
        self._deadlines = Deadlines(side.clock, self._expire)
        self._address = "unknown"
        self._certificate_name: str | None = None
        self._known_caller: tuple[RequestHead, Caller] | None = None
        self._known_method: tuple[RequestHead, Method] | None = None
        self._reactions = {
            HeadersReceived: self._on_headers,
            DataReceived: self._on_data,
            StreamReset: self._on_reset,
            StreamSent: self._on_sent,
            Settled: _nothing,
            PingAnswered: _nothing,
            GoingAway: _nothing,
            ConnectionFailed: self.on_failed,
        }

    @property
    def is_idle(self) -> bool:
        """True while no call is under way."""
        return not self._calls

    # asyncio.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if not self._make_room():
            transport.close()
            return
        self.side.connections[self] = None
        super().connection_made(transport)
        if self.peer_address is not None:
            self._address = join_address(*self.peer_address)
        self._certificate_name = common_name(transport.get_extra_info("peercert"))

    def data_received(self, data: bytes) -> None:
        if not self.connection.has_preface and data.startswith(_HTTP_1) and self.transport is not None:
            self.transport.write(_HTTP_1_ANSWER)
            self.transport.close()
            return
        super().data_received(data)

    def pause_writing(self) -> None:
        super().pause_writing()
        if self.transport is not None and not self.transport.is_closing():
            self.transport.pause_reading()  # a peer that reads no answers is asked for no more requests

    def resume_writing(self) -> None:
        super().resume_writing()
        if self.transport is not None and not self.transport.is_closing():
            self.transport.resume_reading()
        self._marked.update(self._held)
        self._held.clear()
        self.flush_soon()

    def on_lost(self, reason: str) -> None:
        del reason
        self.side.connections.pop(self, None)
        self._deadlines.close()
        for call in tuple(self._calls.values()):
            call.lose(None)
            self._forget(call)
        if not self.side.connections:
            self.side.changed.notify()

    # For calls and streams.

    def caller_of(self, head: RequestHead) -> Caller:
        """The caller of a request whose headers came just now."""
        known = self._known_caller
        if known is not None and known[0] is head:
            return known[1]
        caller = Caller(
            address=self._address,
            user_agent=head.user_agent,
            metadata=head.metadata,
            certificate_name=self._certificate_name,
        )
        self._known_caller = head, caller
        return caller

    def answer(self, call: Http2Call, response: bytes) -> None:
        """Send the answer of a call."""
        stream = call.stream
        if self.connection.streams.get(stream.id) is not stream:
            self._forget(call)
        elif self.connection.sender.reply(stream, response):
            self.connection.close(stream)
            self._forget(call)
        else:
            call.answered_s = self.clock.monotonic_s()
            self._replies[call] = None
        self.flush_soon()

    def refuse(self, call: Http2Call, status: Status) -> None:
        """Fail a call."""
        self._send_status(call.stream, status, opened=False)
        self._forget(call)

    def drop(self, call: Http2Call) -> None:
        """Give up an answer that its peer does not take."""
        self.connection.reset(call.stream, ErrorCode.CANCEL)
        self._forget(call)
        self.flush_soon()

    def fail_stream(self, stream: Http2ServerStream, status: Status, *, opened: bool) -> None:
        """End a stream with a status, what waits for credit notwithstanding."""
        self.connection.sender.drop(stream.stream)
        self._send_status(stream.stream, status, opened=opened)

    def mark(self, stream: Http2ServerStream) -> None:
        """Have the stream pumped, at the end of this turn or in the next."""
        self._marked[stream] = None
        self.flush_soon()

    def hold(self, stream: Http2ServerStream) -> None:
        """Have the stream pumped when the system takes bytes again."""
        self._held[stream] = None

    def release(self, stream: Http2ServerStream) -> None:
        """The stream is over."""
        self._marked.pop(stream, None)
        self._held.pop(stream, None)
        if self.connection.streams.get(stream.stream.id) is stream.stream:
            self.connection.close(stream.stream)
        self._forget(stream)

    # For the server.

    def pump(self) -> None:
        if self._marked:
            marked, self._marked = self._marked, {}
            for stream in marked:
                stream.pump()

    def tick(self, now_s: float) -> None:
        for call in [call for call in self._replies if now_s - call.answered_s >= limits.HTTP2_BLOCKED_REPLY_S]:
            self.drop(call)
        super().tick(now_s)

    def go_away(self) -> None:
        """Take no new call."""
        if not self.lost and not self.connection.failed:
            self.connection.go_away()
            self.flush_soon()

    def cancel_all(self) -> None:
        """End what is under way, and the connection."""
        for call in tuple(self._calls.values()):
            call.lose(None)
            self._forget(call)
        self.abort()

    # Events.

    def _on_headers(self, event: HeadersReceived[RequestHead]) -> None:
        known = self._calls.get(event.stream_id)
        if known is not None:
            known.half_close()  # by trailers
            return
        stream = self.connection.streams.get(event.stream_id)
        if stream is None:  # reset in the bytes that opened it
            return
        head = event.head
        if not head.is_grpc or head.method != b"POST":
            self._refuse_http(stream, head)
            return
        method = self._method_of(head)
        error = self._overload() if isinstance(method, Method) else method
        if error is not None or not isinstance(method, Method):
            self._send_status(stream, status_for(error or _unknown(head.path), "a call"), opened=False)
            return
        self.side.active += 1
        call = (Http2Call if method.unary is not None else Http2ServerStream)(self, stream, method, head)
        self._calls[stream.id] = call
        if event.timeout is not None:
            self._deadlines.add(stream.id, self.heard_s + read_timeout_s(event.timeout))
        if event.ended:
            call.half_close()

    def _on_data(self, event: DataReceived) -> None:
        call = self._calls.get(event.stream_id)
        if call is not None:
            call.receive(event.data, ended=event.ended)

    def _on_reset(self, event: StreamReset) -> None:
        call = self._calls.get(event.stream_id)
        if call is not None:
            if isinstance(call, Http2ServerStream):
                call.is_left = event.by_peer
            call.lose(None)
            self._forget(call)

    def _on_sent(self, event: StreamSent) -> None:
        call = self._calls.get(event.stream_id)
        if isinstance(call, Http2Call):
            self._forget(call)
        elif call is not None:
            call.sent()

    def _expire(self, stream_id: int) -> None:
        call = self._calls.get(stream_id)
        if call is not None:
            call.expire()
            self.flush_soon()

    def _method_of(self, head: RequestHead) -> Method | DanubeError:
        """The method of a request, or the reason to refuse it; calls that repeat each other share one head."""
        known = self._known_method
        if known is not None and known[0] is head:
            return known[1]
        found = self._find_method(head)
        if isinstance(found, Method):
            self._known_method = head, found
        return found

    def _find_method(self, head: RequestHead) -> Method | DanubeError:
        method = self.side.methods.get(head.path)
        if head.list_bytes > self.side.options.metadata_bytes_max:
            return LimitReachedError("the call's metadata is larger than this server takes")
        if method is None:
            return _unknown(head.path)
        if head.encoding != b"identity":
            name = head.encoding.decode(errors="replace")
            return UnsupportedError(f"grpc-encoding {name[:40]!r} is not supported: send messages without compression")
        if head.bad_timeout:
            return InvalidRequestError("grpc-timeout is no time: write digits and a unit, such as 10S")
        return method

    def _overload(self) -> DanubeError | None:
        side = self.side
        if side.active >= side.options.concurrent_calls_max:
            return LimitReachedError("this server has as many calls under way as it takes: try again later")
        if self.connection.sender.pending_bytes > limits.HTTP2_BLOCKED_REPLIES_BYTES_MAX:
            return LimitReachedError("this connection takes none of the answers it has: read them, then ask for more")
        if side.stopping:
            return UnavailableError("this server is stopping: connect again")
        return None

    def _refuse_http(self, stream: Stream, head: RequestHead) -> None:
        status = b"405" if head.method not in {b"POST", b"GET", b"HEAD"} else b"415"
        fields = [(b":status", status), (b"content-type", b"text/plain"), (b"content-length", b"%d" % len(_NO_GRPC))]
        self.connection.sender.headers(stream, encode(fields), ended=head.method == b"HEAD")
        if head.method != b"HEAD":
            self.connection.sender.data(stream, _NO_GRPC, ended=True)
        self.connection.close(stream)

    def _send_status(self, stream: Stream, status: Status, *, opened: bool) -> None:
        if self.connection.streams.get(stream.id) is not stream or stream.local_closed:
            return
        trailers = encode(
            [
                (b"grpc-status", b"%d" % status.code),
                (b"grpc-message", percent_encoded(status.message)),
                (ERROR_CODE_KEY.encode(), status.error_code.encode()),
            ]
        )
        self.connection.sender.headers(stream, trailers if opened else ANSWER_HEADERS + trailers, ended=True)
        self.connection.close(stream)
        self.flush_soon()

    def _forget(self, call: Answering) -> None:
        if self._calls.get(call.stream.id) is call:
            del self._calls[call.stream.id]
            call.release()
            self._deadlines.discard(call.stream.id)
            if isinstance(call, Http2Call):
                self._replies.pop(call, None)
            self.side.ended()

    def _make_room(self) -> bool:
        connections = self.side.connections
        if self.side.stopping:
            return False
        if len(connections) >= limits.HTTP2_CONNECTIONS_MAX:
            idle = next((connection for connection in connections if connection.is_idle), None)
            if idle is None:
                return False
            connections.pop(idle)
            idle.abort()
        return True


def _unknown(path: bytes) -> DanubeError:
    return UnsupportedError(f"this port does not serve {path.decode(errors='backslashreplace')[:200]}")


def _nothing(event: object) -> None:
    """An event that a server does not act on."""
