"""Schema cache: the whole registry, followed in the metadata store, for checks that cannot wait."""

import logging

from danube.metadata.records import keys
from danube.metadata.schemas.record_format import SubjectRecord, VersionRecord, decode_subject, decode_version
from danube.metadata.store import Entry, MetadataStore
from danube.metadata.watch_cache import WatchCache
from danube.model.errors import MetadataError
from danube.runtime.clock import Clock
from danube.runtime.tasks import TaskScope

_log = logging.getLogger(__name__)


class SchemaCache:
    """Subjects and versions as this broker has seen them last."""

    def __init__(self, store: MetadataStore, clock: Clock) -> None:
        self.changes = 0
        """Grows with each change: whoever keeps a verdict compares it."""
        self._subjects: dict[int, SubjectRecord] = {}
        self._ids: dict[str, int] = {}
        self._versions: dict[tuple[str, int], VersionRecord] = {}
        self._watches = [
            WatchCache(store, keys.SCHEMA_SUBJECTS, clock, self._follow_subject),
            WatchCache(store, keys.SCHEMA_VERSIONS, clock, self._follow_version),
        ]

    async def open(self, tasks: TaskScope) -> None:
        """Follow the store; returns once everything that stands is known."""
        for watch in self._watches:
            tasks.spawn(watch.run(), "watch the schemas")
        for watch in self._watches:
            await watch.ready()

    def subject(self, schema_id: int) -> SubjectRecord | None:
        """The subject that has this id."""
        return self._subjects.get(schema_id)

    def version(self, schema_id: int, version: int) -> VersionRecord | None:
        """A version of the subject that has this id, deleted or not."""
        subject = self._subjects.get(schema_id)
        return self._versions.get((subject.name, version)) if subject else None

    def add(self, subject: SubjectRecord, version: VersionRecord) -> None:
        """Know a version that was read before the watch has reported it."""
        if self.version(subject.schema_id, version.version) is None:
            self.changes += 1
            self._subjects.setdefault(subject.schema_id, subject)
            self._ids.setdefault(subject.name, subject.schema_id)
            self._versions[subject.name, version.version] = version

    def _follow_subject(self, key: str, entry: Entry | None) -> None:
        self.changes += 1
        try:
            gone = self._ids.pop(keys.parse_schema_subject(key), None)
            if gone is not None:
                self._subjects.pop(gone, None)
            if entry is not None:
                subject = decode_subject(entry)
                self._subjects[subject.schema_id] = subject
                self._ids[subject.name] = subject.schema_id
        except MetadataError as error:
            _log.warning("a subject cannot be read, and is left out: %s", error)

    def _follow_version(self, key: str, entry: Entry | None) -> None:
        self.changes += 1
        try:
            self._versions.pop(keys.parse_schema_version(key), None)
            if entry is not None:
                version = decode_version(entry)
                self._versions[version.subject, version.version] = version
        except MetadataError as error:
            _log.warning("a version of a schema cannot be read, and is left out: %s", error)
