"""Decoding of received messages by a sink's schema: records, and the reasons of those that cannot be decoded."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from danube.client import DanubeClient
from danube.client.message import Message
from danube.client.typed.decoder import PayloadDecoder, WritersSchema
from danube.client.typed.typed_schema import typed_schema
from danube.connect.batch import Record
from danube.model.errors import PayloadInvalidError


@dataclass(slots=True)
class Decoded:
    """Records of a batch, and those that no sink gets."""

    records: list[Record[Any]] = field(default_factory=list)
    refused: list[tuple[Record[Any], str]] = field(default_factory=list)
    """With the reason."""


class Decoding:
    """Decodes the messages of one task."""

    def __init__(self, client: DanubeClient, schema: Any, subject: str) -> None:  # noqa: ANN401 - of the application
        """Without a schema values are the payloads' bytes; with a subject, records of another one are refused."""
        self._client = client
        self._subject = subject
        self._subject_id: int | None = None
        wanted = schema if schema is None or isinstance(schema, WritersSchema) else typed_schema(schema)
        self._decoder = None if wanted is None else PayloadDecoder(client.schema(), wanted)

    async def decode(self, messages: Sequence[Message]) -> Decoded:
        """Decode messages. Raises DanubeError when the registry cannot be asked."""
        if self._subject and self._subject_id is None:
            self._subject_id = (await self._client.schema().get_latest_schema(self._subject)).schema_id
        if self._decoder is not None:
            messages = await self._decoder.prepared(messages)
        decoded = Decoded()
        for message in messages:
            try:
                self._check_subject(message)
                value = message.payload if self._decoder is None else message.value
            except PayloadInvalidError as error:
                decoded.refused.append((Record(message, message.payload), str(error)))
            else:
                decoded.records.append(Record(message, value))
        return decoded

    def _check_subject(self, message: Message) -> None:
        if self._subject_id is not None and message.schema_id != self._subject_id:
            written_with = f"schema {message.schema_id}" if message.schema_id else "no schema"
            raise PayloadInvalidError(f"the record has {written_with}, and the route expects subject {self._subject}")
