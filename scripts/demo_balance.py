"""The last part of the demo: one of three brokers has all the load; an assistant plans, a person approves, and Spark
computes the lag of the whole cluster.
"""

import asyncio
import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

from mcp import Client

from danube.admin.bars import drawn_bar
from danube.client import DanubeClient, DanubeClientBuilder, DispatchStrategy, Producer
from danube.model.errors import DanubeError, UnavailableError
from danube.model.ownership import StorageMode
from danube.model.records.telemetry import TELEMETRY_TOPIC
from danube.model.topic import TopicName
from danube.testing.processes.broker_cluster import BrokerCluster
from lab.failover.administration import Administration, until
from scripts.demo_admin import PICTURES
from scripts.demo_faces import ADMIN, Faces, tell, tool
from scripts.demo_programs import DemoFailedError, Programs

_TOPICS = [TopicName("default", f"clicks{number:02}") for number in range(1, 10)]
_WEIGHTS = (9, 9, 6, 6, 4, 4, 2, 2, 1)
"""Messages of each topic at a beat."""
_BEAT_S = 0.05
_PAYLOAD = b"x" * 512
_SKEW_CV = 0.6
"""Above it the reports of all brokers tell that the first has the load."""
_LOOK_S = 0.5
_ANALYTICS = Path(sys.executable).parent / "danube-analytics"
_SPARK_S_MAX = 240.0
_READER = "billing"
"""A subscription of every topic that reads nothing."""
_BAR_CELLS = 30
_SETTINGS = {
    "assignment_strategy": "fair",
    "load_report_interval_s": "1",
    "rebalance_cool_down_s": "0",
    "rebalance_parallel_moves": "1",
    "lease_ttl_s": "20",
    "telemetry_interval_s": "1",
}
"""Brokers are compared by their topics, not by CPU, so that the plan is the same on every machine, however busy; and no
broker loses its topics because it stands still for some seconds.
"""

ASSISTANT = ("--toolsets", "default,balance", "--access", "write", "--approval", "move")


