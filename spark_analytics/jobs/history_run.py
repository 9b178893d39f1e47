"""The job `history`: incidents of every subscription over the whole time, with cause and evidence."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that every user of Spark knows it by

from danube.model.lag.alerts import AlertPolicy
from danube.model.lag.history import Times
from danube.model.lag.next_steps import next_step
from danube.model.lag.verdict import LagPolicy
from danube.model.records.analytics import Row
from danube.model.text import count_text, span_text, time_of
from spark_analytics.jobs.history import lag_incidents, tone_of
from spark_analytics.jobs.lag import lag_partitions
from spark_analytics.jobs.run import Computed, JobRequest, Moment, step_ms_of
from spark_analytics.progress import Steps

_MOMENTS = 500
_CLOSE_MS = 30_000
"""Between two moments where trouble turns."""
_SHOWN = 6
_POINTS = 300


def settings(request: JobRequest) -> Mapping[str, Any]:
    """Numbers in the rules."""
    step_s = step_ms_of(request, _MOMENTS) / 1_000
    return {"step_s": step_s, **asdict(AlertPolicy.for_step(step_s))}


def compute(records: DataFrame, request: JobRequest, moment: Moment, steps: Steps) -> Computed:
    """Incidents, the worst first, and the lag over time of the subscriptions that were furthest behind."""
    step_ms = step_ms_of(request, _MOMENTS)
    first_ms = moment.as_of_ms - (moment.as_of_ms - moment.since_ms - 1) // step_ms * step_ms
    times = Times(first_ms=first_ms, last_ms=moment.as_of_ms, step_ms=step_ms, close_ms=_CLOSE_MS)
    partitions = lag_partitions(records, times, LagPolicy()).cache()
    judged = partitions.count()
    steps.done(f"judged {judged:,} verdicts")
    incidents = [_incident_row(row.asDict()) for row in lag_incidents(partitions, step_ms / 1_000).collect()]
    incidents.sort(key=_harm)
    steps.done(f"found {count_text(len(incidents), 'incident')}")
    over_time = _over_time(partitions, incidents)
    tables = {"incidents": incidents, "lag_over_time": over_time, "quality": _quality(partitions, judged)}
    partitions.unpersist()
    return Computed(tables=tables, totals={name: len(rows) for name, rows in tables.items()})


def _harm(row: Row) -> tuple[object, ...]:
    """The worst first: by messages that were deleted unread, then by those that waited, then by their age."""
    numbers = (row["messages_lost"], row["peak_lag_messages"] or 0, row["peak_lag_s"] or 0.0)
    return *(-each for each in numbers), row["topic"], row["subscription"], row["began_ms"]


def _incident_row(row: Row) -> Row:
    """The row with a sentence that a person reads first, and what to do then."""
    ended = f"until {time_of(row['ended_ms'])}" if row["ended_ms"] else "and it lasts"
    most = row["peak_lag_messages"]
    many = "" if most is None else f", at most {count_text(most, 'message')}"
    age = "" if row["peak_lag_s"] is None else f", {span_text(row['peak_lag_s'])} behind"
    lost = f", {count_text(row['messages_lost'], 'message')} deleted unread" if row["messages_lost"] else ""
    deadline = row["retention_deadline_s"]
    soon = f", unread messages are deleted in {span_text(deadline)} at this rate" if deadline else ""
    who = f"{row['topic']} by {row['subscription']}"
    chain = row["chain"].replace("_", " ").replace("->", "→")
    place = [row["consumer"], None if row["offset"] is None else f"offset {row['offset']:,}"]
    where = f" ({', '.join(filter(None, place))})" if any(place) else ""
    begin = f"{who}: {chain}{where} from {time_of(row['began_ms'])} {ended}"
    causes = row["chain"].split(" -> ")
    steps = [next_step(cause, row["topic"], row["subscription"], row["offset"]) for cause in causes]
    told = {"sentence": f"{begin}{many}{age}{lost}{soon}.", "tone": tone_of(row["cause"])}
    return {**row, **told, "next_step": "; then ".join(dict.fromkeys(steps))}


def _over_time(partitions: DataFrame, incidents: Sequence[Row]) -> list[Row]:
    """The lag of the subscriptions with the worst incidents; without any, of those that were furthest behind."""
    names = list(dict.fromkeys((row["topic"], row["subscription"]) for row in incidents))[:_SHOWN]
    if names:
        worst = partitions.sparkSession.createDataFrame(names, "topic STRING, subscription STRING")
    else:
        peaks = partitions.groupBy("topic", "subscription").agg(F.max("lag_s").alias("peak_s")).where("peak_s > 0")
        worst = peaks.orderBy(F.desc("peak_s"), "topic", "subscription").limit(_SHOWN).drop("peak_s")
    rows = partitions.join(F.broadcast(worst), ["topic", "subscription"]).orderBy("topic", "subscription", "as_of_ms")
    found = rows.select("topic", "subscription", "as_of_ms", "lag_s", "lag_messages").collect()
    every = max(1, len(found) // (_SHOWN * _POINTS))
    return [
        {
            "name": f"{row.topic} {row.subscription}",
            "moment_ms": row.as_of_ms,
            "lag_s": row.lag_s,
            "lag_messages": row.lag_messages,
        }
        for row in found[::every]
    ]


def _quality(partitions: DataFrame, judged: int) -> list[Row]:
    unknown = partitions.where("status = 'UNKNOWN'").count()
    share = unknown / judged if judged else 0.0
    return [{"sentence": f"{judged:,} verdicts; {share:.1%} of them unknown, as telemetry was missing or too short."}]
