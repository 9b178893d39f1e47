"""Balance of load, plans that rebalance and their progress, as people and assistants see them."""

from typing import Annotated

from pydantic import Field

from danube.admin.analytics.balance import PublishedBalance
from danube.admin.operations.fields import VOLATILE, WIDE, Result
from danube.loadmgr.score import Strategy
from danube.model.calls.balance import (
    BalanceFigures,
    BalanceRule,
    BrokerBalance,
    BrokerChange,
    BrokerPlaceState,
    ClusterBalance,
    MoveState,
    Rebalance,
    RebalanceMove,
    RebalancePreview,
    RebalanceState,
    RuleKind,
    TopicBalance,
    Utilisation,
)
from danube.model.limits.balance import BALANCE_IDLE_SCORE, TARGET_CV

_Number = Annotated[float, VOLATILE]
UNEVEN_CV = 0.3
"""An imbalance from which on a rebalance is proposed."""


class FiguresView(Result):
    """Imbalance in numbers, over the brokers that take topics, now or in a moment, and whose load is known."""

    cv: _Number = Field(description="Coefficient of variation of the brokers' scores: 0 is even.")
    band: Annotated[str, VOLATILE] = Field(
        description="Judgement of it: from `well balanced` to `severely imbalanced`."
    )
    peak_to_average: _Number = Field(description="The highest score by the mean.")
    mean: _Number = Field(description="Mean score.")
    highest: _Number = Field(description="Highest score.")
    lowest: _Number = Field(description="Lowest score.")
    deviation: _Number = Field(description="Standard deviation of the scores.")
    busiest_broker: Annotated[str, VOLATILE] = Field(description="The broker with the highest score; empty for none.")
    busiest_resource: Annotated[str, VOLATILE] = Field(description="The resource that it uses most of.")


class UtilisationView(Result):
    """Shares of a broker's resources that are used, 0 to 1."""

    cpu: _Number = Field(description="Processors.")
    memory: _Number = Field(description="Memory.")
    network: _Number = Field(description="Network.")
    disk: _Number = Field(description="Disk; 0 where the brokers share one.")


class TopicBalanceRow(Result):
    """Load of one topic."""

    topic: str = Field(description="Its name.")
    broker_id: Annotated[str, VOLATILE] = Field(title="Broker", description="Its broker.")
    score: _Number = Field(description="Part of the broker's score that it makes.")
    messages_per_s: _Number = Field(description="Messages a second, in and out.")
    bytes_per_s: _Number = Field(description="Bytes a second, in and out.")
    clients: Annotated[int, VOLATILE] = Field(description="Producers and consumers.")
    backlog_messages: Annotated[int, VOLATILE] = Field(description="Messages that subscriptions have not acknowledged.")
    stored_bytes: Annotated[int, VOLATILE] = Field(description="Bytes of its log.")
    stays: Annotated[str, VOLATILE] = Field(description="Why no rebalance moves it; empty for no reason.")


