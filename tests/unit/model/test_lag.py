"""The rules of lag: histories worked by hand, and what holds for any history."""

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from danube.model.lag.rules import in_order, judge
from danube.model.lag.verdict import LagCause, LagMethod, LagPolicy, LagRule, LagStatus, Observation
from tests.unit.model.lag_cases import AT_S, CASES, GONE, POLICY, Case, each_5_s, ms, rising, seen


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_history_worked_by_hand(case: Case) -> None:
    verdict = judge(case.observations, ms(AT_S), POLICY)
    assert verdict is not None
    assert {name: getattr(verdict, name) for name in case.expected} == case.expected


def test_every_status_rule_cause_and_method_has_a_case() -> None:
    found = [judge(case.observations, ms(AT_S), POLICY) for case in CASES]
    found.append(judge([], ms(AT_S), POLICY))
    verdicts = [one for one in found if one is not None]
    assert {one.status for one in verdicts} == set(LagStatus)
    assert {one.rule for one in verdicts} == set(LagRule)
    assert {one.cause for one in verdicts} == {*LagCause, None}
    assert {one.lag_method for one in verdicts} == set(LagMethod)


def test_what_is_gone_has_no_verdict() -> None:
    assert judge(GONE, ms(AT_S), POLICY) is None
    assert judge(GONE, ms(AT_S - 1), POLICY) is not None


def test_what_is_gone_and_comes_again_has_one() -> None:
    again = seen(50, 10, 6, sequence=99_999)
    verdict = judge([*GONE, again], ms(AT_S), POLICY)
    assert verdict is not None
    assert verdict.position == 6


def test_no_record_at_all_is_unknown_and_not_zero() -> None:
    verdict = judge([], ms(AT_S), POLICY)
    assert verdict is not None
    assert (verdict.status, verdict.rule) == (LagStatus.UNKNOWN, LagRule.NO_HISTORY)
    assert (verdict.lag_messages, verdict.lag_s, verdict.arrival_rate, verdict.eta_s) == (None, None, None, None)


def test_silence_means_that_the_last_record_still_holds() -> None:
    told_once = [seen(0, 60, 40, in_flight=5)]
    told_each_time = [seen(second, 60, 40, in_flight=5) for second in range(0, 51, 5)]
    once, each_time = (judge(history, ms(AT_S), POLICY) for history in (told_once, told_each_time))
    assert once is not None
    assert each_time is not None
    assert once == replace(each_time, observed_ms=ms(0))


def test_allowed_lag_is_no_lag() -> None:
    history = each_5_s([60] * 10, [50] * 10)
    verdicts = [judge(history, ms(AT_S), LagPolicy(allowed_lag=allowed)) for allowed in (9, 10)]
    assert [one and one.status for one in verdicts] == [LagStatus.STALL, LagStatus.OK]


def test_a_consumer_has_stopped_when_it_was_away_for_longer_than_it_read() -> None:
    history = [*each_5_s(rising(10, 10), rising(5, 10), first_s=-45), seen(1, 110, 95, consumers=0)]
    statuses = []
    for second in (40, 45, 50, 60):
        verdict = judge(history, ms(second), POLICY)
        statuses.append(verdict and verdict.status)
    assert statuses == [LagStatus.WARN, LagStatus.WARN, LagStatus.STOP, LagStatus.STOP]


@st.composite
def histories(draw: st.DrawFn) -> list[Observation]:
    """Of one subscription: any changes that a broker could tell of, seeks and restarts included."""
    second, head, position, beyond, start, sequence, counter = 0.0, 20, 0, 0, 0, 0, 0
    found = []
    for _ in range(draw(st.integers(1, 25))):
        second += draw(st.sampled_from([0.5, 5, 5, 5, 10, 60]))
        head += draw(st.integers(0, 30))
        position = draw(st.integers(0, head)) if draw(st.integers(0, 9)) == 0 else min(head, position + beyond)
        beyond = draw(st.integers(0, max(0, head - position - 1)))
        restarted = draw(st.integers(0, 9)) == 0
        start, sequence, counter = start + restarted, 0 if restarted else sequence + 1, 0 if restarted else counter
        counter += draw(st.integers(0, 2))
        found.append(
            seen(
                second,
                head,
                position,
                beyond=beyond,
                start_offset=draw(st.integers(0, head)),
                start_id=f"s{start}",
                sequence=sequence,
                consumers=draw(st.integers(0, 2)),
                in_flight=draw(st.integers(0, 3)),
                waiting=draw(st.integers(0, 3)),
                nacked=counter,
                redelivered=counter,
                oldest_s=draw(st.sampled_from([None, second - 3, second + 1])),
                head_s=draw(st.sampled_from([None, second - 1])),
            )
        )
    return found


@given(histories(), st.integers(0, 400))
def test_nothing_is_ever_negative_and_every_null_has_a_reason(history: list[Observation], second: int) -> None:
    verdict = judge(history, ms(second), POLICY)
    assert verdict is not None
    numbers = (verdict.lag_messages, verdict.lag_s, verdict.arrival_rate, verdict.consume_rate, verdict.eta_s)
    assert all(number is None or number >= 0 for number in (*numbers, verdict.arrived, verdict.redelivered))
    assert (verdict.eta_s is None) == (verdict.eta_reason is not None)
    assert (verdict.lag_s is None) == (verdict.lag_method is LagMethod.UNKNOWN)
    assert verdict.commits <= POLICY.intervals >= verdict.looks


@given(histories(), st.randoms(use_true_random=False))
def test_the_order_in_which_records_come_changes_nothing(history: list[Observation], chance: Random) -> None:
    shuffled = [*history, history[0]]
    chance.shuffle(shuffled)
    at_ms = history[-1].at_ms
    assert judge(shuffled, at_ms, POLICY) == judge(history, at_ms, POLICY)
    assert in_order(shuffled) == in_order(history)


@given(histories(), st.integers(0, 90))
def test_unread_messages_only_get_older_while_nothing_is_told(history: list[Observation], more_s: int) -> None:
    at_ms = history[-1].at_ms
    now, later = judge(history, at_ms, POLICY), judge(history, at_ms + more_s * 1_000, POLICY)
    assert now is not None
    assert later is not None
    if now.lag_method is LagMethod.MEASURED is later.lag_method:
        assert (later.lag_s or 0) >= (now.lag_s or 0)


@given(histories())
def test_more_allowed_lag_never_makes_it_worse(history: list[Observation]) -> None:
    at_ms = history[-1].at_ms
    lenient = judge(history, at_ms, LagPolicy(allowed_lag=10_000))
    assert lenient is not None
    assert lenient.status is LagStatus.OK
    assert lenient.cause is None
