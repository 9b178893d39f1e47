"""The schema registry's changes: each one transaction, so that of two at a time one is decided anew."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from danube.metadata.records import keys
from danube.metadata.records.record_format import decode_counter, encode_counter
from danube.metadata.records.subscriptions import ExtraWrites, add_extra_writes
from danube.metadata.schemas.record_format import (
    RegistrySettings,
    SubjectRecord,
    VersionName,
    VersionRecord,
    decode_id,
    decode_number,
    decode_settings,
    decode_subject,
    decode_use,
    decode_version,
    encode_id,
    encode_number,
    encode_settings,
    encode_subject,
    encode_use,
    encode_version,
)
from danube.metadata.store import Entry, MetadataStore
from danube.metadata.transaction_builder import TransactionBuilder, commit_transaction
from danube.model.errors import LimitReachedError, MetadataError, NotFoundError, PreconditionFailedError
from danube.model.limits.registry import SCHEMA_SUBJECTS_MAX, SCHEMA_USES_MAX, SCHEMA_VERSIONS_MAX
from danube.model.schema import CompatibilityMode, JsonPolicy, SchemaImport, SchemaType
from danube.model.topic import TopicName
from danube.runtime.rng import Rng

_log = logging.getLogger(__name__)
_REFERRERS_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class NewVersion:
    """A version to be registered, which was parsed."""

    subject: str
    type: SchemaType
    definition: str
    fingerprint: str
    created_s: int
    created_by: str = ""
    description: str = ""
    tags: tuple[str, ...] = ()
    references: tuple[SchemaImport, ...] = ()
    as_confluent: bool = False


@dataclass(frozen=True, slots=True)
class Registered:
    """A version that is registered."""

    subject: SubjectRecord
    version: VersionRecord
    is_new: bool


Judge = Callable[[CompatibilityMode, JsonPolicy, Sequence[VersionRecord]], Awaitable[None]]
"""Raises for a version that may not follow on these, the oldest first, in this mode."""


Sees = Callable[[str], bool]
"""Tells whether the caller may read a subject, whose name an error may then tell."""


def _all(_subject: str) -> bool:
    return True


class SchemaRecords:
    """The registry in a metadata store. Every method raises MetadataError when the store fails."""

    def __init__(self, store: MetadataStore, rng: Rng) -> None:
        self._store = store
        self._rng = rng

    async def register(self, new: NewVersion, judge: Judge) -> Registered:
        """Add a version to its subject, which is created if need be.

        A live version with the same definition and references is answered as it is. Raises what `judge` raises,
        LimitReachedError, and PreconditionFailedError for a reference to a version that is deleted.
        """

        async def change(builder: TransactionBuilder) -> Registered:
            subject = _subject(await builder.read(keys.schema_subject(new.subject)))
            versions = [one for one in await self.versions(new.subject) if not one.is_deleted]
            if subject is not None:
                for one in versions:
                    if (one.fingerprint, one.references) == (new.fingerprint, new.references):
                        return Registered(subject, one, is_new=False)
            for reference in new.references:
                await _require_live(builder, reference)
            if versions:
                settings = _settings(await builder.read(keys.SCHEMA_SETTINGS))
                await judge(settings.mode_of(subject), settings.policy_of(subject), versions)
            return await self._append(builder, new, subject)

        return await commit_transaction(self._store, self._rng, change)

    async def _append(self, builder: TransactionBuilder, new: NewVersion, subject: SubjectRecord | None) -> Registered:
        if subject is None:
            schema_id = decode_counter(await builder.read(keys.SCHEMA_ID_COUNTER)) + 1
            if schema_id > SCHEMA_SUBJECTS_MAX:
                raise LimitReachedError(f"the registry has {SCHEMA_SUBJECTS_MAX} subjects, the most: use one of them")
            builder.put(keys.SCHEMA_ID_COUNTER, encode_counter(schema_id))
            builder.put(keys.schema_id(schema_id), encode_id(new.subject))
            own = {"json_policy": JsonPolicy.STRICT} if new.as_confluent else {"follows_default_policy": True}
            subject = replace(SubjectRecord(new.subject, schema_id, 0), **own)
        if subject.last_version >= SCHEMA_VERSIONS_MAX:
            raise LimitReachedError(
                f"{new.subject} has had {SCHEMA_VERSIONS_MAX} versions, the most: go on with another subject"
            )
        number = decode_counter(await builder.read(keys.SCHEMA_NUMBER_COUNTER)) + 1
        version = VersionRecord(
            subject=new.subject,
            version=subject.last_version + 1,
            number=number,
            type=new.type,
            definition=new.definition,
            fingerprint=new.fingerprint,
            created_s=new.created_s,
            created_by=new.created_by,
            description=new.description,
            tags=new.tags,
            references=new.references,
            as_confluent=new.as_confluent,
        )
        subject = replace(subject, last_version=version.version, changes=subject.changes + 1)
        builder.put(keys.SCHEMA_NUMBER_COUNTER, encode_counter(number))
        builder.put(keys.schema_number(number), encode_number(VersionName(new.subject, version.version)))
        builder.put(keys.schema_subject(new.subject), encode_subject(subject))
        builder.put(keys.schema_version(new.subject, version.version), encode_version(version))
        return Registered(subject, version, is_new=True)

    async def delete_version(
        self, subject: str, version: int, now_s: int, sees: Sees = _all, *, extra_writes: ExtraWrites | None = None
    ) -> VersionRecord:
        """Delete a version: its number, its id and its place stay taken; answers it as it was.

        Raises NotFoundError, and PreconditionFailedError while another version refers to it.
        """

        async def change(builder: TransactionBuilder) -> VersionRecord:
            found = _subject(await builder.read(keys.schema_subject(subject)))
            entry = await builder.read(keys.schema_version(subject, version))
            record = decode_version(entry) if entry else None
            if found is None or record is None or record.is_deleted:
                raise NotFoundError(f"{subject} has no version {version}: list its versions to see which there are")
            # Each registration moves the counter: one that comes after the look below makes this change anew.
            await builder.read(keys.SCHEMA_NUMBER_COUNTER)
            await self.require_no_referrer(subject, version, sees)
            gone = replace(record, definition="", deleted_s=now_s)
            builder.put(keys.schema_version(subject, version), encode_version(gone))
            builder.put(keys.schema_subject(subject), encode_subject(replace(found, changes=found.changes + 1)))
            builder.delete_below(keys.schema_uses_of(found.schema_id, version))
            await add_extra_writes(extra_writes, builder)
            return record

        return await commit_transaction(self._store, self._rng, change)

    async def referrers(self, subject: str, version: int) -> list[VersionRecord]:
        """Live versions that refer to this one."""
        everything = [decode_version(entry) for entry in await self._store.list(keys.SCHEMA_VERSIONS)]
        return [
            one
            for one in everything
            if not one.is_deleted and any((each.subject, each.version) == (subject, version) for each in one.references)
        ]

    async def set_mode(
        self, subject: str, mode: CompatibilityMode | None, json_policy: JsonPolicy | None = None
    ) -> SubjectRecord:
        """Set the mode of a subject; None has it follow the default. A policy of None stays. Raises NotFoundError."""

        async def change(builder: TransactionBuilder) -> SubjectRecord:
            found = _subject(await builder.read(keys.schema_subject(subject)))
            if found is None:
                raise no_subject(subject)
            changed = replace(found, mode=mode, changes=found.changes + 1)
            if json_policy is not None:
                changed = replace(changed, json_policy=json_policy, follows_default_policy=False)
            builder.put(keys.schema_subject(subject), encode_subject(changed))
            return changed

        return await commit_transaction(self._store, self._rng, change)

    async def set_defaults(self, mode: CompatibilityMode, json_policy: JsonPolicy | None = None) -> None:
        """Set the mode, and the policy unless it is None, of subjects that have none of their own."""

        async def change(builder: TransactionBuilder) -> None:
            found = _settings(await builder.read(keys.SCHEMA_SETTINGS))
            changed = replace(found, mode=mode, json_policy=json_policy or found.json_policy)
            builder.put(keys.SCHEMA_SETTINGS, encode_settings(changed))

        await commit_transaction(self._store, self._rng, change)

    async def settings(self) -> RegistrySettings:
        """Mode and policy of subjects that have none of their own."""
        return _settings(await self._store.get(keys.SCHEMA_SETTINGS))

    async def subject(self, name: str) -> SubjectRecord | None:
        """A subject; one that another broker has just registered is found too."""
        return _subject(await self._fresh(keys.schema_subject(name)))

    async def subjects(self) -> list[SubjectRecord]:
        """All subjects, sorted by name."""
        found = [decode_subject(entry) for entry in await self._store.list(keys.SCHEMA_SUBJECTS, linearizable=True)]
        return sorted(found, key=lambda one: one.name)

    async def subject_of(self, schema_id: int) -> str | None:
        """The subject that has this id."""
        entry = await self._fresh(keys.schema_id(schema_id))
        return decode_id(entry) if entry else None

    async def version_of(self, number: int) -> VersionRecord | None:
        """The version that has this number."""
        entry = await self._fresh(keys.schema_number(number))
        if entry is None:
            return None
        name = decode_number(entry)
        return await self.version(name.subject, name.version)

    async def version(self, subject: str, version: int) -> VersionRecord | None:
        """A version, deleted or not."""
        entry = await self._fresh(keys.schema_version(subject, version))
        return decode_version(entry) if entry else None

    async def versions(self, subject: str) -> list[VersionRecord]:
        """All versions of a subject, the deleted ones too, the oldest first."""
        found = [decode_version(entry) for entry in await self._store.list(keys.schema_versions_of(subject))]
        return sorted(found, key=lambda one: one.version)

    async def newest(self, subject: str) -> list[VersionRecord]:
        """As `versions`, with what other brokers have just registered; without it while this one is cut off."""
        try:
            await self._store.get(keys.schema_subject(subject), linearizable=True)
        except MetadataError:
            _log.debug("the versions of %s are read as this broker has them", subject)
        return await self.versions(subject)

    async def note_use(self, schema_id: int, version: int, topic: TopicName, now_s: int) -> None:
        """Write down that a topic has used a version at this time; beyond SCHEMA_USES_MAX topics it is not."""
        key = keys.schema_use(schema_id, version, topic)
        if await self._store.get(key) is None:
            others = await self._store.list(keys.schema_uses_of(schema_id, version))
            if len(others) >= SCHEMA_USES_MAX:
                return
        await self._store.put(key, encode_use(now_s))

    async def uses(self, schema_id: int, version: int) -> dict[TopicName, int]:
        """The topics that have used a version, and the second of the last time."""
        entries = await self._store.list(keys.schema_uses_of(schema_id, version), linearizable=True)
        return {keys.parse_schema_use(entry.key): decode_use(entry) for entry in entries}

    async def _fresh(self, key: str) -> Entry | None:
        """A key; one that this broker does not have yet is looked for at the others."""
        return await self._store.get(key) or await self._store.get(key, linearizable=True)

    async def require_no_referrer(self, subject: str, version: int, sees: Sees) -> None:
        """Raise PreconditionFailedError while other versions refer to this one, with their number and names."""
        referrers = await self.referrers(subject, version)
        if referrers:
            shown = [f"version {one.version} of {one.subject}" for one in referrers if sees(one.subject)]
            hidden = len(referrers) - len(shown)
            names = ", ".join(shown[:_REFERRERS_SHOWN])
            more = f"{names and ' and '}{hidden} of subjects that you may not view" if hidden else ""
            raise PreconditionFailedError(
                f"version {version} of {subject} cannot be deleted while {len(referrers)} refer to it: {names}{more};"
                f" {'ask who may view the cluster whose they are' if hidden else 'delete those first'}"
            )


def no_subject(name: str) -> NotFoundError:
    """The error for a subject that is not registered."""
    return NotFoundError(f"there is no subject {name[:80]!r}: register a schema under it first, or list the subjects")


async def _require_live(builder: TransactionBuilder, reference: SchemaImport) -> None:
    entry = await builder.read(keys.schema_version(reference.subject, reference.version))
    if entry is None or decode_version(entry).is_deleted:
        raise PreconditionFailedError(
            f"the reference {reference.name[:80]!r} is to version {reference.version} of {reference.subject[:80]},"
            " which is not registered: register it first"
        )


def _settings(entry: Entry | None) -> RegistrySettings:
    return decode_settings(entry) if entry else RegistrySettings()


def _subject(entry: Entry | None) -> SubjectRecord | None:
    return decode_subject(entry) if entry else None
