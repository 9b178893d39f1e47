import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from danube.client import DanubeClient, DanubeClientBuilder, UnrecoverableError
from danube.client.connection.connection import Connection
from danube.client.connection.paths import BrokerAddress
from danube.model.errors import BrokerUnreachableError, CancelledError, SettingsError
from danube.model.limits.broker import CLIENT_CHANNELS_MAX
from danube.model.topic import TopicName
from danube.rpc.grpc.carrier import GrpcCarrier
from danube.runtime.clock import SystemClock
from danube.runtime.rng import SystemRng
from danube.testing.patience import PATIENCE_S
from danube.testing.simulated.clock import SimClock
from danube.testing.simulated.network import MemoryCarrier
from tests.unit.client.fake_broker import FakeBroker

pytestmark = pytest.mark.slow  # together they take long

TOPIC = "/default/orders"


async def test_a_token_goes_with_every_call_and_is_asked_for_each_time(
    broker: FakeBroker, carrier: MemoryCarrier, clock: SimClock
) -> None:
    tokens = iter(f"token-{n}" for n in range(100))
    builder = DanubeClientBuilder().service_url(broker.url).with_carrier(carrier).with_clock(clock)
    client = await builder.with_token_supplier(lambda: next(tokens)).build()
    async with client, client.new_producer().with_topic(TOPIC).with_name("p").build() as producer:
        await producer.send(b"x")
    sent = [metadata["authorization"] for _, metadata in broker.metadata]
    assert sent == ["Bearer token-0", "Bearer token-1", "Bearer token-2"]


async def test_closing_the_client_closes_what_it_made(client: DanubeClient, broker: FakeBroker) -> None:
    producer = client.new_producer().with_topic(TOPIC).with_name("p").build()
    await producer.create()
    await client.close()
    with pytest.raises(UnrecoverableError, match="closed"):
        await producer.send(b"x")
    with pytest.raises(UnrecoverableError, match="the client is closed"):
        await client.new_producer().with_topic(TOPIC).with_name("q").build().create()


async def test_a_service_url_without_a_port_is_refused_when_building() -> None:
    with pytest.raises(SettingsError, match="http://host:port"):
        await DanubeClient.builder().service_url("http://localhost").build()


def test_a_missing_tls_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"ca\.pem .*No such file"):
        DanubeClientBuilder().with_tls(str(tmp_path / "ca.pem"))


async def test_a_token_never_travels_in_the_clear() -> None:
    """The broker speaks plain text, so a client with a token cannot reach it."""
    broker = FakeBroker(GrpcCarrier(SystemClock()), "127.0.0.1:0")
    await broker.start()
    builder = DanubeClientBuilder().service_url(broker.url).with_token("secret")
    async with await builder.build() as client:
        with pytest.raises(BrokerUnreachableError):
            await client.new_producer().with_topic(TOPIC).with_name("p").build().create()
    assert broker.calls == []
    await broker.stop()


async def test_over_real_sockets_messages_go_round_and_a_restart_is_survived() -> None:
    broker = FakeBroker(GrpcCarrier(SystemClock()), "127.0.0.1:0")
    await broker.start()
    async with AsyncExitStack() as running:
        running.push_async_callback(broker.stop)
        client = await running.enter_async_context(await DanubeClientBuilder().service_url(broker.url).build())
        await running.enter_async_context(asyncio.timeout(PATIENCE_S))
        producer = client.new_producer().with_topic(TOPIC).with_name("p").build()
        await producer.create()
        consumer = client.new_consumer().with_topic(TOPIC).with_consumer_name("c").with_subscription("s").build()
        await consumer.subscribe()
        queue = await consumer.receive()
        assert await producer.send_many(b"%d" % n for n in range(300)) == 300
        received = []
        for _ in range(300):
            message = await queue.get()
            received.append(message.payload)
            await consumer.ack_later(message)
        await consumer.flush_acks()
        # Calls of their own may overtake one another on their way.
        assert sorted(received) == sorted(b"%d" % n for n in range(300))
        await broker.stop()
        broker.forget_members()
        await broker.start()
        await producer.send(b"after")
        assert (await queue.get()).payload == b"after"


async def test_the_connection_unused_for_longest_is_closed_for_a_new_one(
    carrier: MemoryCarrier, broker: FakeBroker, clock: SimClock
) -> None:
    connection = Connection([broker.url], carrier, clock, SystemRng())
    first = await connection.open_exchange(BrokerAddress.direct(broker.url), "/danube.ConsumerService/ReceiveMessages")
    for port in range(CLIENT_CHANNELS_MAX):
        await connection.open_exchange(BrokerAddress.direct(f"http://memory:{10_000 + port}"), "/none/None")
    with pytest.raises(CancelledError, match="closed at this end"):
        await first.receive()
    await connection.partitions(TopicName.parse(TOPIC))  # on a new channel
    await connection.close()
