import pytest
from hypothesis import given
from hypothesis import strategies as st

from danube.broker.rates.rates import TokenBucket
from danube.broker.rates.throttle import PublishRate


def test_a_burst_passes_at_once_and_then_one_by_one() -> None:
    bucket = TokenBucket(10, 0.0)
    for _ in range(10):
        assert bucket.wait_s(0.0) == 0
        bucket.use(1, 0.0)
    assert bucket.wait_s(0.0) == pytest.approx(0.1)
    assert bucket.wait_s(0.1) == pytest.approx(0)


def test_a_batch_larger_than_the_bucket_passes_and_the_next_one_waits_for_it() -> None:
    bucket = TokenBucket(10, 0.0)
    bucket.use(110, 0.0)
    assert bucket.wait_s(0.0) == pytest.approx(10.1)


def test_rest_does_not_save_up_more_than_a_burst() -> None:
    bucket = TokenBucket(10, 0.0)
    bucket.use(10, 0.0)
    assert bucket.available(1_000.0) == 10


def test_a_clock_that_stands_still_gives_nothing() -> None:
    bucket = TokenBucket(1, 5.0)
    bucket.use(1, 5.0)
    assert bucket.available(4.0) == 0


@given(st.integers(1, 1_000), st.lists(st.tuples(st.integers(1, 50), st.floats(0, 0.2)), max_size=60))
def test_no_more_passes_than_the_rate_a_burst_and_one_batch(rate: int, steps: list[tuple[int, float]]) -> None:
    bucket, now_s, passed, largest = TokenBucket(rate, 0.0), 0.0, 0, 0
    for count, rest_s in steps:
        now_s += rest_s
        if bucket.wait_s(now_s) == 0:
            bucket.use(count, now_s)
            passed, largest = passed + count, max(largest, count)
    assert passed <= rate * now_s + max(1, rate) + largest + 1e-6


def test_messages_and_bytes_are_limited_each_on_its_own() -> None:
    rate = PublishRate(0, 100, 0.0)
    rate.use(1_000, 50, 0.0)
    assert rate.wait_s(0.0) == 0
    rate.use(1, 100, 0.0)
    assert rate.wait_s(0.0) == pytest.approx(0.51)
    only_messages = PublishRate(2, 0, 0.0)
    only_messages.use(2, 10**9, 0.0)
    assert only_messages.wait_s(0.0) == pytest.approx(0.5)
