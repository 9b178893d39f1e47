"""Consumer lag: how a subscription stands, judged from what telemetry said of it. Pure.

Telemetry tells only what changed, so silence means that the last record still holds: `judge` looks at a subscription
every `interval_s`, `2 * intervals` times, and each look sees the newest record of that time. The last `intervals` looks
are the window. The status follows the evaluator of Burrow (github.com/linkedin/Burrow, `core/internal/evaluator/
caching.go`) rule by rule and in its order; `docs/lag.md` tells it with an example. Spark applies these rules, too, to
the records of one subscription after the other (`spark_analytics/jobs/lag.py`).
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from danube.model.lag.causes import cause_of
from danube.model.lag.movement import Look as _Look
from danube.model.lag.movement import counted, falls, is_caught_up, movement
from danube.model.lag.verdict import (
    SEVERITY,
    EtaReason,
    LagCause,
    LagMethod,
    LagPolicy,
    LagRule,
    LagStatus,
    LagVerdict,
    Observation,
)
from danube.model.records.telemetry import SilentConsumer

_EVEN_RECORDS = 5
"""Records whose positions moved alike, so that it goes on."""
_EVEN = 1.2
"""The fastest of their steps by the slowest."""


def judge(observations: Sequence[Observation], at_ms: int, policy: LagPolicy) -> LagVerdict | None:
    """Verdict on a subscription at `at_ms` from its records, in any order; None when it no longer existed."""
    since_ms = at_ms - round(policy.history_s * 1_000)
    recent = [one for one in in_order(observations) if since_ms < one.at_ms <= at_ms]
    return judge_ordered(recent, at_ms, policy)


def judge_ordered(recent: Sequence[Observation], at_ms: int, policy: LagPolicy) -> LagVerdict | None:
    """The same from the records of the last `history_s`, in order (`in_order`)."""
    history = _history(recent)
    if history is None:
        return None
    if not history:
        return LagVerdict(status=LagStatus.UNKNOWN, rule=LagRule.NO_HISTORY, eta_reason=EtaReason.NO_RATES)
    last = history[-1]
    if not last.kept:
        return LagVerdict(
            status=LagStatus.NOT_KEPT,
            rule=LagRule.NOT_RELIABLE,
            broker_id=last.broker_id,
            observed_ms=last.at_ms,
            consumers=last.consumers,
            eta_reason=EtaReason.NOT_KEPT,
        )
    return _judge_reliable(history, at_ms, policy)


def in_order(observations: Sequence[Observation]) -> list[Observation]:
    """Each record once, in the order of time.

    Within one start the order is that of `sequence`; a clock that was set back pulls the times before it back, too.
    """
    if all(_follows(*pair) for pair in pairwise(observations)):
        return list(observations)
    once = {(one.start_id, one.sequence): one for one in observations}
    ordered: list[Observation] = []
    later: dict[str, int] = {}
    for key in sorted(once, reverse=True):
        one = once[key]
        at_ms = later[one.start_id] = min(one.at_ms, later.get(one.start_id, one.at_ms))
        ordered.append(one if at_ms == one.at_ms else one._replace(at_ms=at_ms))
    return sorted(ordered, key=lambda one: (one.at_ms, one.start_id, one.sequence))


def _follows(earlier: Observation, later: Observation) -> bool:
    return earlier.start_id == later.start_id and earlier.sequence < later.sequence and earlier.at_ms <= later.at_ms


def _history(recent: Sequence[Observation]) -> list[Observation] | None:
    """The records that count, up to the newest that holds; None when each broker that knew it says that it is gone."""
    ended: dict[str, int] = {}
    for one in recent:
        if one.gone:
            ended[one.start_id] = max(one.sequence, ended.get(one.start_id, -1))
    holding = [one for one in recent if not one.gone and one.sequence > ended.get(one.start_id, -1)]
    if not holding:
        return None if recent else []
    last = holding[-1]
    place = len(recent) - 1
    while recent[place] is not last:
        place -= 1
    return [
        one
        for one in recent[: place + 1]
        if not one.gone and one.topic_id == last.topic_id and one.subscription_id == last.subscription_id
    ]


def _judge_reliable(history: Sequence[Observation], at_ms: int, policy: LagPolicy) -> LagVerdict:
    last = history[-1]
    looks = _looks(history, at_ms, policy)
    since_ms = at_ms - policy.window_ms
    window = [look for look in looks if look.at_ms >= since_ms]
    commits = [look for look in looks if look.is_commit][-policy.intervals :]
    is_silent = at_ms - last.at_ms > policy.silent_after_s * 1_000
    lag_s, lag_method = _time_lag(history, at_ms, policy)
    moved: dict[str, Any] = {"eta_reason": EtaReason.NO_RATES}
    if not is_silent:
        moved = {"looks": len(window), **movement(_since_seek(window), commits, at_ms, lag_s, policy)}
    verdict = LagVerdict(
        status=LagStatus.UNKNOWN,
        rule=LagRule.SILENT,
        broker_id=last.broker_id,
        observed_ms=last.at_ms,
        consumers=last.consumers,
        lag_messages=last.lag_messages,
        lag_s=lag_s,
        lag_method=lag_method,
        start_offset=last.start_offset,
        position=last.position,
        head=last.head,
        retention_margin=last.position - last.start_offset,
        retention_ratio=_retention_ratio(last),
        messages_lost=_deleted(last),
        lost=_lost(looks) if last.trimmed is not None else None,
        in_flight=last.in_flight,
        waiting=last.waiting,
        ready=last.ready,
        blocked=last.blocked,
        failures=last.failures,
        failed_offset=last.failed_offset,
        failed_on=last.failed_on,
        **_silent(last.silent or (), at_ms, policy),
        dispatch_limit=last.dispatch_limit,
        **moved,
    )
    if is_silent:
        return verdict
    status, rule = _status(verdict, looks, window, commits, policy)
    return _worse(replace(verdict, status=status, rule=rule, cause=cause_of(verdict, status, last, window, policy)))


def _silent(told: Sequence[SilentConsumer], at_ms: int, policy: LagPolicy) -> dict[str, Any]:
    """The consumer that is silent for the longest time, with those that are silent for a window, too."""
    if not told:
        return {}
    worst, *others = (each for each in told if each is told[0] or at_ms - each.since_ms > policy.window_ms)
    hosts = (f" at {each.host}" if each.host else "" for each in others)
    return {
        "silent_consumer": worst.name,
        "silent_host": worst.host,
        "silent_others": " and ".join(f"{each.name}{host}" for each, host in zip(others, hosts, strict=True)) or None,
        "silent_s": min(_age_s(at_ms, each.since_ms) for each in (worst, *others)),
        "silent_in_flight": sum(each.in_flight for each in (worst, *others)),
        "silent_offset": min((each.offset for each in (worst, *others) if each.offset is not None), default=None),
    }


def _looks(history: Sequence[Observation], at_ms: int, policy: LagPolicy) -> list[_Look]:
    """Observation at each of twice the window's looks; looks before the first record are left out.

    In Kafka a consumer that lives commits, moved or not. Here a look is a commit when a consumer was attached, or when
    the look before it saw another cursor.
    """
    looks: list[_Look] = []
    following, before = 0, None
    for look_ms in range(at_ms - (2 * policy.intervals - 1) * policy.interval_ms, at_ms + 1, policy.interval_ms):
        while following < len(history) and history[following].at_ms <= look_ms:
            following += 1
        if following:
            seen = history[following - 1]
            moved = before is not None and before is not seen and _has_moved(before, seen)
            looks.append(_Look(look_ms, seen, seen.consumers > 0 or moved))
            before = seen
    return looks


def _has_moved(before: Observation, seen: Observation) -> bool:
    """True if a consumer or a seek moved the cursor; retention and skips are no commit, where they are told apart."""
    if before.start_id == seen.start_id and None not in {before.acknowledged, seen.acknowledged}:
        return (before.acknowledged, before.seeks) != (seen.acknowledged, seen.seeks)
    return (before.position, before.acknowledged_beyond) != (seen.position, seen.acknowledged_beyond)


def _deleted(seen: Observation) -> int:
    """Unread messages that retention deleted: as counted, and those at which the position still stands."""
    return (seen.trimmed or 0) + max(0, seen.start_offset - seen.position)


def _lost(looks: Sequence[_Look]) -> int:
    return sum(
        counted(_deleted(b.seen), _deleted(a.seen), same=b.seen.start_id == a.seen.start_id)
        for b, a in pairwise(looks)
        if b.seen is not a.seen
    )


def _status(
    verdict: LagVerdict, looks: Sequence[_Look], window: Sequence[_Look], commits: Sequence[_Look], policy: LagPolicy
) -> tuple[LagStatus, LagRule]:
    """Burrow's rules in Burrow's order (`evaluatePartitionStatus`, `calculatePartitionStatus`), the first that fits.

    Ours are SHORT_HISTORY, which it calls OK, YOUNG_LAG, and the trend in place of one step down. It pardons few
    commits before it looks for STOP; here a subscription that nobody ever read has no commits and is STOP.
    """
    enough = policy.minimum_complete * policy.intervals
    if (verdict.lag_messages or 0) <= policy.allowed_lag:
        return LagStatus.OK, LagRule.ALLOWED_LAG
    if verdict.looks < enough:
        return LagStatus.UNKNOWN, LagRule.SHORT_HISTORY
    if _has_stopped(window, commits):
        return LagStatus.STOP, LagRule.NO_COMMITS
    if verdict.commits < enough:
        return LagStatus.OK, LagRule.FEW_COMMITS
    return _status_of_commits(verdict, looks, commits, policy)


def _status_of_commits(
    verdict: LagVerdict, looks: Sequence[_Look], commits: Sequence[_Look], policy: LagPolicy
) -> tuple[LagStatus, LagRule]:
    positions = [look.seen.position for look in commits]
    if _went_back(positions):
        return LagStatus.REWIND, LagRule.WENT_BACK
    if min(look.seen.lag_messages for look in commits) <= policy.allowed_lag:
        return LagStatus.OK, LagRule.CAUGHT_UP_ONCE
    if min(positions) == max(positions) or _none_acknowledged(commits):
        return LagStatus.STALL, LagRule.POSITION_STILL
    was_young = any(is_caught_up(look, policy) for look in commits)
    if was_young or (verdict.lag_s is not None and verdict.lag_s < policy.young_lag_s):
        return LagStatus.OK, LagRule.YOUNG_LAG
    if falls(_since_seek(looks), policy):
        return LagStatus.OK, LagRule.LAG_FELL
    return LagStatus.WARN, LagRule.LAG_NEVER_FELL


def _none_acknowledged(commits: Sequence[_Look]) -> bool:
    """True if the position moved, if at all, because retention or an administrator moved it."""
    first, last = commits[0].seen, commits[-1].seen
    return first.start_id == last.start_id and last.acknowledged is not None and first.acknowledged == last.acknowledged


def _since_seek(looks: Sequence[_Look]) -> Sequence[_Look]:
    """The looks after the last seek: what was before it says nothing about what follows."""
    for number in range(len(looks) - 1, 0, -1):
        before, after = looks[number - 1].seen, looks[number].seen
        sought = before.start_id == after.start_id and before.seeks != after.seeks and after.seeks is not None
        if sought or after.position < before.position:
            return looks[number:]
    return looks


def _worse(verdict: LagVerdict) -> LagVerdict:
    """The status of trouble that is none of Burrow's: WARN at the least."""
    rule = {
        LagCause.DATA_LOSS: LagRule.DELETED_UNREAD,
        LagCause.MEMBER_STUCK: LagRule.MEMBER_SILENT,
        LagCause.STORM: LagRule.REDELIVERED,
    }.get(verdict.cause or LagCause.CATCHING_UP)
    if rule is None or SEVERITY[verdict.status] >= SEVERITY[LagStatus.WARN]:
        return verdict
    return replace(verdict, status=LagStatus.WARN, rule=rule)


