import pytest

from danube.client.connection.retry import (
    Failure,
    GiveUp,
    Reattach,
    RetryPolicy,
    Wait,
    after_failed_call,
    delay_before_retry,
)
from danube.model.errors import (
    BrokerUnreachableError,
    DanubeError,
    InvalidRequestError,
    LimitReachedError,
    ProducerNotFoundError,
    TopicNotServedError,
    UnavailableError,
)

POLICY = RetryPolicy()


def failure(error: DanubeError, attempt: int = 1, elapsed_s: float = 0.0) -> Failure:
    return Failure(error=error, attempt=attempt, elapsed_s=elapsed_s)


def test_delays_grow_by_200_ms_with_a_jitter_of_a_half() -> None:
    bounds = [
        (
            delay_before_retry(POLICY, failure(UnavailableError("x"), attempt), 0.0),
            delay_before_retry(POLICY, failure(UnavailableError("x"), attempt), 1.0),
        )
        for attempt in (1, 2, 5)
    ]
    assert bounds == [(0.1, 0.2), (0.2, 0.4), (0.5, 1.0)]


def test_a_delay_never_passes_five_seconds() -> None:
    policy = RetryPolicy(retries_max=1_000)
    assert delay_before_retry(policy, failure(UnavailableError("x"), 500), 1.0) == 5.0


def test_the_sixth_failure_is_the_last_by_default() -> None:
    assert delay_before_retry(POLICY, failure(UnavailableError("x"), 5), 0.0) is not None
    assert delay_before_retry(POLICY, failure(UnavailableError("x"), 6), 0.0) is None


def test_an_error_that_no_retry_helps_is_not_tried_again() -> None:
    assert delay_before_retry(POLICY, failure(InvalidRequestError("x")), 0.0) is None


def test_a_total_time_replaces_the_number_of_retries_and_the_last_try_is_at_its_end() -> None:
    policy = RetryPolicy(total_s=60.0)
    error = UnavailableError("x")
    assert delay_before_retry(policy, failure(error, 99, 10.0), 1.0) == 5.0
    assert delay_before_retry(policy, failure(error, 99, 58.0), 1.0) == 2.0
    assert delay_before_retry(policy, failure(error, 99, 60.0), 1.0) is None


@pytest.mark.parametrize(
    "error",
    [BrokerUnreachableError("x"), TopicNotServedError("x"), ProducerNotFoundError("x")],
)
def test_a_call_that_reached_the_wrong_place_is_mended_by_attaching_anew(error: DanubeError) -> None:
    assert after_failed_call(POLICY, failure(error), total_s=600, chance=0) == Reattach()


def test_a_busy_broker_is_asked_again_and_then_looked_up() -> None:
    error = UnavailableError("x")
    assert after_failed_call(POLICY, failure(error, 5), total_s=600, chance=0) == Wait(0.5)
    assert after_failed_call(POLICY, failure(error, 6), total_s=600, chance=0) == Reattach()


def test_a_limit_that_lasts_is_the_applications_to_know() -> None:
    assert after_failed_call(POLICY, failure(LimitReachedError("x"), 6), total_s=600, chance=0) == GiveUp()


def test_a_refused_call_is_given_up_at_once() -> None:
    assert after_failed_call(POLICY, failure(InvalidRequestError("x")), total_s=600, chance=0) == GiveUp()


def test_any_call_is_given_up_after_its_total_time() -> None:
    late = failure(TopicNotServedError("x"), 1, 600)
    assert after_failed_call(POLICY, late, total_s=600, chance=0) == GiveUp()
