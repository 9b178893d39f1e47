from danube.metadata.commands import Applied, Effects, ExpireLease, Lease, LeaseGiven
from danube.metadata.leases import LeaseTimers
from danube.testing.simulated.clock import SimClock


def given(lease: Lease) -> Effects:
    return Effects(LeaseGiven(lease), 0, lease_set=lease)


def ended(lease_id: int) -> Effects:
    return Effects(Applied(0), 0, lease_ended=lease_id)


def started(clock: SimClock, *leases: Lease) -> tuple[LeaseTimers, list[list[ExpireLease]]]:
    told: list[list[ExpireLease]] = []
    timers = LeaseTimers(clock, lambda: told.append(timers.due()))
    for lease in leases:
        timers.follow(given(lease))
    return timers, told


def test_each_lease_is_due_at_its_own_time() -> None:
    clock = SimClock()
    timers, told = started(clock, Lease(1, 20.0), Lease(2, 10.0))
    clock.advance(10.0)
    timers.follow(ended(2))
    clock.advance(10.0)
    assert told == [[ExpireLease(2, 0)], [ExpireLease(1, 0)]]


def test_renewal_moves_the_time_and_is_named_in_what_is_due() -> None:
    clock = SimClock()
    timers, told = started(clock, Lease(1, 10.0))
    clock.advance(6.0)
    timers.follow(given(Lease(1, 10.0, renewals=1)))
    clock.advance(9.9)
    assert timers.due() == []
    clock.advance(0.1)
    assert timers.due() == [ExpireLease(1, 1)]
    assert told == [[], [ExpireLease(1, 1)]]


def test_lease_stays_due_until_its_end_was_followed() -> None:
    clock = SimClock()
    timers, _ = started(clock, Lease(1, 10.0))
    clock.advance(30.0)
    assert timers.due() == timers.due() == [ExpireLease(1, 0)]
    timers.follow(ended(1))
    assert timers.due() == []


def test_closed_timers_leave_nothing_waiting() -> None:
    clock = SimClock()
    timers, told = started(clock, Lease(1, 10.0))
    timers.close()
    assert clock.next_timer_s() is None
    assert told == []


def test_leases_that_start_anew_have_all_of_their_time_again() -> None:
    clock = SimClock()
    timers, told = started(clock, Lease(1, 10.0, renewals=3))
    clock.advance(9.0)
    timers.restart()
    clock.advance(9.0)
    assert timers.due() == []
    clock.advance(1.0)
    assert told[-1] == [ExpireLease(1, 3)]


def test_a_lease_that_is_ended_is_due_until_it_is_renewed() -> None:
    timers, _ = started(SimClock(), Lease(1, 10.0, renewals=3))
    assert timers.end(1) == ExpireLease(1, 3)
    assert timers.due() == [ExpireLease(1, 3)]
    timers.follow(given(Lease(1, 10.0, renewals=4)))
    assert timers.due() == []
    assert timers.end(2) is None
