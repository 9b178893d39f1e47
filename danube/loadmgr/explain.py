"""Explanation of a plan that rebalances: a verdict in one line, a reason for each move, and better ways. Pure."""

from dataclasses import dataclass

from danube.loadmgr.cluster_state import ClusterState
from danube.loadmgr.planner import Move, RebalancePlan, Verdict
from danube.loadmgr.score import BrokerScore
from danube.model.limits.balance import BALANCE_IDLE_SCORE
from danube.model.text import count_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Texts of a plan."""

    summary: str
    moves: tuple[str, ...]
    """A sentence for each move."""
    advice: tuple[str, ...] = ()
    """Things that would do better than moves."""


def explain(plan: RebalancePlan, before: ClusterState) -> Explanation:
    """The explanation of a plan for this state."""
    return Explanation(
        summary=_summary(plan, before),
        moves=tuple(_reason(move, plan, before) for move in plan.moves),
        advice=tuple(_advice(plan)),
    )


def cause_of(score: BrokerScore, state: ClusterState) -> str:
    """The cause of a broker's score: `CPU 71 %, of which /default/clicks 38 %`."""
    text = f"{score.busiest.value.upper() if score.busiest.value == 'cpu' else score.busiest.value} "
    text += f"{score.busiest_percent:.0f} %"
    if not state.on[score.broker_id]:
        return text
    weight, heaviest = state.on[score.broker_id][-1]
    return f"{text}, of which {heaviest} {weight:.0f} %"


def _summary(plan: RebalancePlan, state: ClusterState) -> str:
    before, after = plan.before, plan.after
    busiest = max(plan.brokers_before.values(), key=lambda one: one.score, default=None)
    match plan.verdict:
        case Verdict.ALONE:
            return "Do nothing: fewer than two brokers take topics."
        case Verdict.BALANCED:
            return f"Do nothing: the cluster is {before.band}, its imbalance is {before.cv:.2f}."
        case Verdict.IDLE:
            return f"Do nothing: no broker uses {BALANCE_IDLE_SCORE:.0f} % of what it has, so no move pays."
        case Verdict.WAITING:
            waiting = {place.broker_id: place.waits_until for place in state.places.values() if place.waits_until}
            who = ", ".join(map(str, waiting))
            until = f"failed lately and gets no topics until {max(waiting.values())}: plan again then"
            return f"Wait: the imbalance is {before.cv:.2f}, and broker {who} {until}."
        case Verdict.STUCK:
            return f"Do nothing: the imbalance is {before.cv:.2f}, and no moves that are allowed pay."
        case _:
            end = "" if plan.verdict is Verdict.PLANNED else ", which is as far as moves go"
            who = f"; broker {busiest.broker_id} is the busiest" if busiest else ""
            moves = count_text(len(plan.moves), "topic")
            return f"Move {moves}: the imbalance goes from {before.cv:.2f} to {after.cv:.2f}{end}{who}."


def _reason(move: Move, plan: RebalancePlan, before: ClusterState) -> str:
    source, target = plan.brokers_before[move.source], plan.brokers_before[move.target]
    costs = [f"{count_text(move.clients, 'client')} {'attaches' if move.clients == 1 else 'attach'} again"]
    if move.carried_bytes:
        costs.append(f"{move.carried_bytes:,} bytes are copied")
    ways = f"{move.source} ({cause_of(source, before)}) to {move.target} ({cause_of(target, before)})"
    first, second = move.source_scores, move.target_scores
    scores = f"{first[0]:.0f} to {first[1]:.0f} and {second[0]:.0f} to {second[1]:.0f}"
    return f"{move.topic}: broker {ways}; scores {scores}; {', '.join(costs)}."


def _advice(plan: RebalancePlan) -> list[str]:
    if plan.hot_topic:
        return [
            f"{plan.hot_topic} alone is more than a broker's fair share: give it more partitions, as no move splits it."
        ]
    return []
