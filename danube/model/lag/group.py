"""Lag of a group: one subscription over all partitions of its topic. Pure.

Burrow's group evaluation: a group is as bad as its worst partition, and `complete` is the share of its partitions whose
window is known whole. The time to catch up counts skew: a group has caught up when its slowest partition has.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from danube.model.lag.verdict import SEVERITY, EtaReason, LagCause, LagMethod, LagPolicy, LagRule, LagStatus, LagVerdict
from danube.model.records.telemetry import SYSTEM_NAMESPACE

_PARTITION = re.compile(r"(?P<base>/[^/]+/.+)-part-(?:0|[1-9][0-9]*)")
_SYSTEM = f"/{SYSTEM_NAMESPACE}/"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLag:
    """One subscription of one topic or partition."""

    topic: str
    subscription: str
    verdict: LagVerdict

    def group(self, plain: Collection[str]) -> tuple[str, str]:
        """The partitioned topic, or the topic itself, and the subscription; see `base_of`."""
        return base_of(self.topic, plain), self.subscription


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLag:
    """One subscription over the partitions of a topic; a plain topic is its own only partition."""

    topic: str
    subscription: str
    status: LagStatus
    """Status of the worst partition, as are `rule`, `cause` and `worst_partition`."""
    rule: LagRule
    cause: LagCause | None
    worst_partition: str
    partitions: int
    complete: float
    """Share of the partitions whose window is known whole."""
    consumers: int | None
    """With an open stream; one that reads several partitions counts for each."""
    lag_messages: int | None
    """Over the partitions where it is known; null where it is of none."""
    lag_s: float | None
    """The largest of the partitions."""
    lag_method: LagMethod
    """Of that partition."""
    arrival_rate: float | None
    """Messages a second; null when it is not known of each partition, as is `consume_rate`."""
    consume_rate: float | None
    rate_window_s: float | None
    eta_s: float | None
    eta_reason: EtaReason | None
    eta_partition: str
    """The partition that the time to catch up hangs on."""
    retention_margin: int | None
    """The smallest of the partitions."""
    retention_ratio: float | None
    """The largest of the partitions."""
    messages_lost: int | None
    blocked: int | None = None
    """Messages that failed too often, over the partitions where that is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LagFilter:
    """Filter of subscriptions; those of the namespace `system` match only when it is named."""

    topic: str | None = None
    """Its name, or that of the partitioned topic that it belongs to."""
    subscription: str | None = None
    namespace: str | None = None
    plain: Collection[str] = ()
    """Topics that are no partitions, whatever their names."""

    def takes(self, topic: str, subscription: str) -> bool:
        """True when the subscription matches."""
        if self.namespace is not None:
            is_there = topic.startswith(f"/{self.namespace}/")
        else:
            is_there = self.topic is not None or not topic.startswith(_SYSTEM)
        is_asked_for = self.topic in {None, topic, base_of(topic, self.plain)}
        return is_there and is_asked_for and self.subscription in {None, subscription}

    def covers(self, other: "LagFilter") -> bool:
        """True when everything that `other` matches is matched by this, too."""
        everything = self.topic is None and self.subscription is None and self.namespace is None
        is_system = f"/{other.namespace}/" == _SYSTEM or (other.topic or "").startswith(_SYSTEM)
        return self == other or (everything and not is_system)


def base_of(topic: str, plain: Collection[str] = ()) -> str:
    """The partitioned topic of a name of that form, unless it is one of the plain topics; else the name itself."""
    match = _PARTITION.fullmatch(topic) if topic not in plain else None
    return match["base"] if match else topic


def groups_of(partitions: Iterable[PartitionLag], policy: LagPolicy, plain: Collection[str] = ()) -> list[GroupLag]:
    """Partitions gathered into groups, the one with the most harm first; `plain` as in LagFilter."""
    gathered: dict[tuple[str, str], list[PartitionLag]] = {}
    for one in partitions:
        gathered.setdefault(one.group(plain), []).append(one)
    groups = [_group(topic, subscription, members, policy) for (topic, subscription), members in gathered.items()]
    return sorted(groups, key=lambda one: (*harm(one.status, one.cause, one.lag_messages), one.topic, one.subscription))


