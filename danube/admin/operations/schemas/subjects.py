"""schemas.*: subjects and their versions."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from danube.admin.operations.fields import VOLATILE, WIDE, GivenId, Id64, PageParams, PageResult, Params, Result
from danube.admin.operations.operation import Call, Example, Listing, Operation
from danube.admin.operations.plan_views import PlannedResult
from danube.admin.operations.schemas.fields import (
    TOOLSET,
    DefinitionParams,
    JsonPolicyWord,
    ModeWord,
    SubjectParams,
    SubjectText,
    Version,
)
from danube.model.calls.schemas import FindVersion, RegisterVersion, SetMode, VersionDescription
from danube.model.limits.registry import SCHEMA_TAGS_MAX, SCHEMA_TEXT_BYTES_MAX
from danube.model.plans.plan import Effect
from danube.model.schema import CompatibilityMode, JsonPolicy, SchemaType

ORDERS = "orders-value"
ORDER_3 = (
    '{"type": "object", "properties": {"id": {"type": "integer"}, "note": {"type": "string"},'
    ' "tag": {"type": "string"}}, "required": ["id"]}'
)


class SubjectRow(Result):
    """One subject."""

    subject: str = Field(description="The subject.")
    schema_type: str = Field(description="The language of its latest version.")
    latest_version: int = Field(description="Its latest version.")
    compatibility_mode: str = Field(description="The mode in force.")
    schema_id: Annotated[Id64, WIDE] = Field(description="The id of all its versions on messages.")
    tags: Annotated[list[str], WIDE] = Field(description="Tags of its latest version.")


class SubjectList(PageResult):
    """Subjects, by name."""

    subjects: list[SubjectRow] = Field(description="The subjects.")


class GetSchemaParams(Params):
    """A version of a subject, named by the subject or by its id."""

    subject: SubjectText | None = Field(default=None, description="The subject.")
    schema_id: GivenId | None = Field(default=None, ge=1, description="The subject's id, instead of its name.")
    version: Version | None = Field(default=None, description="The version; the latest without it.")

    @model_validator(mode="after")
    def _names_one(self) -> Self:
        if (self.subject is None) == (self.schema_id is None):
            raise ValueError("give a subject or a schema_id, one of the two")
        return self


class UseRow(Result):
    """A topic that has to do with a version."""

    topic: str = Field(description="The topic.")
    last_used_ms: Annotated[int, VOLATILE] = Field(
        description="When it last used this version, milliseconds since the epoch; 0 if that is not known."
    )


class SchemaDetail(Result):
    """One version."""

    subject: str = Field(description="The subject.")
    version: int = Field(description="The version.")
    schema_id: Id64 = Field(description="The id of the subject on messages.")
    number: Annotated[int, WIDE] = Field(description="The id of this version alone, which the HTTP face speaks of.")
    schema_type: SchemaType = Field(description="The language of the definition.")
    compatibility_mode: CompatibilityMode = Field(description="The mode in force for the subject.")
    json_policy: Annotated[JsonPolicy, WIDE] = Field(description="The policy for JSON Schemas of the subject.")
    definition: str = Field(description="The definition, as it was registered.")
    fingerprint: Annotated[str, WIDE] = Field(description="The digest of its canonical form.")
    created_ms: Annotated[int, VOLATILE] = Field(description="When it was registered, milliseconds since the epoch.")
    created_by: Annotated[str, VOLATILE] = Field(description="Who registered it.")
    description: str = Field(description="What it is for.")
    tags: list[str] = Field(description="Its tags.")
    references: list[str] = Field(description="Versions that it refers to, as NAME=SUBJECT:VERSION.")
    topics: list[UseRow] = Field(description="Topics that follow the subject, or have used this version.")
    unseen_topics: int = Field(description="How many more do, of which you may not see the names.")


class VersionRow(Result):
    """One version of a subject."""

    version: int = Field(description="The version.")
    fingerprint: str = Field(description="The digest of its canonical form.")
    created_ms: Annotated[int, VOLATILE] = Field(description="When it was registered, milliseconds since the epoch.")
    created_by: Annotated[str, VOLATILE] = Field(description="Who registered it.")
    description: str = Field(description="What it is for.")


class VersionsParams(PageParams):
    """Of which subject."""

    subject: SubjectText = Field(description="The subject.")


class VersionList(PageResult):
    """Versions, the oldest first."""

    subject: str = Field(description="The subject.")
    schema_id: Id64 = Field(description="The id of the subject on messages.")
    versions: list[VersionRow] = Field(description="The versions.")


class RegisterParams(DefinitionParams):
    """A version to be registered."""

    description: str = Field(default="", max_length=SCHEMA_TEXT_BYTES_MAX // 4, description="What it is for.")
    tags: list[str] = Field(default=[], max_length=SCHEMA_TAGS_MAX, description="Words to find it by.")


class RegisteredResult(Result):
    """A version that is registered."""

    subject: str = Field(description="The subject.")
    schema_id: Id64 = Field(description="The id of the subject on messages.")
    version: int = Field(description="The version.")
    is_new_version: bool = Field(description="False if this definition was a version already.")
    fingerprint: Annotated[str, WIDE] = Field(description="The digest of its canonical form.")


class SetModeParams(Params):
    """The mode of a subject, or of all that have none of their own."""

    subject: SubjectText | None = Field(default=None, description="The subject; the default of the cluster without.")
    mode: ModeWord = Field(description="What the next versions must stay compatible with.")
    json_policy: JsonPolicyWord | None = Field(
        default=None,
        description="For JSON Schemas: `original` compares types and required properties alone; `strict` compares every"
        " document; `optional_friendly` lets optional properties come and go; `cautious` has required ones stay, too.",
    )


class ModeResult(Result):
    """The mode that is in force."""

    subject: str | None = Field(description="The subject; null for the default of the cluster.")
    mode: CompatibilityMode = Field(description="The mode.")
    is_own: Annotated[bool, WIDE] = Field(description="Whether the subject has a mode of its own.")
    json_policy: JsonPolicy = Field(description="The policy for JSON Schemas.")


class DeleteVersionParams(SubjectParams):
    """A version."""

    version: Version = Field(description="The version.")


async def _subjects(call: Call, _: PageParams) -> SubjectList:
    return SubjectList(subjects=[SubjectRow.of(one) for one in await call.gateway.subjects()])


async def _get(call: Call, params: GetSchemaParams) -> SchemaDetail:
    subject = params.subject or await call.gateway.subject_of(params.schema_id or 0)
    return schema_detail(await call.gateway.find_version(FindVersion(subject=subject, version=params.version or 0)))


def schema_detail(found: VersionDescription) -> SchemaDetail:
    """A version as faces show it."""
    return SchemaDetail.of(
        found,
        schema_type=found.type,
        compatibility_mode=found.mode,
        definition=found.definition.decode(errors="replace"),
        created_ms=found.created_s * 1_000,
        tags=list(found.tags),
        references=[f"{one.name}={one.subject}:{one.version}" for one in found.references],
        topics=[UseRow.of(one) for one in found.uses],
        unseen_topics=found.unseen_uses,
    )


async def _versions(call: Call, params: VersionsParams) -> VersionList:
    found = await call.gateway.schema_versions(params.subject)
    rows = [VersionRow.of(one, created_ms=one.created_at * 1_000) for one in found]
    return VersionList(subject=params.subject, schema_id=found[0].schema_id if found else 0, versions=rows)


async def _register(call: Call, params: RegisterParams) -> RegisteredResult:
    made = await call.gateway.register_version(
        RegisterVersion(
            subject=params.subject,
            type=params.schema_type,
            definition=params.definition.encode(),
            description=params.description,
            created_by=call.caller.who,
            tags=tuple(params.tags),
            references=params.imports(),
            as_confluent=params.as_confluent,
        )
    )
    return RegisteredResult.of(made, subject=params.subject)


async def _set_mode(call: Call, params: SetModeParams) -> ModeResult:
    wanted = SetMode(subject=params.subject or "", mode=params.mode, json_policy=params.json_policy)
    return ModeResult.of(await call.gateway.schema_mode(wanted), subject=params.subject)


LIST_SUBJECTS = Operation(
    name="list_subjects",
    words=("schemas", "list-subjects"),
    summary="List the subjects of the schema registry that you may view.",
    effect=Effect.READ,
    params=PageParams,
    result=SubjectList,
    run=_subjects,
    pages=Listing(rows="subjects", name="subject"),
    examples=(Example("Every subject"),),
)

GET_SCHEMA = Operation(
    name="get_schema",
    words=("schemas", "get"),
    summary="Show a version of a schema, with its definition and the topics that use it.",
    description="By its subject, or by the id that messages carry.",
    effect=Effect.READ,
    params=GetSchemaParams,
    result=SchemaDetail,
    run=_get,
    examples=(
        Example("The latest version", {"subject": ORDERS}),
        Example("The first version of the subject with id 1", {"schema_id": 1, "version": 1}),
    ),
)

LIST_VERSIONS = Operation(
    name="list_schema_versions",
    words=("schemas", "versions"),
    summary="List the versions of a subject.",
    effect=Effect.READ,
    params=VersionsParams,
    result=VersionList,
    run=_versions,
    positional=("subject",),
    pages=Listing(rows="versions", name="version"),
    examples=(Example(f"Those of {ORDERS}", {"subject": ORDERS}),),
)

REGISTER = Operation(
    name="register_schema",
    words=("schemas", "register"),
    summary="Register a version of a schema.",
    description="The same definition again is the same version. It must be compatible with the versions before it, as"
    " the mode of the subject says: check_schema_compatibility tells before.",
    effect=Effect.WRITE,
    params=RegisterParams,
    result=RegisteredResult,
    run=_register,
    done="Schema ID: {schema_id}, Version: {version} of {subject}",
    positional=("subject",),
    examples=(
        Example(
            "A third version",
            {"subject": ORDERS, "schema_type": "json_schema", "definition": ORDER_3, "tags": ["shop"]},
        ),
    ),
    is_idempotent=True,
)

SET_MODE = Operation(
    name="set_schema_compatibility_mode",
    words=("schemas", "set-compatibility"),
    summary="Set what the next versions of a subject must stay compatible with.",
    description="Versions that are there stay. Without a subject it is the default of all that have no mode of their"
    " own.",
    effect=Effect.WRITE,
    params=SetModeParams,
    result=ModeResult,
    run=_set_mode,
    done="Compatibility mode set: {mode}",
    positional=("subject",),
    examples=(
        Example("Both directions, all versions", {"subject": ORDERS, "mode": "full_transitive"}),
        Example("The default of the cluster", {"mode": "forward"}),
    ),
    is_idempotent=True,
)

DELETE_VERSION = Operation(
    name="delete_schema_version",
    words=("schemas", "delete"),
    summary="Delete a version of a schema for good.",
    description="Messages that were written with it cannot be decoded any more. The plan names the topics that use it,"
    " and when each did last. Its number is never given again.",
    effect=Effect.DESTROY,
    params=DeleteVersionParams,
    result=PlannedResult,
    positional=("subject",),
    toolset=TOOLSET,
    examples=(Example("The first version", {"subject": ORDERS, "version": 1}),),
)

OPERATIONS = (LIST_SUBJECTS, GET_SCHEMA, LIST_VERSIONS, REGISTER, SET_MODE, DELETE_VERSION)
