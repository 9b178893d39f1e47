"""Reports of a runner to the cluster, and obedience to what administrators want of its connectors."""

import asyncio
import logging
import os
import socket
from collections.abc import Sequence
from contextlib import suppress

from danube.client import DanubeClient
from danube.connect.connector import Connector
from danube.connect.tasks import positions
from danube.connect.tasks.surroundings import TaskState
from danube.model.errors import DanubeError, NotPermittedError, UnsupportedError
from danube.model.limits.faces import CONNECT_REASON_CHARS_MAX, CONNECT_REPORT_S, CONNECT_TASKS_TOLD_MAX
from danube.model.records.connectors import ConnectorTask, ConnectorWish, RunnerReport, Status
from danube.runtime.clock import Clock, sleep_for

_log = logging.getLogger(__name__)
_ORDER = list(Status)


class Reports:
    """Tells one cluster of the connectors that belong to it."""

    def __init__(self, client: DanubeClient, connectors: Sequence[Connector], clock: Clock) -> None:
        self._client = client
        self._connectors = {each.plan.config.name: each for each in connectors}
        self._clock = clock
        self._runner = f"{socket.gethostname()[:60]}-{os.getpid()}"
        self._seen: dict[str, ConnectorWish] = {}
        self._written: dict[tuple[str, str], int] = {}
        self._told_s = clock.monotonic_s()

    async def follow(self) -> None:
        """Tell again and again, and do what is wanted. Ends where the cluster does not want to know."""
        while True:
            await sleep_for(self._clock, CONNECT_REPORT_S)
            try:
                await self.tell()
            except (UnsupportedError, NotPermittedError) as error:
                _log.info("the cluster is not told of connectors: %s", error)
                return
            except (DanubeError, TimeoutError) as error:
                _log.debug("the cluster was not told of connectors: %s", error)

    async def tell(self) -> None:
        """Tell once, and do what is wanted. Raises DanubeError, TimeoutError."""
        async with asyncio.timeout(CONNECT_REPORT_S):
            wishes = await self._client.connectors().report(self._report())
        wanted = {wish.connector: wish for wish in wishes}
        for name, connector in self._connectors.items():
            wish = wanted.get(name, ConnectorWish(connector=name))
            before, self._seen[name] = self._seen.get(name, wish), wish
            await self._obey(connector, before, wish)

    async def release(self) -> None:
        """Tell that this runner ends, if the cluster listens."""
        with suppress(DanubeError, TimeoutError):
            async with asyncio.timeout(1.0):
                await self._client.connectors().report(RunnerReport(runner=self._runner, release=True))

    async def _obey(self, connector: Connector, before: ConnectorWish, wish: ConnectorWish) -> None:
        if wish.paused or wish.restarts > before.restarts:
            await connector.pause()
        if not wish.paused:
            connector.resume()
            if wish.replays > before.replays:
                await connector.replay()

    def _report(self) -> RunnerReport:
        now_s = self._clock.monotonic_s()
        span_s, self._told_s = max(now_s - self._told_s, 0.001), now_s
        tasks = [
            self._task(connector, state, now_s, span_s)
            for connector in self._connectors.values()
            for state in connector.told_states()
        ]
        tasks.sort(key=lambda task: _ORDER.index(task.status))
        return RunnerReport(runner=self._runner, tasks=tuple(tasks[:CONNECT_TASKS_TOLD_MAX]))

    def _task(self, connector: Connector, state: TaskState, now_s: float, span_s: float) -> ConnectorTask:
        key, plan = (state.connector, state.task), connector.plan
        new = state.written - self._written.get(key, 0)
        self._written[key] = state.written
        return ConnectorTask(
            connector=state.connector,
            kind=plan.config.kind,
            direction=plan.definition.direction,
            delivery=plan.definition.delivery,
            task=state.task,
            topic=state.topic,
            subscription=state.subscription,
            status=state.status,
            reason=state.reason,
            since_ms=max(0, self._clock.now_ms() - round(1_000 * (now_s - state.since_s))),
            restarts=state.restarts,
            written=state.written,
            dead=state.dead,
            rate=new / span_s,
            position="" if state.position is None else positions.encoded(state.position)[:CONNECT_REASON_CHARS_MAX],
        )
