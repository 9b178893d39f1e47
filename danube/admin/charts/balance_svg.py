"""Pictures of a cluster's balance: brokers by resource, and a plan's before and after side by side. Pure."""

from collections.abc import Iterator

from danube.admin.charts.chart import BalanceChart, Bar, BrokerBars, BrokerChange, PlanChart
from danube.admin.charts.svg import clipped, line, picture, rectangle, words

WIDTH = 960
_LABEL = 190
_GAP = 22
_ROW = 74
_HEAD = 34
_BAR = 12
_CHANGE_ROW = 44
_CAUSE_CHARS = 120


def balance_svg(chart: BalanceChart) -> str:
    """A row for each broker; in it a bar for its score and each resource, and below them the cause in words."""
    height = _HEAD + _ROW * max(len(chart.brokers), 1)
    title = f"Load of {len(chart.brokers)} brokers by resource; the imbalance is {chart.imbalance.text}"
    return picture(WIDTH, height, title, _balance_parts(chart))


def plan_svg(chart: PlanChart) -> str:
    """The score of each broker, before and after, on one scale."""
    height = _HEAD + 26 + _CHANGE_ROW * max(len(chart.brokers), 1)
    title = f"The imbalance goes from {chart.before.text} to {chart.after.text}"
    return picture(WIDTH, height, title, _plan_parts(chart))


def _balance_parts(chart: BalanceChart) -> Iterator[str]:
    first = chart.brokers[0] if chart.brokers else None
    columns = (first.score, *first.resources) if first else ()
    width = _column_width(len(columns))
    for at, bar in enumerate(columns):
        unit = f" of {chart.scale:g}" if not at else ""
        yield words(_LABEL + at * (width + _GAP), 14, f"{bar.label}{unit}", "head")
    for at, broker in enumerate(chart.brokers):
        y = _HEAD + at * _ROW
        yield from _broker_row(broker, y, width)
        x = _LABEL + width * min(chart.mean / chart.scale, 1.0)
        yield line((x, y + 5), (x, y + 8 + _BAR + 3), "mean")


def _broker_row(broker: BrokerBars, y: float, width: float) -> Iterator[str]:
    yield line((0, y - 4), (WIDTH, y - 4), "rule")
    yield words(0, y + 18, clipped(broker.name, 26), "name")
    yield words(0, y + 37, f"{broker.topics} · {broker.status}", f"small {broker.tone}".strip())
    for at, bar in enumerate((broker.score, *broker.resources)):
        yield from _bar(bar, _LABEL + at * (width + _GAP), y + 8, width, is_main=not at)
    yield words(_LABEL, y + 57, clipped(broker.cause, _CAUSE_CHARS), "small")


def _plan_parts(chart: PlanChart) -> Iterator[str]:
    width = (WIDTH - _LABEL - 60 - _GAP) / 2
    right = _LABEL + width + 30 + _GAP
    for x, title, judged in ((_LABEL, "Before", chart.before), (right, "After", chart.after)):
        yield words(x, 14, title, "name")
        yield words(x, 34, f"imbalance {judged.text}", f"small {judged.tone}".strip())
    for at, change in enumerate(chart.brokers):
        yield from _change_row(change, _HEAD + 22 + at * _CHANGE_ROW, width, right)


def _change_row(change: BrokerChange, y: float, width: float, right: float) -> Iterator[str]:
    yield line((0, y - 8), (WIDTH, y - 8), "rule")
    yield words(0, y + 10, clipped(change.name, 26), "name")
    yield words(0, y + 26, change.topics, "small")
    for x, bar, class_ in ((_LABEL, change.before, "past"), (right, change.after, "fill")):
        yield rectangle(x, y + 2, width, 16, "track")
        if bar.share:
            yield rectangle(x, y + 2, max(width * bar.share, 2.0), 16, f"{class_} {bar.tone}".strip())
        yield words(x + width + 8, y + 15, bar.text, "value")


def _bar(bar: Bar, x: float, y: float, width: float, *, is_main: bool) -> Iterator[str]:
    yield rectangle(x, y, width, _BAR, "track" if bar.share is not None else "track none")
    if bar.share:
        class_ = "fill" if is_main else "part"
        yield rectangle(x, y, max(width * bar.share, 2.0), _BAR, f"{class_} {bar.tone}".strip())
    yield words(x, y + 29, bar.text, "value" if is_main else "small")


def _column_width(count: int) -> float:
    return (WIDTH - _LABEL - _GAP * (count - 1)) / count if count else WIDTH - _LABEL
