"""A client that keeps one broker busier than itself: it sends to a topic, and reads all of it over and over.

    python -m lab.trials.load SERVICE_URL TOPIC REPORT

Messages go one by one, many at a time, as official clients send them, which costs a broker twice what it costs a
client; and in batches. Each second it appends a line of JSON to REPORT: how many messages it has sent and read until
then. The end of its standard input ends it. What a client raises is counted, and it goes on.
"""

import asyncio
import json
import os
import sys
from contextlib import aclosing
from dataclasses import asdict, dataclass
from pathlib import Path

from danube.client import DanubeClient, DanubeClientBuilder, DispatchStrategy, Producer
from danube.model.errors import DanubeError

_PAYLOAD = bytes(100)
_BATCH = 20  # messages of one `send_many`: small, since a broker's work is for each batch
_BATCH_PAUSE_S = 0.01  # between two of them: the disk has to hold what is sent
_SINGLE_SENDERS = 64  # each has one message under way
_READERS = 2
_READ_MESSAGES = 20_000  # of the newest that a reader reads at a time, so that they come from memory
_RETRY_S = 0.1
_TELL_S = 1.0


@dataclass(slots=True)
class Counts:
    """Messages, since the start."""

    sent: int = 0
    read: int = 0
    failed: int = 0  # calls


async def _send(producer: Producer, counts: Counts) -> None:
    while True:
        try:
            await producer.send(_PAYLOAD)
            counts.sent += 1
        except DanubeError:
            counts.failed += 1
            await asyncio.sleep(_RETRY_S)


async def _send_batches(producer: Producer, counts: Counts) -> None:
    while True:
        try:
            counts.sent += await producer.send_many([_PAYLOAD] * _BATCH)
        except DanubeError:
            counts.failed += 1
            await asyncio.sleep(_RETRY_S)
        await asyncio.sleep(_BATCH_PAUSE_S)


async def _read(client: DanubeClient, topic: str, counts: Counts) -> None:
    while True:
        try:
            bounds = await client.bounds(topic)
            start = max(bounds.start_offset, bounds.end_offset - _READ_MESSAGES)
            async with aclosing(client.fetch_batches(topic, start=start, end=bounds.end_offset)) as answers:
                async for batches in answers:
                    counts.read += sum(batch.end - batch.first for batch in batches)
        except DanubeError:
            counts.failed += 1
            await asyncio.sleep(_RETRY_S)


async def _tell(counts: Counts, report: Path) -> None:
    while True:
        with report.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(counts)) + "\n")
        await asyncio.sleep(_TELL_S)


async def _main(url: str, topic: str, report: str) -> None:
    client = await DanubeClientBuilder().service_url(url).build()
    builder = client.new_producer().with_topic(topic).with_name(f"busy-{os.getpid()}")
    producer = builder.with_dispatch_strategy(DispatchStrategy.RELIABLE).build()
    await producer.create()
    counts = Counts()
    work = [_send(producer, counts) for _ in range(_SINGLE_SENDERS)]
    work += [_read(client, topic, counts) for _ in range(_READERS)]
    work.append(_send_batches(producer, counts))
    load = asyncio.gather(_tell(counts, Path(report)), *work)
    told = asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    await asyncio.wait((load, told), return_when=asyncio.FIRST_COMPLETED)
    if load.done():
        load.result()
    os._exit(0)  # the broker may be dead: no clean disconnect is waited for


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
