"""Balance of the cluster in memory: what a test has set, else the load of nobody."""

from collections.abc import Sequence
from dataclasses import replace

from danube.model.calls.balance import (
    AutomaticBalance,
    BalanceFigures,
    BalanceRule,
    BrokerBalance,
    BrokerPlaceState,
    CancelRebalance,
    ClearRule,
    ClusterBalance,
    MoveState,
    Rebalance,
    RebalanceMove,
    RebalancePreview,
    RebalanceState,
    RebalanceWish,
    SetAutomatic,
)
from danube.model.plans.plan import Impact, Plan, PlanRequest, fingerprint_of
from danube.runtime.clock import Clock
from tests.faces.memory_cluster import MemoryCluster

OURS_ALONE = {
    "cancel_rebalance",
    "clear_balance_rule",
    "preview_rebalance",
    "rebalances",
    "set_automatic_balance",
    "set_balance_rule",
}
"""Calls that the original does not answer."""


def balance_of(cluster: MemoryCluster, now_ms: int) -> ClusterBalance:
    """The balance."""
    shown = cluster.balance or ClusterBalance(
        strategy="fair",
        figures=BalanceFigures(),
        brokers=tuple(
            BrokerBalance(broker_id=info.broker_id, is_known=True, report_age_s=0.0, status="normal", topics=0)
            for info in cluster.brokers
        ),
        automatic=cluster.automatic,
        now_ms=now_ms,
        leader=cluster.leader or "",
    )
    return replace(
        shown,
        automatic=cluster.automatic,
        rules=tuple(cluster.rules[key] for key in sorted(cluster.rules)),
        running=next((one for one in cluster.rebalances if not one.state.is_over), None),
        last=next((one for one in cluster.rebalances if one.state.is_over), None),
    )


def preview_of(cluster: MemoryCluster, wish: RebalanceWish, now_ms: int) -> RebalancePreview:
    """The plan."""
    figures = cluster.balance.figures if cluster.balance else BalanceFigures()
    shown = cluster.preview or RebalancePreview(
        verdict="alone",
        summary="Do nothing: fewer than two brokers take topics.",
        strategy=wish.strategy or "fair",
        target_cv=wish.target_cv,
        made_ms=now_ms,
        before=figures,
        after=figures,
    )
    return replace(shown, moves=shown.moves[: wish.moves_max], target_cv=wish.target_cv)


def impact_of(cluster: MemoryCluster, of: PlanRequest | Plan, known: Impact, now_ms: int) -> Impact:
    """The impact with that of a rebalance; of a plan that is kept, that plan's."""
    if of.operation != "trigger_rebalance":
        return known
    arguments = of.arguments
    wish = RebalanceWish(
        target_cv=arguments.get("target_cv") or RebalanceWish().target_cv,
        moves_max=arguments.get("max_moves") or RebalanceWish().moves_max,
        strategy=arguments.get("strategy") or "",
    )
    planned = of.impact.rebalance if isinstance(of, Plan) else None
    found = planned or preview_of(cluster, wish, now_ms)
    names = tuple(move.topic for move in found.moves)
    return replace(
        known,
        changes=(found.summary, *(move.reason for move in found.moves)),
        topics=names,
        topic_count=len(names),
        bytes=found.carried_bytes,
        fingerprint=fingerprint_of(list(names)),
        rebalance=found,
    )


def begin(cluster: MemoryCluster, plan: Plan, now_ms: int) -> None:
    """Begin the rebalance of an applied plan; `step` moves it on."""
    if plan.impact.rebalance is not None and plan.impact.rebalance.moves:
        started = Rebalance(
            rebalance_id=f"rebalance-{plan.plan_id.removeprefix('plan-')}",
            state=RebalanceState.RUNNING,
            asked_by=plan.asked_by.who,
            plan_id=plan.plan_id,
            started_ms=now_ms,
            preview=plan.impact.rebalance,
        )
        cluster.rebalances.insert(0, started)


def step(cluster: MemoryCluster, now_ms: int, *, error: str = "") -> Rebalance:
    """Have the next move of the running rebalance be done, or fail; after the last one the rebalance ends."""
    running = cluster.rebalances[0]
    moves = list(running.preview.moves)
    at = next(index for index, move in enumerate(moves) if move.state in {MoveState.WAITING, MoveState.MOVING})
    state = MoveState.FAILED if error else MoveState.DONE
    moves[at] = replace(moves[at], state=state, started_ms=now_ms, ended_ms=now_ms, error=error)
    if error:
        moves[at + 1 :] = [
            replace(move, state=MoveState.SKIPPED, error="a move before it failed") for move in moves[at + 1 :]
        ]
    is_over = bool(error) or at + 1 == len(moves)
    cluster.rebalances[0] = replace(
        running,
        preview=replace(running.preview, moves=tuple(moves)),
        state=(RebalanceState.STOPPED if error else RebalanceState.DONE) if is_over else running.state,
        reason=error,
        ended_ms=now_ms if is_over else None,
        actual=running.preview.after if is_over and not error else None,
    )
    return cluster.rebalances[0]


