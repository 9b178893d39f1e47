"""Progress of a rebalance: the next state of its record, and the assignments that carry it out. Pure.

Everything follows from the record and from where topics are, so a new leader goes on where the one before it ended.
"""

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, replace

from danube.model.calls.balance import BalanceFigures, MoveState, Rebalance, RebalanceMove, RebalanceState
from danube.model.limits.balance import MOVE_TIMEOUT_S, SETTLE_S_MAX
from danube.model.ownership import NOBODY, TopicOwnership

_OPEN = {MoveState.WAITING, MoveState.MOVING}


@dataclass(frozen=True, slots=True, kw_only=True)
class Now:
    """The cluster at this moment, as far as moves go by it."""

    topics: Mapping[str, TopicOwnership]
    brokers: Container[int]
    """Brokers that run."""
    takers: Container[int]
    """Those of them that take topics."""
    now_ms: int
    figures: BalanceFigures | None = None
    """The imbalance, if every report is from after the last move and has settled."""
    copy_bytes_per_s: int = 0
    """Pace of copies; 0 is no limit."""


def advanced(known: Rebalance, now: Now) -> Rebalance:
    """The rebalance as it is to be recorded now; the same value where nothing has changed."""
    if known.state.is_over:
        return known
    moves = [_looked_at(move, now) for move in known.preview.moves]
    failed = next((move for move in moves if move.state is MoveState.FAILED), None)
    reason = known.reason
    if failed is not None:
        reason = f"the move of {failed.topic} failed: {failed.error}"
    elif known.state is RebalanceState.RUNNING:
        failed = _begin_more(moves, known.parallel_moves, now)
        reason = f"the move of {failed.topic} failed: {failed.error}" if failed else reason
    if failed is not None or known.state is RebalanceState.CANCELLING:
        moves = [_skipped(move, reason, now) for move in moves]
    after = replace(known, preview=replace(known.preview, moves=tuple(moves)), reason=reason)
    return after if any(move.state in _OPEN for move in moves) else _ended(after, failed is not None, now)


def assignments(known: Rebalance, now: Now) -> Iterator[tuple[str, int]]:
    """Topics of moves that have begun and are not assigned yet, or that failed and go back, with their brokers."""
    for move in known.preview.moves:
        topic = now.topics.get(move.topic)
        if topic is None or topic.topic_id != move.topic_id or topic.owner != int(move.source):
            continue
        if move.state is MoveState.MOVING and topic.broker == topic.owner:
            yield move.topic, int(move.target)
        if move.state is MoveState.FAILED and topic.broker == int(move.target):
            yield move.topic, int(move.source)


def _looked_at(move: RebalanceMove, now: Now) -> RebalanceMove:
    """A move that has begun, with what became of it."""
    if move.state is not MoveState.MOVING:
        return move
    topic, target = now.topics.get(move.topic), int(move.target)
    if topic is None or topic.topic_id != move.topic_id:
        return _over(move, MoveState.SKIPPED, "the topic was deleted", now)
    if topic.owner == target:
        return _over(move, MoveState.DONE, "", now)
    if target not in now.brokers:
        return _over(move, MoveState.FAILED, f"broker {target} was lost", now)
    if topic.owner not in {NOBODY, int(move.source)} or topic.broker not in {target, int(move.source)}:
        return _over(move, MoveState.FAILED, f"it was assigned to broker {topic.broker} meanwhile", now)
    if now.now_ms - (move.started_ms or now.now_ms) > 1_000 * _patience_s(move, now):
        return _over(move, MoveState.FAILED, "it took too long", now)
    return move


def _patience_s(move: RebalanceMove, now: Now) -> float:
    copying_s = 2 * move.carried_bytes / now.copy_bytes_per_s if now.copy_bytes_per_s else 0.0
    return MOVE_TIMEOUT_S + copying_s


def _begin_more(moves: list[RebalanceMove], parallel_moves: int, now: Now) -> RebalanceMove | None:
    """Begin the next moves, in their order; answers one that cannot be, at which the rebalance ends."""
    under_way = sum(move.state is MoveState.MOVING for move in moves)
    for at, move in enumerate(moves):
        if under_way >= parallel_moves:
            return None
        if move.state is not MoveState.WAITING:
            continue
        moves[at] = _begun(move, now)
        if moves[at].state is MoveState.FAILED:
            return moves[at]
        under_way += moves[at].state is MoveState.MOVING
    return None


def _begun(move: RebalanceMove, now: Now) -> RebalanceMove:
    topic, source, target = now.topics.get(move.topic), int(move.source), int(move.target)
    if topic is None or topic.topic_id != move.topic_id:
        return _over(move, MoveState.SKIPPED, "the topic was deleted", now)
    for broker_id in (source, target):
        if broker_id not in now.brokers:
            return _over(move, MoveState.FAILED, f"broker {broker_id} does not run", now)
    if (topic.owner, topic.broker) != (source, source):
        return _over(move, MoveState.SKIPPED, f"it was moved to broker {topic.broker} meanwhile", now)
    if target not in now.takers:
        return _over(move, MoveState.FAILED, f"broker {target} takes no topics any more", now)
    return replace(move, state=MoveState.MOVING, started_ms=now.now_ms)


def _skipped(move: RebalanceMove, reason: str, now: Now) -> RebalanceMove:
    return _over(move, MoveState.SKIPPED, reason, now) if move.state is MoveState.WAITING else move


def _over(move: RebalanceMove, state: MoveState, error: str, now: Now) -> RebalanceMove:
    return replace(move, state=state, error=error, ended_ms=now.now_ms)


def _ended(known: Rebalance, has_failed: bool, now: Now) -> Rebalance:  # noqa: FBT001 - of this module alone
    if has_failed:
        return replace(known, state=RebalanceState.STOPPED, ended_ms=now.now_ms)
    if known.state is RebalanceState.CANCELLING:
        return replace(known, state=RebalanceState.CANCELLED, ended_ms=now.now_ms)
    last_ms = max((move.ended_ms or 0 for move in known.preview.moves), default=known.started_ms)
    waited_s = (now.now_ms - last_ms) / 1_000
    if now.figures is None and waited_s < SETTLE_S_MAX:
        return replace(known, state=RebalanceState.SETTLING)
    reason = "" if now.figures else "load reports from after the moves did not come"
    return replace(known, state=RebalanceState.DONE, ended_ms=now.now_ms, actual=now.figures, reason=reason)
