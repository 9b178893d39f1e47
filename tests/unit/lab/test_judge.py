"""Every checker finds the violation planted for it, and none in a run that kept all promises."""

import pytest

from danube.model.ranges import OffsetRange
from danube.model.subscription import Cursor
from lab.kernel.history import (
    AppendAcknowledged,
    CursorFound,
    Delivered,
    DeliveryAcknowledged,
    Event,
    Failed,
    Keeps,
    LogFound,
    Restarted,
    Sent,
    Subscribed,
    TopicBegun,
    TopicDeleted,
)
from lab.kernel.judge import (
    CHECKERS,
    Checker,
    acknowledged_is_kept,
    acknowledged_is_not_sent_again,
    check,
    cursors_cover_what_was_acknowledged,
    everything_arrives,
    first_deliveries_are_in_order,
    offsets_are_contiguous,
    only_what_was_sent_is_stored,
    producers_are_in_order,
    retention_keeps_what_it_has_to,
    seen_stays_as_it_was,
    what_must_work_works,
)

T = "/default/t"


def sent(message: str, producer: str = "p") -> Sent:
    return Sent(T, producer, message)


def stored(message: str, offset: int) -> AppendAcknowledged:
    return AppendAcknowledged(T, message, offset)


def got(offset: int, message: str) -> Delivered:
    return Delivered(T, "s", offset, message)


def done(offset: int) -> DeliveryAcknowledged:
    return DeliveryAcknowledged(T, "s", offset)


def found(*messages: str) -> LogFound:
    return LogFound(T, tuple(enumerate(messages)))


def from_offset(start: int, *messages: str) -> LogFound:
    return LogFound(T, tuple(enumerate(messages, start)), start)


GOOD: list[Event] = [
    Subscribed(T, "s"),
    sent("a"),
    sent("b"),
    sent("unknown"),
    stored("a", 0),
    stored("b", 1),
    got(0, "a"),
    got(1, "b"),
    done(0),
    done(1),
    Restarted("power cut"),
    CursorFound(T, "s", Cursor(1)),
    found("a", "b", "unknown"),
    sent("c"),
    got(1, "b"),
    done(1),
    got(2, "unknown"),
    stored("c", 3),
    got(3, "c"),
    found("a", "b", "unknown", "c"),
]


def test_a_run_that_kept_all_promises_has_no_violations() -> None:
    assert check(GOOD) == []


def test_what_retention_may_take_is_not_missed() -> None:
    history: list[Event] = [
        sent("a"),
        sent("b"),
        stored("a", 0),
        stored("b", 1),
        Subscribed(T, "s"),
        got(0, "a"),
        done(0),
    ]
    history += [TopicBegun(T, Keeps.UNREAD), from_offset(1, "b"), got(1, "b"), CursorFound(T, "s", Cursor(1))]
    assert check(history) == []


def test_a_message_that_nobody_got_may_go_from_a_topic_that_keeps_the_newest() -> None:
    history: list[Event] = [sent("a"), sent("b"), stored("a", 0), Subscribed(T, "s"), TopicBegun(T, Keeps.NEWEST)]
    history += [from_offset(1, "b"), got(1, "b"), CursorFound(T, "s", Cursor(1))]
    assert check(history) == []


def test_nothing_is_expected_of_a_topic_that_is_deleted() -> None:
    assert check([sent("a"), stored("a", 0), Subscribed(T, "s"), TopicDeleted(T)]) == []


