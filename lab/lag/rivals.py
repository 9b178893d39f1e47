"""Rules of others, judged beside ours: Burrow's as published, a threshold, and a threshold with growth. Pure.

They get what they would have: a commit every 5 s while a consumer is there, moved or not, and the lag at that time.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from danube.model.lag.verdict import LagStatus, Observation

COMMIT_MS = 5_000
WINDOW = 10
"""Burrow's `intervals`."""
COMPLETE = 0.5
"""Burrow's `minimum-complete`, of its README; with fewer commits all is well."""
THRESHOLD = 100
"""Messages, the lag of 25 s of the usual load of the situations."""
GROWTH_MS = 60_000


class Sample(NamedTuple):
    """The state at one moment."""

    at_ms: int
    head: int
    position: int
    lag: int
    is_commit: bool


Rule = Callable[[Sequence[Sample]], LagStatus]


def samples_of(observations: Sequence[Observation], at_ms: int) -> list[Sample]:
    """A sample for every commit interval until then, from records in the order of time."""
    known = [one for one in observations if one.at_ms <= at_ms and not one.gone]
    samples: list[Sample] = []
    following, position = 0, None
    first_ms = known[0].at_ms if known else at_ms
    for moment_ms in range(at_ms - (at_ms - first_ms) // COMMIT_MS * COMMIT_MS, at_ms + 1, COMMIT_MS):
        while following < len(known) and known[following].at_ms <= moment_ms:
            following += 1
        if following:
            seen = known[following - 1]
            is_commit = seen.consumers > 0 or position not in {None, seen.position}
            samples.append(Sample(moment_ms, seen.head, seen.position, seen.lag_messages, is_commit))
            position = seen.position
    return samples


def burrow(samples: Sequence[Sample]) -> LagStatus:
    """Rules of `core/internal/evaluator/caching.go`, in its order."""
    commits = [each for each in samples if each.is_commit][-WINDOW:]
    if len(commits) < COMPLETE * WINDOW or samples[-1].lag == 0:
        return LagStatus.OK
    first, last = commits[0], commits[-1]
    is_silent = samples[-1].at_ms - last.at_ms > last.at_ms - first.at_ms
    if is_silent and not any(each.head <= last.position for each in samples[-WINDOW:]):
        return LagStatus.STOP
    positions = [each.position for each in commits]
    if any(b < a and max(positions[number + 1 :]) < a for number, (a, b) in enumerate(pairwise(positions))):
        return LagStatus.REWIND
    if any(each.lag == 0 for each in commits):
        return LagStatus.OK
    if len(set(positions)) == 1:
        return LagStatus.STALL
    return LagStatus.OK if any(b.lag < a.lag for a, b in pairwise(commits)) else LagStatus.WARN


def threshold(samples: Sequence[Sample]) -> LagStatus:
    """Too many messages wait."""
    return LagStatus.WARN if samples[-1].lag > THRESHOLD else LagStatus.OK


def high_and_growing(samples: Sequence[Sample]) -> LagStatus:
    """Too many wait, and more than a minute before."""
    before = next(each.lag for each in samples if samples[-1].at_ms - each.at_ms <= GROWTH_MS)
    return LagStatus.WARN if samples[-1].lag > max(THRESHOLD, before) else LagStatus.OK


RIVALS: Mapping[str, Rule] = {"Burrow": burrow, "static threshold": threshold, "high and growing": high_and_growing}
