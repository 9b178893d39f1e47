"""Differences between two JSON Schemas: a walk over both at once, which judges by no policy.

Where parts have to be matched (alternatives, parts of `allOf`), a match is what each document of the one part keeps
valid for the other, by the strict rules and without regard to defaults.
"""

from danube.model.limits.schema import SCHEMA_DIFFERENCES_MAX
from danube.schema.differences import Difference, Direction, directions
from danube.schema.json_schema.alternatives import SUMS, Sum, are_apart, lifted
from danube.schema.json_schema.arrays import compare_arrays
from danube.schema.json_schema.atoms import NOTHING, Atom, atoms
from danube.schema.json_schema.document import JsonDocument
from danube.schema.json_schema.keywords import DYNAMIC
from danube.schema.json_schema.objects import compare_objects
from danube.schema.json_schema.pairs import Found, Pairs, TooComplexError
from danube.schema.json_schema.rules import STRICT
from danube.schema.json_schema.values import compare_values


class Comparison(Pairs):
    """One comparison of two definitions."""

    def run(self) -> Found:
        """All differences."""
        try:
            return self.compare((self.old.root,), (self.new.root,), "#")[:SCHEMA_DIFFERENCES_MAX]
        except (TooComplexError, RecursionError):
            return [Difference("too_complex", "#")]

    def _compare_atoms(self, old: list[Atom], new: list[Atom], path: str) -> Found:
        if NOTHING in old or NOTHING in new:
            if NOTHING in old and NOTHING in new:
                return []
            return [Difference("schema_opened" if NOTHING in old else "schema_closed", path)]
        if len(old) <= 1 and len(new) <= 1:
            return self._compare_one(old[0] if old else {}, new[0] if new else {}, path)
        with self.matching():
            if len(old) == len(new):
                pairs = [self._compare_one(one, two, path) for one, two in zip(old, new, strict=True)]
                found = [difference for pair in pairs for difference in pair]
                if directions(found, STRICT):
                    return found
            return self._match_atoms(old, new, path)

    def _match_atoms(self, old: list[Atom], new: list[Atom], path: str) -> Found:
        fits = [[directions(self._compare_one(one, two, path), STRICT) for two in new] for one in old]
        backward = all(any(Direction.BACKWARD in row[at] for row in fits) for at in range(len(new)))
        forward = all(any(Direction.FORWARD in each for each in row) for row in fits)
        if backward and forward:
            return []
        kind = "all_of_removed" if backward else "all_of_added" if forward else "all_of_changed"
        return [Difference(kind, f"{path}/allOf", f"{len(old)} parts", f"{len(new)} parts")]

    def _compare_one(self, old: Atom, new: Atom, path: str) -> Found:
        has_sum = [[key for key in SUMS if key in atom] for atom in (old, new)]
        if has_sum[0] != has_sum[1] or len(has_sum[0]) > 1:
            return self._match(lifted(self.old, old), lifted(self.new, new), path)
        found = compare_values(old, new, path)
        found += compare_arrays(self, old, new, path)
        found += compare_objects(self, old, new, path)
        found += compare_conditions(self, old, new, path)
        for key in has_sum[0]:
            found += self._compare_sum(key, old, new, path)
        return found

    def _compare_sum(self, key: str, old: Atom, new: Atom, path: str) -> Found:
        """Compare alternatives one by one if there are as many, and match them with each other if that does not fit."""
        one = Sum(key, [atoms(self.old, (branch,)) for branch in old[key]])
        two = Sum(key, [atoms(self.new, (branch,)) for branch in new[key]])
        if len(old[key]) == len(new[key]):
            with self.matching():
                found = [
                    difference
                    for index, (before, after) in enumerate(zip(old[key], new[key], strict=True))
                    for difference in self.compare((before,), (after,), f"{path}/{key}/{index}")
                ]
            fitting = directions(found, STRICT)
            if not found or (fitting and self._stay_apart(fitting, one, two)):
                return found
        return self._match(one, two, path)

    def _match(self, old: Sum, new: Sum, path: str) -> Found:
        """Match each alternative of one side with one of the other that accepts as much."""
        with self.matching():
            fits = [
                [directions(self._compare_atoms(one, two, path), STRICT) for two in new.alternatives]
                for one in old.alternatives
            ]
        backward = all(any(Direction.BACKWARD in each for each in row) for row in fits)
        forward = all(any(Direction.FORWARD in row[at] for row in fits) for at in range(len(new.alternatives)))
        place = f"{path}/{new.key or old.key or SUMS[0]}"
        before, after = (f"{len(each.alternatives)} alternatives" for each in (old, new))
        reads_backward = backward and self._stay_apart(frozenset({Direction.BACKWARD}), old, new)
        reads_forward = forward and self._stay_apart(frozenset({Direction.FORWARD}), old, new)
        if reads_backward and reads_forward:
            return []
        if (backward or forward) and not (reads_backward or reads_forward):
            return [Difference("one_of_may_overlap", place, before, after)]
        kind = "any_of_extended" if reads_backward else "any_of_narrowed" if reads_forward else "any_of_changed"
        return [Difference(kind, place, before, after)]

    def _stay_apart(self, wanted: frozenset[Direction], old: Sum, new: Sum) -> bool:
        """True unless a document may match two alternatives of a oneOf that reads."""
        backward = Direction.BACKWARD not in wanted or new.key != "oneOf" or are_apart(self.new, new.alternatives)
        forward = Direction.FORWARD not in wanted or old.key != "oneOf" or are_apart(self.old, old.alternatives)
        return backward and forward


def compare_conditions(comparison: Pairs, old: Atom, new: Atom, path: str) -> Found:
    """Differences in `not`, `if`, and what cannot be compared by its parts."""
    found = _compare_exclusion(comparison, old, new, f"{path}/not")
    found += _compare_condition(comparison, old, new, path)
    if any(key in atom for key in DYNAMIC for atom in (old, new)) and not _same(comparison, old, new):
        found.append(Difference("dynamic_reference_changed", path))
    unevaluated = ("unevaluatedProperties", "unevaluatedItems")
    if any(key in atom for key in unevaluated for atom in (old, new)) and not _same(comparison, old, new):
        found.append(Difference("unevaluated_changed", path))
    return found


def _compare_exclusion(comparison: Pairs, old: Atom, new: Atom, path: str) -> Found:
    if "not" not in old and "not" not in new:
        return []
    fitting = comparison.fits((old.get("not", False),), (new.get("not", False),))
    if fitting is None:
        return []
    if Direction.BACKWARD in fitting:
        return [] if Direction.FORWARD in fitting else [Difference("not_extended", path)]
    return [Difference("not_narrowed" if Direction.FORWARD in fitting else "not_changed", path)]


def _compare_condition(comparison: Pairs, old: Atom, new: Atom, path: str) -> Found:
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


def _same(comparison: Pairs, old: Atom, new: Atom) -> bool:
    """True if the parts are equal, and all that they could refer to is."""
    return old == new and _everything(comparison.old) == _everything(comparison.new)


def _everything(document: JsonDocument) -> object:
    return document.root, document.references.used
