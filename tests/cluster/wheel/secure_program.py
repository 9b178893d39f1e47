"""The published client over TLS: `secure_program.py URL TOPIC CA [--token T] [--certificate C --key K]`.

It publishes one message, receives it, and prints it.
"""

import argparse
import asyncio

from danube import DanubeClientBuilder, DispatchStrategy, SubType


async def main(given: argparse.Namespace) -> None:
    builder = DanubeClientBuilder().service_url(given.url)
    if given.certificate:
        builder = builder.with_mtls(given.ca, given.certificate, given.key)
    else:
        builder = builder.with_tls(given.ca)
    if given.token:
        builder = builder.with_token(given.token)
    client = await builder.build()
    producing = client.new_producer().with_topic(given.topic).with_name("p")
    producer = producing.with_dispatch_strategy(DispatchStrategy.RELIABLE).build()
    await producer.create()
    consuming = client.new_consumer().with_topic(given.topic).with_consumer_name("c").with_subscription("s")
    consumer = consuming.with_subscription_type(SubType.EXCLUSIVE).build()
    await consumer.subscribe()
    messages = await consumer.receive()
    await producer.send(b"over TLS", {})
    message = await messages.get()
    await consumer.ack(message)
    print(message.payload.decode(), flush=True)
    await consumer.close()
    await producer.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("topic")
    parser.add_argument("ca")
    for name in ("token", "certificate", "key"):
        parser.add_argument(f"--{name}")
    asyncio.run(main(parser.parse_args()))
