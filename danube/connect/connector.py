"""One connector in the runner: its tasks, one for each partition of a sink, one for a source."""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from danube.client import DanubeClient
from danube.connect.config.file import ConnectorConfig
from danube.connect.config.routes import SinkRoute, SourceRoute
from danube.connect.connectors.catalogue import load_definition
from danube.connect.failures import StandbyError
from danube.connect.metrics import ConnectorMetrics
from danube.connect.sdk import Context, Definition, Delivery, Direction
from danube.connect.tasks.pushed_life import PushedLife
from danube.connect.tasks.restarts import Life, live
from danube.connect.tasks.sink_life import SinkLife, WrittenOffsets
from danube.connect.tasks.source_life import SourceLife
from danube.connect.tasks.surroundings import Draining, Status, Surroundings, TaskState
from danube.model.errors import DanubeError, SettingsError
from danube.model.limits.faces import CONNECT_PARTITIONS_INTERVAL_S, CONNECT_STANDBY_S
from danube.runtime.clock import Clock, sleep_for
from danube.runtime.rng import Rng
from danube.runtime.tasks import TaskScope

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Plan:
    """A connector as its file has it, checked: what would run."""

    config: ConnectorConfig
    definition: Definition
    settings: Any

    @property
    def routes(self) -> tuple[Any, ...]:
        """Its routes; that of the decorator where a source's file has none."""
        routes: tuple[Any, ...] = self.settings.routes
        if not routes and self.definition.topic is not None:
            return (SourceRoute(to=self.definition.topic),)
        return routes

    def describe(self) -> str:
        """The connector in one line."""
        ways = ", ".join(
            f"{each.topic} -> {each.to or self.config.kind}"
            if isinstance(each, SinkRoute)
            else f"{each.source or self.config.kind} -> {each.to}"
            for each in self.routes
        )
        return (
            f"{self.config.name}: {self.config.kind}, {self.definition.direction}, {self.definition.delivery}: {ways}"
        )

    def context(self, route: Any = None) -> Context:  # noqa: ANN401 - of the connector
        """The context of one task."""
        return Context(connector=self.config.name, settings=self.settings, route=route)


def plan(config: ConnectorConfig) -> Plan:
    """Load and check a connector. Raises SettingsError."""
    found = Plan(config, load_definition(config.kind), config.settings())
    if not found.routes:
        raise SettingsError(f"{config.origin}: {config.name} has no route: add [[{config.section_name}.routes]]")
    pairs = [(each.topic, each.subscription) for each in found.routes if isinstance(each, SinkRoute)]
    twice = next((pair for pair in pairs if pairs.count(pair) > 1), None)
    if twice is not None:
        raise SettingsError(
            f"{config.origin}: two routes read {twice[0]} by one subscription: give each a subscription of its own"
        )
    definition = found.definition
    is_exact_source = definition.direction is Direction.SOURCE and definition.delivery is Delivery.EXACTLY_ONCE
    if is_exact_source and len(found.routes) > 1:
        raise SettingsError(
            f"{config.origin}: {config.name} keeps its position in one topic: give one route, or a connector for each"
        )
    return found


class Connector:
    """A connector that runs."""

    def __init__(self, plan: Plan, client: DanubeClient, metrics: ConnectorMetrics, *, clock: Clock, rng: Rng) -> None:
        self.plan = plan
        self.states: dict[str, TaskState] = {}
        """By task."""
        self._client = client
        self._metrics = metrics
        self._clock = clock
        self._rng = rng
        self._draining = Draining()
        self._scope = TaskScope(f"connector {plan.config.name}")
        self._tasks: dict[str, Any] = {}

    def start(self) -> None:
        """Start its tasks, also those of partitions that come later."""
        definition, routes = self.plan.definition, self.plan.routes
        if definition.direction is Direction.SOURCE:
            self._start_source(definition, routes)
            return
        for route in routes:
            self._scope.spawn(self._follow(definition, route), f"partitions of {route.topic}")

    async def drain(self) -> None:
        """End each task after its batch under way; those that wait for something end now."""
        self._draining.wanted = True
        for name, task in self._tasks.items():
            if self.states[name].status is not Status.RUNNING:
                task.cancel()
        for task in list(self._tasks.values()):
            while not task.done():
                await sleep_for(self._clock, 0.02)

    async def close(self) -> None:
        """End at once what is left."""
        await self._scope.close()

    async def _follow(self, definition: Definition, route: SinkRoute) -> None:
        """Start a task for each partition of a topic, as they come."""
        while not self._draining.wanted:
            try:
                topics = await self._client.partitions(route.topic)
            except DanubeError as error:
                _log.warning("%s: cannot find the partitions of %s: %s", self.plan.config.name, route.topic, error)
                topics = ()
            if not topics:
                self._wait_for(route)
            for topic in topics:
                name = self._task_name(route, topic)
                if name not in self._tasks:
                    self._start_sink(definition, route, topic, name)
            await sleep_for(self._clock, CONNECT_PARTITIONS_INTERVAL_S if topics else CONNECT_STANDBY_S)

    def _task_name(self, route: SinkRoute, topic: str) -> str:
        """The topic, and where several routes read it the subscription, too."""
        is_alone = sum(each.topic == route.topic for each in self.plan.routes) == 1
        return topic if is_alone else f"{topic} by {route.subscription}"

    def _wait_for(self, route: SinkRoute) -> None:
        name = self._task_name(route, route.topic)
        if name not in self._tasks:
            state = self.states.setdefault(name, TaskState(connector=self.plan.config.name, task=name))
            error = StandbyError(f"topic {route.topic} is not there")
            state.change(Status.STANDBY, self._clock.monotonic_s(), error)

    def _start_sink(self, definition: Definition, route: SinkRoute, topic: str, name: str) -> None:
        if topic != route.topic:
            self.states.pop(self._task_name(route, route.topic), None)
        around, context, written = self._around(name, route.topic), self.plan.context(route), WrittenOffsets()

        def make() -> Life:
            return SinkLife(around, definition, context, topic, draining=self._draining, written=written)

        self._spawn(name, around, make)

    def _start_source(self, definition: Definition, routes: tuple[SourceRoute, ...]) -> None:
        context = self.plan.context(routes[0] if len(routes) == 1 else None)
        if definition.delivery is Delivery.EXACTLY_ONCE:
            around = self._around(routes[0].to, routes[0].to)

            def make() -> Life:
                return SourceLife(around, definition, context, routes[0], draining=self._draining)
        else:
            around = self._around(self.plan.config.name, routes[0].to if len(routes) == 1 else "")

            def make() -> Life:
                return PushedLife(around, definition, context, routes, draining=self._draining)

        self._spawn(around.state.task, around, make)

    def _spawn(self, name: str, around: Surroundings, make: Callable[[], Life]) -> None:
        self._tasks[name] = self._scope.spawn(live(around, make, self._draining), name)

    def _around(self, task: str, topic: str) -> Surroundings:
        config = self.plan.config
        state = self.states[task] = TaskState(connector=config.name, task=task, since_s=self._clock.monotonic_s())
        return Surroundings(
            config=config,
            client=self._client,
            clock=self._clock,
            rng=self._rng,
            metrics=self._metrics.of(config.name, topic),
            state=state,
        )


def worst(states: Iterator[TaskState], now_s: float, unhealthy_s: float) -> str | None:
    """The problem that makes a runner unhealthy, if there is one."""
    for state in states:
        is_long = state.status is Status.RETRYING and now_s - state.since_s >= unhealthy_s
        if state.status is Status.FAILED or is_long:
            return f"{state.connector}, {state.task}: {state.status}: {state.reason}"
    return None
