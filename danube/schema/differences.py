"""Differences between two versions of a schema, and the rules that judge them: both are data."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final


class Direction(Enum):
    """One way in which two versions can be compatible."""

    BACKWARD = "backward"
    """Data of the earlier version is read by the later one."""
    FORWARD = "forward"
    """Data of the later version is read by the earlier one."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that differs, without a judgement."""

    kind: str
    """A key of its format's table of rules."""
    path: str
    """Place in the definition: a JSON pointer, or a dotted name."""
    before: str = ""
    after: str = ""


@dataclass(frozen=True, slots=True)
class Rule:
    """Judgement on one kind of difference."""

    compatible: frozenset[Direction]
    says: str
    """Meaning for people."""
    remedy: str = ""
    """Smallest change of the new definition that makes it compatible; empty where nothing is needed."""


Rules = Mapping[str, Rule]

BOTH: Final = frozenset(Direction)
BACKWARD_ONLY: Final = frozenset({Direction.BACKWARD})
FORWARD_ONLY: Final = frozenset({Direction.FORWARD})
NEITHER: Final[frozenset[Direction]] = frozenset()


def directions(differences: Iterable[Difference], rules: Rules) -> frozenset[Direction]:
    """Directions in which all of the differences are compatible."""
    found = BOTH
    for difference in differences:
        found &= rules[difference.kind].compatible
    return found
