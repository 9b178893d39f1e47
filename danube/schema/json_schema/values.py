"""Differences in what a JSON Schema says of values themselves: types, lists of values, bounds, patterns."""

from fractions import Fraction
from math import ceil, floor
from typing import Any, Final

from danube.schema.differences import Difference
from danube.schema.json_schema.atoms import Atom, exact, types, values
from danube.schema.parsed import shown

Found = list[Difference]
_NUMBERS: Final = frozenset({"integer", "fraction"})


def compare_values(old: Atom, new: Atom, path: str) -> Found:
    """Differences in types and values."""
    old_types, new_types = types(old), types(new)
    found = _compare_types(old, new, path) + _compare_listed(old, new, path)
    both = old_types & new_types
    if both & _NUMBERS:
        found += _compare_numbers(old, new, path, whole="fraction" not in both)
    if "string" in both:
        found += compare_limits(old, new, path, "Length")
        found += _compare_words(old, new, path, "pattern", "pattern")
        found += _compare_words(old, new, path, "contentEncoding", "content")
        found += _compare_words(old, new, path, "contentMediaType", "content")
    if old.get("format") != new.get("format"):
        found.append(_differs("format_changed", f"{path}/format", old.get("format"), new.get("format")))
    return found


def compare_limits(old: Atom, new: Atom, path: str, of: str) -> Found:
    """Differences in a pair of limits such as minLength and maxLength."""
    low, high = f"min{of}", f"max{of}"
    lower = [(exact(atom.get(low, 0)), False) for atom in (old, new)]
    upper = [(-exact(atom[high]), False) if high in atom else None for atom in (old, new)]
    found = _compare_bound(lower[0], lower[1], ("minimum_lowered", "minimum_raised"), f"{path}/{low}")
    return found + _compare_bound(upper[0], upper[1], ("maximum_raised", "maximum_lowered"), f"{path}/{high}", -1)


def _compare_types(old: Atom, new: Atom, path: str) -> Found:
    before, after = types(old), types(new)
    if before == after or old.get("type") == new.get("type"):
        return []  # where listed values alone differ, they are compared themselves
    kind = "type_extended" if before < after else "type_narrowed" if after < before else "type_changed"
    return [_differs(kind, f"{path}/type", _words(old, before), _words(new, after))]


def _words(atom: Atom, accepted: frozenset[str]) -> str:
    named = atom.get("type")
    if isinstance(named, str):
        return named
    return (
        ", ".join(named) if named else "any type" if len(accepted) > len(_NUMBERS) + 1 else ", ".join(sorted(accepted))
    )


def _compare_listed(old: Atom, new: Atom, path: str) -> Found:
    before, after = values(old), values(new)
    if before == after:
        return []
    place = f"{path}/{'const' if 'const' in new or ('const' in old and after is None) else 'enum'}"
    words = [None if listed is None else ", ".join(sorted(listed)) for listed in (before, after)]
    if before is None or after is None:
        return [_differs("enum_added" if before is None else "enum_removed", place, *words)]
    kind = "enum_extended" if before < after else "enum_narrowed" if after < before else "enum_changed"
    return [_differs(kind, place, *words)]


Bound = tuple[Fraction, bool] | None
"""Bound of accepted numbers, and whether it is excluded itself; the higher accepts less."""


def _compare_numbers(old: Atom, new: Atom, path: str, *, whole: bool) -> Found:
    """Differences in bounds and multiples; with `whole` for whole numbers alone, of which some are said in two ways."""
    low, high = ("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")
    one, two = (_tightest(atom, *low, 1, whole=whole) for atom in (old, new))
    found = _compare_bound(one, two, ("minimum_lowered", "minimum_raised"), f"{path}/minimum")
    one, two = (_tightest(atom, *high, -1, whole=whole) for atom in (old, new))
    found += _compare_bound(one, two, ("maximum_raised", "maximum_lowered"), f"{path}/maximum", -1)
    before, after = (_multiple(atom, whole=whole) for atom in (old, new))
    return found + _compare_multiples(before, after, f"{path}/multipleOf")


def _tightest(atom: Atom, included: str, excluded: str, sign: int, *, whole: bool) -> Bound:
    """The bound that accepts least; of whole numbers it is the first one that is accepted."""
    found = [(exact(atom[key]) * sign, key == excluded) for key in (included, excluded) if key in atom]
    if whole:
        found = [(Fraction(floor(number) + 1 if is_out else ceil(number)), False) for number, is_out in found]
    return max(found, default=None)


def _compare_bound(old: Bound, new: Bound, kinds: tuple[str, str], path: str, sign: int = 1) -> Found:
    """`kinds` are those of a bound that accepts more, and less."""
    if old == new:
        return []
    accepts_less = old is None or (new is not None and new > old)
    return [_differs(kinds[accepts_less], path, _bound_words(old, sign), _bound_words(new, sign))]


def _bound_words(bound: Bound, sign: int) -> str | None:
    if bound is None:
        return None
    number = bound[0] * sign
    text = str(number.numerator) if number.denominator == 1 else str(float(number))
    return f"{text}, excluded" if bound[1] else text


def _multiple(atom: Atom, *, whole: bool) -> Fraction | None:
    """Divisor of all accepted numbers; whole ones that are multiples of 1.5 are those of 3, and all are those of 1."""
    if "multipleOf" not in atom:
        return Fraction(1) if whole else None
    divisor = exact(atom["multipleOf"])
    return Fraction(divisor.numerator) if whole else divisor


def _compare_multiples(old: Fraction | None, new: Fraction | None, path: str) -> Found:
    if old == new:
        return []
    if old is None or (new is not None and (new / old).denominator == 1):
        kind = "multiple_of_narrowed"
    elif new is None or (old / new).denominator == 1:
        kind = "multiple_of_extended"
    else:
        kind = "multiple_of_changed"
    words = [None if each is None else _bound_words((each, False), 1) for each in (old, new)]
    return [_differs(kind, path, *words)]


def _compare_words(old: Atom, new: Atom, path: str, key: str, kind: str) -> Found:
    before, after = old.get(key), new.get(key)
    if before == after:
        return []
    word = "added" if before is None else "removed" if after is None else "changed"
    return [_differs(f"{kind}_{word}", f"{path}/{key}", before, after)]


def _differs(kind: str, path: str, before: Any, after: Any) -> Difference:  # noqa: ANN401 - values of keywords
    words = [
        "" if value is None else shown(value if isinstance(value, str) else str(value)) for value in (before, after)
    ]
    return Difference(kind, path, *words)