class BrokerBalanceRow(Result):
    """Load of one broker."""

    broker_id: Annotated[str, VOLATILE] = Field(title="Broker", description="Its id.")
    load: _Number = Field(description="Its score: percent of the resource that it uses most of.")
    topic_count: Annotated[int, VOLATILE] = Field(description="Topics that it owns, partitions each.")
    is_overloaded: Annotated[bool, VOLATILE] = Field(description="Whether it has clearly more load than the others.")
    is_underloaded: Annotated[bool, VOLATILE] = Field(description="Whether it has clearly less.")
    state: Annotated[BrokerPlaceState, VOLATILE] = Field(description="`active`, or why it gets no topics.")
    is_known: Annotated[bool, VOLATILE] = Field(description="Whether there is a load report that counts.")
    report_age_s: Annotated[float | None, VOLATILE] = Field(description="Age of its report; null for none.")
    note: Annotated[str, VOLATILE] = Field(description="Anything odd, a sentence.")
    cause: Annotated[str, VOLATILE] = Field(description="What makes the score.")
    used: Annotated[UtilisationView, VOLATILE] = Field(description="Shares of its resources that are used.")
    cores: Annotated[float, VOLATILE, WIDE] = Field(description="Processors that it may use.")
    memory_bytes: Annotated[int, VOLATILE, WIDE] = Field(description="Memory that it may use; 0 is not known.")
    disk_bytes: Annotated[int, VOLATILE, WIDE] = Field(description="Size of its disk; 0 for a shared one.")
    disk_bytes_per_s: Annotated[float, VOLATILE, WIDE] = Field(description="Its disk's throughput.")
    network_bytes_per_s: Annotated[float, VOLATILE, WIDE] = Field(description="Its network's traffic.")
    messages_in_per_s: Annotated[float, VOLATILE] = Field(description="Messages published, a second.")
    messages_out_per_s: Annotated[float, VOLATILE] = Field(description="Messages delivered, a second.")
    bytes_in_per_s: Annotated[float, VOLATILE] = Field(description="Bytes published, a second.")
    bytes_out_per_s: Annotated[float, VOLATILE] = Field(description="Bytes delivered, a second.")
    producers: Annotated[int, VOLATILE] = Field(description="Attached producers.")
    consumers: Annotated[int, VOLATILE] = Field(description="Consumers with an open stream.")
    backlog_messages: Annotated[int, VOLATILE] = Field(description="Messages that subscriptions have not acknowledged.")
    hottest: Annotated[list[TopicBalanceRow], VOLATILE, WIDE] = Field(description="Its busiest topics.")


class MoveView(Result):
    """One move of a rebalance."""

    topic: str = Field(description="The topic, a partition each.")
    source: Annotated[str, VOLATILE] = Field(description="The broker that it leaves.")
    target: Annotated[str, VOLATILE] = Field(description="The broker that it goes to.")
    source_before: _Number = Field(description="Score of the source before this move.")
    source_after: _Number = Field(description="And after it.")
    target_before: _Number = Field(description="Score of the target before this move.")
    target_after: _Number = Field(description="And after it.")
    carried_bytes: Annotated[int, VOLATILE] = Field(description="Bytes of its log that are copied.")
    clients: Annotated[int, VOLATILE] = Field(description="Producers and consumers that attach again.")
    pause_ms: Annotated[int, VOLATILE] = Field(description="Expected pause of the topic.")
    reason: Annotated[str, VOLATILE] = Field(description="Why.")
    state: Annotated[MoveState, VOLATILE] = Field(description="How far it is.")
    started_ms: Annotated[int | None, VOLATILE] = Field(description="When it began.")
    ended_ms: Annotated[int | None, VOLATILE] = Field(description="When it ended.")
    error: Annotated[str, VOLATILE] = Field(description="Why it failed or was skipped.")


class BrokerChangeView(Result):
    """One broker before and after a plan."""

    broker_id: Annotated[str, VOLATILE] = Field(title="Broker", description="Its id.")
    score_before: _Number = Field(description="Score before.")
    score_after: _Number = Field(description="Score after.")
    before: Annotated[UtilisationView, VOLATILE] = Field(description="Use of its resources before.")
    after: Annotated[UtilisationView, VOLATILE] = Field(description="Use of its resources after.")
    topics_before: Annotated[int, VOLATILE] = Field(description="Topics before.")
    topics_after: Annotated[int, VOLATILE] = Field(description="Topics after.")


class RebalancePlanView(Result):
    """A plan that rebalances."""

    verdict: Annotated[str, VOLATILE] = Field(
        description="`planned` reaches the target, `improved` comes nearer; `balanced`, `idle`, `alone`, `stuck` and"
        " `waiting` move nothing."
    )
    summary: Annotated[str, VOLATILE] = Field(description="The plan in one sentence.")
    strategy: str = Field(description="How brokers are compared.")
    target_cv: float = Field(description="The imbalance that it aims at.")
    made_ms: Annotated[int, VOLATILE] = Field(description="When it was made, milliseconds since the epoch.")
    before: FiguresView = Field(description="The imbalance before.")
    after: FiguresView = Field(description="The imbalance after.")
    moves: Annotated[list[MoveView], VOLATILE] = Field(description="The moves, in their order.")
    brokers: Annotated[list[BrokerChangeView], VOLATILE] = Field(description="Each broker before and after.")
    carried_bytes: Annotated[int, VOLATILE] = Field(description="Bytes that all moves copy.")
    clients: Annotated[int, VOLATILE] = Field(description="Clients that all moves disturb.")
    duration_s: _Number = Field(description="Expected duration.")
    advice: Annotated[list[str], VOLATILE] = Field(description="What would do better.")
    bounds: Annotated[list[str], VOLATILE] = Field(description="What kept the plan from more.")


