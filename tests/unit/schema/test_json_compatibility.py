"""Verdicts on pairs of JSON Schemas, by hand-written tables."""

import json
from typing import Any

import pytest

from danube.model.schema import CompatibilityMode, JsonPolicy, SchemaType
from danube.schema.compatibility import check, differences
from danube.schema.differences import Direction, directions
from danube.schema.formats import parse
from danube.schema.json_schema.rules import RULES
from danube.schema.parsed import ParsedSchema
from tests.unit.schema.json_cases import JSON_CASES, OPTIONAL_CASES, optional_pair

DRAFT_7 = "http://json-schema.org/draft-07/schema#"


def parsed(schema: Any) -> ParsedSchema:
    return parse(SchemaType.JSON_SCHEMA, json.dumps(schema))


def judged(old: Any, new: Any, policy: JsonPolicy = JsonPolicy.STRICT) -> tuple[str, set[str]]:
    """Compatible directions as letters, and the kinds of differences."""
    found = differences(parsed(old), parsed(new))
    fitting = directions(found, RULES[policy])
    letters = "".join(each.value[0].upper() for each in Direction if each in fitting)
    return letters, {difference.kind for difference in found}


def test_each_pair_of_the_table_is_judged_as_the_specification_says() -> None:
    assert len(JSON_CASES) >= 60
    wrong = [
        f"{name}: {got} and not {(verdict, kinds)}"
        for name, old, new, verdict, kinds in JSON_CASES
        if (got := judged(old, new)) != (verdict, kinds)
    ]
    assert wrong == []


def test_each_pair_is_judged_the_other_way_round_when_exchanged() -> None:
    wrong = [
        f"{name}: {got}, exchanged from {verdict}"
        for name, old, new, verdict, _ in JSON_CASES
        if {*(got := judged(new, old)[0])} != {{"B": "F", "F": "B"}[letter] for letter in verdict}
    ]
    assert wrong == []


@pytest.mark.parametrize("policy", list(JsonPolicy))
def test_optional_properties_come_and_go_as_the_policy_says(policy: JsonPolicy) -> None:
    wrong = []
    for model, change, of, strict, friendly in OPTIONAL_CASES:
        verdict = strict if policy is JsonPolicy.STRICT else friendly
        if policy in {JsonPolicy.CAUTIOUS, JsonPolicy.ORIGINAL} and of == "required":
            verdict = ""
        if (got := judged(*optional_pair(model, change, of), policy)[0]) != verdict:
            wrong.append(f"{model} {change} {of}: {got!r} and not {verdict!r}")
    assert wrong == []


def test_both_policies_have_a_rule_for_each_kind() -> None:
    assert RULES[JsonPolicy.STRICT].keys() == RULES[JsonPolicy.OPTIONAL_FRIENDLY].keys()
    for rules in RULES.values():
        assert [kind for kind, rule in rules.items() if len(rule.compatible) < 2 and not rule.remedy] == []


def test_draft_7_ignores_what_stands_beside_a_reference() -> None:
    old = {"$schema": DRAFT_7, "$ref": "#/definitions/a", "definitions": {"a": {"type": "string"}}}
    assert judged(old, {**old, "maxLength": 3}) == ("BF", set())
    assert (
        judged(old, {"$schema": DRAFT_7, "allOf": [old], "definitions": old["definitions"], "maxLength": 3})[0] == "F"
    )


def test_items_of_draft_7_equal_prefix_items_of_2020() -> None:
    old = {"$schema": DRAFT_7, "items": [{"type": "string"}], "additionalItems": False}
    assert judged(old, {"prefixItems": [{"type": "string"}], "items": False}) == ("BF", set())


def test_transitive_modes_look_at_every_version_and_others_at_the_latest() -> None:
    versions = [(1, parsed({"type": "string"})), (2, parsed({"type": ["string", "null"]}))]
    new = parsed({"type": ["string", "null", "integer"]})
    narrow = parsed({"type": "string"})
    assert check(CompatibilityMode.BACKWARD_TRANSITIVE, new, versions).is_compatible
    assert check(CompatibilityMode.FORWARD, narrow, versions).is_compatible
    verdict = check(CompatibilityMode.FULL_TRANSITIVE, new, versions)
    assert [finding.version for finding in verdict.conflicts] == [2, 1]
    assert not check(CompatibilityMode.BACKWARD, narrow, versions).is_compatible
    assert check(CompatibilityMode.NONE, parsed({"type": "array"}), versions).findings == ()


def test_a_conflict_names_kind_place_version_and_the_smallest_change() -> None:
    old = parsed({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": False})
    new = parsed(
        {
            "type": "object",
            "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
            "required": ["b"],
            "additionalProperties": False,
        }
    )
    (conflict,) = check(CompatibilityMode.BACKWARD, new, [(7, old)]).conflicts
    assert conflict.difference.kind == "required_property_added"
    assert conflict.difference.path == "#/properties/b"
    assert conflict.version == 7
    assert conflict.remedy == "give it a default, or leave it optional"
    assert "not backward compatible with version 7" in conflict.sentence()


def test_a_comparison_that_would_take_too_long_ends_as_incompatible() -> None:
    def nested(word: str, depth: int = 5) -> dict[str, Any]:
        levels: dict[str, Any] = {f"n{depth}": {"type": word}}
        for level in range(depth):
            below = {"$ref": f"#/$defs/n{level + 1}"}
            levels[f"n{level}"] = {"anyOf": [{"properties": {"a": below, f"x{index}": {}}} for index in range(3)]}
        return {"$ref": "#/$defs/n0", "$defs": levels}

    assert judged(nested("string"), nested("integer")) == ("", {"too_complex"})