def worst_first(partitions: Iterable[PartitionLag]) -> list[PartitionLag]:
    """Partitions by harm, then by name."""

    def place(one: PartitionLag) -> tuple[object, ...]:
        return *harm(one.verdict.status, one.verdict.cause, one.verdict.lag_messages), one.topic, one.subscription

    return sorted(partitions, key=place)


def harm(status: LagStatus, cause: LagCause | None, lag: int | None) -> tuple[int, int, int]:
    """Place in a list, the worst lowest: trouble, the unknown, the others; of trouble first what loses messages.

    Then come those for which twice as many wait. What is alike, as all that is OK, keeps its place while lags change.
    """
    rank = max(0, SEVERITY[LagStatus.WARN] - SEVERITY[status])
    doublings = 0 if rank > 1 else len(f"{1 + (-1 if lag is None else lag):b}")
    return rank, int(rank > 0 or cause is not LagCause.DATA_LOSS), -doublings


def _rank(one: PartitionLag) -> tuple[int, int, str, str]:
    lag = one.verdict.lag_messages
    return -SEVERITY[one.verdict.status], -1 if lag is None else -1 - lag, one.topic, one.subscription


def _group(topic: str, subscription: str, members: Sequence[PartitionLag], policy: LagPolicy) -> GroupLag:
    members = sorted(members, key=lambda one: one.topic)
    verdicts = [one.verdict for one in members]
    worst = min(members, key=_rank)
    pinning = min(members, key=_pins)
    oldest = max(members, key=lambda one: -1.0 if one.verdict.lag_s is None else one.verdict.lag_s).verdict
    return GroupLag(
        topic=topic,
        subscription=subscription,
        status=worst.verdict.status,
        rule=worst.verdict.rule,
        cause=worst.verdict.cause,
        worst_partition=worst.topic,
        partitions=len(members),
        complete=sum(one.looks == policy.intervals for one in verdicts) / len(verdicts),
        consumers=_sum([one.consumers for one in verdicts]),
        lag_messages=_sum([one.lag_messages for one in verdicts]),
        lag_s=oldest.lag_s,
        lag_method=oldest.lag_method,
        arrival_rate=_total([one.arrival_rate for one in verdicts]),
        consume_rate=_total([one.consume_rate for one in verdicts]),
        rate_window_s=max((one.rate_window_s for one in verdicts if one.rate_window_s is not None), default=None),
        eta_s=pinning.verdict.eta_s,
        eta_reason=pinning.verdict.eta_reason,
        eta_partition=pinning.topic,
        retention_margin=min(_known([one.retention_margin for one in verdicts]), default=None),
        retention_ratio=max((one.retention_ratio for one in verdicts if one.retention_ratio is not None), default=None),
        messages_lost=_sum([one.messages_lost for one in verdicts]),
        blocked=_sum([one.blocked for one in verdicts]),
    )


def _pins(one: PartitionLag) -> tuple[bool, float, int, str]:
    """First the partition that never catches up, with the largest lag; else the one that takes longest."""
    verdict = one.verdict
    return verdict.eta_s is not None, -(verdict.eta_s or 0.0), -1 - (verdict.lag_messages or 0), one.topic


def _known(numbers: Sequence[int | None]) -> list[int]:
    return [number for number in numbers if number is not None]


def _sum(numbers: Sequence[int | None]) -> int | None:
    known = _known(numbers)
    return sum(known) if known else None


def _total(numbers: Sequence[float | None]) -> float | None:
    """All of them together; null as soon as one is not known, since a part would pass for the whole."""
    known = [number for number in numbers if number is not None]
    return sum(known) if len(known) == len(numbers) else None
