"""Plans as records: created within a bound, decided and applied by compare-and-set."""

import asyncio
import logging
from collections.abc import Callable

from danube.metadata.records import keys
from danube.metadata.records.record_format import decode_counter, decode_plan, encode_counter, encode_plan
from danube.metadata.store import MetadataStore
from danube.metadata.transaction_builder import TransactionBuilder, commit_transaction
from danube.model.errors import AlreadyExistsError, MetadataError, PlanNotFoundError
from danube.model.limits.broker import PLANS_MAX
from danube.model.plans.plan import (
    Decision,
    Impact,
    Plan,
    PlanApplication,
    applied,
    check_applicable,
    decided,
    plans_to_drop,
)
from danube.runtime.rng import Rng

_log = logging.getLogger(__name__)

_READ_AT_ONCE = 50


class PlanRecords:
    """The plans in a metadata store. Every method raises MetadataError when the store fails."""

    def __init__(self, store: MetadataStore, rng: Rng, *, plans_max: int = PLANS_MAX) -> None:
        self._store = store
        self._rng = rng
        self._plans_max = plans_max

    async def create(self, plan: Plan) -> None:
        """Keep a new plan; those that are over and older than PLAN_KEEP_S, or too many, go.

        Raises LimitReachedError when too many are not over, AlreadyExistsError when there is a plan of this id.
        """

        async def change(builder: TransactionBuilder) -> None:
            # Each creation moves the counter: of two at a time one is worked out anew, so the bound holds.
            made = decode_counter(await builder.read(keys.PLAN_COUNTER))
            if await builder.read(keys.plan(plan.plan_id)) is not None:
                raise AlreadyExistsError(f"there is a plan {plan.plan_id} already: ask for a plan again")
            for gone in plans_to_drop(await self.all(), plan, self._plans_max):
                builder.delete(keys.plan(gone))
            builder.put(keys.plan(plan.plan_id), encode_plan(plan))
            builder.put(keys.PLAN_COUNTER, encode_counter(made + 1))

        await commit_transaction(self._store, self._rng, change)

    async def get(self, plan_id: str) -> Plan:
        """The plan, as it was left by whoever decided about it last, at whichever broker. Raises PlanNotFoundError."""
        entry = await self._store.get(keys.plan(plan_id), linearizable=True)
        if entry is None:
            raise _not_found(plan_id)
        return decode_plan(entry)

    async def all(self) -> list[Plan]:
        """All plans that are kept and can be read; how many cannot is logged."""
        entries = await self._store.list(keys.PLANS)
        found: list[Plan] = []
        for number, entry in enumerate(entries, 1):
            try:
                found.append(decode_plan(entry))
            except MetadataError as error:
                _log.warning("%s", error)
            if number % _READ_AT_ONCE == 0:
                await asyncio.sleep(0)  # PLANS_MAX of them take long enough to be felt by everybody else
        if len(found) < len(entries):
            _log.warning("%d of %d plans cannot be read and are left out", len(entries) - len(found), len(entries))
        return found

    async def decide(self, decision: Decision, now_ms: int) -> Plan:
        """Approve or reject a plan; answers it as it stands then. Raises PlanNotFoundError, PlanRefusedError."""
        await self.get(decision.plan_id)  # what was asked of another broker a moment ago is here then

        async def change(builder: TransactionBuilder) -> Plan:
            plan = await _read(builder, decision.plan_id)
            after = decided(plan, decision, now_ms)
            builder.put(keys.plan(plan.plan_id), encode_plan(after))
            return after

        return await commit_transaction(self._store, self._rng, change)

    async def apply(self, application: PlanApplication, now_ms: int, impact: Impact) -> Plan:
        """Mark a plan as applied. Raises PlanRefusedError, PlanWaitsError where it may not be."""

        async def change(builder: TransactionBuilder) -> Plan:
            return await self.mark_applied(
                builder, application, now_ms, lambda plan: check_applicable(plan, application, impact, now_ms)
            )

        return await commit_transaction(self._store, self._rng, change)

    @staticmethod
    async def mark_applied(
        builder: TransactionBuilder, application: PlanApplication, now_ms: int, check: Callable[[Plan], object]
    ) -> Plan:
        """Add to a transaction that the plan is applied, by its caller, if `check` does not raise.

        If the plan is decided about, applied or forgotten before the draft is, the draft is worked out anew. Raises
        PlanNotFoundError.
        """
        plan = await _read(builder, application.plan_id)
        check(plan)
        after = applied(plan, application, now_ms)
        builder.put(keys.plan(plan.plan_id), encode_plan(after))
        return after


async def _read(builder: TransactionBuilder, plan_id: str) -> Plan:
    entry = await builder.read(keys.plan(plan_id))
    if entry is None:
        raise _not_found(plan_id)
    return decode_plan(entry)


def _not_found(plan_id: str) -> PlanNotFoundError:
    return PlanNotFoundError(f"there is no plan {plan_id[:40]!r} (any more): list the plans, or ask for a new one")
