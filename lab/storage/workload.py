"""Steps of a storage simulation: producers, consumers, readers, administrators, and the broker's own upkeep."""

import asyncio
from collections.abc import Callable

from danube.model.limits.broker import FLUSH_DELAY_S, FLUSH_WAIT_S
from danube.storage.segment.manifest import folder_of, manifest_name, segment_name
from lab.kernel.chance import weighted
from lab.kernel.history import Failed
from lab.storage.clients import ServedSubscription, SimConsumer
from lab.storage.life import ServedTopic, StorageLife
from lab.storage.world import World

_FLUSHES_MAX = 20  # passes that a small journal needs at most


def rotate(life: StorageLife, _: World) -> None:
    """Have the journal go on in a new file."""
    life.spawn(life.storage.journal.rotate, "rotate")  # otherwise only age does it


def flush(life: StorageLife, _: World) -> None:
    """Flush closed journal files into segments."""
    life.spawn(life.storage.flush, "flush")


def retain(life: StorageLife, world: World) -> None:
    """Have topics let go of what they need not keep."""
    unread = {topic.plan.topic_id: topic for topic in life.topics}
    life.spawn(
        lambda: life.storage.retain(
            lambda topic_id: world.topics[topic_id].retention,
            lambda topic_id: unread[topic_id].oldest_unread if topic_id in unread else 0,
        ),
        "retain",
    )


def sweep(life: StorageLife, _: World) -> None:
    """Have the files of deleted topics removed."""
    life.spawn(life.storage.sweep_deleted, "sweep")


async def check_upkeep(life: StorageLife, world: World) -> None:
    """Without faults everything can be flushed and swept; note what is left over then."""
    storage = life.storage
    _check_background(life)
    await storage.journal.rotate()  # otherwise only age does it
    for _ in range(_FLUSHES_MAX):
        if not storage.journal.closed_files():  # what is left is what is judged
            break
        await storage.flush()
    else:
        life.note(Failed("", "closed journal files are never gone"))
    await storage.sweep_deleted()
    await storage.sweep_orphans()
    if storage.stats.quarantined_topics:
        life.note(Failed("", f"{storage.stats.quarantined_topics} topics cannot be flushed"))
    _check_files(life, world)


def _check_background(life: StorageLife) -> None:
    running = {task.get_name() for task in asyncio.all_tasks()}
    for name in ("storage/space", "storage/flush"):
        if name not in running:
            life.note(Failed("", f"the task {name} has ended"))


def _check_files(life: StorageLife, world: World) -> None:
    """Nothing is on the disk that nobody needs."""
    needed = {"lock"}
    for history in life.storage.topics.histories:  # what is kept of each topic is what is judged
        manifest = history.manifest
        needed.add(manifest_name(manifest.topic_id, manifest.version))
        needed.update(segment_name(manifest.topic_id, segment) for segment in manifest.segments)
    found = {name for name in life.disk.contents() if not name.startswith("journal/")}
    if found != needed:
        left, gone = sorted(found - needed), sorted(needed - found)
        life.note(Failed("", f"files that nobody needs: {left}; files that are missing: {gone}"))
    for plan in world.topics.values():
        if plan.deleted and life.disk.exists(folder_of(plan.topic_id)):
            life.note(Failed(plan.name, "the folder of a deleted topic is still there"))


_DRAIN_STEPS_MAX = 400  # seconds; the longest back-off is 60
_READ_STEPS_MAX = 200
_ALL = range(2**63)
_CLOCK_OFF, _CLOCK_SET_RIGHT = 0.02, 0.1  # of the steps
_YEAR_S, _DAYS_S = 365 * 86_400.0, 3 * 86_400.0
_FLUSHED_S = FLUSH_WAIT_S + FLUSH_DELAY_S + 10.0


async def take_step(life: StorageLife, world: World) -> None:
    """Do one thing, and let some time pass."""
    if world.chance.random() < _RARE:
        await _replace_topic(life, world)
    elif life.topics:
        weighted(world.chance, _STEPS)(life, world)
    _lose_the_time(life, world)
    if world.chance.random() < 0.7:
        passing_s = world.chance.choices([0.002, 0.02, 0.3, 40.0], [40, 40, 18, 2])[0]
        await life.clock.run_for(world.chance.uniform(0.0, passing_s))


async def drain(life: StorageLife, world: World) -> None:
    """Send a last message to every topic, acknowledge until nothing is left, and note what does not come to an end."""
    life.subscribe_due(all_of_them=True)
    if len(life.topics) < len(world.titles):
        life.note(Failed("", f"{len(world.titles) - len(life.topics)} topics are not served"))
    for topic in life.topics:
        life.send(topic, topic.plan.producers[0], 0)
    for _ in range(_DRAIN_STEPS_MAX):
        await life.clock.run_for(1.0)
        for served in life.subscriptions:
            _answer_all(life, served)
        if not life.unanswered and all(served.is_done for served in life.subscriptions):
            break
    else:
        lag = {served.plan.name: served.driver.engine.lag for served in life.subscriptions}
        life.note(Failed("", f"{life.unanswered} appends are never answered, or messages never delivered: {lag}"))
    if life.storage.stopped:
        life.note(Failed("", f"the journal stopped: {life.storage.stopped}"))
    life.validate()
    if world.clocks.random() < 0.5:
        await _check_flushes(life)
    if world.chance.random() < 0.5:
        await life.wait_for(check_upkeep(life, world))
    for topic in life.topics:
        await life.look_at(topic)


