"""Explanation of a change of a schema for people: what differs, what breaks for whom, what to do instead."""

import difflib
import json
from collections.abc import Iterable
from dataclasses import dataclass

from danube.model.limits.schema import SCHEMA_DIFFERENCES_MAX
from danube.model.schema import CompatibilityMode, JsonPolicy
from danube.model.untrusted_json import decode_json
from danube.schema.compatibility import Finding, check
from danube.schema.differences import Direction
from danube.schema.parsed import ParsedSchema


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """One new version against earlier ones, in all directions."""

    findings: tuple[Finding, ...]
    breaks_new_readers: tuple[Finding, ...]
    """Consumers that take the new version first cannot read data that was written with an earlier one."""
    breaks_old_readers: tuple[Finding, ...]
    """Consumers that stay with an earlier version cannot read data that is written with the new one."""
    modes: tuple[CompatibilityMode, ...]
    """Modes under which the new version is accepted."""
    advice: tuple[str, ...]
    """Sentences, the most useful first."""


def explain(
    new: ParsedSchema, earlier: Iterable[tuple[int, ParsedSchema]], *, json_policy: JsonPolicy = JsonPolicy.STRICT
) -> SchemaChange:
    """Differences of `new` from the earlier versions, (version, schema), and their consequences."""
    versions = sorted(earlier, key=lambda each: each[0])
    findings = check(CompatibilityMode.FULL_TRANSITIVE, new, versions, json_policy=json_policy).findings
    accepted = tuple(
        mode for mode in CompatibilityMode if check(mode, new, versions, json_policy=json_policy).is_compatible
    )
    new_readers = tuple(each for each in findings if Direction.BACKWARD in each.broken)
    old_readers = tuple(each for each in findings if Direction.FORWARD in each.broken)
    return SchemaChange(findings, new_readers, old_readers, accepted, _advice(new_readers, old_readers))


def _advice(new_readers: tuple[Finding, ...], old_readers: tuple[Finding, ...]) -> tuple[str, ...]:
    if not new_readers and not old_readers:
        return ("Producers and consumers may take the new version in any order.",)
    remedies = dict.fromkeys(
        f"{each.difference.path or 'schema'}: {each.remedy}." for each in (*new_readers, *old_readers) if each.remedy
    )
    if not new_readers:
        order = "Let all consumers take the new version before the first producer does."
    elif not old_readers:
        order = "Let all producers take the new version first, and consumers once no older data is left to be read."
    else:
        order = "No order of deployment is safe: change the definition, or publish to a new topic with a new subject."
    return (*remedies, order)


def text_difference(old: ParsedSchema, new: ParsedSchema) -> str:
    """Unified diff of two versions that a person can read: JSON indented with sorted keys, other text as it is."""
    lines = difflib.unified_diff(_lines(old), _lines(new), "earlier", "new", lineterm="")
    return "\n".join(list(lines)[:SCHEMA_DIFFERENCES_MAX])


def _lines(parsed: ParsedSchema) -> list[str]:
    try:
        return json.dumps(decode_json(parsed.text), indent=2, sort_keys=True, ensure_ascii=False).splitlines()
    except ValueError:
        return parsed.text.splitlines()
