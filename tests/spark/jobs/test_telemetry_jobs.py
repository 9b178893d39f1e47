"""Tables of telemetry and the jobs on them, on one course of two brokers with an incident in it."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from danube.model.lag.alerts import IncidentCause
from danube.model.lag.group import LagFilter
from danube.model.records.analytics import AnalyticsJob
from danube.model.records.telemetry import (
    BrokerReading,
    Reading,
    Stamp,
    SubscriptionReading,
    TopicReading,
    encode_record,
)
from danube.report.document import html, markdown
from danube.runtime.clock import SystemClock
from spark_analytics.incidents.kinds import START_MS, scenario
from spark_analytics.ingest.request import TableFormat
from spark_analytics.ingest.tables import ParquetTable, read_table, table_at
from spark_analytics.jobs import balance_run, capacity_run, forecast_run, history_run
from spark_analytics.jobs.run import Computed, JobRequest, JobResult, Moment
from spark_analytics.progress import Steps
from spark_analytics.results import Cluster
from spark_analytics.telemetry import RAW, typed_records

pytestmark = pytest.mark.slow

HOUR_MS = 3_600_000
MINUTES = 60


def course() -> list[tuple[Stamp, Reading]]:
    """An hour: a subscription whose consumer goes, a healthy one, two brokers, of which one has most of the load."""
    found = list(scenario("consumer gone", 1).records)
    for stamp, reading in scenario("steady", 2).records:
        if isinstance(reading, SubscriptionReading):
            healthy = reading._replace(topic="/default/healthy", topic_id="99", subscription="healthy")
            found.append((replace(stamp, start_id=f"{stamp.start_id}-healthy"), healthy))
    for minute in range(MINUTES):
        at_ms = START_MS + 60_000 * minute
        for broker, share in (("11", 0.7), ("12", 0.1)):
            stamp = Stamp(broker_id=broker, start_id=broker, sequence=10 * minute, at_ms=at_ms, full=True)
            found.append((stamp, broker_reading(60.0 * minute * share)))
            for number in range(3 if broker == "11" else 1):
                name = f"/default/t{broker}-{number}"
                of_topic = Stamp(
                    broker_id=broker, start_id=broker, sequence=10 * minute + 1 + number, at_ms=at_ms, full=True
                )
                found.append((of_topic, topic_reading(name, 30_000 * minute)))
    return found


def broker_reading(cpu_s: float) -> BrokerReading:
    return BrokerReading(
        broker_version="1", uptime_s=1.0, topics=3, subscriptions=0, producers=3, consumers=0, cpu_s=cpu_s,
        rss_bytes=10**8, journal_rounds=1, journal_failed_rounds=0, journal_bytes_written=1, journal_size_bytes=1_000,
        journal_backlog_bytes=0, journal_last_round_ms=1.0, journal_stopped=False, segment_bytes=10**6,
        disk_free_bytes=10**9,
    )  # fmt: skip


def topic_reading(name: str, count: int) -> TopicReading:
    return TopicReading(
        topic=name, topic_id="1", strategy="reliable", partition_base=None, partition_index=None, messages_in=count,
        bytes_in=100 * count, producers=1, subscriptions=0, consumers=0, start_offset=0, head=count, log_bytes=count,
    )  # fmt: skip


@pytest.fixture(scope="module")
def messages(spark: SparkSession) -> Iterator[DataFrame]:
    records = [(bytearray(encode_record(stamp, reading)),) for stamp, reading in course()]
    newer = (
        encode_record(*course()[0]).replace(b'"version":1', b'"colour":"blue","version":1').replace(b'"1-0"', b'"1-9"')
    )
    frame = spark.createDataFrame([*records, (bytearray(newer),)], "value BINARY").cache()
    yield frame
    frame.unpersist()


@pytest.fixture(scope="module")
def table(messages: DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("table")
    stored = ParquetTable(folder)
    rows = typed_records(messages)
    assert stored.append(rows, 0) == messages.count()
    assert stored.append(rows, 0) == 0  # the same micro-batch again
    assert stored.append(rows.limit(10), 1) == 10  # delivered twice
    for batch in range(2, 6):
        stored.append(rows.limit(3), batch)
    return folder


def test_a_table_has_each_record_once_after_compaction_and_keeps_what_it_does_not_know(
    spark: SparkSession, messages: DataFrame, table: Path
) -> None:
    stored = ParquetTable(table)
    files = len(list(table.glob("data/*/day=*/*.parquet")))
    assert files >= 6
    assert stored.compact(spark) > 0
    rows = stored.read(spark, None)
    assert rows.count() == messages.count()
    (newer,) = rows.where(f"{RAW} IS NOT NULL").collect()
    assert '"colour":"blue"' in newer.raw
    assert stored.last_batch() == 5
    hour = read_table(spark, table, START_MS, START_MS + HOUR_MS // 2)
    assert 0 < hour.count() < messages.count()
    assert ParquetTable(table).vacuum(now_s=4e9) > 0
    assert stored.read(spark, None).count() == messages.count()


@pytest.mark.parametrize("form", [TableFormat.DELTA, TableFormat.ICEBERG])
def test_delta_and_iceberg_tables_take_a_micro_batch_once(
    spark: SparkSession, messages: DataFrame, form: TableFormat, tmp_path: Path
) -> None:
    stored = table_at(tmp_path / "t", form)
    rows = typed_records(messages.limit(50))
    assert [stored.append(rows, 0), stored.append(rows, 0), stored.append(rows, 1)] == [50, 0, 50]
    again = table_at(tmp_path / "t")
    assert again.last_batch() == 1
    assert again.read(spark, ["2025-06-15"]).count() == 100
    assert again.read(spark, ["2025-01-01"]).count() == 0
    again.retain("2030-01-01")
    assert again.read(spark, None).count() == 0


def request(job: AnalyticsJob, table: Path) -> JobRequest:
    return JobRequest(
        cluster=Cluster(service_url=""), run_id="r", attempt="a", job=job, since_s=3_600, step_s=300, table=table,
        wanted=LagFilter(), time_limit_s=60,
    )  # fmt: skip


def compute(spark: SparkSession, module: Any, job: AnalyticsJob, table: Path, step_s: float = 300) -> JobResult:
    moment = Moment(since_ms=START_MS, as_of_ms=START_MS + HOUR_MS)
    wanted = replace(request(job, table), step_s=step_s)
    records = read_table(spark, table, moment.since_ms, moment.as_of_ms).dropDuplicates(
        ["broker_id", "start_id", "sequence"]
    )
    found: Computed = module.compute(records, wanted, moment, Steps(SystemClock(), shown=False))
    window = {"since_ms": START_MS, "records": 1, **module.settings(wanted)}
    result = JobResult(
        run_id="r", job=job, as_of_ms=moment.as_of_ms, window=window,
        tables=found.tables, totals=found.totals,
    )  # fmt: skip
    page = html(result)
    assert page.count("<svg") >= 1
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "<script" not in page
    assert markdown(result).startswith(f"# {job.capitalize()} report")
    return result


def test_balance_says_what_the_load_manager_says(spark: SparkSession, table: Path) -> None:
    found = compute(spark, balance_run, AnalyticsJob.BALANCE, table).tables
    (summary,) = found["summary"]
    assert summary["cv_before"] == pytest.approx(0.75, abs=0.01)  # 70 and 10 on a mean of 40
    assert [(move["source"], move["target"]) for move in found["moves"]] == [("11", "12")]
    assert {row["verdict"] for row in found["moments"][1:]} <= {"planned", "improved"}  # three topics divide so far
    assert found["hot_topics"][0]["messages_per_s"] == pytest.approx(500, rel=0.01)


@pytest.mark.parametrize("step_s", [60, 300])
def test_history_finds_the_incident_from_its_first_evidence_whatever_the_step(
    spark: SparkSession, table: Path, step_s: int
) -> None:
    found = compute(spark, history_run, AnalyticsJob.HISTORY, table, step_s).tables
    (label,) = scenario("consumer gone", 1).labels
    (incident,) = found["incidents"]
    assert (incident["cause"], incident["subscription"]) == (IncidentCause.CONSUMER_GONE, "billing")
    assert label.began_ms < incident["began_ms"] < label.began_ms + 1_000
    assert "consumer gone (offset " in incident["sentence"]
    assert incident["next_step"].startswith("start a consumer, unless one comes at set times; ")


def test_capacity_and_forecast_answer_with_an_interval_or_say_that_they_cannot(
    spark: SparkSession, table: Path
) -> None:
    rows = compute(spark, capacity_run, AnalyticsJob.CAPACITY, table).tables["brokers"]
    assert {(row["broker_id"], row["resource"]) for row in rows} >= {("11", "cpu"), ("12", "disk")}
    series = compute(spark, forecast_run, AnalyticsJob.FORECAST, table).tables
    rate = next(row for row in series["series"] if row["name"] == "/default/t11-0: messages/s")
    assert rate["next_hour"] == pytest.approx(500, rel=0.05)
    assert any(row["high"] is not None for row in series["forecast"])
