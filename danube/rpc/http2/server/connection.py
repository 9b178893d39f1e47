"""A connection to a server: finds the method of each request, and begins its call or stream."""

import asyncio

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
from danube.rpc.http2.protocol.header_blocks import encode
from danube.rpc.http2.protocol.heads import RequestHead, read_timeout_s
from danube.rpc.http2.protocol.streams import Stream
from danube.rpc.http2.server.call import Http2Call
from danube.rpc.http2.server.end import ServerEnd, ServerSide
from danube.rpc.http2.server.methods import Method
from danube.rpc.http2.server.stream import Http2ServerStream
from danube.rpc.http2.tls import common_name

_NO_GRPC = b"this port speaks gRPC over HTTP/2: POST with the content type application/grpc\n"
_HTTP_1 = (b"GET ", b"POST", b"HEAD", b"PUT ", b"DELE", b"OPTI", b"PATC")
_HTTP_1_ANSWER = (
    b"HTTP/1.1 505 HTTP Version Not Supported\r\ncontent-type: text/plain\r\nconnection: close\r\n"
    b"content-length: %d\r\n\r\n%s" % (len(_NO_GRPC), _NO_GRPC)
)


class ServerConnection(ServerEnd):
    """One connection to a server."""

    def __init__(self, side: ServerSide) -> None:
        super().__init__(side)
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
            self.forget(call)

    def _on_sent(self, event: StreamSent) -> None:
        call = self._calls.get(event.stream_id)
        if call is not None:
            call.sent()

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
