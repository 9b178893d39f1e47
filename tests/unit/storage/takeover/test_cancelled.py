"""Who begins with a topic, or gives it, may be cancelled at any moment: what it had on its way harms nothing later."""

import asyncio
import logging

import pytest

from danube.storage.takeover.shared_storage import SharedStorage
from tests.unit.storage.store.storage_world import fill, read_all
from tests.unit.storage.takeover.shared_world import PausedRunner
from tests.unit.storage.takeover.storages_world import StoragesWorld, rest, save, stop_at

A = 1


async def cancelled(storage: SharedStorage, writes: PausedRunner, times: int) -> "asyncio.Future[frozenset[int]]":
    """A begin that was cancelled while what it wrote was on its way to the disk."""
    before = writes.works
    writes.hold()
    beginning = asyncio.ensure_future(storage.acquire([A]))
    await rest()
    assert writes.works > before
    for _ in range(times):
        beginning.cancel()
        await rest()
    return beginning


@pytest.mark.parametrize("times", [1, 2])
async def test_a_topic_that_is_begun_with_again_after_a_begin_was_cancelled_is_in_the_journal_once(
    storages: StoragesWorld, times: int
) -> None:
    writes = PausedRunner()
    first, second = await storages.start(1), await storages.start(2, runner=writes)
    await first.acquire([A])
    records = await fill(first.topic(A), 5)  # the last of them is above the mark, and appended again
    beginning = await cancelled(second, writes, times)
    again = asyncio.ensure_future(second.acquire([A]))
    await rest()
    writes.release()
    assert await again == {A}
    assert beginning.cancelled()
    records += await fill(second.topic(A), 5, first=5)
    await storages.stop(2)
    second = await storages.start(2)
    assert await read_all(second.topic(A)) == records
    third = await storages.start(3)
    assert await third.acquire([A]) == {A}
    assert await read_all(third.topic(A)) == records


async def test_the_journal_answers_a_begin_and_a_give_that_were_cancelled_without_a_word_in_the_log(
    storages: StoragesWorld, caplog: pytest.LogCaptureFixture
) -> None:
    writes = PausedRunner()
    first, second = await storages.start(1), await storages.start(2, runner=writes)
    await first.acquire([A])
    await fill(first.topic(A), 5)
    await save(first.topic(A), 3)
    with caplog.at_level(logging.ERROR):
        beginning = await cancelled(second, writes, 2)
        writes.release()
        await asyncio.wait([beginning])
        assert await second.acquire([A]) == {A}
        log = second.topic(A)
        writes.hold()
        giving = asyncio.ensure_future(second.release(A, lambda: stop_at(log)))
        await rest()
        giving.cancel()
        await rest()
        writes.release()
        await rest()
    assert giving.cancelled()
    assert not caplog.messages
