"""Requests that arrive in parts, on one connection: few large ones at a time, and a bound for all of a server's."""

from typing import Protocol

from danube.model.errors import LimitReachedError
from danube.model.limits.broker import RPC_REQUESTS_ARRIVING_MAX
from danube.model.limits.http2 import HTTP2_REQUESTS_BYTES_MAX


class Arriving(Protocol):
    """A call whose message is larger than the window of its stream."""

    def let_in(self) -> None:
        """Give the peer credit for the rest of the message."""


class PartialRequests:
    """Bytes of a server's requests that are not whole."""

    __slots__ = ("bytes",)

    def __init__(self) -> None:
        self.bytes = 0

    def change(self, size: int) -> None:
        """Count bytes in, or out. Raises LimitReachedError when they are too many."""
        self.bytes += size
        if size > 0 and self.bytes > HTTP2_REQUESTS_BYTES_MAX:
            raise LimitReachedError("this server has as many requests under way as it takes: try again later")


class Arrivals:
    """Turns of the calls of one connection."""

    __slots__ = ("_turns", "_waiting")

    def __init__(self) -> None:
        self._turns: dict[Arriving, None] = {}
        self._waiting: dict[Arriving, None] = {}

    def ask(self, call: Arriving) -> None:
        """Let the call in, now or in its turn."""
        if call in self._turns or len(self._turns) < RPC_REQUESTS_ARRIVING_MAX:
            self._turns[call] = None
            call.let_in()
        else:
            self._waiting[call] = None

    def leave(self, call: Arriving) -> None:
        """The call has its message, or has ended."""
        self._waiting.pop(call, None)
        if self._turns.pop(call, self) is None and self._waiting:
            following = next(iter(self._waiting))
            del self._waiting[following]
            self.ask(following)
