"""Sinks and sources of users: functions, classes, decoded values, topics made anew, positions that win."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from danube.client import DispatchStrategy
from danube.connect import WRITERS, Batch, Out, Partition, Sink, sink, source
from danube.connect.sdk import Definition, Delivery, definition_of
from danube.model.errors import SettingsError
from danube.model.records.connectors import Status
from danube.testing.connect.workbench import TOPIC, Workbench, payloads, until, workbench
from tests.unit.connect.memory import MemoryExactSink, MemorySide

ROUTE = {"from": TOPIC}


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Workbench]:
    async with workbench(tmp_path) as bench:
        yield bench


def defined(target: object) -> Definition:
    return definition_of(target)


@dataclass
class Order:
    number: int
    item: str


async def test_a_function_gets_values_of_its_schema_and_what_does_not_follow_it_is_a_dead_letter(
    bench: Workbench,
) -> None:
    taken: list[Order] = []

    @sink(schema=Order)
    async def to_list(batch: Batch[Order]) -> None:
        taken.extend(batch.values)

    await bench.produce([b'{"number":1,"item":"a"}', b'{"number":"many"}', b'{"number":2,"item":"b"}'])
    await bench.run(defined(to_list), {}, [ROUTE])

    async def has_both() -> bool:
        return len(taken) == 2 and len(await bench.dead_letters()) == 1

    await until(has_both, "two are taken and one is refused")
    assert taken == [Order(1, "a"), Order(2, "b")]
    (letter,) = await bench.dead_letters()
    assert letter.payload == b'{"number":"many"}'


async def test_a_sink_takes_values_by_the_schema_that_they_were_written_with(bench: Workbench) -> None:
    taken: list[Any] = []

    @sink(schema=WRITERS)
    async def to_list(batch: Batch[Any]) -> None:
        taken.extend(batch.values)

    builder = bench.client.new_producer().with_topic(TOPIC).with_name("typed").with_schema(Order)
    async with builder.with_dispatch_strategy(DispatchStrategy.RELIABLE).build() as producer:
        await producer.send(Order(7, "lamp"))
    await bench.run(defined(to_list), {}, [ROUTE])

    async def has_one() -> bool:
        return bool(taken)

    await until(has_one, "it is taken")
    assert taken == [{"number": 7, "item": "lamp"}]


async def test_records_of_another_subject_than_expected_are_refused(bench: Workbench) -> None:
    side = MemorySide()
    builder = bench.client.new_producer().with_topic(TOPIC).with_name("typed").with_schema(Order, "orders-v1")
    async with builder.with_dispatch_strategy(DispatchStrategy.RELIABLE).build() as producer:
        await producer.send(Order(7, "lamp"))
    await bench.produce([b"bare"])
    await bench.run(side.definition, {}, [{**ROUTE, "expected_schema_subject": "orders-v1"}])

    async def is_over() -> bool:
        return len(side.payloads) == 1 and len(await bench.dead_letters()) == 1

    await until(is_over, "one is taken and one is refused")
    (letter,) = await bench.dead_letters()
    assert letter.attributes["x-failure-reason"] == "the record has no schema, and the route expects subject orders-v1"


async def test_a_topic_that_is_not_reliable_has_sinks_too(bench: Workbench) -> None:
    side = MemorySide()
    builder = bench.client.new_producer().with_topic(TOPIC).with_name("fast")
    async with builder.with_dispatch_strategy(DispatchStrategy.NON_RELIABLE).build() as producer:
        runner = await bench.run(side.definition, {}, [ROUTE])

        async def runs() -> bool:
            return [state.status for state in runner.states] == [Status.RUNNING]

        await until(runs, "the task runs")
        for payload in payloads(5):
            await producer.send(payload)

        async def has_all() -> bool:
            return side.payloads == payloads(5)

        await until(has_all, "all are taken")


async def test_an_exact_sink_is_refused_on_a_topic_without_offsets(bench: Workbench) -> None:
    builder = bench.client.new_producer().with_topic(TOPIC).with_name("fast")
    async with builder.with_dispatch_strategy(DispatchStrategy.NON_RELIABLE).build():
        runner = await bench.run(MemorySide(MemoryExactSink).definition, {}, [ROUTE])

        async def has_failed() -> bool:
            return [state.status for state in runner.states] == [Status.FAILED]

        await until(has_failed, "its task has failed")
    assert "keeps no offsets" in (runner.problem() or "")


@pytest.mark.parametrize("later", [0, 3])
async def test_an_other_side_that_was_restored_is_filled_from_its_position(bench: Workbench, later: int) -> None:
    """What it says beats the cursor, whether or not a later record comes and shows the hole."""
    side = MemorySide(MemoryExactSink)
    await bench.produce(payloads(30))
    runner = await bench.run(side.definition, {}, [ROUTE])

    async def has(count: int) -> bool:
        return side.payloads == payloads(count)

    await until(lambda: has(30), "all are written")
    assert await runner.drain()
    side.payloads, side.ends = side.payloads[:12], dict.fromkeys(side.ends, 12)
    await bench.produce(payloads(later, first=30))
    await bench.run(side.definition, {}, [ROUTE])
    await until(lambda: has(30 + later), "what the restored side lacked is written again, in order")
    assert list(side.ends.values()) == [30 + later]


async def test_a_position_ahead_of_the_cursor_is_skipped(bench: Workbench) -> None:
    side = MemorySide(MemoryExactSink)
    await bench.produce(payloads(30))
    bounds = await bench.client.bounds(TOPIC)
    side.ends[Partition(TOPIC, bounds.topic_id).key] = 25
    await bench.run(side.definition, {}, [ROUTE])

    async def has_rest() -> bool:
        return side.payloads == payloads(5, first=25)

    await until(has_rest, "the rest alone is written")


async def test_a_topic_made_anew_begins_at_its_start(bench: Workbench) -> None:
    side = MemorySide(MemoryExactSink)
    await bench.produce(payloads(20))
    await bench.run(side.definition, {}, [ROUTE])

    async def has_first() -> bool:
        return len(side.payloads) == 20

    await until(has_first, "the first topic is written")
    await bench.delete()
    await bench.produce(payloads(10, first=100))

    async def has_second() -> bool:
        return side.payloads[20:] == payloads(10, first=100)

    await until(has_second, "the second topic is written from its start")
    assert sorted(side.ends.values()) == [10, 20]


async def test_partitions_that_come_later_are_read(bench: Workbench) -> None:
    side = MemorySide()
    await bench.produce(payloads(5), partitions=1)
    runner = await bench.run(side.definition, {}, [ROUTE])

    async def has_first() -> bool:
        return len(side.payloads) == 5

    await until(has_first, "the first partition is read")
    await bench.produce(payloads(20, first=5), partitions=3)

    async def has_all() -> bool:
        return set(side.payloads) == set(payloads(25))

    await until(has_all, "the new partitions are read")
    assert sorted(state.task for state in runner.states) == [f"{TOPIC}-part-{index}" for index in range(3)]


async def test_a_second_runner_stands_by_and_takes_over(bench: Workbench) -> None:
    side = MemorySide()
    await bench.create()
    first = await bench.run(side.definition, {}, [ROUTE])

    async def runs() -> bool:
        return [state.status for state in first.states] == [Status.RUNNING]

    await until(runs, "the first runner has the place")
    second = await bench.run(side.definition, {}, [ROUTE])

    async def stands_by() -> bool:
        return [state.status for state in second.states] == [Status.STANDBY]

    await until(stands_by, "the second one stands by")
    await first.close()
    await bench.produce(payloads(5))

    async def has_all() -> bool:
        return side.payloads == payloads(5)

    await until(has_all, "the second one takes over")


async def test_a_generator_is_a_source_that_resumes(bench: Workbench) -> None:
    asked: list[Any] = []

    @source(topic=TOPIC)
    async def numbers(after: int | None) -> AsyncIterator[tuple[Any, int] | Out[Any]]:
        asked.append(after)
        for number in range((after or 0) + 1, 4):
            yield {"n": number}, number

    assert defined(numbers).delivery is Delivery.EXACTLY_ONCE
    await bench.run(defined(numbers), {}, [])

    async def is_asked_again() -> bool:
        return len(asked) >= 2

    await until(is_asked_again, "a source at its end is asked again")
    assert [message.payload for message in await bench.stored()] == [b'{"n":1}', b'{"n":2}', b'{"n":3}']
    assert asked[:2] == [None, 3]


async def test_a_record_without_a_position_is_a_wrong_configuration(bench: Workbench) -> None:
    @source(topic=TOPIC)
    async def wrong(after: Any) -> AsyncIterator[Out[bytes]]:
        del after
        yield Out(b"x")

    runner = await bench.run(defined(wrong), {}, [])

    async def has_failed() -> bool:
        return [state.status for state in runner.states] == [Status.FAILED]

    await until(has_failed, "its task has failed")
    assert "without a position" in (runner.problem() or "")


def test_what_is_no_sink_is_refused_where_it_is_decorated() -> None:
    with pytest.raises(SettingsError, match="make it an `async def`"):

        @sink
        def plain(batch: Batch[bytes]) -> None:
            del batch


async def test_a_class_has_a_life_of_its_own_for_each_task(bench: Workbench) -> None:
    lives: list[str] = []

    @sink
    class Noting(Sink[bytes]):
        async def open(self) -> None:
            lives.append("open")

        async def write(self, batch: Batch[bytes]) -> None:
            lives.extend(value.decode() for value in batch.values)

        async def close(self) -> None:
            lives.append("close")

    await bench.produce([b"one"])
    runner = await bench.run(defined(Noting), {}, [ROUTE])

    async def has_one() -> bool:
        return "one" in lives

    await until(has_one, "it is taken")
    assert await runner.drain()
    assert lives == ["open", "one", "close"]
