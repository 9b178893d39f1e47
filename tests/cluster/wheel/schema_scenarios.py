"""The schema registry: registering, compatibility, versions of producers, bindings and validation of topics."""

import json
import uuid
from collections.abc import Awaitable
from typing import Any

from danube import CompatibilityMode, DanubeClient, Producer, SchemaType
from tests.cluster.wheel.scene import Reader, covers, new_reader, new_topic

USER = {"type": "record", "name": "User", "fields": [{"name": "name", "type": "string"}]}


def new_subject() -> str:
    return f"subject-{uuid.uuid4().hex}"


def document(required: str = "", **properties: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {name: {"type": kind} for name, kind in properties.items()},
        "required": required.split(),
    }


async def register(client: DanubeClient, subject: str, schema: Any, kind: SchemaType = SchemaType.JSON_SCHEMA) -> int:
    data = schema if isinstance(schema, bytes) else json.dumps(schema).encode()
    schema_id: int = await client.schema().register_schema(subject).with_type(kind).with_schema_data(data).execute()
    return schema_id


async def refused(attempt: Awaitable[Any]) -> bool:
    try:
        await attempt
    except Exception:
        return True
    return False


async def attached(
    client: DanubeClient, topic: str, subject: str = "", name: str = "p", *, pinned: int = 0, minimum: int = 0
) -> Producer:
    builder = client.new_producer().with_topic(topic).with_name(name)
    if pinned:
        builder = builder.with_schema_version(subject, pinned)
    elif minimum:
        builder = builder.with_schema_min_version(subject, minimum)
    elif subject:
        builder = builder.with_schema_subject(subject)
    producer: Producer = builder.build()
    await producer.create()
    return producer


async def sent_and_received(producer: Producer, reader: Reader, payload: bytes) -> Any:
    await producer.send(payload)
    assert await reader.take(1) == [payload]
    return reader.last


@covers(
    "schema_registry_basic.register_json_schema",
    "schema_registry_basic.register_other_types",
    "schema_registry_basic.producer_with_registered_schema",
    "schema_registry_basic.producer_with_unregistered_schema_fails",
    "schema_registry_basic.producer_without_schema",
    "schema_registry_basic.schema_evolution_latest",
    "schema_registry_basic.message_carries_schema",
    "schema_registry_basic.two_producers_share_a_subject",
)
async def schema_registry_basic(client: DanubeClient) -> None:
    subject, topic = new_subject(), new_topic()
    schema_id = await register(client, subject, document("id", id="integer"))
    assert schema_id > 0
    assert await register(client, subject, document("id", id="integer")) == schema_id
    kinds = {SchemaType.AVRO: USER, SchemaType.STRING: b"text", SchemaType.BYTES: b"bytes"}
    for kind, schema in kinds.items():
        other = new_subject()
        assert await register(client, other, schema, kind) > 0
        assert (await client.schema().get_latest_schema(other)).schema_type == kind.as_string()
    first, second = await attached(client, topic, subject), await attached(client, topic, subject, "second")
    assert await refused(attached(client, new_topic(), new_subject()))
    reader = await new_reader(client, topic)
    for producer in (first, second):
        message = await sent_and_received(producer, reader, b'{"id": 1}')
        assert (message.schema_id, message.schema_version) == (schema_id, 1)
    plain = new_topic()
    unbound, other_reader = await attached(client, plain), await new_reader(client, plain)
    message = await sent_and_received(unbound, other_reader, b"anything")
    assert not message.HasField("schema_id")
    await register(client, subject, document("id", id="integer", note="string"))
    latest = await client.schema().get_latest_schema(subject)
    assert (latest.version, latest.schema_id) == (2, schema_id)
    assert await client.schema().list_versions(subject) == [1, 2]
    first_version = await client.schema().get_schema_version(schema_id, 1)
    wrapped = json.loads(first_version.schema_definition)["JsonSchema"]
    assert json.loads(wrapped["raw_schema"]) == document("id", id="integer")


@covers(
    "schema_compatibility.backward_add_optional",
    "schema_compatibility.backward_remove_required_fails",
    "schema_compatibility.forward_remove_optional",
    "schema_compatibility.forward_add_required_fails",
    "schema_compatibility.full_strict",
    "schema_compatibility.none_allows_breaks",
    "schema_compatibility.avro_default_field",
    "schema_compatibility.check_before_registration",
    "schema_compatibility.chain_of_versions",
)
async def schema_compatibility(client: DanubeClient) -> None:
    backward, forward, full = CompatibilityMode.BACKWARD, CompatibilityMode.FORWARD, CompatibilityMode.FULL
    cases = [
        (backward, document("name", name="string"), document("name", name="string", email="string"), True),
        (
            backward,
            document("name age", name="string", age="integer"),
            document("name", name="string"),
            False,
        ),
        (forward, document("name", name="string", nick="string"), document("name", name="string"), True),
        (
            forward,
            document("name", name="string"),
            document("name email", name="string", email="string"),
            False,
        ),
        (full, document("id name", id="integer", name="string"), document("id", id="integer"), False),
        (
            full,
            document("id name", id="integer", name="string"),
            document("id name", id="integer", name="string", note="string"),
            True,
        ),
        (CompatibilityMode.NONE, document("name", name="string"), document("age", age="integer"), True),
    ]
    for mode, before, after, fits in cases:
        subject = new_subject()
        await register(client, subject, before)
        ok, _ = await client.schema().set_compatibility_mode(subject, mode)
        assert ok
        checked, errors = await client.schema().check_compatibility(
            subject, json.dumps(after).encode(), SchemaType.JSON_SCHEMA
        )
        assert (checked, not errors) == (fits, fits), (mode, after, errors)
        assert await refused(register(client, subject, after)) is not fits, (mode, after)
        assert await client.schema().list_versions(subject) == ([1, 2] if fits else [1])
    users = new_subject()
    await register(client, users, USER, SchemaType.AVRO)
    older = {**USER, "fields": [*USER["fields"], {"name": "age", "type": "int", "default": 0}]}
    await register(client, users, older, SchemaType.AVRO)
    chain = new_subject()
    properties = {"id": "integer"}
    for added in ("", "name", "email"):
        properties |= {added: "string"} if added else {}
        await register(client, chain, document("id", **properties))
    assert await client.schema().list_versions(chain) == [1, 2, 3]
    fits, errors = await client.schema().check_compatibility(
        chain, json.dumps(document("name", name="string")).encode(), SchemaType.JSON_SCHEMA
    )
    assert not fits
    assert any("name" in error for error in errors)


