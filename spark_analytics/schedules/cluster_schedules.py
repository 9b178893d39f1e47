"""Schedules, their lease and the runs that were published, read from a cluster and written to it.

Each call connects anew: between two of them the runner waits for seconds, or Spark works.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from danube.model.errors import TopicNotFoundError
from danube.model.records.analytics import ANALYTICS_TOPIC, Run, RunRecord, decode_record, runs_of
from danube.model.records.schedules import BeginRun, RunnerClaim, RunnerLease, Schedule, ScheduleBook
from spark_analytics.results import Cluster

if TYPE_CHECKING:
    from danube.client import DanubeClient
    from danube.client.schedules import ScheduleClient

T = TypeVar("T")


@dataclass(slots=True)
class ClusterSchedules:
    """Schedules of a cluster. Not for several threads. Every method raises DanubeError."""

    cluster: Cluster
    _records: list[RunRecord] = field(default_factory=list)
    _next: int = 0

    def book(self) -> ScheduleBook:
        """All schedules, and the runner that has the lease."""
        return self._ask(lambda schedules: schedules.book())

    def put(self, schedule: Schedule) -> Schedule:
        """Add or change a schedule."""
        return self._ask(lambda schedules: schedules.put(schedule))

    def remove(self, name: str) -> Schedule:
        """Remove a schedule. Raises NotFoundError."""
        return self._ask(lambda schedules: schedules.remove(name))

    def request(self, name: str) -> Schedule:
        """Have the runner start a run out of turn. Raises NotFoundError."""
        return self._ask(lambda schedules: schedules.request(name))

    def claim(self, claim: RunnerClaim) -> RunnerLease:
        """Claim, renew or give up the lease."""
        return self._ask(lambda schedules: schedules.claim(claim))

    def begin(self, wanted: BeginRun) -> Schedule:
        """Record that a run begins. Raises PreconditionFailedError."""
        return self._ask(lambda schedules: schedules.begin(wanted))

    def runs(self, now_ms: int) -> list[Run]:
        """The runs of all jobs, the newest first."""
        asyncio.run(self.cluster.with_client(self._read))
        return runs_of(self._records, now_ms)

    def _ask(self, work: "Callable[[ScheduleClient], Awaitable[T]]") -> T:
        return asyncio.run(self.cluster.with_client(lambda client: work(client.schedules())))

    async def _read(self, client: "DanubeClient") -> None:
        try:
            bounds = await client.bounds(str(ANALYTICS_TOPIC))
        except TopicNotFoundError:  # no job has published yet
            return
        start = max(self._next, bounds.start_offset)
        if start >= bounds.end_offset:
            return
        async for message in client.fetch(str(ANALYTICS_TOPIC), start=start, end=bounds.end_offset):
            record = decode_record(message.payload)
            if record is not None:
                self._records.append(record)
        self._next = bounds.end_offset
