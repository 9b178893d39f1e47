"""Rebalances of brokers in one process: planned, applied, followed, cancelled, and asked for as the original does."""

from collections.abc import Sequence
from typing import Any

import pytest

from danube.loadmgr.load import BrokerLoad, TopicLoad
from danube.metadata.records import keys
from danube.metadata.records.cluster import encode_load
from danube.model.calls.balance import (
    BalanceRule,
    BrokerPlaceState,
    CancelRebalance,
    ClearRule,
    ClusterBalance,
    MoveState,
    Rebalance,
    RebalanceState,
    RuleKind,
    SetAutomatic,
    TriggerRebalance,
)
from danube.model.errors import InvalidRequestError, NotFoundError, PlanRefusedError, PreconditionFailedError
from danube.model.plans.plan import Effect, Plan, PlanStatus
from danube.model.topic import TopicName
from danube.testing.in_process_broker import Cell
from danube.testing.patience import LONG_S
from danube.wire import admin_messages as admin
from danube.wire import plan_messages as plans
from tests.unit.broker.network import Network, is_served, until

BALANCE, BROKERS = "/danube.control.Balance", "/danube_admin.BrokerAdmin"
TOPICS = [TopicName("default", f"t{number}") for number in range(6)]
QUIET = {"telemetry_interval_s": 0, "load_report_interval_s": 3_600, "rebalance_cool_down_s": 0}
"""Brokers that report once: what they say after that is the test's."""


async def shared(network: Network, name: str, **settings: Any) -> Cell:
    folder = network.folder / "shared"
    folder.mkdir(exist_ok=True)
    return await network.start(name, storage={"mode": "shared_fs", "folder": folder}, **{**QUIET, **settings})


async def skewed(network: Network, **settings: Any) -> list[Cell]:
    """Three brokers, of which the first has six busy topics."""
    cells = [await shared(network, name, **settings) for name in ("one", "two", "three")]
    for name in TOPICS:
        await network.put(name, cells[0])
    await reported(network, cells, TOPICS)
    return cells


async def reported(network: Network, cells: list[Cell], busy: list[TopicName]) -> None:
    """Have the first broker report that these topics are busy, and the others that they are idle."""
    for at, cell in enumerate(cells):
        broker_id = await network.id_of(cell)
        loads = tuple(TopicLoad(topic=str(each), messages_per_s=1_000.0, producers=1) for each in busy)
        load = BrokerLoad(broker_id=broker_id, measured_ms=network.clock.now_ms(), cpu=0.0 if at else 0.6)
        if not at:
            load = BrokerLoad(broker_id=broker_id, measured_ms=load.measured_ms, cpu=0.6, topics=loads)
        await network.meta_store.store.put(keys.load(broker_id), encode_load(load))

    async def is_known() -> bool:
        seen = [await balance(each) for each in cells]
        return all(one.figures.highest > 50 and all(each.is_known for each in one.brokers) for one in seen)

    await until(is_known)


async def balance(cell: Cell) -> ClusterBalance:
    return await cell.admin.ask(f"{BALANCE}/GetBalance", plans.BALANCE, None, plans.CLUSTER_BALANCE)


async def planned(cell: Cell, **arguments: Any) -> Plan:
    return await cell.admin.plan("trigger_rebalance", effect=Effect.MOVE, **arguments)


async def rebalances(cell: Cell, plan_id: str = "") -> Sequence[Rebalance]:
    request, answer = plans.LIST_REBALANCES, plans.REBALANCES
    return await cell.admin.ask(f"{BALANCE}/ListRebalances", request, plan_id, answer)


async def moved(cell: Cell) -> Rebalance:
    """The newest rebalance, once its moves are over."""
    found: list[Rebalance] = []

    async def is_over() -> bool:
        found[:] = await rebalances(cell)
        return bool(found) and found[0].moves_over == len(found[0].preview.moves)

    await until(is_over)
    return found[0]


async def test_exactly_the_planned_moves_are_made_and_every_broker_shows_them(network: Network) -> None:
    cells = await skewed(network)
    plan = await planned(cells[1])
    preview = plan.impact.rebalance
    assert preview is not None
    assert preview.before.cv > 1
    assert preview.after.cv < 0.2
    assert (await cells[2].admin.get_plan(plan.plan_id)).impact.rebalance == preview
    assert (await cells[2].admin.apply(plan)).status(network.clock.now_ms()) is PlanStatus.APPLIED
    done = await moved(cells[1])
    assert {move.state for move in done.preview.moves} == {MoveState.DONE}
    assert [(move.topic, move.target) for move in done.preview.moves] == [
        (move.topic, move.target) for move in preview.moves
    ]
    by_id = {str(await network.id_of(cell)): cell for cell in cells}
    for move in preview.moves:
        name = TopicName.parse(move.topic)
        await until(lambda name=name, move=move: is_served(by_id[move.target], name))  # type: ignore[misc]
    assert (done.plan_id, done.asked_by) == (plan.plan_id, plan.asked_by.who)
    assert [one.plan_id for one in await rebalances(cells[0], plan.plan_id)] == [plan.plan_id]
    assert await rebalances(cells[0], "plan-of-another") == ()
    shown = await balance(cells[0])
    assert shown.running is not None
    assert shown.running.state is RebalanceState.SETTLING
    assert [one.topics for one in shown.brokers] == [2, 2, 2]
    with pytest.raises(PlanRefusedError, match="applied already"):
        await cells[0].admin.apply(plan)


