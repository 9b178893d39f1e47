"""Messages whose check is expensive: it holds up neither the broker nor other producers, and keeps their order."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from danube.broker.schemas.versions import SchemaVersions
from danube.client.client import DanubeClient, DanubeClientBuilder
from danube.client.publish.producer import Producer
from danube.model.calls.client import OutgoingMessage
from danube.model.errors import OverloadedError, SchemaRefusedError
from danube.model.schema import SchemaType
from danube.model.topic import DispatchStrategy, TopicName
from danube.runtime.payload_checks.process import CheckProcess
from danube.schema.validation import Judgement
from danube.testing.in_process_broker import Cell, StartBroker
from danube.testing.patience import LONG_S, PATIENCE_S
from danube.wire import encode

TOPIC = TopicName("default", "orders")
LISTED = {"items": {"not": {"enum": [number + 0.5 for number in range(500)]}}}
LIGHT, HEAVY, BOMB = b"[1.25]", b"[" + b"1.25," * 99 + b"1.25]", b"[" + b"1.25," * 99_999 + b"1.25]"
WRONG = b"[" + b"1.25," * 99 + b"1.5]"

pytestmark = pytest.mark.timeout(2 * PATIENCE_S)


@asynccontextmanager
async def enforced(cell: Cell, schema: Any, policy: str = "enforce") -> AsyncIterator[tuple[DanubeClient, int]]:
    """A client, and the schema id that the topic follows."""
    builder = DanubeClientBuilder().service_url(f"http://{cell.broker.addresses.broker}").with_carrier(cell.carrier)
    async with await builder.build() as client:
        registering = client.schema().register_schema("orders").with_type(SchemaType.JSON_SCHEMA)
        schema_id = await registering.with_schema_data(json.dumps(schema).encode()).execute()
        await producer_of(client, "first").create()
        await client.schema().configure_topic_schema(str(TOPIC), "orders", policy, True)
        yield client, schema_id


def producer_of(client: DanubeClient, name: str) -> Producer:
    builder = client.new_producer().with_topic(str(TOPIC)).with_name(name).with_schema_subject("orders")
    return builder.with_dispatch_strategy(DispatchStrategy.RELIABLE).build()


async def sent_alone(cell: Cell, producer_id: int, schema_id: int, payload: bytes) -> None:
    message = OutgoingMessage(
        7, producer_id, str(TOPIC), "http://peer", payload, 1, "producer", attributes={}, schema_id=schema_id,
        schema_version=1,
    )  # fmt: skip
    await cell.client.call("/danube.ProducerService/SendMessage", encode.send_message(message))


async def received(client: DanubeClient, sending: Any, count: int) -> list[bytes]:
    """What a consumer receives of what is sent meanwhile."""
    consuming = client.new_consumer().with_topic(str(TOPIC)).with_consumer_name("c").with_subscription("s")
    found: list[bytes] = []
    async with consuming.build() as consumer, asyncio.timeout(PATIENCE_S):
        await sending
        while len(found) < count:
            found += [each.payload for each in await consumer.receive_many(count - len(found), timeout_s=LONG_S)]
    return found


async def test_messages_that_are_checked_apart_keep_the_order_of_their_producer(start_broker: StartBroker) -> None:
    cell = await start_broker()
    order = [LIGHT, HEAVY, b"[1]", HEAVY, b"[2]", b"[3]"]
    async with enforced(cell, LISTED) as (client, schema_id):
        producer_id = await cell.client.create_producer(TOPIC)
        sending = asyncio.gather(*(sent_alone(cell, producer_id, schema_id, payload) for payload in order))
        assert await received(client, sending, len(order)) == order


async def test_batches_that_are_checked_apart_keep_their_order(start_broker: StartBroker) -> None:
    order = [LIGHT, HEAVY, b"[1]", HEAVY, b"[2]", b"[3]"]
    async with enforced(await start_broker(), LISTED) as (client, _):
        producer = producer_of(client, "p")
        await producer.create()
        sending = asyncio.gather(*(producer.send(payload) for payload in order))
        assert await received(client, sending, len(order)) == order


async def test_what_is_found_apart_is_refused_with_its_record_and_its_field(start_broker: StartBroker) -> None:
    cell = await start_broker()
    async with enforced(cell, LISTED) as (client, schema_id):
        producer = producer_of(client, "p")
        await producer.create()
        with pytest.raises(SchemaRefusedError, match="record 2 of the batch does not follow its schema: /99"):
            await producer.send_many([HEAVY, HEAVY, WRONG])
        producer_id = await cell.client.create_producer(TOPIC)
        with pytest.raises(SchemaRefusedError, match="the payload does not follow its schema: /99"):
            await sent_alone(cell, producer_id, schema_id, WRONG)


async def test_a_bomb_is_refused_with_a_next_step_while_others_go_on(
    start_broker: StartBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("danube.broker.schemas.versions.SCHEMA_OVERRUN_REST_S", 0.0)
    cell = await start_broker()
    async with enforced(cell, LISTED) as (client, schema_id):
        producer, other = producer_of(client, "p"), producer_of(client, "other")
        await producer.create()
        await other.create()
        alone = await cell.client.create_producer(TOPIC)
        bombs = asyncio.gather(producer.send(BOMB), sent_alone(cell, alone, schema_id, BOMB), return_exceptions=True)
        passed = 0
        while not bombs.done():
            await other.send(LIGHT)
            passed += 1
        for refused in await bombs:
            assert isinstance(refused, SchemaRefusedError)
            assert "too expensive to check" in str(refused)
            assert "send smaller messages or batches, or simplify the schema" in str(refused)
        assert passed > 100
        await sent_alone(cell, alone, schema_id, HEAVY)


async def test_a_warning_lets_a_bomb_through(start_broker: StartBroker) -> None:
    async with enforced(await start_broker(), LISTED, "warn") as (client, _):
        producer = producer_of(client, "p")
        await producer.create()
        assert await received(client, producer.send(BOMB), 1) == [BOMB]


async def test_messages_that_wait_for_checks_have_bounded_room(
    start_broker: StartBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell, go_on = await start_broker(), asyncio.Event()

    async def judge(*_arguments: object, **_named: object) -> None:
        await go_on.wait()

    monkeypatch.setattr(CheckProcess, "judge", judge)
    monkeypatch.setattr("danube.broker.schemas.versions.SCHEMA_OVERRUN_REST_S", 0.0)
    monkeypatch.setattr("danube.broker.schemas.gate.SCHEMA_CHECKS_WAITING_BYTES", 2 * len(BOMB))
    async with enforced(cell, LISTED, "warn") as (_, schema_id):
        producer_id = await cell.client.create_producer(TOPIC)
        waiting = asyncio.ensure_future(sent_alone(cell, producer_id, schema_id, BOMB))
        with pytest.raises(OverloadedError, match="wait for the check"):
            await asyncio.gather(*(sent_alone(cell, producer_id, schema_id, BOMB) for _ in range(2)))
        go_on.set()
        await waiting
        await sent_alone(cell, producer_id, schema_id, BOMB)


async def test_a_batch_of_ordinary_messages_is_checked_in_parts_without_the_process(
    start_broker: StartBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def judge(*_arguments: object, **_named: object) -> None:
        """No answer, so that it is refused."""

    monkeypatch.setattr(CheckProcess, "judge", judge)
    plain = b'"' + b"a" * 10_000 + b'"'
    async with enforced(await start_broker(), {"type": "string"}) as (client, _):
        producer = producer_of(client, "p")
        await producer.create()
        batch = [plain] * 100
        assert await received(client, producer.send_many(batch), len(batch)) == batch


async def test_a_topic_whose_check_took_too_long_leaves_the_process_to_others_for_a_while(
    start_broker: StartBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell, checks, rest = await start_broker(), list[int](), asyncio.Event()

    async def judge(*_arguments: object, **_named: object) -> Judgement | None:
        checks.append(1)
        return Judgement() if rest.is_set() else None

    monkeypatch.setattr(CheckProcess, "judge", judge)
    monkeypatch.setattr(SchemaVersions, "rest", lambda _versions: rest.wait())
    async with enforced(cell, LISTED) as (_, schema_id), asyncio.timeout(PATIENCE_S):
        heavy, light = [await cell.client.create_producer(TOPIC, name) for name in ("heavy", "light")]
        with pytest.raises(SchemaRefusedError, match="too expensive to check"):
            await sent_alone(cell, heavy, schema_id, BOMB)
        waiting = asyncio.ensure_future(sent_alone(cell, heavy, schema_id, HEAVY))
        await sent_alone(cell, light, schema_id, LIGHT)
        assert (len(checks), waiting.done()) == (1, False)
        rest.set()
        await waiting
