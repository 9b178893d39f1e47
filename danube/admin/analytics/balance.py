"""The result of the job `balance` as it was published: load over time, and a plan for a percentile of it."""

import logging
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from danube.model.errors import InvalidRequestError
from danube.model.limits.balance import PUBLISHED_MOVES_SHOWN_MAX, PUBLISHED_TEXT_CHARS_MAX
from danube.model.records.analytics import AnalyticsJob, Row, Run, newest_result

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedMove:
    """One move that the load of the whole time asks for."""

    topic: str
    source: str
    target: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedBalance:
    """Balance over a span of time, and what to do about it."""

    run_id: str
    as_of_ms: int
    span_s: float
    percentile: float
    verdict: str
    summary: str
    advice: str
    cv_before: float
    cv_after: float
    judged_moments: int
    paying_moments: int
    """Moments at which a rebalance would have paid."""
    paying_hours: str
    """Hours of the day, UTC, in which they were, the most frequent first."""
    hot_topics: tuple[str, ...]
    moves: tuple[PublishedMove, ...]


def newest_balance(runs: Iterable[Run]) -> PublishedBalance | None:
    """The finished balance result of the latest time; one whose rows are none is left out."""
    left = list(runs)
    while (run := newest_result(left, AnalyticsJob.BALANCE)) is not None:
        try:
            return _balance_of(run)
        except InvalidRequestError as error:
            _log.info("run %s is left out: %s", run.run_id, error)
            left.remove(run)
    return None


def _balance_of(run: Run) -> PublishedBalance:
    """Raises InvalidRequestError: anybody may publish."""
    summary = next(iter(run.tables.get("summary", ())), None)
    if summary is None:
        raise InvalidRequestError("a result of the job balance has a row in its table `summary`: this one has none")
    return PublishedBalance(
        run_id=run.run_id,
        as_of_ms=run.as_of_ms,
        span_s=_number(summary, "span_s"),
        percentile=_number(summary, "percentile"),
        verdict=_text(summary, "verdict"),
        summary=_text(summary, "summary"),
        advice=_text(summary, "advice"),
        cv_before=_number(summary, "cv_before"),
        cv_after=_number(summary, "cv_after"),
        judged_moments=int(_number(summary, "judged_moments")),
        paying_moments=int(_number(summary, "paying_moments")),
        paying_hours=_text(summary, "paying_hours"),
        hot_topics=tuple(_text(row, "topic") for row in run.tables.get("hot_topics", ())[:3]),
        moves=tuple(_move(row) for row in run.tables.get("moves", ())[:PUBLISHED_MOVES_SHOWN_MAX]),
    )


def _move(row: Row) -> PublishedMove:
    return PublishedMove(**{name: _text(row, name) for name in ("topic", "source", "target", "reason")})


def _text(row: Mapping[str, object], name: str) -> str:
    value = row.get(name)
    if not isinstance(value, str):
        raise InvalidRequestError(f"`{name}` of a balance result is a text: this one is {type(value).__name__}")
    return value[:PUBLISHED_TEXT_CHARS_MAX]


def _number(row: Mapping[str, object], name: str) -> float:
    value = row.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise InvalidRequestError(f"`{name}` of a balance result is a number from 0: this one is not")
    return float(value)
