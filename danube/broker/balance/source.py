"""Source of views: the facts about load, topics and brokers that this broker knows at this moment."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from danube.broker.balance.preview import Pace
from danube.broker.balance.records import BalanceRecords
from danube.broker.balance.reporting.reports import LoadReports
from danube.broker.balance.view import BalanceView, Facts, view_of
from danube.broker.topics.local_topics import Topics
from danube.loadmgr.automatic import Automatic
from danube.loadmgr.score import Strategy
from danube.metadata.records.record_format import TopicRecord
from danube.model.calls.balance import BalanceRule, MoveState
from danube.model.limits.balance import (
    AUTOMATIC_CHECK_INTERVAL_S,
    BROKER_FAILED_S,
    LOAD_REPORT_INTERVAL_S,
    PARALLEL_REBALANCE_MOVES,
    REPORTS_MISSED_MAX,
    SETTLE_REPORTS,
    SETTLE_S_MAX,
    TOPIC_COOL_DOWN_S,
)
from danube.model.limits.moves import CARRY_BYTES_PER_S
from danube.model.ownership import StorageMode, TopicOwnership
from danube.model.records.telemetry import SYSTEM_NAMESPACE
from danube.model.topic import DispatchStrategy, TopicName
from danube.runtime.clock import Clock

if TYPE_CHECKING:
    from danube.broker.cluster.member import Cluster

_LEAVES = "it stops"


@dataclass(frozen=True, slots=True, kw_only=True)
class BalanceSettings:
    """Settings of balance."""

    strategy: Strategy = Strategy.BALANCED
    automatic: Automatic = Automatic.OFF
    report_interval_s: float = LOAD_REPORT_INTERVAL_S
    cool_down_s: float = TOPIC_COOL_DOWN_S
    parallel_moves: int = PARALLEL_REBALANCE_MOVES
    moves_per_hour: int = 0
    """Of the automatic mode; 0 for that of the mode."""
    check_interval_s: float = AUTOMATIC_CHECK_INTERVAL_S
    excluded: tuple[BalanceRule, ...] = ()
    """Pins and exclusions beside those set at run time."""
    copy_bytes_per_s: int = CARRY_BYTES_PER_S

    @property
    def stale_s(self) -> float:
        """Age from which on a report is unknown."""
        return REPORTS_MISSED_MAX * self.report_interval_s

    @property
    def settle_s(self) -> float:
        """Time in which reports from after a move have come, with rates that have settled."""
        return min(SETTLE_S_MAX, SETTLE_REPORTS * self.report_interval_s)

    @property
    def pace(self) -> Pace:
        """Expected pace of moves."""
        return Pace(parallel_moves=self.parallel_moves, copy_bytes_per_s=self.copy_bytes_per_s, settle_s=self.settle_s)


class BalanceSource:
    """Makes views of the cluster, or of a broker that stands alone."""

    def __init__(
        self,
        cluster: "Cluster | None",
        topics: Topics,
        reports: LoadReports,
        records: BalanceRecords,
        *,
        broker_id: int,
        settings: BalanceSettings,
        clock: Clock,
    ) -> None:
        self._cluster = cluster
        self._topics = topics
        self._reports = reports
        self._records = records
        self._broker_id = broker_id
        self.settings = settings
        self._clock = clock
        self._leaving: set[int] = set()
        """Brokers that have said that they stop."""
        self._lost_s: dict[int, float] = {}
        """When brokers were lost that had not said so, monotonic."""
        if cluster is not None:
            cluster.topics.on_change(lambda _before, _after: self._note_leaving())
            cluster.registry.on_change(self._note_lost)

    @property
    def leader(self) -> str:
        """The broker that rebalances; empty for none."""
        if self._cluster is None:
            return str(self._broker_id)
        leader = self._cluster.election.leader
        return "" if leader is None else str(leader)

    @property
    def rules(self) -> tuple[BalanceRule, ...]:
        """Pins and exclusions: those of the settings, and those set at run time."""
        return (*self.settings.excluded, *self._records.rules)

    def view(self) -> BalanceView:
        """The view at this moment. Costs a step for each topic of the cluster."""
        return view_of(self.facts())

    def facts(self) -> Facts:
        """The facts at this moment."""
        cluster, now_ms = self._cluster, self._clock.now_ms()
        return Facts(
            topics=self._ownerships(),
            brokers=cluster.topics.brokers if cluster else {self._broker_id: None},
            reports=self._reports.reports,
            refused=self._reports.refused,
            remembered=self._reports.remembered,
            rules=self.rules,
            failed=self.failed(),
            moved=self._moved(now_ms),
            strategy=self.settings.strategy,
            mode=cluster.topics.mode if cluster else StorageMode.LOCAL,
            now_s=self._clock.monotonic_s(),
            now_ms=now_ms,
            stale_s=self.settings.stale_s,
        )

    def basis(self) -> tuple[object, ...]:
        """Facts about brokers that a view depends on beside the time: equal ones make equal statuses of brokers."""
        brokers = self._cluster.topics.brokers if self._cluster else {}
        reports = self._reports
        return (*reports.reports.items(), *reports.refused.items(), *brokers.items(), self.rules, tuple(self.failed()))

    def failed(self) -> dict[int, int]:
        """Brokers that were lost, or failed to open a topic, a short while ago, and when they get topics again."""
        now_s, now_ms = self._clock.monotonic_s(), self._clock.now_ms()
        since_ms = [(each, now_ms - round(1_000 * (now_s - at_s))) for each, at_s in self._lost_s.items()]
        since_ms += [
            (int(move.target), move.ended_ms or 0)
            for one in self._records.rebalances
            for move in one.preview.moves
            if move.state is MoveState.FAILED
        ]
        until_ms = sorted((at_ms + round(1_000 * BROKER_FAILED_S), each) for each, at_ms in since_ms)
        return {each: at_ms for at_ms, each in until_ms if at_ms > now_ms}

    def _moved(self, now_ms: int) -> frozenset[str]:
        since_ms = now_ms - self.settings.cool_down_s * 1_000
        return frozenset(
            move.topic
            for one in self._records.rebalances
            for move in one.preview.moves
            if move.state is MoveState.DONE and (move.ended_ms or 0) > since_ms
        )

    def _ownerships(self) -> list[tuple[TopicName, TopicOwnership]]:
        if self._cluster is not None:
            known = self._cluster.topics
            return [(record.name, known.ownership(record)) for record in known]
        return [(topic.record.name, self._alone(topic.record)) for topic in self._topics]

    def _alone(self, record: TopicRecord) -> TopicOwnership:
        return TopicOwnership(
            topic_id=record.topic_id,
            namespace=record.name.namespace,
            is_reliable=record.strategy is DispatchStrategy.RELIABLE,
            owner=self._broker_id,
            broker=self._broker_id,
            is_pinned=record.name.namespace == SYSTEM_NAMESPACE,
            base=record.base,
        )

    def _note_leaving(self) -> None:
        if self._cluster is not None:
            drains = self._cluster.topics.brokers.items()
            self._leaving |= {each for each, drain in drains if drain is not None and drain.reason == _LEAVES}

    def _note_lost(self) -> None:
        if self._cluster is None:
            return
        registry, now_s = self._cluster.registry, self._clock.monotonic_s()
        for broker_id in registry.gone:
            if broker_id not in self._leaving:
                self._lost_s.setdefault(broker_id, now_s)
        self._leaving &= {*registry.brokers, *registry.gone}
        for broker_id in [each for each, at_s in self._lost_s.items() if now_s - at_s >= BROKER_FAILED_S]:
            if broker_id in registry.brokers:
                del self._lost_s[broker_id]
