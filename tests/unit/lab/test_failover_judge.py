"""Rules for the failover rounds: what is whole passes, and each promise is missed where it is broken."""

from collections.abc import Sequence

import pytest

from lab.failover.judge import Report, judge

TOPIC = "/default/t"
SENT = 6
WHOLE = [(offset, offset) for offset in range(SENT)]


def reported(*, received: Sequence[tuple[int, int]] = WHOLE, acknowledged: int = SENT) -> Report:
    found = Report()
    found.add(
        {"acknowledged": [(number, 10.0 + number) for number in range(acknowledged)], "received": [], "errors": []}
    )
    found.add({"acknowledged": [], "received": received, "errors": ["send: away"]})
    return found


def broken(report: Report, held: Sequence[tuple[int, int]]) -> list[str]:
    return [one.promise for one in judge(TOPIC, report, held)]


def test_a_topic_that_holds_what_was_acknowledged_and_delivered_keeps_every_promise() -> None:
    assert broken(reported(), WHOLE) == []


def test_a_send_whose_answer_was_lost_may_be_there_twice_and_what_came_last_may_be_unread() -> None:
    held = [*WHOLE[:3], (3, 2), (4, 3), (5, 4), (6, 5)]
    assert broken(reported(received=held[:5]), held) == []


@pytest.mark.parametrize(
    ("held", "promises"),
    [
        (WHOLE[:-1], ["lost", "changed"]),
        ([*WHOLE[:3], *((offset + 1, number) for offset, number in WHOLE[3:])], ["gaps", "changed"]),
        ([(0, 0), (1, 2), (2, 1), *WHOLE[3:]], ["disorder", "changed"]),
    ],
)
def test_each_promise_is_missed_where_it_is_broken(held: Sequence[tuple[int, int]], promises: list[str]) -> None:
    assert broken(reported(), held) == promises


def test_a_message_between_others_that_never_came_is_missed() -> None:
    assert broken(reported(received=[*WHOLE[:2], *WHOLE[3:]]), WHOLE) == ["undelivered"]


def test_the_first_acknowledgement_after_a_moment_is_found() -> None:
    report = reported()
    assert report.first_acknowledged_after(12.5) == 13.0
    assert report.first_acknowledged_after(99.0) is None
