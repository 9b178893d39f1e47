"""get_metrics and get_broker_logs: each source, filters, and brokers that do not answer."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from danube.admin.access import Guard
from danube.admin.analytics.metric_ranges import NAMES
from danube.admin.execution import Session, execute, parse_arguments
from danube.admin.gateway import PromQuery, PromSeries
from danube.admin.operations import operation_of
from danube.admin.operations.cluster.metrics import MetricRow
from danube.admin.present import cell
from danube.model.calls.inspection import LogLevel, LogRecord, MetricSample
from danube.model.errors import InvalidRequestError, NotFoundError, PreconditionFailedError, UnsupportedError
from danube.model.plans.plan import Caller, Face
from danube.model.records.telemetry import TELEMETRY_TOPIC, BrokerReading, Stamp, TopicReading, encode_record
from danube.testing.simulated.clock import START_MS, SimClock
from tests.faces.memory_gateway import MemoryGateway
from tests.faces.seeded import BROKER_ID, ORDERS, seeded_gateway


async def asked(gateway: MemoryGateway, name: str, **arguments: Any) -> dict[str, Any]:
    operation = operation_of(name)
    session = Session(gateway=gateway, caller=Caller(who="ada@desk", face=Face.CLI), clock=gateway.clock, guard=Guard())
    return (await execute(session, operation, parse_arguments(operation, arguments))).model_dump(mode="json")


def at_noon() -> MemoryGateway:
    return seeded_gateway(SimClock())


# Of the brokers


async def test_brokers_tell_their_metrics_with_their_ids_as_labels() -> None:
    gateway = at_noon()
    answer = await asked(gateway, "get_metrics", metric="danube_topic_", topic=str(ORDERS))
    assert answer["source"] == "brokers"
    (row,) = answer["metrics"]
    assert row["series"] == f'danube_topic_active_subscriptions{{broker="{BROKER_ID}", topic="{ORDERS}"}}'
    assert row["value"] == len(gateway.cluster.get(ORDERS).subscriptions)


async def test_a_broker_that_does_not_answer_is_named_and_the_others_are_told() -> None:
    gateway = at_noon()
    gateway.cluster.brokers.append(replace(gateway.cluster.brokers[0], broker_id="2"))
    gateway.silent_brokers["2"] = "no broker answers at http://b2"
    answer = await asked(gateway, "get_metrics")
    assert answer["not_answered"] == ["broker 2: no broker answers at http://b2"]
    assert answer["metrics"]
    assert (await asked(gateway, "get_broker_logs"))["not_answered"] == answer["not_answered"]


async def test_people_read_numbers_to_four_digits_and_programs_all_of_them() -> None:
    row = MetricRow(series="x", value=0.005116483134, minimum=12_345.678, maximum=40.0, per_second=1.23456)
    assert row.words() == {"value": "0.005116", "minimum": "12,346", "maximum": "40", "per_second": "1.235"}
    assert row.model_dump(mode="json")["value"] == 0.005116483134
    assert (cell(0.00512), cell(0.0), cell(12.34)) == ("0.00512", "0.0", "12.3")


async def test_infinity_and_no_number_are_null() -> None:
    gateway = at_noon()
    gateway.samples[BROKER_ID] = [MetricSample(name="x_nan", value=float("nan")), MetricSample(name="x", value=1.5)]
    rows = (await asked(gateway, "get_metrics", metric="x"))["metrics"]
    assert [(row["series"], row["value"]) for row in rows] == [
        (f'x_nan{{broker="{BROKER_ID}"}}', None),
        (f'x{{broker="{BROKER_ID}"}}', 1.5),
    ]


async def test_a_broker_or_metric_that_cannot_be_is_refused() -> None:
    with pytest.raises(NotFoundError, match="no broker '77'"):
        await asked(at_noon(), "get_metrics", broker_id="77")
    with pytest.raises(InvalidRequestError, match="metric"):
        await asked(at_noon(), "get_metrics", metric="rate(x[5m])")
    original = at_noon()
    original.is_original = True
    with pytest.raises(UnsupportedError):
        await asked(original, "get_metrics")


# Of telemetry

_OF_TOPIC = TopicReading(
    topic=str(ORDERS), topic_id="7", strategy="reliable", partition_base=None, partition_index=None, messages_in=0,
    bytes_in=0, producers=1, subscriptions=1, consumers=0,
)  # fmt: skip


def publish(gateway: MemoryGateway, second: int, messages: int, start_id: str = "a") -> None:
    stamp = Stamp(broker_id="1", start_id=start_id, sequence=second, at_ms=START_MS + second * 1_000, full=False)
    gateway.publish_system(TELEMETRY_TOPIC, encode_record(stamp, _OF_TOPIC._replace(messages_in=messages)))


async def test_a_range_has_points_bounds_and_the_rate_of_a_counter_over_a_restart() -> None:
    gateway = at_noon()
    for second, messages, start in ((0, 100, "a"), (10, 200, "a"), (20, 50, "b")):
        publish(gateway, second, messages, start)
    gateway.publish_system(TELEMETRY_TOPIC, b"no telemetry", b'{"version": 1, "kind": "topic"}')
    answer = await asked(gateway, "get_metrics", metric="danube_topic_messages_in_total", last="15m")
    assert answer["source"] == "telemetry"
    (row,) = answer["metrics"]
    assert row["series"] == f'danube_topic_messages_in_total{{broker="1", topic="{ORDERS}"}}'
    assert (row["value"], row["minimum"], row["maximum"]) == (50, 50, 200)
    assert row["per_second"] == pytest.approx((100 + 50) / 20)
    assert [point["value"] for point in row["points"]] == [100, 200, 50]


async def test_a_range_is_thinned_out_and_keeps_its_newest_point() -> None:
    gateway = at_noon()
    for second in range(200):
        publish(gateway, second, second)
    (row,) = (await asked(gateway, "get_metrics", metric="danube_topic_messages_in", last="1h"))["metrics"]
    assert len(row["points"]) <= 60
    assert row["points"][-1]["value"] == row["value"] == 199


async def test_a_range_of_another_broker_or_topic_is_empty() -> None:
    gateway = at_noon()
    publish(gateway, 0, 1)
    assert (await asked(gateway, "get_metrics", topic="/default/other", last="1m"))["metrics"] == []
    assert (await asked(gateway, "get_metrics", broker_id="2", last="1m"))["metrics"] == []


def test_the_names_of_ranges_are_those_of_the_metrics_port() -> None:
    reference = (Path(__file__).parents[3] / "docs" / "metrics.md").read_text()
    named = {name for names in NAMES.values() for name, _ in names.values() if name.startswith("danube_")}
    assert [name for name in named if f"`{name}`" not in reference] == []
    assert all(set(names) <= set(kind._fields) for kind, names in NAMES.items())
    assert BrokerReading in NAMES


# Of a Prometheus


async def test_a_query_goes_to_prometheus_as_it_is() -> None:
    gateway = at_noon()
    gateway.prom_series = [PromSeries(labels={"__name__": "up", "job": 'a"b'}, points=[(START_MS, 1.0)])]
    answer = await asked(gateway, "get_metrics", query="up")
    assert answer["source"] == "prometheus"
    assert [(row["series"], row["value"]) for row in answer["metrics"]] == [('up{job="a\\"b"}', 1.0)]
    gateway.prom_series = [PromSeries(labels={}, points=[(START_MS, 1.0), (START_MS + 60_000, 3.0)])]
    (row,) = (await asked(gateway, "get_metrics", query="sum(up)", last="1h"))["metrics"]
    assert (row["value"], row["minimum"], len(row["points"])) == (3, 1, 2)
    assert gateway.prom_queries == [
        PromQuery(query="up"),
        PromQuery(query="sum(up)", start_ms=START_MS - 3_600_000, end_ms=START_MS, step_s=60),
    ]


async def test_a_query_without_prometheus_or_with_filters_says_what_to_do() -> None:
    with pytest.raises(PreconditionFailedError, match="DANUBE_ADMIN_PROMETHEUS"):
        await asked(at_noon(), "get_metrics", query="up")
    with pytest.raises(InvalidRequestError, match="put topic into the expression"):
        await asked(at_noon(), "get_metrics", query="up", topic=str(ORDERS))


# Logs


def record(second: int, level: LogLevel, text: str) -> LogRecord:
    return LogRecord(time_ms=START_MS + second * 1_000, level=level, logger="danube.x", text=text)


async def test_logs_are_found_by_level_topic_and_time() -> None:
    gateway = at_noon()
    gateway.log_records = [
        record(-3_600, LogLevel.ERROR, "an hour ago"),
        record(-20, LogLevel.INFO, f"{ORDERS} opens"),
        record(-10, LogLevel.DEBUG, "details"),
        record(-5, LogLevel.WARNING, f"{ORDERS} is slow"),
    ]

    async def texts(**arguments: Any) -> list[str]:
        return [row["text"] for row in (await asked(gateway, "get_broker_logs", **arguments))["records"]]

    assert await texts() == ["an hour ago", f"{ORDERS} opens", f"{ORDERS} is slow"]
    assert await texts(level="warning") == ["an hour ago", f"{ORDERS} is slow"]
    assert await texts(last="1m", topic=str(ORDERS)) == [f"{ORDERS} opens", f"{ORDERS} is slow"]
    assert await texts(limit=1) == [f"{ORDERS} is slow"]
    assert await texts(until_ms=START_MS - 5_000) == ["an hour ago", f"{ORDERS} opens"]
