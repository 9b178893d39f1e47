"""What a cluster of metadata stores is made to suffer follows from the seed, and ends."""

import asyncio
from pathlib import Path

import pytest

from danube.testing.patience import PATIENCE_S
from lab.metadata.clusters import RaftCluster
from lab.metadata.nemesis import OF_LINKS, Fault, FaultKind, Nemesis, planned
from tests.unit.lab.memory_cluster import MemoryCluster

SEEDS = range(50)


@pytest.fixture
async def memory() -> MemoryCluster:
    cluster = MemoryCluster()
    await cluster.start()
    return cluster


def fault(kind: FaultKind, node: int = 1) -> Fault:
    return Fault(kind, after_s=0.0, for_s=0.0, node=node, other=0, delay_s=0.0)


async def test_the_same_seed_gives_the_same_faults(memory: MemoryCluster) -> None:
    assert planned(7, memory, 5) == planned(7, memory, 5)
    assert planned(7, memory, 5) != planned(8, memory, 5)


async def test_a_cluster_suffers_only_what_it_can(memory: MemoryCluster) -> None:
    kinds = {one.kind for seed in SEEDS for together in planned(seed, memory, 3) for one in together}
    assert kinds == set(memory.faults())


def test_of_faults_that_come_together_one_is_of_links_and_one_is_not(tmp_path: Path) -> None:
    cluster = RaftCluster(tmp_path)
    plans = [together for seed in SEEDS for together in planned(seed, cluster, 3)]
    assert {kind for together in plans for kind in (one.kind for one in together)} == set(FaultKind)
    pairs = [together for together in plans if len(together) > 1]
    assert pairs
    assert all([one.kind in OF_LINKS for one in together] == [True, False] for together in pairs)


@pytest.mark.parametrize("kind", [FaultKind.KILL, FaultKind.KILL_ALL, FaultKind.PAUSE])
async def test_everything_runs_again_behind_a_fault(kind: FaultKind, memory: MemoryCluster) -> None:
    async with asyncio.timeout(PATIENCE_S):
        await Nemesis(memory, asyncio.Event()).strike(fault(kind))
        lives = [memory.life(member) for member in memory.members()]
        for life in lives:
            assert life is not None
            await life.store.put("/a", b"")


async def test_a_member_that_was_killed_has_a_new_life(memory: MemoryCluster) -> None:
    await Nemesis(memory, asyncio.Event()).strike(fault(FaultKind.KILL))
    names = [life.name for life in map(memory.life, memory.members()) if life is not None]
    assert names == ["0.0", "1.1", "2.0"]


async def test_no_fault_begins_once_the_round_is_to_end(memory: MemoryCluster) -> None:
    stop = asyncio.Event()
    stop.set()
    await Nemesis(memory, stop).strike(fault(FaultKind.KILL))
    life = memory.life(1)
    assert life is not None
    assert life.number == 0


def test_a_fault_says_in_a_few_words_what_it_was() -> None:
    assert [str(fault(kind)) for kind in FaultKind] == [
        "kill 1",
        "kill all",
        "pause 1",
        "cut 1-0",
        "isolate 1",
        "slow (0 ms)",
        "transfer",
    ]
