"""Answers of a consumer on their way to its broker: gathered for a stream while an update is under way.

Each update with acknowledgements is numbered, and kept until the broker confirms it. What a broken stream left
unconfirmed goes along with the next one: the broker counts it where it still knows that the consumer saw the messages.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from danube.model.calls.consume import ConsumeReport, ConsumeUpdate, NackedRange
from danube.model.errors import DanubeError
from danube.model.limits.broker import CLIENT_ACKS_IN_FLIGHT_MAX
from danube.model.limits.stream import CLIENT_UNANSWERED_RANGES_MAX, CONSUME_RANGES_MAX
from danube.model.ranges import OffsetRange, RangeSet
from danube.runtime.tasks import TaskScope

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Sent:
    sequence: int
    acknowledged: tuple[OffsetRange, ...] = ()


@dataclass(slots=True)
class Answers:
    """Credit, acknowledgements and nacks of one topic."""

    generation: int = 0
    answers_seen: int = 0
    report: ConsumeReport | None = None
    """Asked for by the broker, and not sent yet."""
    confirmed: int = 0
    """The last update that the broker has."""
    _acknowledged: RangeSet = field(default_factory=RangeSet)
    _nacked: deque[NackedRange] = field(default_factory=deque)
    _sent: deque[_Sent] = field(default_factory=deque)
    _sequence: int = 0

    @property
    def last_sequence(self) -> int:
        """The number of the update that brings the last answer so far, at most; 0 when there never was one."""
        waiting = max(len(self._acknowledged), len(self._nacked))
        return self._sequence + -(-waiting // CONSUME_RANGES_MAX)

    def is_settled(self, sequence: int) -> bool:
        """Tell whether the broker has all answers up to this update, or there are none that it has not."""
        return self.confirmed >= sequence or not self.is_unconfirmed

    def has_answers(self) -> bool:
        """Tell whether any answer waits."""
        return bool(self._acknowledged) or bool(self._nacked)

    @property
    def is_unconfirmed(self) -> bool:
        """Tell whether the broker may lack any answer."""
        return bool(self._sent) or self.has_answers()

    def acknowledge(self, start: int, end: int) -> None:
        """Acknowledge a range."""
        self._acknowledged.add(start, end)
        if len(self._acknowledged) > CLIENT_UNANSWERED_RANGES_MAX:  # no broker for very long: these come again
            self._acknowledged.remove(*next(iter(self._acknowledged)))

    def nack(self, nacked: NackedRange) -> None:
        """Refuse a range."""
        self._nacked.append(nacked)
        if len(self._nacked) > CLIENT_UNANSWERED_RANGES_MAX:
            self._nacked.popleft()

    def saw(self, generation: int) -> None:
        """A response with batches arrived; after a seek, earlier answers are void."""
        self.answers_seen += 1
        if generation != self.generation:
            self.generation = generation
            self._acknowledged = RangeSet()
            self._nacked.clear()
            self.report = None

    def confirm(self, sequence: int) -> None:
        """The broker has all updates up to this one."""
        self.confirmed = max(self.confirmed, sequence)
        while self._sent and self._sent[0].sequence <= sequence:
            self._sent.popleft()

    def reopened(self) -> None:
        """Another stream: what the former left unconfirmed is sent again; nacks are not, the messages come anyway."""
        self.answers_seen = 0
        self.report = None
        self._nacked.clear()
        for sent in self._sent:
            for span in sent.acknowledged:
                self.acknowledge(*span)
        self._sent.clear()

    def update(self, credit: tuple[int, int], *, close: bool = False) -> ConsumeUpdate:
        """The next update, with what a single one may have, and credit of bytes and messages."""
        acknowledged = self._acknowledged.lowest(CONSUME_RANGES_MAX)
        for span in acknowledged:
            self._acknowledged.remove(*span)
        nacked = tuple(self._nacked.popleft() for _ in range(min(len(self._nacked), CONSUME_RANGES_MAX)))
        report, self.report = self.report, None
        sequence = 0
        if acknowledged or nacked or close:
            self._sequence += 1
            sequence = self._sequence
            self._sent.append(_Sent(sequence, acknowledged))
        return ConsumeUpdate(
            credit_bytes=credit[0],
            credit_messages=credit[1],
            report=report,
            generation=self.generation,
            acknowledged=acknowledged,
            nacked=nacked,
            sequence=sequence,
            close=close,
            answers_seen=self.answers_seen,
        )


class AckPipeline:
    """Runs a bounded number of acknowledgements in the background. The message of one that fails comes again."""

    def __init__(self, scope: TaskScope) -> None:
        self._scope = scope
        self._room = asyncio.Semaphore(CLIENT_ACKS_IN_FLIGHT_MAX)
        self._under_way = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._error: DanubeError | None = None

    async def add(self, work: Callable[[], Awaitable[None]]) -> None:
        """Start `work`, waiting while there is no room: a function, so that one never started leaves no coroutine."""
        await self._room.acquire()
        self._under_way += 1
        self._idle.clear()
        self._scope.spawn(self._run(work), "acknowledgement")

    async def flush(self) -> None:
        """Return once nothing is under way. Raises the first error since the last time."""
        await self._idle.wait()
        error, self._error = self._error, None
        if error is not None:
            raise error

    async def _run(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except DanubeError as error:
            _log.warning("an acknowledgement failed, its message will come again: %s", error)
            self._error = self._error or error
        finally:
            self._room.release()
            self._under_way -= 1
            if not self._under_way:
                self._idle.set()
