"""The schema registry's calls: register, read, check, and bind topics."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace

from danube.broker.schemas.access import SubjectAccess
from danube.broker.schemas.definitions import CompatibilityRule, Definitions
from danube.broker.schemas.versions import latest_of
from danube.broker.topics.local_topics import Topics
from danube.metadata.records.subscriptions import ExtraWrites
from danube.metadata.schemas.record_format import SubjectRecord, VersionRecord
from danube.metadata.schemas.schema_records import NewVersion, Registered, SchemaRecords, no_subject
from danube.model.calls.schemas import (
    CheckedVersion,
    CheckVersion,
    FindVersion,
    ModeAnswer,
    RegisteredSchema,
    RegisterVersion,
    SchemaAnswer,
    SchemaDifference,
    SchemaVersionInfo,
    SetMode,
    SubjectSummary,
    VersionDescription,
    VersionUse,
)
from danube.model.errors import (
    InvalidRequestError,
    NotFoundError,
    NotPermittedError,
    PreconditionFailedError,
    SchemaIncompatibleError,
    SchemaInvalidError,
)
from danube.model.limits.registry import (
    SCHEMA_BYTES_MAX,
    SCHEMA_REFERENCES_MAX,
    SCHEMA_TAGS_MAX,
    SCHEMA_TEXT_BYTES_MAX,
)
from danube.model.records.telemetry import SYSTEM_NAMESPACE
from danube.model.schema import (
    CompatibilityMode,
    JsonPolicy,
    RegisterSchema,
    SchemaImport,
    SchemaType,
    TopicSchema,
    TopicSchemaConfig,
    ValidationPolicy,
)
from danube.model.subscription import check_member_name
from danube.model.topic import TopicName
from danube.runtime.clock import Clock

_CONFLICTS_SHOWN = 5
_TEXT_FREE = frozenset({SchemaType.BYTES, SchemaType.STRING, SchemaType.NUMBER})
_WRAPPED = {SchemaType.AVRO: "Avro", SchemaType.JSON_SCHEMA: "JsonSchema"}
_PRIMITIVE = {SchemaType.BYTES: "Bytes", SchemaType.STRING: "String", SchemaType.NUMBER: "Number"}
_PACKAGE = re.compile(r"^\s*package\s+([\w.]+)\s*;", re.MULTILINE)
_MESSAGE = re.compile(r"^\s*message\s+(\w+)", re.MULTILINE)
_IMPORT = re.compile(r'^\s*import\s+(?:public\s+|weak\s+)?"([^"]+)"\s*;', re.MULTILINE)


class SchemaControl:
    """The registry's calls, on whatever broker: all of them have the whole registry."""

    def __init__(
        self,
        records: SchemaRecords,
        definitions: Definitions,
        topics: Topics,
        clock: Clock,
        access: SubjectAccess = SubjectAccess(),  # noqa: B008 - immutable
    ) -> None:
        self._records = records
        self._definitions = definitions
        self._topics = topics
        self._clock = clock
        self._access = access

    # Versions

    async def register(self, wanted: RegisterSchema) -> RegisteredSchema:
        """The published call; see `register_version`. Imports that are subjects refer to their latest versions."""
        return await self.register_version(
            RegisterVersion(
                subject=wanted.subject,
                type=wanted.type,
                definition=wanted.definition,
                description=wanted.description,
                created_by=wanted.created_by,
                tags=wanted.tags,
                references=await self._implied(wanted.type, wanted.definition),
            )
        )

    async def register_version(self, wanted: RegisterVersion) -> RegisteredSchema:
        """Add a version to a subject; the same definition again answers the version that is there.

        Raises InvalidNameError, SchemaInvalidError, SchemaIncompatibleError, LimitReachedError, and
        PreconditionFailedError for a reference to what is not registered.
        """
        made = await self.registered(wanted)
        return RegisteredSchema(
            schema_id=made.subject.schema_id,
            version=made.version.version,
            is_new_version=made.is_new,
            fingerprint=made.version.fingerprint,
        )

    async def registered(self, wanted: RegisterVersion) -> Registered:
        """As `register_version`, with the records."""
        check_member_name("schema subject", wanted.subject)
        _check_texts(wanted)
        text = _text(wanted.type, wanted.definition)
        references = await self._pinned(wanted.references)
        parsed = await self._definitions.parse(wanted.type, text, references, as_confluent=wanted.as_confluent)

        async def judge(mode: CompatibilityMode, policy: JsonPolicy, earlier: Sequence[VersionRecord]) -> None:
            if mode is CompatibilityMode.NONE:
                return
            found = await self._definitions.compare(CompatibilityRule(mode, policy), parsed, earlier)
            if found.conflicts:
                raise SchemaIncompatibleError(_refusal(wanted.subject, mode, found.conflicts))

        new = NewVersion(
            subject=wanted.subject,
            type=wanted.type,
            definition=text,
            fingerprint=parsed.fingerprint,
            created_s=self._now_s(),
            created_by=wanted.created_by,
            description=wanted.description,
            tags=wanted.tags,
            references=references,
            as_confluent=wanted.as_confluent,
        )
        return await self._records.register(new, judge)

    async def get(self, wanted: tuple[int, int | None]) -> SchemaAnswer:
        """A version by the subject's id; without a version the latest. Raises NotFoundError."""
        schema_id, number = wanted
        subject, version = await self.find(await self._named(schema_id), number or 0)
        return await self._answer(subject, version)

    async def latest(self, subject: str) -> SchemaAnswer:
        """The latest version of a subject. Raises NotFoundError."""
        return await self._answer(*await self.find(subject, 0))

    async def versions(self, subject: str) -> list[SchemaVersionInfo]:
        """The versions of a subject. Raises NotFoundError."""
        found, versions = await self.live(subject)
        return [
            SchemaVersionInfo(
                version=one.version,
                created_at=one.created_s,
                created_by=one.created_by,
                description=one.description,
                fingerprint=one.fingerprint,
                schema_id=found.schema_id,
            )
            for one in versions
        ]

    async def subjects(self) -> list[SubjectSummary]:
        """The subjects that have versions and that the caller may read, by name."""
        settings = await self._records.settings()
        found = []
        for subject in await self._records.subjects():
            latest = latest_of(await self._records.versions(subject.name))
            if latest is not None and self._access.reads(subject.name):
                found.append(_summary(subject, latest, settings.mode_of(subject)))
        return found

    async def check(
        self, wanted: tuple[str, bytes, SchemaType, CompatibilityMode | None]
    ) -> tuple[bool, tuple[str, ...]]:
        """The published call; see `check_version`."""
        subject, definition, kind, mode = wanted
        await self.live(subject)
        try:
            references = await self._implied(kind, definition)
            asked = CheckVersion(subject=subject, type=kind, definition=definition, mode=mode, references=references)
            checked = await self.check_version(asked)
        except SchemaInvalidError as error:
            return False, (str(error),)
        return checked.is_compatible, tuple(sentence(one) for one in checked.differences if one.breaks)

    async def check_version(self, wanted: CheckVersion) -> CheckedVersion:
        """Every difference between a definition and the versions that the mode names. Raises SchemaInvalidError.

        A subject that is not registered yet, or has no version left, is compatible with everything.
        """
        check_member_name("schema subject", wanted.subject)
        references = await self._pinned(wanted.references)
        text = _text(wanted.type, wanted.definition)
        parsed = await self._definitions.parse(wanted.type, text, references, as_confluent=wanted.as_confluent)
        live = [one for one in await self._records.newest(wanted.subject) if not one.is_deleted]
        subject, settings = await self._records.subject(wanted.subject), await self._records.settings()
        mode = wanted.mode or settings.mode_of(subject)
        same = next((one.version for one in live if one.fingerprint == parsed.fingerprint), 0)
        if wanted.against_version:
            live = [one for one in live if one.version == wanted.against_version]
            if not live:
                raise NotFoundError(f"{wanted.subject} has no version {wanted.against_version}: list its versions")
        rule = CompatibilityRule(mode, settings.policy_of(subject))
        found = await self._definitions.compare(rule, parsed, live)
        return CheckedVersion(
            is_compatible=not found.conflicts,
            mode=mode,
            differences=found.differences,
            same_as=same,
            compared=found.compared,
        )

    async def delete(self, wanted: tuple[str, int], *, extra_writes: ExtraWrites | None = None) -> tuple[bool, str]:
        """Delete a version; its number is not given again. Raises NotFoundError, PreconditionFailedError."""
        subject, version = wanted
        await self._records.delete_version(
            subject, version, self._now_s(), self._access.reads, extra_writes=extra_writes
        )
        return True, f"deleted version {version} of {subject}"

    async def check_deletable(self, subject: str, version: int) -> None:
        """Raise PreconditionFailedError while another version refers to this one."""
        await self._records.require_no_referrer(subject, version, self._access.reads)

    # Modes

    async def set_mode(self, wanted: tuple[str, CompatibilityMode]) -> tuple[bool, str]:
        """The published call. Raises NotFoundError."""
        subject, mode = wanted
        await self._records.set_mode(subject, mode)
        return True, f"compatibility mode of {subject} is {mode.value}"

    async def mode(self, wanted: SetMode) -> ModeAnswer:
        """Set or ask for the mode of a subject, or the default. Raises NotFoundError, InvalidRequestError."""
        if not wanted.subject:
            if not wanted.ask:
                if wanted.mode is None:
                    raise InvalidRequestError("the default of the cluster needs a mode: give one")
                await self._records.set_defaults(wanted.mode, wanted.json_policy)
            default = await self._records.settings()
            return ModeAnswer(mode=default.mode, is_own=False, json_policy=default.json_policy)
        if not wanted.ask:
            await self._records.set_mode(wanted.subject, wanted.mode, wanted.json_policy)
        found = await self._records.subject(wanted.subject)
        if found is None:
            raise no_subject(wanted.subject)
        settings = await self._records.settings()
        policy = settings.policy_of(found)
        return ModeAnswer(mode=settings.mode_of(found), is_own=found.mode is not None, json_policy=policy)

    # Topics

    async def configure_topic(self, wanted: tuple[str, str, str, bool]) -> tuple[bool, str]:
        """Bind a topic, or all partitions of a base name, to a subject. Raises NotFoundError, InvalidRequestError."""
        topic, subject, policy, checks_payloads = wanted
        name, action = _topic(topic), _policy(policy)
        self._access.require_for_topic(subject)
        await self.live(subject)
        schema = TopicSchema(subject, action, checks_payloads)
        await self._topics.change_topic_schema(name, lambda _: schema)
        return True, f"{name} follows {subject}: {action.value}"

    async def update_policy(self, wanted: tuple[str, str, bool]) -> tuple[bool, str]:
        """Change the policy of a topic that has a subject. Raises NotFoundError, PreconditionFailedError."""
        topic, policy, checks_payloads = wanted
        name, action = _topic(topic), _policy(policy)

        def change(schema: TopicSchema) -> TopicSchema:
            if schema.subject is None:
                raise PreconditionFailedError(f"{name} has no schema subject: configure its schema first")
            return TopicSchema(schema.subject, action, checks_payloads)

        await self._topics.change_topic_schema(name, change)
        return True, f"validation policy of {name} is {action.value}"

    async def topic_config(self, topic: str) -> TopicSchemaConfig:
        """The schema configuration of a topic. Raises NotFoundError."""
        schema = self._topics.records_behind(TopicName.parse(topic))[0].schema
        subject = await self._records.subject(schema.subject) if schema.subject else None
        return TopicSchemaConfig(
            schema_subject=schema.subject or "",
            validation_policy=schema.policy.value,
            enable_payload_validation=schema.checks_payloads,
            schema_id=subject.schema_id if subject else 0,
        )

    # Beneath

    async def describe(self, wanted: FindVersion) -> VersionDescription:
        """A version in full. Raises NotFoundError."""
        if wanted.number:
            found = await self._records.version_of(wanted.number)
            self._access.found(found.subject if found else None)
            if found is None or found.is_deleted:
                raise NotFoundError(f"schema {wanted.number} not found: list the subjects to see what there is")
            subject, version = await self.find(found.subject, found.version)
        else:
            name = await self._named(wanted.schema_id) if wanted.schema_id else wanted.subject
            subject, version = await self.find(name, wanted.version)
        settings = await self._records.settings()
        uses, unseen_uses = await self.uses(subject, version)
        return VersionDescription(
            subject=version.subject,
            version=version.version,
            schema_id=subject.schema_id,
            number=version.number,
            type=version.type,
            definition=version.definition.encode(),
            fingerprint=version.fingerprint,
            created_s=version.created_s,
            created_by=version.created_by,
            description=version.description,
            tags=version.tags,
            references=version.references,
            mode=settings.mode_of(subject),
            has_own_mode=subject.mode is not None,
            uses=uses,
            unseen_uses=unseen_uses,
            json_policy=settings.policy_of(subject),
            as_confluent=version.as_confluent,
        )

    async def compiled_file(self, version: VersionDescription) -> bytes:
        """The serialized FileDescriptorProto of a Protobuf version. Raises SchemaInvalidError."""
        return await self._definitions.compiled_file(version.definition.decode(), version.references)

    async def uses(self, subject: SubjectRecord, version: VersionRecord) -> tuple[tuple[VersionUse, ...], int]:
        """Topics with the subject or a use of this version that the caller may see, and how many others there are."""
        there = {str(record.name): record for record in self._topics.records()}
        used = await self._records.uses(subject.schema_id, version.version)
        last = {str(topic): used_s for topic, used_s in used.items()}
        names = {
            name for name, record in there.items() if record.schema_subject == subject.name
        } | last.keys() & there.keys()
        seen = filter(self._access.sees, names)
        uses = [VersionUse(topic=one, last_used_ms=last.get(one, 0) * 1_000) for one in seen]
        return tuple(sorted(uses, key=lambda use: (-use.last_used_ms, use.topic))), len(names) - len(uses)

    async def find(self, subject: str, version: int) -> tuple[SubjectRecord, VersionRecord]:
        """A live version of a subject, 0 for the latest. Raises NotFoundError."""
        found, versions = await self.live(subject)
        for one in reversed(versions):
            if version in {0, one.version}:
                return found, one
        gone = await self._records.version(subject, version)
        if gone is not None and gone.is_deleted:
            raise NotFoundError(f"version {version} of {subject} was deleted: the latest is {versions[-1].version}")
        raise NotFoundError(f"{subject} has no version {version}, the latest is {versions[-1].version}: use that")

    async def _named(self, schema_id: int) -> str:
        name = self._access.found(await self._records.subject_of(schema_id))
        if name is None:
            raise NotFoundError(f"schema not found for id {schema_id}: list the subjects to see their ids")
        return name

    async def live(self, subject: str) -> tuple[SubjectRecord, list[VersionRecord]]:
        """A subject and its live versions, at least one. Raises NotFoundError."""
        versions = [one for one in await self._records.newest(subject) if not one.is_deleted]
        found = await self._records.subject(subject)
        if found is None or not versions:
            raise no_subject(subject)
        return found, versions

    async def _pinned(self, references: Sequence[SchemaImport]) -> tuple[SchemaImport, ...]:
        """The references, with a version in place of 0, the latest.

        Raises PreconditionFailedError, and NotPermittedError for a subject that the caller may not read.
        """
        found = []
        for one in references:
            self._access.require(one.subject)
            latest = latest_of(await self._records.newest(one.subject)) if not one.version else None
            if latest is None and not one.version:
                raise PreconditionFailedError(
                    f"the reference {one.name[:80]!r} is to the latest version of {one.subject[:80]}, which has none:"
                    " register it first"
                )
            found.append(replace(one, version=latest.version) if latest else one)
        return tuple(found)

    async def _implied(self, kind: SchemaType, definition: bytes) -> tuple[SchemaImport, ...]:
        """References of a Protobuf definition to the latest versions of subjects that have the imported names."""
        if kind is not SchemaType.PROTOBUF:
            return ()
        found = []
        for name in dict.fromkeys(_IMPORT.findall(definition.decode(errors="replace"))):
            latest = latest_of(await self._records.versions(name)) if self._access.reads(name) else None
            if latest is not None:
                found.append(SchemaImport(name, name, latest.version))
        return tuple(found)

    async def _answer(self, subject: SubjectRecord, version: VersionRecord) -> SchemaAnswer:
        return SchemaAnswer(
            schema_id=subject.schema_id,
            version=version.version,
            subject=subject.name,
            schema_type=version.type.value,
            schema_definition=wrapped(version),
            description=version.description,
            created_at=version.created_s,
            created_by=version.created_by,
            tags=version.tags,
            fingerprint=version.fingerprint,
            compatibility_mode=(await self._records.settings()).mode_of(subject).value,
        )

    def _now_s(self) -> int:
        return self._clock.now_ms() // 1_000


