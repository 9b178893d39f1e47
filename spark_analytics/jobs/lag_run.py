"""The job `lag`: every subscription at the time that is judged, and with `--every` at the moments before it."""

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame

from danube.model.lag.history import Times
from danube.model.lag.rows import GROUPS, PARTITIONS, policy_fields
from danube.model.lag.verdict import LagPolicy
from danube.model.limits.faces import ANALYTICS_ROWS_MAX
from danube.model.records.analytics import Row
from danube.model.text import count_text
from spark_analytics.jobs.lag import lag_groups, lag_partitions, plain_topics, worst_first
from spark_analytics.jobs.run import Computed, JobRequest, Moment
from spark_analytics.progress import Steps


def settings(request: JobRequest) -> Mapping[str, Any]:
    """Numbers in the rules."""
    return policy_fields(_policy(request))


def compute(records: DataFrame, request: JobRequest, moment: Moment, steps: Steps) -> Computed:
    """Partitions and groups at the time that is judged."""
    policy = _policy(request)
    partitions = lag_partitions(records, Times.at(moment.as_of_ms), policy).cache()
    totals = {PARTITIONS: partitions.count()}
    groups = lag_groups(partitions, policy, plain_topics(records)).cache()
    totals[GROUPS] = groups.count()
    tables = {GROUPS: _rows(groups), PARTITIONS: _rows(partitions)}
    for frame in (groups, partitions):
        frame.unpersist()
    steps.done(f"judged {count_text(totals[PARTITIONS], 'partition')} in {count_text(totals[GROUPS], 'group')}")
    return Computed(tables=tables, totals=totals)


def _policy(request: JobRequest) -> LagPolicy:
    return LagPolicy(history_s=request.since_s)


def _rows(found: DataFrame) -> list[Row]:
    rows = worst_first(found).limit(ANALYTICS_ROWS_MAX).drop("as_of_ms").collect()
    return [row.asDict() for row in rows]
