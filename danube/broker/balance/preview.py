"""Preview of a rebalance: moves with reasons, costs and bounds, for the cluster or for an imagined one. Pure."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from danube.broker.balance.picture import figures, utilisation
from danube.broker.balance.view import BalanceView
from danube.loadmgr.cluster_state import ClusterState, Place, PlacedTopic
from danube.loadmgr.explain import Explanation, explain
from danube.loadmgr.goal import Goal
from danube.loadmgr.planner import RebalancePlan, Verdict, plan
from danube.loadmgr.score import BrokerScore, Strategy
from danube.loadmgr.what_if import with_broker, with_rate, without_broker
from danube.model.calls.balance import BrokerChange, BrokerPlaceState, RebalanceMove, RebalancePreview, RebalanceWish
from danube.model.errors import InvalidRequestError, NotFoundError
from danube.model.limits.balance import MOVE_OVERHEAD_S, MOVE_PAUSE_MS, PARALLEL_REBALANCE_MOVES
from danube.model.limits.moves import CARRY_BYTES_PER_S, CARRY_TAIL_BYTES
from danube.model.text import count_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Pace of moves."""

    parallel_moves: int = PARALLEL_REBALANCE_MOVES
    copy_bytes_per_s: int = CARRY_BYTES_PER_S
    settle_s: float = 0.0
    """Waiting for reports after the last move."""

    def pause_ms(self, carried_bytes: int) -> int:
        """Expected pause of a topic: the rest of its log is copied while it is paused."""
        tail = min(carried_bytes, CARRY_TAIL_BYTES)
        return MOVE_PAUSE_MS + (round(1_000 * tail / self.copy_bytes_per_s) if self.copy_bytes_per_s else 0)

    def duration_s(self, moves: Sequence[RebalanceMove]) -> float:
        """Expected duration of these moves."""
        if not moves:
            return 0.0
        copied = sum(move.carried_bytes for move in moves)
        rounds = math.ceil(len(moves) / self.parallel_moves)
        return (
            rounds * MOVE_OVERHEAD_S + (copied / self.copy_bytes_per_s if self.copy_bytes_per_s else 0) + self.settle_s
        )


def preview(view: BalanceView, wish: RebalanceWish, pace: Pace, *, ceiling_moves: int = 0) -> RebalancePreview:
    """The plan for a wish. Raises NotFoundError, InvalidRequestError for a cluster that cannot be imagined.

    `ceiling_moves` is a bound of moves beside the wish's, such as of the automatic mode; 0 for none.
    """
    strategy = strategy_of(wish.strategy) if wish.strategy else view.facts.strategy
    moves_max = min(wish.moves_max, ceiling_moves) if ceiling_moves else wish.moves_max
    goal = Goal(target_cv=wish.target_cv, moves_max=moves_max, strategy=strategy)
    places, topics = _imagined(view, wish, strategy)
    found = plan(places, topics, goal)
    before = ClusterState(places, topics, strategy)
    said = explain(found, before)
    moves = tuple(_moves(view, found, said, pace))
    return RebalancePreview(
        verdict=found.verdict.value,
        summary=said.summary,
        strategy=strategy.value,
        target_cv=goal.target_cv,
        made_ms=view.facts.now_ms,
        before=figures(found.before, _counted(found.brokers_before, places)),
        after=figures(found.after, _counted(found.brokers_after, places)),
        moves=moves,
        brokers=tuple(_changes(found)),
        carried_bytes=found.carried_bytes,
        clients=found.clients,
        duration_s=pace.duration_s(moves),
        advice=said.advice,
        bounds=tuple(_bounds(view, found, topics, goal)),
    )


def strategy_of(word: str) -> Strategy:
    """The strategy of this name. Raises InvalidRequestError."""
    if word not in set(Strategy):
        raise InvalidRequestError(f"there is no strategy {word[:40]!r}: use {', '.join(Strategy)}")
    return Strategy(word)


def _imagined(view: BalanceView, wish: RebalanceWish, strategy: Strategy) -> tuple[list[Place], list[PlacedTopic]]:
    places, topics = list(view.places), list(view.topics)
    if wish.without_broker:
        if not wish.without_broker.isdecimal():
            raise NotFoundError(f"there is no broker {wish.without_broker[:40]!r}: list the brokers to see their ids")
        places, topics = without_broker(places, topics, int(wish.without_broker), strategy)
    for _ in range(wish.extra_brokers if places else 0):
        places, topics = with_broker(places, topics, 1 + max(place.broker_id for place in places))
    if wish.topic:
        places, topics = with_rate(places, topics, wish.topic, wish.factor)
    return places, topics


def _counted(scores: dict[int, BrokerScore], places: Sequence[Place]) -> dict[int, BrokerScore]:
    return {place.broker_id: scores[place.broker_id] for place in places if place.counts}


def _moves(view: BalanceView, found: RebalancePlan, said: Explanation, pace: Pace) -> Iterator[RebalanceMove]:
    for move, reason in zip(found.moves, said.moves, strict=True):
        yield RebalanceMove(
            topic=move.topic,
            topic_id=view.ids.get(move.topic, 0),
            source=str(move.source),
            target=str(move.target),
            source_before=move.source_scores[0],
            source_after=move.source_scores[1],
            target_before=move.target_scores[0],
            target_after=move.target_scores[1],
            carried_bytes=move.carried_bytes,
            clients=move.clients,
            pause_ms=pace.pause_ms(move.carried_bytes),
            reason=reason,
        )


def _changes(found: RebalancePlan) -> Iterator[BrokerChange]:
    for broker_id, before in sorted(found.brokers_before.items()):
        after = found.brokers_after[broker_id]
        yield BrokerChange(
            broker_id=str(broker_id),
            score_before=before.score,
            score_after=after.score,
            before=utilisation(before.shares),
            after=utilisation(after.shares),
            topics_before=before.topics,
            topics_after=after.topics,
        )


def _bounds(view: BalanceView, found: RebalancePlan, topics: Sequence[PlacedTopic], goal: Goal) -> Iterator[str]:
    for broker_id, status in view.statuses.items():
        if status.state is not BrokerPlaceState.ACTIVE:
            yield f"Broker {broker_id} is {status.state}" + (f": {status.note}" if status.note else ".")
    stays = Counter(one.stays for one in topics if one.stays)
    for reason, count in sorted(stays.items()):
        yield f"{count_text(count, 'topic')} stay where they are: {reason}."
    if found.verdict in {Verdict.IMPROVED, Verdict.STUCK} and len(found.moves) >= goal.moves_max:
        yield f"No more than {count_text(goal.moves_max, 'move')} may be planned: allow more of them."
