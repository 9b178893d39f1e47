"""A definition that was read and found valid."""

from dataclasses import dataclass

from danube.model.limits.schema import SCHEMA_TEXT_CHARS_MAX
from danube.model.schema import SchemaType


@dataclass(frozen=True, slots=True, eq=False)
class ParsedSchema:
    """One definition: its identity, and its parts for comparison and validation."""

    kind: SchemaType
    text: str
    """As it was given."""
    canonical: bytes
    """Form in which two definitions are equal that mean the same."""
    fingerprint: str
    """Digest of the canonical form with the references: equal ones are one version."""
    names: tuple[str, ...]
    """Types that the definition declares, the main one first."""
    document: object
    """Tree of the format's own room."""


def shown(value: object) -> str:
    """Value in a message, shortened."""
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= SCHEMA_TEXT_CHARS_MAX else f"{text[: SCHEMA_TEXT_CHARS_MAX - 3]}..."
