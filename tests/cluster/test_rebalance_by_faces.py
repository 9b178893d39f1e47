"""A rebalance of real brokers by an assistant, which a person approves, and in the TUI: what was planned happens."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

from danube.admin.access import AccessLevel, Guard
from danube.admin.grpc_gateway.gateway import opened
from danube.admin.target import Target
from danube.admin.tui.app import AdminApp
from danube.admin.tui.screens.balance import BalanceScreen
from danube.admin.tui.screens.decide import DecideScreen
from danube.model.plans.plan import Caller, Decision, Face
from danube.model.topic import TopicName
from danube.runtime.clock import SystemClock
from danube.testing.patience import LONG_S, PATIENCE_S
from lab.failover.administration import Administration
from tests.cluster.test_rebalance_between_processes import cluster, loaded, over, processes, skew_is_known, strategy
from tests.faces.pilot import confirm

__all__ = ["cluster", "processes", "strategy"]

pytestmark = [pytest.mark.cluster, pytest.mark.nightly, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]
PERSON = Caller(who="ada@desk", face=Face.TUI)


@asynccontextmanager
async def assistant(asked: Administration) -> AsyncIterator[Client]:
    """The MCP SDK's client, over standard input and output; plans that move wait for a person."""
    endpoint = asked.processes.brokers[1].endpoints.admin_url
    arguments = ["-m", "danube.admin", "mcp", "--endpoint", endpoint, "--access", "write", "--approval", "move"]
    async with Client(
        StdioServerParameters(command=sys.executable, args=arguments, env={"PYTHONPATH": str(ROOT)})
    ) as client:
        yield client


async def answer(client: Client, name: str, told: list[tuple[float, float | None]], **arguments: Any) -> dict[str, Any]:
    """The structured answer of a tool, with its progress in `told`."""

    async def heard(progress: float, total: float | None, message: str | None) -> None:
        del message
        told.append((progress, total))

    result = await client.call_tool(name, arguments, progress_callback=heard)
    assert not result.is_error, result.content
    assert result.structured_content is not None
    return dict(result.structured_content)


async def test_an_assistant_plans_a_person_approves_and_exactly_the_plan_happens(cluster: Administration) -> None:
    async with loaded(cluster), assistant(cluster) as client:
        await skew_is_known(cluster)
        before = await answer(client, "get_cluster_balance", [])
        assert before["figures"]["cv"] > 0.5
        why = await answer(client, "analyze_cluster_balance", [])
        assert why["plan"]["moves"]
        planned = await answer(client, "trigger_rebalance", [])
        plan_id = planned["plan"]["plan_id"]
        assert planned["status"] == "waiting"
        early = await client.call_tool("trigger_rebalance", {"plan_id": plan_id})
        assert early.is_error
        async with cluster.gateway([cluster.processes.brokers[0]]) as gateway:
            await gateway.decide_plan(Decision(plan_id=plan_id, approve=True, caller=PERSON))
        told: list[tuple[float, float | None]] = []
        applied = await answer(client, "trigger_rebalance", told, plan_id=plan_id)
        moves = planned["plan"]["rebalance"]["moves"]
        done = await over(cluster, cluster.processes.brokers[0], plan_id)
        assert applied["status"] == "applied"
        assert all(before < after for (before, _), (after, _) in pairwise(told))
        assert {total for _, total in told} == {len(moves) + 1}
        assert [(move.topic, move.target) for move in done.preview.moves] == [
            (move["topic"], move["target"]) for move in moves
        ]
        assert done.actual is not None
        assert done.actual.cv < 0.25


async def test_a_person_spreads_the_load_in_the_tui(cluster: Administration) -> None:
    async with loaded(cluster):
        await skew_is_known(cluster)
        target = Target(
            endpoint=cluster.processes.brokers[1].endpoints.admin_url,
            timeout_s=PATIENCE_S,
            guard=Guard(level=AccessLevel.DESTROY),
        )
        async with opened(target) as gateway:
            app = AdminApp(gateway, target, clock=SystemClock(), caller=PERSON)
            async with app.run_test(size=(120, 40)) as pilot, asyncio.timeout(LONG_S):
                await app.refreshed()
                await pilot.press("b", "n")
                await app.workers.wait_for_complete()
                while app.app_context.watch.rebalance_plan is None:
                    await app.app_context.watch.round((*app.screen.parts(),), lambda: None)  # type: ignore[attr-defined]
                plan = app.app_context.watch.rebalance_plan
                assert isinstance(app.screen, BalanceScreen)
                await pilot.press("y")
                assert isinstance(app.screen, DecideScreen)
                await confirm(pilot)
        done = await over(cluster, cluster.processes.brokers[0], plan.plan_id)
        assert plan.rebalance is not None
        for move in plan.rebalance.moves:
            owner = await cluster.owner(TopicName.parse(move.topic))
            assert owner is not None
            assert await cluster.id_of(owner) == move.target
        assert done.actual is not None
        assert done.actual.cv < 0.25
