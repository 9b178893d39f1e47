import asyncio
import threading
from collections.abc import AsyncIterator, Iterator

import pytest

from danube.model.errors import ShuttingDownError
from danube.runtime.blocking import REST_MAX_S, BlockingRunner, BlockingThread, InlineRunner, OwnedThread
from danube.testing.patience import PATIENCE_S


@pytest.fixture(params=[InlineRunner, lambda: BlockingThread("test")], ids=["inline", "thread"])
async def runner(request: pytest.FixtureRequest) -> AsyncIterator[BlockingRunner]:
    runner: BlockingRunner = request.param()
    yield runner
    await runner.aclose()


@pytest.fixture
def thread() -> Iterator[BlockingThread]:
    thread = BlockingThread("test")
    yield thread
    thread.close()


def fail() -> None:
    raise OSError("disk")


async def test_the_result_of_the_work_comes_back(runner: BlockingRunner) -> None:
    async with asyncio.timeout(PATIENCE_S):
        assert await runner.run(lambda: 6 * 7) == 42


async def test_an_error_of_the_work_comes_back(runner: BlockingRunner) -> None:
    async with asyncio.timeout(PATIENCE_S):
        with pytest.raises(OSError, match="disk"):
            await runner.run(fail)


async def test_work_runs_in_the_order_of_its_handing_over(runner: BlockingRunner) -> None:
    done = list[int]()
    async with asyncio.timeout(PATIENCE_S):
        await asyncio.gather(*(runner.run(lambda number=number: done.append(number)) for number in range(20)))  # type: ignore[misc]
    assert done == list(range(20))


async def test_a_thread_that_computes_for_long_rests_as_long_as_it_computed(
    thread: BlockingThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept_s: list[float] = []
    times_s = iter([0.0, 0.000_4, 0.002, 0.002, 0.002_3, 0.5, 0.5])
    monkeypatch.setattr("danube.runtime.blocking.time.thread_time", lambda: next(times_s))
    monkeypatch.setattr("danube.runtime.blocking.time.sleep", slept_s.append)
    for _ in range(5):
        thread.rest()
    assert slept_s == [0.002, REST_MAX_S]


async def test_a_thread_keeps_the_loop_free(thread: BlockingThread) -> None:
    go = threading.Event()
    waiting = asyncio.ensure_future(thread.run(lambda: (go.wait(PATIENCE_S), threading.current_thread().name)))
    await asyncio.sleep(0)
    go.set()
    async with asyncio.timeout(PATIENCE_S):
        assert await waiting == (True, "test")


async def test_cancelling_the_waiter_lets_the_work_finish_first(thread: BlockingThread) -> None:
    started, go, done = asyncio.Event(), threading.Event(), list[str]()
    loop = asyncio.get_running_loop()

    def work() -> None:
        loop.call_soon_threadsafe(started.set)
        go.wait(PATIENCE_S)
        done.append("finished")

    waiting = asyncio.ensure_future(thread.run(work))
    async with asyncio.timeout(PATIENCE_S):
        await started.wait()
        waiting.cancel()
        await asyncio.sleep(0)
        assert not waiting.done()
        go.set()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    assert done == ["finished"]


async def test_closing_from_the_loop_waits_for_what_was_handed_over_and_keeps_the_loop_free() -> None:
    runner, go = BlockingThread("test"), threading.Event()
    work = asyncio.ensure_future(runner.run(lambda: go.wait(PATIENCE_S)))
    await asyncio.sleep(0)
    closing = asyncio.ensure_future(runner.aclose())
    await asyncio.sleep(0)
    assert not closing.done()
    go.set()
    async with asyncio.timeout(PATIENCE_S):
        await closing
        assert await work


async def test_closing_without_blocking_waits_for_what_was_handed_over(runner: BlockingRunner) -> None:
    done = list[int]()
    async with asyncio.timeout(PATIENCE_S):
        handed_over = [asyncio.ensure_future(runner.run(lambda: done.append(1))) for _ in range(3)]
        await asyncio.sleep(0)
        await runner.aclose()
        await asyncio.gather(*handed_over)
    assert done == [1, 1, 1]


async def test_cancelling_just_when_the_work_has_ended_does_not_wait_for_it_again(thread: BlockingThread) -> None:
    done = threading.Event()
    waiting = asyncio.ensure_future(thread.run(done.set))
    await asyncio.sleep(0)
    # the loop is held here, so that it hears of the end and of the cancelling in the same turn
    assert done.wait(PATIENCE_S)
    waiting.cancel()
    async with asyncio.timeout(PATIENCE_S):
        with pytest.raises(asyncio.CancelledError):
            await waiting


async def test_an_error_that_nobody_waits_for_any_more_is_dropped(thread: BlockingThread) -> None:
    go = threading.Event()

    def work() -> None:
        go.wait(PATIENCE_S)
        fail()

    waiting = asyncio.ensure_future(thread.run(work))
    await asyncio.sleep(0)
    waiting.cancel()
    go.set()
    async with asyncio.timeout(PATIENCE_S):
        with pytest.raises(asyncio.CancelledError):
            await waiting


def test_work_that_nobody_waits_for_is_done_without_an_event_loop(thread: BlockingThread) -> None:
    done = threading.Event()
    thread.start(done.set)
    assert done.wait(PATIENCE_S)


def test_a_thread_can_be_left_while_it_works_and_ends_by_itself() -> None:
    thread, go, done = BlockingThread("test"), threading.Event(), threading.Event()

    def work() -> None:
        go.wait(PATIENCE_S)
        done.set()

    thread.start(work)
    thread.leave()
    with pytest.raises(ShuttingDownError, match="closed"):
        thread.start(done.set)
    go.set()
    assert done.wait(PATIENCE_S)
    thread.close()


async def test_work_for_a_thread_that_is_closed_is_refused_as_by_a_broker_that_goes_down(
    thread: BlockingThread,
) -> None:
    await thread.aclose()
    with pytest.raises(ShuttingDownError, match="test is closed"):
        await thread.run(lambda: None)


def test_a_thread_that_could_not_start_is_started_by_the_next_work(
    thread: BlockingThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    done = threading.Event()
    with monkeypatch.context() as meanwhile, pytest.raises(RuntimeError, match="can't start"):
        meanwhile.setattr(threading.Thread, "start", no_room)
        thread.start(done.set)
    assert not done.is_set()
    thread.start(done.set)
    thread.close()
    assert done.is_set()


async def test_an_owned_thread_runs_until_its_owner_has_it_return() -> None:
    stop = threading.Event()
    told: list[int] = []

    def work() -> None:
        owned.call_back(told.append, 1)
        stop.wait(PATIENCE_S)
        owned.call_back(told.append, 2)

    owned = OwnedThread("test", work)
    owned.start()
    stop.set()
    await owned.ended()
    await owned.ended()
    assert told == [1, 2]


async def test_what_an_owned_thread_raises_is_raised_where_its_end_is_waited_for() -> None:
    def fail() -> None:
        raise RuntimeError("broken")

    owned = OwnedThread("test", fail)
    owned.start()
    with pytest.raises(RuntimeError, match="broken"):
        await owned.ended()


async def test_an_owned_thread_that_was_never_started_has_ended() -> None:
    await OwnedThread("test", lambda: None).ended()
