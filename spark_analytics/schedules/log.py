"""The analytics topic as the log of schedules: read from where it was read to, and written."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from danube.model.errors import TopicNotFoundError
from danube.model.records.analytics import ANALYTICS_TOPIC, Run, RunRecord, decode_record, runs_of
from danube.model.records.schedules import ScheduleBook
from spark_analytics.results import Cluster

if TYPE_CHECKING:
    from danube.client import DanubeClient


@dataclass(slots=True)
class ScheduleLog:
    """All records of the topic so far. Not for several threads."""

    cluster: Cluster
    book: ScheduleBook = field(default_factory=ScheduleBook)
    _records: list[RunRecord] = field(default_factory=list)
    _next: int = 0

    def refresh(self) -> None:
        """Read what is new. Raises DanubeError."""
        asyncio.run(self.cluster.with_client(self._read))

    def write(self, records: Sequence[RunRecord], producer_name: str) -> None:
        """Store records, and read on. Raises DanubeError."""
        self.cluster.publish(records, producer_name)
        self.refresh()

    def runs(self, now_ms: int) -> list[Run]:
        """The runs of all jobs, the newest first."""
        return runs_of(self._records, now_ms)

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
                self.book.read(record)
        self._next = bounds.end_offset
