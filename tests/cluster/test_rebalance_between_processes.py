"""Rebalances of real brokers under a skewed load: the plan is what happens, nothing is lost."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest

from danube.client import DanubeClient, DanubeClientBuilder, DispatchStrategy, Producer
from danube.loadmgr.score import Strategy
from danube.model.calls.admin import DescribeTopics
from danube.model.calls.balance import MoveState, Rebalance, RebalanceState
from danube.model.exit_codes import ExitCode
from danube.model.limits.balance import BALANCE_IDLE_SCORE
from danube.model.ownership import StorageMode
from danube.model.topic import TopicName
from danube.testing.patience import LONG_S
from danube.testing.processes.broker import BrokerProcess
from danube.testing.processes.broker_cluster import BrokerCluster
from lab.failover.administration import Administration
from tests.cluster.seeing import until
from tests.faces.faces import run

pytestmark = [pytest.mark.cluster, pytest.mark.nightly, pytest.mark.timeout(600)]

TOPICS = [TopicName("default", f"t{number:02}") for number in range(12)]
WEIGHTS = (12, 12, 9, 9, 6, 6, 4, 4, 2, 2, 1, 1)
"""Messages of each topic at a beat, one after the other: several at once would be one batch, and little work."""
BEAT_S = 0.2
STEADY_S = 12.0
"""Three half-lives of a report's averages."""
LOOK_S = 1.0
"""Between two looks: each is work of the brokers that are measured."""
LEASE_TTL_S = "20"
"""Long, as a broker on a busy machine may stand still for some seconds; then it would lose its topics to others."""
PAYLOAD = b"x" * 512


@pytest.fixture(scope="module")
def strategy() -> Strategy:
    """The rule by which brokers are compared."""
    return Strategy.BALANCED


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory, strategy: Strategy) -> Iterator[BrokerCluster]:
    settings = {"load_report_interval_s": "2", "rebalance_cool_down_s": "0", "rebalance_parallel_moves": "1"}
    folder, mode = tmp_path_factory.mktemp("rebalance"), StorageMode.SHARED_FS
    settings |= {"assignment_strategy": strategy, "lease_ttl_s": LEASE_TTL_S}
    with BrokerCluster(folder, mode=mode, settings=settings) as running:
        yield running


@pytest.fixture
async def cluster(processes: BrokerCluster) -> Administration:
    """Three brokers that run."""
    found = Administration(processes, StorageMode.SHARED_FS)
    await until(found.is_whole)
    return found


class Load:
    """Producers of all topics, each at its own pace whatever the brokers do, and what was acknowledged."""

    def __init__(self, client: DanubeClient) -> None:
        self.client = client
        self.acknowledged = {name: set[int]() for name in TOPICS}

    async def publish(self, name: TopicName, weight: int) -> None:
        making = self.client.new_producer().with_topic(str(name)).with_name("p")
        producer = making.with_dispatch_strategy(DispatchStrategy.RELIABLE).build()
        await producer.create()
        number = max(self.acknowledged[name], default=-1) + 1
        loop = asyncio.get_running_loop()
        beat_s = loop.time()
        while True:
            await self._send(producer, name, number)
            number += 1
            beat_s = max(beat_s + BEAT_S / weight, loop.time())  # one that took longer is not caught up with
            await asyncio.sleep(beat_s - loop.time())

    async def _send(self, producer: Producer, name: TopicName, number: int) -> None:
        await producer.send(b"%d " % number + PAYLOAD)
        self.acknowledged[name].add(number)

    async def judge(self) -> None:
        """Every acknowledged message is there."""
        for name in TOPICS:
            end = (await self.client.bounds(str(name))).end_offset
            async with aclosing(self.client.fetch(str(name), start=0, end=end)) as messages:
                held = {int(bytes(message.payload).split()[0]) async for message in messages}
            assert self.acknowledged[name] - held == set(), name


