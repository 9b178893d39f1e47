from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from danube.metadata.memory import MemoryStore
from danube.metadata.records import keys
from danube.metadata.records.catalog import Records
from danube.metadata.records.plans import PlanRecords
from danube.metadata.store import Transaction
from danube.metadata.transaction_builder import TransactionBuilder
from danube.model.errors import (
    AlreadyExistsError,
    LimitReachedError,
    NamespaceNotFoundError,
    PlanNotFoundError,
    PlanRefusedError,
    TopicNotFoundError,
)
from danube.model.limits.broker import PARTITIONS_MAX, PLAN_KEEP_S, PLANS_OPEN_PER_CALLER_MAX
from danube.model.plans.plan import (
    Approval,
    Caller,
    Decision,
    Effect,
    Face,
    Impact,
    Plan,
    PlanApplication,
    PlanRequest,
    check_applicable,
    fingerprint_of,
    new_plan,
    plans_to_drop,
)
from danube.model.topic import DispatchStrategy, TopicName
from danube.runtime.rng import SystemRng
from danube.testing.simulated.clock import SimClock

NOW_MS = 1_750_000_000_000
KEEP_MS = round(PLAN_KEEP_S * 1_000)
ADA = Caller(who="ada@desk", face=Face.CLI)
IMPACT = Impact(changes=("Delete namespace apart.",), fingerprint=fingerprint_of([]))
ORDERS = TopicName("default", "orders")


class InterruptedStore(MemoryStore):
    """Lets one thing happen between a change's reads and its transaction."""

    def __init__(self) -> None:
        super().__init__(SimClock())
        self.interrupt: Callable[[], Awaitable[object]] | None = None

    async def transact(self, transaction: Transaction) -> int:
        interrupt, self.interrupt = self.interrupt, None
        if interrupt:
            await interrupt()
        return await super().transact(transaction)


@pytest.fixture
def store() -> InterruptedStore:
    return InterruptedStore()


@pytest.fixture
def plans(store: InterruptedStore) -> PlanRecords:
    return PlanRecords(store, SystemRng(1), plans_max=3)


@pytest.fixture
async def records(store: InterruptedStore) -> Records:
    records = Records(store)
    for name in ("default", "apart"):
        await records.ensure_namespace(name)
    return records


def planned(number: int, **changed: Any) -> Plan:
    request = PlanRequest(
        operation="delete_namespace",
        arguments={"namespace": "apart"},
        effect=Effect.DESTROY,
        caller=ADA,
        needs_approval=False,
    )
    return replace(new_plan(request, IMPACT, plan_id=f"plan-{number:012x}", now_ms=NOW_MS), **changed)


def over(number: int, over_ms: int) -> Plan:
    return planned(number, applied_ms=over_ms, applied_by=ADA)


def marking(plans: PlanRecords, plan: Plan) -> Callable[[TransactionBuilder], Awaitable[None]]:
    """What goes along with a deletion: the plan is marked applied, if it may be applied."""
    application = PlanApplication(plan_id=plan.plan_id, operation=plan.operation, arguments=plan.arguments, caller=ADA)

    async def mark(builder: TransactionBuilder) -> None:
        await plans.mark_applied(
            builder, application, NOW_MS, lambda found: check_applicable(found, application, IMPACT, NOW_MS)
        )

    return mark


async def test_plan_reads_back_as_made(plans: PlanRecords) -> None:
    await plans.create(planned(1))
    assert await plans.get("plan-000000000001") == planned(1)
    assert await plans.all() == [planned(1)]


async def test_two_plans_of_one_id_are_not_made(plans: PlanRecords) -> None:
    await plans.create(planned(1))
    with pytest.raises(AlreadyExistsError):
        await plans.create(planned(1))


async def test_decision_is_kept_with_who_made_it(plans: PlanRecords) -> None:
    await plans.create(planned(1, approval=Approval.WAITING))
    await plans.decide(Decision(plan_id=planned(1).plan_id, approve=True, caller=ADA), NOW_MS + 5)
    assert await plans.get(planned(1).plan_id) == planned(
        1, approval=Approval.APPROVED, decided_by=ADA, decided_ms=NOW_MS + 5
    )


async def test_of_two_who_decide_at_once_one_is_refused(store: InterruptedStore, plans: PlanRecords) -> None:
    await plans.create(planned(1, approval=Approval.WAITING))
    approval, rejection = (
        Decision(plan_id=planned(1).plan_id, approve=approve, caller=ADA) for approve in (True, False)
    )
    store.interrupt = lambda: plans.decide(rejection, NOW_MS)
    with pytest.raises(PlanRefusedError, match="is rejected"):
        await plans.decide(approval, NOW_MS)


async def test_namespace_and_mark_are_written_together(plans: PlanRecords, records: Records) -> None:
    await plans.create(planned(1))
    await records.delete_namespace("apart", extra_writes=marking(plans, planned(1)))
    assert (await plans.get(planned(1).plan_id)).applied_by == ADA
    assert not await records.namespace_exists("apart")


