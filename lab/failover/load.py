"""An application that publishes numbers and reads them while brokers come and go.

    python -I load.py URLS TOPIC REPORT

It is a program of its own and needs nothing but a client: ours, or the published `danube-client`. URLS are separated by
spaces. Our client gets one text with all of them and mends everything by itself. The published one knows one broker at
a time, so the application makes producer and consumer anew at the next URL: after an error, or when nothing comes.
REPORT gets a line of JSON at a time; the end of standard input ends the program.
"""

import asyncio
import itertools
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from danube import DanubeClient, DanubeClientBuilder, DispatchStrategy, Producer, SubType

REPORT_S = 0.05  # between two lines of the report
PAUSE_S = 0.005  # between two sends
RETRY_S = 0.05  # after an error
SILENCE_S = 3.0  # without a message, until the consumer is made anew


class Application:
    """One producer and one consumer of a topic."""

    def __init__(self, urls: list[str], topic: str, report: Path) -> None:
        self._urls = itertools.cycle(urls)
        self._is_mended = len(urls) > 1
        self._topic = topic
        self._report = report
        self._acknowledged: list[tuple[int, float]] = []  # number, monotonic seconds
        self._received: list[tuple[int, int]] = []  # offset, number
        self._errors: list[str] = []
        self._is_made = asyncio.Event()
        self._is_read = asyncio.Event()

    async def publish(self) -> None:
        """Send one number after the other, each until it is acknowledged."""
        producer: Producer | None = None
        for number in itertools.count():
            while True:
                try:
                    producer = producer or await self._producer()
                    self._is_made.set()
                    await self._is_read.wait()  # a subscription begins behind what is there
                    await producer.send(b"%d" % number)
                    break
                except Exception as error:
                    self._errors.append(f"send: {error!r}"[:300])
                    if producer is not None and self._is_mended:
                        await producer.close()
                        producer = None
                    await asyncio.sleep(RETRY_S)
            self._acknowledged.append((number, time.monotonic()))
            await asyncio.sleep(PAUSE_S)

    async def read(self) -> None:
        """Receive and acknowledge."""
        await self._is_made.wait()
        while True:
            try:
                await self._read()
            except Exception as error:
                self._errors.append(f"read: {error!r}"[:300])
                await asyncio.sleep(RETRY_S)

    async def tell(self) -> None:
        """Append what is new to the report, again and again."""
        while True:
            await asyncio.sleep(REPORT_S)
            self.write()

    def write(self) -> None:
        """Append what is new, as one line."""
        line = {"acknowledged": self._acknowledged, "received": self._received, "errors": self._errors}
        with self._report.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        for part in (self._acknowledged, self._received, self._errors):
            part.clear()

    async def _client(self) -> DanubeClient:
        return await DanubeClientBuilder().service_url(next(self._urls)).build()

    async def _producer(self) -> Producer:
        making = (await self._client()).new_producer().with_topic(self._topic).with_name("p")
        producer = making.with_dispatch_strategy(DispatchStrategy.RELIABLE).build()
        await producer.create()
        return producer

    async def _read(self) -> None:
        making = (await self._client()).new_consumer().with_topic(self._topic).with_subscription("s")
        consumer = making.with_consumer_name("c").with_subscription_type(SubType.EXCLUSIVE).build()
        await consumer.subscribe()
        try:
            queue = await consumer.receive()
            self._is_read.set()
            while message := await self._next(queue):
                await consumer.ack(message)
                self._received.append((message.msg_id.topic_offset, int(message.payload)))
        finally:
            await consumer.close()

    async def _next(self, queue: asyncio.Queue[Any]) -> Any:  # noqa: ANN401 - of either client
        try:
            async with asyncio.timeout(SILENCE_S if self._is_mended else None):
                return await queue.get()
        except TimeoutError:
            return None


async def main(urls: str, topic: str, report: str) -> None:
    """Run until standard input ends."""
    application = Application(urls.split(), topic, Path(report))
    work = asyncio.gather(application.publish(), application.read(), application.tell())
    told = asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    await asyncio.wait((work, told), return_when=asyncio.FIRST_COMPLETED)
    application.write()
    if work.done():
        work.result()
    os._exit(0)  # a broker may be dead: no clean disconnect is waited for


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:4]))
