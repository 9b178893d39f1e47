"""Connections that break at any byte, both ways: nothing acknowledged is lost, everything arrives, order holds.

`DANUBE_CUTS=1000` tries more places to cut at; the places of a run follow from `SEED`.
"""

import asyncio
import itertools
import json
import os
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from pathlib import Path

import pytest

from danube.client import (
    Consumer,
    ConsumerOptions,
    DanubeClient,
    DanubeClientBuilder,
    DispatchStrategy,
    Producer,
    ProducerOptions,
)
from danube.client.publish.sender import StoredRange
from danube.testing.patience import PATIENCE_S
from danube.testing.peers.proxy import Cut, CuttingProxy, Direction
from danube.testing.processes.broker import BrokerProcess

CUTS = int(os.environ.get("DANUBE_CUTS", "40"))
SEED = int(os.environ.get("SEED", "1"))
pytestmark = [pytest.mark.cluster, pytest.mark.timeout(60 + 4 * CUTS)]

TOPIC = "/default/cut"
MESSAGES = 6
"""Of one conversation; a round has as many as it takes to meet its cut."""
CONVERSATION_BYTES = 1_500
"""Roughly what they take in one direction: the range in which cuts are placed."""
ROUND_TIMEOUT_S = PATIENCE_S
RETRY_S = ROUND_TIMEOUT_S
"""Of one row of failures: what arrives ends the row, however many cuts there are."""
WHEEL_PROGRAM = Path(__file__).parent / "wheel" / "cut_program.py"
WHEEL_CUTS = max(6, CUTS // 10)
"""Fewer: after a loss the wheel's channel waits for a second or more before it connects again."""
WHEEL_TIMEOUT_S = PATIENCE_S + 10 * WHEEL_CUTS


@pytest.fixture
async def proxy() -> AsyncIterator[CuttingProxy]:
    async with CuttingProxy() as proxy:
        yield proxy


@pytest.fixture
async def broker(proxy: CuttingProxy, tmp_path: Path) -> AsyncIterator[BrokerProcess]:
    # A message that two breaks in a row meet would wait, and others overtake it: here the breaks are no fault of it.
    settings = {"disconnects_fail": "false"}
    process = BrokerProcess(tmp_path / "data", flags=["--advertised-addr", proxy.address], settings=settings)
    try:
        proxy.target = (await asyncio.to_thread(process.start)).broker
        yield process
        assert "Traceback" not in await asyncio.to_thread(process.log)
    finally:
        await asyncio.to_thread(process.kill)


@pytest.fixture
async def client(broker: BrokerProcess, proxy: CuttingProxy) -> AsyncIterator[DanubeClient]:
    """Ours; its producer and consumer share one connection."""
    async with await DanubeClientBuilder().service_url(f"http://{proxy.address}").build() as client:
        yield client


@pytest.fixture
async def producer(client: DanubeClient) -> AsyncIterator[Producer]:
    options = ProducerOptions(base_backoff_ms=10, max_backoff_ms=50, retry_total_s=RETRY_S)
    builder = client.new_producer().with_topic(TOPIC).with_name("p").with_options(options)
    async with builder.with_dispatch_strategy(DispatchStrategy.RELIABLE).build() as producer:
        yield producer


@pytest.fixture
async def consumer(client: DanubeClient, producer: Producer) -> AsyncIterator[Consumer]:
    options = ConsumerOptions(base_backoff_ms=10, max_backoff_ms=50, retry_total_s=RETRY_S)
    builder = client.new_consumer().with_topic(TOPIC).with_consumer_name("c").with_subscription("s")
    async with builder.with_options(options).build() as consumer:
        yield consumer


def places(seed: int) -> list[Cut]:
    """Where to cut: spread evenly over the conversation, at another byte of each stretch for every seed."""
    rng = random.Random(seed)
    stretch = max(1, 2 * CONVERSATION_BYTES // CUTS)
    starts = range(0, CUTS // 2 * stretch, stretch)
    cuts = [Cut(start + rng.randrange(stretch), direction) for start in starts for direction in Direction]
    rng.shuffle(cuts)
    return cuts


def conversations(number: int) -> Iterator[list[bytes]]:
    """What a round sends until its cut is met; each payload once."""
    return ([b"%d-%d-%d" % (number, turn, index) for index in range(MESSAGES)] for turn in itertools.count())


async def send_all(producer: Producer, payloads: list[bytes]) -> None:
    for payload in payloads:
        await producer.send(payload)


async def take(consumer: Consumer, last: bytes, got: dict[int, bytes]) -> None:
    """Take and acknowledge up to `last`; what came twice must have come as it was."""
    queue = await consumer.receive()
    payload = b""
    while payload != last:
        message = await queue.get()
        payload = message.payload
        assert got.setdefault(message.msg_id.topic_offset, message.payload) == message.payload
        await consumer.ack(message)


async def test_our_client_loses_nothing_wherever_its_connection_breaks(
    producer: Producer, consumer: Consumer, proxy: CuttingProxy
) -> None:
    got: dict[int, bytes] = {}
    sent: list[bytes] = []
    for number, cut in enumerate(places(SEED)):
        proxy.cut([cut])
        try:
            async with asyncio.timeout(ROUND_TIMEOUT_S):
                for payloads in conversations(number):
                    sent += payloads
                    await asyncio.gather(send_all(producer, payloads), take(consumer, payloads[-1], got))
                    if not proxy.cuts_left:
                        break
        except Exception as error:
            raise AssertionError(f"seed {SEED}, round {number}, {cut}: {len(got)} of {len(sent)} read") from error
    assert list(got) == list(range(len(got))), f"seed {SEED}: offsets out of order, or with gaps"
    assert list(dict.fromkeys(got.values())) == sent, f"seed {SEED}"
    assert proxy.cuts_made == CUTS // 2 * 2


async def test_batches_arrive_wherever_their_connection_breaks(
    client: DanubeClient, producer: Producer, proxy: CuttingProxy
) -> None:
    sent: list[bytes] = []
    told: list[tuple[int, list[bytes]]] = []
    for number, cut in enumerate(places(SEED)):
        proxy.cut([Cut(cut.after_bytes // 4, cut.direction)])
        async with asyncio.timeout(ROUND_TIMEOUT_S):
            for payloads in conversations(number):
                stored: list[StoredRange] = []
                await producer.send_many(payloads, on_stored=stored.append)
                sent += payloads
                rest = iter(payloads)
                told += [(one.first_offset, list(itertools.islice(rest, one.count))) for one in stored]
                if not proxy.cuts_left:
                    break
    async with aclosing(client.fetch(TOPIC)) as messages:
        found = [message.payload async for message in messages]
    assert list(dict.fromkeys(found)) == sent, f"seed {SEED}"
    for first, payloads in told:
        assert found[first : first + len(payloads)] == payloads, f"seed {SEED}, offset {first}"
    assert proxy.cuts_made == CUTS // 2 * 2


async def test_the_published_client_loses_nothing_wherever_its_connection_breaks(
    broker: BrokerProcess, proxy: CuttingProxy, wheel_python: Path
) -> None:
    command = [str(wheel_python), "-I", str(WHEEL_PROGRAM), f"http://{proxy.address}"]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=pipe)
    assert process.stdin and process.stdout and process.stderr
    assert await process.stdout.readline() == b"ready\n", (await process.stderr.read()).decode()[-2_000:]
    said = asyncio.gather(process.stdout.read(), process.stderr.read())  # always: it stops where nobody reads
    try:
        async with asyncio.timeout(WHEEL_TIMEOUT_S):
            proxy.cut(places(SEED)[:WHEEL_CUTS])
            process.stdin.write(b"go\n")
            await proxy.wait_for_cuts()
            process.stdin.write(b"enough\n")
            await process.wait()
    except TimeoutError:
        process.kill()
    out, errors = await said
    await process.wait()
    assert process.returncode == 0, f"seed {SEED}, {proxy.cuts_left} cuts not met: {errors.decode()[-2_000:]}"
    seen = json.loads(out.splitlines()[-1])
    got = dict(zip(seen["offsets"], seen["numbers"], strict=True))
    assert list(got) == list(range(len(got))), f"seed {SEED}: offsets out of order, or with gaps: {seen}"
    assert list(dict.fromkeys(got.values())) == list(range(seen["sent"])), f"seed {SEED}: {seen}"
    assert proxy.cuts_made == WHEEL_CUTS
