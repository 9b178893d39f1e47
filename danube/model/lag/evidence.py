"""Evidence for a status: a sentence with the numbers that the rule used. Pure."""

import math

from danube.model.lag.group import GroupLag
from danube.model.lag.verdict import LagCause, LagPolicy, LagRule, LagVerdict
from danube.model.text import count_text, span_text


def evidence_of(verdict: LagVerdict, policy: LagPolicy, as_of_ms: int) -> str:
    """The rule that fired and its numbers, then those of the cause."""
    sentence = _of_rule(verdict, policy, as_of_ms)
    near_s = verdict.retention_deadline_s
    when = f"will be deleted in {span_text(near_s)} at this rate" if near_s else "can be deleted from now on"
    warning = "" if near_s is None else f"unread messages {when}"
    return "; ".join(filter(None, (sentence, _of_cause(verdict), warning)))


def group_evidence(group: GroupLag, worst: LagVerdict, policy: LagPolicy, as_of_ms: int) -> str:
    """Evidence of a group: that of its worst partition, behind its name where the topic has partitions."""
    told = evidence_of(worst, policy, as_of_ms)
    return told if group.worst_partition == group.topic else f"{group.worst_partition}: {told}"


def _of_rule(verdict: LagVerdict, policy: LagPolicy, as_of_ms: int) -> str:
    match verdict.rule:
        case LagRule.NOT_RELIABLE:
            return "the topic is not reliable: it keeps nothing"
        case LagRule.NO_HISTORY:
            return "no telemetry was found of it"
        case LagRule.SILENT:
            silent_s = (as_of_ms - (verdict.observed_ms or as_of_ms)) / 1_000
            return f"no telemetry for {span_text(silent_s)}: its broker is down or does not publish any"
        case LagRule.SHORT_HISTORY:
            wanted_s = (policy.minimum_complete * policy.intervals - verdict.looks) * policy.interval_s
            return f"seen at {verdict.looks} of {policy.intervals} looks: ask again in {span_text(max(1.0, wanted_s))}"
        case _:
            return _of_few_commits(verdict, policy)


def _of_few_commits(verdict: LagVerdict, policy: LagPolicy) -> str:
    match verdict.rule:
        case LagRule.ALLOWED_LAG:
            return f"{_count(verdict.lag_messages, 'message')} unread"
        case LagRule.NO_COMMITS if verdict.commit_age_s is None:
            return f"no consumer was seen, and {_count(verdict.lag_messages, 'message')} wait"
        case LagRule.NO_COMMITS:
            return f"no consumer for {span_text(verdict.commit_age_s or 0.0)}, longer than it had read before"
        case LagRule.FEW_COMMITS:
            return f"read at {verdict.commits} of {policy.intervals} looks: too few to judge"
        case _:
            return _of_commits(verdict, verdict.rate_window_s or 0.0, policy)


def _of_commits(verdict: LagVerdict, window_s: float, policy: LagPolicy) -> str:
    match verdict.rule:
        case LagRule.WENT_BACK:
            return f"the position went back, stands at {verdict.position or 0:,} and has not come forward again"
        case LagRule.CAUGHT_UP_ONCE:
            return f"it had read everything within the last {span_text(window_s)}"
        case LagRule.POSITION_STILL:
            stood = f"the position stood at {verdict.position or 0:,}"
            return f"a consumer is there, and {stood} at {verdict.commits} looks"
        case LagRule.YOUNG_LAG:
            oldest_s = verdict.lag_s or 0.0
            young = f"it had read all but the newest messages within the last {span_text(window_s)}"
            return f"the oldest unread message is {span_text(oldest_s)} old" if oldest_s < policy.young_lag_s else young
        case LagRule.LAG_NEVER_FELL:
            return f"the lag does not fall so that it clears within {span_text(policy.clears_s)}"
        case LagRule.DELETED_UNREAD | LagRule.MEMBER_SILENT | LagRule.REDELIVERED:
            return f"{_count(verdict.lag_messages, 'message')} unread"
        case _:
            return f"the lag falls, as seen in the last {span_text(window_s)}"


