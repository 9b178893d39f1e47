"""Publish one message and read it back. Runs the same with danube-messaging and with the published danube-client."""

import asyncio
import sys

from danube import DanubeClientBuilder, DispatchStrategy, SubType

TOPIC = "/default/hello"


async def main(service_url: str) -> None:
    """Subscribe first: a new subscription sees what is published from then on."""
    client = await DanubeClientBuilder().service_url(service_url).build()

    publishing = client.new_producer().with_topic(TOPIC).with_name("greeter")
    producer = publishing.with_dispatch_strategy(DispatchStrategy.RELIABLE).build()
    await producer.create()  # makes the topic where there is none

    reading = client.new_consumer().with_topic(TOPIC).with_consumer_name("reader").with_subscription("mine")
    consumer = reading.with_subscription_type(SubType.EXCLUSIVE).build()
    await consumer.subscribe()
    messages = await consumer.receive()

    await producer.send(b"hello, world", {"language": "en"})  # returns once the message is on the broker's disk

    message = await messages.get()
    print(message.payload.decode(), dict(message.attributes))
    await consumer.ack(message)

    await consumer.close()
    await producer.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:6650"))