def _has_stopped(window: Sequence[_Look], commits: Sequence[_Look]) -> bool:
    """Burrow's STOP: now - t_last > t_last - t_first, unless all was read at a look of the window.

    The exception is Burrow's PR 338: the first message on an idle topic is no stop.
    """
    last = window[-1]
    if any(look.seen.head <= look.seen.position for look in window):
        return False
    if not commits:
        return True
    newest_ms = commits[-1].at_ms
    return last.at_ms - newest_ms > newest_ms - commits[0].at_ms


def _went_back(positions: Sequence[int]) -> bool:
    """Burrow's REWIND: a commit below the one before it, and none after it that reaches that one again."""
    return any(
        after < before and max(positions[number + 1 :]) < before
        for number, (before, after) in enumerate(pairwise(positions))
    )


def _time_lag(history: Sequence[Observation], at_ms: int, policy: LagPolicy) -> tuple[float | None, LagMethod]:
    """Age of the oldest unread message in seconds, and where it comes from; never negative.

    Measured where the broker read its append time, as klag-exporter does. Else interpolated between the records' known
    append times, kafka-lag-exporter's `LookupTable`: t = r.t - (r.off - c) * (r.t - l.t) / (r.off - l.off). Outside
    them it goes along first..last, no farther than they are apart: its users saw "3 years" without a bound.
    """
    last = history[-1]
    if last.lag_messages == 0:
        return 0.0, LagMethod.MEASURED
    if last.oldest_unread_append_ms is not None:
        return _age_by_now(history, last.oldest_unread_append_ms, at_ms, policy)
    points = _points(history)
    if not points:
        return None, LagMethod.UNKNOWN
    wanted, first, newest = last.position, points[0], points[-1]
    for left, right in pairwise(points):
        if left[0] <= wanted <= right[0]:
            return _age_s(at_ms, _on_line(wanted, left, right)), LagMethod.INTERPOLATED
    if wanted == newest[0]:
        return _age_s(at_ms, newest[1]), LagMethod.INTERPOLATED
    span = newest[0] - first[0]
    if max(first[0] - wanted, wanted - newest[0]) > span:
        return None, LagMethod.UNKNOWN
    return _age_s(at_ms, _on_line(wanted, first, newest)), LagMethod.EXTRAPOLATED


