"""Movement of a subscription over the looks of its window: rates, time to catch up, trend. Pure."""

from collections.abc import Sequence
from itertools import combinations, pairwise
from statistics import median
from typing import Any, NamedTuple

from danube.model.lag.verdict import EtaReason, LagPolicy, Observation


class Look(NamedTuple):
    """One look: the newest record of that time."""

    at_ms: int
    seen: Observation
    is_commit: bool


def movement(
    window: Sequence[Look], commits: Sequence[Look], at_ms: int, lag_s: float | None, policy: LagPolicy
) -> dict[str, Any]:
    """Looks, rates over the window, and the net time to catch up, lag / (consumed - arrived): kafkatop's `ETA_net`.

    Acknowledgements alone count as consumed, so no rate is negative after a rewind. Counters that began again count
    from 0.
    """
    seconds = (time_of(window[-1], policy) - time_of(window[0], policy)) / 1_000 if window else 0.0
    looked: dict[str, Any] = {
        "commits": len(commits),
        "commit_age_s": (at_ms - commits[-1].at_ms) / 1_000 if commits else None,
    }
    lag = window[-1].seen.lag_messages if window else 0
    if seconds <= 0:
        return {**looked, "eta_reason": EtaReason.NO_RATES if lag else None, "eta_s": None if lag else 0.0}
    pairs = [(before.seen, after.seen) for before, after in pairwise(window)]
    steps = [(before, after) for before, after in pairs if before is not after]
    arrived = [max(0, after.head - before.head) for before, after in pairs]
    acknowledged = [_acknowledged(before, after) if before is not after else 0 for before, after in pairs]
    arrival_rate = _rate(window, arrived, "head_append_ms", policy)
    consume_rate = _rate(window, acknowledged, "last_acknowledged_ms", policy)
    is_young = lag_s is not None and lag_s < policy.young_lag_s
    eta_s, eta_reason = _eta(window[-1].seen, arrival_rate, consume_rate, is_young=is_young)
    return {
        **looked,
        "arrival_rate": arrival_rate,
        "consume_rate": consume_rate,
        "rate_window_s": seconds,
        "eta_s": eta_s,
        "eta_reason": eta_reason,
        "retention_deadline_s": _deadline_s(window, at_ms, arrival_rate, eta_s),
        "arrived": sum(arrived),
        "acknowledged": sum(acknowledged),
        **{name: _sum(window[-1].seen, steps, name) for name in ("nacked", "redelivered", "timed_out", "disconnected")},
    }


def time_of(look: Look, policy: LagPolicy) -> int:
    """Time of the record that a look sees; that of the look, if a newer one would have told any change."""
    is_fresh = look.at_ms - look.seen.at_ms < policy.interval_ms
    return look.seen.at_ms if is_fresh else look.at_ms


def counted(before: int, after: int, *, same: bool) -> int:
    """Increase of a counter, which began again unless it is of the `same` start."""
    return max(0, after - before) if same else after


def falls(looks: Sequence[Look], policy: LagPolicy) -> bool:
    """True if the lag is young, or falls so that nothing is unread within `clears_s`.

    The trend at each of the newest looks is that of the window before it. It turns when it is another one for
    `steady_looks` looks in a row, so that noise does not turn it.
    """
    looks = _since_caught_up(looks, policy)
    ends = range(max(2, len(looks) - policy.intervals), len(looks) + 1)
    trends = [_trend(looks[max(0, end - policy.intervals) : end], policy) for end in ends]
    known = [each for each in trends if each is not None]
    if not known:
        return False
    state, run = known[0], 0
    for each in trends[trends.index(state) :]:
        run = run + 1 if each is not None and each is not state else 0
        if run == policy.steady_looks:
            state, run = not state, 0
    return state


def is_caught_up(look: Look, policy: LagPolicy) -> bool:
    """True if nothing waits, or only messages that came a moment ago: a consumer may commit now and then."""
    oldest_ms = look.seen.oldest_unread_append_ms
    is_young = oldest_ms is not None and 0 <= look.at_ms - oldest_ms < policy.young_lag_s * 1_000
    return is_young or look.seen.lag_messages <= policy.allowed_lag


def _since_caught_up(looks: Sequence[Look], policy: LagPolicy) -> Sequence[Look]:
    """The looks after the last one that had read all: a burst is judged by how it is read, not by how it came."""
    last = max(
        (number for number, look in enumerate(looks) if look.seen.lag_messages <= policy.allowed_lag), default=-1
    )
    return looks[last + 1 :] if last + 2 < len(looks) else looks