async def test_a_plan_of_a_cluster_that_has_changed_is_refused_and_moves_nothing(network: Network) -> None:
    cells = await skewed(network)
    plan = await planned(cells[0])
    assert plan.impact.rebalance is not None
    await cells[0].admin.delete_topic(TopicName.parse(plan.impact.rebalance.moves[0].topic))
    with pytest.raises(PlanRefusedError, match="has changed"):
        await cells[0].admin.apply(plan)
    assert await rebalances(cells[0]) == ()


async def test_one_rebalance_runs_at_a_time_and_can_be_cancelled(network: Network) -> None:
    cells = await skewed(network, rebalance_parallel_moves=1)
    first, second = await planned(cells[0]), await planned(cells[0])
    await cells[0].admin.apply(first)
    with pytest.raises((PreconditionFailedError, PlanRefusedError)):
        await cells[0].admin.apply(second)
    cancel = CancelRebalance(cancelled_by="ada")
    await cells[1].admin.ask(f"{BALANCE}/CancelRebalance", plans.CANCEL_REBALANCE, cancel, plans.REBALANCE_CANCELLED)

    async def is_over() -> bool:
        return (await rebalances(cells[1]))[0].state.is_over

    await until(is_over)
    ended = (await rebalances(cells[1]))[0]
    assert (ended.state, ended.reason) == (RebalanceState.CANCELLED, "ada cancelled it")
    assert ended.count(MoveState.DONE, MoveState.SKIPPED) == len(ended.preview.moves)
    nothing = await cells[1].admin.ask(
        f"{BALANCE}/CancelRebalance", plans.CANCEL_REBALANCE, cancel, plans.REBALANCE_CANCELLED
    )
    assert nothing is None


async def test_pins_and_exclusions_keep_topics_where_they_are(network: Network) -> None:
    cells = await skewed(network, rebalance_excluded_topics=(str(TOPICS[0]), "/other/*"))
    ask, set_rule, rules = cells[0].admin.ask, plans.SET_RULE, plans.RULES
    for name in TOPICS[1:]:
        rule = BalanceRule(kind=RuleKind.PIN_TOPIC, name=str(name), reason="latency", set_by="ada")
        found = await ask(f"{BALANCE}/SetRule", set_rule, rule, rules)
    assert [one.name for one in found] == [str(name) for name in TOPICS[1:]]

    async def all_stay() -> bool:
        plan = await planned(cells[2], dry_run=True)
        return plan.impact.rebalance is not None and not plan.impact.rebalance.moves

    await until(all_stay)
    cleared = ClearRule(kind=RuleKind.PIN_TOPIC, name=str(TOPICS[5]))
    for _ in range(2):  # taking away what is not there is no error
        left = await ask(f"{BALANCE}/ClearRule", plans.CLEAR_RULE, cleared, rules)
        assert len(left) == 4
    with pytest.raises(NotFoundError):
        await ask(f"{BALANCE}/SetRule", set_rule, BalanceRule(kind=RuleKind.EXCLUDE_BROKER, name="x"), rules)
    assert len((await balance(cells[0])).rules) == 6


async def test_the_original_s_calls_answer_in_its_form(network: Network) -> None:
    cells = await skewed(network)
    ask = cells[0].admin.ask
    shown = await ask(f"{BROKERS}/GetClusterBalance", admin.CLUSTER_BALANCE_OF, None, admin.CLUSTER_BALANCE)
    assert shown.strategy == "balanced"
    assert shown.figures.cv > 1
    assert sorted(one.topics for one in shown.brokers) == [0, 0, 6]
    assert [one.status for one in shown.brokers if one.topics] == ["overloaded"]
    request, answer = admin.TRIGGER_REBALANCE, admin.REBALANCE_TRIGGERED
    dry = await ask(f"{BROKERS}/TriggerRebalance", request, TriggerRebalance(dry_run=True), answer)
    assert (dry.success, dry.moves_executed) == (True, 0)
    assert await rebalances(cells[0]) == ()
    begun = await ask(f"{BROKERS}/TriggerRebalance", request, TriggerRebalance(moves_max=1), answer)
    assert (begun.success, begun.moves_executed) == (True, 1)
    assert "background" in begun.message
    assert len((await moved(cells[1])).preview.moves) == 1
    again = await ask(f"{BROKERS}/TriggerRebalance", request, TriggerRebalance(), answer)
    assert not again.success or not again.moves_executed


