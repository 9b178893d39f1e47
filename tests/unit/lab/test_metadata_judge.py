"""What the judge of a metadata store refuses, rule by rule, beside the order of operations."""

import pytest

from danube.metadata.store import Changed, Condition, Delete, Entry, Put, Removed, Resync, SnapshotEnd, WatchEvent
from lab.linearizability.history import Call, Change, Operation, Read
from lab.linearizability.recorder import HeldLease, History, LocalRead, Watched
from lab.metadata.judge import judge

A, B = "/soak/a", "/soak/b"


def put(key: str, value: bytes, revision: int | None) -> Change:
    return Change((), (Put(key, value),), revision)


def entry(key: str, value: bytes, revision: int) -> Entry:
    return Entry(key, value, revision, revision)


def history_of(*calls: Call, life: str = "0.0") -> History:
    """One call after the other, by one client."""
    operations = [Operation(call, f"{life} c", float(at), at + 0.5) for at, call in enumerate(calls)]
    return History(operations=operations)


def local(found: Entry | None, at_s: float, life: str = "0.0") -> LocalRead:
    return LocalRead(life, A, found, at_s, at_s + 0.1)


def broken(history: History) -> set[str]:
    return {violation.promise for violation in judge(history).violations}


def watched(*events: WatchEvent) -> set[str]:
    """What is broken when a watch tells these of two puts and a removal."""
    calls = (put(A, b"1", 1), put(B, b"2", 2), Change((), (Delete(A),)), put(A, b"3", 4))
    history = history_of(*calls)
    history.watches.append(Watched("0.0", "/soak", list(events)))
    return broken(history)


# Revisions, and what everybody was told


def test_a_true_history_breaks_nothing() -> None:
    assert broken(history_of(put(A, b"1", 1), put(B, b"2", 2), Read((A,), (entry(A, b"1", 1),)))) == set()


def test_a_later_change_of_another_key_has_a_later_revision() -> None:
    assert broken(history_of(put(A, b"1", 2), put(B, b"2", 1))) == {"revisions"}


def test_two_values_of_one_revision_contradict_each_other() -> None:
    history = history_of(put(A, b"1", 1), put(A, b"2", 2))
    history.local_reads.append(local(entry(A, b"1", 2), 3.0, life="1.0"))
    assert "agreement" in broken(history)


def test_a_value_that_nobody_put_is_refused_wherever_it_is_seen() -> None:
    history = history_of(put(A, b"1", 1))
    history.local_reads.append(local(entry(A, b"nobody's", 7), 3.0))
    assert broken(history) == {"agreement"}


def test_a_change_of_unknown_outcome_that_was_seen_twice_is_refused() -> None:
    history = History(operations=[Operation(put(A, b"1", None), "0.0 c", 0.0)])
    history.local_reads += [local(entry(A, b"1", 1), 1.0), local(entry(A, b"1", 2), 2.0)]
    assert broken(history) == {"agreement"}


# A member's own answers


@pytest.mark.parametrize(
    ("life", "at_s", "promises"),
    [("0.0", 2.0, {"local reads"}), ("1.0", 2.0, set[str]()), ("0.1", 2.0, set[str]()), ("0.0", 1.2, set[str]())],
)
def test_a_member_sees_what_was_written_through_it_before(life: str, at_s: float, promises: set[str]) -> None:
    history = history_of(put(A, b"1", 1), put(A, b"2", 2))
    history.local_reads.append(local(entry(A, b"1", 1), at_s, life))
    assert broken(history) == promises


def test_a_member_does_not_go_back() -> None:
    history = history_of(put(A, b"1", 1), put(A, b"2", 2), life="1.0")
    history.local_reads += [local(entry(A, b"2", 2), 3.0), local(entry(A, b"1", 1), 4.0)]
    assert broken(history) == {"local reads"}


def test_what_is_gone_at_a_member_does_not_come_back() -> None:
    history = history_of(put(A, b"1", 1), Change((), (Delete(A),)))
    history.local_reads += [local(None, 3.0), local(entry(A, b"1", 1), 4.0)]
    assert broken(history) == {"local reads"}


def test_nothing_is_found_only_where_something_removed_it() -> None:
    history = history_of(put(A, b"1", 1))
    history.local_reads.append(local(None, 3.0))
    assert broken(history) == {"local reads"}


# Watches


def test_a_watch_tells_a_snapshot_and_then_every_change_once_in_order() -> None:
    changes = (Changed(entry(B, b"2", 2)), Removed(A, 3), Changed(entry(A, b"3", 4)))
    assert watched(Changed(entry(A, b"1", 1)), SnapshotEnd(1), *changes) == set()
    assert watched(SnapshotEnd(0), Changed(entry(A, b"1", 1)), *changes) == set()
    assert watched(SnapshotEnd(0), Resync(), Changed(entry(A, b"1", 1)), SnapshotEnd(1), *changes) == set()


@pytest.mark.parametrize(
    "events",
    [
        pytest.param((SnapshotEnd(0), Changed(entry(A, b"1", 1)), Changed(entry(A, b"3", 4))), id="left out"),
        pytest.param((Changed(entry(A, b"1", 1)), SnapshotEnd(2)), id="a snapshot that lacks a key"),
        pytest.param((Changed(entry(A, b"1", 1)), SnapshotEnd(4)), id="an old snapshot"),
        pytest.param((SnapshotEnd(0), Changed(entry(A, b"1", 1)), Changed(entry(A, b"1", 1))), id="twice"),
        pytest.param((SnapshotEnd(0), Changed(entry(B, b"2", 2)), Changed(entry(A, b"1", 1))), id="out of order"),
        pytest.param((SnapshotEnd(2), Changed(entry(B, b"2", 2))), id="from before the snapshot"),
    ],
)
def test_a_watch_that_leaves_out_repeats_or_reorders_is_refused(events: tuple[WatchEvent, ...]) -> None:
    assert "watches" in watched(*events)


def test_a_snapshot_that_lacks_a_key_is_refused_where_all_its_removals_are_known() -> None:
    history = history_of(put(A, b"1", 1), Change((), (Delete(A),)), put(A, b"3", 3))
    history.watches.append(Watched("0.0", "/soak", [Changed(entry(A, b"1", 1)), SnapshotEnd(1), Removed(A, 2)]))
    history.watches.append(Watched("1.0", "/soak", [SnapshotEnd(1)]))
    assert broken(history) == {"watches"}


# Leases, counters


@pytest.mark.parametrize(("until_s", "promises"), [(1.9, set[str]()), (3.0, {"linearizable"})])
def test_a_key_goes_when_its_lease_may_have_ended_and_no_earlier(until_s: float, promises: set[str]) -> None:
    leased = Change((), (Put(A, b"1", 7),), 1)
    history = history_of(leased, Read((B,), (None,)), Read((A,), (None,)))
    history.leases.append(HeldLease("0.0 c", A, 7, until_s))
    assert broken(history) == promises


@pytest.mark.parametrize(("count", "promises"), [(2, set[str]()), (3, set[str]()), (1, {"counter"}), (4, {"counter"})])
def test_a_counter_is_as_high_as_it_was_counted(count: int, promises: set[str]) -> None:
    key, value = "/soak/counter", f"{count}:d".encode()
    history = history_of(put(key, b"1:c", 1), Change((Condition(key, 1),), (Put(key, value),), 2))
    history.operations.append(Operation(put(key, b"9:unknown", None), "1.0 c", 1.0))
    history.operations.append(Operation(Read((key,), (Entry(key, value, 1, 2),)), "0.0 c", 5.0, 5.5))
    assert broken(history) == promises
