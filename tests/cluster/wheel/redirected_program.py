"""The published client at a broker that does not serve the topic: it sends and receives where it was sent to.

python redirected_program.py SERVICE_URL TOPIC COUNT
"""

import asyncio
import sys

from danube import DanubeClientBuilder, DispatchStrategy, SubType


async def main(url: str, topic: str, count: int) -> None:
    client = await DanubeClientBuilder().service_url(url).build()
    producer = (
        client.new_producer().with_topic(topic).with_name("p").with_dispatch_strategy(DispatchStrategy.RELIABLE).build()
    )
    await producer.create()
    consumer = (
        client.new_consumer()
        .with_topic(topic)
        .with_consumer_name("c")
        .with_subscription("s")
        .with_subscription_type(SubType.EXCLUSIVE)
        .build()
    )
    await consumer.subscribe()
    messages = await consumer.receive()
    for number in range(count):
        await producer.send(f"message {number}".encode())
    received: list[bytes] = []
    async with asyncio.timeout(90):
        while len(received) < count:
            message = await messages.get()
            await consumer.ack(message)
            received.append(message.payload)
    assert received == [f"message {number}".encode() for number in range(count)], received
    print("received", count, flush=True)


asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
