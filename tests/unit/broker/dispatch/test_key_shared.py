from danube.broker.dispatch.engine import DispatchEngine
from danube.broker.dispatch.events import (
    Acknowledged,
    Appended,
    ConsumerAttached,
    ConsumerDetached,
    ConsumerPaused,
    ConsumerResumed,
    KeyRun,
    KeysRead,
    Nacked,
    ReadKeys,
    RetryBlocked,
    SaveCursor,
    Seek,
    Send,
    SetTimer,
    SkipRange,
    TimerFired,
)
from danube.broker.dispatch.redelivery import RedeliveryPolicy
from danube.model.limits.broker import KEY_SHARED_LOOKAHEAD, KEYS_READ_MAX
from danube.model.ranges import OffsetRange
from danube.model.subscription import Cursor, SubscriptionType

from .conftest import Driven

POLICY = RedeliveryPolicy(ack_timeout_s=30.0, base_delay_s=1.0, max_delay_s=8.0, max_redelivery_count=3)
KEY_SHARED = SubscriptionType.KEY_SHARED


def subscription(keys: str, *, end: int | None = None, windows: tuple[int, ...] = ()) -> Driven:
    made = Driven(KEY_SHARED, POLICY, durable_end=len(keys) if end is None else end, keys=keys)
    for consumer_id, window in enumerate(windows, 1):
        made.now(ConsumerAttached(consumer_id, window))
    return made


def owner(made: Driven, key: str) -> int:
    found = made.engine._flow._ring.owner(key)  # type: ignore[attr-defined]
    assert isinstance(found, int)
    return found


def test_one_message_of_a_key_is_in_flight_and_keys_do_not_wait_for_each_other() -> None:
    made = subscription("aabac")
    assert made.now(ConsumerAttached(1, 10)) == [(1, 0, 1), (1, 2, 1), (1, 4, 1)]
    assert made.now(Acknowledged(0, 1)) == [(1, 1, 1)]
    assert made.now(Acknowledged(2, 3)) == []
    assert made.now(Acknowledged(1, 2)) == [(1, 3, 1)]


def test_a_later_message_of_a_key_waits_through_nacks_and_timeouts() -> None:
    made = subscription("ab", end=4, windows=(10,))
    assert made.now(Nacked(0)) == []
    assert made.now(Acknowledged(1, 2)) == [(1, 3, 1)]
    assert made.at(1.0, TimerFired()) == [(1, 0, 2)]
    made.now(Acknowledged(3, 4))
    made.at(31.0, TimerFired())
    assert made.at(33.0, TimerFired()) == [(1, 0, 3)]
    assert made.now(Acknowledged(0, 1)) == [(1, 2, 1)]


def test_with_many_filters_others_get_a_turn_between_keys_and_every_message_goes_out() -> None:
    filters = tuple(f"{number:0256d}" for number in range(99))
    made = Driven(KEY_SHARED, POLICY, durable_end=20, keys="abcdefghijklmnopqrst")
    sent: list[tuple[int, int, int]] = []
    for consumer_id in range(1, 6):
        sent += made.now(ConsumerAttached(consumer_id, 100, filters=(*filters, "?")))
    turns = 0
    is_due = True
    while is_due:
        turns += 1
        several = made.now(TimerFired())
        assert len(several) <= 1
        sent += several
        is_due = SetTimer(0.0) in made.said
    assert sorted(offset for _, offset, _ in sent) == list(range(20))
    assert turns >= 15


def test_keys_that_many_filters_refuse_are_passed_over_in_turns() -> None:
    filters = tuple(f"{number:0256d}" for number in range(100))
    made = Driven(KEY_SHARED, POLICY, durable_end=20, keys="abcdefghijklmnopqrst")
    for consumer_id in range(1, 6):
        made.now(ConsumerAttached(consumer_id, 100, filters=filters))
    assert made.engine.unclaimed < 20
    made.now(TimerFired())
    while SetTimer(0.0) in made.said:
        made.now(TimerFired())
    assert (made.engine.unclaimed, made.engine.lag) == (20, 0)


