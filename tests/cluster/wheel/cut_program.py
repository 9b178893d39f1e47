"""Sends and reads over connections that break. Runs in the wheel's own environment.

    python cut_program.py SERVICE_URL

Prints "ready" once attached, sends from a first line on standard input to a second one, prints how many messages it has
read now and then, and a line of JSON at the end. What the wheel raises is tried again, as an application would.
"""

import asyncio
import contextlib
import json
import sys
from typing import Any

from danube import DanubeClient, DanubeClientBuilder, DispatchStrategy, Producer, SubType

TOPIC = "/default/cut"
RETRY_S = 0.05
LAST = b"last"
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


async def send_all(producer: Producer, told: asyncio.Future[str]) -> tuple[int, int]:
    """Send until told that it is enough, then one more, which is the last."""
    raised = sent = 0
    is_last = False
    while not is_last:
        is_last = told.done()
        while True:
            try:
                await producer.send(b"%d %s" % (sent, LAST if is_last else b""))
                break
            except Exception:
                raised += 1
                await asyncio.sleep(RETRY_S)
        sent += 1
    return sent, raised


async def read_all(consumer: Any) -> tuple[list[int], list[int]]:
    queue = await consumer.receive()
    numbers: list[int] = []
    offsets: list[int] = []
    mark = b""
    while mark != LAST:
        message = await queue.get()
        number, mark = message.payload.split(b" ")
        numbers.append(int(number))
        offsets.append(message.msg_id.topic_offset)
        with contextlib.suppress(Exception):  # the message comes again
            await consumer.ack(message)
        if len(numbers) % TELL_EVERY == 0:
            print(len(numbers), flush=True)
    return numbers, offsets


async def main(url: str) -> None:
    client = await DanubeClientBuilder().service_url(url).build()
    producer, consumer = await attach(client)
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    told = asyncio.ensure_future(asyncio.to_thread(sys.stdin.readline))
    (sent, raised), (numbers, offsets) = await asyncio.gather(send_all(producer, told), read_all(consumer))
    print(json.dumps({"sent": sent, "raised": raised, "numbers": numbers, "offsets": offsets}), flush=True)
    await consumer.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
