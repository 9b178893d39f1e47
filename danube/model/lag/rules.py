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
from typing import Any, NamedTuple

from danube.model.lag.verdict import (
    EtaReason,
    LagCause,
    LagMethod,
    LagPolicy,
    LagRule,
    LagStatus,
    LagVerdict,
    Observation,
)


class _Look(NamedTuple):
    at_ms: int
    seen: Observation
    is_commit: bool


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
    lag_s, lag_method = _time_lag(history, at_ms)
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
        messages_lost=max(0, last.start_offset - last.position),
        in_flight=last.in_flight,
        waiting=last.waiting,
        ready=last.ready,
        blocked=last.blocked,
        **({"eta_reason": EtaReason.NO_RATES} if is_silent else _movement(last, window, commits, at_ms)),
    )
    if is_silent:
        return verdict
    status, rule = _status(verdict, window, commits, policy)
    return replace(verdict, status=status, rule=rule, cause=_cause(verdict, status, window, policy))


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
            moved = before is not None and before is not seen and _cursor(before) != _cursor(seen)
            looks.append(_Look(look_ms, seen, seen.consumers > 0 or moved))
            before = seen
    return looks


def _cursor(seen: Observation) -> tuple[int, int]:
    return seen.position, seen.acknowledged_beyond


def _status(
    verdict: LagVerdict, window: Sequence[_Look], commits: Sequence[_Look], policy: LagPolicy
) -> tuple[LagStatus, LagRule]:
    """Burrow's rules in Burrow's order (`evaluatePartitionStatus`, `calculatePartitionStatus`), the first that fits.

    Ours are SHORT_HISTORY, which it calls OK, and YOUNG_LAG. It pardons few commits before it looks for STOP; here a
    subscription that nobody ever read has no commits and is STOP.
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
    return _status_of_commits(verdict, commits, policy)


def _status_of_commits(verdict: LagVerdict, commits: Sequence[_Look], policy: LagPolicy) -> tuple[LagStatus, LagRule]:
    positions = [look.seen.position for look in commits]
    lags = [look.seen.lag_messages for look in commits]
    if _went_back(positions):
        return LagStatus.REWIND, LagRule.WENT_BACK
    if min(lags) <= policy.allowed_lag:
        return LagStatus.OK, LagRule.CAUGHT_UP_ONCE
    if min(positions) == max(positions):
        return LagStatus.STALL, LagRule.POSITION_STILL
    return _status_of_moving(verdict, lags, policy)


def _status_of_moving(verdict: LagVerdict, lags: Sequence[int], policy: LagPolicy) -> tuple[LagStatus, LagRule]:
    """Burrow's last rule: WARN if the lag never fell between two successive commits."""
    if any(after < before for before, after in pairwise(lags)):
        return LagStatus.OK, LagRule.LAG_FELL
    if verdict.lag_s is not None and verdict.lag_s < policy.young_lag_s:
        return LagStatus.OK, LagRule.YOUNG_LAG
    return LagStatus.WARN, LagRule.LAG_NEVER_FELL


def _has_stopped(window: Sequence[_Look], commits: Sequence[_Look]) -> bool:
    """Burrow's STOP: now - t_last > t_last - t_first, unless a head in the window was at the position or below it.

    The exception is Burrow's PR 338: the first message on an idle topic is no stop.
    """
    last = window[-1]
    if any(look.seen.head <= last.seen.position for look in window):
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


def _time_lag(history: Sequence[Observation], at_ms: int) -> tuple[float | None, LagMethod]:
    """Age of the oldest unread message in seconds, and where it comes from; never negative.

    Measured where the broker read its append time, as klag-exporter does. Else interpolated between the records' known
    append times, kafka-lag-exporter's `LookupTable`: t = r.t - (r.off - c) * (r.t - l.t) / (r.off - l.off). Outside
    them it goes along first..last, no farther than they are apart: its users saw "3 years" without a bound.
    """
    last = history[-1]
    if last.lag_messages == 0:
        return 0.0, LagMethod.MEASURED
    if last.oldest_unread_append_ms is not None:
        return _age_s(at_ms, last.oldest_unread_append_ms), LagMethod.MEASURED
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


