"""A cluster whose first broker has nearly all of the load, and the plan that the real planner makes for it."""

from collections.abc import Mapping

from danube.loadmgr.cluster_state import ClusterState, Place, PlacedTopic
from danube.loadmgr.explain import cause_of, explain
from danube.loadmgr.goal import Goal
from danube.loadmgr.load import Capacity, Demand, Shares
from danube.loadmgr.planner import RebalancePlan, plan
from danube.loadmgr.score import BrokerScore, Imbalance, Strategy, status_of
from danube.model.calls.balance import (
    AutomaticBalance,
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

LOADS: Mapping[str, tuple[int, float]] = {
    "/default/clicks": (1, 0.35),
    "/default/orders": (1, 0.2),
    "/default/payments": (1, 0.12),
    "/default/events": (1, 0.1),
    "/default/logs": (1, 0.08),
    "/default/audit": (2, 0.06),
    "/default/mail": (2, 0.04),
}
"""Broker of each topic, and its share of that broker's CPU."""
MESSAGES_PER_S = 16_000
NOW_MS = 1_700_000_000_000


def skewed_plan() -> RebalancePlan:
    """The plan for this cluster."""
    return plan(_places(), _topics(), Goal())


def skewed_preview(states: Mapping[str, MoveState] | None = None) -> RebalancePreview:
    """The plan as administrators see it, its moves in these states."""
    made = skewed_plan()
    told = explain(made, _state())
    return RebalancePreview(
        verdict=made.verdict.value,
        summary=told.summary,
        strategy="balanced",
        target_cv=0.2,
        made_ms=NOW_MS,
        before=_figures(made.before, made.brokers_before),
        after=_figures(made.after, made.brokers_after),
        moves=tuple(
            RebalanceMove(
                topic=move.topic,
                topic_id=number,
                source=str(move.source),
                target=str(move.target),
                source_before=move.source_scores[0],
                source_after=move.source_scores[1],
                target_before=move.target_scores[0],
                target_after=move.target_scores[1],
                clients=move.clients,
                pause_ms=200,
                reason=reason,
                state=(states or {}).get(move.topic, MoveState.WAITING),
            )
            for number, (move, reason) in enumerate(zip(made.moves, told.moves, strict=True), 1)
        ),
        brokers=tuple(_change(made, broker_id) for broker_id in made.brokers_before),
        clients=made.clients,
        duration_s=1.4,
        advice=told.advice,
    )


def skewed_rebalance(states: Mapping[str, MoveState], state: RebalanceState) -> Rebalance:
    """The plan while it is carried out, or afterwards."""
    return Rebalance(
        rebalance_id="rebalance-1",
        state=state,
        asked_by="ann@desk",
        plan_id="plan-0123456789ab",
        started_ms=NOW_MS,
        ended_ms=NOW_MS + 4_000 if state.is_over else None,
        preview=skewed_preview(states),
    )


def skewed_balance(*, running: Rebalance | None = None, last: Rebalance | None = None) -> ClusterBalance:
    """The cluster, with a broker that was not heard of for a while."""
    state, scores = _state(), skewed_plan().brokers_before
    statuses = status_of({each.broker_id: each.score for each in scores.values()})
    known = tuple(_broker(score, state, statuses[score.broker_id]) for score in scores.values())
    silent = BrokerBalance(
        broker_id="4",
        state=BrokerPlaceState.UNKNOWN,
        report_age_s=48.0,
        note="its last report is 48 s old, so its load is not known",
    )
    return ClusterBalance(
        strategy="balanced",
        figures=_figures(skewed_plan().before, scores),
        brokers=(*known, silent),
        automatic=AutomaticBalance(),
        now_ms=NOW_MS,
        leader="1",
        running=running,
        last=last,
        rules=(BalanceRule(kind=RuleKind.PIN_TOPIC, name="/default/mail", reason="its disk is on that broker"),),
    )


def _places() -> list[Place]:
    return [
        Place(
            broker_id=number,
            capacity=Capacity(cores=2, disk_bytes=10**11),
            own=(0.03, 0.2 + 0.05 * number, 0.0, 0.1),
        )
        for number in (1, 2, 3)
    ]


def _topics() -> list[PlacedTopic]:
    return [
        PlacedTopic(
            demand=Demand(
                topic=topic, cores=2 * share, bytes_per_s=4e7 * share, stored_bytes=round(1e10 * share), clients=3
            ),
            broker_id=broker_id,
        )
        for topic, (broker_id, share) in LOADS.items()
    ]


def _state() -> ClusterState:
    return ClusterState(_places(), _topics(), Strategy.BALANCED)


def _broker(score: BrokerScore, state: ClusterState, status: str) -> BrokerBalance:
    shares = [share for broker_id, share in LOADS.values() if broker_id == score.broker_id]
    return BrokerBalance(
        broker_id=str(score.broker_id),
        is_known=True,
        report_age_s=1.5,
        score=score.score,
        cause=cause_of(score, state),
        status=status,
        used=_used(score.shares),
        cores=2,
        disk_bytes=10**11,
        messages_in_per_s=MESSAGES_PER_S * sum(shares),
        messages_out_per_s=MESSAGES_PER_S * sum(shares),
        topics=score.topics,
        producers=score.topics,
        consumers=2 * score.topics,
        hottest=tuple(
            TopicBalance(
                topic=topic,
                broker_id=str(score.broker_id),
                score=100 * share,
                messages_per_s=2 * MESSAGES_PER_S * share,
                bytes_per_s=4e7 * share,
                clients=3,
                stays="it is pinned: its disk is on that broker" if topic == "/default/mail" else "",
            )
            for topic, (broker_id, share) in LOADS.items()
            if broker_id == score.broker_id
        ),
    )


def _figures(found: Imbalance, scores: Mapping[int, BrokerScore]) -> BalanceFigures:
    busiest = max(scores.values(), key=lambda each: each.score)
    return BalanceFigures(
        cv=found.cv,
        band=found.band.value,
        peak_to_average=found.peak_to_average,
        mean=found.mean,
        highest=found.highest,
        lowest=found.lowest,
        deviation=found.deviation,
        busiest_broker=str(busiest.broker_id),
        busiest_resource=busiest.busiest.value,
    )


def _change(made: RebalancePlan, broker_id: int) -> BrokerChange:
    before, after = made.brokers_before[broker_id], made.brokers_after[broker_id]
    return BrokerChange(
        broker_id=str(broker_id),
        score_before=before.score,
        score_after=after.score,
        before=_used(before.shares),
        after=_used(after.shares),
        topics_before=before.topics,
        topics_after=after.topics,
    )


def _used(shares: Shares) -> Utilisation:
    cpu, memory, network, disk = shares
    return Utilisation(cpu=cpu, memory=memory, network=network, disk=disk)
