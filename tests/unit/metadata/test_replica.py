"""One member's copy of a sequence: what is applied, told to watches, timed, and forgotten after a jump."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from danube.metadata.commands import (
    Applied,
    Command,
    ExpireLease,
    GrantLease,
    Lease,
    LeaseGiven,
    RenewLease,
    TooManyLeases,
    Transact,
)
from danube.metadata.replication.command_format import Request, encode_request
from danube.metadata.replication.replica import Replica
from danube.metadata.replication.snapshot_format import decode_state, encode_state
from danube.metadata.state import State, StateSnapshot, apply
from danube.metadata.store import (
    Changed,
    Condition,
    Delete,
    DeletePrefix,
    Entry,
    Put,
    Resync,
    SnapshotEnd,
    Transaction,
)
from danube.model.errors import MetadataError, UnsupportedError
from danube.testing.simulated.clock import SimClock

KEYS = ["/a", "/a/b", "/a/b/c", "/a/bc", "/é"]
writes = st.one_of(
    st.builds(Put, st.sampled_from(KEYS), st.binary(max_size=3), st.integers(0, 3)),
    st.builds(Delete, st.sampled_from(KEYS)),
    st.builds(DeletePrefix, st.sampled_from(KEYS)),
)
commands: st.SearchStrategy[list[Command]] = st.lists(
    st.one_of(
        st.builds(
            Transact,
            st.builds(
                Transaction,
                st.sampled_from(["", "x", "y", "z"]),
                st.lists(st.builds(Condition, st.sampled_from(KEYS), st.integers(0, 5)), max_size=1).map(tuple),
                st.lists(writes, max_size=3).map(tuple),
            ),
        ),
        st.builds(GrantLease, st.sampled_from(["", "g"]), st.just(5.0)),
        st.builds(RenewLease, st.integers(0, 4)),
        st.builds(ExpireLease, st.integers(0, 4), st.integers(0, 1)),
    ),
    max_size=20,
)


def packed(*many: Command) -> list[bytes]:
    return [encode_request(Request(f"r{number}", command)) for number, command in enumerate(many)]


def put(key: str, value: bytes = b"", lease_id: int = 0) -> Transact:
    return Transact(Transaction("", (), (Put(key, value, lease_id),)))


def replica(clock: SimClock | None = None, told: list[Sequence[ExpireLease]] | None = None) -> Replica:
    made = Replica(
        clock or SimClock(), lambda: told.append(made.due()) if told is not None else None, watch_events_max=8
    )
    return made


@given(commands, st.integers(0, 20))
def test_a_state_is_the_same_by_all_commands_or_by_an_image_and_the_rest(many: list[Command], cut: int) -> None:
    whole = State(outcomes_max=2)
    for command in many:
        apply(whole, command)
    first = State(outcomes_max=2)
    for command in many[:cut]:
        apply(first, command)
    rest = State.of(decode_state(b"".join(encode_state(first.snapshot()))), outcomes_max=2)
    rest.validate()
    for command in many[cut:]:
        apply(rest, command)
    assert rest.snapshot() == whole.snapshot()
    rest.validate()


def test_an_image_is_not_changed_by_what_is_applied_after_it() -> None:
    state = State()
    apply(state, put("/a"))
    snapshot = state.snapshot()
    apply(state, put("/b"))
    apply(state, put("/a", b"2"))
    assert snapshot.entries == (Entry("/a", b"", 1, 1),)


async def test_who_submitted_a_request_hears_its_outcome_and_nobody_else() -> None:
    source = replica()
    mine, other = source.expect("r0"), source.expect("r9")
    source.apply(1, packed(put("/a")))
    assert await mine == Applied(1)
    assert not other.done()
    assert (source.position, source.snapshot().revision) == (1, 1)
    await source.close()


async def test_one_position_may_hold_many_requests_or_none() -> None:
    source = replica()
    source.apply(3, packed(put("/a"), put("/b")))
    source.apply(4, [])
    assert (source.position, [entry.key for entry in source.below("/")]) == (4, ["/a", "/b"])
    await source.close()


async def test_a_jump_has_every_watch_begin_anew() -> None:
    source = replica()
    source.apply(1, packed(put("/a/1")))
    begun, new = source.watch("/a"), source.watch("/a")
    events = aiter(begun)
    assert [await anext(events), await anext(events)] == [Changed(Entry("/a/1", b"", 1, 1)), SnapshotEnd(1)]
    source.reset(9, StateSnapshot(7, 0, (Entry("/a/2", b"", 7, 7),)))
    assert [await anext(events) for _ in range(3)] == [Resync(), Changed(Entry("/a/2", b"", 7, 7)), SnapshotEnd(7)]
    assert await anext(aiter(new)) == Changed(Entry("/a/2", b"", 7, 7)), "one that has not begun has lost nothing"
    source.apply(10, packed(put("/a/3")))
    assert await anext(events) == Changed(Entry("/a/3", b"", 8, 8))
    await source.close()


async def test_a_lease_in_an_image_lives_for_its_whole_time_again() -> None:
    clock = SimClock()
    told: list[Sequence[ExpireLease]] = []
    source = replica(clock, told)
    source.apply(1, packed(GrantLease("", 5.0), GrantLease("", 20.0)))
    clock.advance(4.0)
    source.reset(5, StateSnapshot(3, 7, (), (Lease(7, 10.0, 2),)))
    clock.advance(9.9)
    assert source.due() == []
    clock.advance(0.1)
    assert source.due() == [ExpireLease(7, 2)]
    assert told[-1] == [ExpireLease(7, 2)]
    await source.close()


async def test_a_request_of_newer_rules_stops_the_replica_and_says_so() -> None:
    source = replica()
    source.apply(1, packed(put("/a")))
    with pytest.raises(UnsupportedError, match="upgrade"):
        source.apply(2, packed(RenewLease(1, version=99)))
    with pytest.raises(MetadataError, match="upgrade"):
        source.check()
    assert source.position == 1
    await source.close()


async def test_a_request_that_cannot_be_read_stops_the_replica() -> None:
    source = replica()
    with pytest.raises(MetadataError, match="cannot be read"):
        source.apply(1, [b"junk"])
    with pytest.raises(MetadataError, match="stopped"):
        source.check()
    await source.close()


def test_a_number_that_matches_nothing_is_for_the_rules_to_refuse() -> None:
    source = replica()
    source.apply(1, packed(Transact(Transaction("", (Condition("/a", -1),), (Put("/a", b""),))), RenewLease(-1)))
    source.check()
    assert source.entry("/a") is None


def test_leases_have_a_bound_that_all_replicas_keep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("danube.metadata.commands.METADATA_LEASES_MAX", 1)
    state = State()
    outcomes = [apply(state, GrantLease("", 5.0)).outcome for _ in range(2)]
    assert outcomes == [LeaseGiven(Lease(1, 5.0)), TooManyLeases()]
