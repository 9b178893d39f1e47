"""Producers and consumers with a schema: values of applications in, values out."""

from dataclasses import dataclass
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from pydantic import BaseModel

from danube.client.client import DanubeClient
from danube.client.typed.typed_schema import AvroSchema
from danube.model.errors import InvalidRequestError, PayloadInvalidError, SchemaIncompatibleError, UnrecoverableError
from danube.model.topic import DispatchStrategy
from danube.testing.in_process_broker import StartBroker
from danube.testing.patience import PATIENCE_S
from tests.unit.broker.test_schema_registry import TOPIC, client_of

pytestmark = pytest.mark.timeout(PATIENCE_S)


class Order(BaseModel):
    id: int
    note: str = ""


@dataclass(frozen=True)
class Point:
    x: int
    y: int


def message_class() -> Any:
    money = descriptor_pb2.FileDescriptorProto(name="money.proto", package="shop", syntax="proto3")
    money.message_type.add(name="Money").field.add(name="cents", number=1, type=3, label=1)
    file = descriptor_pb2.FileDescriptorProto(name="order.proto", package="shop", syntax="proto3")
    file.dependency.append("money.proto")
    order = file.message_type.add(name="Order")
    order.field.add(name="id", number=1, type=3, label=1)
    order.field.add(name="price", number=2, type=11, label=1, type_name=".shop.Money")
    pool = descriptor_pool.DescriptorPool()
    for each in (money, file):
        pool.AddSerializedFile(each.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


AVRO = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
AVRO_2 = {**AVRO, "fields": [*AVRO["fields"], {"name": "note", "type": "string", "default": "-"}]}


async def received(client: DanubeClient, schema: Any, count: int, subscription: str) -> list[Any]:
    builder = client.new_consumer().with_topic(TOPIC).with_consumer_name(subscription).with_subscription(subscription)
    async with builder.with_schema(schema).build() as consumer:
        queue = await consumer.receive()
        messages = [await queue.get() for _ in range(count)]
        return [message.value for message in messages]


async def subscribed(client: DanubeClient, *names: str) -> None:
    for name in names:
        await (
            client.new_consumer().with_topic(TOPIC).with_consumer_name(name).with_subscription(name).build().subscribe()
        )


@pytest.mark.parametrize(
    ("schema", "value", "plain"),
    [
        (Order, Order(id=1), {"id": 1, "note": ""}),
        (Point, Point(1, 2), {"x": 1, "y": 2}),
        (AvroSchema(AVRO), {"id": 1}, {"id": 1}),
    ],
    ids=["pydantic", "dataclass", "avro"],
)
async def test_values_that_are_sent_are_received(
    start_broker: StartBroker, schema: Any, value: Any, plain: Any
) -> None:
    async with client_of(await start_broker()) as client:
        builder = client.new_producer().with_topic(TOPIC).with_name("p").with_schema(schema)
        producer = builder.with_dispatch_strategy(DispatchStrategy.RELIABLE).build()
        await producer.create()
        await client.schema().configure_topic_schema(TOPIC, "default-orders", "enforce", True)
        await subscribed(client, "typed", "plain")
        await producer.send(value)
        assert await producer.send_many([value, value]) == 3 - 1
        assert await received(client, schema, 3, "typed") == [value] * 3
        assert await received(client, None, 3, "plain") == [plain] * 3


async def test_a_protobuf_class_is_registered_with_its_imports(start_broker: StartBroker) -> None:
    kind = message_class()
    async with client_of(await start_broker()) as client:
        builder = client.new_producer().with_topic(TOPIC).with_name("p").with_schema(kind)
        producer = builder.with_dispatch_strategy(DispatchStrategy.RELIABLE).build()
        await producer.create()
        await client.schema().configure_topic_schema(TOPIC, "default-orders", "enforce", True)
        await subscribed(client, "typed", "plain")
        order = kind(id=7)
        order.price.cents = 99
        await producer.send(order)
        assert await received(client, kind, 1, "typed") == [order]
        (plain,) = await received(client, None, 1, "plain")
        assert plain["price"]["cents"] in {99, "99"}
        assert await client.schema().list_versions("money.proto") == [1]


async def test_avro_is_read_with_the_definition_of_its_writer(start_broker: StartBroker) -> None:
    async with client_of(await start_broker()) as client:
        for schema, value in ((AVRO, {"id": 1}), (AVRO_2, {"id": 2, "note": "new"})):
            builder = client.new_producer().with_topic(TOPIC).with_name(str(value)).with_schema(AvroSchema(schema))
            producer = builder.with_dispatch_strategy(DispatchStrategy.RELIABLE).build()
            await producer.create()
            await subscribed(client, "new")
            await producer.send(value)
        assert await received(client, AvroSchema(AVRO_2), 2, "new") == [
            {"id": 1, "note": "-"},
            {"id": 2, "note": "new"},
        ]


async def test_what_does_not_follow_the_schema_is_not_sent(start_broker: StartBroker) -> None:
    async with client_of(await start_broker()) as client:
        producer = client.new_producer().with_topic(TOPIC).with_name("p").with_schema(AvroSchema(AVRO)).build()
        await producer.create()
        with pytest.raises(PayloadInvalidError, match="id"):
            await producer.send({"id": "one"})
        with pytest.raises(InvalidRequestError, match="no schema"):
            client.new_producer().with_schema(int)
        broken = {**AVRO, "fields": [{"name": "id", "type": "string"}]}
        other = client.new_producer().with_topic(TOPIC).with_name("q").with_schema(AvroSchema(broken)).build()
        with pytest.raises(SchemaIncompatibleError, match="id"):
            await other.create()
        consumer = client.new_consumer().with_topic(TOPIC).with_consumer_name("c").with_subscription("s").build()
        await consumer.subscribe()
        queue = await consumer.receive()
        await producer.send({"id": 1})
        with pytest.raises(UnrecoverableError, match="no schema"):
            _ = (await queue.get()).value
