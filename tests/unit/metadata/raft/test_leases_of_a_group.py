"""Leases over Raft: a new leader prolongs them, and Raft's thread renews one whose event loop is late."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from danube.metadata.cluster.lease_keeper import LeaseKeeper
from danube.metadata.replication.sequencer import NotOrderedError
from danube.model.limits.metadata import LEASE_STALL_LEASES_MAX
from danube.runtime.clock import SystemClock
from danube.runtime.tasks import TaskScope
from danube.testing.patience import PATIENCE_S
from danube.testing.simulated.clock import SimClock
from tests.unit.metadata.raft.local import GroupStore, open_group

TTL_S = 10.0


async def until_leads(store: GroupStore, others_than: int) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while store.sequencer.status().leader_id in {0, others_than}:  # noqa: ASYNC110 - a status tells nobody
            await asyncio.sleep(0.01)


async def test_a_new_leader_prolongs_every_lease_and_takes_no_end_of_before(tmp_path: Path) -> None:
    clock = SimClock()
    store = await open_group(tmp_path, clock, 3)
    await store.put("/a", b"", lease_id=await store.grant_lease(TTL_S))
    before, led_by = store.sequencer.leadership, store.sequencer.status().leader_id
    clock.advance(TTL_S - 1.0)
    await store.sequencer.transfer()
    await until_leads(store, led_by)
    with pytest.raises(NotOrderedError):
        await store.sequencer.submit(b"an end of before", before)
    clock.advance(TTL_S - 1.0)
    assert await store.get("/a", linearizable=True) is not None
    await store.close()


async def test_a_lease_whose_event_loop_is_late_is_renewed_by_raft_s_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await open_group(tmp_path, SystemClock(), 1)

    async def never(_lease_id: int) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(store, "renew_lease", never)
    keeper, tasks = LeaseKeeper(store, SystemClock(), ttl_s=3.0), TaskScope("lease")
    store.renew_for(keeper.overdue, keeper.renewed)
    store.sequencer.renew_by(store.renewal)
    tasks.spawn(keeper.run(), "keep")
    async with asyncio.timeout(PATIENCE_S):
        while not keeper.lease_id:  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.01)
        until_s = keeper.held_until_s
        while keeper.held_until_s <= until_s:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.01)
    await tasks.close()
    await store.close()


@pytest.mark.parametrize(("busy_s", "is_renewed"), [(4.0, True), (LEASE_STALL_LEASES_MAX * TTL_S, False)])
async def test_a_loop_that_is_busy_for_four_seconds_is_slow_and_one_for_eight_is_not_renewed(
    tmp_path: Path, *, busy_s: float, is_renewed: bool
) -> None:
    clock: Any = SimClock()
    store = await open_group(tmp_path, SimClock(), 1)
    keeper, tasks = LeaseKeeper(store, clock, ttl_s=TTL_S), TaskScope("lease")
    granted = asyncio.Event()
    keeper.on_change(granted.set)
    tasks.spawn(keeper.run(), "keep")
    async with asyncio.timeout(PATIENCE_S):
        await granted.wait()
    clock._now_s = clock.monotonic_s() + busy_s  # time that passes while the loop runs nothing
    assert (keeper.overdue() is not None) is is_renewed
    assert keeper.overdue() is None, "the next one is due later"
    await tasks.close()
    await store.close()
