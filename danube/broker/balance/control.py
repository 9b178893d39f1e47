"""Calls about the balance: the picture, previews, pins and exclusions, the automatic mode, cancelling and history."""

from collections.abc import Callable
from dataclasses import replace

from danube.broker.balance.picture import brokers_of, figures
from danube.broker.balance.preview import preview
from danube.broker.balance.records import BalanceRecords
from danube.broker.balance.source import BalanceSource
from danube.loadmgr.automatic import Automatic
from danube.model.calls.balance import (
    AutomaticBalance,
    BalanceRule,
    CancelRebalance,
    ClearRule,
    ClusterBalance,
    Rebalance,
    RebalancePreview,
    RebalanceState,
    RebalanceWish,
    RuleKind,
    SetAutomatic,
    TriggeredRebalance,
    TriggerRebalance,
)
from danube.model.errors import InvalidRequestError, NotFoundError, PreconditionFailedError
from danube.model.limits.balance import REBALANCE_MOVES_DEFAULT, REBALANCE_MOVES_MAX
from danube.model.topic import TopicName, check_name_part
from danube.runtime.clock import Clock
from danube.runtime.rng import Rng


class BalanceControl:
    """The calls of one broker. What changes something is recorded; the leader acts on it."""

    def __init__(self, source: BalanceSource, records: BalanceRecords, clock: Clock, rng: Rng) -> None:
        self._source = source
        self._records = records
        self._clock = clock
        self._rng = rng
        self._automatic: Callable[[], AutomaticBalance] | None = None

    def follow_automatic(self, automatic: Callable[[], AutomaticBalance]) -> None:
        """Have the automatic mode of this broker tell what it decided."""
        self._automatic = automatic

    def balance(self) -> ClusterBalance:
        """The balance of the cluster as this broker knows it."""
        view = self._source.view()
        state = view.state()
        return ClusterBalance(
            strategy=view.facts.strategy.value,
            figures=figures(state.imbalance(), state.counted_scores()),
            brokers=brokers_of(view, state),
            automatic=self.automatic_balance(),
            now_ms=view.facts.now_ms,
            leader=self._source.leader,
            running=self._records.running,
            last=next((one for one in self._records.rebalances if one.state.is_over), None),
            rules=self._source.rules,
        )

    def preview(self, wish: RebalanceWish) -> RebalancePreview:
        """The plan for a wish, which does nothing. Raises NotFoundError, InvalidRequestError."""
        return preview(self._source.view(), wish, self._source.settings.pace)

    def rebalances(self, plan_id: str = "") -> tuple[Rebalance, ...]:
        """Rebalances that run or ran, the newest first; that of a plan alone where one is named."""
        return tuple(one for one in self._records.rebalances if plan_id in {"", one.plan_id})

    async def cancel(self, wanted: CancelRebalance) -> Rebalance | None:
        """Have a rebalance begin no more moves; None where none runs. Raises NotFoundError, PreconditionFailedError."""
        running = self._records.running
        rebalance_id = wanted.rebalance_id or (running.rebalance_id if running else "")
        if not rebalance_id:
            return None
        by = f"{wanted.cancelled_by or 'somebody'} cancelled it"

        def cancelled(known: Rebalance) -> Rebalance | None:
            if known.state.is_over:
                raise PreconditionFailedError(f"rebalance {known.rebalance_id} is over: it is {known.state}")
            return replace(known, state=RebalanceState.CANCELLING, reason=by)

        return await self._records.change(rebalance_id, cancelled)

    async def trigger(self, wanted: TriggerRebalance) -> TriggeredRebalance:
        """As the original's call: plan and begin at once, or show the plan. Raises MetadataError."""
        moves_max = min(wanted.moves_max or REBALANCE_MOVES_DEFAULT, REBALANCE_MOVES_MAX)
        found = self.preview(RebalanceWish(moves_max=moves_max))
        if not found.moves:
            return TriggeredRebalance(success=True, message=found.summary)
        if wanted.dry_run:
            return TriggeredRebalance(success=True, proposed=found.moves, message=found.summary)
        now_ms = self._clock.now_ms()
        try:
            await self._records.begin(
                Rebalance(
                    rebalance_id=f"rebalance-{self._rng.new_id() % 2**48:012x}",
                    state=RebalanceState.RUNNING,
                    asked_by="an administrator's call",
                    started_ms=now_ms,
                    preview=found,
                    parallel_moves=self._source.settings.parallel_moves,
                )
            )
        except PreconditionFailedError as error:
            return TriggeredRebalance(success=False, message=str(error))
        begun = f"{found.summary} It goes on in the background."
        return TriggeredRebalance(success=True, moves_executed=1, proposed=found.moves, message=begun)

    async def set_rule(self, rule: BalanceRule) -> tuple[BalanceRule, ...]:
        """Set a pin or an exclusion; answers all. Raises InvalidNameError, NotFoundError, LimitReachedError."""
        name = self._checked_name(rule.kind, rule.name)
        return await self._records.set_rule(replace(rule, name=name, set_ms=self._clock.now_ms()))

    async def clear_rule(self, wanted: ClearRule) -> tuple[BalanceRule, ...]:
        """Take a pin or an exclusion away if it is there; answers the others."""
        return await self._records.clear_rule(wanted)

    async def set_automatic(self, wanted: SetAutomatic) -> AutomaticBalance:
        """Set the automatic mode at run time, or that of the settings again. Raises InvalidRequestError."""
        if wanted.mode and wanted.mode not in set(Automatic):
            raise InvalidRequestError(f"there is no automatic mode {wanted.mode[:40]!r}: use {', '.join(Automatic)}")
        mode = Automatic(wanted.mode) if wanted.mode else None
        await self._records.set_automatic(mode, wanted.set_by, self._clock.now_ms())
        now = mode or self._source.settings.automatic
        return replace(self.automatic_balance(), mode=now.value, is_set=mode is not None)

    def automatic_balance(self) -> AutomaticBalance:
        """The automatic mode as it stands; what the leader decided is known to the leader alone."""
        if self._automatic is not None:
            return self._automatic()
        set_mode = self._records.automatic
        mode = set_mode.mode if set_mode else self._source.settings.automatic.value
        return AutomaticBalance(mode=mode, is_set=set_mode is not None)

    @staticmethod
    def _checked_name(kind: RuleKind, name: str) -> str:
        if kind is RuleKind.PIN_TOPIC:
            return str(TopicName.parse(name))
        if kind is RuleKind.EXCLUDE_NAMESPACE:
            return check_name_part("namespace", name)
        if not (name.isascii() and name.isdecimal()):
            raise NotFoundError(f"there is no broker {name[:40]!r}: list the brokers to see their ids")
        return name
