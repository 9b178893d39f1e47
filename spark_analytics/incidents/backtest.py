"""Rules of alerts judged on labelled scenarios: precision and recall of ours, the status, and two thresholds. Pure.

A rule gives a run of moments at which it alerts; moments close to each other are one alert. An alert that overlaps an
incident is right, any other is false; an incident that no alert overlaps is missed.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from danube.model.lag.alerts import AlertPolicy, IncidentCause, IncidentFinder, incidents_of
from danube.model.lag.history import Times, judge_history
from danube.model.lag.records import observations_of
from danube.model.lag.verdict import LagPolicy, LagStatus, LagVerdict
from spark_analytics.incidents.kinds import BENIGN, INCIDENTS, Label, Scenario, scenario

STEP_MS = 30_000
GAP_MS = 150_000
"""Alerts that are closer are one."""
GRACE_MS = 240_000
"""An alert may begin so long after the end of its incident, and last beyond it."""
STATIC_MESSAGES = 1_000
GROWTH_MS = 900_000
_ABOVE_OK = frozenset({LagStatus.WARN, LagStatus.STOP, LagStatus.STALL, LagStatus.REWIND})

Verdicts = Sequence[tuple[int, LagVerdict]]
Rule = Callable[[Verdicts], Iterator[bool]]
"""Alert or not, at each moment."""


class Span(NamedTuple):
    """An alert."""

    began_ms: int
    ended_ms: int


@dataclass(slots=True, kw_only=True)
class Score:
    """Counts of one rule."""

    right: int = 0
    false: int = 0
    found: int = 0
    missed: int = 0
    named: int = 0
    """Incidents whose cause was named right."""

    @property
    def precision(self) -> float:
        """Share of alerts that are right; 1 without any."""
        return self.right / (self.right + self.false) if self.right + self.false else 1.0

    @property
    def recall(self) -> float:
        """Share of incidents that are found; 1 without any."""
        return self.found / (self.found + self.missed) if self.found + self.missed else 1.0

    def plus(self, other: "Score") -> "Score":
        """Both together."""
        return Score(
            right=self.right + other.right,
            false=self.false + other.false,
            found=self.found + other.found,
            missed=self.missed + other.missed,
            named=self.named + other.named,
        )


def ours(verdicts: Verdicts) -> Iterator[bool]:
    """`danube.model.lag.alerts`."""
    finder = IncidentFinder(AlertPolicy())
    for at_ms, verdict in verdicts:
        ended = finder.see(at_ms, verdict)
        yield finder.is_open or ended is not None


def by_status(verdicts: Verdicts) -> Iterator[bool]:
    """Any status above OK, as Burrow's notifier sends by default; the trend is ours."""
    for _, verdict in verdicts:
        yield verdict.status in _ABOVE_OK


def static_threshold(verdicts: Verdicts) -> Iterator[bool]:
    """More than a thousand messages wait."""
    return ((verdict.lag_messages or 0) > STATIC_MESSAGES for _, verdict in verdicts)


def high_and_growing(verdicts: Verdicts) -> Iterator[bool]:
    """More than a thousand messages wait, and more than a quarter of an hour before (a positive derivative)."""
    seen: deque[tuple[int, int]] = deque()
    for at_ms, verdict in verdicts:
        lag = verdict.lag_messages or 0
        seen.append((at_ms, lag))
        while at_ms - seen[0][0] > GROWTH_MS:
            seen.popleft()
        yield lag > STATIC_MESSAGES and lag > seen[0][1]


RULES: Mapping[str, Rule] = {
    "ours": ours,
    "status": by_status,
    "static threshold": static_threshold,
    "high and growing": high_and_growing,
}


def backtest(kinds: Iterable[str], seeds: Iterable[int]) -> dict[tuple[str, str], Score]:
    """The score of each rule on each kind."""
    seeds = list(seeds)
    found: dict[tuple[str, str], Score] = {}
    for kind in kinds:
        for seed in seeds:
            for rule, score in judge_scenario(scenario(kind, seed)).items():
                found[rule, kind] = found.get((rule, kind), Score()).plus(score)
    return found


def totals(scores: Mapping[tuple[str, str], Score]) -> dict[str, Score]:
    """The score of each rule over all kinds."""
    found: dict[str, Score] = {}
    for (rule, _), score in scores.items():
        found[rule] = found.get(rule, Score()).plus(score)
    return found


def all_kinds() -> list[str]:
    """Incidents first."""
    return [*INCIDENTS, *BENIGN]


def judge_scenario(course: Scenario) -> dict[str, Score]:
    """The score of each rule on one scenario."""
    by_partition = verdicts_of(course)
    scores = {}
    for name, rule in RULES.items():
        alerts = sorted(alert for verdicts in by_partition for alert in _alerts(verdicts, rule))
        scores[name] = _score(_merged(alerts), course.labels)
    found = [one for verdicts in by_partition for one in incidents_of(verdicts, AlertPolicy())]
    named = {one.cause for one in found} | {IncidentCause.DATA_LOSS for one in found if one.messages_lost}
    scores["ours"].named = sum(label.cause in named for label in course.labels)
    return scores


def verdicts_of(course: Scenario) -> list[Verdicts]:
    """Verdicts of each partition, every half minute."""
    told, _ = observations_of(course.records, course.end_ms)
    times = Times(first_ms=course.records[0][0].at_ms + STEP_MS, last_ms=course.end_ms, step_ms=STEP_MS)
    policy = replace(LagPolicy(), history_s=900.0)
    return [list(judge_history(observations, times, policy)) for observations in told.values()]


def causes_of(course: Scenario) -> list[IncidentCause]:
    """Causes that ours names."""
    return [one.cause for verdicts in verdicts_of(course) for one in incidents_of(verdicts, AlertPolicy())]


def _alerts(verdicts: Verdicts, rule: Rule) -> Iterator[Span]:
    for (at_ms, _), alert in zip(verdicts, rule(verdicts), strict=True):
        if alert:
            yield Span(at_ms, at_ms)


def _merged(alerts: Sequence[Span]) -> list[Span]:
    found: list[Span] = []
    for one in alerts:
        if found and one.began_ms - found[-1].ended_ms <= GAP_MS:
            found[-1] = Span(found[-1].began_ms, max(one.ended_ms, found[-1].ended_ms))
        else:
            found.append(one)
    return found


def _score(alerts: Sequence[Span], labels: Sequence[Label]) -> Score:
    def overlap(alert: Span, label: Label) -> bool:
        return alert.began_ms <= label.ended_ms + GRACE_MS and alert.ended_ms >= label.began_ms

    right = sum(any(overlap(alert, label) for label in labels) for alert in alerts)
    found = sum(any(overlap(alert, label) for alert in alerts) for label in labels)
    return Score(right=right, false=len(alerts) - right, found=found, missed=len(labels) - found)