def _age_by_now(
    history: Sequence[Observation], oldest_ms: int, at_ms: int, policy: LagPolicy
) -> tuple[float, LagMethod]:
    """Age at the moment that is asked for: a position that moves evenly goes on until the next record is due."""
    last, since_ms = history[-1], at_ms - history[-1].at_ms
    paces = [
        ((after.oldest_unread_append_ms or 0) - before.oldest_unread_append_ms) / (after.at_ms - before.at_ms)
        for before, after in pairwise(history[-_EVEN_RECORDS:])
        if before.oldest_unread_append_ms is not None and after.at_ms > before.at_ms
    ]
    is_even = len(paces) == _EVEN_RECORDS - 1 and 0 < max(paces) <= _EVEN * min(paces)
    if not is_even or not 0 < since_ms < policy.interval_ms:
        return _age_s(at_ms, oldest_ms), LagMethod.MEASURED
    by_now_ms = oldest_ms + min(paces) * since_ms
    return _age_s(at_ms, min(by_now_ms, last.head_append_ms or at_ms)), LagMethod.EXTRAPOLATED


def _points(history: Sequence[Observation]) -> list[tuple[int, int]]:
    """Offset and append time of the newest message of each record, offsets rising."""
    points: list[tuple[int, int]] = []
    for one in history:
        if one.head_append_ms is not None and (not points or one.head - 1 > points[-1][0]):
            points.append((one.head - 1, one.head_append_ms))
    return points


def _on_line(wanted: int, left: tuple[int, int], right: tuple[int, int]) -> float:
    return right[1] - (right[0] - wanted) * (right[1] - left[1]) / (right[0] - left[0])


def _age_s(at_ms: int, append_ms: float) -> float:
    return max(0.0, at_ms - append_ms) / 1_000


def _retention_ratio(last: Observation) -> float | None:
    """(head - position) / (head - start), klag-exporter's `lag_retention_ratio`, as a share of 1."""
    kept = last.head - last.start_offset
    return (last.head - last.position) / kept if kept > 0 else None
