"""Differences between two Avro definitions: a walk over both graphs at once, which judges by no policy."""

from typing import Final

from danube.model.limits.schema import SCHEMA_COMPARISONS_MAX, SCHEMA_DIFFERENCES_MAX
from danube.schema.avro.reader import branch_key
from danube.schema.avro.rules import RULES
from danube.schema.avro.types import (
    Array,
    AvroDocument,
    AvroType,
    Enumeration,
    Field,
    Fixed,
    Mapping,
    Named,
    Primitive,
    Record,
    Union,
    described,
    unqualified,
)
from danube.schema.differences import Difference, Direction, directions
from danube.schema.parsed import shown

Found = list[Difference]
_READ_AS: Final = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
}


class _TooComplexError(Exception):
    """The comparison has reached its bound."""


class AvroComparison:
    """One comparison of two definitions."""

    def __init__(self, old: AvroDocument, new: AvroDocument) -> None:
        self._old = old
        self._new = new
        self._steps = 0
        self._matching = 0
        self._reported: set[tuple[int, int]] = set()
        """Pairs whose differences are in the answer already."""
        self._under_way: set[tuple[int, int]] = set()

    def run(self) -> Found:
        """All differences."""
        try:
            root = self._new.root
            start = unqualified(root.name) if isinstance(root, Record | Enumeration | Fixed) else ""
            return self._compare(self._old.root, root, start)[:SCHEMA_DIFFERENCES_MAX]
        except (_TooComplexError, RecursionError):
            return [Difference("too_complex", "")]

    def _compare(self, old: AvroType, new: AvroType, path: str) -> Found:
        """Differences of two types. A pair that is being compared further up has none here."""
        key = id(old), id(new)
        if key in self._under_way or (not self._matching and key in self._reported):
            return []
        self._steps += 1
        if self._steps > SCHEMA_COMPARISONS_MAX:
            raise _TooComplexError
        self._under_way.add(key)
        try:
            found = self._compare_types(old, new, path)
        finally:
            self._under_way.discard(key)
        if not self._matching:
            self._reported.add(key)
        return found

    def _compare_types(self, old: AvroType, new: AvroType, path: str) -> Found:  # noqa: PLR0911 - one for each type
        match old, new:
            case (Union(), _) | (_, Union()):
                return self._compare_unions(old, new, path)
            case Array(one), Array(two):
                return self._compare(one, two, f"{path}[]")
            case Mapping(one), Mapping(two):
                return self._compare(one, two, f"{path}{{}}")
            case Record(), Record():
                return _compare_names(old, new, path) + self._compare_fields(old, new, path)
            case Enumeration(), Enumeration():
                return _compare_names(old, new, path) + _compare_symbols(old, new, path)
            case Fixed(), Fixed():
                return _compare_names(old, new, path) + _compare_fixed(old, new, path)
            case Primitive(), Primitive():
                return _compare_primitives(old, new, path)
        return [Difference("type_changed", path, described(old), described(new))]

    def _fits(self, old: AvroType, new: AvroType) -> frozenset[Direction]:
        self._matching += 1
        try:
            return directions(self._compare(old, new, ""), RULES)
        finally:
            self._matching -= 1

    def _compare_unions(self, old: AvroType, new: AvroType, path: str) -> Found:
        """Branches with one name are compared, others have to be read by some branch of the other side."""
        before = {branch_key(each): each for each in (old.branches if isinstance(old, Union) else (old,))}
        after = {branch_key(each): each for each in (new.branches if isinstance(new, Union) else (new,))}
        found: Found = []
        for key, branch in before.items():
            if key in after:
                found += self._compare(branch, after[key], f"{path}|{key}")
            else:
                covered = any(Direction.BACKWARD in self._fits(branch, each) for each in after.values())
                kind = "branch_removed_covered" if covered else "branch_removed"
                found.append(Difference(kind, path, before=described(branch)))
        for key, branch in after.items():
            if key not in before:
                covered = any(Direction.FORWARD in self._fits(each, branch) for each in before.values())
                kind = "branch_added_covered" if covered else "branch_added"
                found.append(Difference(kind, path, after=described(branch)))
        return found

    def _compare_fields(self, old: Record, new: Record, path: str) -> Found:
        before = {field.name: field for field in old.fields}
        after = {field.name: field for field in new.fields}
        found: Found = []
        for name, field in after.items():
            place = f"{path}.{name}"
            if name in before:
                found += self._compare(before[name].type, field.type, place)
                found += _compare_defaults(before[name], field, place)
                found += _ambiguous("alias_ambiguous", field, before, place)
                found += _ambiguous("earlier_alias_ambiguous", before[name], after, place)
            else:
                found.append(self._added(before, after, field, place))
        return found + [
            self._removed(field, before, after, f"{path}.{name}") for name, field in before.items() if name not in after
        ]

    def _added(self, before: dict[str, Field], after: dict[str, Field], field: Field, place: str) -> Difference:
        former = next((before[alias] for alias in field.aliases if alias in before), None)
        if former is None:
            kind = "field_added_with_default" if field.has_default else "field_added"
            return Difference(kind, place, after=described(field.type))
        if former.name in after:
            return Difference("alias_ambiguous", place, former.name, field.name)
        fits = Direction.BACKWARD in self._fits(former.type, field.type)
        kind = "field_renamed_with_alias" if fits else "field_renamed_and_changed"
        return Difference(kind, place, former.name, field.name)

    def _removed(self, field: Field, before: dict[str, Field], after: dict[str, Field], place: str) -> Difference:
        later = next((after[alias] for alias in field.aliases if alias in after), None)
        if later is None:
            kind = "field_removed_with_default" if field.has_default else "field_removed"
            return Difference(kind, place, before=described(field.type))
        if later.name in before:
            return Difference("earlier_alias_ambiguous", place, field.name, later.name)
        fits = Direction.FORWARD in self._fits(field.type, later.type)
        kind = "field_renamed_from_alias" if fits else "field_renamed_from_alias_and_changed"
        return Difference(kind, place, field.name, later.name)


