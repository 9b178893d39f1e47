"""The column `decoded`: payloads as typed values, by the schema that the topic is bound to. Runs on workers.

Its type is that of the newest version when the read is planned. Each payload is decoded by the version that it was
written with, and Avro resolves it to the newest one. A payload that no schema decodes is null, and its bytes are still
in `value`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa  # type: ignore[import-untyped]

from danube.client.typed.avro import AvroSchema
from danube.model.errors import DanubeError
from danube.model.schema import SchemaType
from danube.model.untrusted_json import decode_json
from danube.tables.link import Link
from danube.tables.shapes import Shape, shape_of

RecordBatch: TypeAlias = Any  # pyarrow has no types
Decode = Callable[[bytes], Any]
DECODED = "decoded"
NEEDED = ("schema_id", "schema_version", "value")
"""Columns that it is made of."""


@dataclass(frozen=True, slots=True)
class TopicSchema:
    """The newest version of a topic's subject, as the driver found it; sent to the workers."""

    kind: SchemaType
    definition: str

    @classmethod
    def of(cls, link: Link, topic: str) -> "TopicSchema":
        """Ask the registry. Raises PreconditionFailedError for a topic without a schema, DanubeError."""
        found = link.topic_schema(topic)
        return cls(found.type, found.definition.decode())

    def shape(self) -> Shape:
        """The type of the column. Raises UnsupportedError."""
        return shape_of(self.kind, self.definition)


class Decoder:
    """Adds the column to Arrow batches of one slice."""

    def __init__(self, link: Link, schema: TopicSchema) -> None:
        self._link, self._schema, self._shape = link, schema, schema.shape()
        self._known: dict[tuple[int | None, int | None], Decode | None] = {}

    def add_to(self, batch: RecordBatch) -> RecordBatch:
        """The batch, which has the columns NEEDED, with the decoded one at its end."""
        written = zip(batch["schema_id"].to_pylist(), batch["schema_version"].to_pylist(), strict=True)
        values = [self._value(pair, payload) for pair, payload in zip(written, batch["value"].to_pylist(), strict=True)]
        decoded = pa.array(values, type=self._shape.arrow)
        return pa.RecordBatch.from_arrays(
            [*batch.columns, decoded], schema=batch.schema.append(pa.field(DECODED, self._shape.arrow))
        )

    def _value(self, pair: tuple[int | None, int | None], payload: bytes) -> Any:  # noqa: ANN401 - a decoded value
        if pair not in self._known:
            self._known[pair] = self._decode_of(pair)
        decode = self._known[pair]
        if decode is None:
            return None
        try:
            return self._shape.read(decode(payload))
        except (DanubeError, ValueError):
            return None

    def _decode_of(self, pair: tuple[int | None, int | None]) -> Decode | None:
        if self._schema.kind is SchemaType.STRING:
            return bytes.decode
        if self._schema.kind is SchemaType.JSON_SCHEMA:
            return decode_json
        if pair[0] is None:  # Avro cannot be read without the schema that wrote it
            return None
        written = self._link.schema_version(pair[0], pair[1])
        reader, text = AvroSchema(self._schema.definition), written.definition.decode()
        return lambda payload: reader.decode(payload, text)
