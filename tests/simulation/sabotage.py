"""A rule that is taken out on purpose, and the search for the first seed that notices."""

import logging
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import pytest

SEEDS = range(400)
"""Among which the first one is looked for."""
CLOSE_BY = 40
"""Seeds to try when the one in a table finds nothing any more."""


@dataclass(frozen=True, slots=True)
class Sabotaged:
    """A rule, the sabotage that takes it out, and the run that shows what it is for."""

    rule: str
    sabotage: Callable[[pytest.MonkeyPatch], None]
    seed: int
    kind: str = ""
    """Kind of the simulation, or its course."""


IsFound = Callable[[Sabotaged, int], bool]
"""True if the run of a seed breaks a promise, with the sabotage in place."""


def is_noticed(one: Sabotaged, is_found: IsFound, patch: pytest.MonkeyPatch) -> bool:
    """True if its seed, or one close by, notices the sabotage."""
    one.sabotage(patch)
    return any(is_found(one, seed) for seed in range(one.seed, one.seed + CLOSE_BY))


def search(table: Iterable[Sabotaged], is_found: IsFound) -> None:
    """Print the first seed that finds each sabotage, or those that the command line names."""
    logging.disable(logging.CRITICAL)
    for one in table:
        if not sys.argv[1:] or one.sabotage.__name__ in sys.argv[1:]:
            with pytest.MonkeyPatch.context() as patch:
                one.sabotage(patch)
                found = next((seed for seed in SEEDS if is_found(one, seed)), None)
            print(one.sabotage.__name__, one.kind, found, flush=True)  # noqa: T201 - the command's output
