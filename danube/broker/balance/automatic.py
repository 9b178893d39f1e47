"""Automatic mode: the leading broker checks the imbalance now and then, and rebalances where the rule says so.

Every act is in the audit log with its explanation, before it begins.
"""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace

from danube.broker.balance.preview import preview
from danube.broker.balance.records import BalanceRecords
from danube.broker.balance.source import BalanceSource
from danube.broker.balance.view import BalanceView
from danube.broker.cluster.member import Cluster
from danube.loadmgr.automatic import RULES, Automatic, AutomaticMemory, AutomaticRule, Obstacles, check
from danube.metadata.records.plans import PlanRecords
from danube.model.calls.balance import (
    AutomaticBalance,
    BrokerPlaceState,
    MoveState,
    Rebalance,
    RebalancePreview,
    RebalanceState,
    RebalanceWish,
)
from danube.model.errors import DanubeError, PreconditionFailedError
from danube.model.plans.plan import Caller, Effect, Face, PlanStatus
from danube.model.records.audit import AuditEntry, AuditReceipt, Outcome, bounded
from danube.runtime.clock import Clock, sleep_for
from danube.runtime.rng import Rng

_log = logging.getLogger(__name__)

AUTOMATIC = "automatic"
"""Caller of rebalances that nobody asked for."""


class AutomaticMode:
    """This broker's part, as leader."""

    def __init__(
        self,
        cluster: Cluster,
        source: BalanceSource,
        records: BalanceRecords,
        plans: PlanRecords,
        *,
        audit: Callable[[AuditEntry], Awaitable[AuditReceipt]],
        clock: Clock,
        rng: Rng,
    ) -> None:
        self._cluster = cluster
        self._source = source
        self._records = records
        self._plans = plans
        self._audit = audit
        self._clock = clock
        self._rng = rng
        self._checks: tuple[bool, ...] = ()
        self._mode = Automatic.OFF
        self._decision = ""
        self._checked_ms = 0

    @property
    def mode(self) -> Automatic:
        """The mode that holds: as set at run time, else as of the settings."""
        set_mode = self._records.automatic
        if set_mode is not None and set_mode.mode in set(Automatic):
            return Automatic(set_mode.mode)
        return self._source.settings.automatic

    def balance(self) -> AutomaticBalance:
        """The mode, and what was decided last."""
        now_ms = self._clock.now_ms()
        hour_ms = now_ms - 3_600_000
        moves = sum(at_ms > hour_ms for _, at_ms in self._memory().moves)
        return AutomaticBalance(
            mode=self.mode.value,
            is_set=self._records.automatic is not None,
            checked_ms=self._checked_ms,
            decision=self._decision,
            moves_last_hour=moves,
        )

    async def run(self, interval_s: float) -> None:
        """Check every `interval_s`, for ever."""
        while True:
            await sleep_for(self._clock, interval_s)
            try:
                await self.check()
            except DanubeError as error:
                _log.warning("the automatic mode cannot act, and tries again: %s", error)

    async def check(self) -> None:
        """One check; it acts where the rule says so."""
        mode = self.mode
        if mode is not self._mode:
            self._mode, self._checks = mode, ()
        if mode is Automatic.OFF or not self._cluster.election.is_leader:
            self._checks, self._decision, self._checked_ms = (), "", 0
            return
        rule, now_ms, view = self._rule(mode), self._clock.now_ms(), self._source.view()
        cv = view.state().imbalance().cv
        decision = check(rule, self._memory(), cv, await self._obstacles(view, now_ms), now_ms)
        self._checks, self._decision, self._checked_ms = decision.memory.checks, decision.reason, now_ms
        if decision.moves_max:
            await self._act(rule, view, decision.reason, decision.moves_max)

    def _rule(self, mode: Automatic) -> AutomaticRule:
        rule, most = RULES[mode], self._source.settings.moves_per_hour
        return replace(rule, moves_per_hour=most) if most else rule

    async def _act(self, rule: AutomaticRule, view: BalanceView, reason: str, moves_max: int) -> None:
        now_ms = self._clock.now_ms()
        muted = self._memory().muted(rule, now_ms)
        view = replace(
            view,
            topics=[
                replace(one, stays="it has moved lately") if one.demand.topic in muted and not one.stays else one
                for one in view.topics
            ],
        )
        found = preview(view, RebalanceWish(target_cv=rule.target_cv, moves_max=moves_max), self._source.settings.pace)
        self._decision = f"{reason}. {found.summary}"
        if not found.moves:
            return
        rebalance = Rebalance(
            rebalance_id=f"rebalance-{self._rng.new_id() % 2**48:012x}",
            state=RebalanceState.RUNNING,
            asked_by=AUTOMATIC,
            started_ms=now_ms,
            reason=reason,
            preview=found,
            parallel_moves=self._source.settings.parallel_moves,
        )
        await self._audit(_entry(rebalance, found))
        try:
            await self._records.begin(rebalance)
        except PreconditionFailedError as error:
            self._decision = str(error)
            return
        self._checks = ()
        _log.info("the automatic mode begins %s: %s", rebalance.rebalance_id, self._decision)

    def _memory(self) -> AutomaticMemory:
        """Moves of the rebalances that are kept, whoever led then: the oldest first."""
        moves = [
            (move.topic, move.ended_ms or one.started_ms)
            for one in self._records.rebalances
            if one.asked_by == AUTOMATIC
            for move in one.preview.moves
            if move.state is not MoveState.SKIPPED
        ]
        return AutomaticMemory(self._checks, tuple(sorted(moves, key=lambda each: each[1])))

    async def _obstacles(self, view: BalanceView, now_ms: int) -> Obstacles:
        bad = {BrokerPlaceState.MISSING, BrokerPlaceState.UNKNOWN}
        running = self._records.running
        open_states = {PlanStatus.WAITING, PlanStatus.READY}
        waiting = [plan for plan in await self._plans.all() if plan.status(now_ms) in open_states]
        moving = sum(one.owner != one.broker for _, one in view.facts.topics if not one.is_pinned)
        return Obstacles(
            missing_brokers=tuple(each for each, one in view.statuses.items() if one.state in bad),
            waiting_plan=waiting[0].plan_id if waiting else "",
            failed_move=self._failed_move(),
            moves_under_way=moving or (running.count(MoveState.WAITING, MoveState.MOVING) or 1 if running else 0),
        )

    def _failed_move(self) -> str:
        """A topic whose move failed in the last automatic rebalance, unless the mode was set since."""
        last = next((one for one in self._records.rebalances if one.asked_by == AUTOMATIC), None)
        set_mode = self._records.automatic
        if last is None or (set_mode is not None and set_mode.set_ms >= (last.ended_ms or 0)):
            return ""
        return next((move.topic for move in last.preview.moves if move.state is MoveState.FAILED), "")


def _entry(rebalance: Rebalance, found: RebalancePreview) -> AuditEntry:
    moves = " ".join(move.reason for move in found.moves)
    entry = AuditEntry(
        caller=Caller(who=AUTOMATIC, face=Face.CLI, client="danube-broker"),
        operation="trigger_rebalance",
        arguments={"rebalance_id": rebalance.rebalance_id, "topics": [move.topic for move in found.moves][:20]},
        effect=Effect.MOVE,
        outcome=Outcome.STARTED,
        detail=f"{rebalance.reason}. {found.summary} {moves}",
    )
    return bounded(entry)
