"""De-duplication and exclusive producers over real sockets, by a real broker that is killed."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest

from danube.client import DanubeClient, DanubeClientBuilder, DispatchStrategy, ProducerAccess, ProducerBuilder
from danube.client.publish.producer import ProducerOptions
from danube.model.errors import ProducerFencedError
from danube.testing.patience import PATIENCE_S
from danube.testing.processes.broker import BrokerProcess

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]

TOPIC = "/default/orders"
BATCHES_BETWEEN_KILLS = 8


@pytest.fixture
async def client(broker: BrokerProcess) -> AsyncIterator[DanubeClient]:
    async with await DanubeClientBuilder().service_url(broker.endpoints.service_url).build() as client:
        yield client


def reliable(client: DanubeClient, name: str = "p") -> ProducerBuilder:
    builder = client.new_producer().with_topic(TOPIC).with_name(name)
    builder.with_options(ProducerOptions(retry_total_s=PATIENCE_S))
    return builder.with_dispatch_strategy(DispatchStrategy.RELIABLE)


async def fetched(client: DanubeClient) -> list[bytes]:
    async with aclosing(client.fetch(TOPIC)) as messages:
        return [message.payload async for message in messages]


async def test_kill_9_again_and_again_stores_each_message_once(broker: BrokerProcess, client: DanubeClient) -> None:
    stored: list[tuple[int, int]] = []
    kills = iter(range(1, 5))

    async def source() -> AsyncIterator[bytes]:
        kill = next(kills)
        for number in itertools.count():
            if len(stored) >= kill * BATCHES_BETWEEN_KILLS:
                await asyncio.to_thread(broker.kill)
                await asyncio.to_thread(broker.launch)
                following = next(kills, None)
                if following is None:
                    return
                kill = following
            yield b"%09d" % number + bytes(1_000)
            await asyncio.sleep(0)

    async with reliable(client).with_deduplication().build() as producer:
        count = await producer.send_many(source(), on_stored=lambda one: stored.append((one.first_offset, one.count)))
    assert [int(payload[:9]) for payload in await fetched(client)] == list(range(count))
    ends = list(itertools.accumulate(records for _, records in stored))
    assert ([first for first, _ in stored], ends[-1]) == ([0, *ends[:-1]], count)


async def test_epochs_outlive_kill_9(broker: BrokerProcess, client: DanubeClient) -> None:
    taking_over = ProducerAccess.EXCLUSIVE_TAKE_OVER
    async with (
        reliable(client, "old").with_access(ProducerAccess.EXCLUSIVE).build() as old,
        reliable(client, "new").with_access(taking_over).build() as new,
    ):
        await old.send_many([b"old"])
        await new.send_many([b"new"])
        await asyncio.to_thread(broker.kill)
        await asyncio.to_thread(broker.launch)
        with pytest.raises(ProducerFencedError, match="another exclusive producer has taken the topic over"):
            await old.send_many([b"late"])
        await new.send_many([b"newer"])
    assert await fetched(client) == [b"old", b"new", b"newer"]
