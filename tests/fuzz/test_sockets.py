"""Hostile bytes on real sockets, below gRPC and above it: the process goes on, without a traceback, within bounds."""

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from danube.model.calls.stream import PublishOpen
from danube.model.errors import DanubeError, LimitReachedError
from danube.model.limits.broker import CACHE_BYTES_MAX, MIB, RPC_METADATA_BYTES_MAX, RPC_RECEIVE_BYTES_MAX
from danube.model.topic import DispatchStrategy, TopicName
from danube.rpc.address import split_address
from danube.rpc.grpc.carrier import GrpcCarrier
from danube.runtime.clock import SystemClock
from danube.testing.peers.admin import AdminPeer
from danube.testing.peers.client import Peer
from danube.testing.processes.broker import BrokerProcess
from danube.wire import encode
from tests.fuzz.calls import Call, Ending, calls
from tests.fuzz.judge import ROUNDS, Judge, LogWatch, prepare

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(120)]

INPUTS = max(300, ROUNDS // 10)
GROWTH_BYTES_MAX = CACHE_BYTES_MAX + 128 * MIB
"""The cache of recent batches, and as much again for connections and for what is under way."""
READ_TIMEOUT_S = 0.2
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS = bytes(3) + b"\x04" + bytes(5)
PING = b"\x00\x00\x08\x06" + bytes(5) + b"danube!!"
RNG = random.Random(1)

ON_THE_WIRE = {
    "nothing": b"",
    "http 1.1": b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n",
    "a tls hello": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + RNG.randbytes(508),
    "noise": RNG.randbytes(100_000),
    "a preface and noise": PREFACE + SETTINGS + RNG.randbytes(100_000),
    "half a preface": PREFACE[:11],
    "a frame without an end": PREFACE + SETTINGS + b"\xff\xff\xff\x00\x00" + bytes(4) + bytes(1_000),
    "a flood of settings": PREFACE + SETTINGS * 20_000,
    "a flood of pings": PREFACE + SETTINGS + PING * 20_000,
    "headers that never end": PREFACE
    + SETTINGS
    + (b"\x00\x00\x01\x01\x00\x00\x00\x00\x01\x82")
    + (b"\x00\x40\x00\x09\x00\x00\x00\x00\x01" + RNG.randbytes(0x4000)) * 50,
}


@asynccontextmanager
async def judged_process(broker: BrokerProcess) -> AsyncIterator[Judge]:
    async with AsyncExitStack() as parts:
        carrier = GrpcCarrier(SystemClock())
        client, admin = carrier.connect(broker.endpoints.broker), carrier.connect(broker.endpoints.admin)
        parts.push_async_callback(client.close)
        parts.push_async_callback(admin.close)
        calm_id, calm = await prepare(Peer(client))
        parts.callback(calm.close)
        yield Judge(client, AdminPeer(admin), LogWatch(), calm_id, calm)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """With the bounds of its memory and the silence of its log held against it at the end."""
    with BrokerProcess(tmp_path / "data") as process:
        before = process.resident_bytes()
        yield process
        assert process.is_running, process.log()[-2_000:]
        assert process.resident_bytes() - before < GROWTH_BYTES_MAX
        assert "Traceback" not in process.log(), process.log()[-4_000:]


@pytest.fixture
async def judge(broker: BrokerProcess) -> AsyncIterator[Judge]:
    async with judged_process(broker) as judge:
        yield judge
        await judge.check_neighbour()


async def test_bytes_that_are_no_conversation_disturb_no_other(
    broker: BrokerProcess, judge: Judge, subtests: pytest.Subtests
) -> None:
    for name, sent in ON_THE_WIRE.items():
        with subtests.test(name):
            await disturbed(broker, judge, sent)


async def disturbed(broker: BrokerProcess, judge: Judge, sent: bytes) -> None:
    """Say this on twenty connections that stay open, and look at another client each time."""
    async with AsyncExitStack() as connections:
        for _ in range(20):
            reader, writer = await asyncio.open_connection(*split_address(broker.endpoints.broker))
            connections.callback(writer.close)
            try:
                writer.write(sent)
                async with asyncio.timeout(READ_TIMEOUT_S):
                    await writer.drain()
                    await reader.read(1_000)
            except (OSError, TimeoutError):
                pass
            await judge.check_neighbour()


async def test_metadata_and_messages_that_are_too_large_fail_alone(judge: Judge) -> None:
    path = "/danube.ProducerService/SendMessage"
    with pytest.raises(DanubeError):
        await judge.channel.call(path, b"", metadata=[("x-bomb", "x" * 8 * RPC_METADATA_BYTES_MAX)])
    with pytest.raises(LimitReachedError):
        await judge.channel.call(path, bytes(RPC_RECEIVE_BYTES_MAX + 1))


async def test_streams_refused_while_more_is_on_its_way_are_ended_quietly(judge: Judge) -> None:
    absent = encode.publish_open(
        PublishOpen(topic=TopicName("absent", "t"), producer_name="p", strategy=DispatchStrategy.RELIABLE)
    )
    again = Call("/danube.stream.StreamService/Publish", (absent,) * 3, is_stream=True)
    for ending in (Ending.STAY, Ending.HALF_CLOSE):
        for _ in range(20):
            await judge.try_all([replace(again, ending=ending)] * 10)


@pytest.mark.timeout(0)
def test_no_input_makes_a_broker_process_fail(broker: BrokerProcess) -> None:
    with asyncio.Runner() as runner:
        parts = AsyncExitStack()
        judge = runner.run(parts.enter_async_context(judged_process(broker)))

        @settings(max_examples=INPUTS // 10, deadline=None, print_blob=True, suppress_health_check=list(HealthCheck))
        @given(st.lists(calls(), min_size=10, max_size=10))
        def inputs(several: list[Call]) -> None:
            runner.run(judge.try_all(several))

        inputs()
        runner.run(parts.aclose())
