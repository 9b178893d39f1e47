"""Lag as rows of a result (`danube/model/records/analytics.py`): values to JSON values and back. Pure."""

from collections.abc import Mapping
from dataclasses import asdict
from enum import StrEnum
from typing import Any, get_args, get_type_hints

from danube.model.errors import InvalidRequestError
from danube.model.lag.group import GroupLag, PartitionLag
from danube.model.lag.verdict import EtaReason, LagPolicy, LagVerdict

PARTITIONS = "partitions"
GROUPS = "groups"
"""The tables of a result."""

NEVER = frozenset({EtaReason.NOTHING_CONSUMED, EtaReason.FALLS_BEHIND})
"""Reasons for which people read that a lag never clears; without the others it is not known."""

_FIELDS: Mapping[type, Mapping[str, tuple[type, ...]]] = {
    of: {name: get_args(hint) or (hint,) for name, hint in get_type_hints(of).items() if name != "verdict"}
    for of in (PartitionLag, LagVerdict, GroupLag)
}
"""Which types each field may have."""
_NAMES = tuple(LagVerdict.__dataclass_fields__)
_LATER = frozenset({"blocked", *_NAMES[_NAMES.index("lost") :]})
"""Fields that rows have got since version 1 was released: they may be missing, and are where nothing is known."""


def partition_row(one: PartitionLag) -> dict[str, Any]:
    """One partition as a flat row."""
    return {"topic": one.topic, "subscription": one.subscription, **_row_fields(one.verdict)}


def group_row(one: GroupLag) -> dict[str, Any]:
    """One group as a row."""
    return _row_fields(one)


def partition_of(row: Mapping[str, Any]) -> PartitionLag:
    """The partition of a row. Raises InvalidRequestError for what is none."""
    return PartitionLag(**_values(row, PartitionLag), verdict=LagVerdict(**_values(row, LagVerdict)))


def group_of(row: Mapping[str, Any]) -> GroupLag:
    """The group of a row. Raises InvalidRequestError for what is none."""
    return GroupLag(**_values(row, GroupLag))


def policy_fields(policy: LagPolicy) -> dict[str, Any]:
    """The numbers in the rules, as a result tells them."""
    return asdict(policy)


def _row_fields(one: LagVerdict | GroupLag) -> dict[str, Any]:
    return {name: value for name, value in asdict(one).items() if value is not None or name not in _LATER}


def _values(row: Mapping[str, Any], of: type) -> dict[str, Any]:
    try:
        wanted = ((name, types) for name, types in _FIELDS[of].items() if name in row or name not in _LATER)
        return {name: _value(name, row[name], types) for name, types in wanted}
    except (KeyError, ValueError) as error:
        raise InvalidRequestError(f"this is no row of a lag result: {error}") from None


def _value(name: str, raw: object, types: tuple[type, ...]) -> object:
    """A value of a type that its field may have. Raises ValueError."""
    word = next((each for each in types if issubclass(each, StrEnum)), None)
    if word is not None and raw is not None:
        return word(str(raw))
    if type(raw) in types or (float in types and type(raw) is int):
        return raw
    raise ValueError(f"{name} is {type(raw).__name__}")
