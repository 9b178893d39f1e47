r"""Messages that cannot be read go to a dead letter topic; the rest goes on. Runs the same with danube-client.

How often a message is tried, and where it goes then, is a matter of the subscription. An administrator says it once:

    danube-admin topics create /default/invoices
    danube-admin topics create /default/invoices-failed
    danube-admin topics create-subscription /default/invoices --subscription bookkeeping
    danube-admin topics set-failure-policy /default/invoices --subscription bookkeeping \
        --max-redelivery-count 2 --ack-timeout-ms 30000 \
        --base-redelivery-delay-ms 100 --max-redelivery-delay-ms 1000 \
        --poison-policy dead_letter --dead-letter-topic /default/invoices-failed
"""

import asyncio
import sys

from danube import Consumer, DanubeClient, DanubeClientBuilder, DanubeError, DispatchStrategy, SubType

TOPIC = "/default/invoices"
FAILED = "/default/invoices-failed"
INVOICES = (b"100", b"12,50 EUR", b"7")
WAIT_S = 10


async def subscribe(client: DanubeClient, topic: str, subscription: str) -> Consumer:
    """The one reader of its subscription."""
    reading = client.new_consumer().with_topic(topic).with_consumer_name("ada").with_subscription(subscription)
    consumer = reading.with_subscription_type(SubType.EXCLUSIVE).build()
    await consumer.subscribe()
    return consumer


async def book(consumer: Consumer) -> None:
    """Book until cancelled. What is no number is refused, and comes again as often as the policy says."""
    invoices = await consumer.receive()
    while True:
        invoice = await invoices.get()
        text = invoice.payload.decode()
        if text.isdecimal():
            print("booked", text)
            await consumer.ack(invoice)
        else:
            print("cannot read", text)
            await consumer.nack(invoice, reason="not a number")


async def read_failed(consumer: Consumer) -> None:
    """Read one dead letter. Its attributes say where it comes from and why."""
    letters = await consumer.receive()
    letter = await letters.get()
    origin = letter.attributes
    offset, reason = origin["x-original-topic-offset"], origin["x-failure-reason"]
    print(f"set aside: {letter.payload.decode()}, message {offset} of {origin['x-original-topic']}, {reason}")
    await consumer.ack(letter)


async def main(service_url: str) -> None:
    """Three invoices, of which one is none."""
    client = await DanubeClientBuilder().service_url(service_url).build()

    publishing = client.new_producer().with_topic(TOPIC).with_name("suppliers")
    producer = publishing.with_dispatch_strategy(DispatchStrategy.RELIABLE).build()
    await producer.create()
    try:
        invoices, failed = await subscribe(client, TOPIC, "bookkeeping"), await subscribe(client, FAILED, "complaints")
    except DanubeError as error:
        sys.exit(f"{error}. The first lines of this program say what an administrator does first.")

    for invoice in INVOICES:
        await producer.send(invoice)

    booking = asyncio.create_task(book(invoices))
    try:
        await asyncio.wait_for(read_failed(failed), WAIT_S)
    except TimeoutError:
        sys.exit("No dead letter came. Is the failure policy set? The first lines of this program say how.")
    finally:
        booking.cancel()
        await asyncio.gather(booking, return_exceptions=True)
        for member in (invoices, failed, producer):
            await member.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:6650"))
