"""The answering end of one stream at a server."""

from collections import deque

from danube.model.errors import DanubeError, DeadlineExceededError, InvalidRequestError
from danube.model.limits.http2 import HTTP2_TURN_BYTES
from danube.rpc.answer import status_for
from danube.rpc.carrier import StreamFactory, StreamHandler
from danube.rpc.http2.protocol.heads import RequestHead
from danube.rpc.http2.protocol.messages import PREFIX_BYTES, MessageReader
from danube.rpc.http2.protocol.sender import ANSWER_HEADERS, OK_TRAILERS
from danube.rpc.http2.protocol.streams import Stream
from danube.rpc.http2.server.end import ServerEnd
from danube.rpc.http2.server.methods import Method
from danube.rpc.stream import AnsweringStream

_WRITES_APART = ("grpc-python", "grpc-c")
"""Peers whose reading costs three times as much where several messages arrive in one piece."""


class Http2ServerStream(AnsweringStream):
    """A server stream, or one with messages both ways. The connection calls `pump` once after `advance`."""

    def __init__(self, connection: ServerEnd, stream: Stream, method: Method, head: RequestHead) -> None:
        side = connection.side
        caller = connection.caller_of(head)
        super().__init__(method.path, caller, side.options, side.memory, both_ways=method.both_ways)
        self.stream = stream
        self._connection = connection
        self._both_ways = method.both_ways
        self._factory: StreamFactory | None = method.factory
        self._handler: StreamHandler | None = None
        self._reader = MessageReader(side.options.receive_bytes_max)
        self._held_bytes = 0
        self._held: deque[bytes] = deque()
        """Messages that the handler has not been given."""
        self._half_closed = False
        self._half_close_told = False
        self._opened = False
        self._writes_apart = caller.user_agent.startswith(_WRITES_APART)
        if method.both_ways:
            connection.connection.widen(stream, side.options.inbound_bytes_max)
            self._start()

    def advance(self) -> None:
        self._connection.mark(self)

    # For the connection.

    def receive(self, data: bytes, *, ended: bool) -> None:
        """Bytes of messages."""
        try:
            messages = self._reader.feed(data)
            self._count_held(self._reader.held_bytes)
        except DanubeError as error:
            self._lose(error)
            return
        self._held.extend(messages)
        if self._reader.missing_bytes > self.stream.receive_window:
            self._connection.arrivals.ask(self)
        elif messages:
            self._connection.arrivals.leave(self)
        if ended:
            self.half_close()
        elif self._both_ways:
            self._deliver()

    def half_close(self) -> None:
        """The peer sends nothing more."""
        self._half_closed = True
        if self._held_bytes:
            self._lose(InvalidRequestError("the stream ended inside a message"))
            return
        if not self._both_ways:
            if len(self._held) != 1:
                self._lose(InvalidRequestError(f"the call has {len(self._held)} messages: send one"))
                return
            self._start()
        self._deliver()

    def let_in(self) -> None:
        """Give the peer credit for the rest of the message."""
        self._connection.connection.let_in(self.stream, self._reader.missing_bytes)

    def sent(self) -> None:
        """The message that waited for credit has left."""
        if not self._over and len(self._outbox):
            if self._outbox.sent() and self._handler is not None:
                self._tell(self._handler.on_ready)
            self.advance()

    def expire(self) -> None:
        """The deadline has passed."""
        self._lose(DeadlineExceededError("the stream's deadline has passed"))

    def lose(self, error: DanubeError | None) -> None:
        """End the stream; without an error the peer is gone."""
        if error is not None:
            self._lose(error)
        elif not self._over:
            is_open = self._answers
            self._end()
            self._tell_end(is_open=is_open)

    def pump(self) -> None:
        """Do what is due."""
        if self._over:
            return
        if self._failure is None:
            self._deliver()
            self._send()
        if self._failure is not None:
            status = self._failure
            self._connection.fail_stream(self, status, opened=self._opened)
            self._end()
        elif self._finished and not len(self._outbox):
            self._open_now()
            sender = self._connection.connection.sender
            sender.finish(self.stream, OK_TRAILERS)
            self._end()

    def release(self) -> None:
        """Nothing of the stream is left."""
        self._count_held(0)
        self._connection.arrivals.leave(self)

    def _start(self) -> None:
        factory, self._factory = self._factory, None
        if factory is None or not self._answers:
            return
        try:
            self._handler = factory(self)
        except Exception as error:
            self.fail(error)

    def _deliver(self) -> None:
        handler = self._handler
        if handler is None:
            return
        while self._held and self._answers and not self._paused:
            message = self._held.popleft()
            self._connection.connection.credit(self.stream, len(message) + PREFIX_BYTES)
            self._tell(handler.on_message, message)
        if self._half_closed and not (self._held or self._paused or self._half_close_told):
            self._half_close_told = True
            self._tell(handler.on_half_close)

    def _send(self) -> None:
        connection, stream, outbox = self._connection, self.stream, self._outbox
        if self._open_wanted or len(outbox):
            self._open_now()
        turn_bytes = 0
        while len(outbox) and stream.pending is None and self._failure is None:
            if connection.writes_paused:
                connection.hold(self)
                return
            if turn_bytes >= HTTP2_TURN_BYTES:
                connection.mark(self)
                return
            message = outbox.head
            turn_bytes += len(message) + PREFIX_BYTES
            if not connection.connection.sender.message(stream, message):
                return
            if self._writes_apart:
                connection.write_now()
            else:
                connection.count_unwritten(len(message))
            if outbox.sent() and self._handler is not None:
                self._tell(self._handler.on_ready)
        if not len(outbox) and outbox.ready() and self._handler is not None:
            self._tell(self._handler.on_ready)

    def _open_now(self) -> None:
        if not self._opened:
            self._opened = True
            self._connection.connection.sender.headers(self.stream, ANSWER_HEADERS)

    def _lose(self, error: DanubeError) -> None:
        """End the stream for a reason that is not its handler's."""
        if self._over:
            return
        is_open = self._answers
        self._failure = status_for(error, self._path)
        self.advance()
        self._tell_end(is_open=is_open)

    def _tell_end(self, *, is_open: bool) -> None:
        handler, self._handler = self._handler, None
        if is_open and handler is not None:
            self._tell_cancelled(handler)

    def _end(self) -> None:
        self._over = True
        self._held.clear()
        self._outbox.close()
        if self._handler is not None and self._failure is not None:
            self._handler = None
        self._connection.release(self)

    def _count_held(self, size: int) -> None:
        change, self._held_bytes = size - self._held_bytes, size
        self._connection.side.partial.change(change)
