"""Streams of a connection: their state, and what is known of those that are closed."""

from collections import OrderedDict

from danube.model.limits import http2 as limits
from danube.rpc.http2.protocol.frames import STREAM_ID_LIMIT, ErrorCode, ProtocolError, StreamError


class Stream:
    """State of one stream, both halves."""

    __slots__ = (
        *("content_left", "headers_seen", "id", "local_closed", "remote_closed"),
        *("receive_due", "receive_target", "receive_window", "send_window"),
        *("pending", "pending_trailers"),
    )

    def __init__(self, stream_id: int, send_window: int, receive_window: int) -> None:
        self.id = stream_id
        self.send_window = send_window
        self.receive_window = receive_window
        """Bytes that the peer may still send."""
        self.receive_target = receive_window
        """Window that credit fills up to."""
        self.receive_due = 0
        """Bytes that were consumed, and for which no credit was sent."""
        self.headers_seen = False
        self.content_left: int | None = None
        """Bytes that are to come by the peer's content-length."""
        self.remote_closed = False
        self.local_closed = False
        self.pending: memoryview | None = None
        """Bytes that wait for credit."""
        self.pending_trailers: bytes | None = None
        """Block that ends the stream after them; empty for an end without trailers."""

    def check_content(self, *, ended: bool) -> None:
        """Raise StreamError where the peer sent another length than it said."""
        left = self.content_left
        if left is not None and (left < 0 or (ended and left > 0)):
            raise StreamError(self.id, ErrorCode.PROTOCOL_ERROR, "another length than the peer said")


class StreamTable:
    """Streams of one connection, by their numbers. Only clients open streams, with odd numbers."""

    def __init__(self, *, is_server: bool) -> None:
        self.open: dict[int, Stream] = {}
        """Streams that are open in at least one direction."""
        self.newest = 0
        """Number of the newest stream that was opened, by either end."""
        self._is_server = is_server
        self._reset_here: OrderedDict[int, None] = OrderedDict()

    @property
    def has_numbers(self) -> bool:
        """False once all numbers of streams are used up."""
        return self.newest + 2 <= STREAM_ID_LIMIT

    def next_number(self) -> int:
        """Number of the next stream of this client."""
        return self.newest + 2 if self.newest else 1

    def add(self, stream: Stream) -> Stream:
        """Open a stream, whose number is the newest."""
        self.newest = stream.id
        self.open[stream.id] = stream
        return stream

    def remember_reset(self, stream_id: int) -> None:
        """This end reset the stream: frames that were on their way are ignored."""
        self._reset_here[stream_id] = None
        if len(self._reset_here) > limits.HTTP2_RESET_STREAMS_REMEMBERED:
            self._reset_here.popitem(last=False)

    def check_not_idle(self, stream_id: int) -> None:
        """Raise ProtocolError for a stream that was never opened."""
        if stream_id == 0 or stream_id > self.newest or stream_id % 2 == 0:
            raise ProtocolError(ErrorCode.PROTOCOL_ERROR, "a frame on a stream that is not open")

    def check_late_data(self, stream_id: int) -> None:
        """Raise for data on a stream that is closed, unless it was reset while they were on their way."""
        self.check_not_idle(stream_id)
        if self._is_server and stream_id not in self._reset_here:
            raise StreamError(stream_id, ErrorCode.STREAM_CLOSED, "data after the end of the stream")

    def check_late_headers(self, stream_id: int) -> None:
        """The same for headers."""
        self.check_not_idle(stream_id)
        if self._is_server and stream_id not in self._reset_here:
            raise ProtocolError(ErrorCode.STREAM_CLOSED, "headers on a stream that is closed")


def dependency_problem(stream_id: int, payload: bytes) -> StreamError | None:
    """The fault of the priority that the payload of a frame begins with, or None."""
    if int.from_bytes(payload[:4], "big") & STREAM_ID_LIMIT != stream_id:
        return None
    return StreamError(stream_id, ErrorCode.PROTOCOL_ERROR, "a stream that depends on itself")
