"""Calls about schedules of analytics jobs, which only our brokers keep."""

from abc import abstractmethod

from danube.admin.grpc_gateway.broker_connection import Answer, Request
from danube.model.records.schedules import Schedule, ScheduleBook
from danube.model.topic import TopicName
from danube.wire import plan_messages as messages
from danube.wire.codec import Codec

_SCHEDULES = "/danube.control.Schedules"


class ScheduleCalls:
    """The calls of `AdminGateway` about schedules."""

    @abstractmethod
    async def _ours(
        self,
        act: str,
        path: str,
        request: Codec[Request],
        value: Request,
        answer: Codec[Answer],
        *,
        at: TopicName | None = None,
    ) -> Answer: ...

    async def schedules(self) -> ScheduleBook:
        path, answer = f"{_SCHEDULES}/ListSchedules", messages.SCHEDULES
        return await self._ours("keep schedules", path, messages.LIST_SCHEDULES, None, answer)

    async def put_schedule(self, schedule: Schedule) -> Schedule:
        path = f"{_SCHEDULES}/PutSchedule"
        return await self._ours("keep schedules", path, messages.SCHEDULE, schedule, messages.SCHEDULE)

    async def remove_schedule(self, name: str) -> Schedule:
        path = f"{_SCHEDULES}/RemoveSchedule"
        return await self._ours("keep schedules", path, messages.SCHEDULE_NAME, name, messages.SCHEDULE)

    async def request_run(self, name: str) -> Schedule:
        path = f"{_SCHEDULES}/RequestRun"
        return await self._ours("keep schedules", path, messages.SCHEDULE_NAME, name, messages.SCHEDULE)
