"""The registry as gates and producers ask it: by id and version, with the uses of each."""

from danube.broker.schemas.access import SubjectAccess
from danube.broker.schemas.cache import SchemaCache
from danube.broker.schemas.definitions import Definitions
from danube.broker.schemas.gate import Check, Pair, SchemaGate, ValidationCounts, has_gate
from danube.metadata.records.record_format import TopicRecord
from danube.metadata.schemas.record_format import SubjectRecord, VersionRecord
from danube.metadata.schemas.schema_records import SchemaRecords
from danube.model.calls.client import SchemaReference
from danube.model.errors import NotFoundError, PreconditionFailedError
from danube.model.limits.schema import SCHEMA_OVERRUN_REST_S
from danube.model.topic import TopicName
from danube.runtime.clock import Clock, sleep_for
from danube.runtime.tasks import TaskScope


class SchemaVersions:
    """Versions of schemas, for what happens on the data path."""

    def __init__(
        self,
        cache: SchemaCache,
        records: SchemaRecords,
        definitions: Definitions,
        tasks: TaskScope,
        clock: Clock,
        *,
        access: SubjectAccess = SubjectAccess(),  # noqa: B008 - immutable
    ) -> None:
        self._cache = cache
        self._records = records
        self._definitions = definitions
        self._tasks = tasks
        self._clock = clock
        self._access = access
        self._uses: dict[tuple[TopicName, Pair], int] = {}
        """Seconds of last uses that are not written down yet."""
        self.waiting_bytes = 0
        """As `Versions.waiting_bytes`."""
        self.counts: dict[str, ValidationCounts] = {}
        """By topic."""

    def gate_of(self, record: TopicRecord) -> SchemaGate | None:
        """The check of a topic's messages; None where nothing is checked."""
        if not has_gate(record.schema):
            return None
        counts = self.counts.setdefault(str(record.name), ValidationCounts())
        return SchemaGate(record.name, record.schema, self, counts, self._tasks)

    @property
    def changes(self) -> int:
        """As `Versions.changes`."""
        return self._cache.changes

    def known(self, pair: Pair) -> VersionRecord | None:
        """As `Versions.known`; version 0 is the latest, which takes a look."""
        return self._cache.version(*pair) if pair[1] else None

    async def find(self, pair: Pair) -> VersionRecord | None:
        """As `Versions.find`."""
        found = self.known(pair)
        if found is not None:
            return found
        name = await self._records.subject_of(pair[0])
        subject = await self._records.subject(name) if name else None
        if subject is None:
            return None
        if not pair[1]:
            return latest_of(await self._records.newest(subject.name))
        version = await self._records.version(subject.name, pair[1])
        if version is not None:
            self._cache.add(subject, version)
        return version

    async def check_of(self, version: VersionRecord) -> Check:
        """As `Versions.check_of`."""
        return await self._definitions.check_of(version)

    async def rest(self) -> None:
        """As `Versions.rest`."""
        await sleep_for(self._clock, SCHEMA_OVERRUN_REST_S)

    def used(self, topic: TopicName, pair: Pair) -> None:
        """As `Versions.used`."""
        if pair[1]:
            self._uses[topic, pair] = self._clock.now_ms() // 1_000

    async def write_uses(self) -> None:
        """Write down the last uses. Raises MetadataError."""
        uses, self._uses = self._uses, {}
        for (topic, pair), used_s in uses.items():
            await self._records.note_use(*pair, topic, used_s)

    async def require(self, wanted: SchemaReference, followed: str | None = None) -> tuple[SubjectRecord, int]:
        """The subject of a producer's schema, and the version that fits; `followed` is the topic's subject by now.

        Raises NotFoundError, PreconditionFailedError, and NotPermittedError as `SubjectAccess.require_for_topic`.
        """
        if wanted.subject != followed:
            self._access.require_for_topic(wanted.subject)
        versions = [one for one in await self._records.newest(wanted.subject) if not one.is_deleted]
        subject = await self._records.subject(wanted.subject)
        if subject is None or not versions:
            raise NotFoundError(
                f"schema subject {wanted.subject!r} is not registered: register a schema under it, or create the"
                " producer without one"
            )
        latest = versions[-1].version
        if wanted.pinned_version is not None and all(one.version != wanted.pinned_version for one in versions):
            raise PreconditionFailedError(
                f"{wanted.subject} has no version {wanted.pinned_version}, the latest is {latest}: register it first"
            )
        if wanted.min_version is not None and latest < wanted.min_version:
            raise PreconditionFailedError(
                f"the latest version of {wanted.subject} is {latest} and the producer asks for {wanted.min_version} or"
                " newer: register that version first"
            )
        return subject, wanted.pinned_version or latest


def latest_of(versions: list[VersionRecord]) -> VersionRecord | None:
    """The newest version that is not deleted."""
    return next((one for one in reversed(versions) if not one.is_deleted), None)
