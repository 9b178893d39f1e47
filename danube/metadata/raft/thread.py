"""Raft's own thread: it keeps time while the event loop, or the interpreter, is busy.

Submissions wait in a queue until the next tick, and go into the sequence as one batch. The results of a tick go to the
loop with one wake-up.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from danube.metadata.cluster.membership import MembershipStatus
from danube.metadata.raft.core.overrides import now_s
from danube.metadata.raft.core.poller import Poller
from danube.metadata.raft.local_node import LocalNode
from danube.metadata.raft.member import MemberEvent, pack_batch
from danube.model.errors import UnavailableError
from danube.model.limits.metadata import METADATA_REQUEST_BYTES_MAX
from danube.runtime.blocking import OwnedThread

T = TypeVar("T")

_OVER = "this broker takes part in the metadata cluster no more: see its log, and ask another one"

_ITEM_BYTES = 8
"""Most bytes that a request takes in a batch beside its own."""


@dataclass(frozen=True, slots=True, eq=False)
class Submission:
    """A request that waits for the next tick, or a question how far the sequence is."""

    request: bytes | None
    handed_on: "asyncio.Future[int]"
    """The number of its batch, once that was handed on; 0 if it surely was not."""
    term: int | None = None
    """It is handed on in this term alone."""


@dataclass(frozen=True, slots=True)
class Report:
    """Results of a tick."""

    handed: Sequence[tuple[Sequence[Submission], int]]
    found: Sequence[MemberEvent]
    view: MembershipStatus | None


class RaftThread:
    """Ticks a local node. Everything but `submit`, `order`, `start` and `stop` happens in its thread."""

    def __init__(
        self,
        local_node: LocalNode,
        poller: Poller,
        origin: int,
        *,
        on_report: Callable[[Report], None],
        on_failed: Callable[[BaseException], None],
        view_s: float,
    ) -> None:
        """`on_report` and `on_failed` are called on the loop; the latter when the thread ends by itself."""
        self._local_node = local_node
        self._poller = poller
        self._origin = origin
        self._on_report = on_report
        self._on_failed = on_failed
        self._view_s = view_s
        self._view_at_s = 0.0
        self._viewed_position = 0
        self._waiting: deque[Submission] = deque()
        self._orders: deque[Callable[[], None]] = deque()
        self._handed: list[tuple[Sequence[Submission], int]] = []
        self._number = 0
        self._asked: set[asyncio.Future[Any]] = set()
        """Futures of answers from the thread."""
        self.renewal: Callable[[], bytes | None] = lambda: None
        """Asked in the thread, with each tick: a request, where the event loop is late with it."""
        self._is_over = False
        self._stopping = False
        self._thread = OwnedThread("raft", self._run)

    def start(self) -> None:
        self._thread.start()

    async def stop(self) -> None:
        """End, with the log synced. Idempotent."""
        self._stopping = True
        self._poller.wake()
        await self._thread.ended()

    def submit(self, submission: Submission) -> None:
        """Add it to the next batch."""
        self._waiting.append(submission)
        self._poller.wake()

    def order(self, order: Callable[[], None]) -> None:
        """Call something in the thread, before its next tick."""
        self._orders.append(order)
        self._poller.wake()

    def tell(self, callback: Callable[..., object], *arguments: object) -> None:
        """From the thread: have the loop call something, after what was reported before."""
        self._thread.call_back(callback, *arguments)

    async def ask(self, question: Callable[[Callable[[Any], None]], None]) -> Any:  # noqa: ANN401 - whatever is answered
        """Have `question` called in the thread, with the function to answer by. Raises an answer that is an error, and
        UnavailableError when the thread ends before it answers.
        """
        if self._is_over:
            raise UnavailableError(_OVER)
        answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._asked.add(answered)
        answered.add_done_callback(self._asked.discard)

        def answer(value: object) -> None:
            self.tell(_settle, answered, value)

        def put() -> None:
            try:
                question(answer)
            except Exception as error:  # raised where the answer is waited for
                answer(error)

        self.order(put)
        return await answered

    async def call(self, function: Callable[[], T]) -> T:
        """Have `function` called in the thread; answers what it returns. Raises as `ask`."""
        result: T = await self.ask(lambda answer: answer(function()))
        return result

    def _run(self) -> None:
        try:
            while not self._stopping:
                self._tick()
        except BaseException as error:
            self._thread.call_back(self._on_failed, error)
            raise
        finally:
            self._local_node.close()
            self._thread.call_back(self._end)

    def _end(self) -> None:
        self._is_over = True
        for answered in list(self._asked):
            _settle(answered, UnavailableError(_OVER))

    def _tick(self) -> None:
        while self._orders:
            self._orders.popleft()()
        self._propose()
        member = self._local_node.member
        if member is not None:
            member.before_wait = self._report
        self._local_node.tick()
        self._report()

    def _propose(self) -> None:
        renewal, term = self.renewal(), self._local_node.term
        if renewal is not None:
            self._propose_batch([renewal])
        while self._waiting:
            batch = self._next_batch()
            stale = [each for each in batch if each.term not in {None, term}]
            batch = [each for each in batch if each.term in {None, term}]
            requests = [each.request for each in batch if each.request is not None]
            self._handed.append((stale, 0))
            self._handed.append((batch, self._propose_batch(requests)))

    def _propose_batch(self, requests: Sequence[bytes]) -> int:
        self._number += 1
        is_handed_on = self._local_node.propose(pack_batch(self._origin, self._number, requests))
        return self._number if is_handed_on else 0

    def _next_batch(self) -> list[Submission]:
        batch, size = [self._waiting.popleft()], 0
        size = len(batch[0].request or b"")
        while self._waiting:
            size += len(self._waiting[0].request or b"") + _ITEM_BYTES
            if size > METADATA_REQUEST_BYTES_MAX:
                break
            batch.append(self._waiting.popleft())
        return batch

    def _report(self) -> None:
        """Tell the loop what there is to tell: before waiting for peers, and after a tick that waited elsewhere."""
        handed, self._handed = self._handed, []
        member = self._local_node.member
        found = member.take_events() if member is not None else []
        view = self._view()
        if handed or found or view is not None:
            self._thread.call_back(self._on_report, Report(handed, found, view))

    def _view(self) -> MembershipStatus | None:
        member = self._local_node.member
        is_last = member is not None and member.rests and member.core.applied_index() != self._viewed_position
        if now_s() < self._view_at_s and not is_last:
            return None
        self._view_at_s = now_s() + self._view_s
        view = self._local_node.view()
        self._viewed_position = view.position
        return view


def _settle(answered: "asyncio.Future[Any]", value: object) -> None:
    if answered.done():
        return
    if isinstance(value, Exception):
        answered.set_exception(value)
    else:
        answered.set_result(value)
