"""Calls about metrics and logs: to each broker by itself, and to Prometheus."""

from abc import abstractmethod
from collections.abc import Sequence

from danube.admin.gateway import OfBroker, PromQuery, PromSeries
from danube.admin.grpc_gateway.broker_connection import Answer, BrokerConnection, ConnectionPool, Request
from danube.admin.grpc_gateway.calls import AdminCalls
from danube.admin.grpc_gateway.prometheus import Prometheus
from danube.model.calls.admin import BrokerDescription
from danube.model.calls.inspection import LogPage, MetricsPage, ReadLog, ReadMetrics
from danube.model.errors import DanubeError, NotFoundError, PreconditionFailedError, UnsupportedError
from danube.wire import control_messages as control
from danube.wire.codec import Codec

_INSPECTION = "/danube.control.Inspection"


class InspectionCalls:
    """The calls of `AdminGateway` about metrics and logs."""

    _pool: ConnectionPool
    _calls: AdminCalls
    _prometheus: Prometheus | None

    @abstractmethod
    async def describe_broker(self) -> BrokerDescription: ...

    @abstractmethod
    async def _require_ours(self, act: str) -> None: ...

    async def metrics(self, wanted: ReadMetrics, broker_id: str | None) -> Sequence[OfBroker[MetricsPage]]:
        await self._require_ours("tell its metrics over the admin port")
        path = f"{_INSPECTION}/ReadMetrics"
        return await self._of_each(broker_id, path, control.READ_METRICS, wanted, control.METRICS_PAGE)

    async def broker_logs(self, wanted: ReadLog, broker_id: str | None) -> Sequence[OfBroker[LogPage]]:
        await self._require_ours("tell its log over the admin port")
        path = f"{_INSPECTION}/ReadLog"
        return await self._of_each(broker_id, path, control.READ_LOG, wanted, control.LOG_PAGE)

    async def prometheus(self, wanted: PromQuery) -> Sequence[PromSeries]:
        if self._prometheus is None:
            raise PreconditionFailedError(
                "no Prometheus is configured: set DANUBE_ADMIN_PROMETHEUS, or `danube-admin contexts set NAME"
                " --prometheus http://host:9090`; without a query the brokers tell their metrics themselves"
            )
        return await self._prometheus.ask(wanted)

    async def _of_each(
        self, broker_id: str | None, path: str, request: Codec[Request], value: Request, answer: Codec[Answer]
    ) -> Sequence[OfBroker[Answer]]:
        """One after the other; a broker that does not answer is told with the reason, unless it alone was asked."""
        own = await self.describe_broker()
        found: list[OfBroker[Answer]] = []
        for each, broker in (await self._connections(own.info.broker_id, broker_id)).items():
            try:
                told = await broker.ask(path, request, value, answer)
            except UnsupportedError:
                found.append(OfBroker(broker_id=each, told=None, problem="its version has no such call: upgrade it"))
            except DanubeError as error:
                if broker_id is not None:
                    raise
                found.append(OfBroker(broker_id=each, told=None, problem=str(error)))
            else:
                found.append(OfBroker(broker_id=each, told=told))
        return found

    async def _connections(self, own_id: str, wanted: str | None) -> dict[str, BrokerConnection]:
        """Brokers that run, by id; the one behind the endpoint is called as it was dialled. Raises NotFoundError."""
        if wanted == own_id:
            return {own_id: self._pool.endpoint}
        urls = {info.broker_id: info.admin_url for info in await self._calls.running()}
        if wanted is not None and wanted not in urls:
            raise NotFoundError(f"there is no broker {wanted[:40]!r} that runs: list the brokers to see which do")
        return {
            each: self._pool.endpoint if each == own_id else self._pool.to(url)
            for each, url in urls.items()
            if wanted in {None, each}
        }
