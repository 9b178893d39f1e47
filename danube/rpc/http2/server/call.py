"""One unary call at a server: no coroutine, no task, and no timer of its own."""

from collections.abc import Callable

from danube.model.errors import DanubeError, DeadlineExceededError, InvalidRequestError
from danube.rpc.answer import log_callback_failure, status_for
from danube.rpc.carrier import Caller
from danube.rpc.http2.protocol.heads import RequestHead
from danube.rpc.http2.protocol.messages import PREFIX_BYTES, MessageReader
from danube.rpc.http2.protocol.streams import Stream
from danube.rpc.http2.server.end import ServerEnd
from danube.rpc.http2.server.methods import Method
from danube.wire.status import Status


class Http2Call:
    """One request that is owed one answer."""

    __slots__ = (
        *("_caller", "_callbacks", "_connection", "_held_bytes", "_lost", "_message", "_method", "_reader"),
        *("head", "settled", "stream"),
    )

    def __init__(self, connection: ServerEnd, stream: Stream, method: Method, head: RequestHead) -> None:
        self.stream = stream
        self.head = head
        self.settled = False
        """True once the call has its answer, or its peer is gone."""
        self._connection = connection
        self._method = method
        self._caller: Caller | None = None
        self._callbacks: list[Callable[[], None]] | None = None
        self._reader: MessageReader | None = None
        self._message: bytes | None = None
        self._held_bytes = 0
        self._lost = False

    # For handlers.

    @property
    def caller(self) -> Caller:
        """The caller."""
        if self._caller is None:
            self._caller = self._connection.caller_of(self.head)
        return self._caller

    def reply(self, response: bytes) -> None:
        """Answer the call."""
        if not self.settled:
            self.settled = True
            self._callbacks = None
            self._connection.answer(self, response)

    def fail(self, error: DanubeError) -> None:
        """Fail the call."""
        if not self.settled:
            self._settle(status_for(error, self._method.path))

    def on_cancel(self, callback: Callable[[], None]) -> None:
        """Have `callback` called if the call ends before it is answered; at once if it has."""
        if self._lost:
            self._run(callback)
        elif not self.settled:
            self._callbacks = [*(self._callbacks or ()), callback]

    # For the connection.

    def receive(self, data: bytes, *, ended: bool) -> None:
        """Bytes of the request."""
        size = len(data) - PREFIX_BYTES
        if (
            ended
            and self._reader is None
            and data[:1] == b"\0"
            and size == int.from_bytes(data[1:PREFIX_BYTES], "big")
            and size <= self._connection.side.options.receive_bytes_max
        ):
            self._ask(data[PREFIX_BYTES:])
            return
        try:
            self._receive_part(data)
        except DanubeError as error:
            self.lose(error)
            return
        if ended:
            self.half_close()

    def half_close(self) -> None:
        """The peer sends nothing more."""
        if self.settled:
            return
        message, self._message = self._message, None
        if self._held_bytes:
            self.lose(InvalidRequestError("the call ended inside a message"))
        elif message is None:
            self.lose(InvalidRequestError("the call has no message: send one"))
        else:
            self._ask(message)

    def let_in(self) -> None:
        """Give the peer credit for the rest of the message."""
        if self._reader is not None:
            self._connection.connection.let_in(self.stream, self._reader.missing_bytes)

    def sent(self) -> None:
        """The answer that waited for credit has left."""
        self._connection.forget(self)

    def expire(self) -> None:
        """The deadline has passed."""
        if self.settled:  # answered, and the answer waits for credit
            self._connection.drop(self)
        else:
            self.lose(DeadlineExceededError("the call's deadline passed before its answer"))

    def lose(self, error: DanubeError | None) -> None:
        """End the call unanswered; without an error the peer is gone. Runs the cancel callbacks."""
        if self.settled:
            return
        callbacks = self._callbacks or ()
        self._lost = True
        if error is None:
            _ = callbacks and self.caller  # callbacks may name who left
            self.settled = True
            self._callbacks = None
        else:
            self._settle(status_for(error, self._method.path))
        for callback in callbacks:
            self._run(callback)

    def release(self) -> None:
        """Nothing of the call is left."""
        if self._reader is not None:
            self._count_held(0)
            self._reader = None
            self._connection.arrivals.leave(self)

    def _receive_part(self, data: bytes) -> None:
        if self.settled:
            return
        if self._reader is None:
            self._reader = MessageReader(self._connection.side.options.receive_bytes_max)
        messages = self._reader.feed(data)
        self._count_held(self._reader.held_bytes)
        if len(messages) + (self._message is not None) > 1:
            raise InvalidRequestError("the call has more than one message: send one")
        if messages:
            self._message = messages[0]
        if self._reader.missing_bytes > self.stream.receive_window:
            self._connection.arrivals.ask(self)

    def _count_held(self, size: int) -> None:
        change, self._held_bytes = size - self._held_bytes, size
        self._connection.side.partial.change(change)

    def _ask(self, request: bytes) -> None:
        if self.settled:
            return
        try:
            response = self._method.unary(request, self)  # type: ignore[misc]  # the connection made this for a unary one
        except Exception as error:
            if not self.settled:
                self._settle(status_for(error, self._method.path))
            return
        if response is not None:
            self.reply(response)

    def _settle(self, status: Status) -> None:
        self.settled = True
        self._callbacks = None
        self._connection.refuse(self, status)

    def _run(self, callback: Callable[[], None]) -> None:
        try:
            callback()
        except Exception as error:
            log_callback_failure(error, self._method.path)