def _trend(looks: Sequence[Look], policy: LagPolicy) -> bool | None:
    """True if the lag falls fast enough, False if it does not; None between the two, which changes nothing.

    The slope is the median of those between any two looks (Theil and Sen): a burst does not tilt it.
    """
    last = looks[-1]
    if is_caught_up(last, policy):
        return True
    lag = last.seen.lag_messages
    points = [(time_of(look, policy) / 1_000, look.seen.lag_messages) for look in looks]
    slopes = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in combinations(points, 2) if b[0] > a[0]]
    slope = median(slopes) if slopes else 0.0
    if slope >= 0:
        return False
    clears_s, share = lag / -slope, sum(each < 0 for each in slopes) / len(slopes)
    if clears_s <= policy.clears_s and share >= policy.falling_share:
        return True
    return False if clears_s > 2 * policy.clears_s else None


def _rate(looks: Sequence[Look], counts: Sequence[int], event: str, policy: LagPolicy) -> float:
    """Messages a second from one event to another, the last before the first look and before the last one.

    From look to look a batch more or less would count. A look that is longer behind its event than events are apart
    counts with its own time: they ended, or began, there.
    """
    times = [getattr(look.seen, event) for look in looks]
    if times[-1] is None and times[-2] is not None and len(looks) > policy.steady_looks:
        looks, counts, times = looks[:-1], counts[:-1], times[:-1]
    stamps = [time_of(look, policy) for look in looks]
    gaps = [b - a for (a, b), count in zip(pairwise(times), counts, strict=True) if count and None not in {a, b}]
    gap_ms = min(median(gaps), (stamps[-1] - stamps[0]) / 2) if gaps else 0.0
    first_ms, last_ms = (
        told if told is not None and 0 <= stamp - told <= gap_ms else stamp
        for told, stamp in ((times[0], stamps[0]), (times[-1], stamps[-1]))
    )
    return 1_000 * sum(counts) / (last_ms - first_ms) if last_ms > first_ms else 0.0


def _acknowledged(before: Observation, after: Observation) -> int:
    """Messages that consumers acknowledged from one record to the next."""
    moved = after.position + after.acknowledged_beyond - before.position - before.acknowledged_beyond
    if after.acknowledged is None or before.acknowledged is None:
        return max(0, moved)
    if before.start_id == after.start_id:
        return max(0, after.acknowledged - before.acknowledged)
    return max(0, moved - (after.skipped or 0) - (after.expired or 0) - (after.trimmed or 0))


def _sum(last: Observation, steps: Sequence[tuple[Observation, Observation]], name: str) -> int | None:
    """Increase of a counter over the steps; None if it is not told."""
    if getattr(last, name) is None:
        return None
    return sum(counted(getattr(b, name) or 0, getattr(a, name) or 0, same=b.start_id == a.start_id) for b, a in steps)


def _eta(
    last: Observation, arrival_rate: float, consume_rate: float, *, is_young: bool
) -> tuple[float | None, EtaReason | None]:
    if last.lag_messages == 0:
        return 0.0, None
    if consume_rate == 0:
        return None, EtaReason.NOTHING_CONSUMED
    if is_young and last.lag_messages <= last.in_flight:  # on its way: all of it is with a consumer that keeps up
        return last.lag_messages / consume_rate, None
    if consume_rate > arrival_rate:
        return last.lag_messages / (consume_rate - arrival_rate), None
    return None, EtaReason.FALLS_BEHIND


def _deadline_s(window: Sequence[Look], at_ms: int, arrival_rate: float, eta_s: float | None) -> float | None:
    """Seconds until retention deletes unread messages at these rates; None if they are read before that."""
    last, first = window[-1].seen, window[0].seen
    if not last.lag_messages or (last.retention_deadline_ms is None and last.retention_messages_left is None):
        return None
    found = []
    if last.retention_deadline_ms is not None:
        passed_ms = max(1, window[-1].at_ms - window[0].at_ms)
        moved_ms = max(0, last.retention_deadline_ms - (first.retention_deadline_ms or last.retention_deadline_ms))
        moved_ms = moved_ms if first.position < last.position else 0  # else messages came into a segment
        if moved_ms < passed_ms:  # a consumer that keeps its distance never meets it
            found.append(max(0, last.retention_deadline_ms - at_ms) / 1_000 / (1 - moved_ms / passed_ms))
    if last.retention_messages_left is not None and arrival_rate > 0:
        grows = (last.lag_messages - first.lag_messages) / max(1.0, (window[-1].at_ms - window[0].at_ms) / 1_000)
        if grows > 0:
            found.append(last.retention_messages_left / grows)
    nearest_s = min(found, default=None)
    return None if nearest_s is None or (eta_s is not None and eta_s < nearest_s) else nearest_s
