"""Load meter of one broker: smoothed rates of its topics, and the broker's own use of its machine."""

import asyncio
from dataclasses import dataclass

from danube.broker.balance.reporting.machine import Machine, MachineReading
from danube.broker.topics.local_topics import Topics
from danube.broker.topics.topic import AnyTopic, ReliableTopic
from danube.loadmgr.load import BrokerLoad, TopicLoad
from danube.loadmgr.smoothing import SmoothedRate
from danube.model.limits.balance import LOAD_HALF_LIFE_REPORTS, LOAD_SLICE_TOPICS, LOAD_TOPICS_MAX
from danube.model.records.telemetry import SYSTEM_NAMESPACE
from danube.runtime.blocking import BlockingRunner
from danube.runtime.clock import Clock
from danube.runtime.process import Process, ProcessUsage
from danube.storage.disk_space import SpaceLevel
from danube.storage.store import Storage

_DIGITS = 3


@dataclass(slots=True)
class _TopicMeter:
    messages: SmoothedRate
    bytes: SmoothedRate
    readings: int = 0


class LoadMeter:
    """Measures at each call of `measure`."""

    def __init__(
        self,
        topics: Topics,
        storage: Storage,
        *,
        broker_id: int,
        process: Process,
        machine: Machine,
        runner: BlockingRunner,
        clock: Clock,
        shares_disk: bool,
        interval_s: float,
    ) -> None:
        """`process` and `machine` are asked through `runner`. It measures every `interval_s`, roughly."""
        self._topics = topics
        self._storage = storage
        self._broker_id = broker_id
        self._process = process
        self._machine = machine
        self._runner = runner
        self._clock = clock
        self._shares_disk = shares_disk
        self._meters: dict[int, _TopicMeter] = {}
        """By topic id."""
        self._new = SmoothedRate(LOAD_HALF_LIFE_REPORTS * interval_s)
        self._rates = dict.fromkeys(("cpu", "io", "network", "m_in", "m_out", "b_in", "b_out"), self._new)
        self._counted = dict.fromkeys(("m_in", "m_out", "b_in", "b_out"), 0)
        self._before: dict[int, tuple[int, int, int, int]] = {}
        """Counters of each topic at the last reading, so that one that leaves takes nothing back."""

    async def measure(self) -> BrokerLoad:
        """The load now. The first call knows no rates yet."""
        usage, machine = await self._runner.run(self._read)
        at_s = self._clock.monotonic_s()
        loads = await self._topic_loads(at_s)
        for name, counter in {
            "cpu": usage.cpu_s,
            "io": float(machine.io_bytes),
            "network": float(machine.network_bytes),
            **self._counted,
        }.items():
            self._rates[name] = self._rates[name].read(float(counter), at_s)
        return self._report(usage, machine, loads)

    def _read(self) -> tuple[ProcessUsage, MachineReading]:
        return self._process.usage(), self._machine.reading()

    async def _topic_loads(self, at_s: float) -> list[TopicLoad]:
        found, seen = list[TopicLoad](), set[int]()
        for number, topic in enumerate(list(self._topics), 1):
            if number % LOAD_SLICE_TOPICS == 0:
                await asyncio.sleep(0)
            seen.add(topic.record.topic_id)
            load = self._read_topic(topic, at_s)
            if load is not None and topic.record.name.namespace != SYSTEM_NAMESPACE:
                found.append(load)
        for gone in self._meters.keys() - seen:
            del self._meters[gone]
            del self._before[gone]
        return found

    def _read_topic(self, topic: AnyTopic, at_s: float) -> TopicLoad | None:
        """Its load; None until there were two readings, between which there is a rate."""
        subscriptions = list(topic.subscriptions.values())
        now = (
            topic.messages_in,
            sum(each.counts.messages for each in subscriptions),
            topic.bytes_in,
            sum(each.counts.bytes for each in subscriptions),
        )
        topic_id = topic.record.topic_id
        for name, counter, before in zip(
            ("m_in", "m_out", "b_in", "b_out"), now, self._before.get(topic_id, now), strict=True
        ):
            self._counted[name] += max(0, counter - before)
        self._before[topic_id] = now
        meter = self._meters.setdefault(topic_id, _TopicMeter(self._new, self._new))
        meter.messages = meter.messages.read(float(now[0] + now[1]), at_s)
        meter.bytes = meter.bytes.read(float(now[2] + now[3]), at_s)
        meter.readings += 1
        if meter.readings < 2:
            return None
        return TopicLoad(
            topic=topic.name,
            messages_per_s=round(meter.messages.value, _DIGITS),
            bytes_per_s=round(meter.bytes.value, _DIGITS),
            producers=len(topic.producers),
            consumers=sum(each.connected() for each in subscriptions),
            backlog_messages=_backlog(topic),
            stored_bytes=topic.log.body_bytes if isinstance(topic, ReliableTopic) else 0,
        )

    def _report(self, usage: ProcessUsage, machine: MachineReading, loads: list[TopicLoad]) -> BrokerLoad:
        stats = self._storage.stats
        used = stats.segment_file_bytes + stats.journal.size_bytes
        rates = {name: round(rate.value, _DIGITS) for name, rate in self._rates.items()}
        memory = usage.rss_bytes / machine.memory_bytes if machine.memory_bytes else 0.0
        return BrokerLoad(
            broker_id=self._broker_id,
            measured_ms=self._clock.now_ms(),
            cores=machine.cores,
            cpu=round(min(1.0, rates["cpu"] / machine.cores), 4),
            memory=round(min(1.0, memory), 4),
            network_bytes_per_s=machine.network_bytes_per_s,
            disk_bytes=0 if self._shares_disk else used + (stats.free_bytes or 0),
            disk_used_bytes=0 if self._shares_disk else used,
            memory_bytes=machine.memory_bytes,
            disk_bytes_per_s=rates["io"],
            traffic_bytes_per_s=rates["network"],
            messages_in_per_s=rates["m_in"],
            messages_out_per_s=rates["m_out"],
            bytes_in_per_s=rates["b_in"],
            bytes_out_per_s=rates["b_out"],
            topic_count=len(loads),
            refuses=self._storage.refuses is not None or stats.space_level is not SpaceLevel.OK,
            topics=tuple(sorted(loads, key=lambda one: -one.cost)[:LOAD_TOPICS_MAX]),
        )


def _backlog(topic: AnyTopic) -> int:
    if not isinstance(topic, ReliableTopic):
        return 0
    return sum(each.driver.engine.lag for each in topic.subscriptions.values())
