"""The job `lag` from end to end: read telemetry, judge it on Spark, publish the rows, or say why it failed."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from danube.model.errors import DanubeError, InternalError, SettingsError
from danube.model.lag.group import LagFilter
from danube.model.lag.rows import GROUPS, PARTITIONS, policy_fields
from danube.model.lag.verdict import LagPolicy
from danube.model.limits.faces import ANALYTICS_ROWS_MAX
from danube.model.records.analytics import LAG_JOB, Row, RunWriter
from danube.model.records.telemetry import TELEMETRY_TOPIC
from danube.runtime.clock import Clock
from spark_analytics.java import find_java
from spark_analytics.progress import Steps
from spark_analytics.results import Cluster

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation, SparkSession

_PUBLISHED_AFTER_MS = 60_000
"""A record is appended after the time that it tells of; far less than this later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LagRequest:
    """Parameters of a run."""

    cluster: Cluster
    run_id: str
    attempt: str
    """Of this process."""
    master: str = "local[2]"
    as_of_ms: int | None = None
    """The time to judge; None is now."""
    since_s: float
    """How much telemetry before that is read."""
    wanted: LagFilter
    publish: bool = True
    time_limit_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LagResult:
    """Result of a run."""

    run_id: str
    as_of_ms: int
    window: dict[str, Any]
    groups: list[Row]
    """The worst first, as are the partitions."""
    partitions: list[Row]
    totals: dict[str, int]
    """Rows that there were; more than there are here where the result was cut."""


def run_lag(request: LagRequest, clock: Clock, steps: Steps) -> LagResult:
    """Do the job. Raises DanubeError; a run that has told of its start tells of its failure, too."""
    check_spark()
    as_of_ms = clock.now_ms() if request.as_of_ms is None else request.as_of_ms
    request.cluster.check_telemetry()
    writer = RunWriter(run_id=request.run_id, attempt=request.attempt, job=LAG_JOB)
    window = _window(request, as_of_ms)
    with _told(request, writer, clock, as_of_ms, window):
        result = _judge_on_spark(request, as_of_ms, window, steps)
        if request.publish:
            tables = {GROUPS: result.groups, PARTITIONS: result.partitions}
            records = writer.result(clock.now_ms(), tables, totals=result.totals, window=result.window)
            request.cluster.publish(records, _producer_name(request))
            steps.done(f"published run {request.run_id} in {len(records)} records")
    return result


def check_spark() -> None:
    """Raise SettingsError, with what to do, unless PySpark and a Java for it are there."""
    if find_spec("pyspark") is None:
        raise SettingsError(
            "PySpark is not installed: `pip install 'danube-messaging[spark]'`, which brings a Java, too"
        )
    find_java()


def _window(request: LagRequest, as_of_ms: int) -> dict[str, Any]:
    return {
        "since_ms": as_of_ms - round(request.since_s * 1_000),
        "filter": asdict(request.wanted),
        "policy": policy_fields(_policy(request)),
    }


def _policy(request: LagRequest) -> LagPolicy:
    return LagPolicy(history_s=request.since_s)


@contextmanager
def _told(
    request: LagRequest, writer: RunWriter, clock: Clock, as_of_ms: int, window: dict[str, Any]
) -> Iterator[None]:
    """Say that the run started and, if it does not get to its end, that it failed."""
    if not request.publish:
        yield
        return
    name = _producer_name(request)
    started = writer.started(clock.now_ms(), as_of_ms=as_of_ms, time_limit_s=request.time_limit_s, window=window)
    try:
        request.cluster.publish([started], name)  # others may have read it before this returns, or is told to end
        yield
    except BaseException as error:
        failure = error if isinstance(error, DanubeError) else InternalError(_what_happened(error))
        record = writer.failed(clock.now_ms(), error=failure.code, detail=str(failure))
        try:
            request.cluster.publish([record], name)
        except DanubeError:  # what went wrong first says more; a reader finds the run lost
            raise error from None
        raise


