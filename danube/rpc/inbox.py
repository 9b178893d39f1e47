"""Inbox of one stream at a client: messages that were not read yet, and how the stream ended."""

from collections import deque

from danube.model.errors import DanubeError
from danube.rpc.carrier import CarrierOptions
from danube.runtime.tasks import Wakeup


class Inbox:
    """Messages in order, then the end. Cancelling a waiting `get` loses nothing."""

    __slots__ = ("_bytes", "_bytes_max", "_changed", "_error", "_messages", "_messages_max", "ended")

    def __init__(self, options: CarrierOptions) -> None:
        self._messages: deque[bytes] = deque()
        self._bytes = 0
        self._bytes_max = options.inbound_bytes_max
        self._messages_max = options.inbound_messages_max
        self._error: DanubeError | None = None
        self._changed = Wakeup()
        self.ended = False
        """True if nothing more will be put."""

    @property
    def full(self) -> bool:
        """True if the transport should hold back."""
        return len(self._messages) >= self._messages_max or self._bytes >= self._bytes_max

    def put(self, message: bytes) -> None:
        """Add a message."""
        self._messages.append(message)
        self._bytes += len(message)
        self._changed.notify()

    def end(self, error: DanubeError | None) -> None:
        """Nothing follows what is here; None is an end with OK. Only the first end counts."""
        if not self.ended:
            self.ended, self._error = True, error
        self._changed.notify()

    def drop(self, error: DanubeError) -> None:
        """End at once: what is here is not delivered."""
        self._messages.clear()
        self._bytes = 0
        self.ended, self._error = True, error
        self._changed.notify()

    def raise_if_failed(self) -> None:
        """Raise the error of the end, if it came with one."""
        if self._error is not None:
            raise self._error

    async def get(self) -> bytes | None:
        """The next message; None after the last. Raises the error of the end."""
        while not self._messages:
            if self.ended:
                self.raise_if_failed()
                return None
            await self._changed.wait()
        message = self._messages.popleft()
        self._bytes -= len(message)
        self._changed.notify()
        return message

    async def changed(self) -> None:
        """Return after the next change."""
        await self._changed.wait()