class BalanceStory:
    """Steps 11 to 14, each told and checked, on a cluster of their own."""

    def __init__(self, programs: Programs, folder: Path) -> None:
        self._programs = programs
        self._cluster = BrokerCluster(folder / "cluster", mode=StorageMode.SHARED_FS, settings=_SETTINGS)
        self._administration = Administration(self._cluster, StorageMode.SHARED_FS)
        self._acknowledged = {name: set[int]() for name in _TOPICS}
        self._names = dict[str, str]()
        """Of brokers by id: the addresses that clients use, as the faces name them."""

    async def tell(self) -> None:
        """Every step in order; the brokers are ended whatever happens. Raises DemoFailedError."""
        try:
            await self._start()
            urls = ",".join(broker.endpoints.service_url for broker in self._cluster.brokers)
            async with await DanubeClientBuilder().service_url(urls).build() as client:
                await self._under_load(client)
                await self._judge(client)
                await until(lambda: self._telemetry_tells(client))
            await self._compute_lag()
            await self._report()
        except (DanubeError, TimeoutError) as error:
            raise DemoFailedError(f"the balance: {str(error) or 'a step took too long'}") from error
        finally:
            self._cluster.kill()

    async def _start(self) -> None:
        for broker in self._cluster.brokers:
            broker.launch()
        tell(f"11/14 Three brokers are one cluster: {', '.join(f'pid {one.pid}' for one in self._cluster.brokers)}")
        for broker in self._cluster.brokers:
            try:
                await asyncio.to_thread(broker.wait)
            except UnavailableError as error:
                raise DemoFailedError(str(error)) from None
        await until(self._administration.is_whole)

    async def _under_load(self, client: DanubeClient) -> None:
        first, *others = self._cluster.brokers
        for broker in self._cluster.brokers:
            address = broker.endpoints.service_url.removeprefix("http://")
            self._names[str(await self._administration.id_of(broker))] = address
        ids = [await self._administration.id_of(broker) for broker in others]
        for broker_id in ids:
            await self._administration.apply(first, "unload_broker", broker_id=broker_id)
        load = [asyncio.ensure_future(self._publish(client, *each)) for each in zip(_TOPICS, _WEIGHTS, strict=True)]
        try:
            await until(self._all_publish)
            for broker_id in ids:
                await self._administration.apply(first, "activate_broker", broker_id=broker_id)
            tell(f"    {len(_TOPICS)} topics were made while two of them were drained: the first has all the load")
            await until(self._skew_is_known)
            await self._rebalance()
        finally:
            for task in load:
                task.cancel()
            ended = await asyncio.gather(*load, return_exceptions=True)
        if failed := [each for each in ended if not isinstance(each, asyncio.CancelledError)]:
            raise DemoFailedError(f"a producer failed: {failed[0]}")

    async def _rebalance(self) -> None:
        faces = Faces(self._programs, self._cluster.brokers[1].endpoints.admin_url)
        async with faces.assistant(*ASSISTANT) as assistant:
            before = await tool(assistant, "get_cluster_balance")
            _draw("before", before, self._names)
            planned = await tool(assistant, "trigger_rebalance")
            plan_id, moves = planned["plan"]["plan_id"], planned["plan"]["rebalance"]["moves"]
            tell(f"    trigger_rebalance: {planned['status']}; {len(moves)} moves, the first: {moves[0]['reason']}")
            refused = await assistant.call_tool("trigger_rebalance", {"plan_id": plan_id})
            if not refused.is_error:
                raise DemoFailedError("a rebalance began that nobody had approved")
            tell("12/14 Called again too early it is refused; a person approves, and it is applied under load")
            await faces.approve(plan_id)
            applied = await tool(assistant, "trigger_rebalance", plan_id=plan_id)
            done = await _over(assistant, plan_id)
            tell(f"    {applied['status']}: {done['moves_done']} of {done['moves_total']} moves are done")
            after = await tool(assistant, "get_cluster_balance")
            _draw("after", after, self._names)
        _check(before, done)

    async def _publish(self, client: DanubeClient, name: TopicName, weight: int) -> None:
        making = client.new_producer().with_topic(str(name)).with_name("clicks")
        producer = making.with_dispatch_strategy(DispatchStrategy.RELIABLE).build()
        await producer.create()
        reading = client.new_consumer().with_topic(str(name)).with_consumer_name("c").with_subscription(_READER)
        async with reading.build():
            pass
        number = 0
        while True:
            await asyncio.gather(*(self._send(producer, name, number + each) for each in range(weight)))
            number += weight
            await asyncio.sleep(_BEAT_S)

    async def _send(self, producer: Producer, name: TopicName, number: int) -> None:
        await producer.send(b"%d " % number + _PAYLOAD)
        self._acknowledged[name].add(number)

    async def _all_publish(self) -> bool:
        return all(self._acknowledged.values())

    async def _skew_is_known(self) -> bool:
        async with self._administration.gateway(self._cluster.brokers) as gateway:
            found = await gateway.cluster_balance()
        is_known = all(one.is_known for one in found.brokers)
        return is_known and found.figures.cv > _SKEW_CV

    async def _judge(self, client: DanubeClient) -> None:
        """Every acknowledged message is there."""
        for name, acknowledged in self._acknowledged.items():
            end = (await client.bounds(str(name))).end_offset
            async with aclosing(client.fetch(str(name), start=0, end=end)) as messages:
                held = {int(bytes(message.payload).split()[0]) async for message in messages}
            if missing := acknowledged - held:
                raise DemoFailedError(f"{name}: {len(missing):,} acknowledged messages are missing")
        tell(f"    {sum(map(len, self._acknowledged.values())):,} messages were acknowledged meanwhile: 0 lost")

    async def _telemetry_tells(self, client: DanubeClient) -> bool:
        """True once the brokers have published all of the lag that Spark is to find."""
        told: dict[str, int] = {}
        for part in await client.partitions(str(TELEMETRY_TOPIC)):
            async with aclosing(client.fetch(part)) as messages:
                async for message in messages:
                    record = json.loads(message.payload)
                    if record.get("subscription") == _READER and not record["gone"]:
                        told[record["topic"]] = max(record["lag_messages"], told.get(record["topic"], 0))
        return all(told.get(str(name), 0) >= len(numbers) for name, numbers in self._acknowledged.items())

    async def _compute_lag(self) -> None:
        tell("13/14 Spark computes the lag of the whole cluster from the telemetry of all three brokers")
        url = self._cluster.brokers[2].endpoints.service_url
        flags = ("--service-url", url, "--namespace", "default", "-q", "-o", "json")
        found = json.loads(
            await self._programs.run("danube-analytics", _ANALYTICS, "lag", *flags, timeout_s=_SPARK_S_MAX)
        )
        brokers = Counter(row["broker_id"] for row in found["partitions"])
        lags = {row["topic"]: row["lag_messages"] for row in found["groups"]}
        for broker, topics in sorted(brokers.items()):
            behind = sum(row["lag_messages"] for row in found["partitions"] if row["broker_id"] == broker)
            tell(f"    broker {self._names[broker]:<20} {topics} subscriptions, {behind:,} messages unread")
        short = [name for name, numbers in self._acknowledged.items() if lags.get(str(name), 0) < len(numbers)]
        if short or len(brokers) < len(self._cluster.brokers):
            raise DemoFailedError(f"Spark did not see all that is unread: {len(brokers)} brokers, not {short}")

    async def _report(self) -> None:
        page = PICTURES / "report.html"
        faces = Faces(self._programs, self._cluster.brokers[0].endpoints.admin_url)
        words = faces.where("analytics", "report", "lag", "--form", "html")
        page.write_bytes(await self._programs.run("report", ADMIN, *words))
        text = page.read_text(encoding="utf-8")
        if "<svg" not in text or f"{_TOPICS[0]} by {_READER}" not in text:
            raise DemoFailedError(f"{page} is no report of the lag of {_TOPICS[0]}")
        tell(f"14/14 The report of what Spark found, verdicts first: {page}")


