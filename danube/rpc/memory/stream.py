"""A stream between two ends in one process.

What one end does reaches the other in a later turn of the event loop, in order, so that no callback runs inside
another: the same a network would give, and the same on every run.
"""

import asyncio
from collections import deque
from collections.abc import Callable

from danube.model import errors
from danube.model.errors import DanubeError
from danube.rpc.carrier import Caller, CarrierOptions, StreamFactory, StreamHandler
from danube.rpc.inbox import Inbox
from danube.rpc.stream import AnsweringStream
from danube.rpc.stream_memory import StreamMemory
from danube.runtime.tasks import Wakeup
from danube.wire.status import Status, error_from


class MemoryStream(AnsweringStream):
    """The server's end, and what crosses between it and its `MemoryClientStream`."""

    def __init__(
        self, path: str, caller: Caller, options: CarrierOptions, memory: StreamMemory, *, both_ways: bool
    ) -> None:
        super().__init__(path, caller, options, memory, both_ways=both_ways)
        self._options = options
        self._at_end: list[Callable[[], None]] = []
        self._handler: StreamHandler | None = None
        self._requests: deque[bytes] = deque()
        self._half_closed = False
        self._half_close_told = False
        self._turn_due = False
        self.inbox = Inbox(options)
        self.opened = False
        self.changed = Wakeup()
        """Notified when the client may send again, and when the stream opened or ended."""

    # The client's end.

    @property
    def holds_requests(self) -> bool:
        """True if the server holds as many requests as it may."""
        return len(self._requests) >= self._options.inbound_messages_max

    def at_end(self, callback: Callable[[], None]) -> None:
        """Have `callback` called when the stream has ended."""
        self._at_end.append(callback)

    def start(self, factory: StreamFactory) -> None:
        """Open the stream in a turn of its own."""
        asyncio.get_running_loop().call_soon(self._start, factory)

    def refuse(self, status: Status) -> None:
        """End the stream before it has a handler."""
        self._failure = status
        self.advance()

    def request(self, message: bytes) -> None:
        """Hand a message to the server."""
        if len(message) > self._options.receive_bytes_max:
            self.lose(errors.LimitReachedError("the message is larger than this server takes"))
            return
        self._requests.append(message)
        self.advance()

    def half_close(self) -> None:
        """Tell the server that nothing more will come."""
        self._half_closed = True
        self.advance()

    def lose(self, error: DanubeError) -> None:
        """End both ends: the client left, the time is up, or the server stopped. The client gets `error`."""
        if self._over:
            return
        told = self._answers
        self._end(error)
        if told and self._handler is not None:
            asyncio.get_running_loop().call_soon(self._tell_cancelled, self._handler)

    # What crosses.

    def advance(self) -> None:
        if not self._turn_due and not self._over:
            self._turn_due = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _start(self, factory: StreamFactory) -> None:
        if not self._answers:
            return
        try:
            self._handler = factory(self)
        except Exception as error:
            self.fail(error)
        self.advance()

    def _turn(self) -> None:
        self._turn_due = False
        if self._handler is not None:
            self._carry_requests(self._handler)
        self._carry_answers()
        self.changed.notify()

    def _carry_requests(self, handler: StreamHandler) -> None:
        while self._requests and self._answers and not self._paused:
            self._tell(handler.on_message, self._requests.popleft())
        drained = not self._requests and not self._paused
        if self._half_closed and drained and self._answers and not self._half_close_told:
            self._half_close_told = True
            self._tell(handler.on_half_close)

    def _carry_answers(self) -> None:
        if self._over:
            return
        if self._failure is not None:
            self._end(error_from(self._failure.code, self._failure.message, self._failure.error_code))
            return
        self.opened = self.opened or self._open_wanted or len(self._outbox) > 0
        self._carry_messages()
        if self._finished and not len(self._outbox) and not self._over:
            self.opened = True
            self._end(None)

    def _carry_messages(self) -> None:
        while len(self._outbox) and not self.inbox.full:
            if len(self._outbox.head) > self._options.receive_bytes_max:
                self.lose(errors.LimitReachedError("the answer is larger than this client takes"))
                return
            self.inbox.put(self._outbox.head)
            if self._outbox.sent() and self._handler is not None:
                self._tell(self._handler.on_ready)
        if self._outbox.ready() and self._handler is not None:
            self._tell(self._handler.on_ready)

    def _end(self, error: DanubeError | None) -> None:
        self._over = True
        self._outbox.close()
        self.inbox.end(error)
        self.changed.notify()
        for callback in self._at_end:
            callback()


class MemoryClientStream:
    """The asking end of a stream in memory."""

    def __init__(self, stream: MemoryStream, *, half_closed: bool = False) -> None:
        self._stream = stream
        self._half_closed = half_closed

    async def send(self, message: bytes) -> None:
        self._check_sending()
        try:
            while self._stream.holds_requests and not self._stream.inbox.ended:
                await self._stream.changed.wait()
        except asyncio.CancelledError:
            self.cancel()
            raise
        self._check_sending()
        self._stream.request(message)

    async def half_close(self) -> None:
        self._half_closed = True
        self._stream.half_close()

    async def opened(self) -> None:
        while not (self._stream.opened or self._stream.inbox.ended):
            await self._stream.changed.wait()
        if not self._stream.opened:
            self._stream.inbox.raise_if_failed()

    async def receive(self) -> bytes | None:
        message = await self._stream.inbox.get()
        self._stream.advance()
        return message

    def cancel(self) -> None:
        error = errors.CancelledError("the stream was cancelled at this end")
        self._stream.is_left = True
        self._stream.lose(error)
        self._stream.inbox.drop(error)

    def _check_sending(self) -> None:
        if self._half_closed:
            raise errors.InvalidRequestError("the stream was half-closed: nothing more can be sent on it")
        if self._stream.inbox.ended:
            self._stream.inbox.raise_if_failed()
            raise errors.UnavailableError("the server ended the stream: open a new one")
