"""Bad schemas and bad messages at a whole broker: each is refused in words, and nobody else waits for it."""

import asyncio
import base64
import json
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from danube.client.client import DanubeClient, DanubeClientBuilder
from danube.client.publish.producer import Producer
from danube.model.calls.client import OutgoingMessage
from danube.model.errors import (
    DanubeError,
    InvalidRequestError,
    NotFoundError,
    PreconditionFailedError,
    SchemaInvalidError,
    SchemaRefusedError,
)
from danube.model.limits.registry import SCHEMA_BYTES_MAX
from danube.model.schema import SchemaType
from danube.model.topic import DispatchStrategy, TopicName
from danube.rpc import http_port  # noqa: F401 - uvicorn is read before the event loop runs, as in a process of its own
from danube.rpc.address import split_address
from danube.runtime.protoc import compiler
from danube.testing.in_process_broker import Cell, StartBroker
from danube.testing.patience import LONG_S, PATIENCE_S
from danube.wire import encode

TOPIC = TopicName("default", "orders")
ORDER = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
JSON, AVRO, PROTOBUF = SchemaType.JSON_SCHEMA, SchemaType.AVRO, SchemaType.PROTOBUF
CPU_S_MAX = 2.0
PROGRAM_THAT_WAITS = "import pathlib, sys, time\nwhile not pathlib.Path({!r}).exists(): time.sleep(0.1)\nsys.exit(1)\n"

pytestmark = pytest.mark.timeout(2 * PATIENCE_S)


@asynccontextmanager
async def client_of(cell: Cell) -> AsyncIterator[DanubeClient]:
    builder = DanubeClientBuilder().service_url(f"http://{cell.broker.addresses.broker}").with_carrier(cell.carrier)
    async with await builder.build() as client:
        yield client


async def register(client: DanubeClient, subject: str, schema: Any, kind: SchemaType = JSON) -> int:
    data = schema if isinstance(schema, bytes) else schema.encode() if isinstance(schema, str) else json.dumps(schema)
    data = data if isinstance(data, bytes) else data.encode()
    return await client.schema().register_schema(subject).with_type(kind).with_schema_data(data).execute()


def producer_of(client: DanubeClient, name: str, subject: str = "orders", version: int = 0) -> Producer:
    """A producer of the topic, with the latest version of a subject or one of its versions."""
    builder = client.new_producer().with_topic(str(TOPIC)).with_name(name)
    builder = builder.with_schema_version(subject, version) if version else builder.with_schema_subject(subject)
    return builder.with_dispatch_strategy(DispatchStrategy.RELIABLE).build()


async def enforced(client: DanubeClient, schema: Any, kind: SchemaType = JSON) -> int:
    """The id of the subject that the topic follows, payloads too."""
    schema_id = await register(client, "orders", schema, kind)
    await producer_of(client, "first").create()
    await client.schema().configure_topic_schema(str(TOPIC), "orders", "enforce", True)
    return schema_id


async def test_definitions_that_are_no_schemas_are_refused_and_leave_nothing_behind(start_broker: StartBroker) -> None:
    circle = {"type": "record", "name": "R", "fields": [{"name": "r", "type": "R"}]}
    cases: list[tuple[SchemaType, Any, type[DanubeError], str]] = [
        (JSON, b"{not json", SchemaInvalidError, "no JSON"),
        (JSON, b"\xff\xfe", InvalidRequestError, "UTF-8"),
        (JSON, '{"a":' * 100 + "1" + "}" * 100, SchemaInvalidError, "levels"),
        (JSON, "[" * 100_000, InvalidRequestError, "levels|no JSON"),
        (JSON, {"$ref": "#"}, SchemaInvalidError, "refers to itself"),
        (JSON, {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}, SchemaInvalidError, "itself"),
        (JSON, {"pattern": "(((a{1000}){1000}){1000})"}, SchemaInvalidError, "pattern"),
        (AVRO, {"type": "array", "items": circle | {"fields": [{"name": "r", "type": "Q"}]}}, SchemaInvalidError, "Q"),
        (AVRO, "{", SchemaInvalidError, "no JSON"),
        (JSON, json.dumps({"title": "x" * SCHEMA_BYTES_MAX}), InvalidRequestError, "long|large|bytes"),
    ]
    async with client_of(await start_broker()) as client:
        for kind, definition, error, reason in cases:
            with pytest.raises(error, match=reason):
                await register(client, "bad", definition, kind)
        with pytest.raises(NotFoundError):
            await client.schema().get_latest_schema("bad")
        await register(client, "good", ORDER)


