"""Clients belong to the event loop in which they were built: another one gets a sentence, and no traceback."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

import pytest

from danube.client import DanubeClient, DanubeClientBuilder, UnrecoverableError
from danube.client.consume.consumer import Consumer
from danube.client.message import Message
from danube.client.publish.producer import Producer
from danube.model.calls.client import ReceivedMessage
from danube.model.topic import DispatchStrategy
from danube.runtime.blocking import run_apart
from danube.runtime.clock import SystemClock
from danube.testing.simulated.network import MemoryCarrier
from tests.unit.client.fake_broker import FakeBroker

MESSAGE = Message(ReceivedMessage(0, 0, "/default/jobs", "", 0, b"", 0, ""))

Used = tuple[DanubeClient, Producer, Consumer]
USES: dict[str, Callable[[Used], Awaitable[object]]] = {
    "send": lambda used: used[1].send(b"two"),
    "send_many": lambda used: used[1].send_many([b"two"]),
    "create": lambda used: used[1].create(),
    "receive": lambda used: used[2].receive(),
    "receive_many": lambda used: used[2].receive_many(),
    "ack": lambda used: used[2].ack(MESSAGE),
    "close a producer": lambda used: used[1].close(),
    "close a consumer": lambda used: used[2].close(),
    "close": lambda used: used[0].close(),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
async def test_client_in_a_second_event_loop_says_so_and_goes_on_in_its_own(
    use: Callable[[Used], Awaitable[object]], caplog: pytest.LogCaptureFixture
) -> None:
    carrier = MemoryCarrier(SystemClock())
    broker = FakeBroker(carrier, "memory:6650")
    await broker.start()
    client = await DanubeClientBuilder().service_url("http://memory:6650").with_carrier(carrier).build()
    producer = client.new_producer().with_topic("/default/jobs").with_name("p")
    sending = producer.with_dispatch_strategy(DispatchStrategy.RELIABLE).build()
    await sending.create()
    building = client.new_consumer().with_topic("/default/jobs").with_consumer_name("c").with_subscription("s")
    consumer = building.build()
    await consumer.subscribe()

    async def second() -> None:
        await use((client, sending, consumer))

    with caplog.at_level(logging.ERROR), pytest.raises(UnrecoverableError, match="event loop that it was built in"):
        await run_apart("second loop", lambda: asyncio.run(second()))
    assert not [record for record in caplog.records if record.exc_info]
    assert await sending.send(b"three")
    await client.close()
    await broker.stop()
