"""One connector in the runner: its tasks, one for each partition of a sink, one for a source."""

import asyncio
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
from danube.connect.tasks.sink_life import REPLAY, SinkLife, WrittenOffsets
from danube.connect.tasks.source_life import SourceLife
from danube.connect.tasks.surroundings import Draining, Surroundings, TaskState
from danube.model.errors import DanubeError, SettingsError, TopicNotFoundError
from danube.model.limits.faces import CONNECT_DRAIN_S, CONNECT_PARTITIONS_INTERVAL_S, CONNECT_STANDBY_S
from danube.model.records.connectors import Status
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
        self.client = client
        self._metrics = metrics
        self._clock = clock
        self._rng = rng
        self._draining = Draining()
        self._scope = TaskScope(f"connector {plan.config.name}")
        self._tasks: dict[str, Any] = {}
        self._is_paused = False

    def start(self) -> None:
        """Start its tasks, also those of partitions that come later, unless it is paused."""
        if self._is_paused:
            return
        definition, routes = self.plan.definition, self.plan.routes
        if definition.direction is Direction.SOURCE:
            self._start_source(definition, routes)
            return
        for route in routes:
            self._scope.spawn(self._follow(definition, route, self._draining), f"partitions of {route.topic}")

    async def drain(self) -> None:
        """End each task after its batch under way; those that wait for something end now."""
        self._draining.wanted = True
        for name, task in self._tasks.items():
            if self.states[name].status is not Status.RUNNING:
                task.cancel()
        for task in list(self._tasks.values()):
            while not task.done():
                await sleep_for(self._clock, 0.02)

    async def pause(self) -> None:
        """Drain, and start nothing until it is resumed. What is not drained in time ends at once."""
        if self._is_paused:
            return
        self._is_paused = True
        try:
            async with asyncio.timeout(CONNECT_DRAIN_S):
                await self.drain()
        except TimeoutError:
            _log.warning("%s: not drained after %g s", self.plan.config.name, CONNECT_DRAIN_S)
        await self._scope.close()
        for state in self.states.values():
            state.change(Status.PAUSED, self._clock.monotonic_s())

    def resume(self) -> None:
        """Start again after a pause."""
        if self._is_paused:
            self._is_paused, self._draining = False, Draining()
            self._scope = TaskScope(f"connector {self.plan.config.name}")
            self._tasks.clear()
            self.start()

    async def replay(self) -> None:
        """Have the dead letters of each route written again, up to their end of now."""
        definition = self.plan.definition
        if definition.direction is Direction.SOURCE:
            return
        for route in self.plan.routes:
            try:
                for topic in await self.client.partitions(route.dead_letters):
                    end = (await self.client.bounds(topic)).end_offset
                    subscription = (route.subscription or self.plan.config.name) + REPLAY
                    again = route.model_copy(update={"topic": topic, "subscription": subscription, "start": "earliest"})
                    again = again.model_copy(update={"dead_letter_topic": route.dead_letters})
                    self._start_sink(definition, again, topic, f"{topic} by {subscription}", replay_until=end)
            except TopicNotFoundError:
                _log.info("%s: %s is not there: nothing is written again", self.plan.config.name, route.dead_letters)

    def told_states(self) -> list[TaskState]:
        """The states of its tasks; while there is none, its own."""
        name, status = self.plan.config.name, Status.PAUSED if self._is_paused else Status.STARTING
        return list(self.states.values()) or [TaskState(connector=name, task=name, status=status)]

    async def close(self) -> None:
        """End at once what is left."""
        await self._scope.close()

    async def _follow(self, definition: Definition, route: SinkRoute, draining: Draining) -> None:
        """Start a task for each partition of a topic, as they come."""
        while not draining.wanted:
            try:
                topics = await self.client.partitions(route.topic)
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

    def _start_sink(
        self, definition: Definition, route: SinkRoute, topic: str, name: str, *, replay_until: int | None = None
    ) -> None:
        if name in self._tasks and not self._tasks[name].done():
            return
        if topic != route.topic:
            self.states.pop(self._task_name(route, route.topic), None)
        context, written = self.plan.context(route), WrittenOffsets()
        subscription = route.subscription or self.plan.config.name
        around = self._around(name, route.topic, topic=topic, subscription=subscription)

        def make() -> Life:
            return SinkLife(
                *(around, definition, context, topic),
                draining=self._draining,
                written=written,
                replay_until=replay_until,
            )

        self._spawn(name, around, make, is_kept=replay_until is None)

    def _start_source(self, definition: Definition, routes: tuple[SourceRoute, ...]) -> None:
        context = self.plan.context(routes[0] if len(routes) == 1 else None)
        if definition.delivery is Delivery.EXACTLY_ONCE:
            around = self._around(routes[0].to, routes[0].to, topic=routes[0].to)

            def make() -> Life:
                return SourceLife(around, definition, context, routes[0], draining=self._draining)
        else:
            topic = routes[0].to if len(routes) == 1 else ""
            around = self._around(self.plan.config.name, topic, topic=topic)

            def make() -> Life:
                return PushedLife(around, definition, context, routes, draining=self._draining)

        self._spawn(around.state.task, around, make)

    def _spawn(self, name: str, around: Surroundings, make: Callable[[], Life], *, is_kept: bool = True) -> None:
        async def run() -> None:
            await live(around, make, self._draining)
            if not is_kept:
                self.states.pop(name, None)
                self._tasks.pop(name, None)

        self._tasks[name] = self._scope.spawn(run(), name)

    def _around(self, task: str, labelled: str, *, topic: str, subscription: str = "") -> Surroundings:
        config, now_s = self.plan.config, self._clock.monotonic_s()
        new = TaskState(connector=config.name, task=task, topic=topic, subscription=subscription, since_s=now_s)
        state = self.states.setdefault(task, new)
        state.change(Status.STARTING, now_s)
        return Surroundings(
            config=config,
            client=self.client,
            clock=self._clock,
            rng=self._rng,
            metrics=self._metrics.of(config.name, labelled),
            state=state,
        )


def worst(states: Iterator[TaskState], now_s: float, unhealthy_s: float) -> str | None:
    """The problem that makes a runner unhealthy, if there is one."""
    for state in states:
        is_long = state.status is Status.RETRYING and now_s - state.since_s >= unhealthy_s
        if state.status is Status.FAILED or is_long:
            return f"{state.connector}, {state.task}: {state.status}: {state.reason}"
    return None
