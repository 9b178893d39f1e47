"""The runner: the connectors of some files in one process, with a port that tells how they are."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Sequence

from prometheus_client import make_asgi_app

from danube.client import DanubeClient, DanubeClientBuilder
from danube.connect.config.file import ConnectorConfig
from danube.connect.connector import Connector, Plan, worst
from danube.connect.metrics import ConnectorMetrics
from danube.connect.reports import Reports
from danube.connect.tasks.surroundings import TaskState
from danube.model.errors import DanubeError, SettingsError
from danube.model.limits.faces import CONNECT_CHECK_TIMEOUT_S, CONNECT_DRAIN_S, CONNECT_UNHEALTHY_S
from danube.model.records.connectors import Status
from danube.rpc.address import join_address
from danube.rpc.carrier import Carrier
from danube.rpc.metrics_port import MetricsPort
from danube.runtime.clock import Clock, SystemClock
from danube.runtime.rng import Rng, SystemRng
from danube.runtime.tasks import TaskScope

_log = logging.getLogger(__name__)


class Runner:
    """Runs connectors: `start`, then `drain`."""

    def __init__(
        self,
        plans: Sequence[Plan],
        *,
        carrier: Carrier | None = None,
        clock: Clock | None = None,
        rng: Rng | None = None,
        tells: bool = True,
    ) -> None:
        """With `tells` the cluster hears of the tasks, and administrators may pause them."""
        self._tells = tells
        self._reports: list[Reports] = []
        self._plans = plans
        self._carrier = carrier
        self._clock = clock or SystemClock()
        self._rng = rng or SystemRng()
        self._metrics = ConnectorMetrics(self._clock)
        self._scope = TaskScope("connect")
        self._clients: dict[tuple[str, str | None, str | None], DanubeClient] = {}
        self._port: MetricsPort | None = None
        self.connectors: list[Connector] = []

    @property
    def address(self) -> str:
        """The address of the port for /health and /metrics; empty without one."""
        return "" if self._port is None else self._port.address

    @property
    def states(self) -> list[TaskState]:
        """The state of each task."""
        return [state for connector in self.connectors for state in connector.states.values()]

    async def start(self, *, with_port: bool = True) -> None:
        """Start all connectors. Raises SettingsError where the port or a certificate cannot be had."""
        for plan in self._plans:
            client = await self._client(plan.config)
            self.connectors.append(Connector(plan, client, self._metrics, clock=self._clock, rng=self._rng))
        if with_port:
            await self._open_port()
        for client in self._clients.values() if self._tells else ():
            reports = Reports(client, [each for each in self.connectors if each.client is client], self._clock)
            self._reports.append(reports)
            with contextlib.suppress(DanubeError, TimeoutError):  # told again later; what is paused starts paused
                await reports.tell()
            self._scope.spawn(reports.follow(), "reports")
        for connector in self.connectors:
            _log.info("%s", connector.plan.describe())
            connector.start()

    async def drain(self, timeout_s: float = CONNECT_DRAIN_S) -> bool:
        """End each task after its batch under way, and close everything. Tells whether all ended in time."""
        try:
            async with asyncio.timeout(timeout_s):
                await asyncio.gather(*(connector.drain() for connector in self.connectors))
        except TimeoutError:
            _log.warning("not drained after %g s: what is under way will come again", timeout_s)
            return False
        else:
            return True
        finally:
            await self.close()

    async def close(self) -> None:
        """End everything at once. Idempotent."""
        for connector in self.connectors:
            await connector.close()
        for reports in self._reports:
            await reports.release()
        self._reports.clear()
        if self._port is not None:
            await self._port.stop()
        await self._scope.close()
        for client in self._clients.values():
            await client.close()
        self._clients.clear()

    async def disconnect(self) -> None:
        """Close the connections to the cluster and leave the tasks alone: for tests of tasks that were paused."""
        for client in self._clients.values():
            await client.close()

    def problem(self) -> str | None:
        """The reason why the runner is unhealthy, if it is."""
        return worst(iter(self.states), self._clock.monotonic_s(), CONNECT_UNHEALTHY_S)

    def is_over(self) -> bool:
        """True once no task can ever run: the configuration of each is wrong."""
        states = self.states
        return bool(states) and all(state.status is Status.FAILED for state in states)

    async def _open_port(self) -> None:
        processing = self._plans[0].config.processing
        self._port = MetricsPort(
            {"/health": self.problem, "/health/ready": self.problem, "/health/live": lambda: None},
            self._scope,
            facts=self._facts,
            instead="choose another metrics_port in [processing]",
        )
        self._port.show(make_asgi_app(self._metrics.registry))
        await self._port.start(join_address(processing.metrics_host, processing.metrics_port))
        _log.info("health and metrics on %s", self._port.address)

    def _facts(self) -> dict[str, object]:
        return {
            "tasks": [
                {
                    "connector": state.connector,
                    "task": state.task,
                    "status": state.status.value,
                    "reason": state.reason,
                    "restarts": state.restarts,
                    "written": state.written,
                    "position": state.position,
                }
                for state in self.states
            ]
        }

    async def _client(self, config: ConnectorConfig) -> DanubeClient:
        key = (config.service_url, config.ca_cert, config.token)
        if key not in self._clients:
            self._clients[key] = await client_of(config, self._carrier)
        return self._clients[key]


async def client_of(config: ConnectorConfig, carrier: Carrier | None) -> DanubeClient:
    """A client for a connector. Raises SettingsError."""
    builder = DanubeClientBuilder().service_url(config.service_url)
    if carrier is not None:
        builder.with_carrier(carrier)
    if config.ca_cert:
        builder.with_tls(config.ca_cert)
    if config.token:
        builder.with_token(config.token)
    return await builder.build()


async def check(plan: Plan, carrier: Carrier | None = None) -> AsyncIterator[tuple[bool, str]]:
    """Reach both sides of a connector, and change neither: for each thing, whether it is well and a sentence."""
    async with contextlib.AsyncExitStack() as stack:
        client = await stack.enter_async_context(await client_of(plan.config, carrier))
        for route in plan.routes:
            topic = getattr(route, "topic", None) or route.to
            yield await _topic_answer(client, topic, is_read=hasattr(route, "topic"))
    for route in plan.routes if plan.definition.direction == "sink" else plan.routes[:1]:
        yield await _other_side(plan, route)


async def _topic_answer(client: DanubeClient, topic: str, *, is_read: bool) -> tuple[bool, str]:
    try:
        async with asyncio.timeout(CONNECT_CHECK_TIMEOUT_S):
            topics = await client.partitions(topic)
    except TimeoutError:
        return False, f"{topic}: no broker answers at {client.uri}"
    except DanubeError as error:
        return False, f"{topic}: {error}"
    if topics:
        return True, f"{topic}: there, {len(topics)} {'partition' if len(topics) == 1 else 'partitions'}"
    return True, f"{topic}: not there; {'its task waits for it' if is_read else 'it will be created'}"


async def _other_side(plan: Plan, route: object) -> tuple[bool, str]:
    try:
        side = plan.definition.make(plan.context(route))
        async with asyncio.timeout(CONNECT_CHECK_TIMEOUT_S):
            return True, f"{plan.config.kind}: {await side.check()}"
    except TimeoutError:
        return False, f"{plan.config.kind}: no answer within {CONNECT_CHECK_TIMEOUT_S:g} s"
    except SettingsError:
        raise
    except Exception as error:
        return False, f"{plan.config.kind}: {error}"
