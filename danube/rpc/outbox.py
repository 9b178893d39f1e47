"""What a server wrote to one stream and its transport has not taken yet: bounded, and telling of room."""

from collections import deque

from danube.model.errors import OverloadedError


class Outbox:
    """A queue of messages, bounded in bytes and in messages."""

    __slots__ = ("_bytes", "_bytes_max", "_exhausted", "_messages", "_messages_max")

    def __init__(self, bytes_max: int, messages_max: int) -> None:
        self._messages: deque[bytes] = deque()
        self._bytes = 0
        self._bytes_max = bytes_max
        self._messages_max = messages_max
        self._exhausted = False

    def __len__(self) -> int:
        return len(self._messages)

    @property
    def room(self) -> int:
        """Bytes that still fit; 0 or less when nothing may be put."""
        return 0 if len(self._messages) >= self._messages_max else self._bytes_max - self._bytes

    @property
    def head(self) -> bytes:
        """The message to send next. It counts as queued until `sent`."""
        return self._messages[0]

    def put(self, message: bytes) -> None:
        """Queue a message, of any size as long as there is some room. Raises OverloadedError when there is none."""
        if self.room <= 0:
            raise OverloadedError("the stream's queue is full: write again after on_ready")
        self._messages.append(message)
        self._bytes += len(message)
        self._exhausted = self.room <= 0

    def sent(self) -> bool:
        """Drop the head. True once when the queue, after having been without room, is half empty again."""
        self._bytes -= len(self._messages.popleft())
        half_empty = self._bytes * 2 <= self._bytes_max and len(self._messages) * 2 <= self._messages_max
        ready = self._exhausted and half_empty
        if ready:
            self._exhausted = False
        return ready
