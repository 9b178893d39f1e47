"""Schemas as the registry speaks of them. A subject has one id for all its versions; versions count from 1."""

from dataclasses import dataclass
from enum import Enum


class CompatibilityMode(Enum):
    """Versions that a new version of a subject must stay compatible with."""

    NONE = "none"
    BACKWARD = "backward"
    FORWARD = "forward"
    FULL = "full"
    BACKWARD_TRANSITIVE = "backward_transitive"
    FORWARD_TRANSITIVE = "forward_transitive"
    FULL_TRANSITIVE = "full_transitive"

    def as_string(self) -> str:
        """The word on the wire."""
        return self.value

    @staticmethod
    def parse(value: str) -> "CompatibilityMode":
        """Read the word in any case. Raises ValueError."""
        try:
            return CompatibilityMode(value.lower())
        except ValueError:
            raise ValueError(f"unknown compatibility mode: {value}") from None


class SchemaType(Enum):
    """The language a schema is written in."""

    BYTES = "bytes"
    STRING = "string"
    NUMBER = "number"
    AVRO = "avro"
    JSON_SCHEMA = "json_schema"
    PROTOBUF = "protobuf"

    def as_string(self) -> str:
        """The word on the wire."""
        return self.value

    @staticmethod
    def parse(value: str) -> "SchemaType":
        """Read the word, or one of its other spellings, in any case. Raises ValueError."""
        word = value.lower()
        try:
            return SchemaType(_OTHER_SPELLINGS.get(word, word))
        except ValueError:
            raise ValueError(f"unknown schema type: {value}") from None


class JsonPolicy(Enum):
    """Rules by which differences of JSON Schemas are judged."""

    STRICT = "strict"
    """Each document that one version accepts, the other accepts."""
    OPTIONAL_FRIENDLY = "optional_friendly"
    """Producers write declared properties alone, and consumers ignore others: optional properties may come and go."""
    CAUTIOUS = "cautious"
    """As OPTIONAL_FRIENDLY, and required properties neither come nor go."""
    ORIGINAL = "original"
    """Types and required properties alone, as the original compares."""


_OTHER_SPELLINGS = {
    "jsonschema": "json_schema",
    "json": "json_schema",
    "proto": "protobuf",
    **dict.fromkeys(("int", "int64", "float", "double"), "number"),
}


class ValidationPolicy(Enum):
    """Action for a message that does not follow its topic's subject."""

    NONE = "none"
    """Nothing is checked."""
    WARN = "warn"
    """It is counted and accepted."""
    ENFORCE = "enforce"
    """It is refused."""


@dataclass(frozen=True, slots=True)
class SchemaImport:
    """A version that another one rests on, under the name by which its definition speaks of it."""

    name: str
    subject: str
    version: int
    """0 asks for the latest one, and is never kept."""


@dataclass(frozen=True, slots=True)
class TopicSchema:
    """Schema configuration of one topic."""

    subject: str | None = None
    policy: ValidationPolicy = ValidationPolicy.WARN
    checks_payloads: bool = False


@dataclass
class SchemaInfo:
    """One version of a schema."""

    schema_id: int
    subject: str
    version: int
    schema_type: str
    schema_definition: bytes
    """As the broker gave it."""
    fingerprint: str

    def schema_definition_as_string(self) -> str:
        """The definition as text. Raises UnicodeDecodeError."""
        return self.schema_definition.decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSchemaConfig:
    """Subject that a topic's messages follow, and the action for those that do not."""

    schema_subject: str
    validation_policy: str
    enable_payload_validation: bool
    schema_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterSchema:
    """Add a version to a subject; the same definition again answers the version that is there."""

    subject: str
    type: SchemaType
    definition: bytes
    description: str = ""
    created_by: str = ""
    tags: tuple[str, ...] = ()
