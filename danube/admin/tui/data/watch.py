"""The last known state of the cluster, read round by round for display; each call is bounded.

These calls are looks, not acts: they go to the gateway directly and into no audit log. What a person triggers goes
through `danube/admin/execution.py`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from danube.admin.gateway import AdminGateway
from danube.admin.operations.analytics.lag import ANALYZE_CONSUMER_LAG, AnalyzeLagParams, LagReport, LagSource
from danube.admin.operations.cluster.balance import GET_CLUSTER_BALANCE, BalanceResult
from danube.admin.operations.cluster.health import HEALTH_CHECK, Health
from danube.admin.operations.cluster.members import CLUSTER_STATUS, ClusterStatus
from danube.admin.operations.fields import Params
from danube.admin.operations.operation import Call
from danube.admin.operations.plan_views import PlanView, plan_view
from danube.admin.tui.data.audit_tail import AuditTails
from danube.admin.tui.data.lag_history import LagHistory
from danube.admin.tui.data.topic_rows import TopicRows
from danube.admin.tui.schemas.look import SchemaLook
from danube.model.calls.admin import BrokerInfo, DescribeCursor, DescribeTopics, TopicDescription, TopicsPage
from danube.model.calls.positions import Connection
from danube.model.errors import DanubeError, DeadlineExceededError, UnavailableError, UnsupportedError
from danube.model.limits.faces import (
    LAG_GROUPS_MAX,
    TUI_LAG_READ_S,
    TUI_PAGE_TOPICS,
    TUI_PAGES_A_ROUND,
    TUI_PLANS_MAX,
    TUI_TOPICS_MAX,
)
from danube.model.plans.plan import Caller, PlanStatus
from danube.model.topic import TopicName
from danube.runtime.clock import Clock


class Part(StrEnum):
    """One part of the cluster that a round can read."""

    HEALTH = "health"
    TOPICS = "topics"
    BROKERS = "brokers"
    PLANS = "plans"
    AUDIT = "audit"
    TOPIC = "topic"
    """The one that is opened."""
    BALANCE = "balance"
    SCHEMAS = "schemas"
    LAG = "lag"
    MEMBERS = "members"
    CONNECTIONS = "connections"
    """Of the topic that is opened."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedTopic:
    """One topic with its subscriptions; `description` is None where the broker does not tell."""

    name: TopicName
    description: TopicDescription | None
    subscriptions: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedConnections:
    """The clients of one topic."""

    name: TopicName
    shown: tuple[Connection, ...]
    count: int
    """Count of all; the first of them are shown."""


