"""The registry that the HTTP face speaks to: a broker's own, or one that is reached through a gateway."""

from collections.abc import Sequence
from typing import Protocol

from danube.model.calls.schemas import (
    CheckedVersion,
    CheckVersion,
    FindVersion,
    ModeAnswer,
    RegisteredSchema,
    RegisterVersion,
    SetMode,
    VersionDescription,
)


class HttpRegistry(Protocol):
    """Every method raises DanubeError as the registry's calls do."""

    async def subject_names(self) -> Sequence[str]:
        """All subjects that have versions."""

    async def version_numbers(self, subject: str) -> Sequence[int]:
        """The versions of a subject. Raises NotFoundError."""

    async def find_version(self, wanted: FindVersion) -> VersionDescription:
        """One version in full. Raises NotFoundError."""

    async def register_version(self, wanted: RegisterVersion) -> RegisteredSchema:
        """Add a version."""

    async def check_version(self, wanted: CheckVersion) -> CheckedVersion:
        """Compare a definition with earlier versions."""

    async def schema_mode(self, wanted: SetMode) -> ModeAnswer:
        """Set or ask for a compatibility mode."""

    async def compiled_file(self, version: VersionDescription) -> bytes:
        """The serialized FileDescriptorProto of a Protobuf version."""
