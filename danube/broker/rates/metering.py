"""Quotas at the door: what a call or a stream sends and gets is counted for its namespace and its principal.

What is above a rate waits: a message before its handler sees it, an answer before it is asked for.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial

from danube.broker.rates.quotas import Account, delay_of
from danube.broker.rates.rates import Delayed, RatedStream
from danube.model.errors import DanubeError, InternalError
from danube.rpc.carrier import ServerStream, StreamFactory, StreamHandler, UnaryCall, UnaryHandler
from danube.runtime.clock import Clock

Find = Callable[[bytes], list[Account]]
"""Finds the accounts of a request, of a stream in its first message."""


def metered(handler: UnaryHandler, find: Find, clock: Clock) -> UnaryHandler:
    """The handler of a call that publishes, within the quotas of its accounts."""

    def handle(request: bytes, unary: UnaryCall) -> bytes | None:
        now_s = clock.monotonic_s()
        wait_s = delay_of(find(request), len(request), now_s)
        if not wait_s:
            return handler(request, unary)
        clock.call_at(now_s + wait_s, partial(_handle_later, handler, request, unary))
        return None

    return handle


def metered_stream(factory: StreamFactory, find: Find, clock: Clock) -> StreamFactory:
    """The factory of streams that publish or consume, within the quotas of their accounts."""

    def open_stream(stream: ServerStream) -> StreamHandler:
        counted = _CountedStream(stream, clock)
        handler = factory(counted)
        counted.on_room = handler.on_ready
        return _MeteredStream(counted, handler, find)

    return open_stream


def _handle_later(handler: UnaryHandler, request: bytes, unary: UnaryCall) -> None:
    try:
        answer = handler(request, unary)
    except DanubeError as error:
        unary.fail(error)
    except BaseException:
        unary.fail(InternalError("internal error; the broker's log has the details"))
        raise
    else:
        if answer is not None:
            unary.reply(answer)


class _CountedStream(RatedStream):
    """The answering end of a stream, which has room only while its accounts may get more."""

    def __init__(self, stream: ServerStream, clock: Clock) -> None:
        super().__init__(stream, clock)
        self._accounts: Sequence[Account] = ()

    @property
    def room(self) -> int:
        now_s = self.clock.monotonic_s()
        return self.room_after(max((one.received.wait_s(now_s) for one in self._accounts), default=0.0), now_s)

    def begin(self, accounts: Sequence[Account]) -> None:
        """Count the stream. Raises LimitReachedError."""
        opened: list[Account] = []
        try:
            for account in accounts:
                account.open_stream()
                opened.append(account)
        except DanubeError:
            for account in opened:
                account.streams -= 1
            raise
        self._accounts = accounts

    def write(self, message: bytes) -> None:
        now_s = self.clock.monotonic_s()
        for account in self._accounts:
            account.received.use(len(message), now_s)
        self._stream.write(message)

    def end(self) -> None:
        if not self._is_over:
            for account in self._accounts:
                account.streams -= 1
        super().end()


class _MeteredStream:
    """A handler that gets its messages as its accounts may send them; those that wait are in the order they came."""

    def __init__(self, stream: _CountedStream, handler: StreamHandler, find: Find) -> None:
        self._stream = stream
        self._handler = handler
        self._find = find
        self._accounts: list[Account] | None = None
        self._held = Delayed(stream.clock)
        """Deliveries that wait, the end of the messages among them."""
        self._due_s = 0.0
        """Time of the last of them."""
        self.on_ready = handler.on_ready

    def on_message(self, message: bytes) -> None:
        if self._accounts is None:
            accounts = self._find(message)
            self._stream.begin(accounts)
            self._accounts = accounts
        now_s = self._stream.clock.monotonic_s()
        wait_s = delay_of(self._accounts, len(message), now_s, math.inf)
        if not wait_s and not self._held:
            self._handler.on_message(message)
            return
        self._stream.pause_reading()
        self._due_s = now_s + wait_s
        self._held.add(self._due_s, lambda _error: self._deliver(lambda: self._handler.on_message(message)))

    def on_half_close(self) -> None:
        if self._held:
            self._held.add(self._due_s, lambda _error: self._deliver(self._handler.on_half_close))
        else:
            self._handler.on_half_close()

    def on_cancel(self) -> None:
        self._held.clear()
        self._stream.end()
        self._handler.on_cancel()

    def _deliver(self, deliver: Callable[[], None]) -> None:
        if not self._held:
            self._stream.resume_reading()
        try:
            deliver()
        except DanubeError as error:
            self._held.clear()
            self._stream.fail(error)
