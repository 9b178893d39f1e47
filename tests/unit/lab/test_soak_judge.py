"""The soak's judge: every promise, kept and broken."""

import asyncio
import json
import time
from dataclasses import replace
from typing import Any

import pytest

from danube.model.limits.broker import SWEEP_INTERVAL_S
from lab.kernel.judge import Violation
from lab.soak.judge import Case, Found, Identity, Known, Reports, again, judge, stored_twice
from lab.soak.load import Arrivals, identity_of, payload_of
from lab.soak.plan import LONG_ROUNDS, FaultKind, LoadedProducer, LoadedSubscription, LoadedTopic, faults

SINGLE, MANY, KEYED = "t-single-0-r1", "t-many-0-r1", "t-keyed-0-r1"
TOPIC = LoadedTopic(
    "/default/t",
    (LoadedProducer(SINGLE, "single"), LoadedProducer(MANY, "many"), LoadedProducer(KEYED, "keyed")),
    (
        LoadedSubscription("exclusive", "EXCLUSIVE", 1),
        LoadedSubscription("shared", "SHARED", 2),
        LoadedSubscription("key-shared", "KEY_SHARED", 2),
    ),
)
LOG: list[Identity] = [(SINGLE, 0), (MANY, 0), (MANY, 1), (KEYED, 0), (SINGLE, 1), (KEYED, 7)]
"""By offset; the two keyed ones have the same key."""
DEATH_S = 100.0


def reports(*lines: dict[str, Any]) -> Reports:
    found = Reports()
    empty = {"at": 50.0, "sent": {}, "stored": {}, "ranges": {}, "got": {}, "confirmed": {}, "given_up": 0}
    for line in lines:
        found.add(json.dumps({**empty, **line}), dict.fromkeys((SINGLE, MANY, KEYED), TOPIC.topic))
    return found


def got(
    subscription: str, offsets: list[int], log: list[Identity] = LOG, *, not_before: float = 50.0
) -> dict[str, Any]:
    rows = [(offset, *log[offset], not_before) for offset in offsets]
    return {"got": {f"{TOPIC.topic} {subscription}": rows}}


def confirmed(subscription: str, offsets: list[int], at: float) -> dict[str, Any]:
    return {"at": at, "confirmed": {f"{TOPIC.topic} {subscription}": offsets}}


STORED = {"stored": {SINGLE: [0, 1], KEYED: [0, 7]}, "ranges": {MANY: [(0, 1, 2)]}}
EVERYTHING = [STORED, *(got(one.name, list(range(len(LOG)))) for one in TOPIC.subscriptions)]


def case(
    *lines: dict[str, Any],
    start: int = 0,
    log: list[Identity] = LOG,
    drained: Reports | None = None,
    known: Known | None = None,
) -> Case:
    return Case(
        topic=TOPIC,
        known=known or Known(),
        loaded=reports(*(lines or EVERYTHING)),
        drained=drained or Reports(),
        found=Found(start=start, records=list(enumerate(log))[start:]),
        forgettable=[(DEATH_S - 2, DEATH_S + 1)],
    )


def promises(violations: list[Violation]) -> list[tuple[str, int]]:
    return [(one.promise, one.count) for one in violations]


def test_a_round_that_kept_every_promise_has_no_violation() -> None:
    assert judge(case()) == []


def test_a_message_that_was_acknowledged_and_is_not_there_is_lost() -> None:
    found = judge(case(*EVERYTHING, {"stored": {SINGLE: [2]}}))
    assert [str(one) for one in found] == [f"lost: /default/t: acknowledged and not there: ('{SINGLE}', 2)"]


def test_what_an_earlier_round_has_read_is_lost_when_it_is_gone() -> None:
    assert promises(judge(case(known=Known({6: (SINGLE, 2)})))) == [("lost", 1)]


def test_what_a_consumer_has_seen_is_lost_when_it_is_gone() -> None:
    longer = [*LOG, (SINGLE, 2)]
    assert promises(judge(case(*EVERYTHING, got("shared", [6], longer)))) == [("lost", 1)]


@pytest.mark.parametrize("known", [Known({4: (SINGLE, 7)}), Known()])
def test_another_message_at_an_offset_is_a_change(known: Known) -> None:
    line = {"ranges": {MANY: [(1, 4, 1)]}} if not known.log else {}
    assert promises(judge(case(*EVERYTHING, line, known=known))) == [("changed", 1)]


def test_a_message_whose_bytes_are_not_what_was_sent_is_a_change() -> None:
    whole = payload_of(SINGLE, 12)
    with pytest.raises(ValueError, match="not what was sent"):
        identity_of(whole[:-1] + b"?")
    assert identity_of(whole) == (SINGLE, 12)
    log = [*LOG, ("a message of 9 bytes is not what was sent", -1)]
    lines = [STORED, *(got(one.name, list(range(7)), log) for one in TOPIC.subscriptions)]
    assert promises(judge(case(*lines, log=log))) == [("changed", 1)]


def test_offsets_that_skip_one_are_a_gap() -> None:
    found = Found(start=0, records=[(0, LOG[0]), (2, LOG[2])])
    assert ("gaps", 1) in promises(judge(replace(case(), found=found)))


def test_what_retention_has_let_go_of_was_delivered_to_everybody_or_is_lost() -> None:
    assert judge(case(start=3)) == []
    lines = [STORED, *(got(one.name, [3, 4, 5]) for one in TOPIC.subscriptions)]
    assert promises(judge(case(*lines, start=3))) == [("lost", 1), *[("undelivered", 3)] * 3]


