"""Avro that changes: a consumer with the new definition reads messages of both versions."""

import asyncio
import sys

from danube.client import DanubeClientBuilder, DispatchStrategy
from danube.client.typed.typed_schema import AvroSchema
from danube.model.errors import MissingLibraryError

TOPIC = "/default/parcels"
FIRST = {"type": "record", "name": "Parcel", "fields": [{"name": "id", "type": "long"}]}
SECOND = {
    "type": "record",
    "name": "Parcel",
    "fields": [{"name": "id", "type": "long"}, {"name": "grams", "type": "int", "default": 0}],
}


async def main(service_url: str) -> None:
    """Publish with both versions, and read with the second."""
    async with await DanubeClientBuilder().service_url(service_url).build() as client:
        producers = []
        for name, definition in (("old", FIRST), ("new", SECOND)):
            building = client.new_producer().with_topic(TOPIC).with_name(name).with_schema(AvroSchema(definition))
            producers.append(building.with_dispatch_strategy(DispatchStrategy.RELIABLE).build())
            await producers[-1].create()

        reading = client.new_consumer().with_topic(TOPIC).with_consumer_name("depot").with_subscription("depot")
        async with reading.with_schema(AvroSchema(SECOND)).build() as consumer:
            await producers[0].send({"id": 1})
            await producers[1].send({"id": 2, "grams": 500})
            messages = await consumer.receive()
            for _ in range(2):
                message = await messages.get()
                print("version", message.schema_version, message.value)
                await consumer.ack(message)


if __name__ == "__main__":
    try:
        asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:6650"))
    except MissingLibraryError as missing:
        sys.exit(str(missing))  # here or at the broker; it says what to install
