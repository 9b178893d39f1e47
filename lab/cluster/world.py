"""A simulated cluster and its course: brokers that die, sleep, are cut off, and have to give their topics away."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable
from functools import partial

from danube.broker.topics.topic import ReliableTopic
from danube.metadata.records import keys
from danube.metadata.records.cluster import BrokerDrain, encode_drain
from danube.metadata.records.record_format import decode_topic
from danube.model.errors import DamagedDataError, DanubeError, DataFolderError
from danube.model.ownership import StorageMode
from danube.model.topic import DispatchStrategy, TopicName
from danube.storage.settings import StorageSettings
from danube.testing.simulated.disk import SimDisk
from lab.cluster.broker import SimBroker, Surroundings
from lab.cluster.clients import Consumer, Producer
from lab.cluster.history import Topic
from lab.cluster.machine import QUICK_S, Machine
from lab.kernel.chance import weighted
from lab.kernel.time import loop_s

BROKERS = (1, 2, 3)
STEPS = 80
_TOPICS = 3
_STARTS_MAX = 60  # attempts to make a topic
_STOP_S = 30.0  # a broker that was asked to stop is killed after so long
_TICK_S = 0.25


class World(Surroundings):
    """Parts that outlive the brokers, and the brokers of the moment."""

    def __init__(self, chance: random.Random, settings: StorageSettings) -> None:
        super().__init__(chance, settings)
        self.machines: list[Machine] = []
        """Machines of all lives."""
        self._shared = SimDisk(chance.getrandbits(32))
        self._disks = {number: SimDisk(chance.getrandbits(32)) for number in BROKERS}
        self._stop_by_s: dict[int, float] = {}
        self.topics = [
            Topic(TopicName("default", f"t{number}"), is_reliable=number > 0) for number in range(_TOPICS + 1)
        ]
        self.producers = [Producer(topic, self.history, chance) for topic in self.topics]
        self._consumers = [Consumer(topic, self.history, chance) for topic in self.topics if topic.is_reliable]

    # Lives of brokers

    def start(self, number: int) -> None:
        disk = self._shared.join() if self.mode is StorageMode.SHARED_FS else self._disks[number]
        machine = Machine(number, disk, self.chance, lambda error: self.history.wrong(f"broker {number}: {error!r}"))
        self.machines.append(machine)
        self._stop_by_s.pop(number, None)
        self.dark.discard(number)
        broker = self.brokers[number] = SimBroker(self, machine)
        self.note(f"broker {number} starts")
        machine.spawn(self._started(broker))

    def start_all(self, absent: int = 0) -> None:
        """Start brokers that do not run, but for this one."""
        for number in BROKERS:
            if number not in self.brokers and number != absent:
                self.start(number)

    def kill(self, number: int, *, loses_power: bool = False) -> None:
        """End a broker. A shared folder has its power from elsewhere."""
        is_local = self.mode is StorageMode.LOCAL
        left = self.brokers.pop(number).machine.kill(loses_power=loses_power and is_local)
        if is_local:
            self._disks[number] = left
        if loses_power:
            self.dark.add(number)
        self.note(f"broker {number} is {'without power' if loses_power else 'killed'}")

    def lose_power(self) -> None:
        """End all brokers, and have the shared folder lose its power, too."""
        for number in [*self.brokers]:
            self.kill(number, loses_power=True)
        self._shared = self._shared.power_cut()

    def stop(self, broker: SimBroker) -> None:
        """Have a broker stop as an administrator asks it to, and start again."""
        if broker.serving is not None and not broker.is_ending:
            self.note(f"broker {broker.number} stops{', it is fenced' if broker.fenced.is_set() else ''}")
            broker.is_ending = True
            self._stop_by_s[broker.number] = loop_s() + _STOP_S
            broker.machine.spawn(self._stopped(broker))

    async def _started(self, broker: SimBroker) -> None:
        try:
            await broker.start()
        except DanubeError as error:
            if isinstance(error, DamagedDataError | DataFolderError):
                self.history.wrong(f"broker {broker.number} cannot start: {error}")
            self.note(f"broker {broker.number} does not start: {error!r}"[:200])
            self.kill(broker.number)

    async def _stopped(self, broker: SimBroker) -> None:
        await broker.stop()
        self._stop_by_s[broker.number] = 0.0

    # Time

    async def pass_time(self, seconds: float) -> None:
        """Let clients go on, and brokers that have to start again do so."""
        for _ in range(round(seconds / _TICK_S)):
            for number, stop_by_s in [*self._stop_by_s.items()]:
                if loop_s() >= stop_by_s and number in self.brokers:
                    self.kill(number)
                    self.start(number)
            for broker in [*self.brokers.values()]:
                if broker.fenced.is_set():
                    self.stop(broker)
                self._look_at(broker)
            for producer in self.producers:
                for broker in self._one_of(one for one in self.brokers.values() if one.find(producer.topic.name)):
                    producer.send(broker)
            for consumer in self._consumers:
                for broker in self._one_of(one for one in self.brokers.values() if one.find(consumer.topic.name)):
                    consumer.receive(broker)
            await asyncio.sleep(_TICK_S)

    def _look_at(self, broker: SimBroker) -> None:
        """Note positions that are durable by now."""
        for topic in [one for one in broker.serving.topics if isinstance(one, ReliableTopic)] if broker.serving else ():
            if topic.is_lost:
                self.history.wrong(f"broker {broker.number} cannot read {topic.name}")
                continue
            for subscription in topic.subscriptions.values():
                if (cursor := topic.log.cursor(subscription.record.subscription_id)) is not None:
                    broker.note_position(topic, cursor.position)

    def _one_of(self, brokers: Iterable[SimBroker]) -> list[SimBroker]:
        found = [*brokers]
        return self.chance.sample(found, k=min(1, len(found)))

    # Course

    async def begin(self) -> None:
        """Start the brokers, and make the topics."""
        for topic in [one for one in self.topics for _ in range(_STARTS_MAX)]:
            if not topic.topic_id:
                self.start_all()
                self._ask(lambda broker, topic=topic: self._create(broker, topic))  # type: ignore[misc]
                await self.pass_time(1.0)
                entry = self.sequence.state.entry(keys.topic(topic.name))
                topic.topic_id = decode_topic(entry).topic_id if entry is not None else 0

    async def run(self) -> None:
        """Let things happen."""
        actions: dict[Callable[[], object], float] = {
            lambda: None: 6,
            self._assign: 7,
            self._drain: 1,
            lambda: self._activate(self.chance.choice(BROKERS)): 1.5,
            lambda: self._end_one(loses_power=False): 0.5,
            lambda: self._end_one(loses_power=True): 0.5,
            self._start_one: 4,
            lambda: [*map(self.stop, self._serving())]: 0.7,
            self._pause: 1.2,
            self._resume: 2,
            self._cut: 1,
            lambda: [*map(self._mend, self._serving())]: 2,
            self._slow: 1,
            self._deny: 0.5,
            self.lose_power: 0.2,
        }
        for _ in range(STEPS):
            weighted(self.chance, actions)()
            await self.pass_time(self.chance.choice([0.25, 0.5, 1.0, 2.0]))

    async def calm(self) -> None:
        """End all faults, and all drains but one: where all brokers are drained, none takes topics."""
        self.note("faults end")
        self.trouble.end()
        for broker in self.brokers.values():
            self._mend(broker)
            if not broker.machine.runs:
                broker.machine.resume()
        await self.pass_time(1.0)
        for _ in range(_STARTS_MAX):
            if any(broker.serving is not None and not broker.is_ending for broker in self.brokers.values()):
                break
            self.start_all()  # somebody has to be asked
            await self.pass_time(1.0)
        for number in self.chance.sample(BROKERS, k=len(BROKERS) - 1):
            self._activate(number)
        await self.pass_time(1.0)

    def note(self, what: str) -> None:
        self.history.happened.append(f"{loop_s():.2f} {what}")

    def _serving(self) -> list[SimBroker]:
        """One that serves, if there is one."""
        return self._one_of(one for one in self.brokers.values() if one.serving is not None and not one.is_ending)

    def _ask(self, work: Callable[[SimBroker], Awaitable[object]]) -> None:
        """Have some broker try to do something."""
        for broker in self._serving():
            broker.machine.spawn(_tried(partial(work, broker)))

    def _assign(self) -> None:
        topic, target = self.chance.choice(self.topics), self.chance.choice([*self.brokers, *self.brokers, *BROKERS])

        async def assign(broker: SimBroker) -> None:
            record = await broker.records.topic(topic.name)
            if record is not None:
                await broker.records.assign([(record, target)])

        self.note(f"{topic.name} is to go to broker {target}")
        self._ask(assign)

    def _drain(self) -> None:
        drain = BrokerDrain(broker_id=self.chance.choice(BROKERS), parallel_moves=self.chance.randint(1, 3))
        self.note(f"broker {drain.broker_id} is drained")
        self._ask(lambda broker: broker.store.put(keys.drained_broker(drain.broker_id), encode_drain(drain)))

    def _activate(self, number: int) -> None:
        self._ask(lambda broker: broker.store.delete(keys.drained_broker(number)))

    def _end_one(self, *, loses_power: bool) -> None:
        for broker in self._one_of(self.brokers.values()):
            self.kill(broker.number, loses_power=loses_power)

    def _start_one(self) -> None:
        for number in [number for number in BROKERS if number not in self.brokers][:1]:
            self.start(number)

    def _pause(self) -> None:
        for broker in self._serving():
            self.note(f"broker {broker.number} sleeps")
            broker.machine.runs = False

    def _resume(self) -> None:
        for broker in self._one_of(one for one in self.brokers.values() if not one.machine.runs):
            self.note(f"broker {broker.number} wakes")
            broker.machine.resume()

    def _cut(self) -> None:
        for broker in self._serving():
            broker.line.sends, broker.line.hears = self.chance.choice([(False, False), (False, True), (True, False)])
            broker.hears_others, broker.is_heard = self.chance.choice([(True, True), (False, True), (True, False)])
            lines = broker.line.sends, broker.line.hears, broker.hears_others, broker.is_heard
            self.note(f"broker {broker.number} is cut off: {lines}")

    def _slow(self) -> None:
        for broker in self._serving():
            broker.machine.disk_s = self.chance.choice([QUICK_S, 0.2, 1.0])

    def _deny(self) -> None:
        for broker in self._serving():
            broker.denies = True
            self.note(f"connections with broker {broker.number} are denied")

    def _mend(self, broker: SimBroker) -> None:
        broker.line.mend()
        broker.hears_others = broker.is_heard = True
        broker.denies = False
        broker.machine.disk_s = QUICK_S

    async def _create(self, broker: SimBroker, topic: Topic) -> None:
        strategy = DispatchStrategy.RELIABLE if topic.is_reliable else DispatchStrategy.NON_RELIABLE
        if broker.serving is not None:
            await broker.serving.topics.create(topic.name, strategy, None)


async def _tried(work: Callable[[], Awaitable[object]]) -> None:
    try:
        await work()
    except DanubeError:
        return
