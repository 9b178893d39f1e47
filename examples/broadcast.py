"""Two subscriptions of one topic: each gets every message. Runs the same with our client and danube-client."""

import asyncio
import sys

from danube import Consumer, DanubeClient, DanubeClientBuilder, DispatchStrategy, SubType

TOPIC = "/default/news"
MESSAGES = 3


async def subscribe(client: DanubeClient, subscription: str) -> Consumer:
    """Each subscription keeps its own place in the topic; a new one begins with what is published next."""
    reading = client.new_consumer().with_topic(TOPIC).with_consumer_name("reader").with_subscription(subscription)
    consumer = reading.with_subscription_type(SubType.EXCLUSIVE).build()
    await consumer.subscribe()
    return consumer


async def main(service_url: str) -> None:
    """Subscribe twice, publish, and read everything twice."""
    client = await DanubeClientBuilder().service_url(service_url).build()

    publishing = client.new_producer().with_topic(TOPIC).with_name("editor")
    producer = publishing.with_dispatch_strategy(DispatchStrategy.RELIABLE).build()
    await producer.create()
    consumers = {name: await subscribe(client, name) for name in ("archive", "alerts")}

    for number in range(MESSAGES):
        await producer.send(f"news {number}".encode())

    for name, consumer in consumers.items():
        messages = await consumer.receive()
        for _ in range(MESSAGES):
            message = await messages.get()
            await consumer.ack(message)
            print(name, "read", message.payload.decode())
        await consumer.close()
    await producer.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:6650"))