PLANTED: list[tuple[Checker, list[Event], str]] = [
    (acknowledged_is_kept, [stored("a", 0), stored("b", 1), found("a")], "'b' at offset 1 is gone"),
    (acknowledged_is_kept, [stored("a", 0), found("b")], "'a' at offset 0 is now 'b'"),
    (acknowledged_is_kept, [found(), stored("a", 0)], "the log was never read after an acknowledgement"),
    (acknowledged_is_kept, [stored("a", 0), found("a"), found()], "'a' at offset 0 is gone"),
    (seen_stays_as_it_was, [got(0, "a"), found()], "'a' at offset 0 is gone"),
    (seen_stays_as_it_was, [got(0, "a"), found("b")], "'a' at offset 0 is now 'b'"),
    (seen_stays_as_it_was, [got(0, "a"), got(0, "b")], "'a' at offset 0 is now 'b'"),
    (seen_stays_as_it_was, [found("a", "b"), found("a")], "'b' at offset 1 is gone"),
    (seen_stays_as_it_was, [found("a"), got(0, "b")], "'a' at offset 0 is now 'b'"),
    (offsets_are_contiguous, [LogFound(T, ((0, "a"), (2, "b")))], "the log has the offsets 0, 2"),
    (offsets_are_contiguous, [LogFound(T, ((1, "a"),))], "the log has the offsets 1"),
    (offsets_are_contiguous, [LogFound(T, ((0, "a"), (0, "b")))], "the log has the offsets 0, 0"),
    (offsets_are_contiguous, [found("a", "b", "a")], "'a' is in the log twice"),
    (offsets_are_contiguous, [stored("a", 0), stored("b", 0)], "'b' or offset 0 came twice"),
    (offsets_are_contiguous, [stored("a", 0), stored("a", 1)], "'a' or offset 1 came twice"),
    (only_what_was_sent_is_stored, [sent("a"), found("a", "x")], "'x' at offset 1 was never sent"),
    (
        producers_are_in_order,
        [sent("a"), sent("other", "q"), sent("b"), found("other", "b", "a")],
        "'a' of p at offset 2 overtaken by a later one",
    ),
    (first_deliveries_are_in_order, [Subscribed(T, "s"), got(1, "b"), got(0, "a")], "s got offset 0 first after 1"),
    (
        everything_arrives,
        [Subscribed(T, "s"), got(0, "a"), found("a", "b")],
        "s never got 'b' at offset 1",
    ),
    (
        cursors_cover_what_was_acknowledged,
        [Subscribed(T, "s"), done(0), CursorFound(T, "s", Cursor(2))],
        "the cursor of s skips 1",
    ),
    (
        cursors_cover_what_was_acknowledged,
        [Subscribed(T, "s"), done(0), CursorFound(T, "s", Cursor(1, (OffsetRange(2, 4),)))],
        "the cursor of s skips 2, 3",
    ),
    (cursors_cover_what_was_acknowledged, [CursorFound(T, "s", None)], "s is not known any more"),
    (what_must_work_works, [Failed(T, "the journal does not open")], "the journal does not open"),
    (retention_keeps_what_it_has_to, [from_offset(1, "b")], "the log begins at 1, though it keeps everything"),
    (
        retention_keeps_what_it_has_to,
        [TopicBegun(T, Keeps.NEWEST), from_offset(2, "c"), from_offset(1, "b", "c")],
        "the log begins at 1, after it began at 2",
    ),
    (
        retention_keeps_what_it_has_to,
        [TopicBegun(T, Keeps.UNREAD), Subscribed(T, "s", 1), done(2), from_offset(3, "d")],
        "s had not acknowledged 1, which are gone",
    ),
    (acknowledged_is_not_sent_again, [got(0, "a"), done(0), got(0, "a")], "s got offset 0 again"),
]


@pytest.mark.parametrize(("checker", "history", "what"), PLANTED)
def test_a_planted_violation_is_found(checker: Checker, history: list[Event], what: str) -> None:
    violations = list(checker(history))
    assert [violation.what for violation in violations] == [what]
    assert violations[0].at in range(len(history))


def test_every_checker_has_a_planted_violation() -> None:
    assert {checker for checker, _, _ in PLANTED} == set(CHECKERS)


def test_a_shared_subscription_may_get_messages_in_any_order() -> None:
    history: list[Event] = [Subscribed(T, "s", exclusive=False), got(1, "b"), got(0, "a")]
    assert list(first_deliveries_are_in_order(history)) == []


def test_a_subscription_is_owed_nothing_from_before_its_start() -> None:
    history: list[Event] = [Subscribed(T, "s", start=1), CursorFound(T, "s", Cursor(1)), got(1, "b"), found("a", "b")]
    assert [*everything_arrives(history), *cursors_cover_what_was_acknowledged(history)] == []


def test_a_violation_reads_as_a_sentence() -> None:
    violation = next(acknowledged_is_kept([stored("a", 0), found()]))
    assert str(violation) == "an acknowledged message is never lost: /default/t: 'a' at offset 0 is gone (event 1)"
