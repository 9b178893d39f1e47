"""The serving end of a connection, as its calls and streams know it: who calls, and ways for their answers."""

from dataclasses import dataclass, field
from typing import Protocol

from danube.model.errors import DanubeError
from danube.model.limits import http2 as limits
from danube.rpc.carrier import Caller, CarrierOptions
from danube.rpc.http2.deadlines import Deadlines
from danube.rpc.http2.driver import ConnectionDriver
from danube.rpc.http2.protocol.connection import Connection, ConnectionOptions
from danube.rpc.http2.protocol.frames import ErrorCode
from danube.rpc.http2.protocol.header_blocks import encode
from danube.rpc.http2.protocol.heads import RequestHead, percent_encoded, request_head
from danube.rpc.http2.protocol.sender import ANSWER_HEADERS
from danube.rpc.http2.protocol.streams import Stream
from danube.rpc.http2.server.arrivals import Arrivals, PartialRequests
from danube.rpc.http2.server.methods import Method
from danube.rpc.stream_memory import StreamMemory
from danube.runtime.clock import Clock
from danube.runtime.tasks import Wakeup
from danube.wire.status import ERROR_CODE_KEY, Status


class Answering(Protocol):
    """A unary call, or a stream."""

    @property
    def stream(self) -> Stream:
        """Its stream of HTTP/2."""

    def receive(self, data: bytes, *, ended: bool) -> None:
        """Bytes of the request."""

    def half_close(self) -> None:
        """The peer sends nothing more."""

    def sent(self) -> None:
        """The message that waited for credit has left."""

    def expire(self) -> None:
        """The deadline has passed."""

    def lose(self, error: DanubeError | None) -> None:
        """End it; without an error the peer is gone."""

    def release(self) -> None:
        """Nothing of it is left."""


class PumpedStream(Answering, Protocol):
    """A stream."""

    def pump(self) -> None:
        """Do what is due."""


@dataclass(slots=True)
class ServerSide:
    """Shared by the connections of one server."""

    clock: Clock
    options: CarrierOptions
    memory: StreamMemory
    """Shared with the carrier's other servers."""
    methods: dict[bytes, Method]
    partial: PartialRequests = field(default_factory=PartialRequests)
    connections: "dict[ServerEnd, None]" = field(default_factory=dict)
    """By age."""
    active: int = 0
    """Calls and streams that are under way, or whose answer is still on its way."""
    changed: Wakeup = field(default_factory=Wakeup)
    """Notified when no call is left, and when no connection is."""
    stopping: bool = False

    def ended(self) -> None:
        """Count one call less."""
        self.active -= 1
        if not self.active:
            self.changed.notify()


class ServerEnd(ConnectionDriver):
    """One connection to a server, with the calls that are under way."""

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
        self._marked: dict[PumpedStream, None] = {}
        self._held: dict[PumpedStream, None] = {}
        self._replies: dict[Answering, float] = {}
        """Times of answers that wait for credit."""
        self._deadlines = Deadlines(side.clock, self._expire)
        self._address = "unknown"
        self._certificate_name: str | None = None
        self._known_caller: tuple[RequestHead, Caller] | None = None

    @property
    def is_idle(self) -> bool:
        """True while no call is under way."""
        return not self._calls

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
            self.forget(call)
        if not self.side.connections:
            self.side.changed.notify()

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

    def answer(self, call: Answering, response: bytes) -> None:
        """Send the answer of a call."""
        stream = call.stream
        if self.connection.streams.get(stream.id) is not stream:
            self.forget(call)
        elif self.connection.sender.reply(stream, response):
            self.connection.close(stream)
            self.forget(call)
        else:
            self._replies[call] = self.clock.monotonic_s()
        self.flush_soon()

    def refuse(self, call: Answering, status: Status) -> None:
        """Fail a call."""
        self._send_status(call.stream, status, opened=False)
        self.forget(call)

    def drop(self, call: Answering) -> None:
        """Give up an answer that its peer does not take."""
        self.connection.reset(call.stream, ErrorCode.CANCEL)
        self.forget(call)
        self.flush_soon()

    def fail_stream(self, stream: PumpedStream, status: Status, *, opened: bool) -> None:
        """End a stream with a status, what waits for credit notwithstanding."""
        self.connection.sender.drop(stream.stream)
        self._send_status(stream.stream, status, opened=opened)

    def mark(self, stream: PumpedStream) -> None:
        """Have the stream pumped, at the end of this turn or in the next."""
        self._marked[stream] = None
        self.flush_soon()

    def hold(self, stream: PumpedStream) -> None:
        """Have the stream pumped when the system takes bytes again."""
        self._held[stream] = None

    def release(self, stream: PumpedStream) -> None:
        """The stream is over."""
        self._marked.pop(stream, None)
        self._held.pop(stream, None)
        if self.connection.streams.get(stream.stream.id) is stream.stream:
            self.connection.close(stream.stream)
        self.forget(stream)

    def pump(self) -> None:
        if self._marked:
            marked, self._marked = self._marked, {}
            for stream in marked:
                stream.pump()

    def tick(self, now_s: float) -> None:
        for call in [call for call, at_s in self._replies.items() if now_s - at_s >= limits.HTTP2_BLOCKED_REPLY_S]:
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
            self.forget(call)
        self.abort()

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

    def forget(self, call: Answering) -> None:
        """The call is over."""
        if self._calls.get(call.stream.id) is call:
            del self._calls[call.stream.id]
            call.release()
            self._deadlines.discard(call.stream.id)
            self._replies.pop(call, None)
            self.side.ended()

    def _expire(self, stream_id: int) -> None:
        call = self._calls.get(stream_id)
        if call is not None:
            call.expire()
            self.flush_soon()