def _what_happened(error: BaseException) -> str:
    return "it was interrupted" if isinstance(error, KeyboardInterrupt) else f"it failed: {type(error).__name__}"


def _producer_name(request: LagRequest) -> str:
    return f"danube-analytics-{request.attempt}"


def _judge_on_spark(request: LagRequest, as_of_ms: int, window: dict[str, Any], steps: Steps) -> LagResult:
    from pyspark.errors import PySparkException  # noqa: PLC0415 - `--help` needs no Spark

    from spark_analytics.session import spark_session  # noqa: PLC0415 - the same

    try:
        spark = spark_session(f"danube lag {request.run_id}", request.master)
        steps.done(f"Spark {spark.version} on {request.master}")
        return _judge(spark, request, as_of_ms, window, steps)
    except PySparkException as error:
        raise InternalError(f"Spark could not do it: {_first_line(error)}") from error


def _judge(
    spark: "SparkSession", request: LagRequest, as_of_ms: int, window: dict[str, Any], steps: Steps
) -> LagResult:
    from pyspark.sql import Observation  # noqa: PLC0415 - as above

    from spark_analytics.jobs.lag import Times, lag_groups, lag_partitions  # noqa: PLC0415 - as above
    from spark_analytics.telemetry import SKIPPED  # noqa: PLC0415 - as above

    policy = _policy(request)
    seen = Observation()
    records = _telemetry(spark, request, as_of_ms, seen).cache()
    count, skipped = records.count(), int(seen.get[SKIPPED])
    steps.done(f"read {count:,} telemetry records" + (f", and skipped {skipped:,} that are none" if skipped else ""))
    partitions = lag_partitions(_asked_for(records, request.wanted), Times.at(as_of_ms), policy).cache()
    totals = {PARTITIONS: partitions.count()}
    groups = lag_groups(partitions, policy).cache()
    totals[GROUPS] = groups.count()
    result = LagResult(
        run_id=request.run_id,
        as_of_ms=as_of_ms,
        window={**window, "records": count, SKIPPED: skipped},
        groups=_rows(groups),
        partitions=_rows(partitions),
        totals=totals,
    )
    for frame in (groups, partitions, records):
        frame.unpersist()
    steps.done(f"judged {totals[PARTITIONS]:,} partitions in {totals[GROUPS]:,} groups")
    return result


def _telemetry(spark: "SparkSession", request: LagRequest, as_of_ms: int, seen: "Observation") -> "DataFrame":
    from spark_analytics.telemetry import telemetry_records  # noqa: PLC0415 - as above

    options = {
        **request.cluster.source_options(),
        "topic": str(TELEMETRY_TOPIC),
        "starting_timestamp": str(as_of_ms - round(request.since_s * 1_000)),
        "ending_timestamp": str(as_of_ms + _PUBLISHED_AFTER_MS),
        "columns": "value",
    }
    return telemetry_records(spark.read.format("danube").options(**options).load(), seen)


def _asked_for(records: "DataFrame", wanted: LagFilter) -> "DataFrame":
    """Without the subscriptions that are not asked for: `LagFilter.takes`."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - as above

    from spark_analytics.jobs.lag import base_of  # noqa: PLC0415 - as above

    topic = F.col("topic")
    takes = F.lit(col=True)
    if wanted.topic is not None:
        takes &= (topic == wanted.topic) | (base_of(topic) == wanted.topic)
    if wanted.subscription is not None:
        takes &= F.col("subscription") == wanted.subscription
    if wanted.namespace is not None:
        takes &= topic.startswith(f"/{wanted.namespace}/")
    elif wanted.topic is None:
        takes &= ~topic.startswith(f"/{TELEMETRY_TOPIC.namespace}/")
    return records.where((F.col("kind") != "subscription") | takes)


def _rows(found: "DataFrame") -> list[Row]:
    from spark_analytics.jobs.lag import worst_first  # noqa: PLC0415 - as above

    rows = worst_first(found).limit(ANALYTICS_ROWS_MAX).drop("as_of_ms").collect()
    return [row.asDict() for row in rows]


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)[:300]
