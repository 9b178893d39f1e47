"""Progress notifications of a rebalance that is followed: each is above the one before, also while nothing moves."""

import asyncio
import itertools
from dataclasses import replace

import pytest

from danube.admin.access import ApprovalMode
from danube.model.calls.balance import Rebalance, RebalanceState
from danube.runtime.clock import SystemClock
from tests.faces import memory_balance
from tests.faces.memory_gateway import MemoryGateway
from tests.faces.seeded import seeded_gateway
from tests.faces.skewed import skewed_balance, skewed_preview
from tests.unit.admin.mcp.hosts import ERAS, host

LOOKS = 60
"""Looks at a rebalance that settles."""


class QuickClock(SystemClock):
    """Sleeps take no time, and the clock says that they did."""

    def __init__(self) -> None:
        super().__init__()
        self._slept_s = 0.0

    def monotonic_s(self) -> float:
        return super().monotonic_s() + self._slept_s

    async def sleep_until(self, when_s: float) -> None:
        self._slept_s += max(0.0, when_s - self.monotonic_s())
        await asyncio.sleep(0)


def settling(gateway: MemoryGateway, looks: "itertools.count[int]") -> list[Rebalance]:
    """The rebalances at one more look: a move each, then a long wait for reports, then the end."""
    cluster, look = gateway.cluster, next(looks)
    moves = len(cluster.rebalances[0].preview.moves)
    if look < moves:
        memory_balance.step(cluster, gateway.clock.now_ms())
    if look < moves + LOOKS:
        return [
            replace(cluster.rebalances[0], state=RebalanceState.SETTLING if look >= moves else RebalanceState.RUNNING)
        ]
    return [cluster.rebalances[0]]


@pytest.mark.parametrize("era", ERAS)
async def test_progress_increases_with_each_notification_and_says_that_the_load_settles(
    era: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway, looks = seeded_gateway(QuickClock()), itertools.count()
    gateway.cluster.balance, gateway.cluster.preview = skewed_balance(), skewed_preview()

    async def rebalances(plan_id: str = "") -> list[Rebalance]:
        asked.add(plan_id)
        return settling(gateway, looks)

    asked = set[str]()
    monkeypatch.setattr(gateway, "rebalances", rebalances)
    told: list[tuple[float, float | None, str | None]] = []

    async def heard(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total, message))

    async with host(gateway, era, approval=ApprovalMode.NONE) as client:
        planned = await client.call_tool("trigger_rebalance", {})
        assert planned.structured_content is not None
        plan_id = planned.structured_content["plan"]["plan_id"]
        done = await client.call_tool("trigger_rebalance", {"plan_id": plan_id}, progress_callback=heard)
    assert not done.is_error
    assert asked == {plan_id}  # its own progress, not all history
    values = [progress for progress, _, _ in told]
    assert len(values) > LOOKS
    assert all(before < after for before, after in itertools.pairwise(values))
    moves = len(skewed_preview().moves)
    assert {total for _, total, _ in told} == {moves + 1}
    assert values[-1] >= moves + 1
    assert f"settling: {moves} of {moves} moves are done; the load is measured anew" in {text for _, _, text in told}
