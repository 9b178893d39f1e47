"""The rules of lag: histories worked by hand, and what holds for any history."""

from dataclasses import replace
from itertools import pairwise
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


def test_rates_are_by_the_times_of_the_records() -> None:
    """The first look sees a record of 4 s before it, and the last one is of its moment: 49 s, not 45."""
    history = [seen(1 + 5 * number, 10 * number, 10 * number - 5) for number in range(1, 10)]
    found = judge([seen(1, 0, 0), *history, seen(50, 98, 93)], ms(AT_S), POLICY)
    assert found is not None
    assert (found.rate_window_s, found.arrival_rate) == (49.0, 2.0)


@pytest.mark.parametrize("apart_s", [1.5, 1.9, 2, 4, 4.9, 5, 5.1, 7, 12])
@pytest.mark.parametrize("phase_s", [0.0, 0.3, 1.4])
def test_rates_of_even_batches_are_exact_wherever_looks_fall(apart_s: float, phase_s: float) -> None:
    """Batches of 8 that are read at once. By records alone a batch more or less would count: up to 20 % off."""
    history = []
    for second in range(-10, AT_S + 1, 5):
        batches = int((second + 60 - phase_s) / apart_s)
        last_s = batches * apart_s + phase_s - 60
        more = {"head_s": last_s, "last_acknowledged_ms": ms(last_s), "acknowledged": 8 * batches}
        history.append(seen(second, 8 * batches, 8 * batches, **more))
    found = judge(history, ms(AT_S), POLICY)
    assert found is not None
    assert (found.arrival_rate, found.consume_rate) == pytest.approx((8 / apart_s, 8 / apart_s), rel=0.001)


def test_rate_of_what_has_ended_counts_the_silence() -> None:
    """8 every 2 s for 25 s, and none for 20 s."""
    history = [
        seen(second, 4 * min(second, 30), 0, head_s=min(second, 30), last_acknowledged_ms=None)
        for second in range(0, 51, 5)
    ]
    found = judge(history, ms(AT_S), POLICY)
    assert found is not None
    assert found.arrival_rate == pytest.approx(4 * 25 / 45)


def test_age_goes_on_evenly_until_the_next_record_is_due() -> None:
    history = [seen(5 * number, 1_000, 10 * number, oldest_s=2.5 * number - 40) for number in range(11)]
    found = judge(history, ms(54), POLICY)
    assert found is not None
    assert (found.lag_s, found.lag_method) == (54 - (25 - 40 + 2), LagMethod.EXTRAPOLATED)


def test_status_changes_once_when_the_load_does() -> None:
    """A consumer keeps up, is too slow from second 100 on and catches up from 400 on; what arrives is noisy."""
    rng, lag, head, history = Random(7), 40, 0, list[Observation]()
    for second in range(0, 800, 5):
        reads = 50 if second < 100 else 30 if second < 400 else 90
        arrives = rng.randint(30, 70)
        head, lag = head + arrives, max(30, lag + arrives - reads + rng.randint(-8, 8))
        oldest_s = second - lag / 10
        tells = {"acknowledged": head - lag, "seeks": 0, "trimmed": 0, "timed_out": 0}
        history.append(seen(second, head, head - lag, oldest_s=oldest_s, in_flight=5, **tells))
    found = [judge(history[: number + 1], one.at_ms, POLICY) for number, one in enumerate(history) if number > 10]
    statuses = [one.status for one in found if one is not None]
    changes = [(before, after) for before, after in pairwise(statuses) if before is not after]
    assert changes == [(LagStatus.OK, LagStatus.WARN), (LagStatus.WARN, LagStatus.OK)]


@pytest.mark.parametrize("seed", range(5))
def test_noise_of_a_constant_lag_is_no_trend(seed: int) -> None:
    """A lag of 300, ten per cent up or down, for ten minutes: it never clears, so the status is WARN all the time."""
    rng, history = Random(seed), list[Observation]()
    for second in range(0, 700, 5):
        lag, head = 300 + rng.randint(-30, 30), 1_000 + 20 * second
        history.append(seen(second, head, head - lag, oldest_s=second - lag / 10, acknowledged=head - lag, in_flight=5))
    found = [judge(history[: number + 1], one.at_ms, POLICY) for number, one in enumerate(history) if number > 20]
    assert {one.status for one in found if one is not None} == {LagStatus.WARN}


def test_fall_that_would_take_hours_is_no_fall() -> None:
    """1,000 wait and one a look is read more than arrives: an hour and more."""
    verdict = judge(each_5_s([2_000] * 10, rising(1_000, 1), oldest_s=-99), ms(AT_S), POLICY)
    assert verdict is not None
    assert (verdict.status, verdict.rule) == (LagStatus.WARN, LagRule.LAG_NEVER_FELL)


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
