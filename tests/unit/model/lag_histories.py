"""Histories of records for cases of the lag rules."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from danube.model.lag.verdict import LagPolicy, LagRule, LagStatus, Observation

T0_MS = 1_750_000_000_000
AT_S = 50
POLICY = LagPolicy()


@dataclass(frozen=True, slots=True)
class Case:
    """A history and what must be said of it."""

    name: str
    observations: list[Observation]
    expected: dict[str, Any]


def ms(second: float) -> int:
    return T0_MS + round(second * 1_000)


def seen(second: float, head: int, position: int, **more: Any) -> Observation:
    """A record: the broker's start and its sequence follow from the second."""
    beyond = more.pop("beyond", 0)
    oldest_s = more.pop("oldest_s", None)
    head_s = more.pop("head_s", second)
    waits = head > position + beyond
    values: dict[str, Any] = {
        "at_ms": ms(second),
        "broker_id": "1",
        "start_id": "s1",
        "sequence": round(second * 10) + 10_000,
        "topic_id": "7",
        "subscription_id": "70",
        "consumers": 1,
        "head": head,
        "position": position,
        "acknowledged_beyond": beyond,
        "lag_messages": head - position - beyond,
        "oldest_unread_append_ms": ms(oldest_s) if oldest_s is not None and waits else None,
        "head_append_ms": None if head_s is None else ms(head_s),
    }
    return Observation(**{**values, **more})


def each_5_s(heads: Sequence[int], positions: Sequence[int], *, first_s: int = 5, **more: Any) -> list[Observation]:
    """One record for each look, the first at `first_s`. The oldest message is that of the last one: all are as old."""
    last_s = first_s + 5 * (len(heads) - 1)
    return [
        seen(first_s + 5 * number, head, position, **aged(more, first_s + 5 * number - last_s))
        for number, (head, position) in enumerate(zip(heads, positions, strict=True))
    ]


def aged(values: dict[str, Any], by_s: float) -> dict[str, Any]:
    """The same with an oldest message that came so much later."""
    oldest_s = values.get("oldest_s")
    return values if oldest_s is None else {**values, "oldest_s": oldest_s + by_s}


def rising(first: int, step: int, count: int = 10) -> list[int]:
    return [first + step * number for number in range(count)]


def case_of(name: str, observations: list[Observation], status: LagStatus, rule: LagRule, **more: Any) -> Case:
    return Case(name, observations, {"status": status, "rule": rule, **more})


OK, WARN, STOP = LagStatus.OK, LagStatus.WARN, LagStatus.STOP
STALL, REWIND, UNKNOWN = LagStatus.STALL, LagStatus.REWIND, LagStatus.UNKNOWN