class MoveOverTime(Result):
    """A move that the load of the whole time asks for."""

    topic: str = Field(description="The topic, a partition each.")
    source: str = Field(description="The broker that it leaves.")
    target: str = Field(description="The broker that it goes to.")
    reason: str = Field(description="Why.")


class BalanceOverTime(Result):
    """Balance over a span of time, from Spark."""

    run_id: str = Field(description="The run that found it.")
    as_of_ms: int = Field(description="The end of the span, milliseconds since the epoch.")
    span_s: float = Field(description="Seconds that were judged.")
    percentile: float = Field(description="The load that was planned for.")
    cv_before: float = Field(description="Imbalance of that load.")
    cv_after: float = Field(description="Imbalance after the moves.")
    paying_hours: str = Field(description="Hours of the day, UTC, in which a rebalance would have paid.")
    moves: list[MoveOverTime] = Field(description="The moves for that load.")


class RebalanceView(Result):
    """A rebalance that runs, or ran."""

    rebalance_id: Annotated[str, VOLATILE] = Field(title="Rebalance ID", description="Its id.")
    state: Annotated[RebalanceState, VOLATILE] = Field(description="Where it stands.")
    reason: Annotated[str, VOLATILE] = Field(description="Why it is there.")
    asked_by: Annotated[str, VOLATILE] = Field(description="Who asked for it, or `automatic`.")
    plan_id: Annotated[str, VOLATILE] = Field(description="Its plan; empty for none.")
    started_ms: Annotated[int, VOLATILE] = Field(description="When it began.")
    ended_ms: Annotated[int | None, VOLATILE] = Field(description="When it ended.")
    moves_total: Annotated[int, VOLATILE] = Field(description="Moves planned.")
    moves_done: Annotated[int, VOLATILE] = Field(description="Moves done.")
    moves_failed: Annotated[int, VOLATILE] = Field(description="Moves that failed.")
    moves_skipped: Annotated[int, VOLATILE] = Field(description="Moves that were not begun.")
    actual_cv: Annotated[float | None, VOLATILE] = Field(description="The imbalance measured after it; null: not yet.")
    plan: Annotated[RebalancePlanView, VOLATILE, WIDE] = Field(description="The plan, with the state of each move.")


class RuleRow(Result):
    """A pin or an exclusion."""

    kind: RuleKind = Field(description="What it keeps from moving.")
    name: str = Field(description="The topic, the namespace or the broker.")
    reason: str = Field(description="Why.")
    set_by: Annotated[str, VOLATILE] = Field(description="Who set it.")
    set_ms: Annotated[int, VOLATILE] = Field(description="When, milliseconds since the epoch.")


def figures_view(figures: BalanceFigures) -> FiguresView:
    """The figures as shown."""
    return FiguresView.of(figures)


def utilisation_view(used: Utilisation) -> UtilisationView:
    """Shares as shown."""
    return UtilisationView.of(used)


def topic_row(topic: TopicBalance) -> TopicBalanceRow:
    """A topic as shown."""
    return TopicBalanceRow.of(topic)


def broker_row(broker: BrokerBalance) -> BrokerBalanceRow:
    """A broker as shown."""
    return BrokerBalanceRow.of(
        broker,
        load=broker.score,
        topic_count=broker.topics,
        is_overloaded=broker.status == "overloaded",
        is_underloaded=broker.status == "underloaded",
        used=utilisation_view(broker.used),
        hottest=[topic_row(each) for each in broker.hottest],
    )


def move_view(move: RebalanceMove) -> MoveView:
    """A move as shown."""
    return MoveView.of(move)


def _change_view(change: BrokerChange) -> BrokerChangeView:
    return BrokerChangeView.of(change, before=utilisation_view(change.before), after=utilisation_view(change.after))


