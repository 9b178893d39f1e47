"""schemas.check and schemas.explain: what a change of a schema would break, for whom, and what to do instead."""

from difflib import unified_diff
from typing import Annotated, Self

from pydantic import Field, model_validator

from danube.admin.operations.fields import WIDE, Params, Result
from danube.admin.operations.operation import Call, Example, Operation
from danube.admin.operations.schemas.fields import (
    TOOLSET,
    DefinitionParams,
    DifferenceView,
    ModeWord,
    SubjectText,
    TypeWord,
    Version,
    difference_view,
    pretty,
)
from danube.admin.operations.schemas.subjects import ORDER_3, ORDERS
from danube.model.calls.schemas import CheckedVersion, CheckVersion, FindVersion, VersionDescription
from danube.model.limits.registry import SCHEMA_BYTES_MAX, SCHEMA_DIFF_LINES_MAX
from danube.model.plans.plan import Effect
from danube.model.schema import CompatibilityMode

ORDER_BROKEN = '{"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}'


class CheckParams(DefinitionParams):
    """A definition, and the mode to judge it by."""

    mode: ModeWord | None = Field(default=None, description="The mode; the subject's own without it.")


class CheckResult(Result):
    """A verdict on a definition."""

    subject: str = Field(description="The subject.")
    is_compatible: bool = Field(description="Whether it could be the next version.")
    mode: CompatibilityMode = Field(description="The mode that it was judged by.")
    compared: list[int] = Field(description="Versions that it was compared with.")
    same_as: Annotated[int | None, WIDE] = Field(description="The version that has this very definition.")
    differences: list[DifferenceView] = Field(description="Every difference, those that break something first.")


class ExplainParams(Params):
    """Two versions of a subject, or a definition and the version that it would follow on."""

    subject: SubjectText = Field(description="The subject.")
    version: Version | None = Field(default=None, description="The later version; or give a definition.")
    definition: str | None = Field(
        default=None,
        max_length=SCHEMA_BYTES_MAX,
        description="A definition that is not registered; on the command line `@FILE` reads it from a file.",
    )
    schema_type: TypeWord | None = Field(default=None, description="The language of the definition; as it was without.")
    against: Version | None = Field(
        default=None, description="The earlier version; the one before `version`, or the latest, without it."
    )

    @model_validator(mode="after")
    def _names_one(self) -> Self:
        if (self.version is None) == (self.definition is None):
            raise ValueError("give a version or a definition, one of the two")
        return self


class Explanation(Result):
    """A change of a schema, explained."""

    subject: str = Field(description="The subject.")
    before: int = Field(description="The earlier version.")
    after: int | None = Field(description="The later version; null for a definition that is not registered.")
    mode: CompatibilityMode = Field(description="The mode of the subject.")
    is_allowed: bool = Field(description="Whether the mode allows it.")
    verdict: str = Field(description="What it means, in a sentence.")
    who_breaks: list[str] = Field(description="Whose reading fails, a sentence each.")
    advice: list[str] = Field(description="What to do instead, a sentence each.")
    differences: list[DifferenceView] = Field(description="Every difference, those that break something first.")
    diff: list[str] = Field(description="The two definitions line by line: `-` is gone, `+` is new.")


async def _check(call: Call, params: CheckParams) -> CheckResult:
    wanted = CheckVersion(
        subject=params.subject,
        type=params.schema_type,
        definition=params.definition.encode(),
        mode=params.mode,
        references=params.imports(),
        as_confluent=params.as_confluent,
    )
    found = await call.gateway.check_version(wanted)
    return CheckResult.of(
        found,
        subject=params.subject,
        compared=list(found.compared),
        same_as=found.same_as or None,
        differences=_views(found),
    )


async def _explain(call: Call, params: ExplainParams) -> Explanation:
    before, after = await _two(call, params)
    kind = params.schema_type or (after or before).type
    text = (params.definition or "") if after is None else after.definition.decode(errors="replace")
    wanted = CheckVersion(
        subject=params.subject,
        type=kind,
        definition=text.encode(),
        references=after.references if after else before.references,
        against_version=before.version,
        as_confluent=(after or before).as_confluent,
    )
    found = await call.gateway.check_version(wanted)
    return explanation(params.subject, before, text, found, after.version if after else None)


