"""Differences between two JSON Schemas: a walk over both at once, which judges by no policy.

Where parts have to be matched (alternatives, parts of `allOf`), a match is what each document of the one part keeps
valid for the other, by the strict rules and without regard to defaults.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from danube.model.limits.schema import SCHEMA_COMPARISONS_MAX, SCHEMA_DIFFERENCES_MAX
from danube.schema.differences import Difference, Direction, directions
from danube.schema.json_schema.alternatives import SUMS, Sum, are_apart, lifted
from danube.schema.json_schema.arrays import compare_arrays
from danube.schema.json_schema.atoms import NOTHING, Atom, Conjunction, atoms
from danube.schema.json_schema.conditions import compare_conditions
from danube.schema.json_schema.document import JsonDocument
from danube.schema.json_schema.keywords import ANNOTATIONS, DIALECT_7, Schema
from danube.schema.json_schema.objects import compare_objects
from danube.schema.json_schema.rules import STRICT
from danube.schema.json_schema.values import compare_values

Found = list[Difference]


class TooComplexError(Exception):
    """The comparison has reached its bound."""


class Comparison:
    """One comparison of two definitions."""

    def __init__(self, old: JsonDocument, new: JsonDocument) -> None:
        self.old = old
        self.new = new
        self.exact = 0
        """Above 0 inside parts that are matched, where readers fill in no defaults."""
        self._equal_means_same = old.references.are_none and new.references.are_none and old.dialect == new.dialect
        self._steps = 0
        self._reported: set[tuple[tuple[int, ...], tuple[int, ...]]] = set()
        """Pairs whose differences are in the answer already."""
        self._under_way: set[tuple[tuple[int, ...], tuple[int, ...]]] = set()

    def run(self) -> Found:
        """All differences."""
        try:
            return self.compare((self.old.root,), (self.new.root,), "#")[:SCHEMA_DIFFERENCES_MAX]
        except (TooComplexError, RecursionError):
            return [Difference("too_complex", "#")]

    def compare(self, old: Conjunction, new: Conjunction, path: str) -> Found:
        """Differences of two conjunctions. A pair that is being compared further up has none here."""
        old = tuple(_meant(self.old, schema) for schema in old)
        new = tuple(_meant(self.new, schema) for schema in new)
        key = tuple(map(id, old)), tuple(map(id, new))
        if (
            key in self._under_way
            or (not self.exact and key in self._reported)
            or (self._equal_means_same and repr(old) == repr(new))
        ):
            return []
        self._steps += 1
        if self._steps > SCHEMA_COMPARISONS_MAX:
            raise TooComplexError
        self._under_way.add(key)
        try:
            found = self._compare_atoms(atoms(self.old, old), atoms(self.new, new), path)
        finally:
            self._under_way.discard(key)
        if not self.exact:
            self._reported.add(key)
        return found

    def fits(self, old: Conjunction, new: Conjunction) -> frozenset[Direction] | None:
        """Directions in which each document stays valid, without regard to defaults; None without any difference."""
        with self.matching():
            found = self.compare(old, new, "")
        return directions(found, STRICT) if found else None

    @contextmanager
    def matching(self) -> Iterator[None]:
        """Block in which defaults do not count."""
        self.exact += 1
        try:
            yield
        finally:
            self.exact -= 1

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


def _meant(document: JsonDocument, schema: Schema) -> Schema:
    """The schema itself, or the target of one that is nothing but a reference."""
    while isinstance(schema, dict) and "$ref" in schema:
        target = document.references.target(schema)
        if target is None or (document.dialect != DIALECT_7 and schema.keys() - ANNOTATIONS != {"$ref"}):
            break
        schema = target
    return schema
