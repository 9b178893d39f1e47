import pytest

from danube.metadata.commands import (
    COMMANDS_VERSION,
    Applied,
    Command,
    Conflicted,
    Effects,
    ExpireLease,
    GrantLease,
    Lease,
    LeaseGiven,
    LeaseMissing,
    RenewLease,
    RevokeLease,
    TooManyLeases,
    Transact,
    check_command,
    decide,
)
from danube.metadata.state import State, apply
from danube.metadata.store import Changed, Condition, Delete, DeletePrefix, Entry, Put, Removed, Transaction, Write
from danube.model.errors import InvalidRequestError, UnsupportedError
from danube.model.limits.metadata import METADATA_LEASES_MAX, METADATA_TRANSACTION_PARTS_MAX


def transact(*writes: Write, conditions: tuple[Condition, ...] = (), transaction_id: str = "") -> Transact:
    return Transact(Transaction(transaction_id, conditions, writes))


def test_deciding_leaves_the_state_alone() -> None:
    state = State()
    effects = decide(state, transact(Put("/a", b"1")))
    assert effects == Effects(Applied(1), 1, (Changed(Entry("/a", b"1", 1, 1)),))
    assert (state.revision, state.entry("/a")) == (0, None)


def test_changes_are_told_by_key_and_each_key_once() -> None:
    state = State()
    apply(state, transact(Put("/b/1", b""), Put("/b/2", b"")))
    effects = decide(state, transact(Put("/c", b"1"), DeletePrefix("/b"), Put("/c", b"2"), Put("/b/2", b"new")))
    assert effects.changes == (
        Removed("/b/1", 2),
        Changed(Entry("/b/2", b"new", 2, 2)),
        Changed(Entry("/c", b"2", 2, 2)),
    )


def test_conflict_names_the_first_condition_that_failed() -> None:
    state = State()
    apply(state, transact(Put("/a", b"")))
    conditions = (Condition("/a", 1), Condition("/b", 4), Condition("/c", 5))
    assert decide(state, transact(Delete("/a"), conditions=conditions)).outcome == Conflicted("/b", 4, 0)


def test_replicas_that_apply_the_same_commands_answer_the_same() -> None:
    commands: list[Command] = [
        GrantLease("grant", 5.0),
        Transact(Transaction("t1", (), (Put("/a", b"1", 1), Put("/b", b"2")))),
        RenewLease(1),
        ExpireLease(1, 0),
        Transact(Transaction("t1", (), (Put("/a", b"1", 1), Put("/b", b"2")))),
        ExpireLease(1, 1),
        RenewLease(1),
    ]
    first, second = State(), State()
    assert [apply(first, command) for command in commands] == [apply(second, command) for command in commands]
    first.validate()


def test_expiry_of_a_renewal_that_was_followed_by_another_has_no_effect() -> None:
    state = State()
    apply(state, GrantLease("", 5.0))
    apply(state, transact(Put("/a", b"", 1)))
    apply(state, RenewLease(1))
    assert apply(state, ExpireLease(1, renewals=0)) == Effects(Applied(1), 1)
    assert apply(state, ExpireLease(1, renewals=1)) == Effects(Applied(2), 2, (Removed("/a", 2),), lease_ended=1)


def test_ended_lease_can_neither_be_renewed_nor_used() -> None:
    state = State()
    apply(state, GrantLease("", 5.0))
    apply(state, RevokeLease(1))
    assert apply(state, RenewLease(1)).outcome == LeaseMissing(1)
    assert apply(state, transact(Put("/a", b"", 1))).outcome == LeaseMissing(1)


def test_same_grant_twice_is_one_lease() -> None:
    state = State()
    assert apply(state, GrantLease("mine", 5.0)).outcome == LeaseGiven(Lease(1, 5.0))
    assert apply(state, GrantLease("mine", 5.0)).outcome == LeaseGiven(Lease(1, 5.0))
    assert state.lease_count == 1


def test_leases_have_a_bound() -> None:
    state = State()
    for _ in range(METADATA_LEASES_MAX):
        apply(state, GrantLease("", 5.0))
    assert apply(state, GrantLease("", 5.0)).outcome == TooManyLeases()
    assert state.lease_count == METADATA_LEASES_MAX


def test_only_the_latest_outcomes_are_remembered() -> None:
    state = State(outcomes_max=2)
    for name in ("1", "2", "3"):
        apply(state, transact(Put("/a", b""), transaction_id=name))
    assert [state.outcome(name) for name in ("1", "2", "3")] == [None, Applied(2), Applied(3)]


def test_transaction_without_an_id_is_not_remembered() -> None:
    state = State()
    apply(state, transact(Put("/a", b"")))
    assert apply(state, transact(Put("/a", b""))).outcome == Applied(2)
    assert state.outcome("") is None


def test_command_of_newer_rules_stops_the_replica() -> None:
    with pytest.raises(UnsupportedError, match="upgrade"):
        apply(State(), RenewLease(1, version=COMMANDS_VERSION + 1))


def test_transaction_of_too_many_parts_is_refused() -> None:
    writes = [Delete(f"/{index}") for index in range(METADATA_TRANSACTION_PARTS_MAX)]
    check_command(transact(*writes))
    with pytest.raises(InvalidRequestError, match="split it"):
        check_command(transact(*writes, conditions=(Condition("/a", 0),)))


def test_everything_cannot_be_deleted_at_once() -> None:
    with pytest.raises(InvalidRequestError):
        check_command(transact(DeletePrefix("/")))