async def test_a_remote_reference_is_refused_and_nobody_is_asked_for_it(start_broker: StartBroker) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/order.json"
        async with client_of(await start_broker()) as client:
            for schema in ({"$ref": url}, {"$schema": url, "type": "object"}, {"$id": url, "$ref": "other.json"}):
                with pytest.raises(SchemaInvalidError):
                    await register(client, "remote", schema)
            await register(client, "named", {"$id": url, **ORDER})
        with pytest.raises(BlockingIOError):
            listener.accept()


async def test_an_import_of_protobuf_never_reads_a_file_of_the_disk(
    start_broker: StartBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret.proto").write_text('syntax = "proto3"; message Secret { string word = 1; }')
    monkeypatch.chdir(tmp_path)
    names = ["secret.proto", str(tmp_path / "secret.proto"), f"../{tmp_path.name}/secret.proto", "/etc/hostname"]
    async with client_of(await start_broker()) as client:
        for name in names:
            text = f'syntax = "proto3"; import "{name}"; message M {{ Secret s = 1; }}'
            with pytest.raises(SchemaInvalidError, match=r"secret|hostname"):
                await register(client, "bad", text, PROTOBUF)
            file = FileDescriptorProto(name="m.proto", dependency=[name])
            file.message_type.add(name="M")
            with pytest.raises(SchemaInvalidError, match="in no reference"):
                await register(client, "bad", base64.b64encode(file.SerializeToString()), PROTOBUF)


async def test_a_pattern_that_explodes_costs_the_publisher_little_and_others_nothing(start_broker: StartBroker) -> None:
    async with client_of(await start_broker()) as client:
        await enforced(client, {"type": "string", "pattern": r"^(?!x)((a+)+)\1$"})
        producer = producer_of(client, "p")
        await producer.create()
        began_s = time.process_time()
        for _ in range(5):
            with pytest.raises(SchemaRefusedError):
                await producer.send(json.dumps("a" * 5_000 + "b").encode())
        assert time.process_time() - began_s < CPU_S_MAX


@pytest.mark.parametrize("policy", ["enforce", "warn"])
async def test_unknown_ids_on_messages_are_refused_or_counted(start_broker: StartBroker, policy: str) -> None:
    cell = await start_broker()
    async with client_of(cell) as client:
        schema_id = await enforced(client, ORDER)
        await client.schema().update_topic_validation_policy(str(TOPIC), policy, False)
        producer_id = await cell.client.create_producer(TOPIC)

        async def send(schema_id: int | None, version: int | None) -> None:
            message = OutgoingMessage(
                7, producer_id, str(TOPIC), "http://peer", b"1", 1, "producer", attributes={}, schema_id=schema_id,
                schema_version=version,
            )  # fmt: skip
            await cell.client.call("/danube.ProducerService/SendMessage", encode.send_message(message))

        await send(schema_id, 1)
        for pair in ((schema_id + 1, 1), (schema_id, 2), (2**63, 1), (schema_id, 2**32 - 1), (None, None), (None, 1)):
            if policy == "warn":
                await send(*pair)
                continue
            with pytest.raises(SchemaRefusedError):
                await send(*pair)


@pytest.mark.parametrize("codec", ["none", "lz4", "zstd"])
async def test_a_bad_payload_within_a_batch_is_refused_in_any_compression(
    start_broker: StartBroker, codec: str
) -> None:
    async with client_of(await start_broker()) as client:
        await enforced(client, ORDER)
        builder = client.new_producer().with_topic(str(TOPIC)).with_name("p").with_schema_subject("orders")
        producer = builder.with_dispatch_strategy(DispatchStrategy.RELIABLE).with_compression(codec).build()
        await producer.create()
        good = json.dumps({"id": 1, "note": "x" * 500}).encode()
        assert await producer.send_many([good] * 20) == 20
        with pytest.raises(SchemaRefusedError, match="record 19 of the batch"):
            await producer.send_many([*[good] * 19, b'{"id": "x"}'])


async def test_a_batch_that_takes_too_long_to_check_is_refused(start_broker: StartBroker) -> None:
    words = [f"x{number}" for number in range(6_000)]
    async with client_of(await start_broker()) as client:
        await enforced(client, {"items": {"enum": [*words, 1]}})
        producer = producer_of(client, "p")
        await producer.create()
        heavy = b"[" + b",".join([b"1"] * 2_000) + b"]"
        await producer.send(heavy)
        began_s = time.process_time()
        with pytest.raises(SchemaRefusedError, match="too expensive to check"):
            await producer.send_many([heavy] * 50)
        assert time.process_time() - began_s < 2 * CPU_S_MAX


async def test_what_a_warning_lets_through_is_counted_by_its_reason(start_broker: StartBroker) -> None:
    cell = await start_broker(prom_exporter="127.0.0.1:0")
    async with client_of(cell) as client:
        await enforced(client, ORDER)
        await client.schema().update_topic_validation_policy(str(TOPIC), "warn", True)
        producer = producer_of(client, "p")
        await producer.create()
        await producer.send_many([b'{"id": 1}', b"{}", b"no JSON"])
        await producer.send(b"[]")
    reader, writer = await asyncio.open_connection(*split_address(str(cell.broker.addresses.metrics)))
    writer.write(b"GET /metrics HTTP/1.0\r\n\r\n")
    async with asyncio.timeout(PATIENCE_S):
        shown = (await reader.read()).decode()
    writer.close()
    assert f'danube_schema_validation_failures_total{{reason="payload_invalid",topic="{TOPIC}"}} 3.0' in shown
    assert f'danube_schema_validation_total{{policy="warn",topic="{TOPIC}"}} 4.0' in shown


async def test_a_topic_of_a_deleted_version_keeps_its_messages_and_takes_those_of_the_next(
    start_broker: StartBroker,
) -> None:
    async with client_of(await start_broker()) as client:
        await enforced(client, ORDER)
        await register(client, "orders", {**ORDER, "title": "second"})
        consuming = client.new_consumer().with_topic(str(TOPIC)).with_consumer_name("c").with_subscription("s")
        async with consuming.build() as consumer:
            old = producer_of(client, "old", version=1)
            await old.create()
            await old.send(b'{"id": 1}')
            await client.schema().delete_schema_version("orders", 1)
            async with asyncio.timeout(PATIENCE_S):
                with pytest.raises(SchemaRefusedError, match="was deleted"):
                    while True:
                        await old.send(b'{"id": 2}')
            new = producer_of(client, "new")
            await new.create()
            await new.send(b'{"id": 3}')
            received = await consumer.receive_many(1, timeout_s=LONG_S)
            assert (received[0].payload, received[0].schema_version) == (b'{"id": 1}', 1)


async def test_a_second_subject_for_a_topic_is_refused_until_it_is_configured(start_broker: StartBroker) -> None:
    async with client_of(await start_broker()) as client:
        await enforced(client, ORDER)
        await register(client, "others", ORDER)
        with pytest.raises(PreconditionFailedError, match="follows the subject orders"):
            await producer_of(client, "o", "others").create()
        await client.schema().configure_topic_schema(str(TOPIC), "others", "enforce", True)
        await producer_of(client, "o", "others").create()


async def test_a_compiler_that_takes_long_delays_no_other_call(
    start_broker: StartBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, go_on = tmp_path / "slow.py", tmp_path / "go-on"
    program.write_text(PROGRAM_THAT_WAITS.format(str(go_on)))
    monkeypatch.setattr(compiler, "_PROGRAM", program)
    async with client_of(await start_broker()) as client:
        stuck = asyncio.ensure_future(register(client, "slow", 'syntax = "proto3"; message M {}', PROTOBUF))
        await enforced(client, ORDER)
        producer = producer_of(client, "p")
        await producer.create()
        assert await producer.send_many([b'{"id": 1}'] * 100) == 100
        await register(client, "others", {"type": "record", "name": "R", "fields": []}, AVRO)
        assert not stuck.done()
        go_on.touch()
        with pytest.raises(SchemaInvalidError, match="ended without an answer"):
            await stuck
