"""Requests and answers of the schema registry."""

from dataclasses import dataclass

from danube.model.schema import CompatibilityMode, JsonPolicy, SchemaImport, SchemaType


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterVersion:
    """As `RegisterSchema`, with references to versions of other subjects."""

    subject: str
    type: SchemaType
    definition: bytes
    description: str = ""
    created_by: str = ""
    tags: tuple[str, ...] = ()
    references: tuple[SchemaImport, ...] = ()
    as_confluent: bool = False
    """Read it as Confluent's registry does: a JSON Schema that names no draft is of draft 7, and a subject that is new
    is judged strictly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredSchema:
    """The answer to RegisterSchema."""

    schema_id: int
    version: int
    is_new_version: bool
    fingerprint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaAnswer:
    """One version, as the published calls answer it."""

    schema_id: int
    version: int
    subject: str
    schema_type: str
    schema_definition: bytes
    """Wrapped in JSON, as the original does."""
    description: str
    created_at: int
    """Seconds since the epoch."""
    created_by: str
    tags: tuple[str, ...]
    fingerprint: str
    compatibility_mode: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaVersionInfo:
    """One version in a list."""

    version: int
    created_at: int
    """Seconds since the epoch."""
    created_by: str
    description: str
    fingerprint: str
    schema_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectSummary:
    """One subject in a list."""

    subject: str
    schema_type: str
    latest_version: int
    compatibility_mode: str
    schema_id: int
    tags: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigureTopicSchema:
    """Bind a topic, or all partitions of a base name, to a subject."""

    topic: str
    subject: str
    policy: str
    checks_payloads: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckVersion:
    """Ask whether this definition could be the next version, and what is in the way."""

    subject: str
    type: SchemaType
    definition: bytes
    mode: CompatibilityMode | None = None
    """None asks with the subject's own."""
    references: tuple[SchemaImport, ...] = ()
    against_version: int = 0
    """Compare with this version alone; 0 for those that the mode names."""
    as_confluent: bool = False
    """Read it as Confluent's registry does: a JSON Schema that names no draft is of draft 7."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaDifference:
    """One difference between two versions."""

    kind: str
    path: str
    """Place within the schema."""
    before: str
    after: str
    message: str
    version: int
    """The earlier version."""
    breaks: bool
    """True if it is in the way in this mode."""
    breaks_backward: bool
    """True if the new version does not read data of the earlier one."""
    breaks_forward: bool
    """True if the earlier version does not read data of the new one."""
    suggestion: str
    """The smallest change that would make it compatible; empty if nothing has to change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedVersion:
    """The answer to CheckVersion."""

    is_compatible: bool
    mode: CompatibilityMode
    differences: tuple[SchemaDifference, ...]
    same_as: int = 0
    """The version that has this very definition; 0 if none has."""
    compared: tuple[int, ...] = ()
    """Versions that it was compared with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FindVersion:
    """Name a version: by its number, or by the subject or its id, and version (0 for the latest)."""

    subject: str = ""
    version: int = 0
    number: int = 0
    schema_id: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionUse:
    """A topic that has used a version."""

    topic: str
    last_used_ms: int
    """0 if it is bound to the subject and has not used this version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionDescription:
    """One version in full, with its definition as it was registered."""

    subject: str
    version: int
    schema_id: int
    number: int
    """Of this version alone, across all subjects."""
    type: SchemaType
    definition: bytes
    fingerprint: str
    created_s: int
    created_by: str
    description: str
    tags: tuple[str, ...]
    references: tuple[SchemaImport, ...]
    mode: CompatibilityMode
    """In force for the subject."""
    has_own_mode: bool
    """False if the subject follows the cluster's default."""
    uses: tuple[VersionUse, ...]
    json_policy: JsonPolicy = JsonPolicy.CAUTIOUS
    """In force for the subject."""
    as_confluent: bool = False
    """True if a JSON Schema that names no draft is of draft 7."""
    unseen_uses: int = 0
    """Further uses, by topics that the caller may not see."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetMode:
    """Set the compatibility mode of a subject, or of all that have none of their own."""

    subject: str = ""
    """Empty for the default of the cluster."""
    mode: CompatibilityMode | None = None
    """None has the subject follow the default, or asks for the mode as it stands."""
    json_policy: JsonPolicy | None = None
    """None leaves it as it is."""
    ask: bool = False
    """Change nothing, and answer what stands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeAnswer:
    """The compatibility mode that is in force."""

    mode: CompatibilityMode
    is_own: bool
    """False for the default of the cluster."""
    json_policy: JsonPolicy = JsonPolicy.CAUTIOUS
