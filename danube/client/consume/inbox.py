"""Inbox: what a consumer has received and its application has not consumed, from all its topics, in order of arrival.

Pieces are whole batches where the broker streams, single messages elsewhere. Streams bound it by the credit that they
give; single messages wait for room.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from danube.client.consume.prefetch import Demand
from danube.client.message import Message
from danube.model.errors import DanubeError
from danube.model.limits.broker import CLIENT_RECEIVE_MESSAGES_MAX
from danube.model.ranges import OffsetRange, RangeSet
from danube.runtime.clock import Clock
from danube.runtime.tasks import Wakeup


class Source(Protocol):
    """Origin of messages: the consumer of one topic."""

    def consumed(self, messages: Sequence[Message], size: int) -> None:
        """The application has these, consecutive ones of one batch; `size` bytes of credit are free, once a batch."""

    def wanted(self) -> None:
        """The application waits, and nothing is here."""


@dataclass(slots=True)
class _Piece:
    source: Source
    messages: Sequence[Message]
    size: int
    at: int = 0
    """Messages of it that were consumed."""


class Inbox:
    """Messages between the streams of a consumer and its application."""

    def __init__(self, clock: Clock, demand: Demand) -> None:
        self._clock = clock
        self._demand = demand
        self._waiting = 0
        """Calls of the application that wait for messages."""
        self.sources: dict[Source, None] = {}
        """Those that are read now."""
        self._pieces: deque[_Piece] = deque()
        self._singles = 0
        self._changed = Wakeup()
        self._error: DanubeError | None = None
        self.messages = 0
        """Messages in it."""

    @property
    def ended(self) -> bool:
        """Tell whether no message follows."""
        return self._error is not None

    @property
    def is_busy(self) -> bool:
        """Tell whether the application has consumed messages and not asked for more since."""
        return self._demand.consumed > 0 and not self._waiting

    def raise_if_over(self) -> None:
        """Raise the error with which the consumer ended, once it is empty."""
        if self._error is not None and not self.messages:
            raise self._error

    def end(self, error: DanubeError) -> None:
        """Raise `error` once it is empty. Only the first call counts."""
        self._error = self._error or error
        self._changed.notify()

    def add(self, source: Source, messages: Sequence[Message], size: int) -> None:
        """Add a batch."""
        self._pieces.append(_Piece(source, messages, size))
        self.messages += len(messages)
        self._changed.notify()

    async def add_single(self, source: Source, message: Message) -> None:
        """Add a message that came alone, when there is room."""
        while self._singles >= CLIENT_RECEIVE_MESSAGES_MAX and self._error is None:
            await self._changed.wait()
        self._singles += 1
        self.add(source, (message,), 0)

    def discard(self, source: Source) -> tuple[OffsetRange, ...]:
        """Drop what one topic has here, and answer what that was: its broker sends it again."""
        left = [piece.messages[piece.at :] for piece in self._pieces if piece.source is source]
        self._pieces = deque(piece for piece in self._pieces if piece.source is not source)
        self.messages = sum(len(piece.messages) - piece.at for piece in self._pieces)
        self._singles = sum(not piece.size for piece in self._pieces)
        self._changed.notify()
        return tuple(RangeSet(OffsetRange(each[0].offset, each[-1].offset + 1) for each in left))

    def take(self, most: int) -> list[Message]:
        """The next messages, at most so many, all of one topic. Empty when there is none now."""
        found: list[Message] = []
        self._demand.ask(most, self._clock.monotonic_s())
        most, pieces = min(most, self._demand.batch), self._pieces
        source = pieces[0].source if pieces else None
        while pieces and len(found) < most and pieces[0].source is source:
            found += self._take_from(pieces[0], most - len(found))
        if found:
            self._demand.take(len(found))
        return found

    async def get(self, most: int) -> list[Message]:
        """The next messages, at least one, waiting for it. Raises the error with which the consumer ended."""
        while not (found := self.take(most)):
            self.raise_if_over()
            for source in self.sources:
                source.wanted()
            self._waiting += 1
            try:
                await self._changed.wait()
            finally:
                self._waiting -= 1
        return found

    def _take_from(self, piece: _Piece, most: int) -> Sequence[Message]:
        start, end = piece.at, min(piece.at + most, len(piece.messages))
        found = piece.messages if end - start == len(piece.messages) else piece.messages[start:end]
        piece.at = end
        self.messages -= end - start
        is_over = end == len(piece.messages)
        if is_over:
            self._pieces.popleft()
            if not piece.size:
                self._singles -= 1
                self._changed.notify()
        piece.source.consumed(found, piece.size if is_over else 0)
        return found


class MessageQueue(asyncio.Queue[Message]):
    """The inbox of a consumer as an `asyncio.Queue`, whose `get` raises the consumer's error once it is over."""

    def __init__(self, inbox: Inbox) -> None:
        super().__init__()
        self._inbox = inbox

    async def get(self) -> Message:
        """The next message, waiting for it. Raises the error with which the consumer ended."""
        return (await self._inbox.get(1))[0]

    def get_nowait(self) -> Message:
        """The next message. Raises asyncio.QueueEmpty, or the error with which the consumer ended."""
        self._inbox.raise_if_over()
        if found := self._inbox.take(1):
            return found[0]
        raise asyncio.QueueEmpty

    def qsize(self) -> int:
        """The number of messages that are there."""
        return self._inbox.messages

    def empty(self) -> bool:
        """Tell whether none is there."""
        return not self._inbox.messages
