"""Two clerks share orders by customer: one customer's go to one clerk, in order. Runs the same with danube-client."""

import asyncio
import itertools
import sys

from danube import DanubeClient, DanubeClientBuilder, DispatchStrategy, SubType

TOPIC = "/default/orders-by-customer"
CLERKS = ("dot", "eli")
CUSTOMERS = ("ada", "bob", "cyd", "dan")
ORDERS = 3


async def work(
    client: DanubeClient, name: str, ready: asyncio.Queue[str], done: asyncio.Queue[tuple[str, str]]
) -> None:
    """Take orders until cancelled, and say who took which."""
    joining = client.new_consumer().with_topic(TOPIC).with_consumer_name(name).with_subscription("clerks")
    consumer = joining.with_subscription_type(SubType.KEY_SHARED).build()
    await consumer.subscribe()
    orders = await consumer.receive()
    await ready.put(name)
    try:
        while True:
            order = await orders.get()
            await consumer.ack(order)
            await done.put((order.payload.decode(), name))
    finally:
        await consumer.close()


async def main(service_url: str) -> None:
    """Publish each customer's orders under the customer's key."""
    client = await DanubeClientBuilder().service_url(service_url).build()

    publishing = client.new_producer().with_topic(TOPIC).with_name("shop")
    producer = publishing.with_dispatch_strategy(DispatchStrategy.RELIABLE).build()
    await producer.create()

    ready: asyncio.Queue[str] = asyncio.Queue()
    done: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
    clerks = [asyncio.create_task(work(client, name, ready, done)) for name in CLERKS]
    for _ in clerks:
        await ready.get()

    # who comes gets customers of others: the shop opens when all have answered the bell
    there: set[str] = set()
    bells = itertools.count()
    while len(there) < len(CLERKS):
        await producer.send_with_key(b"bell", None, f"bell {next(bells)}")
        there.add((await done.get())[1])

    for number in range(ORDERS):
        for customer in CUSTOMERS:
            await producer.send_with_key(f"{customer} {number}".encode(), None, customer)

    taken = [await done.get() for _ in range(ORDERS * len(CUSTOMERS))]
    for customer in CUSTOMERS:
        numbers = [order.partition(" ")[2] for order, _ in taken if order.startswith(customer)]
        served_by = {clerk for order, clerk in taken if order.startswith(customer)}
        print(f"{customer}: orders {', '.join(numbers)} by {len(served_by)} clerk")

    for clerk in clerks:
        clerk.cancel()
    await asyncio.gather(*clerks, return_exceptions=True)
    await producer.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:6650"))
