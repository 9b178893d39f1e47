import asyncio
import logging

import pytest

from danube.runtime.tasks import TaskScope
from danube.testing.patience import PATIENCE_S


async def fail(message: str) -> None:
    raise ValueError(message)


async def test_closing_ends_and_awaits_what_still_runs() -> None:
    scope, ended = TaskScope("owner"), list[str]()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append("cleaned up")

    task = scope.spawn(work(), "work")
    await asyncio.sleep(0)
    async with asyncio.timeout(PATIENCE_S):
        await scope.close()
    assert (task.cancelled(), ended) == (True, ["cleaned up"])


async def test_tasks_are_named_after_their_owner() -> None:
    scope = TaskScope("owner")
    assert scope.spawn(asyncio.sleep(0), "work").get_name() == "owner/work"
    await scope.close()


async def test_a_failure_is_logged_and_reported_and_others_go_on(caplog: pytest.LogCaptureFixture) -> None:
    reported = list[BaseException]()
    scope, go = TaskScope("owner", reported.append), asyncio.Event()
    other = scope.spawn(go.wait(), "other")
    failing = scope.spawn(fail("broken"), "failing")
    async with asyncio.timeout(PATIENCE_S):
        await asyncio.wait([failing])
        go.set()
        assert await other
    await scope.close()
    assert [str(error) for error in reported] == ["broken"]
    assert [(record.levelno, record.message) for record in caplog.records] == [
        (logging.ERROR, "background task failed: owner/failing")
    ]


async def test_a_task_can_close_its_own_scope() -> None:
    scope = TaskScope("owner")
    task = scope.spawn(scope.close(), "closer")
    async with asyncio.timeout(PATIENCE_S):
        await task


async def test_a_closed_scope_starts_nothing() -> None:
    scope = TaskScope("owner")
    await scope.close()
    with pytest.raises(RuntimeError, match="owner is closed: it cannot start late"):
        scope.spawn(fail("never runs"), "late")
