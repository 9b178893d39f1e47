"""Differences in exclusions, conditions and dynamic references of JSON Schemas."""

from typing import TYPE_CHECKING

from danube.schema.differences import Difference, Direction
from danube.schema.json_schema.atoms import Atom
from danube.schema.json_schema.document import JsonDocument
from danube.schema.json_schema.keywords import DYNAMIC

if TYPE_CHECKING:
    from danube.schema.json_schema.comparison import Comparison

Found = list[Difference]


def compare_conditions(comparison: "Comparison", old: Atom, new: Atom, path: str) -> Found:
    """Differences in `not`, `if`, and what cannot be compared by its parts."""
    found = _compare_exclusion(comparison, old, new, f"{path}/not")
    found += _compare_condition(comparison, old, new, path)
    if any(key in atom for key in DYNAMIC for atom in (old, new)) and not _same(comparison, old, new):
        found.append(Difference("dynamic_reference_changed", path))
    unevaluated = ("unevaluatedProperties", "unevaluatedItems")
    if any(key in atom for key in unevaluated for atom in (old, new)) and not _same(comparison, old, new):
        found.append(Difference("unevaluated_changed", path))
    return found


def _compare_exclusion(comparison: "Comparison", old: Atom, new: Atom, path: str) -> Found:
    if "not" not in old and "not" not in new:
        return []
    fitting = comparison.fits((old.get("not", False),), (new.get("not", False),))
    if fitting is None:
        return []
    if Direction.BACKWARD in fitting:
        return [] if Direction.FORWARD in fitting else [Difference("not_extended", path)]
    return [Difference("not_narrowed" if Direction.FORWARD in fitting else "not_changed", path)]


def _compare_condition(comparison: "Comparison", old: Atom, new: Atom, path: str) -> Found:
    if "if" not in old and "if" not in new:
        return []
    if "if" not in old or "if" not in new:
        return [Difference("condition_added" if "if" in new else "condition_removed", f"{path}/if")]
    if comparison.fits((old["if"],), (new["if"],)) is not None:
        return [Difference("condition_changed", f"{path}/if")]
    found: Found = []
    with comparison.matching():
        for key in ("then", "else"):
            found += comparison.compare((old.get(key, True),), (new.get(key, True),), f"{path}/{key}")
    return found


def _same(comparison: "Comparison", old: Atom, new: Atom) -> bool:
    """True if the parts are equal, and all that they could refer to is."""
    return old == new and _everything(comparison.old) == _everything(comparison.new)


def _everything(document: JsonDocument) -> object:
    return document.root, document.references.used
