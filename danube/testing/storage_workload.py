"""What producers and consumers do in a simulation of storage and dispatch, one step at a time."""

from collections.abc import Callable

from danube.testing.history import Failed
from danube.testing.storage_life import ServedSubscription, SimConsumer, StorageLife
from danube.testing.storage_world import World

_DRAIN_STEPS_MAX = 400  # seconds; the longest back-off is 60
_ALL = range(2**63)


async def take_step(life: StorageLife, world: World) -> None:
    """Do one thing, and let some time pass."""
    weights, steps = zip(*_STEPS, strict=True)
    world.chance.choices(steps, weights)[0](life, world)
    if world.chance.random() < 0.7:
        passing_s = world.chance.choices([0.002, 0.02, 0.3, 40.0], [40, 40, 18, 2])[0]
        await life.clock.run_for(world.chance.uniform(0.0, passing_s))


async def drain(life: StorageLife, world: World) -> None:
    """Send a last message to every topic, acknowledge until nothing is left, and note what does not come to an end."""
    for topic in world.topics:
        for subscription in topic.subscriptions:
            if not subscription.begun:
                life.subscribe(topic, subscription)
        life.send(topic, topic.producers[0], 0)
    for _ in range(_DRAIN_STEPS_MAX):
        await life.clock.run_for(1.0)
        for served in life.subscriptions:
            _answer_all(life, served)
        if not life.unanswered and all(served.is_done for served in life.subscriptions):
            break
    else:
        lag = {served.plan.name: served.driver.engine.lag for served in life.subscriptions}
        life.note(Failed("", f"{life.unanswered} appends are never answered, or messages never delivered: {lag}"))
    if life.journal.stopped:
        life.note(Failed("", f"the journal stopped: {life.journal.stopped}"))
    life.validate()
    for topic in world.topics:
        await life.look_at(topic)


def _answer_all(life: StorageLife, served: ServedSubscription) -> None:
    for consumer in served.consumers:
        served.unstall(consumer)
        served.attach(consumer)
        life.acknowledge(served, consumer, _ALL)


def _send(life: StorageLife, world: World) -> None:
    topic = world.chance.choice(world.topics)
    for _ in range(world.chance.randint(1, 4)):
        life.send(topic, world.chance.choice(topic.producers), world.chance.choice([0, 50, 1_500]))


def _send_batch(life: StorageLife, world: World) -> None:
    topic = world.chance.choice(world.topics)
    count, size = world.chance.randint(1, 12), world.chance.choice([0, 100])
    life.send_batch(topic, world.chance.choice(topic.producers), count, size)


def _send_damaged(life: StorageLife, world: World) -> None:
    topic = world.chance.choice(world.topics)
    life.send_damaged(topic, topic.producers[0])


def _peek(life: StorageLife, world: World) -> None:
    topic = world.chance.choice(world.topics)
    end = life.durable_end(topic)
    if end:
        life.peek(topic, world.chance.randrange(end))


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


def _choose(life: StorageLife, world: World) -> tuple[ServedSubscription, SimConsumer] | None:
    if not life.subscriptions:
        return None
    served = world.chance.choice(life.subscriptions)
    return served, world.chance.choice(served.consumers)


_STEPS: list[tuple[int, Callable[[StorageLife, World], None]]] = [
    (30, _send),
    (15, _send_batch),
    (1, _send_damaged),
    (6, _peek),
    (35, _acknowledge),
    (4, _nack),
    (3, _break),
    (5, _mend),
    (2, _stall),
]
