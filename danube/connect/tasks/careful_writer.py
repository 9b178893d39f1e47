"""Writes of a batch that survive bad records: retried, halved, and refused records to the dead letters."""

from collections.abc import Awaitable, Callable
from typing import Any

from danube.connect.batch import Batch, Record
from danube.connect.failures import Backoff, FailureKind, OtherSideError, kind_of, reason_of, retry_after_s_of
from danube.connect.metrics import TaskMetrics
from danube.model.limits.faces import CONNECT_FAILED_IN_ROW_MAX, CONNECT_IN_PLACE_S
from danube.runtime.clock import Clock, sleep_for
from danube.runtime.rng import Rng

Write = Callable[[Batch[Any]], Awaitable[None]]
Refuse = Callable[[Record[Any], str, int], Awaitable[None]]
"""Gets a record, the reason and the number of tries; the dead letter is stored on return."""


class CarefulWriter:
    """Writes batches of one partition by `write`, and refuses what cannot be written by `refuse`."""

    def __init__(
        self,
        write: Write,
        refuse: Refuse,
        *,
        tries_max: int,
        backoff: Backoff,
        clock: Clock,
        rng: Rng,
        metrics: TaskMetrics,
        saves_ends: bool,
    ) -> None:
        """With `saves_ends` a batch whose records are all refused is written without them."""
        self._write = write
        self._refuse = refuse
        self._tries_max = tries_max
        self._backoff = backoff
        self._clock = clock
        self._rng = rng
        self._metrics = metrics
        self._saves_ends = saves_ends
        self._failed_in_row = 0
        self._give_up_s = 0.0

    async def write(self, batch: Batch[Any]) -> None:
        """Write all of a batch, or have its bad records in the dead letters.

        Raises what says that the other side is away, after CONNECT_IN_PLACE_S.
        """
        self._give_up_s = self._clock.monotonic_s() + CONNECT_IN_PLACE_S
        await self._write_part(batch)

    async def _write_part(self, batch: Batch[Any]) -> None:
        while batch.records:
            try:
                await self._patiently(batch)
            except Exception as error:
                kind = kind_of(error)
                if kind not in {FailureKind.REFUSED, FailureKind.UNKNOWN}:
                    raise
                named = {record.offset for record in batch.records} & getattr(error, "offsets", frozenset())
                if not named and len(batch.records) > 1:
                    return await self._write_halves(batch)
                reason, tries = reason_of(error), 1
                if kind is FailureKind.UNKNOWN:
                    last = await self._retried(batch, error)
                    if last is None:
                        return None
                    reason, tries = reason_of(last), self._tries_max
                batch = await self._without(batch, named or {batch.records[0].offset}, reason, tries)
            else:
                self._failed_in_row = 0
                return None
        if self._saves_ends and batch.end > batch.start:
            await self._patiently(batch)
        return None

    async def _write_halves(self, batch: Batch[Any]) -> None:
        self._metrics.retried.inc(len(batch.records))
        for half in batch.halves():
            await self._write_part(half)

    async def _without(self, batch: Batch[Any], offsets: set[int], reason: str, tries: int) -> Batch[Any]:
        for record in batch.records:
            if record.offset in offsets:
                await self._refuse(record, reason, tries)
        return batch.without(offsets)

    async def _retried(self, batch: Batch[Any], error: Exception) -> Exception | None:
        """Retry a batch of one record that has failed for an unknown reason; answers the last error, None if it is in.

        Raises OtherSideError for too many such records in a row.
        """
        for tries in range(1, self._tries_max):
            await self._wait(tries)
            self._metrics.retried.inc()
            try:
                await self._patiently(batch)
            except Exception as again:
                if kind_of(again) not in {FailureKind.REFUSED, FailureKind.UNKNOWN}:
                    raise
                error = again
            else:
                self._failed_in_row = 0
                return None
        self._failed_in_row += 1
        if self._failed_in_row > CONNECT_FAILED_IN_ROW_MAX:
            self._failed_in_row = 0
            raise OtherSideError(
                f"more than {CONNECT_FAILED_IN_ROW_MAX} records in a row failed, so the fault is not in one of them; "
                f"the last: {reason_of(error)}"
            ) from error
        return error

    async def _patiently(self, batch: Batch[Any]) -> None:
        """Write, and write again while the other side is away, for a while."""
        failures = 0
        while True:
            try:
                return await self._write(batch)
            except Exception as error:
                failures += 1
                is_other_side = kind_of(error) is FailureKind.OTHER_SIDE
                if not is_other_side or not await self._wait(failures, retry_after_s_of(error)):
                    raise
                self._metrics.retried.inc(len(batch.records))

    async def _wait(self, failures: int, least_s: float = 0.0) -> bool:
        """Wait for the backoff, if the time of this batch allows for it; tells whether it did."""
        delay_s = max(self._backoff.delay_s(failures, self._rng.uniform(0, 1)), least_s)
        if self._clock.monotonic_s() + delay_s > self._give_up_s:
            return False
        await sleep_for(self._clock, delay_s)
        return True
