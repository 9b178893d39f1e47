"""Outcomes as plain data: the same rows for ever, since snapshots that are kept hold them."""

import json
from typing import Any

import pytest

from danube.metadata.commands import (
    Applied,
    Conflicted,
    Lease,
    LeaseGiven,
    LeaseMissing,
    Outcome,
    TooManyLeases,
    outcome_fields,
    outcome_of,
)

ROWS: list[tuple[Outcome, list[Any]]] = [
    (Applied(7), ["Applied", 7]),
    (Conflicted("/a", 3, 4), ["Conflicted", "/a", 3, 4]),
    (LeaseGiven(Lease(1, 5.0, 2)), ["LeaseGiven", 1, 5.0, 2]),
    (LeaseMissing(9), ["LeaseMissing", 9]),
    (TooManyLeases(), ["TooManyLeases"]),
]


@pytest.mark.parametrize(("outcome", "row"), ROWS, ids=[row[0] for _, row in ROWS])
def test_an_outcome_is_written_as_it_always_was(outcome: Outcome, row: list[Any]) -> None:
    assert outcome_fields(outcome) == row
    assert outcome_of(json.loads(json.dumps(row))) == outcome


@pytest.mark.parametrize("row", [[], ["Applied"], ["Applied", 1, 2], ["Entry", "/a"], [["Applied"], 1]], ids=str)
def test_what_is_no_outcome_is_refused(row: list[Any]) -> None:
    with pytest.raises((ValueError, KeyError, TypeError)):
        outcome_of(row)
