"""An application whose broker sends it away. Runs in the wheel's own environment and catches as little as it can.

    python draining_program.py SERVICE_URL TOPIC

Prints "ready" once attached, then takes commands on standard input, one a line, and answers each with a line of JSON:

    send N    send N messages one by one, and read until each was read once: what was read since, as numbers, and how
              many sends the wheel gave up; these are tried again, as an application would
    refused   send one message, which fails: the name of its status
    end       wait until the consumer has ended by itself: whether it has, and how often its stream failed in all
"""

import asyncio
import json
import logging
import sys
from typing import Any

from grpc.aio import AioRpcError

from danube import DanubeClient, DanubeClientBuilder, DispatchStrategy, Producer, SubType

END_S = 90
RETRY_S = 0.2


class Failures(logging.Handler):
    """Counts how often the wheel says that a stream failed: it opens the next one without a pause."""

    count = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.count += record.getMessage().startswith("error receiving message")


class Application:
    """One producer and one consumer of a topic."""

    def __init__(self, producer: Producer, consumer: Any, queue: asyncio.Queue[Any], failures: Failures) -> None:
        self._producer = producer
        self._consumer = consumer
        self._queue = queue
        self._failures = failures
        self._sent = 0
        self._missing: set[int] = set()

    async def send(self, count: str) -> object:
        first, self._sent = self._sent, self._sent + int(count)
        self._missing = set(range(first, self._sent))
        raised, read = await asyncio.gather(self._send(first), self._read())
        return {"read": read, "raised": raised}

    async def refused(self) -> object:
        try:
            await self._producer.send(b"x")
        except AioRpcError as error:
            return error.code().name
        return "taken"

    async def end(self) -> object:
        _, running = await asyncio.wait(self._consumer._tasks, timeout=END_S)
        return {"ended": not running, "failures": self._failures.count}

    async def _send(self, first: int) -> int:
        raised = 0
        for number in range(first, self._sent):
            while not await self._is_sent(number):
                raised += 1
                await asyncio.sleep(RETRY_S)
        return raised

    async def _is_sent(self, number: int) -> bool:
        try:
            await self._producer.send(b"%d" % number)
        except AioRpcError:
            return False
        return True

    async def _read(self) -> list[int]:
        read: list[int] = []
        while self._missing:
            message = await self._queue.get()
            await self._consumer.ack(message)
            read.append(int(message.payload))
            self._missing.discard(read[-1])
        return read


async def attach(client: DanubeClient, topic: str, failures: Failures) -> Application:
    making = client.new_producer().with_topic(topic).with_name("p")
    producer = making.with_dispatch_strategy(DispatchStrategy.RELIABLE).build()
    await producer.create()
    naming = client.new_consumer().with_topic(topic).with_consumer_name("c").with_subscription("s")
    consumer = naming.with_subscription_type(SubType.EXCLUSIVE).build()
    await consumer.subscribe()
    return Application(producer, consumer, await consumer.receive(), failures)


async def main(url: str, topic: str) -> None:
    failures = Failures()
    logging.getLogger("danube").addHandler(failures)
    client = await DanubeClientBuilder().service_url(url).build()
    application = await attach(client, topic, failures)
    print("ready", flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        command, *words = line.split()
        print(json.dumps(await getattr(application, command)(*words)), flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
