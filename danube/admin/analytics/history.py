"""Lag and rates of one topic over the last minutes, out of telemetry; of a partitioned topic, over its partitions.

Brokers publish a reading when it changes and in full rounds, so a reading holds until the next one.
"""

import asyncio
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from danube.admin.gateway import AdminGateway
from danube.model.errors import DanubeError, InvalidRequestError
from danube.model.lag.group import base_of
from danube.model.limits.broker import TELEMETRY_INTERVAL_S
from danube.model.limits.faces import HISTORY_POINTS, HISTORY_RECORDS_MAX, HISTORY_S, LAG_LIVE_SLICE_RECORDS
from danube.model.records.telemetry import (
    TELEMETRY_TOPIC,
    BrokerReading,
    Reading,
    Stamp,
    TopicReading,
    decode_record,
    plain_topics,
)
from danube.model.topic import TopicName

Points = tuple[float | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupHistory:
    """One subscription over time."""

    lag: Points
    """Messages."""
    consumed: Points
    """Messages a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicHistory:
    """One topic over time, at even steps, oldest first."""

    span_s: float
    published: Points
    """Messages a second."""
    groups: dict[str, GroupHistory] = field(default_factory=dict)
    """By the name of the subscription."""

    @property
    def is_known(self) -> bool:
        """True if telemetry told of the topic at all."""
        return any(point is not None for point in self.published) or bool(self.groups)


async def topic_history(gateway: AdminGateway, topic: TopicName, now_ms: int) -> TopicHistory | None:
    """The last HISTORY_S; None where no telemetry can be read."""
    since_ms = now_ms - round(HISTORY_S * 1_000)
    try:
        stored = await gateway.system_records(TELEMETRY_TOPIC, since_ms=since_ms, limit=HISTORY_RECORDS_MAX)
    except DanubeError:
        return None
    name = str(topic).encode()
    payloads = [each.payload for each in stored if name in each.payload]
    records: list[tuple[Stamp, Reading]] = []
    for first in range(0, len(payloads), LAG_LIVE_SLICE_RECORDS):
        records += filter(None, map(_decoded, payloads[first : first + LAG_LIVE_SLICE_RECORDS]))
        await asyncio.sleep(0)
    return history_of(records, topic, since_ms=since_ms, now_ms=now_ms)


def history_of(
    records: Sequence[tuple[Stamp, Reading]], topic: TopicName, *, since_ms: int, now_ms: int
) -> TopicHistory:
    """The history of a topic, or of all partitions of a base name, out of telemetry. Pure."""
    taken: dict[str, list[tuple[int, int]]] = {}
    groups: dict[str, dict[str, list[tuple[int, int, int]]]] = {}
    plain, name = plain_topics(records), str(topic)
    for stamp, reading in sorted(records, key=lambda each: (each[0].at_ms, each[0].sequence)):
        if isinstance(reading, BrokerReading) or name not in {reading.topic, base_of(reading.topic, plain)}:
            continue
        if isinstance(reading, TopicReading):
            taken.setdefault(reading.topic, []).append((stamp.at_ms, reading.messages_in))
        else:
            lag = -1 if reading.lag_messages is None else reading.lag_messages
            members = groups.setdefault(reading.subscription, {})
            members.setdefault(reading.topic, []).append((stamp.at_ms, lag, reading.messages_out))
    moments = [since_ms + (now_ms - since_ms) * at // (HISTORY_POINTS - 1) for at in range(HISTORY_POINTS)]
    given = [[(at_ms, out) for at_ms, _, out in told] for each in groups.values() for told in each.values()]
    known = sum(moment <= _told_until([*taken.values(), *given], now_ms) for moment in moments)
    return TopicHistory(
        span_s=(now_ms - since_ms) / 1_000,
        published=_first(_sums([_rates(told, moments) for told in taken.values()]), known),
        groups={name: _group(members, moments, known) for name, members in sorted(groups.items())},
    )


def _told_until(counters: Sequence[Sequence[tuple[int, int]]], now_ms: int) -> int:
    """The time up to which rates are known: a counter that grew when it was last told has another reading under way."""
    until_ms = now_ms
    for (before_ms, before), (last_ms, last) in (told[-2:] for told in counters if len(told) > 1):
        due_ms = last_ms + 2 * max(last_ms - before_ms, round(TELEMETRY_INTERVAL_S * 1_000))
        if last != before and now_ms < due_ms:
            until_ms = min(until_ms, last_ms)
    return until_ms


def _first(points: Points, known: int) -> Points:
    """The first points, and None for the rest."""
    return points[:known] + (None,) * (len(points) - known)


def _group(members: dict[str, list[tuple[int, int, int]]], moments: Sequence[int], rates_known: int) -> GroupHistory:
    lags = [_held([(at_ms, lag) for at_ms, lag, _ in told], moments) for told in members.values()]
    known = [tuple(None if lag is None or lag < 0 else lag for lag in points) for points in lags]
    consumed = [_rates([(at_ms, out) for at_ms, _, out in told], moments) for told in members.values()]
    return GroupHistory(lag=_sums(known), consumed=_first(_sums(consumed), rates_known))


def _held(told: Sequence[tuple[int, int]], moments: Sequence[int]) -> Points:
    """At each moment the last value told until then."""
    times = [at_ms for at_ms, _ in told]
    places = [bisect_right(times, moment) for moment in moments]
    return tuple(told[place - 1][1] if place else None for place in places)


def _rates(told: Sequence[tuple[int, int]], moments: Sequence[int]) -> Points:
    """Differences of a counter between moments, a second; between two readings it grew evenly."""
    held = _counted(told, moments)
    step_s = (moments[-1] - moments[0]) / 1_000 / (len(moments) - 1)
    rates: list[float | None] = [None]
    for before, after in pairwise(held):
        if before is None or after is None:
            rates.append(None)
        else:
            rates.append((after - before) / step_s)
    return tuple(rates)


def _counted(told: Sequence[tuple[int, int]], moments: Sequence[int]) -> Points:
    """A counter at each moment; one that began again after a restart of its broker goes on from where it was."""
    times, totals = [at_ms for at_ms, _ in told], [0]
    for (_, before), (_, after) in pairwise(told):
        totals.append(totals[-1] + (after - before if after >= before else after))
    found: list[float | None] = []
    for moment in moments:
        place = bisect_right(times, moment)
        if place in (0, len(times)):
            found.append(totals[-1] if place else None)
            continue
        share = (moment - times[place - 1]) / max(times[place] - times[place - 1], 1)
        found.append(totals[place - 1] + share * (totals[place] - totals[place - 1]))
    return tuple(found)


def _sums(many: Sequence[Points]) -> Points:
    """Sums over partitions; None where none of them is known."""
    if not many:
        return (None,) * HISTORY_POINTS
    known = [[value for value in column if value is not None] for column in zip(*many, strict=True)]
    return tuple(sum(column) if column else None for column in known)


def _decoded(payload: bytes) -> tuple[Stamp, Reading] | None:
    try:
        return decode_record(payload)
    except InvalidRequestError:  # no telemetry, whatever it holds
        return None