def test_an_acknowledgement_of_what_was_not_sent_yet_does_not_count() -> None:
    made = subscription("aaaa", windows=(10,))
    assert made.now(Acknowledged(1, 4)) == []
    assert made.now(Acknowledged(0, 4)) == [(1, 1, 1)]
    assert made.engine.cursor == Cursor(1)


def test_a_key_has_one_consumer() -> None:
    made = subscription("abcdefghij", end=40, windows=(100, 100, 100))
    seen: dict[str, set[int]] = {}
    sent = made.now(Seek(0))
    while sent:
        for consumer_id, offset, _ in sent:
            seen.setdefault(made.keys[offset % 10], set()).add(consumer_id)
        sent = [each for _, offset, _ in sent for each in made.now(Acknowledged(offset, offset + 1))]
    assert made.engine.lag == 0
    assert all(len(consumers) == 1 for consumers in seen.values())
    assert len(seen) == 10


def test_who_joins_gets_its_share_and_a_key_in_flight_stays_until_it_is_answered() -> None:
    made = subscription("abcdefghijklmnop", end=32, windows=(100,))
    assert made.now(ConsumerAttached(2, 100)) == []
    moved = [offset for offset in range(16) if owner(made, made.keys[offset]) == 2]
    assert 0 < len(moved) < 16
    for offset in range(16):
        assert made.now(Acknowledged(offset, offset + 1)) == [(2 if offset in moved else 1, offset + 16, 1)]


def test_a_consumer_that_is_away_for_a_moment_keeps_its_keys() -> None:
    made = subscription("abcdefgh", windows=(100, 100))
    had = range(8)
    assert made.now(ConsumerDetached(1)) == []
    assert SetTimer(5.0) in made.said
    assert made.at(4.9, TimerFired()) == []
    assert made.now(ConsumerAttached(1, 100)) == [(1, offset, 2) for offset in had]


def test_what_a_consumer_had_goes_to_others_after_the_grace_time() -> None:
    made = subscription("abcdefgh", windows=(100, 100))
    had = range(8)
    made.now(ConsumerDetached(1))
    assert made.at(5.0, TimerFired()) == [(2, offset, 2) for offset in had]


def test_without_consumers_nothing_is_sent_or_passed_over() -> None:
    made = subscription("ab", windows=(10,))
    made.now(ConsumerDetached(1))
    assert made.at(5.0, TimerFired()) == []
    assert made.now(Appended(4)) == []
    assert made.now(ConsumerAttached(2, 10)) == [(2, 0, 2), (2, 1, 2)]


def test_a_key_that_no_filter_takes_is_passed_over_and_counted() -> None:
    made = subscription("abab")
    made.now(ConsumerAttached(1, 10, filters=("b",)))
    assert (made.engine.unclaimed, made.engine.in_flight) == (2, 1)
    made.now(Acknowledged(1, 2), Acknowledged(3, 4))
    assert made.engine.cursor == Cursor(4)


def test_a_filter_that_changes_when_its_consumer_comes_back_holds() -> None:
    made = subscription("ab", end=2)
    made.now(ConsumerAttached(1, 1, filters=("a",)), ConsumerAttached(2, 1, filters=("b",)))
    made.now(ConsumerDetached(1))
    assert made.now(ConsumerAttached(1, 5, filters=("b", "a"))) == [(1, 0, 2)]


def test_a_consumer_without_room_holds_up_its_own_keys_only() -> None:
    made = subscription("abcdefghijklmnop", end=64, windows=(1, 100))
    mine = [key for key in made.keys if owner(made, key) == 2]
    for offset in range(64):
        made.now(Acknowledged(offset, offset + 1)) if made.keys[offset % 16] in mine else None
    assert made.engine.lag == 64 - 4 * len(mine)
    made.now(ConsumerPaused(1))
    assert made.now(Acknowledged(0, 64)) == []
    assert len(made.now(ConsumerResumed(1))) == 1