def wrapped(version: VersionRecord) -> bytes:
    """The definition as the original answers it: JSON of a tagged value, with the text that was registered in it."""
    kind, text, fingerprint = version.type, version.definition, version.fingerprint
    if kind in _PRIMITIVE:
        return json.dumps(_PRIMITIVE[kind]).encode()
    if kind is SchemaType.PROTOBUF:
        value = {"raw_proto": text, "message_name": _message_name(text), "fingerprint": fingerprint}
        return json.dumps({"Protobuf": value}, ensure_ascii=False).encode()
    value = {"raw_schema": text, "fingerprint": fingerprint}
    return json.dumps({_WRAPPED[kind]: value}, ensure_ascii=False).encode()


def _message_name(text: str) -> str:
    package, message = _PACKAGE.search(text), _MESSAGE.search(text)
    return ".".join(found[1] for found in (package, message) if found)


def _summary(subject: SubjectRecord, latest: VersionRecord, mode: CompatibilityMode) -> SubjectSummary:
    return SubjectSummary(
        subject=subject.name,
        schema_type=latest.type.value,
        latest_version=latest.version,
        compatibility_mode=mode.value,
        schema_id=subject.schema_id,
        tags=latest.tags,
    )


def _text(kind: SchemaType, definition: bytes) -> str:
    if len(definition) > SCHEMA_BYTES_MAX:
        raise SchemaInvalidError(
            f"a schema of {len(definition):,} bytes is larger than {SCHEMA_BYTES_MAX:,}: split it by references"
        )
    try:
        return definition.decode("utf-8", "replace" if kind in _TEXT_FREE else "strict")
    except UnicodeDecodeError as error:
        raise SchemaInvalidError(f"the definition is not UTF-8 at byte {error.start}: send its text") from None


