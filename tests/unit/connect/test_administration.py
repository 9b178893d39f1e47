"""Connectors as administrators see and change them: reports with a lease, pauses, restarts, dead letters again."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from danube.connect import Batch, RefusedError, sink
from danube.connect.sdk import definition_of
from danube.model.errors import NotFoundError, SettingsError
from danube.model.records.connectors import Change, ChangeConnector, ConnectorBook, Status
from danube.testing.connect.workbench import NAME, TOPIC, Workbench, payloads, until, workbench
from danube.wire import plan_messages as messages
from tests.unit.connect.memory import MemorySide

CONNECTORS = "/danube.control.Connectors"
ROUTE = {"from": TOPIC}


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Workbench]:
    async with workbench(tmp_path) as bench:
        yield bench


async def book(bench: Workbench) -> ConnectorBook:
    return await bench.cell.admin.ask(
        f"{CONNECTORS}/ListConnectors", messages.LIST_CONNECTORS, None, messages.CONNECTORS
    )


async def change(bench: Workbench, wanted: Change, name: str = NAME) -> None:
    wish = ChangeConnector(connector=name, change=wanted, set_by="ada")
    await bench.cell.admin.ask(
        f"{CONNECTORS}/ChangeConnector", messages.CHANGE_CONNECTOR, wish, messages.CONNECTOR_WISH
    )


async def is_told(bench: Workbench, status: Status, written: int = 0) -> None:
    async def told() -> bool:
        tasks = (await book(bench)).tasks_of(NAME)
        return [each.status for _, each in tasks] == [status] and tasks[0][1].written >= written

    await until(told, f"the cluster is told that the task is {status}")


async def holds(side: MemorySide, wanted: list[bytes]) -> None:
    async def is_there() -> bool:
        return side.payloads == wanted

    await until(is_there, f"the other side holds {len(wanted)} records")


async def test_a_runner_tells_of_its_tasks_until_it_ends(bench: Workbench) -> None:
    await bench.produce(payloads(30))
    runner = await bench.run(MemorySide().definition, {}, [ROUTE], tells=True)
    await is_told(bench, Status.RUNNING, written=30)
    ((_, task),) = (await book(bench)).tasks_of(NAME)
    assert (task.topic, task.subscription, task.direction, task.delivery) == (TOPIC, NAME, "sink", "at least once")
    await runner.drain()
    assert (await book(bench)).runners == ()


async def test_a_paused_connector_writes_nothing_until_it_is_resumed_also_by_another_runner(bench: Workbench) -> None:
    side = MemorySide()
    await bench.produce(payloads(10))
    first = await bench.run(side.definition, {}, [ROUTE], tells=True)
    await holds(side, payloads(10))
    await change(bench, Change.PAUSE)
    await is_told(bench, Status.PAUSED)
    await bench.produce(payloads(10, first=10))
    await first.drain()
    second = await bench.run(side.definition, {}, [ROUTE], tells=True)
    await is_told(bench, Status.PAUSED)
    assert (side.payloads, second.problem()) == (payloads(10), None)
    await change(bench, Change.RESUME)
    await holds(side, payloads(20))
    await is_told(bench, Status.RUNNING)


async def test_a_task_that_failed_runs_after_a_restart(bench: Workbench) -> None:
    faults = [SettingsError("the table is not there")]

    @sink
    async def to_table(batch: Batch[bytes]) -> None:
        if faults:
            raise faults[0]

    await bench.produce(payloads(5))
    await bench.run(definition_of(to_table), {}, [ROUTE], tells=True)
    await is_told(bench, Status.FAILED)
    faults.clear()
    await change(bench, Change.RESTART)
    await is_told(bench, Status.RUNNING, written=5)


async def test_dead_letters_are_written_again_and_what_is_refused_again_keeps_its_origin(bench: Workbench) -> None:
    refused, taken = {b"record-1", b"record-3"}, list[bytes]()

    @sink
    async def picky(batch: Batch[bytes]) -> None:
        if bad := [each.offset for each in batch.records if each.payload in refused]:
            raise RefusedError("no such customer", bad)
        taken.extend(batch.values)

    await bench.produce(payloads(5))
    runner = await bench.run(definition_of(picky), {}, [ROUTE], tells=True)
    await is_told(bench, Status.RUNNING, written=5)
    refused.remove(b"record-1")
    await change(bench, Change.REPLAY)

    async def is_over() -> bool:
        return b"record-1" in taken and len(runner.states) == 1

    await until(is_over, "the dead letters are written again")
    assert sorted(taken) == [b"record-0", b"record-1", b"record-2", b"record-4"]
    letters = await bench.dead_letters()
    assert [letter.payload for letter in letters] == [b"record-1", b"record-3", b"record-3"]
    assert [letter.attributes["x-original-topic-offset"] for letter in letters] == ["1", "3", "3"]
    refused.clear()
    await change(bench, Change.REPLAY)
    await until(is_over, "the rest is written again")

    async def has_all() -> bool:
        return b"record-3" in taken

    await until(has_all, "the rest is written")
    assert len(taken) == len(set(taken)) == 5


async def test_a_connector_that_no_runner_has_cannot_be_changed(bench: Workbench) -> None:
    with pytest.raises(NotFoundError, match="no runner has a connector 'other'"):
        await change(bench, Change.PAUSE, "other")
