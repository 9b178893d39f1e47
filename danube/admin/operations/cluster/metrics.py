"""get_metrics: numbers of the brokers themselves, of telemetry over a time, or of a Prometheus."""

import math
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Annotated

from pydantic import Field, StringConstraints

from danube.admin.analytics.metric_ranges import Range, read_ranges, summary_of
from danube.admin.gateway import PromQuery, PromSeries, not_answered
from danube.admin.operations.fields import (
    VOLATILE,
    WIDE,
    BrokerText,
    NotAnswered,
    PageParams,
    PageResult,
    Result,
    SpanS,
    TopicText,
)
from danube.admin.operations.operation import Call, Example, Listing, Operation
from danube.model.calls.inspection import ReadMetrics
from danube.model.errors import InvalidRequestError
from danube.model.limits.inspection import (
    METRIC_POINTS_MAX,
    METRIC_RANGE_S_MAX,
    METRICS_READ_MAX,
    PROMQL_CHARS_MAX,
)
from danube.model.plans.plan import Effect
from danube.model.text import number_text
from danube.model.topic import TopicName

MetricText = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_:][A-Za-z0-9_:]*$", max_length=200)]
BROKER = "broker"
"""The label that tells brokers apart, as the original's metrics have it."""


class MetricsParams(PageParams):
    """Metrics to read; without `query` the brokers tell them themselves."""

    metric: MetricText | None = Field(
        default=None, description="Name of a metric, or the beginning of names such as `danube_topic_`."
    )
    topic: TopicText | None = Field(default=None, description="Only of this topic, and of its partitions.")
    broker_id: BrokerText | None = Field(default=None, title="Broker", description="Only of this broker.")
    last: Annotated[SpanS, Field(ge=1, le=METRIC_RANGE_S_MAX)] | None = Field(
        default=None, description="A range up to now, such as 15m or 2h, from telemetry; without it, this moment."
    )
    query: Annotated[str, StringConstraints(min_length=1, max_length=PROMQL_CHARS_MAX)] | None = Field(
        default=None, description="PromQL, answered by the Prometheus that is configured."
    )


class MetricSource(StrEnum):
    """Source of the numbers."""

    BROKERS = "brokers"
    TELEMETRY = "telemetry"
    PROMETHEUS = "prometheus"


class Point(Result):
    """One number of a range."""

    at_ms: Annotated[int, VOLATILE] = Field(description="Milliseconds since the epoch.")
    value: Annotated[float | None, VOLATILE] = Field(description="The number; null where it is none.")


class MetricRow(Result):
    """One series."""

    series: Annotated[str, VOLATILE] = Field(description="Name and labels, as in PromQL.")
    value: Annotated[float | None, VOLATILE] = Field(description="The newest number; null where it is none.")
    minimum: Annotated[float | None, VOLATILE, WIDE] = Field(default=None, description="Of the range.")
    maximum: Annotated[float | None, VOLATILE, WIDE] = Field(default=None, description="Of the range.")
    per_second: Annotated[float | None, VOLATILE] = Field(
        default=None, title="Per second", description="Increase of a counter over the range; null for others."
    )
    points: Annotated[list[Point], VOLATILE, WIDE] = Field(default_factory=list, description="The range, thinned out.")

    def words(self) -> Mapping[str, str]:
        values = {name: getattr(self, name) for name in ("value", "minimum", "maximum", "per_second")}
        return {name: number_text(value) for name, value in values.items() if value is not None}


class MetricList(PageResult):
    """Series, sorted by name."""

    source: MetricSource = Field(description="`brokers`, `telemetry` or `prometheus`.")
    as_of_ms: Annotated[int, VOLATILE] = Field(description="The moment, or the end of the range.")
    left_out: int = Field(description="Series that were too many to be read: ask for one topic or metric.")
    not_answered: NotAnswered = Field(default=[])
    metrics: list[MetricRow] = Field(description="One for each name and combination of labels.")


