"""Schedules of analytics jobs in memory, and records of the topics that their runs are published to."""

from dataclasses import dataclass, field, replace

from danube.model.errors import NotFoundError
from danube.model.records.analytics import AnalyticsJob
from danube.model.records.connectors import ChangeConnector, ConnectorBook, ConnectorWish
from danube.model.records.schedules import Schedule, ScheduleBook
from danube.runtime.clock import Clock

OURS_ALONE = {"put_schedule", "remove_schedule", "request_run", "schedules", "connectors", "change_connector"}
"""Calls that the original does not answer, those about connectors among them."""
SEEDED_SCHEDULE = Schedule(
    name="nightly", job=AnalyticsJob.LAG, every_s=86_400, first_ms=1_750_000_000_000, arguments=("--since=86400s",)
)


@dataclass(frozen=True, slots=True)
class StoredSystemRecord:
    """One message of a system topic, and when it was appended."""

    at_ms: int
    payload: bytes


@dataclass(slots=True)
class MemorySchedules:
    """Schedules by name."""

    kept: dict[str, Schedule] = field(default_factory=dict)

    def seed(self) -> None:
        """One that can be taken away."""
        self.kept[SEEDED_SCHEDULE.name] = SEEDED_SCHEDULE


class ScheduleCalls:
    """The gateway's calls about schedules, whose lease no runner has, and about connectors."""

    connector_book = ConnectorBook()

    job_schedules: MemorySchedules
    clock: Clock

    async def schedules(self) -> ScheduleBook:
        return ScheduleBook(schedules=tuple(self.job_schedules.kept.values()))

    async def put_schedule(self, schedule: Schedule) -> Schedule:
        kept = replace(schedule.check(), first_ms=schedule.first_ms or self.clock.now_ms())
        self.job_schedules.kept[schedule.name] = kept
        return kept

    async def remove_schedule(self, name: str) -> Schedule:
        known = self._known(name)
        del self.job_schedules.kept[name]
        return known

    async def request_run(self, name: str) -> Schedule:
        asked = replace(self._known(name), requested_ms=self.clock.now_ms())
        self.job_schedules.kept[name] = asked
        return asked

    def _known(self, name: str) -> Schedule:
        if name not in self.job_schedules.kept:
            raise NotFoundError(f"there is no schedule {name[:40]!r}: list the schedules")
        return self.job_schedules.kept[name]

    async def connectors(self) -> ConnectorBook:
        return self.connector_book

    async def change_connector(self, wanted: ChangeConnector) -> ConnectorWish:
        if wanted.connector not in self.connector_book.names():
            raise NotFoundError(f"no runner has a connector {wanted.connector[:40]!r}: list the connectors")
        wish = self.connector_book.wish_for(wanted.connector).after(wanted, self.clock.now_ms())
        others = tuple(each for each in self.connector_book.wishes if each.connector != wanted.connector)
        self.connector_book = replace(self.connector_book, wishes=(*others, wish))
        return wish
