"""The schema registry of a broker, through our client."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from danube.client.client import DanubeClient, DanubeClientBuilder
from danube.model.calls.schemas import FindVersion
from danube.model.errors import (
    InvalidRequestError,
    NotFoundError,
    PreconditionFailedError,
    SchemaInvalidError,
    SchemaRefusedError,
)
from danube.model.schema import SchemaType
from danube.model.topic import DispatchStrategy, TopicName
from danube.testing.in_process_broker import Cell, StartBroker
from danube.testing.patience import PATIENCE_S

TOPIC = "/default/orders"
ORDER = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
ORDER_2 = {**ORDER, "properties": {**ORDER["properties"], "note": {"type": "string"}}}  # type: ignore[dict-item]

pytestmark = pytest.mark.timeout(PATIENCE_S)


@asynccontextmanager
async def client_of(cell: Cell) -> AsyncIterator[DanubeClient]:
    builder = DanubeClientBuilder().service_url(f"http://{cell.broker.addresses.broker}").with_carrier(cell.carrier)
    async with await builder.build() as client:
        yield client


async def register(client: DanubeClient, subject: str, schema: object) -> int:
    builder = client.schema().register_schema(subject).with_type(SchemaType.JSON_SCHEMA)
    return await builder.with_schema_data(json.dumps(schema).encode()).execute()


async def test_the_same_definition_again_is_the_same_version(start_broker: StartBroker) -> None:
    async with client_of(await start_broker()) as client:
        first = await register(client, "orders", ORDER)
        assert await register(client, "orders", dict(reversed(ORDER.items()))) == first
        assert await client.schema().list_versions("orders") == [1]


async def test_concurrent_registrations_have_versions_without_gaps(start_broker: StartBroker) -> None:
    async with client_of(await start_broker()) as client:
        schemas = [{"title": str(number), **ORDER} for number in range(8)]
        ids = await asyncio.gather(*(register(client, "orders", schema) for schema in schemas))
        assert len(set(ids)) == 1
        assert await client.schema().list_versions("orders") == list(range(1, 9))


async def test_a_deleted_version_leaves_its_number_behind(start_broker: StartBroker) -> None:
    async with client_of(await start_broker()) as client:
        registry = client.schema()
        schema_id = await register(client, "orders", ORDER)
        await register(client, "orders", ORDER_2)
        await registry.delete_schema_version("orders", 2)
        assert (await registry.get_latest_schema("orders")).version == 1
        with pytest.raises(NotFoundError, match="was deleted"):
            await registry.get_schema_version(schema_id, 2)
        await register(client, "orders", ORDER_2)
        assert await registry.list_versions("orders") == [1, 3]
        for version in (1, 3):
            await registry.delete_schema_version("orders", version)
        with pytest.raises(NotFoundError):
            await registry.get_latest_schema("orders")
        assert await register(client, "orders", ORDER) == schema_id
        assert await registry.list_versions("orders") == [4]


async def test_an_answer_has_the_definition_wrapped_as_the_original_does(start_broker: StartBroker) -> None:
    async with client_of(await start_broker()) as client:
        schema_id = await register(client, "orders", ORDER)
        found = await client.schema().get_schema_by_id(schema_id)
        assert json.loads(found.schema_definition) == {
            "JsonSchema": {"raw_schema": json.dumps(ORDER), "fingerprint": found.fingerprint}
        }
        builder = client.schema().register_schema("texts").with_type(SchemaType.STRING).with_schema_data(b"text")
        texts = await builder.execute()
        assert (await client.schema().get_schema_by_id(texts)).schema_definition == b'"String"'


async def test_each_version_is_found_by_its_number_across_all_subjects(start_broker: StartBroker) -> None:
    async with client_of(await start_broker()) as client:
        for subject, schema in (("orders", ORDER), ("orders", ORDER_2), ("others", ORDER)):
            await register(client, subject, schema)
        found = [await client.schema().find(FindVersion(number=number)) for number in (1, 2, 3)]
        assert [(one.subject, one.version) for one in found] == [("orders", 1), ("orders", 2), ("others", 1)]


async def test_a_definition_that_is_wrong_is_refused_with_the_place(start_broker: StartBroker) -> None:
    async with client_of(await start_broker()) as client:
        with pytest.raises(SchemaInvalidError, match="properties/id"):
            await register(client, "orders", {"type": "object", "properties": {"id": {"type": "integr"}}})
        with pytest.raises(NotFoundError):
            await client.schema().get_latest_schema("orders")


async def test_a_topic_is_described_with_the_latest_version_of_its_schema(start_broker: StartBroker) -> None:
    cell = await start_broker()
    topic = TopicName.parse(TOPIC)
    async with client_of(cell) as client:
        schema_id = await register(client, "orders", ORDER)
        await register(client, "orders", {"title": "second", **ORDER})
        await client.new_producer().with_topic(TOPIC).with_name("p").with_schema_subject("orders").build().create()
        found = await cell.admin.topic(topic)
        assert (found.schema_subject, found.schema_id, found.schema_version) == ("orders", schema_id, 2)
        assert (found.schema_type, found.compatibility_mode) == ("json_schema", "BACKWARD")
        plain = "/default/plain"
        await client.new_producer().with_topic(plain).with_name("p").build().create()
        assert (await cell.admin.topic(TopicName.parse(plain))).compatibility_mode is None


async def test_a_topic_follows_the_subject_of_its_first_producer_alone(start_broker: StartBroker) -> None:
    cell = await start_broker()
    async with client_of(cell) as client:
        await register(client, "orders", ORDER)
        await register(client, "others", ORDER)
        producers = [
            client.new_producer().with_topic(TOPIC).with_name("first").with_schema_subject("orders").build(),
            client.new_producer().with_topic(TOPIC).with_name("plain").build(),
            client.new_producer().with_topic(TOPIC).with_name("pinned").with_schema_version("orders", 1).build(),
        ]
        for producer in producers:
            await producer.create()
        assert (await client.schema().get_topic_schema_config(TOPIC)).schema_subject == "orders"
        with pytest.raises(PreconditionFailedError, match="follows the subject orders"):
            await client.new_producer().with_topic(TOPIC).with_name("o").with_schema_subject("others").build().create()
        with pytest.raises(NotFoundError, match="not registered"):
            await client.new_producer().with_topic(TOPIC).with_name("u").with_schema_subject("none").build().create()


@pytest.mark.parametrize("strategy", list(DispatchStrategy))
async def test_enforce_refuses_what_names_no_schema_and_says_so(
    start_broker: StartBroker, strategy: DispatchStrategy
) -> None:
    cell = await start_broker()
    async with client_of(cell) as client:
        await register(client, "orders", ORDER)
        plain = client.new_producer().with_topic(TOPIC).with_name("plain").with_dispatch_strategy(strategy).build()
        await plain.create()
        await plain.send(b"anything")
        await client.schema().configure_topic_schema(TOPIC, "orders", "enforce")
        with pytest.raises(SchemaRefusedError, match="names no schema"):
            await plain.send(b"anything")
        with pytest.raises(SchemaRefusedError, match="names no schema"):
            await plain.send_many([b"anything"])
        builder = client.new_producer().with_topic(TOPIC).with_name("good").with_schema_subject("orders")
        good = builder.with_dispatch_strategy(strategy).build()
        await good.create()
        await good.send(b"anything")
        assert await good.send_many([b"anything"] * 3) == 3


@pytest.mark.parametrize("strategy", list(DispatchStrategy))
async def test_a_payload_that_is_refused_is_refused_with_its_field(
    start_broker: StartBroker, strategy: DispatchStrategy
) -> None:
    async with client_of(await start_broker()) as client:
        await register(client, "orders", ORDER)
        builder = client.new_producer().with_topic(TOPIC).with_name("good").with_schema_subject("orders")
        producer = builder.with_dispatch_strategy(strategy).build()
        await producer.create()
        await client.schema().configure_topic_schema(TOPIC, "orders", "enforce", True)
        await producer.send(b'{"id": 1}')
        assert await producer.send_many([b'{"id": 1}', b'{"id": 2}']) == 2
        with pytest.raises(SchemaRefusedError, match="id"):
            await producer.send(b'{"id": "one"}')
        with pytest.raises(SchemaRefusedError, match="id"):
            await producer.send_many([b'{"id": 1}', b'{"id": "one"}'])
        await client.schema().update_topic_validation_policy(TOPIC, "warn", True)
        await producer.send(b'{"id": "one"}')


async def test_a_version_that_was_deleted_is_refused_and_the_producer_told_what_to_do(
    start_broker: StartBroker,
) -> None:
    async with client_of(await start_broker()) as client:
        await register(client, "orders", ORDER)
        producer = client.new_producer().with_topic(TOPIC).with_name("p").with_schema_subject("orders").build()
        await producer.create()
        await client.schema().configure_topic_schema(TOPIC, "orders", "enforce")
        await producer.send(b"1")
        await client.schema().delete_schema_version("orders", 1)
        async with asyncio.timeout(PATIENCE_S):
            with pytest.raises(SchemaRefusedError, match="was deleted"):
                while True:
                    await producer.send(b"2")


async def test_registry_and_bindings_outlive_a_restart(start_broker: StartBroker) -> None:
    cell = await start_broker()
    async with client_of(cell) as client:
        schema_id = await register(client, "orders", ORDER)
        plain = client.new_producer().with_topic(TOPIC).with_name("plain").build()
        await plain.create()
        await client.schema().configure_topic_schema(TOPIC, "orders", "enforce")
    await cell.broker.stop()
    async with client_of(await start_broker()) as client:
        assert (await client.schema().get_latest_schema("orders")).schema_id == schema_id
        plain = client.new_producer().with_topic(TOPIC).with_name("plain").build()
        await plain.create()
        with pytest.raises(SchemaRefusedError):
            await plain.send(b"anything")


async def test_words_that_mean_nothing_are_refused(start_broker: StartBroker) -> None:
    async with client_of(await start_broker()) as client:
        await register(client, "orders", ORDER)
        await client.new_producer().with_topic(TOPIC).with_name("p").build().create()
        with pytest.raises(InvalidRequestError, match="validation policy"):
            await client.schema().configure_topic_schema(TOPIC, "orders", "sometimes")
        with pytest.raises(NotFoundError):
            await client.schema().configure_topic_schema(TOPIC, "unknown", "warn")
        with pytest.raises(PreconditionFailedError, match="configure its schema first"):
            await client.schema().update_topic_validation_policy(TOPIC, "warn")
