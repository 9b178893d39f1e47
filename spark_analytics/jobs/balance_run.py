"""The job `balance`: load over time, the times at which a rebalance would have paid, and a plan for a percentile."""

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that every user of Spark knows it by

from danube.loadmgr.goal import Goal
from danube.model.records.analytics import Row
from spark_analytics.jobs.balance import broker_loads, moments, percentile_loads, topic_loads
from spark_analytics.jobs.balance_moments import BrokerNumbers, TopicNumbers, proposal_rows
from spark_analytics.jobs.run import Computed, JobRequest, Moment, step_ms_of
from spark_analytics.progress import Steps

_MOMENTS = 300
_HOT_TOPICS = 50
_TOPICS_MAX = 100_000
"""Topics that one plan takes, the busiest."""
_PAYING = ("planned", "improved")


def settings(request: JobRequest) -> Mapping[str, Any]:
    """Numbers in the rules."""
    return {
        "percentile": request.percentile,
        "target_cv": Goal().target_cv,
        "step_s": step_ms_of(request, _MOMENTS) / 1_000,
    }


def compute(records: DataFrame, request: JobRequest, moment: Moment, steps: Steps) -> Computed:
    """Summary, moves, hot topics, and load over time."""
    step_ms = step_ms_of(request, _MOMENTS)
    brokers, topics = broker_loads(records, step_ms).cache(), topic_loads(records, step_ms).cache()
    over_time = [row.asDict() for row in moments(brokers, topics, Goal()).orderBy("moment_ms").collect()]
    steps.done(f"judged the balance at {len(over_time):,} moments")
    of_brokers, of_topics = percentile_loads(brokers, topics, request.percentile)
    largest = of_topics.orderBy(F.desc("messages_per_s"), "topic").limit(_TOPICS_MAX).collect()
    summary, moves = proposal_rows(
        [BrokerNumbers.of(row.asDict()) for row in of_brokers.collect()],
        [TopicNumbers.of(row.asDict()) for row in largest],
        Goal(),
    )
    paid = [row for row in over_time if row["verdict"] in _PAYING]
    summary |= {"percentile": request.percentile, "judged_moments": len(over_time), "paying_moments": len(paid)}
    summary |= {"paying_hours": ", ".join(_hours(paid)), "span_s": (moment.as_of_ms - moment.since_ms) / 1_000}
    hot = [
        {name: row[name] for name in ("topic", "broker_id", "messages_per_s", "bytes_per_s", "producers", "consumers")}
        for row in largest[:_HOT_TOPICS]
    ]
    tables: dict[str, list[Row]] = {
        "summary": [summary],
        "moves": moves,
        "hot_topics": hot,
        "moments": over_time,
        "brokers": _over_time(brokers),
    }
    for frame in (brokers, topics):
        frame.unpersist()
    steps.done(f"planned {len(moves)} moves for the {request.percentile:.0%} load")
    return Computed(tables=tables, totals={name: len(rows) for name, rows in tables.items()})


def _over_time(brokers: DataFrame) -> list[Row]:
    rows = brokers.select("moment_ms", "broker_id", "cores_used", "rss_bytes", "disk_used_bytes").orderBy(
        "moment_ms", "broker_id"
    )
    return [row.asDict() for row in rows.collect()]


def _hours(paid: list[Row]) -> list[str]:
    """Hours of the day, UTC, in which a rebalance would have paid, the most frequent first."""
    counts: dict[int, int] = {}
    for row in paid:
        hour = row["moment_ms"] // 3_600_000 % 24
        counts[hour] = counts.get(hour, 0) + 1
    return [f"{hour:02d}:00" for hour, _ in sorted(counts.items(), key=lambda one: (-one[1], one[0]))][:6]
