"""Records of the schema registry: subjects, versions, their numbers and their uses."""

from dataclasses import dataclass

from danube.metadata.records import keys
from danube.metadata.records.record_values import record_values
from danube.model.schema import CompatibilityMode, JsonPolicy, SchemaImport, SchemaType


@dataclass(frozen=True, slots=True)
class SubjectRecord:
    """A subject. Every change of its versions changes it too, so its revision guards all of them."""

    name: str
    schema_id: int
    """Of all its versions; never given to another subject."""
    last_version: int
    """The last version that was registered, whether it is deleted or not."""
    mode: CompatibilityMode | None = None
    """None follows the cluster's default."""
    json_policy: JsonPolicy = JsonPolicy.CAUTIOUS
    """Its own; counts while `follows_default_policy` is False."""
    follows_default_policy: bool = False
    """True while it has no policy of its own."""
    changes: int = 0
    """Counts registrations, deletions and changes of the mode."""


@dataclass(frozen=True, slots=True)
class VersionRecord:
    """One version of a subject. A deleted one keeps its place, without its definition."""

    subject: str
    version: int
    number: int
    """Of this version alone, across all subjects: the id that the HTTP face speaks of."""
    type: SchemaType
    definition: str
    """As registered."""
    fingerprint: str
    created_s: int
    created_by: str = ""
    description: str = ""
    tags: tuple[str, ...] = ()
    references: tuple[SchemaImport, ...] = ()
    deleted_s: int = 0
    """0 while it is not deleted."""
    as_confluent: bool = False
    """True if a JSON Schema that names no draft is of draft 7, as Confluent's clients have it."""

    @property
    def is_deleted(self) -> bool:
        """True once it was deleted."""
        return self.deleted_s != 0


@dataclass(frozen=True, slots=True)
class VersionName:
    """The version that a number stands for."""

    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class RegistrySettings:
    """Settings of the whole registry."""

    mode: CompatibilityMode = CompatibilityMode.BACKWARD
    """Of subjects that have none of their own."""
    json_policy: JsonPolicy = JsonPolicy.ORIGINAL
    """As the mode."""

    def mode_of(self, subject: SubjectRecord | None) -> CompatibilityMode:
        """The mode that is in force."""
        return (subject.mode if subject else None) or self.mode

    def policy_of(self, subject: SubjectRecord | None) -> JsonPolicy:
        """The policy for JSON Schemas that is in force."""
        return self.json_policy if subject is None or subject.follows_default_policy else subject.json_policy


encode_subject, decode_subject = record_values(SubjectRecord, lambda subject: keys.schema_subject(subject.name))
encode_version, decode_version = record_values(
    VersionRecord, lambda version: keys.schema_version(version.subject, version.version)
)
encode_number, decode_number = record_values(VersionName)
encode_id, decode_id = record_values(str)
"""The subject that an id stands for."""
encode_use, decode_use = record_values(int)
"""Of the last use of a version by a topic the time in seconds."""
encode_settings, decode_settings = record_values(RegistrySettings)
