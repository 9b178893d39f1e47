"""Requests of one process that wait for their place in the log, in order, within a bound."""

import asyncio
from collections.abc import Iterable, Sequence

from danube.metadata.replication.sequencer import NotOrderedError
from danube.metadata.shared_log.entry_format import ENTRY_OVERHEAD_BYTES, packed_bytes
from danube.model.errors import DanubeError
from danube.model.limits.metadata import METADATA_LOG_QUEUE_BYTES_MAX, METADATA_SUBMISSIONS_MAX
from danube.runtime.tasks import resolve


class WaitingRequest:
    """One request, for all who submit it: submitted again while it waits, it is still one."""

    def __init__(self, request: bytes) -> None:
        self.request = request
        self.submitters = 0
        self.may_be_ordered = False
        """True if it may stand in the log, now or later, as far as is known."""
        self.refusal = "the service that keeps the metadata log does not answer"
        """Reason why it is not in the log yet."""
        self.settled: asyncio.Future[DanubeError | None] = asyncio.get_running_loop().create_future()
        """Done when no more is to be done about it: None, or why it is not in the log."""

    @property
    def is_wanted(self) -> bool:
        """True while a submitter waits for it."""
        return self.submitters > 0


class WaitingRequests:
    """All of them, first come, first served."""

    def __init__(self) -> None:
        self._all: dict[bytes, WaitingRequest] = {}
        """Requests that wait, and those that are being appended."""
        self._queue: dict[bytes, WaitingRequest] = {}
        self._bytes = 0
        self._arrived = asyncio.Event()

    def join(self, request: bytes) -> WaitingRequest:
        """Have the request wait. Raises NotOrderedError when too many do."""
        waiting = self._all.get(request)
        if waiting is None:
            self._check_room(len(request))
            waiting = self._all[request] = self._queue[request] = WaitingRequest(request)
            self._bytes += len(request)
            self._arrived.set()
        waiting.submitters += 1
        return waiting

    def leave(self, waiting: WaitingRequest) -> None:
        """A submitter waits no more. A request that nobody wants and that is in no entry is forgotten."""
        waiting.submitters -= 1
        if not waiting.is_wanted and waiting.request in self._queue:
            del self._queue[waiting.request]
            self.done([waiting], None)

    async def next_batch(self, bytes_max: int) -> Sequence[WaitingRequest]:
        """The next ones, as many as fit an entry of `bytes_max` uncompressed, and at least one."""
        while not self._queue:
            self._arrived.clear()
            await self._arrived.wait()
        taken: list[WaitingRequest] = []
        room = bytes_max - ENTRY_OVERHEAD_BYTES
        for waiting in self._queue.values():
            room -= packed_bytes(waiting.request)
            if taken and room < 0:
                break
            taken.append(waiting)
        for waiting in taken:
            del self._queue[waiting.request]
        return taken

    def done(self, requests: Iterable[WaitingRequest], error: DanubeError | None) -> None:
        """Settle these and remove them."""
        for waiting in requests:
            if self._all.pop(waiting.request, None):
                self._bytes -= len(waiting.request)
            resolve(waiting.settled, error)

    def fail(self, error: DanubeError, unknown: DanubeError) -> None:
        """None of those that wait will be added: `unknown` for those that may be in the log already."""
        for waiting in list(self._all.values()):
            self.done([waiting], unknown if waiting.may_be_ordered else error)
        self._queue.clear()

    def _check_room(self, size: int) -> None:
        if len(self._all) >= METADATA_SUBMISSIONS_MAX or self._bytes + size > METADATA_LOG_QUEUE_BYTES_MAX:
            raise NotOrderedError("more metadata changes wait than this broker keeps: the service is slow, or away")
