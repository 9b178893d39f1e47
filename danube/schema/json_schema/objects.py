"""Differences in what JSON Schemas say of objects: properties, who may add others, which ones are required."""

from typing import Any, Final

from danube.schema.differences import Difference
from danube.schema.extra import library
from danube.schema.json_schema.atoms import NOTHING, Atom, Conjunction, atoms, types
from danube.schema.json_schema.document import JsonDocument, compile_schema
from danube.schema.json_schema.keywords import DIALECT_2020, escaped
from danube.schema.json_schema.pairs import Found, Pairs
from danube.schema.json_schema.values import compare_limits

_TOUCHED_BY_DEFAULTS: Final = [
    "maxProperties",
    "dependentRequired",
    "dependentSchemas",
    "not",
    "if",
    "anyOf",
    "oneOf",
    "unevaluatedProperties",
    "propertyNames",
    "patternProperties",
]
"""Keywords that can refuse an object for a property that its reader filled in."""


def compare_objects(comparison: Pairs, old: Atom, new: Atom, path: str) -> Found:
    """Differences in the properties of objects."""
    if "object" not in types(old) & types(new):
        return []
    found: Found = []
    for name in dict.fromkeys([*old.get("properties", {}), *new.get("properties", {})]):
        found += _compare_property(comparison, old, new, name, f"{path}/properties/{escaped(name)}")
    found += _compare_required(comparison, old, new, path)
    found += _compare_patterns(comparison, old, new, path)
    found += _compare_others(comparison, old, new, f"{path}/additionalProperties")
    found += compare_limits(old, new, path, "Properties")
    found += _compare_dependencies(comparison, old, new, path)
    return found + _compare_names(comparison, old, new, f"{path}/propertyNames")


def _compare_property(comparison: Pairs, old: Atom, new: Atom, name: str, place: str) -> Found:
    one, two = _said_of(old, name), _said_of(new, name)
    is_old, is_new = (name in atom.get("properties", {}) for atom in (old, new))
    if is_old and is_new:
        return comparison.compare(one, two, place)
    model = atoms(comparison.old, one) if is_new else atoms(comparison.new, two)
    verb = "added_to" if is_new else "removed_from"
    if comparison.fits(one, two) is None:
        return []
    if not model or NOTHING in model:
        described = (two if is_new else one)[0]
        kind = f"property_{verb}_{'closed' if model else 'open'}_content_model"
        return [Difference(kind, place, *_words(described, is_new=is_new))]
    return [
        Difference(f"property_{verb}_partially_open_content_model", place),
        *comparison.compare(one, two, place),
    ]


def _words(described: Any, *, is_new: bool) -> tuple[str, str]:  # noqa: ANN401 - a schema
    named = described.get("type", "any type") if isinstance(described, dict) else "any type"
    word = named if isinstance(named, str) else ", ".join(named)
    return ("", word) if is_new else (word, "")


def _said_of(atom: Atom, name: str) -> Conjunction:
    """Schemas that a property of this name has to follow."""
    found = [atom["properties"][name]] if name in atom.get("properties", {}) else []
    found += [schema for pattern, schema in atom.get("patternProperties", {}).items() if _matches(pattern, name)]
    return tuple(found) if found else (atom.get("additionalProperties", True),)


def _matches(pattern: str, name: str) -> bool:
    """By the bounded engine that checks payloads, too."""
    library("jsonschema_rs", "JSON Schema")
    return bool(compile_schema({"pattern": pattern}, DIALECT_2020, {}).is_valid(name))


def _compare_required(comparison: Pairs, old: Atom, new: Atom, path: str) -> Found:
    before, after = old.get("required", []), new.get("required", [])
    found = []
    for name in sorted({*after} - {*before}):
        default = "_with_default" if _has_default(comparison, comparison.new, new, name) else ""
        known = name in old.get("properties", {})
        kind = f"property{default}_became_required" if known else f"required_property{default}_added"
        found.append(Difference(kind, f"{path}/properties/{escaped(name)}", "optional", "required"))
    for name in sorted({*before} - {*after}):
        default = "_with_default" if _has_default(comparison, comparison.old, old, name) else ""
        known = name in new.get("properties", {})
        kind = f"property{default}_became_optional" if known else f"required_property{default}_removed"
        found.append(Difference(kind, f"{path}/properties/{escaped(name)}", "required", "optional"))
    return found


def _has_default(comparison: Pairs, document: JsonDocument, reader: Atom, name: str) -> bool:
    """True if the reader fills in the property, and nothing beside it could refuse the object for that."""
    schema = reader.get("properties", {}).get(name)
    if comparison.exact or any(key in reader for key in _TOUCHED_BY_DEFAULTS):
        return False
    while isinstance(schema, dict):
        if "default" in schema:
            return True
        schema = document.references.target(schema)
    return False


def _compare_patterns(comparison: Pairs, old: Atom, new: Atom, path: str) -> Found:
    before, after = old.get("patternProperties", {}), new.get("patternProperties", {})
    found = []
    for pattern in before.keys() & after.keys():
        place = f"{path}/patternProperties/{escaped(pattern)}"
        found += comparison.compare((before[pattern],), (after[pattern],), place)
    changes = (("added", after.keys() - before.keys(), old), ("removed", before.keys() - after.keys(), new))
    for word, patterns, other in changes:
        document = comparison.old if other is old else comparison.new
        model = atoms(document, (other.get("additionalProperties", True),))
        for pattern in sorted(patterns):
            if NOTHING in model and not other.get("patternProperties"):
                kind = f"pattern_property_{word}_{'to' if word == 'added' else 'from'}_closed_content_model"
            else:
                kind = f"pattern_property_{word}" if not model else "pattern_property_changed"
            found.append(Difference(kind, f"{path}/patternProperties/{escaped(pattern)}"))
    return found


def _compare_others(comparison: Pairs, old: Atom, new: Atom, place: str) -> Found:
    one, two = old.get("additionalProperties", True), new.get("additionalProperties", True)
    closed = [NOTHING in atoms(document, (side,)) for document, side in ((comparison.old, one), (comparison.new, two))]
    if closed[0] != closed[1]:
        return [Difference("content_model_closed" if closed[1] else "content_model_opened", place)]
    return comparison.compare((one,), (two,), place)


def _compare_dependencies(comparison: Pairs, old: Atom, new: Atom, path: str) -> Found:
    found = []
    before, after = old.get("dependentRequired", {}), new.get("dependentRequired", {})
    for name in dict.fromkeys([*before, *after]):
        place = f"{path}/dependentRequired/{escaped(name)}"
        one, two = {*before.get(name, ())}, {*after.get(name, ())}
        found += [Difference("dependency_added", place, after=each) for each in sorted(two - one)]
        found += [Difference("dependency_removed", place, before=each) for each in sorted(one - two)]
    schemas, others = old.get("dependentSchemas", {}), new.get("dependentSchemas", {})
    for name in dict.fromkeys([*schemas, *others]):
        place = f"{path}/dependentSchemas/{escaped(name)}"
        if name not in schemas or name not in others:
            found.append(Difference("dependency_added" if name in others else "dependency_removed", place))
            continue
        with comparison.matching():
            found += comparison.compare((schemas[name],), (others[name],), place)
    return found


def _compare_names(comparison: Pairs, old: Atom, new: Atom, place: str) -> Found:
    if "propertyNames" in old and "propertyNames" in new:
        return comparison.compare((old["propertyNames"],), (new["propertyNames"],), place)
    if "propertyNames" in old or "propertyNames" in new:
        return [Difference("property_names_added" if "propertyNames" in new else "property_names_removed", place)]
    return []
