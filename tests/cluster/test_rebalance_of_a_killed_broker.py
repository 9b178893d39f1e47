"""A broker that is killed while a rebalance runs: the plan tells what was done, the cluster heals, nothing is lost.

Brokers are compared by their topics here, so that the plan is the same on every machine, however busy.
"""

import asyncio

import pytest

from danube.loadmgr.score import Strategy
from danube.model.calls.balance import MoveState, RebalanceState
from danube.model.plans.plan import Effect, PlanApplication, PlanRequest
from danube.model.topic import TopicName
from lab.failover.administration import PERSON, Administration
from tests.cluster.seeing import until
from tests.cluster.test_rebalance_between_processes import TOPICS, Load, cluster, loaded, over, processes, skew_is_known

__all__ = ["cluster", "processes"]

pytestmark = [pytest.mark.cluster, pytest.mark.nightly, pytest.mark.timeout(600)]

WISH = PlanRequest(operation="trigger_rebalance", arguments={}, effect=Effect.MOVE, caller=PERSON, needs_approval=False)


@pytest.fixture(scope="module")
def strategy() -> Strategy:
    return Strategy.FAIR


@pytest.mark.parametrize("killed", ["a target", "the source"])
async def test_a_broker_that_is_killed_ends_the_rebalance_and_the_cluster_heals(
    cluster: Administration, killed: str
) -> None:
    async with loaded(cluster) as load:
        await skew_is_known(cluster)
        by_id = {await cluster.id_of(broker): broker for broker in cluster.processes.brokers}
        async with cluster.gateway(cluster.processes.brokers) as gateway:
            plan = await gateway.create_plan(WISH)
        assert plan.impact.rebalance is not None
        last = plan.impact.rebalance.moves[-1]
        victim = by_id[last.target if killed == "a target" else last.source]
        asked = next(broker for broker in cluster.processes.brokers if broker is not victim)
        victim.pause()  # so that it cannot be faster than the kill
        async with cluster.gateway([asked]) as gateway:
            await gateway.apply_plan(
                PlanApplication(plan_id=plan.plan_id, operation=WISH.operation, arguments={}, caller=WISH.caller)
            )
        await asyncio.to_thread(victim.kill)
        done = await over(cluster, asked, plan.plan_id)
        states = [move.state for move in done.preview.moves]
        assert done.state is RebalanceState.STOPPED
        assert not {MoveState.WAITING, MoveState.MOVING} & set(states)
        assert states.count(MoveState.FAILED) >= 1
        await asyncio.to_thread(victim.start)
        await until(cluster.is_whole)
        counts = {name: len(load.acknowledged[name]) for name in TOPICS}
        await until(lambda: have_grown(load, counts))


async def have_grown(load: Load, counts: dict[TopicName, int]) -> bool:
    return all(len(load.acknowledged[name]) > count for name, count in counts.items())
