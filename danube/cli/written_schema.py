"""The schema that `danube produce` writes with: registered once, and lines of JSON as payloads of it."""

from collections.abc import Callable
from dataclasses import dataclass

from danube.cli.arguments import SchemaSource
from danube.cli.json_lines import LineMessage
from danube.client import DanubeClient
from danube.client.typed.avro import AvroSchema
from danube.client.typed.typed_schema import subject_of
from danube.model.calls.schemas import FindVersion, RegisterVersion
from danube.model.errors import InvalidRequestError
from danube.model.schema import SchemaType
from danube.runtime.blocking import BlockingRunner

Encode = Callable[[bytes], bytes]


def _as_it_is(payload: bytes) -> bytes:
    return payload


@dataclass(frozen=True, slots=True)
class WrittenSchema:
    """A version, and the way from a line to a payload."""

    subject: str = ""
    version: int = 0
    schema_id: int = 0
    encode: Encode = _as_it_is

    def of_line(self, message: LineMessage) -> bytes:
        """The payload of a JSON line: as it is where it was written with this version. Raises InvalidRequestError."""
        if self.encode is _as_it_is or message.written_with == (str(self.schema_id), self.version):
            return message.payload
        if message.written_with is None:
            return self.encode(message.payload)
        schema_id, version = message.written_with
        raise InvalidRequestError(
            f"the payload of a line is written with version {version} of schema {schema_id}, and is to be sent with"
            f" version {self.version} of {self.schema_id}: put its value as JSON text into payload, without schema_id"
        )


PLAIN = WrittenSchema()
"""No schema: a line is the payload."""


async def prepare_schema(
    client: DanubeClient, topic: str, source: SchemaSource, thread: BlockingRunner
) -> WrittenSchema:
    """Register the definition of a file, or find the latest version of a subject. Raises DanubeError, OSError."""
    registry, subject = client.schema(), source.subject or subject_of(await client.base_of(topic))
    if source.file is None or source.kind is None:
        found = await registry.find(FindVersion(subject=subject))
        return WrittenSchema(subject, found.version, found.schema_id, _encoder(found.type, found.definition))
    definition = await thread.run(source.file.read_bytes)
    wanted = RegisterVersion(subject=subject, type=source.kind, definition=definition, created_by="danube-cli")
    made = await registry.register_version(wanted)
    return WrittenSchema(subject, made.version, made.schema_id, _encoder(source.kind, definition))


def _encoder(kind: SchemaType, definition: bytes) -> Encode:
    """Lines of JSON become Avro; in any other format a line is the payload."""
    if kind is not SchemaType.AVRO:
        return _as_it_is
    return AvroSchema(definition.decode()).encode_json
