"""Calls about schedules of analytics jobs and about connectors, which only our brokers know."""

from abc import abstractmethod

from danube.admin.grpc_gateway.broker_connection import Answer, Request
from danube.model.records.connectors import ChangeConnector, ConnectorBook, ConnectorWish
from danube.model.records.schedules import Schedule, ScheduleBook
from danube.model.topic import TopicName
from danube.wire import plan_messages as messages
from danube.wire.codec import Codec

_SCHEDULES = "/danube.control.Schedules"
_CONNECTORS = "/danube.control.Connectors"


class ScheduleCalls:
    """The calls of `AdminGateway` about schedules and connectors."""

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

    async def connectors(self) -> ConnectorBook:
        path = f"{_CONNECTORS}/ListConnectors"
        return await self._ours("know connectors", path, messages.LIST_CONNECTORS, None, messages.CONNECTORS)

    async def change_connector(self, wanted: ChangeConnector) -> ConnectorWish:
        path, request = f"{_CONNECTORS}/ChangeConnector", messages.CHANGE_CONNECTOR
        return await self._ours("know connectors", path, request, wanted, messages.CONNECTOR_WISH)
