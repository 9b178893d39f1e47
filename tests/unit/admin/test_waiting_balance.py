"""A balance that has to wait for a broker that failed lately says so, with the time, on each face."""

from dataclasses import replace

import pytest
from typer.testing import CliRunner

from danube.admin.__main__ import app
from danube.model.calls.balance import BrokerPlaceState
from danube.runtime.clock import SystemClock
from tests.faces.memory_gateway import MemoryGateway, connect_to
from tests.faces.seeded import seeded_gateway
from tests.faces.skewed import skewed_balance, skewed_preview
from tests.unit.admin.mcp.hosts import host, text_of

UNTIL = "it gets no topics until 2026-03-01 12:03:10Z"
WAITS = "Wait: the imbalance is 1.41, and broker 2 failed lately and gets no topics until 12:03:10Z: plan again then."


def waits(gateway: MemoryGateway) -> None:
    """Have the second broker of the skewed cluster have failed."""
    known = skewed_balance()
    brokers = [one for one in known.brokers if one.is_known]
    brokers[1] = replace(brokers[1], state=BrokerPlaceState.FAILED, note=f"It was lost a short while ago: {UNTIL}.")
    gateway.cluster.balance = replace(known, brokers=tuple(brokers))
    gateway.cluster.preview = replace(skewed_preview(), verdict="waiting", summary=WAITS, moves=())


@pytest.fixture
def waiting() -> MemoryGateway:
    gateway = seeded_gateway(SystemClock())
    waits(gateway)
    return gateway


async def test_assistants_are_told_and_get_no_plan_to_apply(waiting: MemoryGateway) -> None:
    async with host(waiting) as client:
        balance = await client.call_tool("get_cluster_balance", {})
        assert balance.structured_content is not None
        assert UNTIL in balance.structured_content["hint"]
        analysis = await client.call_tool("analyze_cluster_balance", {})
        assert WAITS in text_of(analysis)
        troubles = await client.call_tool("get_recommendations", {})
        assert troubles.structured_content is not None
        (found,) = [one for one in troubles.structured_content["recommendations"] if one["subject"] == "balance"]
        assert UNTIL in found["seen"]
        planned = await client.call_tool("trigger_rebalance", {})
        assert planned.structured_content is not None
        assert (planned.structured_content["status"], planned.structured_content["plan"]["plan_id"]) == ("shown", "")
        assert planned.structured_content["next_step"].endswith(WAITS)
    assert len(waiting.stored_plans) == 1  # that of the seeded cluster


def test_the_command_line_says_it_and_has_nothing_to_apply(waiting: MemoryGateway) -> None:
    built = app(connect_to(waiting))
    shown = CliRunner().invoke(built, ["brokers", "balance"], env={"COLUMNS": "200"})
    assert (
        f"a plan waits for brokers that failed lately. Broker 2: It was lost a short while ago: {UNTIL}" in shown.stdout
    )
    ended = CliRunner().invoke(built, ["brokers", "rebalance", "--yes"], env={"COLUMNS": "200"})
    assert (ended.exit_code, WAITS in ended.stdout) == (0, True)
    assert "there is nothing to apply" in ended.stderr


def test_people_are_told_commands_and_no_tools(waiting: MemoryGateway) -> None:
    waiting.cluster.balance = replace(skewed_balance(), brokers=skewed_balance().brokers[:3])
    shown = CliRunner().invoke(app(connect_to(waiting)), ["brokers", "balance"], env={"COLUMNS": "200"})
    assert "call `danube-admin brokers rebalance` for a plan" in shown.stdout
    assert "trigger_rebalance" not in shown.stdout


def test_brokers_are_drawn_while_the_load_of_none_is_known(waiting: MemoryGateway) -> None:
    known = skewed_balance()
    waiting.cluster.balance = replace(known, brokers=tuple(one for one in known.brokers if not one.is_known))
    shown = CliRunner().invoke(app(connect_to(waiting)), ["brokers", "balance"], env={"COLUMNS": "200"})
    assert (shown.exit_code, shown.exception) == (0, None)
    assert "Peak to average" in shown.stdout
