import pytest

from danube.broker.dispatch.redelivery import RedeliveryPolicy, delay_s
from danube.model.errors import InvalidRequestError
from danube.model.policies import BackoffStrategy

EXPONENTIAL = RedeliveryPolicy(base_delay_s=1.0, max_delay_s=60.0, backoff=BackoffStrategy.EXPONENTIAL)
FIXED = RedeliveryPolicy(base_delay_s=2.0, max_delay_s=60.0, backoff=BackoffStrategy.FIXED)


def test_exponential_delays_double_up_to_the_cap() -> None:
    assert [delay_s(attempt, EXPONENTIAL) for attempt in range(1, 9)] == [1, 2, 4, 8, 16, 32, 60, 60]


def test_fixed_delays_stay_the_same() -> None:
    assert [delay_s(attempt, FIXED) for attempt in (1, 2, 50)] == [2, 2, 2]


def test_attempts_without_end_stay_at_the_cap() -> None:
    assert delay_s(1_000_000, EXPONENTIAL) == 60.0


@pytest.mark.parametrize(("asked", "delay"), [(None, 2.0), (0.0, 2.0), (1.9, 2.0), (10.0, 10.0), (3_600.0, 60.0)])
def test_a_consumer_can_ask_for_more_delay_up_to_the_cap_but_not_for_less(asked: float | None, delay: float) -> None:
    assert delay_s(2, EXPONENTIAL, asked) == delay


def test_the_defaults_are_those_of_the_original() -> None:
    assert RedeliveryPolicy() == RedeliveryPolicy(30.0, 1.0, 60.0, BackoffStrategy.EXPONENTIAL)


@pytest.mark.parametrize(
    ("ack_timeout_s", "base_delay_s", "max_delay_s"),
    [(0.0, 1.0, 60.0), (-1.0, 1.0, 60.0), (30.0, -1.0, 60.0), (30.0, 61.0, 60.0), (float("nan"), 1.0, 60.0)],
)
def test_a_policy_that_cannot_work_is_refused(ack_timeout_s: float, base_delay_s: float, max_delay_s: float) -> None:
    with pytest.raises(InvalidRequestError):
        RedeliveryPolicy(ack_timeout_s, base_delay_s, max_delay_s)
