"""The schema registry, as applications use it. It is asked at the service URL: every broker has the whole of it."""

from typing import Self, TypeVar

from danube.client.connection import paths
from danube.client.connection.connection import Connection
from danube.model.calls.client import SchemaReference
from danube.model.calls.schemas import FindVersion, RegisteredSchema, RegisterVersion, VersionDescription
from danube.model.errors import MissingLibraryError, PreconditionFailedError, UnsupportedError
from danube.model.schema import CompatibilityMode, RegisterSchema, SchemaInfo, SchemaType, TopicSchemaConfig
from danube.wire import schema_messages as messages
from danube.wire.codec import Codec

Request = TypeVar("Request")
Answer = TypeVar("Answer")

_CREATED_BY = "danube-py"


class SchemaRegistryClient:
    """Registers, reads and checks schemas. Every method raises UnsupportedError where the broker has no registry."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def register_schema(self, subject: str) -> "SchemaRegistrationBuilder":
        """Begin a new version of `subject`; `execute` registers it."""
        return SchemaRegistrationBuilder(self, subject)

    async def get_schema_by_id(self, schema_id: int) -> SchemaInfo:
        """The latest version of the subject with this id."""
        return await self.get_schema_version(schema_id, None)

    async def get_schema_version(self, schema_id: int, version: int | None = None) -> SchemaInfo:
        """One version of the subject with this id; None is the latest."""
        return await self._ask("GetSchema", messages.GET_SCHEMA, (schema_id, version), messages.SCHEMA_INFO)

    async def get_latest_schema(self, subject: str) -> SchemaInfo:
        """The latest version of a subject."""
        return await self._ask("GetLatestSchema", messages.GET_LATEST_SCHEMA, subject, messages.SCHEMA_INFO)

    async def list_versions(self, subject: str) -> list[int]:
        """The versions of a subject."""
        versions = await self._ask("ListVersions", messages.LIST_VERSIONS, subject, messages.VERSIONS)
        return list(versions)

    async def check_compatibility(
        self, subject: str, schema_data: bytes, schema_type: SchemaType, mode: CompatibilityMode | None = None
    ) -> tuple[bool, list[str]]:
        """Tell whether this definition could be the next version, and what is in the way."""
        request = (subject, schema_data, schema_type, mode)
        is_compatible, errors = await self._ask(
            "CheckCompatibility", messages.CHECK_COMPATIBILITY, request, messages.COMPATIBILITY
        )
        return is_compatible, list(errors)

    async def set_compatibility_mode(self, subject: str, mode: CompatibilityMode) -> tuple[bool, str]:
        """Set what the next versions of a subject must stay compatible with."""
        request = (subject, mode)
        return await self._ask("SetCompatibilityMode", messages.SET_COMPATIBILITY_MODE, request, messages.OUTCOME)

    async def delete_schema_version(self, subject: str, version: int) -> tuple[bool, str]:
        """Delete one version of a subject."""
        request = (subject, version)
        return await self._ask("DeleteSchemaVersion", messages.DELETE_SCHEMA_VERSION, request, messages.OUTCOME)

    async def configure_topic_schema(
        self,
        topic_name: str,
        schema_subject: str,
        validation_policy: str = "none",
        enable_payload_validation: bool = False,  # noqa: FBT001, FBT002 - the signature of danube-client 0.5.0
    ) -> tuple[bool, str]:
        """Bind a topic to a subject; the policy is `none`, `warn` or `enforce`."""
        request = (topic_name, schema_subject, validation_policy, enable_payload_validation)
        return await self._ask("ConfigureTopicSchema", messages.CONFIGURE_TOPIC_SCHEMA, request, messages.OUTCOME)

    async def update_topic_validation_policy(
        self,
        topic_name: str,
        validation_policy: str,
        enable_payload_validation: bool = False,  # noqa: FBT001, FBT002 - the signature of danube-client 0.5.0
    ) -> tuple[bool, str]:
        """Change what happens to messages of a topic that do not follow its subject."""
        request = (topic_name, validation_policy, enable_payload_validation)
        return await self._ask(
            "UpdateTopicValidationPolicy", messages.UPDATE_VALIDATION_POLICY, request, messages.OUTCOME
        )

    async def get_topic_schema_config(self, topic_name: str) -> TopicSchemaConfig:
        """The subject and the validation policy that a topic is bound to."""
        return await self._ask(
            "GetTopicSchemaConfig", messages.GET_TOPIC_SCHEMA_CONFIG, topic_name, messages.TOPIC_SCHEMA_CONFIG
        )

    async def register_version(self, call: RegisterVersion) -> RegisteredSchema:
        """Register a version, with its references. Raises SchemaInvalidError, SchemaIncompatibleError."""
        plain = RegisterSchema(
            subject=call.subject,
            type=call.type,
            definition=call.definition,
            description=call.description,
            created_by=call.created_by,
            tags=call.tags,
        )
        if not call.references:
            return await self._ask("RegisterSchema", messages.REGISTER_SCHEMA, plain, messages.REGISTERED)
        path, answer = "RegisterVersion", messages.VERSION_REGISTERED
        return await self._ask(path, messages.REGISTER_VERSION, call, answer, service=paths.SCHEMAS)

    async def find(self, wanted: FindVersion) -> VersionDescription:
        """A version in full, with its definition as it was registered. Raises NotFoundError."""
        answer = messages.VERSION_DESCRIPTION
        return await self._ask("FindVersion", messages.FIND_VERSION, wanted, answer, service=paths.SCHEMAS)

    async def register(self, call: RegisterSchema) -> int:
        """Register a version and answer its subject's id."""
        return await self._ask("RegisterSchema", messages.REGISTER_SCHEMA, call, messages.REGISTERED_ID)

    async def resolve(self, schema: SchemaReference) -> SchemaInfo:
        """The version that a producer with this reference writes. Raises PreconditionFailedError without one."""
        latest = await self.get_latest_schema(schema.subject)
        if schema.pinned_version is not None:
            return await self._resolve_pinned(latest, schema.pinned_version)
        if schema.min_version is not None and latest.version < schema.min_version:
            raise PreconditionFailedError(
                f"the latest version of {schema.subject} is {latest.version} and the producer asks for "
                f"{schema.min_version} or newer: register that version first"
            )
        return latest

    async def _resolve_pinned(self, latest: SchemaInfo, version: int) -> SchemaInfo:
        if version > latest.version:
            raise PreconditionFailedError(
                f"{latest.subject} has no version {version}, the latest is {latest.version}: register it first"
            )
        return latest if version == latest.version else await self.get_schema_version(latest.schema_id, version)

    async def _ask(
        self,
        method: str,
        request: Codec[Request],
        value: Request,
        answer: Codec[Answer],
        *,
        service: str = paths.SCHEMA_REGISTRY,
    ) -> Answer:
        path, url = f"{service}/{method}", self._connection.service_url
        try:
            return answer.decode(await self._connection.call_any(path, request.encode(value)))
        except MissingLibraryError as error:
            raise MissingLibraryError(f"the broker at {url}: {error}") from error
        except UnsupportedError as error:
            raise UnsupportedError(
                f"the broker at {url} has no schema registry: work without schemas, or use a broker that has one"
            ) from error


