"""One HTTP/2 connection, either end: bytes in, events out, bytes to write out (RFC 9113). Pure: time is an argument.

What a peer sends against the rules of a stream resets the stream; against those of the connection, it ends it with a
GOAWAY. Frames that cost this end work and the peer nothing have budgets (`flood_budget`). Priority is ignored.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from danube.model.limits import http2 as limits
from danube.rpc.http2.protocol import frames
from danube.rpc.http2.protocol.events import (
    ConnectionFailed,
    DataReceived,
    Event,
    GoingAway,
    HeadersReceived,
    PingAnswered,
    Settled,
    StreamReset,
    StreamSent,
)
from danube.rpc.http2.protocol.flood_budget import FloodBudget
from danube.rpc.http2.protocol.frames import ErrorCode, ProtocolError, Setting, StreamError
from danube.rpc.http2.protocol.header_blocks import HeaderDecoder
from danube.rpc.http2.protocol.header_table import Field
from danube.rpc.http2.protocol.heads import RequestHead, ResponseHead
from danube.rpc.http2.protocol.sender import Sender
from danube.rpc.http2.protocol.streams import Stream, StreamTable, dependency_problem

H = TypeVar("H", RequestHead, ResponseHead)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionOptions:
    """Settings of one end."""

    is_server: bool
    streams_max: int
    """Streams that the peer may have open."""
    stream_window_bytes: int
    metadata_bytes_max: int


@dataclass(slots=True)
class _Block:
    """A header block that continues."""

    stream_id: int
    ended: bool
    data: bytearray
    frames: int = 1
    problem: StreamError | None = None


class Connection(Generic[H]):
    """State of one connection. After `ConnectionFailed` nothing more is read."""

    def __init__(self, options: ConnectionOptions, parse: Callable[[list[Field]], H]) -> None:
        self.sender = Sender()
        self.table = StreamTable(is_server=options.is_server)
        self.streams = self.table.open
        self.peer_streams_max = frames.STREAM_ID_LIMIT
        self.failed = False
        self.has_preface = not options.is_server
        """True once the peer has said that it speaks HTTP/2."""
        self.settled = False
        """True once the peer's settings are known."""
        self._options = options
        self._is_server = options.is_server
        self._headers: HeaderDecoder[H] = HeaderDecoder(parse, options.metadata_bytes_max * limits.HTTP2_HEADER_EXCESS)
        self._block_bytes_max = options.metadata_bytes_max * limits.HTTP2_HEADER_EXCESS
        self._budget = FloodBudget()
        self._rest = bytearray()
        self._needed = 0
        self._block: _Block | None = None
        self._refuses = False
        self._receive_due = 0
        self._receive_window = limits.HTTP2_CONNECTION_WINDOW_BYTES
        self._restored_frames = 0
        self._events: list[Event[H]] = []
        self._now_s = 0.0
        self._handlers: tuple[Callable[[int, int, bytes], None], ...] = (
            self._on_data,
            self._on_headers,
            self._on_priority,
            self._on_rst_stream,
            self._on_settings,
            self._on_push_promise,
            self._on_ping,
            self._on_goaway,
            self._on_window_update,
            self._on_continuation,
        )
        self._open()

    # This end.

    def take_output(self) -> bytes:
        """The bytes to write now."""
        output = self.sender.output
        if not output:
            return b""
        data = b"".join(output)
        output.clear()
        return data

    def open_stream(self, block: bytes, *, ended: bool = False) -> Stream:
        """Open a stream with a request's headers."""
        stream = self.table.add(self._new_stream(self.table.next_number()))
        self.sender.headers(stream, block, ended=ended)
        return stream

    def reset(self, stream: Stream, code: ErrorCode) -> None:
        """End a stream before its time."""
        if self.streams.get(stream.id) is stream:
            self.sender.output.append(frames.rst_stream(stream.id, code))
            self.table.remember_reset(stream.id)
            self._drop(stream)

    def close(self, stream: Stream) -> None:
        """This end has sent its last on a stream. A peer that still sends is told to stop."""
        if not stream.local_closed:
            return
        if stream.remote_closed:
            self._drop(stream)
        elif self._is_server:
            self.reset(stream, ErrorCode.NO_ERROR)

    def credit(self, stream: Stream, size: int) -> None:
        """So many bytes of a stream were consumed: the peer may send as many again."""
        if stream.remote_closed:
            return
        stream.receive_due += size
        missing = stream.receive_target - stream.receive_window
        if stream.receive_due * 2 >= stream.receive_target and missing > 0:
            self._grant(stream, min(stream.receive_due, missing))

    def widen(self, stream: Stream, size: int) -> None:
        """Let the peer have up to `size` bytes under way on a stream from now on."""
        stream.receive_target = size
        self.let_in(stream, size)

    def let_in(self, stream: Stream, missing_bytes: int) -> None:
        """Let the peer send the rest of a message that has arrived in part, and no more."""
        if not stream.remote_closed and stream.receive_window < missing_bytes:
            self._grant(stream, missing_bytes - stream.receive_window)

    def ping(self, payload: bytes) -> None:
        """Ask whether the peer is there; eight bytes."""
        self.sender.output.append(frames.frame(frames.PING, 0, 0, payload))

    def go_away(self, code: ErrorCode = ErrorCode.NO_ERROR, reason: str = "") -> None:
        """Take no new stream."""
        self._refuses = True
        self.sender.output.append(frames.goaway(self._last_remote, code, reason))

    # The peer.

    def receive(self, data: bytes, now_s: float) -> list[Event[H]]:
        """Events that the peer's bytes cause."""
        if self.failed:
            return []
        if self._rest:
            self._rest += data
            if len(self._rest) < self._needed:
                return []
            data = bytes(self._rest)
            self._rest.clear()
        self._now_s = now_s
        events = self._events = []
        try:
            position = self._read(data, 0 if self.has_preface else self._read_preface(data))
        except ProtocolError as error:
            self._fail(error)
            return events
        if position < len(data):
            self._rest += data[position:]
        return events

    def _open(self) -> None:
        options = self._options
        values = {
            Setting.INITIAL_WINDOW_SIZE: options.stream_window_bytes,
            Setting.MAX_FRAME_SIZE: limits.HTTP2_FRAME_BYTES_MAX,
            Setting.MAX_HEADER_LIST_SIZE: options.metadata_bytes_max,
        }
        if options.is_server:
            values[Setting.MAX_CONCURRENT_STREAMS] = options.streams_max
        else:
            self.sender.output.append(frames.PREFACE)
            values[Setting.ENABLE_PUSH] = 0
        self.sender.output.append(frames.settings(values))
        extra = limits.HTTP2_CONNECTION_WINDOW_BYTES - frames.WINDOW_DEFAULT
        self.sender.output.append(frames.window_update(0, extra))

    def _read_preface(self, data: bytes) -> int:
        size = len(frames.PREFACE)
        if data[:size] != frames.PREFACE[: len(data)]:
            raise ProtocolError(ErrorCode.PROTOCOL_ERROR, "the peer does not speak HTTP/2: this port takes gRPC")
        if len(data) < size:
            self._needed = size
            return 0
        self.has_preface = True
        return size

    def _read(self, data: bytes, position: int) -> int:
        """Read whole frames; where the first one that is not whole begins."""
        size = len(data)
        if not self.has_preface:
            return position
        while size - position >= frames.HEADER_BYTES:
            upper, lower, kind, flags, stream_id = frames.unpack_header(data, position)
            start = position + frames.HEADER_BYTES
            end = start + (upper << 8 | lower)
            if end - start > limits.HTTP2_FRAME_BYTES_MAX:
                raise ProtocolError(ErrorCode.FRAME_SIZE_ERROR, "a frame is larger than this end takes")
            if end > size:
                self._needed = end - position
                return position
            if self._block is not None and kind != frames.CONTINUATION:
                raise ProtocolError(ErrorCode.PROTOCOL_ERROR, "a header block is interrupted by another frame")
            if not self.settled and kind != frames.SETTINGS:
                raise ProtocolError(ErrorCode.PROTOCOL_ERROR, "the connection does not begin with SETTINGS")
            try:
                if kind <= frames.CONTINUATION:
                    self._handlers[kind](flags, stream_id & frames.STREAM_ID_LIMIT, data[start:end])
                else:
                    self._budget.idle.spend(self._now_s)
            except StreamError as error:
                self._reset_for(error)
            position = end
        self._needed = frames.HEADER_BYTES
        return position

    def _on_data(self, flags: int, stream_id: int, payload: bytes) -> None:
        size = len(payload)
        self._count(size)
        stream = self.streams.get(stream_id)
        if stream is None or stream.remote_closed:
            self.table.check_late_data(stream_id)
            return
        if size > stream.receive_window:
            raise StreamError(stream_id, ErrorCode.FLOW_CONTROL_ERROR, "more data than the stream's window")
        stream.receive_window -= size
        if flags & frames.PADDED:
            payload = frames.unpadded(flags, payload)
            self.credit(stream, size - len(payload))
        ended = bool(flags & frames.END_STREAM)
        if not payload and not ended:
            self._budget.idle.spend(self._now_s)
            return
        if stream.content_left is not None:
            stream.content_left -= len(payload)
            stream.check_content(ended=ended)
        if not self._is_server and not stream.headers_seen:
            raise StreamError(stream_id, ErrorCode.PROTOCOL_ERROR, "data before headers")
        if ended:
            self._end_remote(stream)
        self._events.append(DataReceived(stream_id, payload, ended))

    def _on_headers(self, flags: int, stream_id: int, payload: bytes) -> None:
        problem = None
        if stream_id == 0 or stream_id % 2 == 0:
            raise ProtocolError(ErrorCode.PROTOCOL_ERROR, "headers on a stream that no client opens")
        if len(payload) > self._block_bytes_max:
            raise ProtocolError(ErrorCode.ENHANCE_YOUR_CALM, "a header block has more than this end takes")
        payload = frames.unpadded(flags, payload)
        if flags & frames.WITH_PRIORITY:
            if len(payload) < 5:
                raise ProtocolError(ErrorCode.FRAME_SIZE_ERROR, "headers with priority are too short for it")
            problem = dependency_problem(stream_id, payload)
            payload = payload[5:]
        ended = bool(flags & frames.END_STREAM)
        if flags & frames.END_HEADERS:
            self._on_block(stream_id, payload, ended, problem)
            return
        self._block = _Block(stream_id, ended, bytearray(payload), problem=problem)

    def _on_continuation(self, flags: int, stream_id: int, payload: bytes) -> None:
        block = self._block
        if block is None or block.stream_id != stream_id:
            raise ProtocolError(ErrorCode.PROTOCOL_ERROR, "a CONTINUATION that continues nothing")
        block.frames += 1
        block.data += payload
        if block.frames > limits.HTTP2_HEADER_FRAMES_MAX or len(block.data) > self._block_bytes_max:
            raise ProtocolError(ErrorCode.ENHANCE_YOUR_CALM, "a header block has more than this end takes")
        if flags & frames.END_HEADERS:
            self._block = None
            self._on_block(stream_id, bytes(block.data), block.ended, block.problem)

    def _on_block(self, stream_id: int, block: bytes, ended: bool, problem: StreamError | None) -> None:  # noqa: FBT001 - one caller passes a flag of the wire
        head, timeout = self._headers.decode(block)
        stream = self.streams.get(stream_id)
        if stream is None:
            if not self._is_server or stream_id <= self.table.newest:
                self.table.check_late_headers(stream_id)
                return
            stream = self._accept(stream_id, head, problem)
        elif stream.remote_closed:
            raise StreamError(stream_id, ErrorCode.STREAM_CLOSED, "headers after the end of the stream")
        elif problem is not None:
            raise problem
        else:
            self._check_later_head(stream, head, ended=ended)
        if head.content_bytes is not None:
            stream.content_left = head.content_bytes
        stream.headers_seen = stream.headers_seen or head.is_final
        if ended:
            stream.check_content(ended=True)
            self._end_remote(stream)
        self._events.append(HeadersReceived(stream_id, head, ended, timeout))

    def _accept(self, stream_id: int, head: H, problem: StreamError | None) -> Stream:
        self.table.newest = stream_id
        if problem is not None:
            raise problem
        if self._refuses or len(self.streams) >= self._options.streams_max:
            raise StreamError(stream_id, ErrorCode.REFUSED_STREAM, "this end takes no more streams")
        if head.malformed or not head.has_pseudo:
            raise StreamError(stream_id, ErrorCode.PROTOCOL_ERROR, head.malformed or "a request without a path")
        return self.table.add(self._new_stream(stream_id))

    def _new_stream(self, stream_id: int) -> Stream:
        return Stream(stream_id, self.sender.initial_window, self._options.stream_window_bytes)

    @property
    def _last_remote(self) -> int:
        return self.table.newest if self._is_server else 0

    def _check_later_head(self, stream: Stream, head: H, *, ended: bool) -> None:
        problem = head.malformed
        if stream.headers_seen and not ended:
            problem = problem or "trailers that do not end the stream"
        elif stream.headers_seen and head.has_pseudo:
            problem = problem or "pseudo fields in trailers"
        elif not stream.headers_seen and not head.has_pseudo:
            problem = problem or "an answer without a status"
        if problem:
            raise StreamError(stream.id, ErrorCode.PROTOCOL_ERROR, problem)

    def _on_priority(self, _flags: int, stream_id: int, payload: bytes) -> None:
        if stream_id == 0:
            raise ProtocolError(ErrorCode.PROTOCOL_ERROR, "priority of no stream")
        self._budget.idle.spend(self._now_s)
        if len(payload) != 5:
            raise StreamError(stream_id, ErrorCode.FRAME_SIZE_ERROR, "a PRIORITY frame has five bytes")
        problem = dependency_problem(stream_id, payload)
        if problem is not None:
            raise problem

    def _on_rst_stream(self, _flags: int, stream_id: int, payload: bytes) -> None:
        if len(payload) != 4:
            raise ProtocolError(ErrorCode.FRAME_SIZE_ERROR, "a RST_STREAM frame has four bytes")
        self.table.check_not_idle(stream_id)
        stream = self.streams.get(stream_id)
        (self._budget.idle if stream is None else self._budget.resets).spend(self._now_s)
        if stream is not None:
            self._drop(stream)
            self._events.append(StreamReset(stream_id, int.from_bytes(payload, "big"), by_peer=True))

    def _on_settings(self, flags: int, stream_id: int, payload: bytes) -> None:
        if stream_id:
            raise ProtocolError(ErrorCode.PROTOCOL_ERROR, "settings of a stream")
        if flags & frames.ACK:
            if payload:
                raise ProtocolError(ErrorCode.FRAME_SIZE_ERROR, "an acknowledgement of settings is empty")
            return
        if len(payload) % 6 or len(payload) > 6 * limits.HTTP2_SETTINGS_ENTRIES_MAX:
            raise ProtocolError(ErrorCode.FRAME_SIZE_ERROR, "settings have six bytes each, and are few")
        self._spend_control()
        for name, value in frames.read_settings(payload):
            self._set(name, value)
        self.sender.output.append(frames.frame(frames.SETTINGS, frames.ACK, 0))
        self.settled = True
        self._events.append(Settled())
        self._pushed(self.sender.push(None))

    def _set(self, name: int, value: int) -> None:
        sender = self.sender
        if name == Setting.INITIAL_WINDOW_SIZE:
            if value > frames.WINDOW_LIMIT:
                raise ProtocolError(ErrorCode.FLOW_CONTROL_ERROR, "the initial window is beyond its limit")
            change, sender.initial_window = value - sender.initial_window, value
            for stream in self.streams.values():
                stream.send_window += change
                if stream.send_window > frames.WINDOW_LIMIT:
                    raise ProtocolError(ErrorCode.FLOW_CONTROL_ERROR, "settings grow a window beyond its limit")
        elif name == Setting.MAX_FRAME_SIZE:
            if not frames.FRAME_BYTES_DEFAULT <= value <= frames.FRAME_BYTES_LIMIT:
                raise ProtocolError(ErrorCode.PROTOCOL_ERROR, "the largest frame is outside its bounds")
            sender.frame_bytes_max = min(value, limits.HTTP2_FRAME_BYTES_MAX)
        elif name == Setting.MAX_CONCURRENT_STREAMS:
            self.peer_streams_max = value
        elif name == Setting.ENABLE_PUSH and (value > 1 or (value and not self._is_server)):
            raise ProtocolError(ErrorCode.PROTOCOL_ERROR, "push is on or off, and a server's is off")

    def _on_push_promise(self, _flags: int, _stream_id: int, _payload: bytes) -> None:
        raise ProtocolError(ErrorCode.PROTOCOL_ERROR, "nothing may be pushed to this end")

    def _on_ping(self, flags: int, stream_id: int, payload: bytes) -> None:
        if stream_id:
            raise ProtocolError(ErrorCode.PROTOCOL_ERROR, "a ping on a stream")
        if len(payload) != 8:
            raise ProtocolError(ErrorCode.FRAME_SIZE_ERROR, "a ping has eight bytes")
        if flags & frames.ACK:
            self._events.append(PingAnswered(payload))
            return
        self._spend_control()
        self.sender.output.append(frames.frame(frames.PING, frames.ACK, 0, payload))

    def _on_goaway(self, _flags: int, stream_id: int, payload: bytes) -> None:
        if stream_id:
            raise ProtocolError(ErrorCode.PROTOCOL_ERROR, "a GOAWAY of a stream")
        if len(payload) < 8:
            raise ProtocolError(ErrorCode.FRAME_SIZE_ERROR, "a GOAWAY has eight bytes at least")
        last = int.from_bytes(payload[:4], "big") & frames.STREAM_ID_LIMIT
        code = int.from_bytes(payload[4:8], "big")
        self._events.append(GoingAway(last, code, payload[8:264].decode(errors="replace")))

    def _on_window_update(self, _flags: int, stream_id: int, payload: bytes) -> None:
        if len(payload) != 4:
            raise ProtocolError(ErrorCode.FRAME_SIZE_ERROR, "credit has four bytes")
        self._restore()
        self._budget.idle.spend(self._now_s)
        size = int.from_bytes(payload, "big") & frames.WINDOW_LIMIT
        stream = None
        if stream_id:
            self.table.check_not_idle(stream_id)
            stream = self.streams.get(stream_id)
            if stream is None:
                return
        if size == 0 and stream is not None:
            raise StreamError(stream_id, ErrorCode.PROTOCOL_ERROR, "credit of nothing")
        if size == 0:
            raise ProtocolError(ErrorCode.PROTOCOL_ERROR, "credit of nothing")
        self.sender.add_window(stream, size)
        self._pushed(self.sender.push(stream))

    # Rules that several frames share.

    def _end_remote(self, stream: Stream) -> None:
        stream.remote_closed = True
        if stream.local_closed:
            self._drop(stream)

    def _drop(self, stream: Stream) -> None:
        self.streams.pop(stream.id, None)
        self.sender.drop(stream)

    def _reset_for(self, error: StreamError) -> None:
        """End a stream for a fault of the peer, which costs it as much as a reset of its own."""
        self._budget.resets.spend(self._now_s)
        self.sender.output.append(frames.rst_stream(error.stream_id, error.code))
        self.table.remember_reset(error.stream_id)
        stream = self.streams.get(error.stream_id)
        if stream is not None:
            self._drop(stream)
            self._events.append(StreamReset(error.stream_id, error.code, by_peer=False, reason=str(error)))

    def _count(self, size: int) -> None:
        """Bytes of the connection; streams bound what is kept, so credit is given at once."""
        self._receive_window -= size
        if self._receive_window < 0:
            raise ProtocolError(ErrorCode.FLOW_CONTROL_ERROR, "more data than the connection's window")
        self._receive_due += size
        if self._receive_due * 4 >= limits.HTTP2_CONNECTION_WINDOW_BYTES:
            self.sender.output.append(frames.window_update(0, self._receive_due))
            self._receive_window += self._receive_due
            self._receive_due = 0

    def _grant(self, stream: Stream, size: int) -> None:
        stream.receive_due = max(0, stream.receive_due - size)
        stream.receive_window += size
        self.sender.output.append(frames.window_update(stream.id, size))

    def _restore(self) -> None:
        sent = self.sender.data_frames - self._restored_frames
        if sent:
            self._restored_frames = self.sender.data_frames
            self._budget.idle.restore(sent * limits.HTTP2_IDLE_FRAMES_FOR_DATA)
            self._budget.control.restore(sent)

    def _spend_control(self) -> None:
        self._restore()
        self._budget.control.spend(self._now_s)

    def _pushed(self, streams: list[Stream]) -> None:
        for stream in streams:
            if stream.local_closed:
                self.close(stream)
            self._events.append(StreamSent(stream.id))

    def _fail(self, error: ProtocolError) -> None:
        self.failed = True
        self._rest.clear()
        self.sender.output.append(frames.goaway(self._last_remote, error.code, str(error)))
        self._events.append(ConnectionFailed(error.code, str(error)))
