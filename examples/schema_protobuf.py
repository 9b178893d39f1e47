"""A Protobuf class as the schema of a topic; a consumer without the class reads the same messages."""

import asyncio
import importlib
import sys
import tempfile
from pathlib import Path
from typing import Any

from danube.client import DanubeClientBuilder, DispatchStrategy
from danube.model.errors import MissingLibraryError
from danube.schema.extra import library

TOPIC = "/default/shipments"


def shipment_class() -> Any:  # noqa: ANN401 - a generated class
    """The class of `shipment.proto`, which a build would generate beforehand."""
    folder, protoc = Path(__file__).parent, library("grpc_tools.protoc", "Protobuf text")
    with tempfile.TemporaryDirectory() as generated:
        protoc.main(["protoc", f"-I{folder}", f"--python_out={generated}", "shipment.proto"])
        sys.path.insert(0, generated)
        try:
            return importlib.import_module("shipment_pb2").Shipment
        finally:
            sys.path.remove(generated)


async def main(service_url: str) -> None:
    """Publish a message, and read it twice: with the class, and with the schema that the registry has."""
    kind = shipment_class()
    async with await DanubeClientBuilder().service_url(service_url).build() as client:
        building = client.new_producer().with_topic(TOPIC).with_name("dispatch").with_schema(kind)
        producer = building.with_dispatch_strategy(DispatchStrategy.RELIABLE).build()
        await producer.create()

        consumers = {}
        for name, schema in (("class", kind), ("registry", None)):
            reading = client.new_consumer().with_topic(TOPIC).with_consumer_name(name).with_subscription(name)
            consumers[name] = reading.with_schema(schema).build()
            await consumers[name].subscribe()

        await producer.send(kind(order=7, parcels=["a", "b"]))
        for name, consumer in consumers.items():
            message = await (await consumer.receive()).get()
            value = message.value
            parcels = value["parcels"] if isinstance(value, dict) else list(value.parcels)
            print(name, "read parcels", parcels)
            await consumer.ack(message)


if __name__ == "__main__":
    try:
        asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:6650"))
    except MissingLibraryError as missing:
        sys.exit(str(missing))  # here or at the broker; it says what to install
