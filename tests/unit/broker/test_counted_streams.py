"""Streams in the counts of calls: each is counted once, when it ends, by how it ended."""

import asyncio
import re

import pytest

from danube.model.errors import CancelledError, ConsumerNotFoundError, DanubeError
from danube.model.topic import TopicName
from danube.rpc.address import split_address
from danube.testing.in_process_broker import Cell, StartBroker
from danube.testing.patience import PATIENCE_S
from tests.unit.broker.network import until

_SAMPLE = re.compile(
    r'danube_broker_rpc_total\{method="danube.ConsumerService/ReceiveMessages",outcome="(\w+)"\} (\S+)'
)


async def outcomes(cell: Cell) -> dict[str, int]:
    """Streams of consumers that ended, by outcome."""
    reader, writer = await asyncio.open_connection(*split_address(str(cell.broker.addresses.metrics)))
    writer.write(b"GET /metrics HTTP/1.0\r\n\r\n")
    async with asyncio.timeout(PATIENCE_S):
        shown = (await reader.read()).decode()
    writer.close()
    return {outcome: int(float(count)) for outcome, count in _SAMPLE.findall(shown)}


async def test_a_stream_is_counted_when_it_ends_and_by_how_it_ended(
    start_broker: StartBroker, topic: TopicName
) -> None:
    cell = await start_broker(prom_exporter="127.0.0.1:0")
    await cell.client.create_producer(topic)
    consumer = await cell.client.subscribe(topic)
    first = await cell.client.receive(consumer)
    assert await outcomes(cell) == {}
    second = await cell.client.receive(consumer)
    with pytest.raises(DanubeError) as taken_over:
        await first.next()
    expected = {taken_over.value.code: 1}
    assert await outcomes(cell) == expected
    second.close()
    expected[CancelledError.code] = 1

    async def is_counted() -> bool:
        return await outcomes(cell) == expected

    await until(is_counted)
    with pytest.raises(ConsumerNotFoundError) as refused:
        await (await cell.client.receive(consumer + 1)).next()
    expected[refused.value.code] = expected.get(refused.value.code, 0) + 1
    assert await outcomes(cell) == expected


async def test_a_stream_of_a_topic_that_is_deleted_is_counted_as_the_end_that_its_client_sees(
    start_broker: StartBroker, topic: TopicName
) -> None:
    cell = await start_broker(prom_exporter="127.0.0.1:0")
    await cell.client.create_producer(topic)
    inbox = await cell.client.receive(await cell.client.subscribe(topic))
    await cell.admin.delete_topic(topic)
    async with asyncio.timeout(PATIENCE_S):
        try:
            outcome = "ok" if await inbox.stream.receive() is None else "a message"
        except DanubeError as error:
            outcome = error.code
    assert await outcomes(cell) == {outcome: 1}
