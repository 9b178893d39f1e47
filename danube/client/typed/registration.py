"""Registration of the schema that a producer writes with: once, when it attaches for the first time."""

from collections.abc import Sequence

from danube.client.schemas import SchemaRegistryClient
from danube.client.typed.protobuf import ImportedFile
from danube.client.typed.typed_schema import TypedSchema
from danube.model.calls.client import SchemaReference
from danube.model.calls.schemas import RegisterVersion
from danube.model.schema import SchemaImport, SchemaType
from danube.model.topic import TopicName

_CREATED_BY = "danube-py"


def subject_of(topic: str) -> str:
    """The subject of a topic's messages, where none is named: `/default/orders` has `default-orders`."""
    name = TopicName.parse(topic)
    return f"{name.namespace}-{name.local}"


async def register(registry: SchemaRegistryClient, schema: TypedSchema, subject: str) -> SchemaReference:
    """Register a schema, and what it imports; answers the version.

    Raises SchemaInvalidError, SchemaIncompatibleError.
    """
    references = await _register_imports(registry, getattr(schema, "imports", ()))
    made = await registry.register_version(
        RegisterVersion(
            subject=subject,
            type=schema.kind,
            definition=schema.definition.encode(),
            created_by=_CREATED_BY,
            references=references,
        )
    )
    return SchemaReference(subject=subject, pinned_version=made.version)


async def _register_imports(registry: SchemaRegistryClient, files: Sequence[ImportedFile]) -> tuple[SchemaImport, ...]:
    found = []
    for file in files:
        made = await registry.register_version(
            RegisterVersion(
                subject=file.name,
                type=SchemaType.PROTOBUF,
                definition=file.text.encode(),
                created_by=_CREATED_BY,
                references=await _register_imports(registry, file.imports),
            )
        )
        found.append(SchemaImport(file.name, file.name, made.version))
    return tuple(found)
