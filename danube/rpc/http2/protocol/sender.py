"""The sending half of a connection: windows, frames, and what waits for credit. Pure."""

from danube.rpc.http2.protocol import frames
from danube.rpc.http2.protocol.frames import ErrorCode, ProtocolError, StreamError
from danube.rpc.http2.protocol.header_blocks import encode
from danube.rpc.http2.protocol.streams import Stream

ANSWER_HEADERS = encode([(b":status", b"200"), (b"content-type", b"application/grpc")])
OK_TRAILERS = encode([(b"grpc-status", b"0")])
_HEAD = frames.frame_header(len(ANSWER_HEADERS), frames.HEADERS, frames.END_HEADERS, 0)[:5]
_TAIL = frames.frame_header(len(OK_TRAILERS), frames.HEADERS, frames.END_HEADERS | frames.END_STREAM, 0)[:5]


class Sender:
    """Frames that one end sends."""

    def __init__(self) -> None:
        self.output: list[bytes | memoryview] = []
        """Frames to write."""
        self.window = frames.WINDOW_DEFAULT
        self.initial_window = frames.WINDOW_DEFAULT
        self.frame_bytes_max = frames.FRAME_BYTES_DEFAULT
        self.data_frames = 0
        """Sent so far."""
        self.pending_bytes = 0
        """Bytes that wait for credit, on all streams."""
        self._blocked: dict[Stream, None] = {}

    def headers(self, stream: Stream, block: bytes, *, ended: bool = False) -> None:
        """Send headers, or trailers with `ended`."""
        self.output.append(frames.header_frames(stream.id, block, ended=ended))
        if ended:
            stream.local_closed = True

    def reply(self, stream: Stream, message: bytes) -> bool:
        """Answer a unary call: headers, one message, trailers. True if all of it has left."""
        size = len(message) + 5
        if size > self.window or size > stream.send_window or size > self.frame_bytes_max:
            self.headers(stream, ANSWER_HEADERS)
            self.message(stream, message)
            return self.finish(stream, OK_TRAILERS)
        self.window -= size
        self.data_frames += 1
        stream.local_closed = True
        number = stream.id.to_bytes(4, "big")
        self.output.append(
            b"".join(
                (
                    *(_HEAD, number, ANSWER_HEADERS),
                    *(size.to_bytes(3, "big"), b"\0\0", number, b"\0", (size - 5).to_bytes(4, "big"), message),
                    *(_TAIL, number, OK_TRAILERS),
                )
            )
        )
        return True

    def message(self, stream: Stream, message: bytes, *, ended: bool = False) -> bool:
        """Send one gRPC message. False if a part of it waits for credit: then `StreamSent` follows."""
        size = len(message) + 5
        if (
            stream.pending is None
            and size <= self.window
            and size <= stream.send_window
            and (size <= self.frame_bytes_max)
        ):
            self.window -= size
            stream.send_window -= size
            self.data_frames += 1
            stream.local_closed = ended
            self.output.append(
                b"".join(
                    (
                        *(size.to_bytes(3, "big"), b"\0\1" if ended else b"\0\0", stream.id.to_bytes(4, "big")),
                        *(b"\0", (size - 5).to_bytes(4, "big"), message),
                    )
                )
            )
            return True
        return self.data(stream, b"".join((b"\0", len(message).to_bytes(4, "big"), message)), ended=ended)

    def data(self, stream: Stream, data: bytes, *, ended: bool = False) -> bool:
        """Send bytes as they are; answers as `message`."""
        before = stream.pending
        stream.pending = memoryview(data if before is None else b"".join((before, data)))
        self.pending_bytes += len(data)
        if ended:
            stream.pending_trailers = b""
        return self._push(stream)

    def finish(self, stream: Stream, trailers: bytes = b"") -> bool:
        """End this half, once what waits has left; with trailers, unless they are empty."""
        if stream.pending is not None:
            stream.pending_trailers = trailers
            return False
        self._close(stream, trailers)
        return True

    def drop(self, stream: Stream) -> None:
        """Forget what waits on a stream that has ended."""
        if stream.pending is not None:
            self.pending_bytes -= len(stream.pending)
            stream.pending = None
        self._blocked.pop(stream, None)

    def add_window(self, stream: Stream | None, size: int) -> None:
        """The peer gives credit; None is the connection. Raises ProtocolError or StreamError."""
        if stream is None:
            self.window += size
            if self.window > frames.WINDOW_LIMIT:
                raise ProtocolError(ErrorCode.FLOW_CONTROL_ERROR, "the connection's window grows beyond its limit")
            return
        stream.send_window += size
        if stream.send_window > frames.WINDOW_LIMIT:
            raise StreamError(stream.id, ErrorCode.FLOW_CONTROL_ERROR, "a stream's window grows beyond its limit")

    def push(self, stream: Stream | None) -> list[Stream]:
        """Send what there is credit for, on one stream or on all; the streams whose bytes have all left."""
        candidates = tuple(self._blocked) if stream is None else (stream,)
        sent: list[Stream] = []
        for each in candidates:
            if self.window <= 0:
                break
            if each.pending is not None and self._push(each):
                sent.append(each)
        return sent

    def _push(self, stream: Stream) -> bool:
        pending = stream.pending
        assert pending is not None  # noqa: S101 - callers have checked it, and types cannot tell
        left = len(pending)
        while left:
            size = min(left, self.window, stream.send_window, self.frame_bytes_max)
            if size <= 0:
                stream.pending = pending
                self._blocked.pop(stream, None)
                self._blocked[stream] = None  # at the end: streams share the connection's window in turns
                return False
            left -= size
            ended = not left and stream.pending_trailers == b""
            self.output.append(frames.frame_header(size, frames.DATA, frames.END_STREAM if ended else 0, stream.id))
            self.output.append(pending[:size])
            pending = pending[size:]
            self.window -= size
            stream.send_window -= size
            self.pending_bytes -= size
            self.data_frames += 1
        stream.pending = None
        self._blocked.pop(stream, None)
        if stream.pending_trailers:
            self.headers(stream, stream.pending_trailers, ended=True)
        elif stream.pending_trailers is not None:
            stream.local_closed = True
        return True

    def _close(self, stream: Stream, trailers: bytes) -> None:
        if trailers:
            self.headers(stream, trailers, ended=True)
        else:
            self.output.append(frames.frame(frames.DATA, frames.END_STREAM, stream.id))
            stream.local_closed = True
