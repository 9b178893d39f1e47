"""Deletion of a schema version by a plan: the topics that use it, and when each used it last.

The arguments, as JSON values: `subject`, and `version` as a number.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from danube.broker.control.plans.planned import PlannedCall, PlannedOperation, cannot_be_planned, destroying
from danube.broker.schemas.control import SchemaControl
from danube.model.calls.schemas import VersionUse
from danube.model.limits.broker import PLAN_NAMES_MAX
from danube.model.plans.plan import Arguments, Impact, fingerprint_of


def schema_changes(control: SchemaControl) -> Mapping[str, PlannedOperation]:
    """The operations, by their names."""

    def delete_schema_version(arguments: Arguments) -> PlannedCall:
        subject, version = arguments.get("subject"), arguments.get("version")
        is_number = isinstance(version, int) and not isinstance(version, bool) and version > 0
        if arguments.keys() != {"subject", "version"} or not isinstance(subject, str) or not is_number:
            raise cannot_be_planned("delete_schema_version", arguments, "subject as text and version as a number")
        name, number = subject, int(str(version))

        async def impact() -> Impact:
            found, record = await control.find(name, number)
            await control.check_deletable(name, number)
            uses, others = await control.uses(found, record)
            return _deletion(name, number, uses, others, fingerprint_of([found.schema_id, number, record.number]))

        return PlannedCall(impact, lambda extra_writes: control.delete((name, number), extra_writes=extra_writes))

    return destroying(delete_schema_version)


def _deletion(subject: str, version: int, uses: Sequence[VersionUse], others: int, fingerprint: str) -> Impact:
    change = f"Delete version {version} of {subject}."
    shown = [_use(one) for one in uses[:PLAN_NAMES_MAX]]
    if others:
        shown.append(f"Topics that you may not see follow the subject or have used this version: {others}.")
    return Impact(
        changes=(change, *shown),
        irreversible=(f"Messages that were written with version {version} of {subject} cannot be decoded any more.",),
        topics=tuple(one.topic for one in uses[:PLAN_NAMES_MAX]),
        topic_count=len(uses) + others,
        fingerprint=fingerprint,
    )


def _use(use: VersionUse) -> str:
    if not use.last_used_ms:
        return f"{use.topic} follows the subject, and no use of this version is known."
    at = datetime.fromtimestamp(use.last_used_ms / 1_000, UTC)
    return f"{use.topic} used it last at {at:%Y-%m-%d %H:%M} UTC."
