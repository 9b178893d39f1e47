"""Weeks of simulated clusters, rebalanced by four policies, and the time that a large plan takes.

Each line is one policy: its mean imbalance, the moves that it made, and how many of them came back within the hour.
"""

import time
from collections.abc import Iterator

import numpy as np

from bench.balance_policies import POLICIES
from bench.balance_simulation import CORES, Size, simulate
from bench.result import Figure, median
from danube.loadmgr.cluster_state import Place, PlacedTopic
from danube.loadmgr.goal import Goal
from danube.loadmgr.load import Capacity, Demand
from danube.loadmgr.planner import RebalancePlan, plan

SIZES = (Size(brokers=10, topics=300), Size(brokers=100, topics=10_000))
QUICK = (Size(brokers=6, topics=60, days=0.5),)
PLAN = Size(brokers=100, topics=10_000)


def run(sizes: tuple[Size, ...] = SIZES) -> Iterator[Figure]:
    """Simulate, and plan."""
    for size in sizes:
        for policy in POLICIES:
            began_s = time.process_time()
            found = simulate(size, policy())
            where = f"{size.brokers} brokers, {size.topics} topics: {found.name}"
            per_day = found.moves / size.topics / size.days
            settled = "never" if found.settled_s is None else f"{found.settled_s / 3_600:.1f} h"
            note = (
                f"p95 {np.percentile(found.cvs, 95):.3f}, above 0.3 for {np.mean(np.array(found.cvs) > 0.3):.0%}"
                f" of the time, under it after {settled}; {found.moves} moves, {per_day:.4f} a topic and day,"
                f" {found.oscillations} oscillations, {found.clients} clients disturbed, {found.overloaded} overloads;"
                f" {time.process_time() - began_s:.0f} s of CPU"
            )
            yield Figure(where, 100 * float(np.mean(found.cvs)), "% mean CV", note)
    yield from plan_time()


def run_quick() -> Iterator[Figure]:
    """See that it works, in seconds."""
    yield from run(QUICK)


def plan_time(rounds: int = 3) -> Iterator[Figure]:
    """CPU time of one plan of the largest cluster, from a skewed start."""
    times: list[float] = []
    for seed in range(rounds):
        places, topics = skewed(PLAN, seed)
        began_s = time.process_time()
        found: RebalancePlan = plan(places, topics, Goal())
        times.append(time.process_time() - began_s)
    note = f"{len(found.moves)} moves, CV {found.before.cv:.2f} to {found.after.cv:.2f}"
    yield Figure(f"plan {PLAN.topics:,} topics on {PLAN.brokers} brokers", 1e3 * median(times), "ms of CPU", note)


def skewed(size: Size, seed: int) -> tuple[list[Place], list[PlacedTopic]]:
    """A cluster whose first brokers have most of the topics."""
    rng = np.random.default_rng(seed)
    places = [
        Place(broker_id=number, capacity=Capacity(cores=CORES), own=(0.05, 0.2, 0.0, 0.0))
        for number in range(size.brokers)
    ]
    cores = rng.lognormal(0, 1.3, size.topics)
    cores *= 0.3 * CORES * size.brokers / cores.sum()
    at = (size.brokers * rng.random(size.topics) ** 2).astype(int)
    topics = [
        PlacedTopic(
            demand=Demand(topic=f"/default/t{number}", cores=float(cores[number]), bytes_per_s=1e6 * cores[number]),
            broker_id=int(at[number]),
        )
        for number in range(size.topics)
    ]
    return places, topics
