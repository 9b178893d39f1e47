"""Messages that are made to be expensive arrive at a broker, and its event loop goes on meanwhile."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from math import inf
from pathlib import Path
from random import Random
from typing import Any

import pytest

from danube.client import DanubeClient, DanubeClientBuilder
from danube.model.calls.client import OutgoingMessage
from danube.model.errors import SchemaInvalidError, SchemaRefusedError
from danube.model.limits.broker import MIB
from danube.model.schema import SchemaType
from danube.model.topic import DispatchStrategy, TopicName
from danube.testing.in_process_broker import Cell, running_broker
from danube.testing.patience import PATIENCE_S
from danube.wire import encode
from tests.fuzz.hostile_payloads import JSON_VALUES, Binary, binaries, json_schema
from tests.fuzz.test_expensive_payloads import HELD_S_MAX

BYTES = 900_000
BEAT_S = 0.001
REPEATS = 3

pytestmark = pytest.mark.timeout(4 * PATIENCE_S)


def json_case(schema: Any, value: Any) -> Binary:
    return Binary(SchemaType.JSON_SCHEMA, json.dumps(schema), lambda _size: json.dumps(value).encode())


PATTERNS = [{"pattern": f"^(a|b|c|aa|bb)*{number}$"} for number in range(60)]
WORST = {
    "sixty patterns": json_case({"items": {"anyOf": PATTERNS}}, ["a" * 90] * 9_000),
    "sixty patterns, the last one fits": json_case({"items": {"anyOf": PATTERNS}}, ["a" * 90 + "59"] * 9_000),
    "unique items": json_case({"uniqueItems": True}, [[number] for number in range(100_000)]),
    "unique items of lists": json_case({"items": {"uniqueItems": True}}, [[*range(15)]] * 18_000),
    "plain": json_case({}, [1] * 300_000),
}


class Arrivals:
    """Messages at one broker, each for a topic of its own with the schema of its kind."""

    def __init__(self, cell: Cell, client: DanubeClient) -> None:
        self._cell = cell
        self._client = client
        self._topics = 0

    async def held_s(self, case: Binary, in_a_batch: int = 1) -> float | None:
        """Processor time that the event loop was held for, at the longest; None for a schema that is refused."""
        self._topics += 1
        name = f"t{self._topics}"
        topic = TopicName("default", name)
        registering = self._client.schema().register_schema(name).with_type(case.kind)
        try:
            schema_id = await registering.with_schema_data(case.definition.encode()).execute()
        except SchemaInvalidError:
            return None
        building = self._client.new_producer().with_topic(str(topic)).with_name("first").with_schema_subject(name)
        producer = building.with_dispatch_strategy(DispatchStrategy.RELIABLE).build()
        await producer.create()
        await self._client.schema().configure_topic_schema(str(topic), name, "enforce", True)
        producer_id, payload = await self._cell.client.create_producer(topic), case.payload(BYTES)
        message = OutgoingMessage(
            7, producer_id, str(topic), "http://peer", payload, 1, "producer", attributes={}, schema_id=schema_id,
            schema_version=1,
        )  # fmt: skip
        if in_a_batch > 1:
            return await held_s(lambda: producer.send_many([payload] * in_a_batch))
        request = encode.send_message(message)
        return await held_s(lambda: self._cell.client.call("/danube.ProducerService/SendMessage", request))


async def held_s(send: Callable[[], Awaitable[object]]) -> float:
    """The least of some repeats, for garbage may be collected during one of them."""
    least_s = inf
    for _ in range(REPEATS):
        async with asyncio.timeout(PATIENCE_S):
            with heartbeat() as turns, suppress(SchemaRefusedError):
                await send()
        least_s = min(least_s, max(turns))
        if least_s < HELD_S_MAX:
            break
    return least_s


@contextmanager
def heartbeat() -> Iterator[list[float]]:
    """Processor time of the loop's thread between two beats: what other processes do with the machine is not in it."""
    loop, times_s, turns = asyncio.get_running_loop(), [time.thread_time()], list[float]()

    def beat() -> None:
        times_s.append(time.thread_time())
        turns.append(times_s[-1] - times_s[-2])
        if not ended:
            loop.call_later(BEAT_S, beat)

    ended: list[bool] = []
    loop.call_later(BEAT_S, beat)
    try:
        yield turns
    finally:
        ended.append(True)
        turns.append(time.thread_time() - times_s[-1])


@asynccontextmanager
async def arrivals(data_dir: Path) -> AsyncIterator[Arrivals]:
    async with running_broker(data_dir) as cell:
        builder = DanubeClientBuilder().service_url(f"http://{cell.broker.addresses.broker}").with_carrier(cell.carrier)
        async with await builder.build() as client:
            yield Arrivals(cell, client)


@pytest.fixture
async def arriving(tmp_path: Path) -> AsyncIterator[Arrivals]:
    async with arrivals(tmp_path / "data") as found:
        yield found


@pytest.mark.parametrize("kind", WORST)
async def test_a_message_that_is_made_to_be_expensive_holds_the_loop_for_less_than_50_ms(
    arriving: Arrivals, kind: str
) -> None:
    held_s = await arriving.held_s(WORST[kind])
    assert held_s is not None
    assert held_s < HELD_S_MAX


async def test_a_large_batch_of_ordinary_messages_holds_the_loop_for_less_than_50_ms(
    arriving: Arrivals, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("accumulator", "sender"):  # our client sends smaller ones, and others need not
        monkeypatch.setattr(f"danube.client.publish.{module}.CLIENT_BATCH_BYTES", 4 * MIB)
    text = {"anyOf": [*PATTERNS[:5], {"maxLength": 200}]}
    fields = dict.fromkeys([f"field{number}" for number in range(20)], text)
    case = json_case({"type": "object", "properties": fields}, dict.fromkeys(fields, "a" * 35))
    held_s = await arriving.held_s(case, in_a_batch=4_000)
    assert held_s is not None
    assert held_s < HELD_S_MAX


async def test_random_messages_hold_the_loop_for_less_than_50_ms(arriving: Arrivals, seeds: list[int]) -> None:
    await check_seeds(arriving, seeds[:2])


@pytest.mark.nightly
@pytest.mark.timeout(60 * PATIENCE_S)
async def test_many_random_messages_hold_the_loop_for_less_than_50_ms(arriving: Arrivals) -> None:
    await check_seeds(arriving, [*range(10_000, 10_050)])


async def check_seeds(arriving: Arrivals, seeds: list[int]) -> None:
    """A message of JSON, one of Avro and one of Protobuf for each seed."""
    of_kind = [[case for case in binaries() if case.kind is kind] for kind in (SchemaType.AVRO, SchemaType.PROTOBUF)]
    for seed in seeds:
        random = Random(seed)
        by_json = json_case(json_schema(random), random.choice(JSON_VALUES)(random, BYTES))
        for case in (by_json, *map(random.choice, of_kind)):
            assert (await arriving.held_s(case) or 0.0) < HELD_S_MAX, (seed, case.definition[:500])
