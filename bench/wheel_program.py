"""Runs in the environment of the published client: `wheel_program.py send|read URL MESSAGES IN_FLIGHT`.

Prints how many seconds it took from the first message to the last.
"""

import asyncio
import json
import sys
import time

from danube import DanubeClient, DanubeClientBuilder, DispatchStrategy, Producer, SubType

TOPIC = "/default/bench-wheel"
PAYLOAD = bytes(1_024)


async def send(client: DanubeClient, messages: int, in_flight: int) -> float:
    producer = await create(client)
    left = iter(range(messages))

    async def one_after_the_other() -> None:
        for _ in left:
            await producer.send(PAYLOAD)

    started_s = time.monotonic()
    await asyncio.gather(*(one_after_the_other() for _ in range(in_flight)))
    return time.monotonic() - started_s


async def create(client: DanubeClient) -> Producer:
    builder = client.new_producer().with_topic(TOPIC).with_name("bench")
    producer = builder.with_dispatch_strategy(DispatchStrategy.RELIABLE).build()
    await producer.create()
    return producer


async def read(client: DanubeClient, messages: int) -> float:
    await create(client)
    builder = client.new_consumer().with_topic(TOPIC).with_consumer_name("c").with_subscription("s")
    consumer = builder.with_subscription_type(SubType.EXCLUSIVE).build()
    await consumer.subscribe()
    queue = await consumer.receive()
    print("ready", flush=True)
    started_s = 0.0
    for index in range(messages):
        message = await queue.get()
        started_s = started_s if index else time.monotonic()
        await consumer.ack(message)
    elapsed_s = time.monotonic() - started_s
    await consumer.close()
    return elapsed_s


async def main(part: str, url: str, messages: int, in_flight: int) -> None:
    client = await DanubeClientBuilder().service_url(url).build()
    elapsed_s = await (send(client, messages, in_flight) if part == "send" else read(client, messages))
    print(json.dumps(elapsed_s), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
