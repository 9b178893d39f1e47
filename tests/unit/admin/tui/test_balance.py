"""The balance screen: as it looks, character by character in tests/snapshots/tui/, and what its keys do."""

import os
from collections.abc import Callable, Coroutine
from pathlib import Path

import pytest

from danube.admin.access import AccessLevel
from danube.admin.tui.screens.balance import BalanceScreen
from danube.admin.tui.screens.decide import DecideScreen
from danube.admin.tui.screens.form import FormScreen
from danube.admin.tui.screens.result import ResultScreen
from danube.model.calls.balance import MoveState, RebalanceState
from danube.model.plans.plan import Caller, Effect, Face, PlanRequest, PlanStatus
from tests.faces import memory_balance
from tests.faces.pilot import confirm
from tests.faces.skewed import skewed_balance, skewed_preview, skewed_rebalance
from tests.unit.admin.test_waiting_balance import UNTIL, waits
from tests.unit.admin.tui.conftest import Open, Terminal

FOLDER = Path(__file__).parents[3] / "snapshots" / "tui"
BOT = Caller(who="bot@desk", face=Face.MCP, client="host 1.0")
Scene = Callable[[Terminal], Coroutine[None, None, None]]


async def opened(terminal: Terminal) -> None:
    """The screen, of a skewed cluster."""
    cluster = terminal.gateway.cluster
    cluster.balance, cluster.preview = skewed_balance(), skewed_preview()
    await terminal.press("b")
    assert isinstance(terminal.framed, BalanceScreen)


async def asked_by_an_assistant(terminal: Terminal) -> str:
    """A plan that waits for a person."""
    await opened(terminal)
    request = PlanRequest(
        operation="trigger_rebalance", arguments={}, effect=Effect.MOVE, caller=BOT, needs_approval=True
    )
    plan = await terminal.gateway.create_plan(request)
    await terminal.look()
    return plan.plan_id


async def waiting(terminal: Terminal) -> None:
    await asked_by_an_assistant(terminal)


async def plan(terminal: Terminal) -> None:
    await asked_by_an_assistant(terminal)
    await terminal.press("2")


async def running(terminal: Terminal) -> None:
    await opened(terminal)
    states = {"/default/clicks": MoveState.DONE, "/default/orders": MoveState.MOVING}
    terminal.gateway.cluster.rebalances.insert(0, skewed_rebalance(states, RebalanceState.RUNNING))
    await terminal.press("4")
    await terminal.look()


async def topics(terminal: Terminal) -> None:
    await opened(terminal)
    await terminal.press("3")


SCENES: dict[str, Scene] = {
    "balance": opened,
    "balance-waiting": waiting,
    "balance-plan": plan,
    "balance-running": running,
    "balance-topics": topics,
}


@pytest.mark.slow
@pytest.mark.parametrize("size", [(80, 24), (120, 40)], ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("name", SCENES)
async def test_the_screen_is_what_it_was(name: str, size: tuple[int, int], open_terminal: Open) -> None:
    async with open_terminal(size=size) as terminal:
        await SCENES[name](terminal)
        drawn = terminal.text + "\n"
    file = FOLDER / f"{name}-{size[0]}x{size[1]}.txt"
    if os.environ.get("UPDATE_SNAPSHOTS"):
        file.write_text(drawn, encoding="utf-8")
    assert drawn == file.read_text(encoding="utf-8")


async def test_a_rebalance_is_planned_read_and_applied_here(terminal: Terminal) -> None:
    await opened(terminal)
    await terminal.press("n")
    await terminal.app.workers.wait_for_complete()
    await terminal.rest()
    assert "Move 2 topics: the imbalance goes from 0.98 to 0.07" in terminal.flat
    assert terminal.gateway.cluster.rebalances == []
    await terminal.press("y")
    assert isinstance(terminal.framed, DecideScreen)
    await confirm(terminal.pilot)
    assert terminal.gateway.cluster.rebalances[0].state is RebalanceState.RUNNING
    memory_balance.step(terminal.gateway.cluster, terminal.clock.now_ms())
    await terminal.press("escape")
    await terminal.look()
    assert "rebalance running: 1 of 2 moves" in terminal.flat


async def test_the_screen_says_what_a_plan_waits_for_and_there_is_nothing_to_apply(terminal: Terminal) -> None:
    waits(terminal.gateway)
    await terminal.press("b")
    assert "a plan waits for brokers that failed lately" in terminal.flat
    assert UNTIL in terminal.flat
    await terminal.press("n")
    await terminal.app.workers.wait_for_complete()
    await terminal.rest()
    assert "Does: Wait: the imbalance is 1.41, and broker 2 failed lately" in terminal.flat
    assert isinstance(terminal.framed, ResultScreen)


async def test_a_plan_of_an_assistant_is_approved_here(terminal: Terminal) -> None:
    plan_id = await asked_by_an_assistant(terminal)
    await terminal.press("a")
    await confirm(terminal.pilot)
    stored = terminal.gateway.stored_plans[plan_id]
    assert stored.status(terminal.clock.now_ms()) is PlanStatus.READY
    assert stored.decided_by is not None
    assert stored.decided_by.face is Face.TUI


async def test_a_plan_that_waits_is_not_applied(terminal: Terminal) -> None:
    await asked_by_an_assistant(terminal)
    await terminal.press("y")
    assert "it waits for a person: a approves it" in terminal.flat
    assert terminal.gateway.cluster.rebalances == []


async def test_keys_without_a_plan_say_so(terminal: Terminal) -> None:
    await opened(terminal)
    for key in "axy":
        await terminal.press(key)
        assert "There is no plan: n makes one." in terminal.flat


async def test_each_key_leads_to_its_operation(terminal: Terminal) -> None:
    await opened(terminal)
    for key, name in {
        "c": "cancel_rebalance",
        "m": "set_automatic_balance",
        "w": "analyze_cluster_balance",
        "i": "set_balance_rule",
    }.items():
        await terminal.press(key)
        screen = terminal.framed
        assert isinstance(screen, FormScreen)
        assert screen.operation.name == name
        await terminal.press("escape")


async def test_an_access_level_that_only_reads_plans_nothing(open_terminal: Open) -> None:
    async with open_terminal(level=AccessLevel.READ) as terminal:
        await opened(terminal)
        await terminal.press("n")
        assert "needs access level write" in terminal.flat
        assert "create_plan" not in terminal.gateway.calls


async def test_of_the_originals_brokers_the_balance_is_shown_and_the_rest_is_refused(terminal: Terminal) -> None:
    terminal.gateway.is_original = True
    await opened(terminal)
    assert "severely imbalanced" in terminal.flat
    await terminal.press("w", "ctrl+s")
    await terminal.app.workers.wait_for_complete()
    await terminal.rest()
    assert "unsupported" in terminal.flat.lower()
