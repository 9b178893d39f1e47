"""Cause of a lag: the first that fits, from the numbers of a verdict. Pure."""

from collections.abc import Sequence

from danube.model.lag.movement import Look
from danube.model.lag.verdict import LagCause, LagPolicy, LagStatus, LagVerdict, Observation


def cause_of(
    verdict: LagVerdict, status: LagStatus, last: Observation, window: Sequence[Look], policy: LagPolicy
) -> LagCause | None:
    """The named cause (`docs/lag.md`); None if nothing waits for long."""
    if verdict.lost:
        return LagCause.DATA_LOSS
    if (verdict.lag_messages or 0) > policy.allowed_lag and _member_is_stuck(verdict, policy):
        return LagCause.BLOCKED if verdict.blocked else LagCause.MEMBER_STUCK
    if _storms(verdict, last, window, policy):
        return LagCause.STORM  # also while nothing waits: what was sent again has just been acknowledged
    if (verdict.lag_messages or 0) <= policy.allowed_lag:
        return None
    found = _of_consumers(verdict, status, last, window, policy)
    is_young = status is LagStatus.OK and verdict.lag_s is not None and verdict.lag_s < policy.young_lag_s
    return None if is_young and not verdict.blocked else found


def _of_consumers(
    verdict: LagVerdict, status: LagStatus, last: Observation, window: Sequence[Look], policy: LagPolicy
) -> LagCause | None:
    if verdict.consumers and _hangs(verdict, last):
        return LagCause.STUCK
    if verdict.blocked:
        return LagCause.BLOCKED
    if status is LagStatus.REWIND:
        return LagCause.REWOUND
    if not verdict.consumers:
        return LagCause.NOBODY_READS
    if verdict.acknowledged is None or verdict.arrived is None:
        return None
    found = _of_failures(verdict, last, window) or _of_rates(verdict, policy)
    if found is not LagCause.TOO_SLOW or status is not LagStatus.OK:
        return found
    before = window[-policy.steady_looks :][0].seen.lag_messages
    return LagCause.CATCHING_UP if last.lag_messages < before else None  # a burst came, or commits come in bursts


def _member_is_stuck(verdict: LagVerdict, policy: LagPolicy) -> bool:
    """True if one consumer has messages and answered none in the window, while others did."""
    silent_ms = (verdict.silent_s or 0.0) * 1_000
    return (verdict.consumers or 0) > 1 and (verdict.acknowledged or 0) > 0 and silent_ms > policy.window_ms


def _hangs(verdict: LagVerdict, last: Observation) -> bool:
    """True if messages time out and nobody ever answered them: silence is no fault of the messages."""
    fails_elsewhere = last.nacked > 0 or (last.failed_on or 0) > 1
    return verdict.acknowledged == 0 and bool(last.timed_out) and bool(last.failures) and not fails_elsewhere


def _of_failures(verdict: LagVerdict, last: Observation, window: Sequence[Look]) -> LagCause | None:
    acknowledged, nacked, waiting = verdict.acknowledged or 0, verdict.nacked or 0, verdict.waiting or 0
    still = window[0].seen.position == window[-1].seen.position
    returned = max(nacked, verdict.redelivered or 0)
    if last.timed_out is None:  # an older broker does not tell them apart
        if returned > 0 and (still or returned >= acknowledged):
            return LagCause.POISON
    else:
        again = (last.failures or 0) > 1 and (nacked > 0 or (waiting > 0 and last.nacked > 0))
        if still and (again or (last.failed_on or 0) > 1):
            return LagCause.POISON
    return LagCause.BACK_OFF if waiting > 0 and waiting >= (verdict.in_flight or 0) else None


def _storms(verdict: LagVerdict, last: Observation, window: Sequence[Look], policy: LagPolicy) -> bool:
    """True if many different messages fail, and did until now."""
    failed = (verdict.nacked or 0) + (verdict.timed_out or 0)
    if last.timed_out is None or failed < policy.storm_messages or 2 * failed < (verdict.acknowledged or 0):
        return False
    then = window[-1 - policy.steady_looks :][0].seen
    goes_on = then.start_id != last.start_id or (last.nacked, last.timed_out) != (then.nacked, then.timed_out)
    are_many = window[0].seen.position != last.position or (last.failures or 0) <= 1
    return goes_on and are_many and bool(verdict.acknowledged)


def _of_rates(verdict: LagVerdict, policy: LagPolicy) -> LagCause:
    acknowledged, limit = verdict.acknowledged or 0, verdict.dispatch_limit
    sent = acknowledged + (verdict.redelivered or 0)
    if limit and sent >= policy.limited_share * limit * (verdict.rate_window_s or 0.0):
        return LagCause.THROTTLED
    if acknowledged == 0:
        return LagCause.STUCK if verdict.in_flight else LagCause.NOT_SENT
    is_behind = (verdict.arrival_rate or 0.0) >= (verdict.consume_rate or 0.0)
    return LagCause.TOO_SLOW if is_behind else LagCause.CATCHING_UP