async def _check_flushes(life: StorageLife) -> None:
    """Note a journal file that is never flushed unless on demand."""
    await life.wait_for(life.storage.journal.rotate())  # otherwise only age does it
    await life.clock.run_for(_FLUSHED_S)
    if left := life.storage.journal.closed_files():  # what is left is what is judged
        life.note(Failed("", f"{len(left)} closed journal files are not flushed by themselves"))


def _answer_all(life: StorageLife, served: ServedSubscription) -> None:
    for consumer in served.consumers:
        served.unstall(consumer)
        served.attach(consumer)
        life.acknowledge(served, consumer, _ALL)


async def _replace_topic(life: StorageLife, world: World) -> None:
    """Delete a topic, and as a rule make another of its title."""
    if life.topics:
        topic = world.chance.choice(life.topics)
        await life.delete(topic)
        if topic.plan.deleted and world.chance.random() < 0.8:
            await life.create(topic.plan.title)


def _send(life: StorageLife, world: World) -> None:
    topic = world.chance.choice(life.topics)
    for _ in range(world.chance.randint(1, 4)):
        life.send(topic, world.chance.choice(topic.plan.producers), world.chance.choice([0, 50, 1_500]))


def _send_batch(life: StorageLife, world: World) -> None:
    topic = world.chance.choice(life.topics)
    count, size = world.chance.randint(1, 12), world.chance.choice([0, 100])
    life.send_batch(topic, world.chance.choice(topic.plan.producers), count, size)


def _send_damaged(life: StorageLife, world: World) -> None:
    topic = world.chance.choice(life.topics)
    life.send_damaged(topic, topic.plan.producers[0])


def _peek(life: StorageLife, world: World) -> None:
    found = _choose_offset(life, world)
    if found is not None:
        topic, offset = found
        life.read(topic, lambda reader: reader.peek(offset), "peek")


def _replay(life: StorageLife, world: World) -> None:
    topic = world.chance.choice(life.topics)
    pause_s = world.chance.choice([0.0, 0.01, 0.2])
    life.read(topic, lambda reader: reader.read_through(life.clock, [pause_s] * _READ_STEPS_MAX), "replay")


def _find_time(life: StorageLife, world: World) -> None:
    found = _choose_offset(life, world)
    if found is not None:
        topic, offset = found
        time_ms = topic.log.append_time_at_hand(offset) or life.clock.now_ms()
        time_ms += world.chance.choice([-1, 0, 0, 1, 500])
        life.read(topic, lambda reader: reader.find_time(time_ms), "look for a time")


def _acknowledge(life: StorageLife, world: World) -> None:
    chosen = _choose(life, world)
    if chosen is None:
        return
    served, consumer = chosen
    waiting = sorted(consumer.unanswered)
    if waiting:
        offset = world.chance.choice(waiting)
        life.acknowledge(served, consumer, world.chance.choice([range(offset, offset + 1), range(offset + 1), _ALL]))


def _nack(life: StorageLife, world: World) -> None:
    chosen = _choose(life, world)
    if chosen is not None and chosen[1].unanswered:
        life.nack(*chosen, world.chance.choice(sorted(chosen[1].unanswered)))


def _break(life: StorageLife, world: World) -> None:
    chosen = _choose(life, world)
    if chosen is not None:
        chosen[0].detach(chosen[1])


def _mend(life: StorageLife, _: World) -> None:
    for served in life.subscriptions:
        for consumer in served.consumers:
            served.attach(consumer)
            served.unstall(consumer)


def _stall(life: StorageLife, world: World) -> None:
    chosen = _choose(life, world)
    if chosen is not None:
        chosen[1].stalled = True


def _jump_clock(life: StorageLife, world: World) -> None:
    life.clock.jump_wall(world.chance.choice([-3_600.0, -1.0, 1.0, 3_600.0]))


def _lose_the_time(life: StorageLife, world: World) -> None:
    """Now and then have the clock be far off, and be set right soon after; each time retention looks at it.

    What is stamped while it is behind is that much older: less than anything is kept for that is kept for long.
    """
    if world.clocks.random() < (_CLOCK_SET_RIGHT if world.clock_off_s else _CLOCK_OFF):
        off_s = 0.0 if world.clock_off_s else world.clocks.choice([-_DAYS_S, _YEAR_S, _YEAR_S])
        life.clock.jump_wall(off_s - world.clock_off_s)
        world.clock_off_s = off_s
        retain(life, world)


def _choose(life: StorageLife, world: World) -> tuple[ServedSubscription, SimConsumer] | None:
    subscriptions = life.subscriptions
    if not subscriptions:
        return None
    served = world.chance.choice(subscriptions)
    return served, world.chance.choice(served.consumers)


def _choose_offset(life: StorageLife, world: World) -> tuple[ServedTopic, int] | None:
    topic = world.chance.choice(life.topics)
    end = topic.log.durable_end
    return (topic, world.chance.randrange(end)) if end else None


_RARE = 0.01  # of the steps: a topic is deleted

_STEPS: dict[Callable[[StorageLife, World], None], float] = {
    _send: 30,
    _send_batch: 15,
    _send_damaged: 1,
    _peek: 5,
    _replay: 3,
    _find_time: 3,
    _acknowledge: 35,
    _nack: 4,
    _break: 3,
    _mend: 5,
    _stall: 2,
    _jump_clock: 1,
    rotate: 2,
    flush: 4,
    retain: 4,
    sweep: 1,
}