async def _over(assistant: Client, plan_id: str) -> dict[str, Any]:
    """The rebalance of the plan, once it is over and measured."""
    while True:
        found = await tool(assistant, "list_rebalances")
        for one in found["rebalances"]:
            if one["plan_id"] == plan_id and one["ended_ms"] is not None:
                return dict(one)
        await asyncio.sleep(_LOOK_S)


def _check(before: dict[str, Any], done: dict[str, Any]) -> None:
    states = Counter(move["state"] for move in done["plan"]["moves"])
    if done["state"] != "done" or set(states) != {"done"}:
        raise DemoFailedError(f"the rebalance is {done['state']} ({done['reason']}): {dict(states)}")
    measured, was = done["actual_cv"], before["figures"]["cv"]
    if measured is None or measured > was / 2:
        raise DemoFailedError(f"the imbalance was {was:.2f} and is {measured} after the rebalance")
    tell(f"    measured after the last move: the imbalance fell from {was:.2f} to {measured:.2f}")


def _draw(when: str, balance: dict[str, Any], names: Mapping[str, str]) -> None:
    figures = balance["figures"]
    tell(f"    {when}: {figures['band']}, imbalance {figures['cv']:.2f}")
    brokers: Sequence[dict[str, Any]] = sorted(balance["brokers"], key=lambda one: -one["load"])
    for broker in brokers:
        bar = "".join(drawn_bar(broker["load"] / max(figures["highest"], 1.0), _BAR_CELLS))
        name = names[broker["broker_id"]]
        tell(f"      broker {name:<20} {bar} load {broker['load']:4.1f}, {broker['topic_count']} topics")