async def test_plan_applied_by_another_between_look_and_transaction_deletes_nothing_more(
    store: InterruptedStore, plans: PlanRecords, records: Records
) -> None:
    await plans.create(planned(1))
    mark = marking(plans, planned(1))

    async def another() -> None:
        await Records(store).delete_namespace("apart", extra_writes=mark)
        await records.create_namespace("apart")

    store.interrupt = another
    with pytest.raises(PlanRefusedError, match="acts once"):
        await records.delete_namespace("apart", extra_writes=mark)
    assert await records.namespace_exists("apart")


async def test_plan_that_was_forgotten_meanwhile_deletes_nothing(
    store: InterruptedStore, plans: PlanRecords, records: Records
) -> None:
    await plans.create(planned(1))
    store.interrupt = lambda: store.delete(keys.plan(planned(1).plan_id))
    with pytest.raises(PlanNotFoundError):
        await records.delete_namespace("apart", extra_writes=marking(plans, planned(1)))
    assert await records.namespace_exists("apart")


async def test_what_is_not_deleted_leaves_its_plan_unapplied(plans: PlanRecords, records: Records) -> None:
    await plans.create(planned(1))
    with pytest.raises(NamespaceNotFoundError):
        await records.delete_namespace("elsewhere", extra_writes=marking(plans, planned(1)))
    assert await plans.get(planned(1).plan_id) == planned(1)


async def test_most_partitions_go_in_one_transaction_with_their_plan(
    store: InterruptedStore, plans: PlanRecords, records: Records
) -> None:
    made = await records.create_partitioned_topic(ORDERS, PARTITIONS_MAX, DispatchStrategy.RELIABLE, NOW_MS)
    await plans.create(planned(1))
    before = len(await records.topics())
    await records.delete_topics(made, extra_writes=marking(plans, planned(1)))
    assert (before, await records.topics()) == (PARTITIONS_MAX, [])
    assert await store.get(keys.partitioned(ORDERS)) is None
    assert (await plans.get(planned(1).plan_id)).applied_ms == NOW_MS


async def test_partitions_are_deleted_all_or_none(records: Records) -> None:
    made = await records.create_partitioned_topic(ORDERS, 3, DispatchStrategy.RELIABLE, NOW_MS)
    await records.delete_topic(made[2])
    with pytest.raises(TopicNotFoundError):
        await records.delete_topics(made)
    assert await records.partitions_of(ORDERS) == made[:2]


async def test_new_plan_pushes_out_one_that_is_over_and_none_that_is_not(plans: PlanRecords) -> None:
    for plan in (over(1, NOW_MS + 1), planned(2), over(3, NOW_MS)):
        await plans.create(plan)
    await plans.create(planned(4))
    assert {plan.plan_id[-1] for plan in await plans.all()} == {"1", "2", "4"}


async def test_of_two_plans_made_at_once_for_the_last_place_one_is_refused(
    store: InterruptedStore, plans: PlanRecords
) -> None:
    for number in (1, 2):
        await plans.create(planned(number))
    store.interrupt = lambda: plans.create(planned(3))
    with pytest.raises(LimitReachedError, match="apply or reject some"):
        await plans.create(planned(4))
    assert len(await plans.all()) == 3


def test_what_is_over_for_long_is_forgotten() -> None:
    kept, gone = over(1, NOW_MS - KEEP_MS + 1), over(2, NOW_MS - KEEP_MS)
    assert plans_to_drop([kept, gone, planned(3)], planned(4), 100) == [gone.plan_id]


def test_plans_too_old_to_be_applied_count_as_over() -> None:
    expired = planned(1, expires_ms=NOW_MS)
    assert plans_to_drop([expired, planned(2)], planned(3), 2) == [expired.plan_id]


def test_with_room_nothing_is_forgotten() -> None:
    assert plans_to_drop([over(1, NOW_MS), planned(2)], planned(3), 3) == []


@pytest.mark.parametrize("unreadable", [b"[" * 100_000, b"\xff", b"{}", b'{"version": 1, "created_ms": 1e999}'])
async def test_a_plan_that_cannot_be_read_is_left_out_and_holds_up_no_other(
    store: InterruptedStore, plans: PlanRecords, unreadable: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    await plans.create(planned(1))
    await store.put(keys.plan("plan-00000000000f"), unreadable)
    await plans.create(planned(2))
    assert {plan.plan_id[-1] for plan in await plans.all()} == {"1", "2"}
    assert "1 of 3 plans cannot be read" in caplog.text


def test_one_caller_leaves_room_for_plans_of_others() -> None:
    own = [planned(number) for number in range(PLANS_OPEN_PER_CALLER_MAX)]
    with pytest.raises(LimitReachedError, match=r"100 plans of ada@desk \(cli\) wait"):
        plans_to_drop(own, planned(200))
    assert plans_to_drop(own, planned(200, asked_by=replace(ADA, face=Face.TUI))) == []
    assert plans_to_drop(own, planned(200, asked_by=replace(ADA, who="bob@desk"))) == []
    assert plans_to_drop([*own[1:], over(1, NOW_MS)], planned(200)) == []
    with pytest.raises(LimitReachedError):
        plans_to_drop(own, planned(200, asked_by=replace(ADA, client="another program")))