def test_a_stuck_key_stalls_only_itself_up_to_the_lookahead() -> None:
    engine = DispatchEngine(KEY_SHARED, Cursor(0), 2 * KEY_SHARED_LOOKAHEAD, POLICY)
    asked = engine.handle(ConsumerAttached(1, 10_000), 0.0)
    done = 0
    while asked:
        wanted = [each for each in asked if isinstance(each, ReadKeys)]
        sent = [at for each in asked if isinstance(each, Send) for at in range(each.start, each.end)]
        asked = []
        for each in wanted:
            runs = [KeyRun(at, at + 1, "abcdefghi"[at % 9] if at else "stuck") for at in range(each.start, each.end)]
            asked += engine.handle(KeysRead(tuple(runs)), 0.0)
        for at in sent:
            if at:
                done += 1
                asked += engine.handle(Acknowledged(at, at + 1), 0.0)
    engine.validate()
    assert (done, engine.position, engine.next_offset) == (KEY_SHARED_LOOKAHEAD - 1, 0, KEY_SHARED_LOOKAHEAD)
    assert any(isinstance(each, ReadKeys) for each in engine.handle(Acknowledged(0, 1), 0.0))


def test_a_blocked_message_stops_its_key_alone() -> None:
    made = subscription("ab", end=6, windows=(10,))
    for now_s in (1.0, 3.0, 7.0):
        made.now(Nacked(0))
        assert made.at(now_s, TimerFired()) == [(1, 0, {1.0: 2, 3.0: 3, 7.0: 4}[now_s])]
    made.now(Nacked(0))
    assert made.engine.blocked == [OffsetRange(0, 1)]
    assert [made.now(Acknowledged(at, at + 1)) for at in (1, 3, 5)] == [[(1, 3, 1)], [(1, 5, 1)], []]
    assert made.now(RetryBlocked()) == [(1, 0, 5)]
    assert made.now(Acknowledged(0, 1)) == [(1, 2, 1)]


def test_a_range_that_is_skipped_frees_its_keys() -> None:
    made = subscription("aabb", end=8, windows=(10,))
    assert made.now(SkipRange(0, 5)) == [(1, 5, 1), (1, 6, 1)]
    assert made.engine.position == 5


def test_a_seek_forgets_lanes_and_sends_anew() -> None:
    made = subscription("ab", end=6, windows=(10,))
    made.now(Acknowledged(0, 2))
    assert made.now(Seek(1)) == [(1, 1, 1), (1, 2, 1)]
    made.now(Acknowledged(3, 4))
    assert made.engine.cursor == Cursor(1)


def test_keys_are_asked_for_in_bounded_pieces_and_only_while_somebody_has_room() -> None:
    engine = DispatchEngine(KEY_SHARED, Cursor(5), 5_000, POLICY)
    assert engine.handle(Appended(5_000), 0.0) == []
    assert engine.handle(ConsumerAttached(1, 1), 0.0) == [ReadKeys(5, 5 + KEYS_READ_MAX)]
    assert engine.handle(Appended(5_001), 0.0) == []
    runs = (KeyRun(5, 300, "a"),)
    assert engine.handle(KeysRead(runs), 0.0) == [Send(1, 5, 6), SetTimer(30.0)]
    assert engine.handle(KeysRead(runs), 0.0) == []
    engine.validate()
    assert engine.ready == 294


def test_a_batch_of_one_producer_is_one_run_whatever_its_length() -> None:
    engine = DispatchEngine(KEY_SHARED, Cursor(0), 9_000, POLICY)
    engine.handle(ConsumerAttached(1, 10), 0.0)
    engine.handle(KeysRead((KeyRun(0, 9_000, "p"),)), 0.0)
    engine.validate()
    assert len(engine._deliveries.spans()) == 2
    assert engine.handle(Acknowledged(0, 1), 0.0) == [Send(1, 1, 2), SaveCursor(Cursor(1))]


def test_a_restart_goes_on_above_what_was_acknowledged_beyond_the_front() -> None:
    cursor = Cursor(1, (OffsetRange(2, 4), OffsetRange(6, 7)))
    made = Driven(KEY_SHARED, POLICY, cursor=cursor, durable_end=9, keys="ab")
    assert made.now(ConsumerAttached(1, 10)) == [(1, 1, 1), (1, 4, 1)]
    assert made.now(Acknowledged(1, 2)) == [(1, 5, 1)]
    assert made.now(Acknowledged(4, 5)) == [(1, 8, 1)]
