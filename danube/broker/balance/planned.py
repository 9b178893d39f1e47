"""Rebalance by a plan: exactly the moves that were shown are made, or none where the cluster has changed since."""

import math
from collections.abc import Mapping

from danube.broker.balance.preview import preview, strategy_of
from danube.broker.balance.records import BalanceRecords
from danube.broker.balance.source import BalanceSource
from danube.broker.balance.view import BalanceView
from danube.broker.control.plans.planned import PlannedCall, PlannedOperation, cannot_be_planned, if_any
from danube.metadata.records.catalog import ExtraWrites
from danube.model.calls.balance import BrokerPlaceState, Rebalance, RebalancePreview, RebalanceState, RebalanceWish
from danube.model.errors import PreconditionFailedError
from danube.model.limits.balance import REBALANCE_MOVES_MAX
from danube.model.limits.broker import PLAN_NAMES_MAX
from danube.model.plans.plan import Arguments, Effect, Impact, PartialImpact, Plan, fingerprint_of
from danube.runtime.clock import Clock

_PAUSE = (
    "Each topic is paused while its owner changes: publishes are refused meanwhile, and sent again by their clients."
    " Nothing acknowledged is lost."
)


class RebalancePlans:
    """Plans of the operation `trigger_rebalance`."""

    def __init__(self, source: BalanceSource, records: BalanceRecords, clock: Clock) -> None:
        self._source = source
        self._records = records
        self._clock = clock

    def operations(self) -> Mapping[str, PlannedOperation]:
        """The operation, by its name."""
        return {"trigger_rebalance": PlannedOperation(Effect.MOVE, self._plan, self._resume)}

    def _plan(self, arguments: Arguments) -> PlannedCall:
        wish = _wish(arguments)

        async def impact() -> Impact:
            view = self._source.view()
            return _impact(preview(view, wish, self._source.settings.pace), view)

        async def act(extra_writes: ExtraWrites) -> None:  # noqa: ARG001 - of a plan alone
            raise PreconditionFailedError("a rebalance is made by its plan alone: ask for one")

        return PlannedCall(impact, act)

    def _resume(self, plan: Plan) -> PlannedCall:
        planned = plan.impact.rebalance
        if planned is None:
            raise PreconditionFailedError(f"plan {plan.plan_id} has no moves with it: ask for a new one")

        async def impact() -> Impact:
            return _impact(planned, self._source.view())

        async def act(extra_writes: ExtraWrites) -> None:
            await self._records.begin(rebalance_of(plan, planned, self._clock.now_ms(), self._parallel), extra_writes)

        return PlannedCall(impact, act)

    @property
    def _parallel(self) -> int:
        return self._source.settings.parallel_moves


def rebalance_of(plan: Plan, planned: RebalancePreview, now_ms: int, parallel_moves: int) -> Rebalance:
    """The rebalance of an applied plan."""
    return Rebalance(
        rebalance_id=f"rebalance-{plan.plan_id.removeprefix('plan-')}",
        state=RebalanceState.RUNNING,
        asked_by=plan.asked_by.who,
        plan_id=plan.plan_id,
        started_ms=now_ms,
        preview=planned,
        parallel_moves=parallel_moves,
    )


def _wish(arguments: Arguments) -> RebalanceWish:
    """The wish of these arguments; null is the default. Raises InvalidRequestError."""
    given = {name: value for name, value in arguments.items() if value is not None}
    moves_max = given.pop("max_moves", RebalanceWish().moves_max)
    target_cv = given.pop("target_cv", RebalanceWish().target_cv)
    strategy = given.pop("strategy", "")
    is_count = isinstance(moves_max, int) and 1 <= moves_max <= REBALANCE_MOVES_MAX
    is_target = isinstance(target_cv, int | float) and math.isfinite(target_cv) and 0 < target_cv <= 10
    if given or not is_count or not is_target or not isinstance(strategy, str):
        known = f"max_moves from 1 to {REBALANCE_MOVES_MAX}, target_cv up to 10, and strategy"
        raise cannot_be_planned("trigger_rebalance", arguments, known)
    return RebalanceWish(
        target_cv=float(target_cv), moves_max=moves_max, strategy=strategy_of(strategy).value if strategy else ""
    )


def _impact(planned: RebalancePreview, view: BalanceView) -> Impact:
    """Impact of the planned moves in the cluster as it is now; its fingerprint changes with what they rest on."""
    named = planned.moves[:PLAN_NAMES_MAX]
    return PartialImpact(
        changes=(
            planned.summary,
            *(move.reason for move in named),
            *if_any(len(planned.moves) - len(named), "{} more.", "topic"),
            *((f"It takes about {planned.duration_s:,.0f} s.", _PAUSE) if planned.moves else ()),
            *planned.advice,
            *planned.bounds,
        ),
        topics=tuple(move.topic for move in named),
        topic_count=len(planned.moves),
        bytes=planned.carried_bytes,
        consumers=planned.clients,
        producers=None if planned.moves else 0,
        messages=None if planned.moves else 0,
        fingerprint=_fingerprint(planned, view),
        rebalance=planned,
    )


def _fingerprint(planned: RebalancePreview, view: BalanceView) -> str:
    places = {str(name): (one.topic_id, one.owner, one.broker) for name, one in view.facts.topics}
    takers = sorted({move.target for move in planned.moves if _takes(view, int(move.target))})
    moves = [[move.topic, *places.get(move.topic, (0, 0, 0)), move.target] for move in planned.moves]
    return fingerprint_of([moves, takers])


def _takes(view: BalanceView, broker_id: int) -> bool:
    status = view.statuses.get(broker_id)
    return status is not None and status.state in {BrokerPlaceState.ACTIVE, BrokerPlaceState.UNKNOWN}
