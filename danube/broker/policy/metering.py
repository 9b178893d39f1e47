"""Quotas at the door: what a call or a stream sends and gets is counted for its namespace and its principal.

What is above a rate waits: a message before its handler sees it, an answer before it is asked for.
"""

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from danube.broker.policy.quotas import Account, delay_of
from danube.model.errors import DanubeError, InternalError
from danube.rpc.carrier import Caller, ServerStream, StreamFactory, StreamHandler, UnaryCall, UnaryHandler
from danube.runtime.clock import Clock, TimerHandle

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
        return _MeteredStream(counted, handler, find, clock)

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


class _CountedStream:
    """The answering end of a stream, which has room only while its accounts may get more."""

    def __init__(self, stream: ServerStream, clock: Clock) -> None:
        self._stream = stream
        self._clock = clock
        self._accounts: Sequence[Account] = ()
        self._wake: TimerHandle | None = None
        self._is_over = False
        self.on_room: Callable[[], None] = lambda: None
        self.open = stream.open
        self.pause_reading = stream.pause_reading
        self.resume_reading = stream.resume_reading

    @property
    def caller(self) -> Caller:
        return self._stream.caller

    @property
    def is_left(self) -> bool:
        return self._stream.is_left

    @property
    def room(self) -> int:
        now_s = self._clock.monotonic_s()
        wait_s = max((account.wait_out_s(now_s) for account in self._accounts), default=0.0)
        if not wait_s:
            return self._stream.room
        if self._wake is None and not self._is_over:
            self._wake = self._clock.call_at(now_s + wait_s, self._woken)
        return 0

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
        now_s = self._clock.monotonic_s()
        for account in self._accounts:
            account.use_out(len(message), now_s)
        self._stream.write(message)

    def finish(self) -> None:
        self.end()
        self._stream.finish()

    def fail(self, error: DanubeError) -> None:
        self.end()
        self._stream.fail(error)

    def end(self) -> None:
        """The stream is over, and counts no more. Idempotent."""
        if self._wake is not None:
            self._wake.cancel()
            self._wake = None
        if not self._is_over:
            self._is_over = True
            for account in self._accounts:
                account.streams -= 1

    def _woken(self) -> None:
        self._wake = None
        self.on_room()


class _MeteredStream:
    """A handler that gets its messages as its accounts may send them; those that wait are in the order they came."""

    def __init__(self, stream: _CountedStream, handler: StreamHandler, find: Find, clock: Clock) -> None:
        self._stream = stream
        self._handler = handler
        self._find = find
        self._clock = clock
        self._accounts: list[Account] | None = None
        self._held: deque[bytes | None] = deque()
        """Messages that wait, and None for the end of them."""
        self._wake: TimerHandle | None = None

    def on_message(self, message: bytes) -> None:
        if self._accounts is None:
            accounts = self._find(message)
            self._stream.begin(accounts)
            self._accounts = accounts
        now_s = self._clock.monotonic_s()
        for account in self._accounts:
            account.check_room()
        wait_s = max((account.wait_in_s(now_s) for account in self._accounts), default=0.0)
        for account in self._accounts:
            account.use_in(len(message), now_s)
        if not wait_s and not self._held:
            self._handler.on_message(message)
            return
        self._held.append(message)
        self._stream.pause_reading()
        if self._wake is None:
            self._wake = self._clock.call_at(now_s + wait_s, self._deliver)

    def on_half_close(self) -> None:
        if self._held:
            self._held.append(None)
        else:
            self._handler.on_half_close()

    def on_ready(self) -> None:
        self._handler.on_ready()

    def on_cancel(self) -> None:
        if self._wake is not None:
            self._wake.cancel()
            self._wake = None
        self._held.clear()
        self._stream.end()
        self._handler.on_cancel()

    def _deliver(self) -> None:
        """Everything that was held; reading was paused, so it is little."""
        self._wake = None
        self._stream.resume_reading()
        try:
            while self._held:
                message = self._held.popleft()
                if message is None:
                    self._handler.on_half_close()
                else:
                    self._handler.on_message(message)
        except DanubeError as error:
            self._stream.fail(error)
