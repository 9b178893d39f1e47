"""A pydantic model as the schema of a topic: models go in, models come out, and the broker refuses anything else."""

import asyncio
import sys

from pydantic import BaseModel

from danube.client import DanubeClientBuilder
from danube.model.errors import MissingLibraryError, SchemaRefusedError

TOPIC = "/default/payments"


class Payment(BaseModel):
    """A message of the topic."""

    order: int
    cents: int
    currency: str = "EUR"


async def main(service_url: str) -> None:
    """Publish a model, receive it, and see the broker refuse what is none."""
    async with await DanubeClientBuilder().service_url(service_url).build() as client:
        producer = client.new_producer().with_topic(TOPIC).with_name("till").with_schema(Payment).build()
        await producer.create()
        registry = client.schema()
        await registry.configure_topic_schema(TOPIC, "default-payments", "enforce", enable_payload_validation=True)

        reading = client.new_consumer().with_topic(TOPIC).with_consumer_name("books").with_subscription("books")
        async with reading.with_schema(Payment).build() as consumer:
            await producer.send(Payment(order=7, cents=1250))
            async for message in consumer:
                payment: Payment = message.value
                print(payment.order, payment.cents, payment.currency)
                await consumer.ack(message)
                break

        plain = client.new_producer().with_topic(TOPIC).with_name("plain").build()
        async with plain:
            try:
                await plain.send(b"ten euros")
            except SchemaRefusedError:
                print("refused: no schema")


if __name__ == "__main__":
    try:
        asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:6650"))
    except MissingLibraryError as missing:
        sys.exit(str(missing))  # here or at the broker; it says what to install