def _check_texts(wanted: RegisterVersion) -> None:
    texts = (wanted.description, wanted.created_by, *wanted.tags)
    if len(wanted.tags) > SCHEMA_TAGS_MAX or any(len(text.encode()) > SCHEMA_TEXT_BYTES_MAX for text in texts):
        raise InvalidRequestError(
            f"a version has up to {SCHEMA_TAGS_MAX} tags, and texts of up to {SCHEMA_TEXT_BYTES_MAX} bytes: use less"
        )
    if len(wanted.references) > SCHEMA_REFERENCES_MAX:
        raise InvalidRequestError(f"a version has up to {SCHEMA_REFERENCES_MAX} references: use fewer")


def _topic(text: str) -> TopicName:
    name = TopicName.parse(text)
    if name.namespace == SYSTEM_NAMESPACE:
        raise NotPermittedError(f"{name} is the broker's own, and its messages have their form: choose another topic")
    return name


def _policy(word: str) -> ValidationPolicy:
    try:
        return ValidationPolicy(word.lower())
    except ValueError:
        raise InvalidRequestError(
            f"{word[:40]!r} is not a validation policy: use {', '.join(one.value for one in ValidationPolicy)}"
        ) from None


def sentence(difference: SchemaDifference) -> str:
    """A difference for people."""
    before, after = difference.before or "nothing", difference.after or "nothing"
    change = f" ({before} -> {after})" if difference.before or difference.after else ""
    remedy = f": {difference.suggestion}" if difference.suggestion else ""
    place = f"{difference.path or 'schema'}: {difference.message}{change} [{difference.kind}]"
    return f"{place}, not compatible with version {difference.version}{remedy}"


def _refusal(subject: str, mode: CompatibilityMode, conflicts: Sequence[SchemaDifference]) -> str:
    shown = "; ".join(map(sentence, conflicts[:_CONFLICTS_SHOWN]))
    hidden = len(conflicts) - _CONFLICTS_SHOWN
    more = f" (and {hidden} more)" if hidden > 0 else ""
    return (
        f"the definition may not be the next version of {subject}, whose mode is {mode.value}: {shown}{more}."
        " Change it, or set another mode"
    )
