"""One run of a job from end to end: read telemetry, compute on Spark, publish the rows, or say why it failed."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from danube.model.errors import DanubeError, InternalError, InvalidRequestError, SettingsError
from danube.model.lag.group import LagFilter
from danube.model.limits.faces import ANALYTICS_ROWS_MAX, ANALYTICS_RUN_GRACE_S
from danube.model.records.analytics import AnalyticsJob, Row, RunWriter
from danube.model.records.telemetry import TELEMETRY_TOPIC
from danube.model.text import install_text
from danube.runtime.clock import Clock
from danube.runtime.process import signals_held
from spark_analytics.java import find_java
from spark_analytics.progress import Steps
from spark_analytics.results import Cluster

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PUBLISHED_AFTER_MS = 60_000
"""A record is appended after the time that it tells of; far less than this later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest:
    """Parameters of a run."""

    cluster: Cluster
    run_id: str
    attempt: str
    """Of this process."""
    job: AnalyticsJob = AnalyticsJob.LAG
    master: str = "local[2]"
    as_of_ms: int | None = None
    """The time to judge; None is now."""
    since_s: float
    """How much telemetry before that is read."""
    step_s: float | None = None
    """Between two moments that are judged; None leaves it to the job."""
    percentile: float = 0.95
    """Of the load that `balance` plans for."""
    table: Path | None = None
    """Folder that `ingest` wrote, which is read in place of the topic."""
    wanted: LagFilter
    publish: bool = True
    time_limit_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Computed:
    """Answer of a job: its tables, each with the number of rows that there were."""

    tables: dict[str, list[Row]]
    totals: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobResult:
    """Result of a run."""

    run_id: str
    job: str
    as_of_ms: int
    window: dict[str, Any]
    tables: dict[str, list[Row]]
    """The most important rows of each first."""
    totals: dict[str, int]
    """Rows that there were; more than there are here where the result was cut."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """Bounds of a run in time."""

    since_ms: int
    as_of_ms: int


class JobModule(Protocol):
    """Module of a job: `spark_analytics/jobs/<job>_run.py`."""

    def settings(self, request: JobRequest) -> Mapping[str, Any]:
        """Numbers in the rules, for the `window` of the result."""

    def compute(self, records: "DataFrame", request: JobRequest, moment: Moment, steps: Steps) -> Computed:
        """Tables from telemetry records."""


def run_job(request: JobRequest, clock: Clock, steps: Steps) -> JobResult:
    """Do the job. Raises DanubeError; a run that has told of its start tells of its failure, too."""
    check_spark()
    module: JobModule = import_module(f"spark_analytics.jobs.{request.job}_run")
    as_of_ms = clock.now_ms() if request.as_of_ms is None else request.as_of_ms
    unread = request.cluster.check_telemetry() if request.table is None or request.publish else []
    writer = RunWriter(run_id=request.run_id, attempt=request.attempt, job=request.job)
    moment = Moment(since_ms=as_of_ms - round(request.since_s * 1_000), as_of_ms=as_of_ms)
    window = {"since_ms": moment.since_ms, "filter": asdict(request.wanted), "policy": module.settings(request)}
    if unread and request.table is None:
        window["unread"] = unread
        steps.done(f"leaves out {', '.join(unread)}: no broker that runs serves it")
    with _told(request, writer, clock, as_of_ms, window):
        result = _on_spark(module, request, moment, window, steps)
        if request.publish:
            records = writer.result(clock.now_ms(), result.tables, totals=result.totals, window=result.window)
            request.cluster.publish(records, _producer_name(request))
            steps.done(f"published run {request.run_id} in {len(records)} records")
    return result


def check_spark() -> None:
    """Raise SettingsError, with what to do, unless PySpark and a Java for it are there."""
    if find_spec("pyspark") is None:
        raise SettingsError(f"PySpark is not installed: {install_text('spark')}, which brings a Java, too")
    find_java()


@contextmanager
def _told(
    request: JobRequest, writer: RunWriter, clock: Clock, as_of_ms: int, window: dict[str, Any]
) -> Iterator[None]:
    """Say that the run started and, if it does not get to its end, that it failed."""
    if not request.publish:
        yield
        return
    name = _producer_name(request)
    started = writer.started(clock.now_ms(), as_of_ms=as_of_ms, time_limit_s=request.time_limit_s, window=window)
    try:
        with signals_held(alarm_grace_s=ANALYTICS_RUN_GRACE_S):  # the client takes it for a failure of its call
            request.cluster.publish([started], name)
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


def _producer_name(request: JobRequest) -> str:
    return f"danube-analytics-{request.attempt}"


def _on_spark(
    module: JobModule, request: JobRequest, moment: Moment, window: dict[str, Any], steps: Steps
) -> JobResult:
    from py4j.protocol import Py4JError  # noqa: PLC0415 - `--help` needs no Spark
    from pyspark.errors import PySparkException  # noqa: PLC0415 - the same

    from spark_analytics.session import spark_session  # noqa: PLC0415 - the same

    try:
        # A table is months of history: the second compiler, which a short job leaves out, pays.
        options = {"spark.driver.extraJavaOptions": ""} if request.table is not None else {}
        spark = spark_session(f"danube {request.job} {request.run_id}", request.master, **options)
        steps.done(f"Spark {spark.version} on {request.master}")
        records, counts = _telemetry(spark, request, moment, steps)
        computed = module.compute(_asked_for(records, request.wanted), request, moment, steps)
        records.unpersist()
    except (PySparkException, Py4JError) as error:  # the second where Spark itself goes away
        raise InternalError(f"Spark could not do it: {_first_line(error)}") from error
    return JobResult(
        run_id=request.run_id,
        job=request.job,
        as_of_ms=moment.as_of_ms,
        window={**window, **counts},
        tables={name: rows[:ANALYTICS_ROWS_MAX] for name, rows in computed.tables.items()},
        totals=computed.totals,
    )


def _telemetry(
    spark: "SparkSession", request: JobRequest, moment: Moment, steps: Steps
) -> tuple["DataFrame", dict[str, int]]:
    """Records of the time that is judged, from the table or from the topic, and how many there are."""
    from pyspark.sql import Observation  # noqa: PLC0415 - as above

    from spark_analytics.telemetry import SKIPPED, telemetry_records  # noqa: PLC0415 - as above

    if request.table is not None:
        from spark_analytics.ingest.tables import read_table  # noqa: PLC0415 - as above

        # Not cached: a scan of the columns that are wanted costs less than all columns in memory.
        records = read_table(spark, request.table, moment.since_ms, moment.as_of_ms)
        counts = {"records": records.count()}
        steps.done(f"read {counts['records']:,} records of {request.table}")
        return records, counts
    options = {
        **request.cluster.telemetry_options(),
        "starting_timestamp": str(moment.since_ms),
        "ending_timestamp": str(moment.as_of_ms + _PUBLISHED_AFTER_MS),
    }
    seen = Observation()
    records = telemetry_records(spark.read.format("danube").options(**options).load(), seen).cache()
    counts = {"records": records.count(), SKIPPED: int(seen.get[SKIPPED])}
    skipped = f", and skipped {counts[SKIPPED]:,} that are none" if counts[SKIPPED] else ""
    steps.done(f"read {counts['records']:,} telemetry records{skipped}")
    return records, counts


def _asked_for(records: "DataFrame", wanted: LagFilter) -> "DataFrame":
    """Without the topics and subscriptions that are not asked for: `LagFilter.takes`."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - as above

    from spark_analytics.jobs.lag import base_of, plain_topics  # noqa: PLC0415 - as above

    topic = F.col("topic")
    takes = F.lit(col=True)
    if wanted.topic is not None:
        takes &= (topic == wanted.topic) | (base_of(topic, plain_topics(records)) == wanted.topic)
    if wanted.subscription is not None:
        takes &= F.coalesce(F.col("subscription") == wanted.subscription, F.lit(col=True))
    if wanted.namespace is not None:
        takes &= topic.startswith(f"/{wanted.namespace}/")
    elif wanted.topic is None:
        takes &= ~topic.startswith(f"/{TELEMETRY_TOPIC.namespace}/")
    return records.where((F.col("kind") == "broker") | takes)


def step_ms_of(request: JobRequest, moments: int) -> int:
    """Time between two moments: as asked for, or so that there are about so many, in whole minutes."""
    step_s = request.step_s if request.step_s is not None else max(60.0, 60.0 * round(request.since_s / moments / 60))
    if request.since_s / step_s > 50_000:
        raise InvalidRequestError(
            "--every asks for more than 50,000 moments: make it longer, or read less with --since"
        )
    return round(step_s * 1_000)


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)[:300]
