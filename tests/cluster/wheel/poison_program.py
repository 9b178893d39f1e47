"""A consumer that cannot handle one message. Runs in the wheel's own environment.

    python poison_program.py SERVICE_URL TOPIC DEAD_LETTER_TOPIC

Prints "ready" once it has subscribed and waits for a line on standard input: its failure policy is set meanwhile. It
sends "good-0", "bad" and "good-1", refuses "bad" and acknowledges the others, sends "late" when "bad" has come as often
as it may, and prints what it got as JSON. A second line makes it read on; then it prints what came, and dead letters.
"""

import asyncio
import json
import sys
from typing import Any

from danube import DanubeClient, DanubeClientBuilder, DispatchStrategy, Producer, SubType

WAIT_S = 20
QUIET_S = 1.0
SENDS = 2
"""Of "bad": with one redelivery allowed."""


async def attach(client: DanubeClient, topic: str) -> tuple[Producer, Any, asyncio.Queue[Any]]:
    made = client.new_producer().with_topic(topic).with_name("p")
    producer = made.with_dispatch_strategy(DispatchStrategy.RELIABLE).build()
    await producer.create()
    builder = client.new_consumer().with_topic(topic).with_consumer_name("c").with_subscription("s")
    consumer = builder.with_subscription_type(SubType.EXCLUSIVE).build()
    await consumer.subscribe()
    return producer, consumer, await consumer.receive()


async def take(consumer: Any, queue: asyncio.Queue[Any], *, refuse: bytes = b"") -> list[str]:
    """Whatever comes until nothing came for a while."""
    got: list[str] = []
    while True:
        try:
            async with asyncio.timeout(QUIET_S):
                message = await queue.get()
        except TimeoutError:
            return got
        got.append(message.payload.decode())
        if message.payload == refuse:
            await consumer.nack(message, delay_ms=1, reason="cannot be read")
        else:
            await consumer.ack(message)


async def told() -> None:
    async with asyncio.timeout(WAIT_S):
        await asyncio.to_thread(sys.stdin.readline)


async def main(url: str, topic: str, dead_letter_topic: str) -> None:
    client = await DanubeClientBuilder().service_url(url).build()
    producer, consumer, queue = await attach(client, topic)
    _, buried, letters = await attach(client, dead_letter_topic)
    print("ready", flush=True)
    await told()
    for payload in (b"good-0", b"bad", b"good-1"):
        await producer.send(payload)
    got = await take(consumer, queue, refuse=b"bad")
    await producer.send(b"late")
    got += await take(consumer, queue, refuse=b"bad")
    print(json.dumps(got), flush=True)
    await told()
    later = await take(consumer, queue)
    dead = []
    while not letters.empty():
        message = letters.get_nowait()
        dead.append([message.payload.decode(), dict(message.attributes)])
        await buried.ack(message)
    print(json.dumps([later, dead]), flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
