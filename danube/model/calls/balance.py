"""Balance of a cluster, plans that rebalance it, and their progress, as administrators see them.

Shares of a broker's capacity are 0 to 1, scores 0 to 100 and above; both are as `danube.loadmgr` defines them. Words of
strategies, modes, verdicts and bands are those of the enums there.
"""

from dataclasses import dataclass
from enum import StrEnum

from danube.model.limits.balance import REBALANCE_MOVES_DEFAULT, TARGET_CV


class BrokerPlaceState(StrEnum):
    """State of a broker as a place for topics."""

    ACTIVE = "active"
    DRAINED = "drained"
    """Topics leave it, and it gets no new ones."""
    FULL = "full"
    """Its disk takes no messages, or nearly so."""
    FAILED = "failed"
    """It was lost, or a move to it failed, a short while ago."""
    EXCLUDED = "excluded"
    """A rule leaves it out of every rebalance."""
    UNKNOWN = "unknown"
    """Its load report is missing, too old, or was refused."""
    MISSING = "missing"
    """It owns topics and does not run."""


class RuleKind(StrEnum):
    """Kind of a rule that rebalances respect."""

    PIN_TOPIC = "pin_topic"
    """The topic, or every partition of the base name, stays where it is."""
    EXCLUDE_NAMESPACE = "exclude_namespace"
    """Topics of the namespace stay where they are."""
    EXCLUDE_BROKER = "exclude_broker"
    """No topic is moved from or to the broker."""


class MoveState(StrEnum):
    """State of one move of a rebalance."""

    WAITING = "waiting"
    MOVING = "moving"
    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"
    """It was not begun: the rebalance ended before, or the topic is elsewhere by now."""


class RebalanceState(StrEnum):
    """State of a rebalance."""

    RUNNING = "running"
    CANCELLING = "cancelling"
    """It begins no more moves, and waits for those under way."""
    SETTLING = "settling"
    """Every move is over; load reports from after the last one are waited for."""
    DONE = "done"
    CANCELLED = "cancelled"
    STOPPED = "stopped"
    """A move failed, or took too long, or a broker was lost."""

    @property
    def is_over(self) -> bool:
        """True if nothing is done for it any more."""
        return self in {RebalanceState.DONE, RebalanceState.CANCELLED, RebalanceState.STOPPED}


