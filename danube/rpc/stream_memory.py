"""Stream memory: one bound for what all streams of a broker have queued, shared fairly. Pure, but for its timer.

A stream may queue a share of what is free, so that many stalled ones leave room for the others. Where single messages
are so large that nothing is left all the same, writers wait in their order; a stream that took nothing for
STREAM_STALL_S while others wait gives way, those that hold most first.
"""

from collections import deque
from typing import Protocol

from danube.model.errors import DanubeError, LimitReachedError, OverloadedError
from danube.model.limits.broker import (
    STREAM_ANSWERS_BYTES_MIN,
    STREAM_MEMORY_FREED_RATIO,
    STREAM_MEMORY_LOOK_S,
    STREAM_MEMORY_SHARES,
    STREAM_MESSAGE_COPIES,
    STREAM_STALL_S,
)
from danube.rpc.carrier import CarrierOptions
from danube.runtime.clock import Clock, TimerHandle


class OutboxOwner(Protocol):
    """The stream that sends from an outbox."""

    def advance(self) -> None:
        """There may be room for a writer that found none: ask `Outbox.ready` in a later turn."""

    def fail(self, error: DanubeError) -> None:
        """End, so that others have room."""


class StreamMemory:
    """Counts what the outboxes of all streams hold."""

    def __init__(self, bytes_max: int, clock: Clock) -> None:
        self.bytes_max = bytes_max
        self.used_bytes = 0
        """Held now, copies included; one message may pass the bound."""
        self._clock = clock
        self._holders: dict[Outbox, None] = {}
        """Outboxes with something in them."""
        self._waiting: dict[Outbox, None] = {}
        """Empty ones whose writers found no room, in their order."""
        self._timer: TimerHandle | None = None

    @property
    def share_bytes(self) -> int:
        """Bytes of messages that one stream may have queued now; 0 when nothing is free."""
        free_bytes = self.bytes_max - self.used_bytes
        return max(0, free_bytes // (STREAM_MESSAGE_COPIES * STREAM_MEMORY_SHARES))

    def now_s(self) -> float:
        """Monotonic time."""
        return self._clock.monotonic_s()

    def add(self, outbox: "Outbox", size: int) -> None:
        """Count a message in."""
        self.used_bytes += STREAM_MESSAGE_COPIES * size
        self._holders[outbox] = None

    def release(self, outbox: "Outbox", size: int) -> None:
        """Messages of so many bytes left, or were dropped."""
        self.used_bytes -= STREAM_MESSAGE_COPIES * size
        if not len(outbox):
            self._holders.pop(outbox, None)
        if self._waiting and self.share_bytes:
            self._wake_next()

    def wait(self, outbox: "Outbox") -> None:
        """Have an empty outbox told once there is room."""
        self._waiting[outbox] = None
        self._look_later()

    def forget(self, outbox: "Outbox") -> None:
        """Its stream is over."""
        self._waiting.pop(outbox, None)
        if not self._waiting and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wake_next(self) -> None:
        outbox = next(iter(self._waiting))
        self.forget(outbox)
        outbox.room_again()

    def _look_later(self) -> None:
        if self._waiting and self._timer is None:
            self._timer = self._clock.call_at(self.now_s() + STREAM_MEMORY_LOOK_S, self._look)

    def _look(self) -> None:
        """Have stalled streams give way until a part is free, and wake all where there is room."""
        self._timer = None
        missing = self.used_bytes + self.bytes_max // STREAM_MEMORY_FREED_RATIO - self.bytes_max
        long_ago_s = self.now_s() - STREAM_STALL_S
        stalled = [outbox for outbox in self._holders if outbox.moved_s <= long_ago_s]
        for outbox in sorted(stalled, key=lambda each: each.bytes, reverse=True):
            if missing <= 0:
                break
            missing -= STREAM_MESSAGE_COPIES * outbox.bytes
            outbox.give_way()
        if self.share_bytes:
            for _ in range(len(self._waiting)):
                self._wake_next()
        self._look_later()


class Outbox:
    """Messages that a server wrote to one stream and its transport has not taken yet, bounded and telling of room."""

    __slots__ = (
        *("_bytes_min", "_exhausted", "_memory", "_messages", "_options", "_owner"),
        *("bytes", "moved_s"),
    )

    def __init__(
        self, options: CarrierOptions, memory: StreamMemory, owner: OutboxOwner, *, both_ways: bool = False
    ) -> None:
        """A stream with messages both ways has small answers, and its sender does not wait for other streams."""
        self._messages: deque[bytes] = deque()
        self._options = options
        self._bytes_min = min(STREAM_ANSWERS_BYTES_MIN, options.queue_bytes_max) if both_ways else 0
        self._memory = memory
        self._owner: OutboxOwner | None = owner
        self._exhausted = False
        self.bytes = 0
        """Bytes of what is queued."""
        self.moved_s = 0.0
        """Time when the transport took something last, or the first message was put."""

    def __len__(self) -> int:
        return len(self._messages)

    @property
    def room(self) -> int:
        """Bytes that still fit; 0 or less when nothing may be put."""
        if len(self._messages) >= self._options.queue_messages_max:
            return 0
        room = self._bytes_max - self.bytes
        if room <= 0:
            self._exhausted = True
            self._wait_if_empty()
        return room

    @property
    def head(self) -> bytes:
        """The message to send next. It counts as queued until `sent`."""
        return self._messages[0]

    def put(self, message: bytes) -> None:
        """Queue a message, of any size as long as there is some room. Raises OverloadedError when there is none."""
        if self.room <= 0:
            raise OverloadedError("the stream's queue is full: write again after on_ready")
        if not self._messages:
            self.moved_s = self._memory.now_s()
        self._messages.append(message)
        self.bytes += len(message)
        self._memory.add(self, len(message))
        self._exhausted = self.room <= 0

    def sent(self) -> bool:
        """Drop the head; answers as `ready`."""
        size = len(self._messages.popleft())
        self.bytes -= size
        self.moved_s = self._memory.now_s()
        self._memory.release(self, size)
        return self.ready()

    def ready(self) -> bool:
        """True once when the queue, after a writer found no room, is half empty again and may be written to."""
        if not self._exhausted:
            return False
        bytes_max = self._bytes_max
        half_empty = self.bytes * 2 <= bytes_max and len(self._messages) * 2 <= self._options.queue_messages_max
        if half_empty and bytes_max:
            self._exhausted = False
            return True
        self._wait_if_empty()
        return False

    def close(self) -> None:
        """The stream is over: hold nothing, and nobody."""
        self._owner = None
        size, self.bytes = self.bytes, 0
        self._messages.clear()
        self._memory.forget(self)
        self._memory.release(self, size)

    def room_again(self) -> None:
        """There is memory again."""
        if self._owner is not None:
            self._owner.advance()

    def give_way(self) -> None:
        """Have the stream end for others that wait."""
        if self._owner is not None:
            self._owner.fail(
                LimitReachedError(
                    "the broker's memory for streams (stream_memory_bytes_max) is used up, and this one took nothing "
                    f"for {STREAM_STALL_S:g} s while others wait: read faster, or open it again"
                )
            )

    @property
    def _bytes_max(self) -> int:
        return max(self._bytes_min, min(self._options.queue_bytes_max, self._memory.share_bytes))

    def _wait_if_empty(self) -> None:
        """With something queued its sending asks again; else nothing would."""
        if not self._messages and self._owner is not None:
            self._memory.wait(self)
