"""The code takes its steps from the table: each one that is left out or swapped there loses something here."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import pytest

from danube.model.errors import DanubeError, StorageUnavailableError
from danube.model.subscription import Cursor
from danube.runtime.disk import File
from danube.storage.journal.folder import Fence
from danube.storage.takeover.steps import PROTOCOL, Part, Protocol, Step
from danube.testing.simulated.disk import Operation, SimDisk
from tests.unit.storage.journal_world import Told
from tests.unit.storage.takeover.shared_world import SharedBroker, SharedWorld

A = 1
READS = range(1, 6)


async def take_over(protocol: Protocol, read: int) -> None:
    """A topic is taken from an owner that goes on after the taker's `read`-th look at the disk."""
    world = SharedWorld()
    try:
        owner = await world.start(1)
        await owner.acquire(A)
        stored = [b"0", b"1"]
        await owner.store(A, stored)
        await owner.save(A, 2)
        owner.writes.hold()
        late = owner.append(A, b"late")
        taker = await world.start(2, protocol)

        async def owner_goes_on() -> None:
            owner.writes.release()
            await late.outcome()

        taker.reads.happen_after(read, owner_goes_on)
        await begin_and_lose_power(world, taker)
        again = await world.start(2)
        is_there = (await again.content(A))[2:] == [b"late"]
        assert is_there or not late.all or isinstance(late.all[0], DanubeError), "it was acknowledged"
        await check_all_is_there(again, [*stored, *[b"late"] * is_there], position=2)
    finally:
        await world.end()


async def move(protocol: Protocol) -> None:
    """A topic is given away by plan; its producer and its consumer go on until they are stopped."""
    world = SharedWorld()
    try:
        old_owner = await world.start(1, protocol)
        await old_owner.acquire(A)
        stored = [b"0", b"1"]
        await old_owner.store(A, stored)
        log, is_stopped = old_owner.topics[A].log, asyncio.Event()
        await old_owner.release(A, {5: Cursor(1)}, is_stopped)
        if not is_stopped.is_set():
            log.append_record(b"2", late := Told())
            stored += [b"2"] if await late.outcome() == 2 else []
        assert A not in old_owner.owned, "the old_owner keeps the topic in its memory"
        opener = await world.start(2, protocol)
        await begin_and_lose_power(world, opener)
        assert Fence(world.disk, old_owner.folder).new_owners() == [], "the topic was not sealed, but taken by force"
        await check_all_is_there(await world.start(2), stored, position=1)
    finally:
        await world.end()


async def begin_and_lose_power(world: SharedWorld, taker: SharedBroker) -> None:
    """The power goes when the taker serves; its own journal writes nothing unless the taker waits for it."""
    taker.writes.hold()
    begun = asyncio.ensure_future(taker.acquire(A))
    for _ in range(50):
        await asyncio.sleep(0)
    if not begun.done():
        owner = (await world.records.get(A)).epochs[-1].journal_id
        taker.writes.release()
        await asyncio.wait([begun])
        assert owner != taker.journal.journal_id, "it became the owner before it had synced"
    with contextlib.suppress(DanubeError):
        assert A in await begun, "the topic was not served"
    await world.power_cut()


async def check_all_is_there(broker: SharedBroker, stored: list[bytes], position: int) -> None:
    assert await broker.content(A) == stored
    assert broker.position(A) == position
    assert await broker.store(A, [b"next"]) == [len(stored)]


LOST = [
    *[(Part.TAKEOVER, step) for step in PROTOCOL[Part.TAKEOVER]],
    *[(Part.RELEASE, step) for step in PROTOCOL[Part.RELEASE]],
    *[(Part.OPEN, step) for step in PROTOCOL[Part.OPEN]],
]
SWAPPED = [
    (Part.TAKEOVER, Step.FENCE),
    (Part.TAKEOVER, Step.READ),
    (Part.TAKEOVER, Step.COPY_CURSORS),
    (Part.TAKEOVER, Step.SYNC),
    (Part.OPEN, Step.READ),
    (Part.OPEN, Step.COPY_CURSORS),
    (Part.OPEN, Step.SYNC),
]


