"""The schema registry over gRPC: our brokers' calls, and the published ones for the original's."""

from collections.abc import Awaitable, Callable, Sequence

from danube.admin.grpc_gateway.calls import AdminCalls
from danube.model.calls.schemas import (
    CheckedVersion,
    CheckVersion,
    FindVersion,
    ModeAnswer,
    RegisteredSchema,
    RegisterVersion,
    SchemaAnswer,
    SchemaDifference,
    SchemaVersionInfo,
    SetMode,
    SubjectSummary,
    VersionDescription,
)
from danube.model.errors import InternalError, NotFoundError, UnsupportedError
from danube.model.schema import CompatibilityMode, RegisterSchema, SchemaType, TopicSchema, TopicSchemaConfig
from danube.model.topic import TopicName
from danube.model.untrusted_json import decode_json
from danube.wire import schema_messages as messages

_REGISTRY = "/danube_schema.SchemaRegistry"
_SCHEMAS = "/danube.control.Schemas"


class SchemaCalls:
    """The registry's part of a gateway."""

    def __init__(self, calls: AdminCalls, is_ours: Callable[[], Awaitable[bool]]) -> None:
        self._calls = calls
        self._is_ours = is_ours

    async def subjects(self) -> Sequence[SubjectSummary]:
        """As the gateway."""
        return await self._calls.ask(f"{_REGISTRY}/ListSubjects", messages.LIST_SUBJECTS, None, messages.SUBJECTS)

    async def versions(self, subject: str) -> Sequence[SchemaVersionInfo]:
        """As the gateway."""
        path = f"{_REGISTRY}/ListVersions"
        return await self._calls.ask(path, messages.LIST_VERSIONS, subject, messages.VERSION_INFOS)

    async def subject_of(self, schema_id: int) -> str:
        """As the gateway."""
        return (await self._get(schema_id, None)).subject

    async def find(self, wanted: FindVersion) -> VersionDescription:
        """As the gateway."""
        if await self._is_ours():
            path = f"{_SCHEMAS}/FindVersion"
            return await self._calls.ask(path, messages.FIND_VERSION, wanted, messages.VERSION_DESCRIPTION)
        if wanted.number:
            raise UnsupportedError("versions of the original's registry have no number of their own: name the subject")
        path = f"{_REGISTRY}/GetLatestSchema"
        latest = await self._calls.ask(path, messages.GET_LATEST_SCHEMA, wanted.subject, messages.SCHEMA_ANSWER)
        is_latest = wanted.version in {0, latest.version}
        return _described(latest if is_latest else await self._get(latest.schema_id, wanted.version))

    async def register(self, wanted: RegisterVersion) -> RegisteredSchema:
        """As the gateway."""
        if await self._is_ours():
            path = f"{_SCHEMAS}/RegisterVersion"
            return await self._calls.ask(path, messages.REGISTER_VERSION, wanted, messages.VERSION_REGISTERED)
        if wanted.references:
            raise UnsupportedError("the original's registry knows no references: put everything into one definition")
        plain = RegisterSchema(
            subject=wanted.subject,
            type=wanted.type,
            definition=wanted.definition,
            description=wanted.description,
            created_by=wanted.created_by,
            tags=wanted.tags,
        )
        path = f"{_REGISTRY}/RegisterSchema"
        return await self._calls.ask(path, messages.REGISTER_SCHEMA, plain, messages.REGISTERED)

    async def check(self, wanted: CheckVersion) -> CheckedVersion:
        """As the gateway."""
        if await self._is_ours():
            path = f"{_SCHEMAS}/CheckVersion"
            return await self._calls.ask(path, messages.CHECK_VERSION, wanted, messages.CHECKED_VERSION)
        latest = await self.find(FindVersion(subject=wanted.subject))
        if wanted.against_version not in {0, latest.version}:
            raise UnsupportedError(
                f"the original's registry compares with the latest version alone, {latest.version}: leave `against` out"
            )
        request = (wanted.subject, wanted.definition, wanted.type, wanted.mode)
        path = f"{_REGISTRY}/CheckCompatibility"
        fits, errors = await self._calls.ask(path, messages.CHECK_COMPATIBILITY, request, messages.COMPATIBILITY)
        found = tuple(_unnamed(error, latest.version) for error in errors)
        mode = wanted.mode or latest.mode
        return CheckedVersion(is_compatible=fits, mode=mode, differences=found, compared=(latest.version,))

    async def mode(self, wanted: SetMode) -> ModeAnswer:
        """As the gateway."""
        if await self._is_ours():
            return await self._calls.ask(f"{_SCHEMAS}/SetMode", messages.SET_MODE, wanted, messages.MODE)
        if not wanted.subject or wanted.json_policy is not None:
            raise UnsupportedError("the original's registry has neither a default mode nor policies: name a subject")
        if not wanted.ask:
            request = (wanted.subject, wanted.mode or CompatibilityMode.BACKWARD)
            path = f"{_REGISTRY}/SetCompatibilityMode"
            self._require(await self._calls.ask(path, messages.SET_COMPATIBILITY_MODE, request, messages.OUTCOME))
        return ModeAnswer(mode=(await self.find(FindVersion(subject=wanted.subject))).mode, is_own=True)

    async def configure_topic(self, topic: TopicName, schema: TopicSchema) -> None:
        """As the gateway."""
        policy, checks = schema.policy.value, schema.checks_payloads
        if schema.subject is None:
            path, change = f"{_REGISTRY}/UpdateTopicValidationPolicy", (str(topic), policy, checks)
            answer = await self._calls.ask(path, messages.UPDATE_VALIDATION_POLICY, change, messages.OUTCOME, at=topic)
        else:
            path, whole = f"{_REGISTRY}/ConfigureTopicSchema", (str(topic), schema.subject, policy, checks)
            answer = await self._calls.ask(path, messages.CONFIGURE_TOPIC_SCHEMA, whole, messages.OUTCOME, at=topic)
        self._require(answer)

    async def topic_schema(self, topic: TopicName) -> TopicSchemaConfig:
        """As the gateway."""
        path, asked = f"{_REGISTRY}/GetTopicSchemaConfig", str(topic)
        answer = messages.TOPIC_SCHEMA_CONFIG
        return await self._calls.ask(path, messages.GET_TOPIC_SCHEMA_CONFIG, asked, answer, at=topic)

    async def _get(self, schema_id: int, version: int | None) -> SchemaAnswer:
        path, wanted = f"{_REGISTRY}/GetSchema", (schema_id, version)
        return await self._calls.ask(path, messages.GET_SCHEMA, wanted, messages.SCHEMA_ANSWER)

    @staticmethod
    def _require(answer: tuple[bool, str]) -> None:
        is_done, remark = answer
        if not is_done:
            raise InternalError(f"the broker did not do it: {remark or 'it does not say why'}")


