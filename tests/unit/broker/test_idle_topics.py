"""What ten thousand topics cost a broker that nobody talks to: no task, no open file, little time and memory."""

import asyncio
import os
import time
from pathlib import Path

import pytest

from danube.model.limits.broker import MIB
from danube.model.topic import TopicName
from danube.testing.in_process_broker import Cell, StartBroker

BASES, PARTITIONS = 10, 1_000
STATUS = Path("/proc/self/statm")

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not STATUS.exists(), reason="memory is read from /proc")]


def memory_bytes() -> int:
    """Of this process, in the machine's memory."""
    return int(STATUS.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def orphans_are_looked_for() -> None:
    """Wait for the one task that a start leaves behind and that ends by itself."""
    await asyncio.wait_for(
        asyncio.gather(*(task for task in asyncio.all_tasks() if task.get_name() == "storage/orphans")), 30
    )


def held() -> tuple[int, int]:
    """Tasks and open files of this process."""
    return len(asyncio.all_tasks()), len(list(Path("/proc/self/fd").iterdir()))


def is_no_more_than(before: tuple[int, int]) -> bool:
    """Tell whether nothing was added; a file that a start still had open may be closed by now."""
    return all(now <= then for now, then in zip(held(), before, strict=True))


async def topics(cell: Cell) -> int:
    return (await cell.admin.describe_broker()).topics


async def test_ten_thousand_idle_topics_start_at_once_and_hold_nothing_open(start_broker: StartBroker) -> None:
    cell = await start_broker(telemetry_interval_s=0)
    await orphans_are_looked_for()
    before = held()
    for base in range(BASES):
        await cell.admin.create_partitioned_topic(TopicName("default", f"base-{base}"), PARTITIONS)
    assert is_no_more_than(before), f"{held()} after {before}"
    worked_s, memory = time.process_time(), memory_bytes()
    cell = await start_broker(telemetry_interval_s=0)
    assert time.process_time() - worked_s < 10
    await orphans_are_looked_for()
    assert memory_bytes() - memory < 150 * MIB
    assert is_no_more_than(before), f"{held()} after {before}"
    assert await topics(cell) == BASES * PARTITIONS
