"""Pairs of schemas that are compared: each once, within a bound, as far as two documents refer to themselves."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager

from danube.model.limits.schema import SCHEMA_COMPARISONS_MAX
from danube.schema.differences import Difference, Direction, directions
from danube.schema.json_schema.atoms import Atom, Conjunction, atoms
from danube.schema.json_schema.document import JsonDocument
from danube.schema.json_schema.keywords import ANNOTATIONS, DIALECT_7, Schema
from danube.schema.json_schema.rules import STRICT

Found = list[Difference]


class TooComplexError(Exception):
    """The comparison has reached its bound."""


class Pairs(ABC):
    """Pairs of one comparison of two definitions."""

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

    @abstractmethod
    def _compare_atoms(self, old: list[Atom], new: list[Atom], path: str) -> Found:
        """Differences of two conjunctions without references."""


def _meant(document: JsonDocument, schema: Schema) -> Schema:
    """The schema itself, or the target of one that is nothing but a reference."""
    while isinstance(schema, dict) and "$ref" in schema:
        target = document.references.target(schema)
        if target is None or (document.dialect != DIALECT_7 and schema.keys() - ANNOTATIONS != {"$ref"}):
            break
        schema = target
    return schema
