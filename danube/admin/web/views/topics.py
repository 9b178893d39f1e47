"""Topics: the list with lag and size, a partitioned topic as one row that unfolds; and the page of one topic."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from markupsafe import Markup

from danube.admin.analytics.history import TopicHistory, topic_history
from danube.admin.charts.series import Series, pictures
from danube.admin.operations.analytics.lag import ANALYZE_CONSUMER_LAG
from danube.admin.operations.fields import PageParams, sum_known
from danube.admin.operations.paging import page_of
from danube.admin.operations.topics.connections import LIST_CONNECTIONS
from danube.admin.operations.topics.topic_list import (
    LIST_TOPICS,
    TopicList,
    TopicRow,
    described_topics,
    lags_of,
    largest_lag,
    summed_lags,
)
from danube.admin.web.views.look import Look
from danube.model.calls.admin import TopicDescription
from danube.model.lag.group import base_of
from danube.model.limits.faces import LAG_GROUPS_MAX, WEB_ROWS_DEFAULT
from danube.model.topic import TopicName

SEARCH_FIELD = "_q"
"""Words that must be in the name, over all pages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicLine:
    """One row: a topic, a partitioned topic, or a partition; None is not known."""

    name: str
    broker: str
    delivery: str
    state: str
    lag: int | None = None
    """Messages, of the group that is furthest behind."""
    size_bytes: int | None = None
    groups: int | None = None
    producers: int | None = None
    partitions: tuple["TopicLine", ...] = ()
    percent: int | None = None
    """Of the largest lag on the page."""
    lags: Mapping[str, int] = field(default_factory=dict)
    """By group."""


async def topics_page(look: Look) -> dict[str, Any]:
    """The values of the page that lists topics. Raises DanubeError."""
    arguments = {name: look.arguments[name] for name in ("namespace", "broker", "system") if look.arguments.get(name)}
    listed = await look.whole(LIST_TOPICS, {**arguments, "brief": True})
    rows = listed.topics if isinstance(listed, TopicList) else []
    words = look.query.get(SEARCH_FIELD, "").lower().split()
    families = _families(row for row in rows if all(word in row.name.lower() for word in words))
    params = PageParams(limit=look.arguments.get("limit") or WEB_ROWS_DEFAULT, cursor=look.arguments.get("cursor"))
    page, cursor = page_of(families, lambda name: (name,), params.limit, params.cursor)
    shown = [row for name in page for row in families[name]]
    described, _ = await described_topics(look.gateway, [row.name for row in shown])
    lines = [_line(name, families[name], described) for name in page]
    largest = max((line.lag for line in lines if line.lag), default=0)
    return {
        "lines": [replace(line, percent=_percent(line.lag, largest)) for line in lines],
        "total": len(families),
        "topic_total": len(rows),
        "words": look.query.get(SEARCH_FIELD, ""),
        "cursor": cursor,
        "has_numbers": bool(described) or not shown,
    }


async def topic_page(look: Look) -> dict[str, Any]:
    """The values of the page of one topic, beside the answer of describe_topic."""
    name = TopicName.parse(str(look.arguments["topic"]))
    history, lag, connections = await asyncio.gather(
        topic_history(look.gateway, name, look.server.clock.now_ms()),
        look.part(ANALYZE_CONSUMER_LAG, {"topic": str(name), "source": "live", "limit": LAG_GROUPS_MAX}),
        look.part(LIST_CONNECTIONS, {"topic": str(name)}),
    )
    return {"lag": lag, "connections": connections, "charts": topic_charts(history)}


def topic_charts(history: TopicHistory | None) -> list[Markup]:
    """Rates of the topic, and the lag of each of its groups."""
    if history is None or not history.is_known:
        return []
    span_s = history.span_s
    many = [Series(title="Published", unit="messages/s", points=history.published, span_s=span_s)]
    for name, group in history.groups.items():
        many.append(Series(title=f"Lag of {name}", unit="messages", points=group.lag, span_s=span_s))
    return drawn(many)


def drawn(many: Sequence[Series]) -> list[Markup]:
    """Pictures as markup: `series_svg` escapes what stands in them."""
    return [Markup(picture) for picture in pictures(many)]  # noqa: S704 - escaped there


def _families(rows: Iterable[TopicRow]) -> dict[str, list[TopicRow]]:
    """Rows by the topic that they are a partition of, or that they are."""
    found: dict[str, list[TopicRow]] = {}
    for row in rows:
        found.setdefault(row.name if row.partitions is None else base_of(row.name), []).append(row)
    return found


def _line(name: str, rows: Sequence[TopicRow], described: Mapping[str, TopicDescription]) -> TopicLine:
    lines = [_single(row, described.get(row.name)) for row in rows]
    if len(lines) == 1 and lines[0].name == name:
        return lines[0]
    lines.sort(key=lambda line: int(line.name.rpartition("-")[2]))
    brokers = {line.broker for line in lines}
    odd = [line.state for line in lines if line.state not in {"served", ""}]
    lags = summed_lags(line.lags for line in lines)
    return TopicLine(
        name=name,
        broker=brokers.pop() if len(brokers) == 1 else f"{len(brokers)} brokers",
        delivery=lines[0].delivery,
        state=odd[0] if odd else lines[0].state,
        lag=largest_lag(lags),
        size_bytes=sum_known(line.size_bytes for line in lines),
        groups=max((line.groups for line in lines if line.groups is not None), default=None),
        producers=sum_known(line.producers for line in lines),
        partitions=tuple(lines),
        lags=lags,
    )


def _single(row: TopicRow, topic: TopicDescription | None) -> TopicLine:
    line = TopicLine(
        name=row.name, broker=row.broker_id, delivery=row.delivery, state=row.state.value if row.state else ""
    )
    if topic is None or not topic.is_served:
        return line
    lags = lags_of(topic)
    return replace(
        line,
        lag=largest_lag(lags),
        lags=lags,
        size_bytes=topic.storage.stored_bytes if topic.storage else None,
        groups=topic.subscription_count,
        producers=topic.producers,
    )


def _percent(value: int | None, largest: int) -> int | None:
    return None if not value or not largest else max(1, round(100 * value / largest))
