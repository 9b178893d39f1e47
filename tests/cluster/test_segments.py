"""Segments of a real broker that is killed: history outlives it, and of a deleted topic nothing is left."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager, suppress
from pathlib import Path

import pytest

from danube.client import DanubeClient, DanubeClientBuilder, DispatchStrategy
from danube.model.limits.broker import MIB
from danube.model.topic import TopicName
from danube.rpc.grpc.carrier import GrpcCarrier
from danube.runtime.clock import SystemClock
from danube.testing.patience import PATIENCE_S
from danube.testing.peers.admin import AdminPeer
from danube.testing.processes.broker import BrokerProcess

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]

TOPIC = TopicName("default", "orders")
MESSAGES, MESSAGE_BYTES = 400, 10_000
SETTINGS = {"journal_file_bytes_max": MIB, "segment_bytes_max": MIB, "cache_bytes_max": 0, "telemetry_interval_s": 0}


@pytest.fixture
def cutting(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A running broker whose journal is cut into segments every mebibyte."""
    with BrokerProcess(tmp_path / "data", settings=SETTINGS) as process:
        yield process


@asynccontextmanager
async def connected(broker: BrokerProcess) -> AsyncIterator[tuple[DanubeClient, AdminPeer]]:
    channel = GrpcCarrier(SystemClock()).connect(broker.endpoints.admin)
    try:
        async with await DanubeClientBuilder().service_url(broker.endpoints.service_url).build() as client:
            yield client, AdminPeer(channel)
    finally:
        await channel.close()


async def fill(client: DanubeClient) -> None:
    builder = client.new_producer().with_topic(str(TOPIC)).with_name("p")
    async with builder.with_dispatch_strategy(DispatchStrategy.RELIABLE).build() as producer:
        await producer.send_many(b"%06d" % number + bytes(MESSAGE_BYTES) for number in range(MESSAGES))


async def segments(admin: AdminPeer) -> int:
    (described,) = await admin.describe(TOPIC)
    assert described.storage is not None
    return described.storage.segments


async def is_flushed(admin: AdminPeer) -> None:
    """Wait until most of the topic is in segments."""
    async with asyncio.timeout(PATIENCE_S):
        while await segments(admin) < 2:
            pass


async def test_history_in_segments_outlives_kill_9(cutting: BrokerProcess) -> None:
    async with connected(cutting) as (client, admin):
        await fill(client)
        await is_flushed(admin)
    await asyncio.to_thread(cutting.kill)
    await asyncio.to_thread(cutting.start)
    async with connected(cutting) as (client, admin):
        assert await segments(admin) >= 2
        async with aclosing(client.fetch(str(TOPIC))) as messages:
            found = [int(message.payload[:6]) async for message in messages]
    assert found == list(range(MESSAGES))


async def test_a_topic_deleted_right_before_kill_9_leaves_no_file(cutting: BrokerProcess) -> None:
    async with connected(cutting) as (client, admin):
        await fill(client)
        await is_flushed(admin)
        (described,) = await admin.describe(TOPIC)
        folder = cutting.data_dir / "segments" / str(described.topic_id)
        assert list(folder.iterdir())
        await admin.delete_topic(TOPIC)
    await asyncio.to_thread(cutting.kill)
    await asyncio.to_thread(cutting.start)
    async with connected(cutting) as (_, admin), asyncio.timeout(PATIENCE_S):
        assert await admin.topics("default") == ()
        while folder.exists():
            await admin.describe_broker()
        while journal_bytes(cutting) > 2 * MIB:  # what it was cut from goes a moment later
            await admin.describe_broker()


def journal_bytes(broker: BrokerProcess) -> int:
    """Of the files that are there; one may go while they are counted."""
    total = 0
    for file in broker.data_dir.glob("journal/*.journal"):
        with suppress(FileNotFoundError):
            total += file.stat().st_size
    return total
