"""What is there is looked at after each change, and again while the store would not have it."""

import asyncio
import logging
from collections.abc import AsyncIterator

import pytest

from danube.metadata.cluster.reconcile import Reconciler
from danube.model.errors import MetadataError
from danube.model.limits.metadata import CLUSTER_RETRY_S
from danube.runtime.tasks import TaskScope
from danube.testing.simulated.clock import SimClock, settle


class Store:
    """Counts the looks, and fails as often as it is told to."""

    def __init__(self) -> None:
        self.looks = 0
        self.failures = 0
        self.failure: Exception = MetadataError("no majority")
        self.answers = asyncio.Event()
        self.answers.set()

    async def reconcile(self) -> None:
        self.looks += 1
        await self.answers.wait()
        if self.failures:
            self.failures -= 1
            raise self.failure


@pytest.fixture
def clock() -> SimClock:
    return SimClock()


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
async def reconciler(clock: SimClock, store: Store) -> AsyncIterator[Reconciler]:
    tasks, made = TaskScope("test"), Reconciler(clock, store.reconcile, "this cannot be had")
    tasks.spawn(made.run(), "reconcile")
    await settle()
    yield made
    await tasks.close()


async def test_nothing_is_done_before_something_changed(clock: SimClock, store: Store, reconciler: Reconciler) -> None:
    await clock.run_for(10 * CLUSTER_RETRY_S)
    assert store.looks == 0
    reconciler.wake()
    await clock.run_for(10 * CLUSTER_RETRY_S)
    assert store.looks == 1


async def test_a_change_during_a_look_is_looked_at_too(store: Store, reconciler: Reconciler) -> None:
    store.answers.clear()
    reconciler.wake()
    await settle()
    reconciler.wake()
    reconciler.wake()
    store.answers.set()
    await settle()
    assert store.looks == 2


async def test_what_failed_is_tried_again_after_a_while_until_it_is_done(
    clock: SimClock, store: Store, reconciler: Reconciler, caplog: pytest.LogCaptureFixture
) -> None:
    store.failures = 2
    with caplog.at_level(logging.WARNING):
        reconciler.wake()
        await clock.run_for(0.9 * CLUSTER_RETRY_S)
        assert store.looks == 1
        await clock.run_for(10 * CLUSTER_RETRY_S)
    assert store.looks == 3
    assert caplog.messages == ["this cannot be had, which is tried again: no majority"] * 2


async def test_a_fault_of_our_own_is_logged_with_its_traceback_and_tried_again(
    clock: SimClock, store: Store, reconciler: Reconciler, caplog: pytest.LogCaptureFixture
) -> None:
    store.failures, store.failure = 1, KeyError("a mistake")
    reconciler.wake()
    await clock.run_for(2 * CLUSTER_RETRY_S)
    assert store.looks == 2
    assert [record.exc_info is not None for record in caplog.records] == [True]
