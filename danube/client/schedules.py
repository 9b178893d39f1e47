"""Schedules of analytics jobs, as their runner uses them. Any broker of the cluster can be asked."""

from typing import TypeVar

from danube.client.connection import paths
from danube.client.connection.connection import Connection
from danube.model.errors import UnsupportedError
from danube.model.records.schedules import BeginRun, RunnerClaim, RunnerLease, Schedule, ScheduleBook
from danube.wire import plan_messages as messages
from danube.wire.codec import Codec

Request = TypeVar("Request")
Answer = TypeVar("Answer")


class ScheduleClient:
    """Keeps schedules and the lease of their runner. Raises UnsupportedError where the broker has none, DanubeError."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def book(self) -> ScheduleBook:
        """All schedules, and the runner that has the lease."""
        return await self._ask("ListSchedules", messages.LIST_SCHEDULES, None, messages.SCHEDULES)

    async def put(self, schedule: Schedule) -> Schedule:
        """Add a schedule, or change the one of its name. Raises InvalidRequestError."""
        return await self._ask("PutSchedule", messages.SCHEDULE, schedule, messages.SCHEDULE)

    async def remove(self, name: str) -> Schedule:
        """Remove a schedule. Raises NotFoundError."""
        return await self._ask("RemoveSchedule", messages.SCHEDULE_NAME, name, messages.SCHEDULE)

    async def request(self, name: str) -> Schedule:
        """Have the runner start a run out of turn. Raises NotFoundError."""
        return await self._ask("RequestRun", messages.SCHEDULE_NAME, name, messages.SCHEDULE)

    async def claim(self, claim: RunnerClaim) -> RunnerLease:
        """Claim, renew or give up the lease; answers who has it then."""
        return await self._ask("ClaimRunner", messages.CLAIM_RUNNER, claim, messages.RUNNER_LEASE)

    async def begin(self, wanted: BeginRun) -> Schedule:
        """Record that a run begins. Raises PreconditionFailedError without the lease, or where another was faster."""
        return await self._ask("BeginRun", messages.BEGIN_RUN, wanted, messages.SCHEDULE)

    async def _ask(self, method: str, request: Codec[Request], value: Request, answer: Codec[Answer]) -> Answer:
        url = self._connection.service_url
        try:
            reply = await self._connection.call_any(f"{paths.SCHEDULES}/{method}", request.encode(value))
        except UnsupportedError as error:
            raise UnsupportedError(
                f"the broker at {url} keeps no schedules: use one of ours, or a scheduler of your own"
            ) from error
        return answer.decode(reply)
