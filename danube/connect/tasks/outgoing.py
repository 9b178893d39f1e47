"""Outgoing records of sources: producers of their routes, schemas, and values as payloads."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from danube.client import DanubeClient, Producer, ProducerAccess, ProducerBuilder
from danube.connect.batch import Out
from danube.connect.config.file import ConnectorConfig, SchemaMapping, Strategy
from danube.connect.config.routes import SourceRoute
from danube.model.calls.schemas import RegisterVersion
from danube.model.errors import SettingsError
from danube.model.limits.faces import CONNECT_FILE_BYTES_MAX
from danube.model.schema import SchemaType
from danube.model.topic import DispatchStrategy
from danube.runtime.blocking import run_apart


def payload_of(value: Any) -> bytes:  # noqa: ANN401 - of the application
    """A value without a schema as bytes: bytes and text as they are, and JSON of anything else. Raises ValueError."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    try:
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
    except TypeError as error:
        raise ValueError(f"a value without a schema is bytes, text or JSON: {error}") from None


async def producer_of(
    client: DanubeClient,
    config: ConnectorConfig,
    route: SourceRoute,
    *,
    is_exclusive: bool,
    schema: Any = None,  # noqa: ANN401 - of the application
) -> Producer:
    """A producer of a route's topic, attached. Raises DanubeError."""
    builder = client.new_producer().with_topic(route.to).with_name(config.name).with_partitions(route.partitions)
    builder.with_dispatch_strategy(route.strategy)
    if schema is not None:
        builder.with_schema(schema)
    for mapping in config.schemas:
        if mapping.topic == route.to:
            await _with_subject(client, builder, mapping)
    if is_exclusive:
        if route.strategy is not DispatchStrategy.RELIABLE:
            raise SettingsError(f"{route.to} keeps no positions: leave reliable_dispatch out, or set it to true")
        builder.with_deduplication().with_access(ProducerAccess.EXCLUSIVE)
    producer = builder.build()
    await producer.create()
    return producer


async def _with_subject(client: DanubeClient, builder: ProducerBuilder, mapping: SchemaMapping) -> None:
    """Register the schema of `[[schemas]]`, and write with it."""
    if mapping.auto_register:
        path = Path(mapping.schema_file)
        definition = await run_apart("schema file", lambda: _content(path)) if mapping.schema_file else b""
        kind = SchemaType.parse(mapping.schema_type)
        await client.schema().register_version(
            RegisterVersion(subject=mapping.subject, type=kind, definition=definition, created_by="danube-connect")
        )
    strategy = mapping.version_strategy
    if isinstance(strategy, Strategy) and strategy.pinned is not None:
        builder.with_schema_version(mapping.subject, strategy.pinned)
    elif isinstance(strategy, Strategy) and strategy.minimum is not None:
        builder.with_schema_min_version(mapping.subject, strategy.minimum)
    else:
        builder.with_schema_subject(mapping.subject)


def _content(path: Path) -> bytes:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise SettingsError(f"cannot read the schema {path}: {error.strerror}") from None
    if len(content) > CONNECT_FILE_BYTES_MAX:
        raise SettingsError(f"the schema {path} has more than {CONNECT_FILE_BYTES_MAX:,} bytes: take a smaller one")
    return content


async def send(producer: Producer, records: Sequence[Out[Any]], *, is_typed: bool) -> None:
    """Send records of a pushed source in order; returns after the receipt. Raises DanubeError."""
    for record in records:
        value = record.value if is_typed else payload_of(record.value)
        if record.key is None:
            await producer.send(value, dict(record.attributes))
        else:
            await producer.send_with_key(value, dict(record.attributes), record.key)
