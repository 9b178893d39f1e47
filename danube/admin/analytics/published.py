"""Results that jobs published, read from the system topic: `danube/model/records/analytics.py`."""

import logging
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from danube.admin.gateway import AdminGateway
from danube.model.errors import InvalidRequestError
from danube.model.lag.group import GroupLag, LagFilter, PartitionLag, groups_of
from danube.model.lag.rows import GROUPS, PARTITIONS, group_of, partition_of
from danube.model.lag.verdict import LagPolicy
from danube.model.limits.faces import ANALYTICS_KEEP_S, ANALYTICS_RECORDS_MAX
from danube.model.records.analytics import ANALYTICS_TOPIC, LAG_JOB, Run, decode_record, newest_result, runs_of
from danube.runtime.clock import Clock

_log = logging.getLogger(__name__)


async def published_runs(gateway: AdminGateway, clock: Clock) -> list[Run]:
    """Every run of the last days, the newest first. Raises UnsupportedError for the original's brokers, DanubeError."""
    now_ms = clock.now_ms()
    since_ms = max(0, now_ms - round(ANALYTICS_KEEP_S * 1_000))
    stored = await gateway.system_records(ANALYTICS_TOPIC, since_ms=since_ms, limit=ANALYTICS_RECORDS_MAX)
    records = [record for each in stored if (record := decode_record(each.payload)) is not None]
    if len(records) < len(stored):
        _log.info("%d of %d records are no results and are left out", len(stored) - len(records), len(stored))
    return runs_of(records, now_ms)


def newest_lag(runs: Iterable[Run], wanted: LagFilter) -> Run | None:
    """The finished lag result of the latest time that has what is asked for."""
    return newest_readable((run for run in runs if (given := _filter_of(run)) and given.covers(wanted)), LAG_JOB)


def newest_readable(runs: Iterable[Run], job: str) -> Run | None:
    """The finished result of the latest time; one whose rows are none is left out."""
    left = list(runs)
    while (run := newest_result(left, job)) is not None:
        if job != LAG_JOB:
            return run
        try:
            lag_of(run, LagFilter())
        except InvalidRequestError as error:
            _log.info("run %s is left out: %s", run.run_id, error)
            left.remove(run)
        else:
            return run
    return None


def lag_of(run: Run, wanted: LagFilter) -> tuple[list[GroupLag], list[PartitionLag]]:
    """The part of a lag result that is asked for, the worst groups first. Raises InvalidRequestError for rows that are
    none.
    """
    partitions = [partition_of(row) for row in run.tables.get(PARTITIONS, ())]
    groups = [group_of(row) for row in run.tables.get(GROUPS, ())]
    plain = {one.topic for one in groups}
    wanted = replace(wanted, plain=plain)
    kept = [one for one in partitions if wanted.takes(one.topic, one.subscription)]
    asked = [one for one in groups if wanted.takes(one.topic, one.subscription)]
    return asked or groups_of(kept, LagPolicy(), plain), kept


def _filter_of(run: Run) -> LagFilter | None:
    """The filter that a run was given; None where it does not say so."""
    given = run.window.get("filter")
    if not isinstance(given, dict):
        return None
    values: dict[str, Any] = {name: given.get(name) for name in ("topic", "subscription", "namespace")}
    return LagFilter(**values) if all(value is None or isinstance(value, str) for value in values.values()) else None