async def _two(call: Call, params: ExplainParams) -> tuple[VersionDescription, VersionDescription | None]:
    """The earlier version, and the later one where that is registered."""
    gateway, subject = call.gateway, params.subject
    after = await gateway.find_version(FindVersion(subject=subject, version=params.version)) if params.version else None
    against = params.against
    if against is None and after is not None:
        versions = [one.version for one in await gateway.schema_versions(subject) if one.version < after.version]
        against = versions[-1] if versions else after.version
    return await gateway.find_version(FindVersion(subject=subject, version=against or 0)), after


def explanation(
    subject: str, before: VersionDescription, text: str, found: CheckedVersion, after: int | None
) -> Explanation:
    """A change in words."""
    backward = [one for one in found.differences if one.breaks_backward]
    forward = [one for one in found.differences if one.breaks_forward]
    who = []
    if backward:
        who.append(f"Consumers with the new definition fail on messages of version {before.version}.")
    if forward:
        who.append(f"Consumers with version {before.version} fail on messages of the new definition.")
    lines = unified_diff(
        pretty(before.definition.decode(errors="replace")).splitlines(),
        pretty(text).splitlines(),
        f"version {before.version}",
        "new" if after is None else f"version {after}",
        lineterm="",
    )
    return Explanation(
        subject=subject,
        before=before.version,
        after=after,
        mode=found.mode,
        is_allowed=found.is_compatible,
        verdict=_verdict(found, backward=bool(backward), forward=bool(forward)),
        who_breaks=who,
        advice=_advice(found, backward=bool(backward), forward=bool(forward)),
        differences=_views(found),
        diff=list(lines)[:SCHEMA_DIFF_LINES_MAX],
    )


def _verdict(found: CheckedVersion, *, backward: bool, forward: bool) -> str:
    if not found.differences:
        return "Nothing differs that readers or writers would notice."
    words = {
        (False, False): "Every reader of either version reads what the other writes.",
        (True, False): "Old messages cannot be read with the new definition.",
        (False, True): "New messages cannot be read with the old definition.",
        (True, True): "Neither version reads what the other writes.",
    }[backward, forward]
    allowed = "allows it" if found.is_compatible else "refuses it"
    return f"{words} The mode {found.mode.value} {allowed}."


def _advice(found: CheckedVersion, *, backward: bool, forward: bool) -> list[str]:
    remedies = dict.fromkeys(
        f"{one.path or 'schema'}: {one.suggestion}." for one in found.differences if one.breaks and one.suggestion
    )
    order = []
    if backward and not forward:
        order.append("If you go on: update producers first, and consumers once old messages are read.")
    if forward and not backward:
        order.append("If you go on: update all consumers before the first producer.")
    if backward and forward:
        order.append("If you go on: publish to a topic and a subject of its own, and move consumers over.")
    return [*remedies, *order]


def _views(found: CheckedVersion) -> list[DifferenceView]:
    ordered = sorted(found.differences, key=lambda one: (not one.breaks, -one.version, one.path, one.kind))
    return [difference_view(one) for one in ordered]


CHECK = Operation(
    name="check_schema_compatibility",
    words=("schemas", "check"),
    summary="Tell whether a definition could be the next version, and what is in the way.",
    description="Nothing is registered.",
    effect=Effect.READ,
    params=CheckParams,
    result=CheckResult,
    run=_check,
    positional=("subject",),
    examples=(
        Example("An optional property more", {"subject": ORDERS, "schema_type": "json_schema", "definition": ORDER_3}),
        Example("Another type", {"subject": ORDERS, "schema_type": "json_schema", "definition": ORDER_BROKEN}),
    ),
)

EXPLAIN = Operation(
    name="explain_schema_change",
    words=("schemas", "explain"),
    summary="Explain a change of a schema: what differs, what breaks for whom, and what to do instead.",
    description="Between two versions, or a version and a definition that is not registered.",
    effect=Effect.READ,
    params=ExplainParams,
    result=Explanation,
    run=_explain,
    positional=("subject",),
    toolset=TOOLSET,
    examples=(
        Example("The second version", {"subject": ORDERS, "version": 2}),
        Example("A change that breaks readers", {"subject": ORDERS, "definition": ORDER_BROKEN}),
    ),
)

OPERATIONS = (CHECK, EXPLAIN)
