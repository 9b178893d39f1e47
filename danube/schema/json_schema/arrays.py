"""Differences in what JSON Schemas say of arrays."""

from danube.schema.differences import Difference, Direction, directions
from danube.schema.json_schema.atoms import NOTHING, Atom, atoms, types
from danube.schema.json_schema.keywords import Schema
from danube.schema.json_schema.pairs import Found, Pairs
from danube.schema.json_schema.rules import STRICT
from danube.schema.json_schema.values import compare_limits


def compare_arrays(comparison: Pairs, old: Atom, new: Atom, path: str) -> Found:
    """Differences in items, their number, and what they contain."""
    if "array" not in types(old) & types(new):
        return []
    found = compare_limits(old, new, path, "Items")
    if bool(old.get("uniqueItems")) != bool(new.get("uniqueItems")):
        kind = "unique_items_added" if new.get("uniqueItems") else "unique_items_removed"
        found.append(Difference(kind, f"{path}/uniqueItems"))
    found += _compare_positions(comparison, old, new, path)
    found += _compare_rest(comparison, old.get("items", True), new.get("items", True), path)
    one, two = (atom.get("additionalItems", True) for atom in (old, new))  # it says nothing until `items` is a list
    found += comparison.compare((one,), (two,), f"{path}/additionalItems")
    return found + _compare_contained(comparison, old, new, path)


def _compare_positions(comparison: Pairs, old: Atom, new: Atom, path: str) -> Found:
    """Items that are described by their position, against what the other side says of that position."""
    before, after = old.get("prefixItems", []), new.get("prefixItems", [])
    found: Found = []
    for index in range(max(len(before), len(after))):
        one = before[index] if index < len(before) else old.get("items", True)
        two = after[index] if index < len(after) else new.get("items", True)
        place = f"{path}/prefixItems/{index}"
        added = index >= len(before)
        if added or index >= len(after):
            other, document = (one, comparison.old) if added else (two, comparison.new)
            kind = f"item_{'added_to' if added else 'removed_from'}_{{}}_content_model"
            model = atoms(document, (other,))
            changed = comparison.fits((one,), (two,)) is not None
            if changed and (not model or NOTHING in model):
                found.append(Difference(kind.format("closed" if model else "open"), place))
                continue
        found += comparison.compare((one,), (two,), place)
    return found


def _compare_rest(comparison: Pairs, old: Schema, new: Schema, path: str) -> Found:
    closed = [NOTHING in atoms(document, (side,)) for document, side in ((comparison.old, old), (comparison.new, new))]
    if closed[0] != closed[1]:
        return [Difference("items_closed" if closed[1] else "items_opened", f"{path}/items")]
    return comparison.compare((old,), (new,), f"{path}/items")


def _compare_contained(comparison: Pairs, old: Atom, new: Atom, path: str) -> Found:
    place = f"{path}/contains"
    if "contains" not in old and "contains" not in new:
        return []
    if "contains" not in old or "contains" not in new:
        free = (old if "contains" in old else new).get("minContains") == 0
        if free and "maxContains" not in old and "maxContains" not in new:
            return []
        return [Difference("contains_added" if "contains" in new else "contains_removed", place)]
    with comparison.matching():
        found = comparison.compare((old["contains"],), (new["contains"],), place)
    counts = [(atom.get("minContains", 1), atom.get("maxContains")) for atom in (old, new)]
    if not found and counts[0] == counts[1]:
        return []
    if not found:
        limits = [{"minItems": low} | ({} if high is None else {"maxItems": high}) for low, high in counts]
        return compare_limits(limits[0], limits[1], place, "Items")
    if counts[0] == counts[1] and counts[0][1] is None and directions(found, STRICT) & frozenset(Direction):
        return found
    return [Difference("contains_changed", place)]