@dataclass(frozen=True, slots=True, kw_only=True)
class BalanceFigures:
    """Imbalance of a cluster in numbers, over the brokers that take topics and whose load is known."""

    cv: float = 0.0
    """Coefficient of variation of the scores."""
    band: str = "well balanced"
    peak_to_average: float = 1.0
    mean: float = 0.0
    highest: float = 0.0
    lowest: float = 0.0
    deviation: float = 0.0
    busiest_broker: str = ""
    """Empty for none."""
    busiest_resource: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Utilisation:
    """Shares of a broker's resources that are taken up, 0 to 1."""

    cpu: float = 0.0
    memory: float = 0.0
    network: float = 0.0
    disk: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicBalance:
    """Load of one topic."""

    topic: str
    broker_id: str
    score: float = 0.0
    """Part of its broker's score that it makes."""
    messages_per_s: float = 0.0
    bytes_per_s: float = 0.0
    clients: int = 0
    backlog_messages: int = 0
    stored_bytes: int = 0
    stays: str = ""
    """The reason for which no rebalance moves it; empty for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerBalance:
    """Load of one broker."""

    broker_id: str
    state: BrokerPlaceState = BrokerPlaceState.ACTIVE
    is_known: bool = False
    """False where there is no report that counts: the numbers below are those of the last one, or 0."""
    report_age_s: float | None = None
    """Seconds since its last report; None where there is none."""
    note: str = ""
    """Anything odd about its report or its state, a sentence; empty for nothing."""
    score: float = 0.0
    cause: str = ""
    """`CPU 71 %, of which /default/clicks 38 %`."""
    status: str = "unknown"
    """`overloaded`, `underloaded`, `normal` or `unknown`."""
    used: Utilisation = Utilisation()
    cores: float = 0.0
    memory_bytes: int = 0
    """That it may use; 0 where it is not known."""
    disk_bytes: int = 0
    """0 where the brokers share a disk."""
    disk_bytes_per_s: float = 0.0
    network_bytes_per_s: float = 0.0
    messages_in_per_s: float = 0.0
    messages_out_per_s: float = 0.0
    bytes_in_per_s: float = 0.0
    bytes_out_per_s: float = 0.0
    topics: int = 0
    producers: int = 0
    consumers: int = 0
    backlog_messages: int = 0
    hottest: tuple[TopicBalance, ...] = ()
    """Its topics with the highest scores, the highest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BalanceRule:
    """A pin or an exclusion."""

    kind: RuleKind
    name: str
    """`/namespace/topic`, a namespace, or a broker's id."""
    reason: str = ""
    set_by: str = ""
    set_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AutomaticBalance:
    """The automatic mode."""

    mode: str = "off"
    is_set: bool = False
    """True if it was set at run time; else it is that of the leader's settings."""
    checked_ms: int = 0
    """When the leader checked last; 0 for never."""
    decision: str = ""
    """The result of that check, a sentence."""
    moves_last_hour: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceMove:
    """One move of a plan, and how it went."""

    topic: str
    topic_id: int
    source: str
    target: str
    source_before: float
    """Score of the source before this move, in the order of the plan."""
    source_after: float
    target_before: float
    target_after: float
    carried_bytes: int = 0
    clients: int = 0
    pause_ms: int = 0
    """Expected pause of the topic."""
    reason: str = ""
    state: MoveState = MoveState.WAITING
    started_ms: int | None = None
    ended_ms: int | None = None
    error: str = ""
    """Cause of a move that failed or was skipped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerChange:
    """One broker before and after a plan."""

    broker_id: str
    score_before: float
    score_after: float
    before: Utilisation
    after: Utilisation
    topics_before: int
    topics_after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceWish:
    """Goal and limits of a plan that rebalances, and a cluster to imagine."""

    target_cv: float = TARGET_CV
    moves_max: int = REBALANCE_MOVES_DEFAULT
    strategy: str = ""
    """Empty for that of the leader's settings."""
    without_broker: str = ""
    """Plan as if this broker were gone; empty for none."""
    extra_brokers: int = 0
    """Plan as if there were so many more."""
    topic: str = ""
    """Plan as if this topic had `factor` times its rate; empty for none."""
    factor: float = 1.0

    @property
    def is_imagined(self) -> bool:
        """True if the cluster of the plan is not the one there is."""
        return bool(self.without_broker or self.extra_brokers or self.topic)


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalancePreview:
    """A plan that rebalances: moves in their order, and the cluster before and after them."""

    verdict: str
    summary: str
    """The plan in one sentence."""
    strategy: str
    target_cv: float
    made_ms: int
    before: BalanceFigures
    after: BalanceFigures
    moves: tuple[RebalanceMove, ...] = ()
    brokers: tuple[BrokerChange, ...] = ()
    """By id."""
    carried_bytes: int = 0
    clients: int = 0
    duration_s: float = 0.0
    """Expected duration of all moves."""
    advice: tuple[str, ...] = ()
    """Things that would do better than these moves, a sentence each."""
    bounds: tuple[str, ...] = ()
    """Limits that kept the plan from more, a sentence each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebalance:
    """A rebalance that runs, or ran: its progress is in the states of its moves."""

    rebalance_id: str
    state: RebalanceState
    asked_by: str
    """Caller of the plan, or `automatic`."""
    plan_id: str = ""
    """Empty where no plan was made."""
    started_ms: int = 0
    ended_ms: int | None = None
    reason: str = ""
    """Cause of its state, a sentence."""
    preview: RebalancePreview
    """What was planned; the states of its moves are kept up to date."""
    actual: BalanceFigures | None = None
    """The imbalance measured after its moves; None where it is not known."""
    parallel_moves: int = 1

    def count(self, *states: MoveState) -> int:
        """Moves in one of these states."""
        return sum(move.state in states for move in self.preview.moves)

    @property
    def moves_over(self) -> int:
        """Moves that are done, failed or skipped."""
        return self.count(MoveState.DONE, MoveState.FAILED, MoveState.SKIPPED)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterBalance:
    """Balance of a cluster, as the broker that is asked knows it."""

    strategy: str
    figures: BalanceFigures
    brokers: tuple[BrokerBalance, ...]
    """By id."""
    automatic: AutomaticBalance
    now_ms: int
    leader: str = ""
    """The broker that rebalances; empty while there is none."""
    running: Rebalance | None = None
    last: Rebalance | None = None
    """The one that ended last."""
    rules: tuple[BalanceRule, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearRule:
    """Ask for a rule to be taken away."""

    kind: RuleKind
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAutomatic:
    """Ask for an automatic mode at run time."""

    mode: str
    """Empty for that of the settings again."""
    set_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelRebalance:
    """Ask for a rebalance to begin no more moves."""

    rebalance_id: str = ""
    """Empty for the one that runs."""
    cancelled_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggeredRebalance:
    """The original's answer to TriggerRebalance."""

    success: bool
    moves_executed: int = 0
    proposed: tuple[RebalanceMove, ...] = ()
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerRebalance:
    """The original's request to rebalance."""

    dry_run: bool = False
    moves_max: int | None = None
