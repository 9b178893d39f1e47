"""Sends and reads over connections that break. Runs in the wheel's own environment.

    python cut_program.py SERVICE_URL MESSAGES

Prints "ready" once attached, waits for a line on standard input, prints how many messages it has read now and then, and
a line of JSON at the end. What the wheel raises is tried again, as an application would.
"""

import asyncio
import contextlib
import json
import sys
from typing import Any

from danube import DanubeClient, DanubeClientBuilder, DispatchStrategy, Producer, SubType

TOPIC = "/default/cut"
RETRY_S = 0.05
TELL_EVERY = 100


async def attach(client: DanubeClient) -> tuple[Producer, Any]:
    producer = (
        client.new_producer().with_topic(TOPIC).with_name("p").with_dispatch_strategy(DispatchStrategy.RELIABLE).build()
    )
    await producer.create()
    builder = client.new_consumer().with_topic(TOPIC).with_consumer_name("c").with_subscription("s")
    consumer = builder.with_subscription_type(SubType.EXCLUSIVE).build()
    await consumer.subscribe()
    return producer, consumer


async def send_all(producer: Producer, count: int) -> int:
    raised = 0
    for index in range(count):
        while True:
            try:
                await producer.send(b"%d" % index)
                break
            except Exception:
                raised += 1
                await asyncio.sleep(RETRY_S)
    return raised


async def read_all(consumer: Any, count: int) -> tuple[list[int], list[int]]:
    queue = await consumer.receive()
    numbers: list[int] = []
    offsets: list[int] = []
    while count - 1 not in numbers[-1:]:
        message = await queue.get()
        numbers.append(int(message.payload))
        offsets.append(message.msg_id.topic_offset)
        with contextlib.suppress(Exception):  # the message comes again
            await consumer.ack(message)
        if len(numbers) % TELL_EVERY == 0:
            print(len(numbers), flush=True)
    return numbers, offsets


async def main(url: str, count: int) -> None:
    client = await DanubeClientBuilder().service_url(url).build()
    producer, consumer = await attach(client)
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    raised, (numbers, offsets) = await asyncio.gather(send_all(producer, count), read_all(consumer, count))
    print(json.dumps({"raised": raised, "numbers": numbers, "offsets": offsets}), flush=True)
    await consumer.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