@asynccontextmanager
async def loaded(cluster: Administration) -> AsyncIterator[Load]:
    """All topics on the first broker, with producers; afterwards nothing was lost."""
    first, *others = cluster.processes.brokers
    for broker in others:
        await until(lambda broker=broker: applied(cluster, "unload_broker", broker))  # type: ignore[misc]
    urls = ",".join(broker.endpoints.service_url for broker in cluster.processes.brokers)
    async with await DanubeClientBuilder().service_url(urls).build() as client:
        load = Load(client)
        tasks = [asyncio.ensure_future(load.publish(*each)) for each in zip(TOPICS, WEIGHTS, strict=True)]
        try:
            for name in TOPICS:
                await until(lambda name=name: is_on(cluster, name, first))  # type: ignore[misc]
            for broker in others:
                await until(lambda broker=broker: applied(cluster, "activate_broker", broker))  # type: ignore[misc]
            yield load
        finally:
            for task in tasks:
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert [each for each in ended if not isinstance(each, asyncio.CancelledError)] == []
        await load.judge()


async def applied(cluster: Administration, operation: str, broker: BrokerProcess) -> bool:
    """Plan and apply; refused while topics still move from an earlier test, and asked for again then."""
    await cluster.apply(cluster.processes.brokers[0], operation, broker_id=await cluster.id_of(broker))
    return True


async def is_on(cluster: Administration, name: TopicName, broker: BrokerProcess) -> bool:
    return await cluster.owner(name) is broker


async def skew_is_known(cluster: Administration) -> None:
    """Return when the reports of all brokers tell that the first has the load, and have for a while.

    Reports are averages with a half-life: what the start and the moves before cost has to be gone from them.
    """
    looks: list[tuple[float, float]] = []

    async def is_known() -> bool:
        async with cluster.gateway(cluster.processes.brokers) as gateway:
            found = await gateway.cluster_balance()
        now_s, highest, lowest = time.monotonic(), found.figures.highest, found.figures.lowest
        is_loaded = highest > BALANCE_IDLE_SCORE + 1 and found.figures.cv > 0.6
        if not is_loaded or not all(one.is_known for one in found.brokers):
            looks.clear()
            return False
        looks.append((now_s, highest - lowest))
        steady = [spread for at_s, spread in looks if at_s >= now_s - STEADY_S]
        return now_s - looks[0][0] > STEADY_S and max(steady) < 1.1 * min(steady)

    await until(is_known, within_s=LONG_S, every_s=LOOK_S)


async def over(cluster: Administration, asked: BrokerProcess, plan_id: str) -> Rebalance:
    """The rebalance of a plan, once it is over."""
    found: list[Rebalance] = []

    async def is_over() -> bool:
        async with cluster.gateway([asked]) as gateway:
            found[:] = await gateway.rebalances(plan_id)
        return bool(found) and found[0].state.is_over

    await until(is_over, within_s=LONG_S, every_s=LOOK_S)
    return found[0]


async def typed(cluster: Administration, *words: str) -> Any:
    """The answer of `danube-admin`, as JSON."""
    endpoint = cluster.processes.brokers[1].endpoints.admin_url
    code, out, error = await run([*words, "--endpoint", endpoint, "-o", "json"])
    assert code in {ExitCode.OK, ExitCode.NEEDS_YES}, error
    return json.loads(out)


async def test_a_skewed_load_is_spread_by_the_command_exactly_as_planned(cluster: Administration) -> None:
    async with loaded(cluster):
        await skew_is_known(cluster)
        plan = (await typed(cluster, "brokers", "rebalance"))["plan"]
        planned = plan["rebalance"]
        applied = await typed(cluster, "brokers", "rebalance", "--plan-id", plan["plan_id"])
        assert applied["status"] == "applied"
        done = await over(cluster, cluster.processes.brokers[0], plan["plan_id"])
        assert (done.state, {move.state for move in done.preview.moves}) == (RebalanceState.DONE, {MoveState.DONE})
        assert [(move.topic, move.source, move.target) for move in done.preview.moves] == [
            (move["topic"], move["source"], move["target"]) for move in planned["moves"]
        ]
        by_id = {await cluster.id_of(broker): broker for broker in cluster.processes.brokers}
        for move in done.preview.moves:
            assert await cluster.owner(TopicName.parse(move.topic)) is by_id[move.target]
        async with cluster.gateway(cluster.processes.brokers[:1]) as gateway:
            page = await gateway.describe_topics(DescribeTopics(namespace="default", page_size=100))
        assert {topic.topic for topic in page.topics} == set(TOPICS)
        assert {topic.broker_id for topic in page.topics} == set(by_id)
        assert planned["before"]["cv"] > 0.5
        assert planned["after"]["cv"] < 0.2
        assert done.actual is not None
        assert done.actual.cv < 0.25