@pytest.mark.parametrize("read", READS)
async def test_a_topic_taken_by_force_loses_nothing_whenever_its_owner_wakes(read: int) -> None:
    await take_over(PROTOCOL, read)


async def test_a_topic_moved_by_plan_loses_nothing() -> None:
    await move(PROTOCOL)


@pytest.mark.parametrize(("part", "step"), LOST)
async def test_a_step_that_is_left_out_of_the_table_is_missed(part: Part, step: Step) -> None:
    assert await is_broken(PROTOCOL.without(part, step), part)


@pytest.mark.parametrize(("part", "step"), SWAPPED)
async def test_steps_that_are_swapped_in_the_table_lose_something(part: Part, step: Step) -> None:
    assert await is_broken(PROTOCOL.swapped(part, PROTOCOL[part].index(step)), part)


async def is_broken(protocol: Protocol, part: Part) -> bool:
    try:
        if part is Part.TAKEOVER:
            for read in READS:
                await take_over(protocol, read)
        else:
            await move(protocol)
    except (AssertionError, KeyError, DanubeError):
        return True
    return False


def watched(disk: SimDisk) -> list[str]:
    """What is done to files from now on, and when a fence is looked at."""
    seen: list[str] = []
    perform, open_read = disk.perform, disk.open_read

    def note(operation: Operation, name: str, whole: Callable[[], object], **more: Any) -> None:
        seen.append(f"{operation} {name.rpartition('/')[2]}")
        perform(operation, name, whole, **more)

    def look(name: str) -> File:
        seen.append(f"look {name.rpartition('/')[2]}")
        return open_read(name)

    disk.perform, disk.open_read = note, look  # type: ignore[method-assign]
    return seen


async def test_an_owner_writes_syncs_looks_and_only_then_acknowledges() -> None:
    world = SharedWorld()
    broker = await world.start(1)
    await broker.acquire(A)
    seen = watched(broker.disk)
    told = broker.append(A, b"0")
    assert await told.offset() == 0
    assert seen == ["append 0000000001.journal", "sync 0000000001.journal", "look fence"]
    assert PROTOCOL[Part.OWN] == (Step.WRITE, Step.SYNC, Step.LOOK, Step.ACKNOWLEDGE)
    await world.end()


async def test_a_restart_cuts_and_syncs_and_looks_before_it_serves() -> None:
    world = SharedWorld()
    broker = await world.start(1)
    await broker.acquire(A)
    await broker.store(A, [b"0"])
    name = f"{broker.folder}/0000000001.journal"
    broker.kill()
    torn = world.disk.open_append(name)
    torn.append([b"torn"])
    again = SharedBroker(world, 1, PROTOCOL)
    world.started.append(again)
    seen = watched(again.disk)
    await again.start()
    changes = [one for one in seen if one.partition(" ")[0] in {"truncate", "sync"} or one == "look fence"]
    assert changes[0] == "look fence", "a fenced journal is not touched"
    assert changes[1:3] == ["truncate 0000000001.journal", "sync 0000000001.journal"]
    assert changes[-1] == "look fence"
    assert PROTOCOL[Part.RESTART] == (Step.TRUNCATE, Step.SYNC, Step.LOOK, Step.SERVE)
    await world.end()


async def test_a_fence_that_is_put_up_during_the_sync_is_seen_before_the_acknowledgement() -> None:
    world = SharedWorld()
    broker = await world.start(1)
    await broker.acquire(A)
    fence = Fence(world.disk.join(), broker.folder)
    broker.writes.hold()
    told = broker.append(A, b"0")
    fence.put_up(2)
    broker.writes.release()
    assert isinstance(await told.error(), StorageUnavailableError)
    await world.end()
