"""The schema that `danube produce` writes with: registered once, and lines of JSON as payloads of it."""

from collections.abc import Callable
from dataclasses import dataclass

from danube.cli.arguments import SchemaSource
from danube.client import DanubeClient
from danube.client.typed.avro import AvroSchema
from danube.client.typed.registration import subject_of
from danube.model.calls.schemas import FindVersion, RegisterVersion
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
    encode: Encode = _as_it_is


PLAIN = WrittenSchema()
"""No schema: a line is the payload."""


async def prepare_schema(
    client: DanubeClient, topic: str, source: SchemaSource, thread: BlockingRunner
) -> WrittenSchema:
    """Register the definition of a file, or find the latest version of a subject. Raises DanubeError, OSError."""
    registry, subject = client.schema(), source.subject or subject_of(topic)
    if source.file is None or source.kind is None:
        found = await registry.find(FindVersion(subject=subject))
        return WrittenSchema(subject, found.version, _encoder(found.type, found.definition))
    definition = await thread.run(source.file.read_bytes)
    wanted = RegisterVersion(subject=subject, type=source.kind, definition=definition, created_by="danube-cli")
    made = await registry.register_version(wanted)
    return WrittenSchema(subject, made.version, _encoder(source.kind, definition))


def _encoder(kind: SchemaType, definition: bytes) -> Encode:
    """Lines of JSON become Avro; in any other format a line is the payload."""
    if kind is not SchemaType.AVRO:
        return _as_it_is
    return AvroSchema(definition.decode()).encode_json