@covers(
    "schema_validation_policy.matching_end_to_end",
    "schema_validation_policy.several_valid_payloads",
    "schema_validation_policy.consumer_handles_two_versions",
    "schema_validation_policy.avro",
    "schema_validation_policy.string",
    "schema_validation_policy.bytes",
    "schema_validation_policy.metadata_in_messages",
    "schema_validation_policy.second_producer_with_other_subject_fails",
)
async def schema_validation_policy(client: DanubeClient) -> None:
    subject, topic = new_subject(), new_topic()
    schema_id = await register(client, subject, document("id", id="integer"))
    first = await attached(client, topic, subject, "first")
    await client.schema().configure_topic_schema(topic, subject, "enforce", True)
    reader = await new_reader(client, topic)
    for number in range(3):
        message = await sent_and_received(first, reader, json.dumps({"id": number}).encode())
        assert (message.schema_id, message.schema_version) == (schema_id, 1)
    assert await refused(first.send(b'{"id": "one"}'))
    await register(client, subject, document("id", id="integer", name="string"))
    second = await attached(client, topic, subject, "second")
    old = await sent_and_received(first, reader, b'{"id": 1}')
    new = await sent_and_received(second, reader, b'{"id": 2, "name": "two"}')
    assert [old.schema_version, new.schema_version] == [1, 2]
    assert await refused(second.send(b'{"id": 2, "name": 2}'))
    other = new_subject()
    await register(client, other, document("id", id="integer"))
    assert await refused(attached(client, topic, other, "third"))
    kinds = {
        SchemaType.AVRO: (USER, b"\x06bob", b"\x07bob"),
        SchemaType.STRING: (b"text", "grüße".encode(), b"\xff\xfe"),
        SchemaType.BYTES: (b"bytes", b"\x00\xff", None),
    }
    for kind, (schema, good, bad) in kinds.items():
        of_kind, bound = new_subject(), new_topic()
        identity = await register(client, of_kind, schema, kind)
        producer = await attached(client, bound, of_kind)
        await client.schema().configure_topic_schema(bound, of_kind, "enforce", True)
        message = await sent_and_received(producer, await new_reader(client, bound), good)
        assert message.schema_id == identity
        if bad is not None:
            assert await refused(producer.send(bad)), kind


@covers(
    "schema_version_selection.pin_to_first",
    "schema_version_selection.minimum_uses_latest",
    "schema_version_selection.two_producers_two_versions",
    "schema_version_selection.invalid_version_fails",
    "schema_version_selection.default_is_latest",
    "schema_version_selection.minimum_at_the_boundary",
)
async def schema_version_selection(client: DanubeClient) -> None:
    subject, topic = new_subject(), new_topic()
    for count in (1, 2, 3):
        properties = {"id": "integer", "a": "string", "b": "string"}
        await register(client, subject, document("id", **dict(list(properties.items())[:count])))
    producers = {
        1: await attached(client, topic, subject, "pinned", pinned=1),
        2: await attached(client, topic, subject, "second", pinned=2),
    }
    latest = [
        await attached(client, topic, subject, "latest"),
        await attached(client, topic, subject, "minimum", minimum=2),
        await attached(client, topic, subject, "boundary", minimum=3),
    ]
    reader = await new_reader(client, topic)
    for version, producer in [*producers.items(), *((3, producer) for producer in latest)]:
        message = await sent_and_received(producer, reader, b'{"id": 1}')
        assert message.schema_version == version
    assert await refused(attached(client, topic, subject, "missing", pinned=99))
    assert await refused(attached(client, topic, subject, "too new", minimum=4))


@covers(
    "topic_schema_config.first_producer_assigns_the_subject",
    "topic_schema_config.another_subject_fails",
    "topic_schema_config.producer_without_schema_may_connect",
    "topic_schema_config.several_versions_of_a_subject",
)
async def topic_schema_config(client: DanubeClient) -> None:
    subject, other, topic = new_subject(), new_subject(), new_topic()
    schema_id = await register(client, subject, document("id", id="integer"))
    await register(client, other, document("id", id="integer"))
    await attached(client, topic, subject, "first")
    config = await client.schema().get_topic_schema_config(topic)
    assert (config.schema_subject, config.validation_policy, config.schema_id) == (subject, "warn", schema_id)
    assert not config.enable_payload_validation
    assert await refused(attached(client, topic, other, "other"))
    plain = await attached(client, topic, name="plain")
    await plain.send(b"anything")
    await register(client, subject, document("id", id="integer", note="string"))
    await attached(client, topic, subject, "old", pinned=1)
    await attached(client, topic, subject, "new", pinned=2)
    ok, _ = await client.schema().update_topic_validation_policy(topic, "enforce")
    assert ok
    assert await refused(plain.send(b"anything"))
    ok, _ = await client.schema().delete_schema_version(subject, 1)
    assert ok
    assert await client.schema().list_versions(subject) == [2]
