"""Which syncs are unusually slow, and how long cold reads stay off the disk for them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from danube.model.limits.broker import (
    COLD_READ_REST_RATIO,
    COLD_READ_WAIT_S_MAX,
    SYNC_SLOW_RATIO,
    SYNC_USUAL_S_MIN,
)
from danube.storage.read_throttle import SyncWatch

SLOW_S = 2 * SYNC_SLOW_RATIO * SYNC_USUAL_S_MIN


def sync(watch: SyncWatch, began_s: float, took_s: float) -> float:
    """One sync; answers when it was over."""
    watch.began(began_s)
    watch.ended(began_s + took_s)
    return began_s + took_s


def test_where_syncs_are_quick_a_read_may_begin_at_any_time() -> None:
    watch, now_s = SyncWatch(), 0.0
    assert watch.read_wait_s(now_s) == 0
    for _ in range(100):
        now_s = sync(watch, now_s, 0.002)
        assert watch.read_wait_s(now_s) == 0
    watch.began(now_s)
    assert watch.read_wait_s(now_s + 0.002) == 0


def test_no_read_begins_while_a_sync_stands_still() -> None:
    watch = SyncWatch()
    watch.began(1.0)
    assert watch.read_wait_s(1.0 + SYNC_USUAL_S_MIN / 2) == 0
    assert watch.read_wait_s(1.0 + 2 * SYNC_USUAL_S_MIN) > 0
    watch.ended(1.0 + 3 * SYNC_USUAL_S_MIN)
    assert watch.read_wait_s(1.0 + 3 * SYNC_USUAL_S_MIN) == 0


def test_after_a_slow_sync_reads_rest_ten_times_as_long_and_not_longer_than_the_bound() -> None:
    watch = SyncWatch()
    ended_s = sync(watch, 0, SLOW_S)
    assert watch.read_wait_s(ended_s) == pytest.approx(COLD_READ_REST_RATIO * SLOW_S)
    assert watch.read_wait_s(ended_s + COLD_READ_REST_RATIO * SLOW_S) == 0
    ended_s = sync(watch, 100, 60)
    assert watch.read_wait_s(ended_s) == COLD_READ_WAIT_S_MAX


def test_a_disk_that_always_takes_its_time_is_read_like_any_other() -> None:
    watch, now_s = SyncWatch(), 0.0
    for _ in range(200):
        now_s = sync(watch, now_s, SLOW_S)
    assert watch.read_wait_s(now_s + 2 * COLD_READ_WAIT_S_MAX) == 0
    now_s += 2 * COLD_READ_WAIT_S_MAX
    for _ in range(10):
        now_s = sync(watch, now_s, SLOW_S)
        assert watch.read_wait_s(now_s) == 0


def test_a_few_slow_syncs_do_not_become_what_is_usual() -> None:
    watch, now_s = SyncWatch(), 0.0
    for _ in range(5):
        for _ in range(100):
            now_s = sync(watch, now_s, 0.001)
        now_s = sync(watch, now_s, SLOW_S)
        assert watch.read_wait_s(now_s) > 0


@given(st.lists(st.tuples(st.floats(0, 10), st.floats(0, 100)), max_size=60), st.floats(0, 5))
def test_whatever_syncs_take_a_wait_is_within_its_bound(syncs: list[tuple[float, float]], later_s: float) -> None:
    watch, now_s = SyncWatch(), 0.0
    for pause_s, took_s in syncs:
        now_s = sync(watch, now_s + pause_s, took_s)
        assert 0 <= watch.read_wait_s(now_s + later_s) <= COLD_READ_WAIT_S_MAX + 1e-9
    assert watch.read_wait_s(now_s + COLD_READ_WAIT_S_MAX + 1e-9) == 0
