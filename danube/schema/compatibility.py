"""Compatibility of a new version with earlier ones: differences, found by the formats, judged by tables of rules."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from danube.model.schema import CompatibilityMode, JsonPolicy
from danube.schema.avro.comparison import AvroComparison
from danube.schema.avro.rules import RULES as AVRO_RULES
from danube.schema.avro.types import AvroDocument
from danube.schema.differences import BOTH, NEITHER, Difference, Direction, Rule, Rules
from danube.schema.json_schema.comparison import Comparison
from danube.schema.json_schema.document import JsonDocument
from danube.schema.json_schema.rules import RULES as JSON_RULES
from danube.schema.parsed import ParsedSchema
from danube.schema.protobuf.comparison import ProtobufComparison
from danube.schema.protobuf.document import ProtobufDocument
from danube.schema.protobuf.rules import RULES as PROTOBUF_RULES

_BACKWARD: Final = frozenset({Direction.BACKWARD})
_FORWARD: Final = frozenset({Direction.FORWARD})
DIRECTIONS: Final = {
    CompatibilityMode.NONE: NEITHER,
    CompatibilityMode.BACKWARD: _BACKWARD,
    CompatibilityMode.FORWARD: _FORWARD,
    CompatibilityMode.FULL: BOTH,
    CompatibilityMode.BACKWARD_TRANSITIVE: _BACKWARD,
    CompatibilityMode.FORWARD_TRANSITIVE: _FORWARD,
    CompatibilityMode.FULL_TRANSITIVE: BOTH,
}
"""Directions that a mode asks for."""
TRANSITIVE: Final = frozenset(
    {
        CompatibilityMode.BACKWARD_TRANSITIVE,
        CompatibilityMode.FORWARD_TRANSITIVE,
        CompatibilityMode.FULL_TRANSITIVE,
    }
)
"""Modes that ask it of all earlier versions; the others ask it of the latest one."""
OF_ALL_FORMATS: Final[Rules] = {
    "format_replaced": Rule(
        NEITHER, "the format of the subject differs", "register the new format under a new subject"
    ),
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One difference from one version, with its judgement."""

    version: int
    difference: Difference
    broken: frozenset[Direction]
    """Directions that the mode asks for, and that this difference breaks; none for a compatible difference."""
    says: str
    remedy: str
    """Smallest change that makes it compatible; empty where nothing is broken."""

    def sentence(self) -> str:
        """The finding for people."""
        difference = self.difference
        change = " -> ".join(words or "nothing" for words in (difference.before, difference.after))
        shown = f" ({change})" if difference.before or difference.after else ""
        breaks = "".join(f", not {direction.value} compatible" for direction in Direction if direction in self.broken)
        remedy = f": {self.remedy}" if self.remedy else ""
        place = f"{difference.path or 'schema'}: {self.says}{shown} [{difference.kind}]"
        return f"{place}{breaks} with version {self.version}{remedy}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Answer to one question for compatibility."""

    mode: CompatibilityMode
    findings: tuple[Finding, ...]
    """Every difference from every version that the mode looks at, broken or not."""

    @property
    def is_compatible(self) -> bool:
        """True if nothing is broken."""
        return not self.conflicts

    @property
    def conflicts(self) -> tuple[Finding, ...]:
        """Findings that break what the mode asks for."""
        return tuple(finding for finding in self.findings if finding.broken)


def differences(old: ParsedSchema, new: ParsedSchema) -> tuple[Difference, ...]:
    """Everything that differs, without a judgement; nothing for equal fingerprints."""
    if old.kind is not new.kind:
        return (Difference("format_replaced", "", old.kind.value, new.kind.value),)
    if old.fingerprint == new.fingerprint:
        return ()
    match old.document, new.document:
        case JsonDocument() as one, JsonDocument() as two:
            return tuple(Comparison(one, two).run())
        case AvroDocument() as one, AvroDocument() as two:
            return tuple(AvroComparison(one, two).run())
        case ProtobufDocument() as one, ProtobufDocument() as two:
            return tuple(ProtobufComparison(one, two).run())
    return ()


def rules_of(parsed: ParsedSchema, json_policy: JsonPolicy = JsonPolicy.STRICT) -> Rules:
    """Table that judges differences of this format."""
    match parsed.document:
        case JsonDocument():
            return {**OF_ALL_FORMATS, **JSON_RULES[json_policy]}
        case AvroDocument():
            return {**OF_ALL_FORMATS, **AVRO_RULES}
        case ProtobufDocument():
            return {**OF_ALL_FORMATS, **PROTOBUF_RULES}
    return OF_ALL_FORMATS


def check(
    mode: CompatibilityMode,
    new: ParsedSchema,
    earlier: Iterable[tuple[int, ParsedSchema]],
    *,
    json_policy: JsonPolicy = JsonPolicy.STRICT,
) -> Verdict:
    """Judge `new` against the earlier versions of its subject, as (version, schema) in any order."""
    versions = sorted(earlier, key=lambda each: each[0])
    looked_at = versions if mode in TRANSITIVE else versions[-1:]
    rules = rules_of(new, json_policy)
    asked = DIRECTIONS[mode]
    if not asked:
        return Verdict(mode, ())
    findings = [
        _judged(version, difference, rules[difference.kind], asked)
        for version, old in reversed(looked_at)
        for difference in differences(old, new)
    ]
    return Verdict(mode, tuple(findings))


def _judged(version: int, difference: Difference, rule: Rule, asked: frozenset[Direction]) -> Finding:
    broken = asked - rule.compatible
    return Finding(version, difference, broken, rule.says, rule.remedy if broken else "")
