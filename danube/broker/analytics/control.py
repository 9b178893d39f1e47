"""Calls about schedules of analytics jobs, and about the lease of their runner."""

from dataclasses import replace

from danube.metadata.schedules.records import ScheduleRecords
from danube.model.errors import InvalidRequestError
from danube.model.records.analytics import check_run_id
from danube.model.records.schedules import BeginRun, RunnerClaim, RunnerLease, Schedule, ScheduleBook
from danube.runtime.clock import Clock


class ScheduleControl:
    """The calls of one broker. Raises MetadataError when the metadata cannot be reached."""

    def __init__(self, records: ScheduleRecords, clock: Clock) -> None:
        self._records = records
        self._clock = clock

    async def book(self) -> ScheduleBook:
        """All schedules, and the runner that has the lease."""
        return await self._records.book()

    async def put(self, schedule: Schedule) -> Schedule:
        """Add or change a schedule; without a first time it begins now. Raises InvalidRequestError."""
        now_ms = self._clock.now_ms()
        first_ms = (schedule.first_ms or now_ms) // 1_000 * 1_000  # runs are named by the second of their due time
        return await self._records.put(replace(schedule.check(), first_ms=first_ms, set_ms=now_ms))

    async def remove(self, name: str) -> Schedule:
        """Remove a schedule. Raises NotFoundError."""
        return await self._records.remove(name)

    async def request(self, name: str) -> Schedule:
        """Ask for a run out of turn. Raises NotFoundError."""
        return await self._records.request(name, self._clock.now_ms())

    async def claim(self, claim: RunnerClaim) -> RunnerLease:
        """Claim, renew or give up the lease. Raises InvalidRequestError."""
        return await self._records.claim(replace(claim, runner=check_run_id(claim.runner)))

    async def begin(self, wanted: BeginRun) -> Schedule:
        """Record that a run begins. Raises PreconditionFailedError, NotFoundError, InvalidRequestError."""
        now_ms = self._clock.now_ms()
        if wanted.due_ms > now_ms + _AHEAD_MS:
            raise InvalidRequestError("the run is due in the future: set the runner's clock")
        return await self._records.begin(wanted, now_ms)


_AHEAD_MS = 60_000
"""A runner's clock may be ahead of the broker's by so much."""
