"""Results that jobs published, read from the system topic: `danube/model/analytics.py`."""

from dataclasses import dataclass, field

from danube.admin.gateway import AdminGateway
from danube.model.analytics import ANALYTICS_TOPIC, LAG_JOB, Run, decode_record, newest_result, runs_of
from danube.model.errors import InvalidRequestError
from danube.model.face_limits import ANALYTICS_KEEP_S, ANALYTICS_RECORDS_MAX
from danube.model.lag_group import GroupLag, LagFilter, PartitionLag, groups_of
from danube.model.lag_rows import GROUPS, PARTITIONS, group_of, partition_of
from danube.model.lag_verdict import LagPolicy
from danube.runtime.clock import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedLag:
    """A finished lag result, or the part of it that was asked for."""

    run: Run
    groups: list[GroupLag]
    """The worst first."""
    partitions: list[PartitionLag]
    policy: LagPolicy = field(default_factory=LagPolicy)


async def published_runs(gateway: AdminGateway, clock: Clock) -> list[Run]:
    """Every run of the last days, the newest first. Raises UnsupportedError for the original's brokers, DanubeError."""
    now_ms = clock.now_ms()
    since_ms = max(0, now_ms - round(ANALYTICS_KEEP_S * 1_000))
    stored = await gateway.system_records(ANALYTICS_TOPIC, since_ms=since_ms, limit=ANALYTICS_RECORDS_MAX)
    records = (decode_record(each.payload) for each in stored)
    return runs_of((record for record in records if record is not None), now_ms)


def newest_lag(runs: list[Run], wanted: LagFilter) -> Run | None:
    """The finished lag result of the latest time that has what is asked for."""
    return newest_result([run for run in runs if _filter_of(run).covers(wanted)], LAG_JOB)


def lag_of(run: Run, wanted: LagFilter) -> PublishedLag:
    """What a lag result says of what is asked for. Raises InvalidRequestError for rows that are none."""
    policy = LagPolicy()
    partitions = [partition_of(row) for row in run.tables.get(PARTITIONS, ())]
    groups = [group_of(row) for row in run.tables.get(GROUPS, ())]
    kept = [one for one in partitions if wanted.takes(one.topic, one.subscription)]
    asked = [one for one in groups if wanted.takes(one.topic, one.subscription)]
    return PublishedLag(run=run, groups=asked or groups_of(kept, policy), partitions=kept, policy=policy)


def _filter_of(run: Run) -> LagFilter:
    """What the run was asked for."""
    given = run.window.get("filter")
    if not isinstance(given, dict):
        return LagFilter(subscription="")  # of no subscription: the record does not say what it holds
    values = {name: given.get(name) for name in ("topic", "subscription", "namespace")}
    if not all(value is None or isinstance(value, str) for value in values.values()):
        raise InvalidRequestError(f"run {run.run_id} does not say what it was asked for")
    return LagFilter(**values)
