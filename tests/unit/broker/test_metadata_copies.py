"""Copies of the metadata in a bucket: the leader alone follows what is copied, and no broker keeps a second copy."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from danube.broker.metadata_copy import MetadataCopier
from danube.metadata.backup.format import Origin
from danube.metadata.memory import MemoryStore
from danube.metadata.records import keys
from danube.metadata.store import Watch
from danube.model.limits.objects import METADATA_COPY_DELAY_S
from danube.model.topic import TopicName
from danube.objects.memory import MemoryObjects
from danube.runtime.rng import SystemRng
from danube.storage.object_store.metadata_copy import newest_copy
from danube.testing.simulated.blocking import SimRunner
from danube.testing.simulated.clock import SimClock

ORDERS = TopicName("default", "orders")


class Watched(MemoryStore):
    """A store that counts who follows it."""

    def __init__(self, clock: SimClock) -> None:
        super().__init__(clock)
        self.prefixes: list[str] = []

    def watch(self, prefix: str) -> Watch:
        self.prefixes.append(prefix)
        return super().watch(prefix)


class Scene:
    def __init__(self) -> None:
        self.clock = SimClock()
        self.store = Watched(self.clock)
        self.bucket = MemoryObjects()
        self.leads = False
        self.copier = MetadataCopier(
            self.store,
            self.bucket,
            Origin(kind="memory", place="", taken_ms=0, danube="0", cluster_id="c"),
            clock=self.clock,
            rng=SystemRng(),
            runner=SimRunner(self.clock, SystemRng(1)),
            is_leader=lambda: self.leads,
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.copier.run())
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await self.clock.run_for(1.0)
                await task
            await self.store.close()

    async def names_copied(self) -> set[str]:
        """Keys of topics in the newest copy, after the longest time that a change may be missing in it."""
        await self.clock.run_for(2 * METADATA_COPY_DELAY_S)
        copy = newest_copy(self.bucket, "memory://")
        return {one.key for one in copy.snapshot.entries if one.key.startswith(keys.TOPICS)} if copy else set()


async def test_a_broker_that_does_not_lead_follows_no_metadata_for_copies() -> None:
    scene = Scene()
    async with scene.running():
        await scene.store.put(keys.topic(ORDERS), b"")
        assert await scene.names_copied() == set()
        assert scene.store.prefixes == []


async def test_the_leader_follows_only_what_is_copied_soon_and_copies_each_change() -> None:
    scene = Scene()
    scene.leads = True
    async with scene.running():
        assert await scene.names_copied() == set()
        await scene.store.put(keys.topic(ORDERS), b"")
        assert await scene.names_copied() == {keys.topic(ORDERS)}
        copies = len(list(scene.bucket.listing("metadata/")))
        await scene.store.put(f"{keys.STORED_TOPICS}/7", b"")  # what a bucket says itself
        await scene.names_copied()
        assert len(list(scene.bucket.listing("metadata/"))) == copies
    assert "/" not in scene.store.prefixes
    assert not any(each.startswith(keys.STORED_TOPICS) for each in scene.store.prefixes)


@pytest.mark.parametrize("created_while_leading", [False, True])
async def test_a_new_leader_copies_what_changed_before_it_led(*, created_while_leading: bool) -> None:
    scene = Scene()
    async with scene.running():
        scene.leads = created_while_leading
        await scene.store.put(keys.topic(ORDERS), b"")
        scene.leads = True
        assert await scene.names_copied() == {keys.topic(ORDERS)}
        scene.leads = False
        await scene.names_copied()
        followed = len(scene.store.prefixes)
        scene.leads = True
        await scene.names_copied()
        assert len(scene.store.prefixes) == 2 * followed