def unwrapped(definition: bytes) -> bytes:
    """The text in a definition as the published calls answer it; any other bytes as they are."""
    try:
        parsed = decode_json(definition)
    except ValueError:
        return definition
    if isinstance(parsed, dict) and len(parsed) == 1:
        (value,) = parsed.values()
        if isinstance(value, dict) and isinstance(text := value.get("raw_schema", value.get("raw_proto")), str):
            return text.encode()
    return b"" if parsed in {"Bytes", "String", "Number"} else definition


def _described(answer: SchemaAnswer) -> VersionDescription:
    if not answer.version:
        raise NotFoundError(f"{answer.subject} has no versions: list the subjects")
    return VersionDescription(
        subject=answer.subject,
        version=answer.version,
        schema_id=answer.schema_id,
        number=0,
        type=SchemaType.parse(answer.schema_type),
        definition=unwrapped(answer.schema_definition),
        fingerprint=answer.fingerprint,
        created_s=answer.created_at,
        created_by=answer.created_by,
        description=answer.description,
        tags=answer.tags,
        references=(),
        mode=CompatibilityMode.parse(answer.compatibility_mode),
        has_own_mode=True,
        uses=(),
    )


def _unnamed(error: str, version: int) -> SchemaDifference:
    """A conflict of the original, which names neither kind nor place."""
    return SchemaDifference(
        kind="unnamed",
        path="",
        before="",
        after="",
        message=error,
        version=version,
        breaks=True,
        breaks_backward=False,
        breaks_forward=False,
        suggestion="",
    )
