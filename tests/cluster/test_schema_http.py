"""Confluent's unmodified serialisers against the schema registry of a real broker, over HTTP."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient, SchemaRegistryError
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from danube.testing.processes.broker import BrokerProcess

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(240)]

AVRO = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
JSON = {
    "title": "Order",
    "type": "object",
    "properties": {"id": {"type": "integer"}},
    "required": ["id"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def serving_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    folder = tmp_path_factory.mktemp("schemas") / "data"
    with BrokerProcess(folder, settings={"schema_http_addr": "127.0.0.1:0"}) as process:
        yield process


@pytest.fixture
def registry(serving_broker: BrokerProcess) -> Iterator[SchemaRegistryClient]:
    with client_of(serving_broker) as client:
        yield client


def client_of(broker: BrokerProcess) -> SchemaRegistryClient:
    return SchemaRegistryClient({"url": f"http://{broker.endpoints.schemas}"})


def context(topic: str) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE)


def order_class() -> Any:
    """A message class with an import of its own, as `protoc` would generate it."""
    money = descriptor_pb2.FileDescriptorProto(name="shop/money.proto", package="shop", syntax="proto3")
    amount = money.message_type.add(name="Money").field.add(name="cents", number=1, type=3, label=1)
    assert amount.name == "cents"
    file = descriptor_pb2.FileDescriptorProto(name="shop/order.proto", package="shop", syntax="proto3")
    file.dependency.extend([money.name, "google/protobuf/timestamp.proto"])
    order = file.message_type.add(name="Order")
    order.field.add(name="id", number=1, type=3, label=1)
    order.field.add(name="price", number=2, type=11, label=1, type_name=".shop.Money")
    order.field.add(name="at", number=3, type=11, label=1, type_name=".google.protobuf.Timestamp")
    pool = descriptor_pool.DescriptorPool()
    for name in ("timestamp",):
        module = __import__(f"google.protobuf.{name}_pb2", fromlist=["DESCRIPTOR"])
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    for each in (money, file):
        pool.AddSerializedFile(each.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


def test_the_avro_serialiser_works_unmodified(registry: SchemaRegistryClient) -> None:
    serialise = AvroSerializer(registry, json.dumps(AVRO))
    payload = serialise({"id": 7}, context("avro-orders"))
    assert payload[:1] == b"\0"
    assert AvroDeserializer(registry)(payload, context("avro-orders")) == {"id": 7}
    assert int.from_bytes(payload[1:5], "big") == registry.get_latest_version("avro-orders-value").schema_id


def test_the_json_serialiser_works_unmodified(registry: SchemaRegistryClient) -> None:
    serialise = JSONSerializer(json.dumps(JSON), registry)
    payload = serialise({"id": 7}, context("json-orders"))
    read = JSONDeserializer(None, schema_registry_client=registry)
    assert read(payload, context("json-orders")) == {"id": 7}


def test_the_protobuf_serialiser_works_unmodified_with_its_imports(registry: SchemaRegistryClient) -> None:
    kind = order_class()
    serialise = ProtobufSerializer(kind, registry, {"use.deprecated.format": False})
    order = kind(id=7)
    order.price.cents = 99
    order.at.seconds = 1
    payload = serialise(order, context("proto-orders"))
    read = ProtobufDeserializer(kind, {"use.deprecated.format": False}, registry)
    assert read(payload, context("proto-orders")) == order
    found = registry.get_latest_version("proto-orders-value")
    assert "message Order {" in (found.schema.schema_str or "")
    assert [one.subject for one in found.schema.references or ()] == ["shop/money.proto"]
    assert "shop/money.proto" in registry.get_subjects()


def test_subjects_versions_and_configuration_are_as_clients_expect_them(registry: SchemaRegistryClient) -> None:
    subject = "clients-value"
    first = registry.register_schema(subject, Schema(json.dumps(AVRO), "AVRO"))
    assert registry.register_schema(subject, Schema(json.dumps(AVRO), "AVRO")) == first
    assert registry.get_versions(subject) == [1]
    assert registry.lookup_schema(subject, Schema(json.dumps(AVRO), "AVRO")).version == 1
    assert registry.get_compatibility() == "BACKWARD"
    registry.set_compatibility(subject, level="FULL_TRANSITIVE")
    assert registry.get_compatibility(subject) == "FULL_TRANSITIVE"
    broken = {**AVRO, "fields": [*AVRO["fields"], {"name": "more", "type": "string"}]}
    assert not registry.test_compatibility(subject, Schema(json.dumps(broken), "AVRO"))
    with pytest.raises(SchemaRegistryError) as refused:
        registry.register_schema(subject, Schema(json.dumps(broken), "AVRO"))
    assert refused.value.http_status_code == 409
    assert "more" in str(refused.value)
    with pytest.raises(SchemaRegistryError) as missing:
        registry.get_schema(4_000)
    assert missing.value.error_code == 40403
    with pytest.raises(SchemaRegistryError) as wrong:
        registry.register_schema(subject, Schema('{"type": "record"}', "AVRO"))
    assert wrong.value.http_status_code == 422
    with pytest.raises(SchemaRegistryError) as undeletable:
        registry.delete_subject(subject)
    assert "plan" in str(undeletable.value)


def test_the_registry_of_clients_and_that_of_http_are_one_and_outlive_a_kill(
    serving_broker: BrokerProcess, registry: SchemaRegistryClient
) -> None:
    number = registry.register_schema("killed-value", Schema(json.dumps(AVRO), "AVRO"))
    serving_broker.kill()
    serving_broker.start()
    with client_of(serving_broker) as after:
        assert json.loads(after.get_schema(number).schema_str) == AVRO
