"""Connectors, as their runner tells the cluster of them. Any broker of the cluster can be asked."""

from collections.abc import Sequence

from danube.client.connection import paths
from danube.client.connection.connection import Connection
from danube.model.records.connectors import ConnectorWish, RunnerReport
from danube.wire import plan_messages as messages


class ConnectorClient:
    """Tells the cluster of connectors. Raises UnsupportedError where the broker is not one of ours, DanubeError."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def report(self, report: RunnerReport) -> Sequence[ConnectorWish]:
        """Tell of a runner's tasks; answers what administrators want of its connectors."""
        path = f"{paths.CONNECTORS}/ReportConnectors"
        return messages.CONNECTOR_WISHES.decode(
            await self._connection.call_any(path, messages.REPORT_CONNECTORS.encode(report))
        )