def cancel(cluster: MemoryCluster, wanted: CancelRebalance) -> Rebalance | None:
    """Cancel the rebalance that runs: its waiting moves are skipped at once."""
    running = next((one for one in cluster.rebalances if not one.state.is_over), None)
    if running is None:
        return None
    moves = tuple(
        replace(move, state=MoveState.SKIPPED) if move.state is MoveState.WAITING else move
        for move in running.preview.moves
    )
    reason = f"{wanted.cancelled_by} cancelled it"
    cancelled = replace(
        running, state=RebalanceState.CANCELLED, reason=reason, preview=replace(running.preview, moves=moves)
    )
    cluster.rebalances[cluster.rebalances.index(running)] = cancelled
    return cancelled


def skewed() -> tuple[ClusterBalance, RebalancePreview]:
    """Three brokers of which one has nearly all load, and the plan of two moves that mends it."""
    scores = {"1": 72.0, "2": 11.0, "3": 9.0}
    after = {"1": 32.0, "2": 31.0, "3": 29.0}
    figures = BalanceFigures(
        cv=0.96,
        band="severely imbalanced",
        peak_to_average=2.35,
        mean=30.7,
        highest=72,
        lowest=9,
        deviation=29.2,
        busiest_broker="1",
        busiest_resource="cpu",
    )
    brokers = tuple(
        BrokerBalance(
            broker_id=broker_id,
            state=BrokerPlaceState.ACTIVE,
            is_known=True,
            report_age_s=2.0,
            score=score,
            cause=f"CPU {score:.0f} %, of which /default/clicks 38 %" if broker_id == "1" else f"CPU {score:.0f} %",
            status="overloaded" if broker_id == "1" else "normal",
            topics=4,
        )
        for broker_id, score in scores.items()
    )
    moves = tuple(
        RebalanceMove(
            topic=f"/default/{name}",
            topic_id=number,
            source="1",
            target=target,
            source_before=72.0 - 20 * (number - 1),
            source_after=52.0 - 20 * (number - 1),
            target_before=scores[target],
            target_after=after[target],
            clients=3,
            pause_ms=300,
            reason=f"/default/{name}: broker 1 to {target}.",
        )
        for number, (name, target) in enumerate([("clicks", "2"), ("views", "3")], 1)
    )
    balance = ClusterBalance(
        strategy="balanced", figures=figures, brokers=brokers, automatic=AutomaticBalance(), now_ms=0, leader="1"
    )
    even = BalanceFigures(cv=0.04, mean=30.7, highest=32, lowest=29, deviation=1.2, peak_to_average=1.04)
    preview = RebalancePreview(
        verdict="planned",
        summary="Move 2 topics: the imbalance goes from 0.96 to 0.04; broker 1 is the busiest.",
        strategy="balanced",
        target_cv=0.2,
        made_ms=0,
        before=figures,
        after=even,
        moves=moves,
        clients=6,
        duration_s=3.0,
    )
    return balance, preview


class BalanceCalls:
    """The gateway's calls about balance."""

    cluster: MemoryCluster
    clock: Clock

    async def cluster_balance(self) -> ClusterBalance:
        return balance_of(self.cluster, self.clock.now_ms())

    async def preview_rebalance(self, wish: RebalanceWish) -> RebalancePreview:
        return preview_of(self.cluster, wish, self.clock.now_ms())

    async def rebalances(self, plan_id: str = "") -> Sequence[Rebalance]:
        return [one for one in self.cluster.rebalances if plan_id in {"", one.plan_id}]

    async def cancel_rebalance(self, wanted: CancelRebalance) -> Rebalance | None:
        return cancel(self.cluster, wanted)

    async def set_balance_rule(self, rule: BalanceRule) -> Sequence[BalanceRule]:
        self.cluster.rules[(rule.kind, rule.name)] = replace(rule, set_ms=self.clock.now_ms())
        return [self.cluster.rules[key] for key in sorted(self.cluster.rules)]

    async def clear_balance_rule(self, wanted: ClearRule) -> Sequence[BalanceRule]:
        self.cluster.rules.pop((wanted.kind, wanted.name), None)
        return [self.cluster.rules[key] for key in sorted(self.cluster.rules)]

    async def set_automatic_balance(self, wanted: SetAutomatic) -> AutomaticBalance:
        self.cluster.automatic = AutomaticBalance(mode=wanted.mode or "off", is_set=bool(wanted.mode))
        return self.cluster.automatic
