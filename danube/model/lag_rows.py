"""Lag as rows of a result (`danube/model/analytics.py`): values to JSON values and back. Pure."""

from collections.abc import Mapping
from dataclasses import asdict, fields
from enum import StrEnum
from typing import Any

from danube.model.errors import InvalidRequestError
from danube.model.lag_group import GroupLag, PartitionLag
from danube.model.lag_verdict import EtaReason, LagCause, LagMethod, LagPolicy, LagRule, LagStatus, LagVerdict

PARTITIONS = "partitions"
GROUPS = "groups"
"""The tables of a result."""

_WORDS: Mapping[str, type[StrEnum]] = {
    "status": LagStatus,
    "rule": LagRule,
    "cause": LagCause,
    "lag_method": LagMethod,
    "eta_reason": EtaReason,
}
_LATER = frozenset({"blocked"})
"""Fields that rows have got since version 1 was released: they may be missing, and are where nothing is known."""
_TEXTS = frozenset({"topic", "subscription", "broker_id", "worst_partition", "eta_partition"})


def partition_row(one: PartitionLag) -> dict[str, Any]:
    """One partition as a flat row."""
    return {"topic": one.topic, "subscription": one.subscription, **_told(one.verdict)}


def group_row(one: GroupLag) -> dict[str, Any]:
    """One group as a row."""
    return _told(one)


def partition_of(row: Mapping[str, Any]) -> PartitionLag:
    """The partition of a row. Raises InvalidRequestError for what is none."""
    verdict = LagVerdict(**_values(row, [field.name for field in fields(LagVerdict)]))
    return PartitionLag(**_values(row, ["topic", "subscription"]), verdict=verdict)


def group_of(row: Mapping[str, Any]) -> GroupLag:
    """The group of a row. Raises InvalidRequestError for what is none."""
    return GroupLag(**_values(row, [field.name for field in fields(GroupLag)]))


def policy_fields(policy: LagPolicy) -> dict[str, Any]:
    """The numbers in the rules, as a result tells them."""
    return asdict(policy)


def _told(one: LagVerdict | GroupLag) -> dict[str, Any]:
    return {name: value for name, value in asdict(one).items() if value is not None or name not in _LATER}


def _values(row: Mapping[str, Any], names: list[str]) -> dict[str, Any]:
    try:
        return {name: _value(name, row[name]) for name in names if name in row or name not in _LATER}
    except (KeyError, ValueError) as error:
        raise InvalidRequestError(f"this is no row of a lag result: {error}") from None


def _value(name: str, raw: object) -> object:
    """A value of the type that its field has. Raises ValueError."""
    if raw is None and name not in {"topic", "subscription", "status", "rule"}:
        return None
    if name in _WORDS:
        return _WORDS[name](str(raw))
    if name in _TEXTS:
        if isinstance(raw, str):
            return raw
    elif isinstance(raw, (int, float)) and not isinstance(raw, bool):
        return raw
    raise ValueError(f"{name} is {type(raw).__name__}")
