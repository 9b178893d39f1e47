"""Judgement of a simulated cluster whose faults have ended: every topic is served, by one broker, with all it had."""

import asyncio

from danube.broker.topics.topic import ReliableTopic
from danube.metadata.records import keys
from danube.metadata.records.record_format import decode_topic_storage
from danube.model.errors import DanubeError
from danube.model.ownership import StorageMode
from danube.storage.batches.batch import records
from danube.storage.log.topic_log import TopicLog
from danube.storage.settings import StorageSettings
from danube.wire.decode import received_message
from lab.cluster.history import History, Topic
from lab.cluster.machine import MachineLoop
from lab.cluster.world import BROKERS, World
from lab.kernel.chance import seeded

BOUND_S = 90
"""After the last fault every topic is served again by then: leases and pauses end, and what failed is tried again."""
_MORE = 2  # messages of each producer once everything is well
_END_STEPS_MAX = 200


async def judge(world: World) -> None:
    """End the faults, and look at what is there; one broker may stay away for a while."""
    await world.calm()
    absent = world.chance.choice([*BROKERS, 0, 0, 0])
    if absent in world.brokers:
        world.kill(absent)
    await _all_served(world, absent)
    if absent:
        await _all_served(world, 0)
    wanted = {producer: producer.acknowledged + _MORE for producer in world.producers}
    for _ in range(BOUND_S):
        if any(producer.acknowledged < count for producer, count in wanted.items()):
            await world.pass_time(1.0)
    for producer, count in wanted.items():
        if producer.acknowledged < count:
            world.history.wrong(f"stuck: nothing is acknowledged of {producer.topic.name}")
    await _all_served(world, 0)
    for topic in world.topics:
        await _check(world, topic)


async def _all_served(world: World, absent: int) -> None:
    for _ in range(BOUND_S):
        world.start_all(absent)
        await world.pass_time(1.0)
        left = [topic for topic in world.topics if not _is_well(world, topic, absent)]
        if not left:
            return
    for topic in left:
        owner = _owner_of(world, topic)
        world.history.wrong(f"stuck: {topic.name} of broker {owner} is served by {_servers(world, topic)}")


def _is_well(world: World, topic: Topic, absent: int) -> bool:
    owner, servers = _owner_of(world, topic), _servers(world, topic)
    waits = absent and topic.is_reliable and world.mode is StorageMode.LOCAL and owner == absent
    return servers == ([] if waits else [owner])


def _servers(world: World, topic: Topic) -> list[int]:
    return sorted(number for number, broker in world.brokers.items() if broker.find(topic.name) is not None)


def _owner_of(world: World, topic: Topic) -> int:
    entry = world.sequence.state.entry(keys.stored_topic(topic.topic_id))
    return decode_topic_storage(entry).owner if entry is not None else 0


async def _check(world: World, topic: Topic) -> None:
    """All that was told of a topic is there, without a gap and in order."""
    if topic.in_order != sorted(topic.in_order):
        world.history.wrong(f"{topic.name}: a producer's messages are out of order: {topic.in_order}")
    for broker in [world.brokers[number] for number in _servers(world, topic)[:1]]:
        served = broker.find(topic.name)
        if isinstance(served, ReliableTopic):
            try:
                async with asyncio.timeout(BOUND_S):
                    found = await broker.machine.spawn(read_all(served.log))
            except (DanubeError, TimeoutError) as error:
                world.history.wrong(f"{topic.name} cannot be read at broker {broker.number}: {error!r}")
                return
            lost = {offset: text for offset, text in topic.told.items() if found.get(offset) != text}
            if lost or [*found] != [*range(len(found))]:
                world.history.wrong(f"{topic.name}: of {len(found)} offsets are lost, changed or not in order: {lost}")


async def read_all(log: TopicLog) -> dict[int, str]:
    """Every record of a log, by its offset."""
    found: dict[int, str] = {}
    at = log.start_offset
    while batches := await log.read(at, 10_000):
        for batch in batches:
            for offset, record in enumerate(records(batch.body, 0, batch.count), batch.base_offset):
                found[offset] = bytes(received_message(bytes(record)).payload).partition(b" ")[0].decode()
        at = batches[-1].end_offset
    return found


def simulate(seed: int, settings: StorageSettings) -> History:
    """One run, judged."""
    with asyncio.Runner(loop_factory=MachineLoop) as runner:
        return runner.run(_simulate(seed, settings))


async def _simulate(seed: int, settings: StorageSettings) -> History:
    world = World(seeded(seed), settings)
    world.note(f"storage mode {world.mode}")
    try:
        await world.begin()
        await world.run()
        await judge(world)
    finally:
        await _end(world)
    return world.history


async def _end(world: World) -> None:
    """Have everything end that is left of dead and living brokers; nothing that it does counts."""
    world.history.is_over = True
    for machine in world.machines:
        machine.disk.process_kill()
        machine.resume()
    for _ in range(_END_STEPS_MAX):
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        if not left:
            return
        await asyncio.sleep(0)  # no time passes, so no timer begins anything anew
    raise RuntimeError(f"tasks of dead brokers do not end: {left}")
