"""Outcomes of commands as plain data, [kind, field ...]: what images hold as MessagePack and SQLite files as JSON.

Both are kept for years: a kind's name and the order of its fields never change.
"""

from collections.abc import Sequence
from dataclasses import astuple
from typing import Any

from danube.metadata.commands import Applied, Conflicted, Lease, LeaseGiven, LeaseMissing, Outcome, TooManyLeases

_KINDS: dict[str, type[Applied | Conflicted | LeaseMissing | TooManyLeases]] = {
    kind.__name__: kind for kind in (Applied, Conflicted, LeaseMissing, TooManyLeases)
}


def outcome_fields(outcome: Outcome) -> list[Any]:
    """The kind of an outcome and its fields, those of a lease that was given one by one."""
    fields = astuple(outcome.lease if isinstance(outcome, LeaseGiven) else outcome)
    return [type(outcome).__name__, *fields]


def outcome_of(row: Sequence[Any]) -> Outcome:
    """The outcome that `outcome_fields` was given. Raises ValueError, KeyError or TypeError for anything else."""
    kind, *fields = row
    return LeaseGiven(Lease(*fields)) if kind == LeaseGiven.__name__ else _KINDS[kind](*fields)
