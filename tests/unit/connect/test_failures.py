"""Kinds of failures, backoffs, and positions: rules without I/O."""

import pytest

from danube.connect.failures import Backoff, FailureKind, OtherSideError, RefusedError, StandbyError, kind_of, reason_of
from danube.connect.tasks.positions import Held, Mark, Resume, attributes_of, encoded, mark_of, resume_of
from danube.model.errors import (
    PayloadInvalidError,
    ProducerFencedError,
    SettingsError,
    SubscriptionBusyError,
    TopicHeldError,
    UnavailableError,
)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (OtherSideError("x"), FailureKind.OTHER_SIDE),
        (ConnectionResetError("x"), FailureKind.OTHER_SIDE),
        (TimeoutError(), FailureKind.OTHER_SIDE),
        (UnavailableError("x"), FailureKind.OTHER_SIDE),
        (ProducerFencedError("x"), FailureKind.OTHER_SIDE),
        (RefusedError("x"), FailureKind.REFUSED),
        (PayloadInvalidError("x"), FailureKind.REFUSED),
        (StandbyError("x"), FailureKind.STANDBY),
        (SubscriptionBusyError("x"), FailureKind.STANDBY),
        (TopicHeldError("x"), FailureKind.STANDBY),
        (SettingsError("x"), FailureKind.CONFIGURATION),
        (KeyError("x"), FailureKind.UNKNOWN),
    ],
)
def test_a_failure_has_its_kind(error: Exception, kind: FailureKind) -> None:
    assert kind_of(error) is kind


def test_a_reason_is_one_short_line() -> None:
    assert reason_of(ValueError("a\nb")) == "ValueError: a b"
    assert reason_of(RefusedError("too old")) == "too old"
    assert len(reason_of(ValueError("x" * 10_000))) == 500


def test_delays_double_to_the_longest_with_half_of_chance() -> None:
    backoff = Backoff(first_s=1, longest_s=30)
    assert [backoff.delay_s(failures, 0.5) for failures in (1, 2, 3, 6, 1_000_000)] == [1, 2, 4, 30, 30]
    assert (backoff.delay_s(1, 0), backoff.delay_s(1, 1)) == (0.5, 1.5)


def test_a_topic_without_marks_is_begun_at_the_beginning() -> None:
    assert resume_of([None]) == Resume(after=None, batch=1, held={})


def test_a_plain_topic_is_resumed_after_its_last_record() -> None:
    assert resume_of([Mark('{"lsn":7}')]).after == {"lsn": 7}


def test_the_newest_batch_is_read_again_and_each_partition_drops_what_it_holds() -> None:
    resume = resume_of([Mark("12", 3, "9"), Mark("8", 2, "5"), None, Mark("10", 3, "9")])
    assert (resume.after, resume.batch) == (9, 3)
    held = Held(resume.held)
    assert [held.drops(0, position) for position in ("10", "12", "13")] == [True, True, False]
    assert [held.drops(1, "9"), held.drops(3, "10"), held.drops(3, "11")] == [False, True, False]


def test_marks_are_read_back_and_those_of_another_source_are_none() -> None:
    mark = Mark(encoded([1, "a"]), 4, "null")
    attributes = attributes_of("mine", mark, is_partitioned=True)
    assert mark_of("mine", attributes) == mark
    assert mark_of("theirs", attributes) is None


def test_a_position_that_json_lacks_is_refused() -> None:
    with pytest.raises(ValueError, match="value of JSON"):
        encoded(object())
