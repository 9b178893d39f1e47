"""Look at the schema registry: subjects, versions of the one that is opened, and the change that is shown."""

from collections.abc import Sequence
from dataclasses import dataclass

from danube.admin.operations.operation import Call
from danube.admin.operations.schemas.changes import EXPLAIN, ExplainParams, Explanation
from danube.admin.operations.schemas.fields import pretty
from danube.model.calls.schemas import FindVersion, SchemaVersionInfo, SubjectSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownVersion:
    """A version, and the earlier one that it is compared with."""

    version: int
    against: int | None
    """None for the first version, which is compared with nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadVersion:
    """The definition of a version, laid out for people, and its change."""

    shown: ShownVersion
    definition: str
    change: Explanation | None


class SchemaLook:
    """The registry as it was read last. Whoever opens something sets what is wanted, and a round reads it."""

    def __init__(self) -> None:
        self.subjects: Sequence[SubjectSummary] | None = None
        """None before the first round."""
        self.opened = ""
        """The subject whose versions are read."""
        self.wanted: ShownVersion | None = None
        self.versions: Sequence[SchemaVersionInfo] | None = None
        """Of the opened subject, the newest first."""
        self.version: ReadVersion | None = None

    def open(self, subject: str) -> None:
        """Read this subject from now on; none with an empty name."""
        self.opened, self.versions = subject, None
        self.want(None)

    def want(self, shown: ShownVersion | None) -> None:
        """Read this version of the opened subject, once."""
        self.wanted, self.version = shown, None

    def shown(self, version: int) -> ShownVersion:
        """A version beside the one before it."""
        earlier = [one.version for one in self.versions or () if one.version < version]
        return ShownVersion(version=version, against=max(earlier, default=None))

    async def read(self, call: Call) -> None:
        """Read what is on the screen. Raises DanubeError."""
        subject, wanted = self.opened, self.wanted
        if not subject:
            self.subjects = sorted(await call.gateway.subjects(), key=lambda one: one.subject)
            return
        versions = await call.gateway.schema_versions(subject)
        if subject != self.opened:
            return
        self.versions = versions[::-1]
        if wanted is not None and (self.version is None or self.version.shown != wanted):
            found = await _read_version(call, subject, wanted)
            if (subject, wanted) == (self.opened, self.wanted):
                self.version = found


async def _read_version(call: Call, subject: str, wanted: ShownVersion) -> ReadVersion:
    found = await call.gateway.find_version(FindVersion(subject=subject, version=wanted.version))
    change = None
    if wanted.against is not None:
        params = ExplainParams(subject=subject, version=wanted.version, against=wanted.against)
        change = await EXPLAIN.answer(call, params)
    return ReadVersion(shown=wanted, definition=pretty(found.definition.decode(errors="replace")), change=change)