def _of_cause(verdict: LagVerdict) -> str:
    window = f"in {span_text(verdict.rate_window_s or 0.0)}"
    match verdict.cause:
        case LagCause.DATA_LOSS:
            lost = _count(verdict.lost, "unread message")
            return f"retention deleted {lost} just now, {verdict.messages_lost or 0:,} in all"
        case LagCause.MEMBER_STUCK:
            return f"{_silent(verdict)}, while others acknowledged {verdict.acknowledged or 0:,} {window}"
        case LagCause.STORM:
            failed = f"{verdict.nacked or 0:,} were refused and {verdict.timed_out or 0:,} not acknowledged in time"
            return f"{failed}, {verdict.acknowledged or 0:,} were acknowledged {window}{_left(verdict)}"
        case LagCause.THROTTLED:
            limit, arrives = verdict.dispatch_limit or 0, verdict.arrival_rate or 0.0
            held = f"its limit of {limit:,} messages/s holds it back, and {arrives:.1f}/s arrive"
            return f"{held}: raise max_subscription_dispatch_rate above {max(limit, math.ceil(arrives)):,}"
        case _:
            return _of_usual_cause(verdict, window)


def _of_usual_cause(verdict: LagVerdict, window: str) -> str:
    match verdict.cause:
        case LagCause.BLOCKED:
            held = f"{_count(verdict.blocked, 'message')} failed too often and what follows waits"
            return f"{held}: a retry sends them again, a skip gives them up"
        case LagCause.POISON:
            returned = max(verdict.nacked or 0, verdict.redelivered or 0)
            done = f"{verdict.acknowledged or 0:,} were acknowledged {window}"
            failed = (
                f"the one at {verdict.failed_offset:,} failed {_count(verdict.failures, 'time')}"
                if verdict.failures and verdict.failed_offset is not None
                else ""
            )
            told = (f"{_count(returned, 'message')} came back and {done}", failed)
            return ", ".join(filter(None, told)) + _left(verdict)
        case LagCause.BACK_OFF:
            waiting = _count(verdict.waiting, "message")
            return f"{waiting} in back-off, {verdict.in_flight or 0:,} in flight{_left(verdict)}"
        case LagCause.STUCK:
            held = f"{_count(verdict.in_flight, 'message')} in flight, none acknowledged {window}"
            return f"{held}, {_silent(verdict)}" if verdict.silent_consumer is not None else held
        case LagCause.NOT_SENT:
            return f"{_count(verdict.consumers, 'consumer')} attached, nothing in flight, nothing acknowledged {window}"
        case LagCause.TOO_SLOW | LagCause.CATCHING_UP:
            return f"{verdict.arrived or 0:,} arrived, {verdict.acknowledged or 0:,} acknowledged {window}"
        case _:
            return f"{verdict.messages_lost:,} were deleted unread" if verdict.messages_lost else ""


def _left(verdict: LagVerdict) -> str:
    """Messages whose consumer went away with them, as one that crashes does."""
    messages = _count(verdict.disconnected, "message")
    return f"; consumers left without an answer to {messages}" if verdict.disconnected else ""


def _silent(verdict: LagVerdict) -> str:
    """The consumers that answer nothing, with what they have."""
    host = f" at {verdict.silent_host}" if verdict.silent_host else ""
    since = f" from offset {verdict.silent_offset:,}" if verdict.silent_offset is not None else ""
    silent = span_text(verdict.silent_s or 0.0)
    has = f"{_count(verdict.silent_in_flight, 'message')}{since} and answered none for {silent}"
    if verdict.silent_others:
        return f"consumers {verdict.silent_consumer}{host} and {verdict.silent_others} have {has}"
    return f"consumer {verdict.silent_consumer!r}{host} has {has}"


def _count(number: int | None, noun: str) -> str:
    return count_text(number or 0, noun)