def test_a_message_overtaken_by_a_later_one_of_its_producer_is_disorder() -> None:
    log = [LOG[4], *LOG[1:4], LOG[0], LOG[5]]
    lines = [STORED, *(got(one.name, list(range(6)), log) for one in TOPIC.subscriptions)]
    assert promises(judge(case(*lines, log=log))) == [("disorder", 1)]


def test_a_send_that_was_made_again_is_no_disorder_and_no_duplicate() -> None:
    log = [*LOG, LOG[0]]
    lines = [STORED, *(got(one.name, list(range(7)), log) for one in TOPIC.subscriptions)]
    assert judge(case(*lines, log=log)) == []
    assert stored_twice(case(*lines, log=log)) == 1


def test_a_numbered_batch_that_is_there_twice_is_a_duplicate() -> None:
    log = [*LOG, LOG[1]]
    lines = [STORED, *(got(one.name, list(range(7)), log) for one in TOPIC.subscriptions)]
    assert promises(judge(case(*lines, log=log))) == [("duplicates", 1)]


@pytest.mark.parametrize(
    ("subscription", "offsets", "broken"),
    [
        ("exclusive", [0, 2, 1, 3, 4, 5], [("disorder", 1)]),
        ("exclusive", [0, 1, 2, 0, 1, 2, 3, 4, 5], []),
        ("shared", [5, 4, 3, 2, 1, 0], []),
        ("key-shared", [5, 4, 3, 2, 1, 0], [("disorder", 1)]),
        ("key-shared", [4, 0, 1, 3, 2, 5], []),
    ],
)
def test_first_deliveries_are_in_order_where_that_is_promised(
    subscription: str, offsets: list[int], broken: list[tuple[str, int]]
) -> None:
    others = [got(one.name, list(range(6))) for one in TOPIC.subscriptions if one.name != subscription]
    assert promises(judge(case(STORED, *others, got(subscription, offsets)))) == broken


def test_a_message_that_a_subscription_never_got_is_undelivered() -> None:
    lines = [STORED, got("exclusive", [0, 1, 2, 3, 4, 5]), got("shared", [0, 1, 2, 3]), got("key-shared", [3, 4, 5])]
    assert promises(judge(case(*lines, known=Known(drained_to={"key-shared": 3})))) == [("undelivered", 2)]


def test_what_an_earlier_round_has_settled_does_not_come_again() -> None:
    assert promises(judge(case(known=Known(drained_to={"shared": 2})))) == [("again", 2)]


@pytest.mark.parametrize(("at", "broken"), [(DEATH_S - 3, [("again", 2)]), (DEATH_S - 1, [])])
def test_what_was_confirmed_comes_again_only_if_that_was_shortly_before_a_death(
    at: float, broken: list[tuple[str, int]]
) -> None:
    drained = reports(got("shared", [4, 5]))
    found = case(*EVERYTHING, confirmed("shared", [4, 5], at), drained=drained)
    assert promises(judge(found)) == broken
    assert again(found) == 2


@pytest.mark.parametrize(("at", "broken"), [(DEATH_S - 3, []), (DEATH_S - 2.5, [("again", 2)])])
def test_what_came_another_time_has_to_be_confirmed_after_that(at: float, broken: list[tuple[str, int]]) -> None:
    another = got("shared", [4, 5]) | {"at": DEATH_S - 3}
    found = case(*EVERYTHING, another, confirmed("shared", [4, 5], at), drained=reports(got("shared", [4, 5])))
    assert promises(judge(found)) == broken


@pytest.mark.parametrize(("not_before", "broken"), [(DEATH_S - 1, []), (DEATH_S + 2, [("again", 2)])])
def test_what_is_confirmed_by_another_broker_than_the_one_that_sent_it_may_come_again(
    not_before: float, broken: list[tuple[str, int]]
) -> None:
    taken = got("shared", [4, 5], not_before=not_before) | {"at": DEATH_S + 3}
    lines = [*EVERYTHING, taken, confirmed("shared", [4, 5], DEATH_S + 5)]
    found = replace(case(*lines, drained=reports(got("shared", [4, 5]))), deaths=[DEATH_S])
    assert promises(judge(found)) == broken


def test_what_a_queue_keeps_came_after_it_was_empty_or_full_of_others() -> None:
    queue: asyncio.Queue[int] = asyncio.Queue(2)
    arrivals = Arrivals(queue)
    arrivals.look()
    put_s = []
    for number in range(2):
        put_s.append(time.monotonic())
        queue.put_nowait(number)
    arrivals.look()
    assert all(arrivals.note_taken() <= put_s[0] for _ in range(2))
    taken_s = time.monotonic()
    assert put_s[1] <= arrivals.note_taken() <= taken_s, "it had no room before the first was taken"
    queue.get_nowait(), queue.get_nowait()
    arrivals.look()
    assert arrivals.note_taken() >= taken_s, "the queue was empty"


def test_a_round_that_was_interrupted_is_not_judged_by_times_that_nobody_knows() -> None:
    assert judge(replace(case(known=Known(drained_to={"shared": 2})), forgettable=None)) == []


@pytest.mark.parametrize("seed", range(20))
def test_the_faults_of_a_round_follow_from_its_seed_and_leave_the_broker_dead(seed: int) -> None:
    planned = faults(seed)
    assert planned == faults(seed)
    assert 2 <= len(planned) <= 3
    assert planned[-1].kind is not FaultKind.PAUSE
    assert (planned[-1].after_s >= SWEEP_INTERVAL_S) is (seed % LONG_ROUNDS == 0)