async def test_the_automatic_mode_acts_on_an_imbalance_that_lasts_and_its_act_is_in_the_audit_log(
    network: Network,
) -> None:
    cells = await skewed(network, rebalance_check_interval_s=0.1)
    ask = cells[2].admin.ask
    with pytest.raises(InvalidRequestError):
        await ask(f"{BALANCE}/SetAutomatic", plans.SET_AUTOMATIC, SetAutomatic(mode="wild"), plans.AUTOMATIC)
    mode = SetAutomatic(mode="aggressive", set_by="ada")
    now = await ask(f"{BALANCE}/SetAutomatic", plans.SET_AUTOMATIC, mode, plans.AUTOMATIC)
    assert (now.mode, now.is_set) == ("aggressive", True)
    done = await moved(cells[1])
    assert (done.asked_by, done.plan_id) == ("automatic", "")
    assert {move.state for move in done.preview.moves} == {MoveState.DONE}
    leader = await leading(network, cells)
    page = await leader.admin.audit()
    acts = [one.entry for one in page.records if one.entry.caller.who == "automatic"]
    assert [one.operation for one in acts] == ["trigger_rebalance"]
    assert "the imbalance is" in acts[0].detail


async def test_the_automatic_mode_waits_while_a_plan_waits_for_a_person(network: Network) -> None:
    cells = await skewed(network, rebalance_check_interval_s=0.1)
    plan = await cells[0].admin.plan("trigger_rebalance", effect=Effect.MOVE, needs_approval=True)
    mode = SetAutomatic(mode="aggressive", set_by="ada")
    await cells[0].admin.ask(f"{BALANCE}/SetAutomatic", plans.SET_AUTOMATIC, mode, plans.AUTOMATIC)
    leader = await leading(network, cells)

    async def has_said() -> bool:
        return plan.plan_id in (await balance(leader)).automatic.decision

    await until(has_said)
    assert await rebalances(leader) == ()
    await cells[0].admin.decide(plan.plan_id, approve=False)
    assert (await moved(leader)).asked_by == "automatic"


async def leading(network: Network, cells: list[Cell]) -> Cell:
    """The broker that leads."""
    by_id = {str(await network.id_of(cell)): cell for cell in cells}
    return by_id[(await balance(cells[0])).leader]


async def test_a_broker_that_stands_alone_has_a_balance_of_one_and_nothing_to_move(network: Network) -> None:
    alone = await network.start("alone", mode="standalone", telemetry_interval_s=0, load_report_interval_s=LONG_S)
    await until(lambda: has_report(alone))
    shown = await balance(alone)
    assert (len(shown.brokers), shown.figures.cv) == (1, 0.0)
    plan = await planned(alone)
    assert plan.impact.rebalance is not None
    assert (plan.impact.rebalance.verdict, plan.impact.topic_count) == ("alone", 0)
    assert (plan.plan_id, plan.status(plan.created_ms)) == ("", PlanStatus.SHOWN)
    assert await rebalances(alone) == ()


async def test_after_a_takeover_the_lost_broker_counts_and_a_plan_says_until_when_it_waits(network: Network) -> None:
    cells = await skewed(network)
    lost = str(await network.id_of(cells[2]))
    await network.lose(cells[2])

    async def is_missed() -> bool:
        return lost not in {one.broker_id for one in (await balance(cells[0])).brokers}

    await until(is_missed)
    await network.stop("three")
    cells[2] = await shared(network, "three")
    await reported(network, cells, TOPICS)
    shown = await balance(cells[0])
    states = {one.broker_id: (one.state, one.note) for one in shown.brokers}
    assert states[lost][0] is BrokerPlaceState.FAILED
    assert "it gets no topics until 20" in states[lost][1]
    assert shown.figures.cv > 1.3  # of three brokers, one of which does all the work
    plan = await planned(cells[0])
    assert plan.impact.rebalance is not None
    assert plan.impact.rebalance.verdict == "waiting"
    assert f"broker {lost} failed lately and gets no topics until 20" in plan.impact.rebalance.summary
    assert plan.status(network.clock.now_ms()) is PlanStatus.SHOWN


async def has_report(cell: Cell) -> bool:
    return (await balance(cell)).brokers[0].report_age_s is not None