class Watch:
    """The last known state of a cluster, and when it was read."""

    def __init__(self, gateway: AdminGateway, *, clock: Clock, caller: Caller, timeout_s: float) -> None:
        self._gateway = gateway
        self._clock = clock
        self._call = Call(gateway=gateway, clock=clock, caller=caller)
        self._timeout_s = timeout_s
        self._after: DescribeCursor | None = None
        self._is_sweeping = False
        self._lag_read_s = 0.0
        self._bound = asyncio.Timeout(None)
        self._drawn: Callable[[], None] = lambda: None
        self.health: Health | None = None
        self.brokers: Sequence[BrokerInfo] = ()
        self.namespaces: Sequence[str] = ()
        self.topics = TopicRows()
        self.plans: Sequence[PlanView] = ()
        self.balance: BalanceResult | None = None
        self.schemas = SchemaLook()
        self.audit = AuditTails()
        self.lags = LagHistory()
        self.opened: TopicName | None = None
        self.topic: OpenedTopic | None = None
        self.lag: LagReport | None = None
        self.members: ClusterStatus | None = None
        self.connections: OpenedConnections | None = None
        self.read: set[Part] = set()
        """Parts that were read once: before that nothing is known of them, which is not the same as none."""
        self.problems: dict[Part, str] = {}
        """Why a part cannot be read from this broker, or could not the last time."""
        self.is_ours: bool | None = None
        self.read_ms: int | None = None
        """When the last round ended well."""
        self.unreachable_since_ms: int | None = None
        self.unreachable_reason = ""

    @property
    def waiting_plans(self) -> int:
        return sum(plan.status is PlanStatus.WAITING for plan in self.plans)

    @property
    def rebalance_plan(self) -> PlanView | None:
        """The newest plan of a rebalance that waits or is ready."""
        found = [plan for plan in self.plans if plan.rebalance is not None and not plan.status.is_over]
        return max(found, key=lambda plan: plan.created_ms, default=None)

    async def round(self, parts: Sequence[Part], drawn: Callable[[], None]) -> None:
        """Read these parts; `drawn` is called whenever there is something new to draw. Raises nothing of the cluster's.

        A broker that does not answer ends the round: what is known stays.
        """
        self._drawn = drawn
        for part in parts:
            try:
                async with asyncio.timeout(self._timeout_s) as self._bound:
                    await self._reader(part)()
            except (UnavailableError, DeadlineExceededError, TimeoutError) as error:
                self._lost(error)
                drawn()
                return
            except DanubeError as error:
                self.problems[part] = str(error)
            else:
                self.problems.pop(part, None)
                self.read.add(part)
            self._reached()
            drawn()

    def _reader(self, part: Part) -> Callable[[], Awaitable[None]]:
        return {
            Part.HEALTH: self._read_health,
            Part.TOPICS: self._read_topics,
            Part.BROKERS: self._read_brokers,
            Part.PLANS: self._read_plans,
            Part.AUDIT: self._read_audit,
            Part.TOPIC: self._read_topic,
            Part.BALANCE: self._read_balance,
            Part.SCHEMAS: self._read_schemas,
            Part.LAG: self._read_lag,
            Part.MEMBERS: self._read_members,
            Part.CONNECTIONS: self._read_connections,
        }[part]

    async def _read_health(self) -> None:
        self.is_ours = (await self._gateway.connection()).is_ours
        self.health = await HEALTH_CHECK.answer(self._call, Params())

    async def _read_schemas(self) -> None:
        await self.schemas.read(self._call)

    async def _read_brokers(self) -> None:
        self.brokers = await self._gateway.brokers()
        self.namespaces = await self._gateway.namespaces()

    async def _read_topics(self) -> None:
        try:
            await self._sweep()
        except UnsupportedError:
            await self._list()

    async def _sweep(self) -> None:
        for _ in range(TUI_PAGES_A_ROUND):
            if not self._is_sweeping:
                self.topics.start()
                self._is_sweeping, self._after = True, None
            page = await self._gateway.describe_topics(DescribeTopics(page_size=TUI_PAGE_TOPICS, after=self._after))
            self._add_page(page)
            if page.next is None:
                self._is_sweeping = False
                self.topics.finish()
                self.lags.drop_missing({line.name for line in self.topics.lines})
                return
            self._after = page.next
            self._bound.reschedule(asyncio.get_running_loop().time() + self._timeout_s)  # the bound is of one page
            if not self.topics.is_complete:
                self._reached()
                self._drawn()

    def _add_page(self, page: TopicsPage) -> None:
        self.topics.add_described(page.topics, self._clock.monotonic_s())
        for topic in page.topics:
            self._add_lag(topic)

    def _add_lag(self, topic: TopicDescription) -> None:
        """The opened topic is read on its own in each round, and would count twice here."""
        if topic.topic == self.opened:
            return
        for subscription in topic.subscriptions:
            if subscription.reliable is not None:
                self.lags.add(str(topic.topic), subscription.name, subscription.reliable.lag)

    async def _list(self) -> None:
        self.topics.start()
        for namespace in await self._gateway.namespaces():
            self.topics.add_listed((await self._gateway.topics(namespace))[:TUI_TOPICS_MAX])
        self._is_sweeping = False
        self.topics.finish()

    async def _read_plans(self) -> None:
        now_ms = self._clock.now_ms()
        views = [plan_view(plan, now_ms) for plan in await self._gateway.plans()]
        views.sort(key=lambda view: (view.status is not PlanStatus.WAITING, view.status.is_over, -view.created_ms))
        self.plans = views[:TUI_PLANS_MAX]

    async def _read_balance(self) -> None:
        self.balance = await GET_CLUSTER_BALANCE.answer(self._call, Params())

    async def _read_lag(self) -> None:
        """Judged from telemetry, which is published every few seconds: not read more often than TUI_LAG_READ_S."""
        now_s = self._clock.monotonic_s()
        if self.lag is not None and now_s - self._lag_read_s < TUI_LAG_READ_S:
            return
        params = AnalyzeLagParams(source=LagSource.LIVE, limit=LAG_GROUPS_MAX)
        self.lag, self._lag_read_s = await ANALYZE_CONSUMER_LAG.answer(self._call, params), now_s

    async def _read_members(self) -> None:
        self.members = await CLUSTER_STATUS.answer(self._call, Params())

    async def _read_connections(self) -> None:
        if self.opened is not None:
            shown, count = await self._gateway.topic_connections(self.opened)
            self.connections = OpenedConnections(name=self.opened, shown=tuple(shown), count=count)

    async def _read_audit(self) -> None:
        await self.audit.read(self._gateway)

    async def _read_topic(self) -> None:
        name = self.opened
        if name is None:
            return
        try:
            wanted = DescribeTopics(topics=(name,), page_size=TUI_PAGE_TOPICS)
            found = [topic for topic in (await self._gateway.describe_topics(wanted)).topics if topic.topic == name]
            description = found[0] if found else None
        except UnsupportedError:
            description = None
        if description is None:
            names = tuple(await self._gateway.subscriptions(name))
        else:
            names = tuple(each.name for each in description.subscriptions)
            for each in description.subscriptions:
                if each.reliable is not None:
                    self.lags.add(str(name), each.name, each.reliable.lag, is_shown=True)
        self.topic = OpenedTopic(name=name, description=description, subscriptions=names)

    def _reached(self) -> None:
        self.read_ms = self._clock.now_ms()
        self.unreachable_since_ms = None

    def _lost(self, error: Exception) -> None:
        if self.unreachable_since_ms is None:
            self.unreachable_since_ms = self._clock.now_ms()
        self.unreachable_reason = str(error) or f"it did not answer within {self._timeout_s:g} s"