def _compare_primitives(old: Primitive, new: Primitive, path: str) -> Found:
    one, two = old.word, new.word
    if one == two:
        return _compare_logical(old, new, path)
    if {one, two} == {"string", "bytes"}:
        kind = "string_bytes_changed"
    elif two in _READ_AS.get(one, ()):
        kind = "type_promoted"
    elif one in _READ_AS.get(two, ()):
        kind = "type_demoted"
    else:
        kind = "type_changed"
    return [Difference(kind, path, described(old), described(new))]


def _compare_logical(old: Primitive | Fixed, new: Primitive | Fixed, path: str) -> Found:
    if old.logical == new.logical:
        return []
    word = "added" if not old.logical else "removed" if not new.logical else "changed"
    before, after = (", ".join(str(each) for each in one.logical.values()) for one in (old, new))
    return [Difference(f"logical_type_{word}", path, before, after)]


def _compare_names(old: Named, new: Named, path: str) -> Found:
    if old.name == new.name:
        return []
    if unqualified(old.name) == unqualified(new.name):
        return [Difference("namespace_changed", path, old.name, new.name)]
    known = old.name in new.aliases, new.name in old.aliases
    kind = {
        (False, False): "name_changed",
        (True, False): "name_changed_with_alias",
        (False, True): "name_changed_to_alias",
        (True, True): "name_exchanged_with_alias",
    }[known]
    return [Difference(kind, path, old.name, new.name)]


def _compare_symbols(old: Enumeration, new: Enumeration, path: str) -> Found:
    added = "symbol_added" if old.default is None else "symbol_added_with_default"
    removed = "symbol_removed" if new.default is None else "symbol_removed_with_default"
    found = [Difference(removed, path, before=each) for each in old.symbols if each not in new.symbols]
    found += [Difference(added, path, after=each) for each in new.symbols if each not in old.symbols]
    if old.default != new.default:
        word = "added" if old.default is None else "removed" if new.default is None else "changed"
        found.append(Difference(f"default_{word}", path, old.default or "", new.default or ""))
    return found


def _compare_fixed(old: Fixed, new: Fixed, path: str) -> Found:
    if old.size != new.size:
        return [Difference("size_changed", path, str(old.size), str(new.size))]
    return _compare_logical(old, new, path)


def _ambiguous(kind: str, reader: Field, written: dict[str, Field], place: str) -> Found:
    """Java renames the writer's field to the reader's by the alias, and has the name twice then."""
    return [
        Difference(kind, place, after=alias) for alias in reader.aliases if alias in written and alias != reader.name
    ]


def _compare_defaults(old: Field, new: Field, place: str) -> Found:
    before, after = (shown(repr(each.default)) if each.has_default else "" for each in (old, new))
    if before == after:
        return []
    word = "added" if not before else "removed" if not after else "changed"
    return [Difference(f"default_{word}", place, before, after)]
