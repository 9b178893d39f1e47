"""A standby goes on where the active consumer stopped. Runs the same with our client and danube-client."""

import asyncio
import sys

from danube import Consumer, DanubeClient, DanubeClientBuilder, DispatchStrategy, SubType

TOPIC = "/default/ledger"


async def join(client: DanubeClient, name: str) -> Consumer:
    """The first to join is active; the others wait for it to go."""
    joining = client.new_consumer().with_topic(TOPIC).with_consumer_name(name).with_subscription("bookkeeping")
    consumer = joining.with_subscription_type(SubType.FAILOVER).build()
    await consumer.subscribe()
    return consumer


async def read(name: str, consumer: Consumer, count: int) -> None:
    """Read and acknowledge so many messages, then leave."""
    messages = await consumer.receive()
    for _ in range(count):
        message = await messages.get()
        await consumer.ack(message)
        print(name, "booked", message.payload.decode())
    await consumer.close()


async def main(service_url: str) -> None:
    """Two entries for the active consumer, then it leaves, and the standby takes the rest in order."""
    client = await DanubeClientBuilder().service_url(service_url).build()

    publishing = client.new_producer().with_topic(TOPIC).with_name("till")
    producer = publishing.with_dispatch_strategy(DispatchStrategy.RELIABLE).build()
    await producer.create()
    active, standby = await join(client, "active"), await join(client, "standby")

    for number in range(4):
        await producer.send(f"entry {number}".encode())
    await read("active", active, 2)
    await read("standby", standby, 2)
    await producer.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:6650"))