def plan_of(preview: RebalancePreview) -> RebalancePlanView:
    """A plan that rebalances as shown."""
    return RebalancePlanView.of(
        preview,
        before=figures_view(preview.before),
        after=figures_view(preview.after),
        moves=[move_view(each) for each in preview.moves],
        brokers=[_change_view(each) for each in preview.brokers],
        advice=list(preview.advice),
        bounds=list(preview.bounds),
    )


def over_time_view(found: PublishedBalance) -> BalanceOverTime:
    """A published result as shown."""
    return BalanceOverTime.of(found, moves=[MoveOverTime.of(move) for move in found.moves])


def rebalance_view(rebalance: Rebalance) -> RebalanceView:
    """A rebalance as shown."""
    return RebalanceView.of(
        rebalance,
        moves_total=len(rebalance.preview.moves),
        moves_done=rebalance.count(MoveState.DONE),
        moves_failed=rebalance.count(MoveState.FAILED),
        moves_skipped=rebalance.count(MoveState.SKIPPED),
        actual_cv=rebalance.actual.cv if rebalance.actual else None,
        plan=plan_of(rebalance.preview),
    )


def progress_words(rebalance: RebalanceView) -> str:
    """Progress of a rebalance in words: `running: 2 of 5 moves are done, 1 failed; now /default/clicks`."""
    failed = f", {rebalance.moves_failed:,} failed" if rebalance.moves_failed else ""
    skipped = f", {rebalance.moves_skipped:,} skipped" if rebalance.moves_skipped else ""
    now = [move.topic for move in rebalance.plan.moves if move.state is MoveState.MOVING][:3]
    moving = f"; now {', '.join(now)}" if now else ""
    done = f"{rebalance.moves_done:,} of {rebalance.moves_total:,} moves are done"
    settling = "; the load is measured anew" if rebalance.state is RebalanceState.SETTLING else ""
    return f"{rebalance.state.value}: {done}{failed}{skipped}{moving}{settling}"


def followed_text(rebalance: RebalanceView) -> str:
    """The end of a rebalance that was followed, or what to do where it has none yet."""
    done = f"{rebalance.moves_done:,} of {rebalance.moves_total:,} moves are done"
    if not rebalance.state.is_over:
        return f"It goes on in the background, {done}: get_cluster_balance shows how far it is."
    measured = f", the imbalance is {rebalance.actual_cv:.2f} now" if rebalance.actual_cv is not None else ""
    reason = f" ({rebalance.reason.rstrip('.')})" if rebalance.reason else ""
    return f"The rebalance is {rebalance.state.value}{reason}: {done}{measured}."


def rule_row(rule: BalanceRule) -> RuleRow:
    """A rule as shown."""
    return RuleRow.of(rule)


def hint_of(found: ClusterBalance) -> str:
    """The next step about a balance, a sentence."""
    if found.running is not None:
        return f"Rebalance {found.running.rebalance_id} is {found.running.state}: wait for its end."
    unknown = [one.broker_id for one in found.brokers if not one.is_known]
    if unknown:
        return f"The load of broker {', '.join(unknown)} is unknown: no plan moves topics from or to it."
    if len(found.brokers) < 2:
        return "There is one broker: nothing can be balanced."
    if is_idle(found):
        return f"Nothing has to be done: no broker uses {BALANCE_IDLE_SCORE:.0f} % of what it has."
    if waiting := wait_of(found):
        return waiting
    if found.figures.cv >= UNEVEN_CV:
        return "The load is uneven: call trigger_rebalance for a plan, analyze_cluster_balance for the reasons."
    return "Nothing has to be done."


def is_idle(found: ClusterBalance) -> bool:
    """True if no move pays, however uneven the load is."""
    return found.figures.highest < BALANCE_IDLE_SCORE and found.strategy != Strategy.FAIR


def wait_of(found: ClusterBalance) -> str:
    """The wait of a plan, with its cause and its end, a sentence; empty where it need not wait."""
    waiting = [f"Broker {one.broker_id}: {one.note}" for one in found.brokers if one.state is BrokerPlaceState.FAILED]
    if not waiting or found.figures.cv < TARGET_CV or is_idle(found):
        return ""
    return f"The load is uneven, and a plan waits for brokers that failed lately. {' '.join(waiting)}"
