"""Appender: puts waiting requests into the log, as many as fit into one entry, one entry at a time, each once."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from danube.metadata.replication.sequencer import NotOrderedError
from danube.metadata.shared_log.backend import LogBackend, Pause
from danube.metadata.shared_log.entry_format import encode_entry, entry_bytes, link_of, pack_requests
from danube.metadata.shared_log.requests import WaitingRequest, WaitingRequests
from danube.metadata.shared_log.tail import LogTail
from danube.model.errors import InvalidRequestError, MetadataError, UnknownOutcomeError
from danube.model.limits.metadata import (
    METADATA_LOG_TURN_ENTRIES,
    METADATA_LOG_TURN_WAIT_MAX_S,
    METADATA_SUBMIT_TIMEOUT_S,
)
from danube.runtime.blocking import BlockingRunner
from danube.runtime.rng import Rng

_INLINE_BYTES_MAX = 64 * 1024
"""Packed on the event loop, in a millisecond or two; what is larger goes to the thread."""
_ANSWER_WAIT_S = 0.05
_TURN_ROUNDS = 3
"""Round trips to the service: in that time another member reads what it missed, and appends."""


class Appender:
    """The one task of a member that appends."""

    def __init__(
        self, backend: LogBackend, tail: LogTail, requests: WaitingRequests, runner: BlockingRunner, rng: Rng
    ) -> None:
        self._backend = backend
        self._tail = tail
        self._requests = requests
        self._runner = runner
        self._rng = rng
        self.author = rng.new_id()
        """Author number of this member's entries and snapshots."""
        self._in_a_row = 0
        self._answered = asyncio.Event()
        self._answered.set()

    async def answered(self) -> None:
        """Return when no addition is under way: what moved the head is often our own entry. After a moment, anyway."""
        if not self._answered.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(_ANSWER_WAIT_S):
                    await self._answered.wait()

    async def run(self) -> None:
        """Add what waits, until cancelled. Raises MetadataError when the log cannot be followed any more."""
        while True:
            batch = _Batch(await self._requests.next_batch(self._backend.entry_bytes_max))
            try:
                async with asyncio.timeout(METADATA_SUBMIT_TIMEOUT_S):
                    await self._append(batch)
                self._requests.done(batch.requests, None)
            except TimeoutError:
                self._requests.done(batch.requests, batch.given_up())
            except InvalidRequestError as error:
                self._requests.done(batch.requests, error)
            await self._yield_turn(batch)

    async def _append(self, batch: "_Batch") -> None:
        """Add the batch; returns when it is in the log, or when that cannot be told any more."""
        pause = Pause(self._rng)
        while True:
            if batch.tried_at == 0:
                self._requests.done(batch.drop_unwanted(), None)
            if not batch.requests:
                return
            before = self._tail.position
            try:
                if await self._attempt(batch) or await self._check_outcome(batch):
                    return
                if self._tail.position > before:
                    pause.over()
                else:
                    await pause()  # nobody was faster: the service is not itself
            except MetadataError as error:
                self._tail.check()
                batch.refused(error)
                await pause()

    async def _attempt(self, batch: "_Batch") -> bool:
        """Add it at the end of the log, as far as this member knows the end; says whether that was done."""
        if batch.tried_at and self._tail.position >= batch.tried_at:
            return False  # what became of the last attempt is read first
        body = batch.body or await self._pack(batch)
        number = self._tail.position + 1
        entry = encode_entry(self.author, self._tail.link, body)
        self._tail.await_entry(number, link_of(entry))
        started_s = asyncio.get_running_loop().time()
        before = batch.try_at(number)
        self._answered.clear()
        try:
            added = await self._backend.add(number, entry)
        except UnknownOutcomeError:
            self._in_a_row = 0
            return False
        except MetadataError:
            batch.not_tried(before)
            raise
        finally:
            self._answered.set()
        batch.round_s = asyncio.get_running_loop().time() - started_s
        self._in_a_row = self._in_a_row + 1 if added else 0
        if added:
            self._tail.apply(number, entry)
        elif before == 0:
            batch.not_tried(0)  # and no earlier attempt can still come
        return added

    async def _check_outcome(self, batch: "_Batch") -> bool:
        """True if the batch is in the log, or it cannot be told any more; if it surely is not, it may be added anew."""
        await self._tail.catch_up()
        if batch.tried_at == 0 or self._tail.position < batch.tried_at:
            return False  # it may still come: only the very same entry may be added at this number
        if self._tail.stands is False:
            batch.not_tried(0)
        return self._tail.stands is not False

    async def _pack(self, batch: "_Batch") -> bytes:
        packed = [waiting.request for waiting in batch.requests]
        if sum(map(len, packed)) <= _INLINE_BYTES_MAX:
            body = pack_requests(packed)
        else:
            body = await self._runner.run(partial(pack_requests, packed))
        size = entry_bytes(body)
        if size > self._backend.entry_bytes_max:
            raise InvalidRequestError(
                f"a metadata change of {size} bytes, compressed, is too large for this service: split it,"
                f" {self._backend.entry_bytes_max} is the most"
            )
        batch.body = body
        return body

    async def _yield_turn(self, batch: "_Batch") -> None:
        """After some entries in a row wait for as long as others need to add one."""
        if self._in_a_row >= METADATA_LOG_TURN_ENTRIES:
            self._in_a_row = 0
            await asyncio.sleep(min(_TURN_ROUNDS * batch.round_s, METADATA_LOG_TURN_WAIT_MAX_S))


class _Batch:
    """Requests that go into one entry, and what is known of it."""

    def __init__(self, requests: Sequence[WaitingRequest]) -> None:
        self.requests = list(requests)
        self.body: bytes | None = None
        self.tried_at = 0
        """The number at which it may stand, or come to stand; 0 when it surely stands nowhere."""
        self.round_s = 0.0
        self.refusal = "others were faster each time"

    def drop_unwanted(self) -> Sequence[WaitingRequest]:
        """Leave out those that nobody waits for any more."""
        unwanted = [waiting for waiting in self.requests if not waiting.is_wanted]
        if unwanted:
            self.body = None
            self.requests = [waiting for waiting in self.requests if waiting.is_wanted]
        return unwanted

    def try_at(self, number: int) -> int:
        """From now on it may stand at this number; answers where it may have stood so far."""
        before, self.tried_at = self.tried_at, number
        for waiting in self.requests:
            waiting.may_be_ordered = True
        return before

    def not_tried(self, before: int) -> None:
        """The last attempt surely did not reach the log."""
        self.tried_at = before
        for waiting in self.requests:
            waiting.may_be_ordered = before > 0

    def refused(self, error: MetadataError) -> None:
        """Keep the reason, for submitters that give up."""
        self.refusal = str(error)
        for waiting in self.requests:
            waiting.refusal = self.refusal

    def given_up(self) -> MetadataError | None:
        """Error for its submitters; None where it may be in the log."""
        if self.tried_at:
            return None
        return NotOrderedError(self.refusal)
