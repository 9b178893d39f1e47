"""Alternatives of a JSON Schema: the branches of `anyOf` and `oneOf`, or the types of a list of them."""

from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final

from danube.schema.json_schema.atoms import NOTHING, Atom, atoms, conjoined, types, values
from danube.schema.json_schema.document import JsonDocument

SUMS: Final = ("anyOf", "oneOf")


@dataclass(frozen=True, slots=True)
class Sum:
    """Alternatives, each as its atoms."""

    key: str
    """`anyOf`, `oneOf`, or nothing."""
    alternatives: list[list[Atom]]


def lifted(document: JsonDocument, atom: Atom) -> Sum:
    """Alternatives that mean the same as the atom, with all that stands beside them inside."""
    for key in SUMS:
        if key in atom:
            rest = {name: value for name, value in atom.items() if name != key}
            return Sum(key, [conjoined(rest, atoms(document, (branch,))) for branch in atom[key]])
    if isinstance(named := atom.get("type"), list):
        return Sum("", [[{**atom, "type": each}] for each in named])
    return Sum("", [[atom] if atom else []])


def are_apart(document: JsonDocument, alternatives: list[list[Atom]]) -> bool:
    """True if it is certain that no value matches two of the alternatives."""
    return all(
        NOTHING in one or NOTHING in two or any(_apart(document, a, b) for a in one for b in two)
        for one, two in combinations(alternatives, 2)
    )


def _apart(document: JsonDocument, one: Atom, two: Atom) -> bool:
    shared = types(one) & types(two)
    if not shared:
        return True
    listed = values(one), values(two)
    if listed[0] is not None and listed[1] is not None:
        return not listed[0] & listed[1]
    return shared == {"object"} and any(
        _apart(document, a, b)
        for name in _required(one) & _required(two)
        for a in _property(document, one, name)
        for b in _property(document, two, name)
    )


def _required(atom: Atom) -> set[str]:
    return {*atom.get("required", ())}


def _property(document: JsonDocument, atom: Atom, name: str) -> list[dict[str, Any]]:
    schema = atom.get("properties", {}).get(name)
    return atoms(document, (schema,)) if schema is not None else []
