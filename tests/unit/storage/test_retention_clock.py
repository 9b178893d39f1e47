"""A clock that jumps makes nothing older; time that passes does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from danube.model.limits.broker import CLOCK_CAUGHT_UP_S, CLOCK_SETTLED_EXPIRY_S, CLOCK_SETTLED_S, CLOCK_STEP_MAX_S
from danube.storage.retention.retention_clock import RetentionClock

NOW_MS = 1_750_000_000_000
HOUR_MS = 3_600_000
DAY_MS, YEAR_MS = 24 * HOUR_MS, 365 * 24 * HOUR_MS
STEPS = st.lists(st.tuples(st.floats(0, 40_000), st.integers(-YEAR_MS, YEAR_MS)), max_size=20)


def after_ms(seconds: float) -> int:
    return NOW_MS + round(seconds * 1_000)


def steady(*, start_ms: int = NOW_MS, start_s: float = 0.0, newest_ms: int | None = None) -> RetentionClock:
    return RetentionClock(start_ms, start_s, newest_ms, settled_s=CLOCK_SETTLED_S)


def test_an_even_clock_is_believed() -> None:
    time = steady(start_s=5.0)
    assert [time.time_ms(after_ms(passed_s), 5.0 + passed_s) for passed_s in (0.0, 1.0, 10**9)] == [
        after_ms(passed_s) for passed_s in (0.0, 1.0, 10**9)
    ]
    assert time.step_ms is None


@pytest.mark.parametrize(("step_s", "is_believed"), [(CLOCK_STEP_MAX_S, True), (CLOCK_STEP_MAX_S + 1, False)])
def test_a_small_step_forward_is_believed_and_a_large_one_is_not(step_s: float, is_believed: bool) -> None:
    time = steady()
    found = time.time_ms(after_ms(10 + step_s), 10.0)
    assert (found == after_ms(10 + step_s), time.step_ms is None) == (is_believed, is_believed)


def test_while_the_clock_is_ahead_time_goes_on_evenly_and_then_as_the_clock_says() -> None:
    time = steady()
    assert time.time_ms(after_ms(60) + YEAR_MS, 60.0) == after_ms(60)
    assert time.time_ms(after_ms(3_000) + YEAR_MS, 3_000.0) == after_ms(3_000)
    assert time.step_ms == YEAR_MS
    assert time.time_ms(after_ms(4_000), 4_000.0) == after_ms(4_000)
    assert time.step_ms is None


def test_a_clock_that_went_back_and_returns_makes_nothing_older_in_between() -> None:
    time = steady()
    assert time.time_ms(NOW_MS - YEAR_MS, 60.0) == NOW_MS - YEAR_MS
    assert time.time_ms(after_ms(120), 120.0) == after_ms(120)


def test_a_clock_that_goes_on_evenly_for_long_is_believed() -> None:
    time = steady()
    time.time_ms(NOW_MS + YEAR_MS, 0.0)
    assert time.time_ms(after_ms(CLOCK_SETTLED_S - 1) + YEAR_MS, CLOCK_SETTLED_S - 1) == after_ms(CLOCK_SETTLED_S - 1)
    assert time.time_ms(after_ms(CLOCK_SETTLED_S) + YEAR_MS, CLOCK_SETTLED_S) == after_ms(CLOCK_SETTLED_S) + YEAR_MS
    assert time.step_ms is None


def test_a_clock_that_jumps_again_is_doubted_anew() -> None:
    time = steady()
    time.time_ms(NOW_MS + YEAR_MS, 0.0)
    time.time_ms(after_ms(CLOCK_SETTLED_S / 2) + 2 * YEAR_MS, CLOCK_SETTLED_S / 2)
    assert time.time_ms(after_ms(CLOCK_SETTLED_S) + 2 * YEAR_MS, CLOCK_SETTLED_S) == after_ms(CLOCK_SETTLED_S)


def test_many_small_steps_are_not_a_way_round() -> None:
    time = steady()
    found = [time.time_ms(after_ms(15 * turn + 50 * turn), 15.0 * turn) for turn in range(100)]
    assert found[-1] <= after_ms(15 * 99 + CLOCK_STEP_MAX_S)


def test_what_a_clock_is_off_in_a_day_is_not_added_up() -> None:
    time = steady()
    for day in range(1, 30):
        assert time.time_ms(after_ms(day * (CLOCK_SETTLED_S + 10)), day * CLOCK_SETTLED_S) == after_ms(
            day * (CLOCK_SETTLED_S + 10)
        )


def test_after_a_start_the_time_since_the_newest_message_counts_once_the_clock_has_shown_itself() -> None:
    time = steady(start_ms=NOW_MS + 30 * DAY_MS, newest_ms=NOW_MS)
    assert time.time_ms(after_ms(100) + 30 * DAY_MS, 100.0) == after_ms(100)
    assert time.time_ms(after_ms(CLOCK_SETTLED_S + 100) + 30 * DAY_MS, CLOCK_SETTLED_S + 100) > NOW_MS + 30 * DAY_MS


def test_after_a_start_with_a_message_from_the_future_the_clock_counts() -> None:
    time = steady(newest_ms=NOW_MS + YEAR_MS)
    assert time.time_ms(after_ms(100), 100.0) == after_ms(100)
    assert time.time_ms(after_ms(200) + YEAR_MS, 200.0) == after_ms(200)  # and none the more for that message
    assert time.time_ms(after_ms(300), 300.0) == after_ms(300)


def test_a_message_from_the_future_bears_nothing_out_once_the_clock_of_the_start_is_believed() -> None:
    time = steady(newest_ms=NOW_MS + YEAR_MS)
    for passed_s in (CLOCK_SETTLED_S, CLOCK_SETTLED_S + 1 + CLOCK_CAUGHT_UP_S):
        time.time_ms(after_ms(passed_s), passed_s)
    assert time.time_ms(after_ms(passed_s) + YEAR_MS, passed_s) == after_ms(passed_s)
    passed_s += CLOCK_CAUGHT_UP_S
    assert time.time_ms(after_ms(passed_s) + YEAR_MS, passed_s) == after_ms(passed_s)


def test_a_clock_that_was_behind_at_the_start_counts_soon_after_it_was_set_right() -> None:
    time = steady(start_ms=NOW_MS - YEAR_MS, newest_ms=NOW_MS)
    assert time.time_ms(after_ms(20), 20.0) == after_ms(20) - YEAR_MS
    assert time.time_ms(after_ms(CLOCK_CAUGHT_UP_S + 19), CLOCK_CAUGHT_UP_S + 19) < NOW_MS
    assert time.time_ms(after_ms(CLOCK_CAUGHT_UP_S + 20), CLOCK_CAUGHT_UP_S + 20) == after_ms(CLOCK_CAUGHT_UP_S + 20)
    assert time.step_ms is None


def test_the_rest_before_such_a_start_counts_when_the_clock_has_settled() -> None:
    time = steady(start_ms=NOW_MS - YEAR_MS, newest_ms=NOW_MS)
    time.time_ms(after_ms(20) + DAY_MS, 20.0)
    assert time.time_ms(after_ms(CLOCK_CAUGHT_UP_S + 20) + DAY_MS, CLOCK_CAUGHT_UP_S + 20) == after_ms(
        CLOCK_CAUGHT_UP_S + 20
    )
    assert time.step_ms == DAY_MS
    assert time.time_ms(after_ms(CLOCK_SETTLED_S + 20) + DAY_MS, CLOCK_SETTLED_S + 20) == (
        after_ms(CLOCK_SETTLED_S + 20) + DAY_MS
    )


def test_a_clock_that_was_behind_and_is_set_short_of_the_newest_message_has_not_caught_up() -> None:
    time = steady(start_ms=NOW_MS - YEAR_MS, newest_ms=NOW_MS)
    time.time_ms(after_ms(20) - HOUR_MS, 20.0)
    now_s = CLOCK_CAUGHT_UP_S + 20
    assert time.time_ms(after_ms(now_s) - HOUR_MS, now_s) == after_ms(now_s) - YEAR_MS


def test_a_clock_that_catches_up_only_now_has_not_gone_on_evenly_yet() -> None:
    time = steady(start_ms=NOW_MS - YEAR_MS, newest_ms=NOW_MS)
    time.time_ms(after_ms(20) - HOUR_MS, 20.0)
    now_s = CLOCK_CAUGHT_UP_S + 20
    assert time.time_ms(after_ms(now_s), now_s) == after_ms(now_s) - YEAR_MS
    now_s += CLOCK_CAUGHT_UP_S
    assert time.time_ms(after_ms(now_s), now_s) == after_ms(now_s)


@pytest.mark.parametrize("settled_s", [CLOCK_SETTLED_EXPIRY_S, CLOCK_SETTLED_S])
def test_what_happens_once_a_day_does_not_keep_a_clock_doubted(settled_s: float) -> None:
    time, passed_s, slept_ms = RetentionClock(NOW_MS, 0.0, settled_s=settled_s), 0.0, 0
    for _ in range(60):
        for _ in range(16 * 60):
            passed_s += 60
            found = time.time_ms(after_ms(passed_s) + slept_ms, passed_s)
        assert found == after_ms(passed_s) + slept_ms
        slept_ms += 8 * HOUR_MS


@given(STEPS)
def test_it_is_never_later_than_the_clock_nor_than_time_that_passed(steps: list[tuple[float, int]]) -> None:
    time, passed_s, offset_ms = steady(), 0.0, 0
    for seconds, step_ms in steps:
        passed_s, offset_ms = passed_s + seconds, offset_ms + step_ms
        if passed_s >= CLOCK_SETTLED_S:
            break
        found = time.time_ms(after_ms(passed_s) + offset_ms, passed_s)
        assert found <= after_ms(passed_s) + min(offset_ms, CLOCK_STEP_MAX_S * 1_000)