def _movement(last: Observation, window: Sequence[_Look], commits: Sequence[_Look], at_ms: int) -> dict[str, Any]:
    """Looks, rates over the window, and the net time to catch up, lag / (consumed - arrived): kafkatop's `ETA_net`.

    Only forward movement counts, so no rate is negative after a rewind. Counters that began again count from 0.
    """
    seconds = (window[-1].at_ms - window[0].at_ms) / 1_000
    looked: dict[str, Any] = {
        "looks": len(window),
        "commits": len(commits),
        "commit_age_s": (at_ms - commits[-1].at_ms) / 1_000 if commits else None,
    }
    if seconds <= 0:
        reason = EtaReason.NO_RATES if last.lag_messages else None
        return {**looked, "eta_reason": reason, "eta_s": None if last.lag_messages else 0.0}
    steps = [(before.seen, after.seen) for before, after in pairwise(window) if before.seen is not after.seen]
    arrived = sum(max(0, after.head - before.head) for before, after in steps)
    acknowledged = sum(max(0, sum(_cursor(after)) - sum(_cursor(before))) for before, after in steps)
    eta_s, eta_reason = _eta(last.lag_messages, arrived, acknowledged, seconds)
    return {
        **looked,
        "arrival_rate": arrived / seconds,
        "consume_rate": acknowledged / seconds,
        "rate_window_s": seconds,
        "eta_s": eta_s,
        "eta_reason": eta_reason,
        "arrived": arrived,
        "acknowledged": acknowledged,
        "nacked": sum(_counted(b.nacked, a.nacked, same=b.start_id == a.start_id) for b, a in steps),
        "redelivered": sum(_counted(b.redelivered, a.redelivered, same=b.start_id == a.start_id) for b, a in steps),
    }


def _counted(before: int, after: int, *, same: bool) -> int:
    return max(0, after - before) if same else after


def _eta(lag: int, arrived: int, acknowledged: int, seconds: float) -> tuple[float | None, EtaReason | None]:
    if lag == 0:
        return 0.0, None
    if acknowledged == 0:
        return None, EtaReason.NOTHING_CONSUMED
    if acknowledged <= arrived:
        return None, EtaReason.FALLS_BEHIND
    return lag * seconds / (acknowledged - arrived), None


def _cause(verdict: LagVerdict, status: LagStatus, window: Sequence[_Look], policy: LagPolicy) -> LagCause | None:
    """The named cause (`docs/formats/telemetry.md`, "What can be computed from it"); None if nothing waits for long."""
    lag, acknowledged, arrived = verdict.lag_messages or 0, verdict.acknowledged, verdict.arrived
    is_young = status is LagStatus.OK and verdict.lag_s is not None and verdict.lag_s < policy.young_lag_s
    if lag <= policy.allowed_lag or (is_young and not verdict.blocked):
        return None
    if verdict.blocked:
        return LagCause.BLOCKED
    if status is LagStatus.REWIND:
        return LagCause.REWOUND
    if not verdict.consumers:
        return LagCause.NOBODY_READS
    if acknowledged is None or arrived is None:
        return None
    in_flight, waiting = verdict.in_flight or 0, verdict.waiting or 0
    returned = max(verdict.nacked or 0, verdict.redelivered or 0)
    still = window[0].seen.position == window[-1].seen.position
    for holds, cause in (
        (returned > 0 and (still or returned >= acknowledged), LagCause.POISON),
        (waiting > 0 and waiting >= in_flight, LagCause.BACK_OFF),
        (acknowledged == 0 and in_flight > 0, LagCause.STUCK),
        (acknowledged == 0, LagCause.NOT_SENT),
        (arrived >= acknowledged, LagCause.TOO_SLOW),
    ):
        if holds:
            return cause
    return LagCause.CATCHING_UP
