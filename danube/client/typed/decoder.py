"""Decoder of received payloads: by the schema of the application, or by that of the writer alone."""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

from danube.client.message import Message
from danube.client.schemas import SchemaRegistryClient
from danube.client.typed.typed_schema import TypedSchema
from danube.model.calls.client import ReceivedMessage
from danube.model.calls.schemas import FindVersion, VersionDescription
from danube.model.errors import DanubeError, PayloadInvalidError
from danube.model.limits.registry import SCHEMA_VALIDATORS_MAX
from danube.runtime.blocking import run_apart
from danube.runtime.protoc.compiler import compile_protos
from danube.schema.formats import dialect_of, parse
from danube.schema.validation import validator

Decode = Callable[[bytes], Any]
Pair = tuple[int, int]


class WritersSchema:
    """Stands for whatever schema a message was written with: values are plain ones of Python."""


class PayloadDecoder:
    """Decodes payloads; what it has to ask the registry for is asked once for each version."""

    def __init__(self, registry: SchemaRegistryClient, schema: TypedSchema | WritersSchema) -> None:
        self._registry = registry
        self._schema = schema
        self._decoders: OrderedDict[Pair, Decode | DanubeError] = OrderedDict()

    async def prepare(self, message: ReceivedMessage) -> None:
        """Know the schema of a message before it is decoded. What fails is raised by `decode`."""
        pair = _pair(message)
        known = self._decoders.get(pair)
        if not self._is_asked_for(pair) or (known is not None and not isinstance(known, DanubeError)):
            return
        try:
            found = await self._registry.find(FindVersion(schema_id=pair[0], version=pair[1]))
            self._decoders[pair] = await self._decoder_of(found)
        except DanubeError as error:
            self._decoders[pair] = error
        if len(self._decoders) > SCHEMA_VALIDATORS_MAX:
            self._decoders.popitem(last=False)

    async def prepared(self, messages: Sequence[Message]) -> list[Message]:
        """The messages, ready to be decoded."""
        shared: dict[int, ReceivedMessage] = {}
        for message in messages:
            if id(message[0]) not in shared:
                await self.prepare(message[0])
                shared[id(message[0])] = message[0]._replace(decoder=self)
        return [message.decoded_by(shared[id(message[0])]) for message in messages]

    def decode(self, message: ReceivedMessage, payload: bytes) -> Any:  # noqa: ANN401 - whatever the schema describes
        """The value of a message. Raises PayloadInvalidError, and what went wrong with its schema."""
        found = self._decoders.get(_pair(message))
        if isinstance(found, DanubeError):
            raise found
        if found is not None:
            return found(payload)
        if isinstance(self._schema, WritersSchema):
            raise PayloadInvalidError("the message names no schema: its payload is bytes")
        return self._schema.decode(payload, None)

    def _is_asked_for(self, pair: Pair) -> bool:
        return bool(pair[0]) and (isinstance(self._schema, WritersSchema) or self._schema.needs_writer)

    async def _decoder_of(self, found: VersionDescription) -> Decode:
        text, schema = found.definition.decode(errors="replace"), self._schema
        if not isinstance(schema, WritersSchema):
            return lambda payload: schema.decode(payload, text)
        references = await self._referenced(found)

        def made() -> Decode:
            dialect = dialect_of(as_confluent=found.as_confluent)
            parsed = parse(found.type, text, references, compile_proto=compile_protos, dialect=dialect)
            return validator(parsed).decode

        return await run_apart("schema", made)

    async def _referenced(self, found: VersionDescription) -> dict[str, str]:
        texts: dict[str, str] = {}
        for reference in found.references:
            wanted = FindVersion(subject=reference.subject, version=reference.version)
            version = await self._registry.find(wanted)
            if reference.name not in texts:
                texts |= await self._referenced(version)
                texts[reference.name] = version.definition.decode(errors="replace")
        return texts


def _pair(message: ReceivedMessage) -> Pair:
    return message.schema_id or 0, message.schema_version or 0