class SchemaRegistrationBuilder:
    """Collects what a new schema version consists of."""

    def __init__(self, client: SchemaRegistryClient, subject: str) -> None:
        self._client = client
        self._subject = subject
        self._type: SchemaType | None = None
        self._data = b""
        self._description = ""
        self._created_by = _CREATED_BY
        self._tags: tuple[str, ...] = ()

    def with_type(self, schema_type: SchemaType) -> Self:
        """Set the language of the definition."""
        self._type = schema_type
        return self

    def with_schema_data(self, data: bytes) -> Self:
        """Set the definition."""
        self._data = data
        return self

    def with_description(self, description: str) -> Self:
        """Say what it is for."""
        self._description = description
        return self

    def with_created_by(self, created_by: str) -> Self:
        """Say who made it."""
        self._created_by = created_by or _CREATED_BY
        return self

    def with_tags(self, tags: list[str]) -> Self:
        """Give it words to be found by."""
        self._tags = tuple(tags)
        return self

    async def execute(self) -> int:
        """Register it and answer the subject's id. Raises ValueError when type or definition are missing."""
        if self._type is None:
            raise ValueError("schema type is required")
        if not self._data:
            raise ValueError("schema data is required")
        call = RegisterSchema(
            subject=self._subject,
            type=self._type,
            definition=self._data,
            description=self._description,
            created_by=self._created_by,
            tags=self._tags,
        )
        return await self._client.register(call)
