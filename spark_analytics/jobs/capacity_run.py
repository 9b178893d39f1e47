"""The job `capacity`: when which broker will be full, by trend and season, and what one more would change."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from pyspark.sql import DataFrame

from danube.loadmgr.cluster_state import ClusterState
from danube.loadmgr.goal import Goal
from danube.loadmgr.planner import plan
from danube.loadmgr.what_if import with_broker
from danube.model.records.analytics import Row
from spark_analytics.jobs.balance import broker_loads, percentile_loads, topic_loads
from spark_analytics.jobs.balance_moments import BrokerNumbers, TopicNumbers, cluster_of
from spark_analytics.jobs.run import Computed, JobRequest, Moment, step_ms_of
from spark_analytics.jobs.series import forecast, trend_of
from spark_analytics.progress import Steps

_MOMENTS = 300
_DAY_MS = 86_400_000
_LIMITS = {"cpu": 0.7, "network": 0.8, "disk": 0.85}
"""Share of each resource above which a broker counts as full."""
_NAMES = {"cpu": "processor", "network": "network", "disk": "disk"}


def settings(request: JobRequest) -> Mapping[str, Any]:
    """Numbers in the rules."""
    return {"step_s": step_ms_of(request, _MOMENTS) / 1_000, "limits": _LIMITS}


def compute(records: DataFrame, request: JobRequest, moment: Moment, steps: Steps) -> Computed:
    """A row for each broker and resource, the first to be full on top."""
    step_ms = step_ms_of(request, _MOMENTS)
    brokers, topics = broker_loads(records, step_ms).cache(), topic_loads(records, step_ms).cache()
    used = _used(brokers, topics)
    rows = sorted((_row(name, points, moment) for name, points in used.items()), key=_urgency)
    drawn = [point for row in rows[:6] for point in _points(row, used[row["broker_id"], row["resource"]], step_ms)]
    one_more = _one_more(brokers, topics, request.percentile)
    for frame in (brokers, topics):
        frame.unpersist()
    steps.done(f"judged {len(rows)} resources of brokers")
    tables: dict[str, list[Row]] = {"brokers": rows, "one_more": one_more, "forecast": drawn}
    return Computed(tables=tables, totals={name: len(each) for name, each in tables.items()})


Points = list[tuple[int, float]]


def _used(brokers: DataFrame, topics: DataFrame) -> dict[tuple[str, str], Points]:
    """Shares of each broker's resources over time."""
    traffic = {
        (row.moment_ms, row.broker_id): row.bytes
        for row in topics.groupBy("moment_ms", "broker_id")
        .agg({"bytes_per_s": "sum"})
        .toDF("moment_ms", "broker_id", "bytes")
        .collect()
    }
    found: dict[tuple[str, str], Points] = {}
    for row in brokers.orderBy("moment_ms").collect():
        one = BrokerNumbers.of(row.asDict())
        shares = {
            "cpu": one.cores_used / one.cores,
            "network": (traffic.get((row.moment_ms, row.broker_id)) or 0.0) / one.network_bytes_per_s,
        }
        if one.disk_free_bytes is not None:
            shares["disk"] = one.disk_used_bytes / max(1, one.disk_used_bytes + one.disk_free_bytes)
        for resource, share in shares.items():
            found.setdefault((one.broker_id, resource), []).append((row.moment_ms, share))
    return found


def _row(key: tuple[str, str], points: Points, moment: Moment) -> Row:
    broker_id, resource = key
    limit = _LIMITS[resource]
    trend = trend_of([at / _DAY_MS for at, _ in points], [share for _, share in points])
    level = trend.level if trend else points[-1][1]
    peak = float(np.percentile([share for _, share in points], 95))
    days = trend.days_to(limit - max(0.0, peak - level)) if trend else (None, None, None)
    at_ms = [None if day is None else moment.as_of_ms + round(day * _DAY_MS) for day in days]
    row: Row = {
        "broker_id": broker_id,
        "resource": resource,
        "used": level,
        "peak": peak,
        "limit": limit,
        "per_day": trend.per_day if trend else None,
        "full_at_ms": at_ms[0],
        "full_early_ms": at_ms[1],
        "full_late_ms": at_ms[2],
    }
    return {**row, "tone": _tone(days), "sentence": _sentence(row, days)}


def _tone(days: Sequence[float | None]) -> str:
    soonest = min((day for day in days[:2] if day is not None), default=None)
    return "good" if soonest is None or soonest > 90 else "warn" if soonest > 7 else "bad"


def _sentence(row: Row, days: Sequence[float | None]) -> str:
    use = f"{row['used']:.0%} in use (95 % of the time below {row['peak']:.0%})"
    what = f"Broker {row['broker_id']}, {_NAMES[row['resource']]}: {use}"
    if row["per_day"] is None:
        return f"{what}; the history is too short for a trend."
    if days[0] is None:
        return f"{what}; it does not grow towards {row['limit']:.0%}."
    early = "now" if not days[1] else f"{days[1]:.0f}"
    late = "never" if days[2] is None else f"{days[2]:.0f}"
    return f"{what}; {row['limit']:.0%} in {days[0]:.0f} days (90 % interval: {early} to {late})."


def _urgency(row: Row) -> tuple[bool, int, float, str]:
    return row["full_at_ms"] is None, row["full_at_ms"] or 0, -row["used"], row["broker_id"]


def _points(row: Row, points: Points, step_ms: int) -> Iterator[Row]:
    name = f"broker {row['broker_id']} {_NAMES[row['resource']]}"
    season = max(1, _DAY_MS // step_ms)
    found = forecast(np.array([share for _, share in points]), season, max(1, min(7 * season, len(points) // 2)))
    for at_ms, share in points:
        yield {"name": name, "moment_ms": at_ms, "value": share, "low": None, "high": None}
    for at, (value, low, high) in enumerate(zip(found.values, found.low, found.high, strict=True)):
        at_ms = points[-1][0] + (at + 1) * step_ms
        yield {"name": name, "moment_ms": at_ms, "value": float(value), "low": float(low), "high": float(high)}


def _one_more(brokers: DataFrame, topics: DataFrame, percentile: float) -> list[Row]:
    """The cluster with one more broker, after the planner has moved topics to it."""
    of_brokers, of_topics = percentile_loads(brokers, topics, percentile)
    places, placed, _ = cluster_of(
        [BrokerNumbers.of(row.asDict()) for row in of_brokers.collect()],
        [TopicNumbers.of(row.asDict()) for row in of_topics.collect()],
    )
    if not places:
        return []
    before = ClusterState(places, placed, Goal().strategy).imbalance()
    more_places, more_topics = with_broker(places, placed, max(place.broker_id for place in places) + 1)
    after = plan(more_places, more_topics, Goal())
    sentence = (
        f"With one more broker the busiest one goes from {before.highest:.0f} % to {after.after.highest:.0f} %"
        f" by {len(after.moves)} moves, and the mean from {before.mean:.0f} % to {after.after.mean:.0f} %."
    )
    return [
        {
            "sentence": sentence,
            "highest_before": before.highest,
            "highest_after": after.after.highest,
            "moves": len(after.moves),
        }
    ]