async def _metrics(call: Call, params: MetricsParams) -> MetricList:
    now_ms = call.clock.now_ms()
    left_out, missing = 0, list[str]()
    if params.query is not None:
        _refuse_filters(params)
        source, rows = MetricSource.PROMETHEUS, await _of_prometheus(call, params, now_ms)
    elif params.last is not None:
        ranges, left_out = await read_ranges(call.gateway, _wanted(params), params.broker_id, now_ms, params.last)
        source, rows = MetricSource.TELEMETRY, [_ranged(each) for each in ranges]
    else:
        source = MetricSource.BROKERS
        rows, left_out, missing = await _of_brokers(call, params)
    return MetricList(
        source=source,
        as_of_ms=now_ms,
        left_out=left_out,
        not_answered=missing,
        metrics=[*{row.series: row for row in rows}.values()],
    )


def _refuse_filters(params: MetricsParams) -> None:
    given = [name for name in ("metric", "topic", "broker_id") if getattr(params, name) is not None]
    if given:
        raise InvalidRequestError(f"query says all itself: put {' and '.join(given)} into the expression")


def _wanted(params: MetricsParams) -> ReadMetrics:
    topic = TopicName.parse(params.topic) if params.topic else None
    return ReadMetrics(prefix=params.metric or "", topic=topic, limit=METRICS_READ_MAX)


async def _of_brokers(call: Call, params: MetricsParams) -> tuple[list[MetricRow], int, list[str]]:
    rows, left_out = list[MetricRow](), 0
    told = await call.gateway.metrics(_wanted(params), params.broker_id)
    for each in told:
        if each.told is None:
            continue
        left_out += each.told.sample_count - len(each.told.samples)
        for sample in each.told.samples:
            labels = {BROKER: each.broker_id, **{label.name: label.value for label in sample.labels}}
            rows.append(MetricRow(series=series_text(sample.name, labels), value=finite(sample.value)))
    return rows, left_out, not_answered(told)


async def _of_prometheus(call: Call, params: MetricsParams, now_ms: int) -> list[MetricRow]:
    query = PromQuery(query=params.query or "")
    if params.last is not None:
        step_s = max(1, params.last // METRIC_POINTS_MAX)
        start_ms = now_ms - params.last * 1_000
        query = PromQuery(query=query.query, start_ms=start_ms, end_ms=now_ms, step_s=step_s)
    return [_of_series(each) for each in await call.gateway.prometheus(query)]


def _of_series(series: PromSeries) -> MetricRow:
    labels = {name: value for name, value in series.labels.items() if name != "__name__"}
    text = series_text(series.labels.get("__name__", ""), labels)
    if len(series.points) == 1:
        return MetricRow(series=text, value=finite(series.points[0][1]))
    return _row(text, series.points, None)


def _ranged(found: Range) -> MetricRow:
    return _row(series_text(found.name, found.labels), found.points, found.per_second)


def _row(series: str, points: Sequence[tuple[int, float]], per_second: float | None) -> MetricRow:
    newest, minimum, maximum = summary_of(points)
    return MetricRow(
        series=series,
        value=newest,
        minimum=minimum,
        maximum=maximum,
        per_second=per_second,
        points=[Point(at_ms=at_ms, value=finite(value)) for at_ms, value in _thinned(points)],
    )


def _thinned(points: Sequence[tuple[int, float]]) -> Iterator[tuple[int, float]]:
    """At most METRIC_POINTS_MAX of them, evenly, the newest among them."""
    step = -(-len(points) // METRIC_POINTS_MAX) or 1
    yield from reversed(points[::-1][::step])


def series_text(name: str, labels: Mapping[str, str]) -> str:
    """A series as PromQL writes it, labels sorted."""
    inner = ", ".join(f"{label}={_quoted(value)}" for label, value in sorted(labels.items()))
    return f"{name}{{{inner}}}" if inner else name


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def finite(value: float) -> float | None:
    """The number; None for infinity and what is no number, which JSON lacks."""
    return value if math.isfinite(value) else None


GET_METRICS = Operation(
    name="get_metrics",
    words=("cluster", "metrics"),
    summary="Show metrics of brokers, topics and subscriptions: now, over a time, or by PromQL.",
    description="Brokers tell them themselves. `last` reads telemetry; `query` needs a Prometheus.",
    effect=Effect.READ,
    params=MetricsParams,
    result=MetricList,
    run=_metrics,
    pages=Listing(rows="metrics", name="series"),
    examples=(
        Example(
            "Subscriptions of a topic", {"metric": "danube_topic_active_subscriptions", "topic": "/default/orders"}
        ),
    ),
)

OPERATIONS = (GET_METRICS,)
