"""Timers of leases, by the clock of one process. The state itself knows no time (see `commands`)."""

from collections.abc import Callable, Iterable

from danube.metadata.commands import Effects, ExpireLease, Lease
from danube.runtime.clock import Clock, TimerHandle


class LeaseTimers:
    """Times the leases of one store: follows every command's effects and says what is due.

    A lease's time starts when its grant or renewal was applied. `on_due` is called on the event loop when one has run
    out; whoever applies commands asks `due` first in any case, so a late timer never lets a lease live on.
    """

    def __init__(self, clock: Clock, on_due: Callable[[], None]) -> None:
        self._clock = clock
        self._on_due = on_due
        self._running: dict[int, tuple[float, Lease]] = {}
        self._timer: TimerHandle | None = None
        self._timer_at_s = 0.0

    def follow(self, effects: Effects) -> None:
        """Apply what a command did to the leases."""
        lease = effects.lease_set
        if lease:
            deadline_s = self._clock.monotonic_s() + lease.ttl_s
            self._running[lease.lease_id] = (deadline_s, lease)
            self._arm(deadline_s)
        self._running.pop(effects.lease_ended, None)

    def restart(self, leases: Iterable[Lease] | None = None) -> None:
        """These are the leases now, or still the same, and the time of each starts anew: when it was last renewed is
        not known.
        """
        now_s = self._clock.monotonic_s()
        known = [lease for _, lease in self._running.values()] if leases is None else leases
        self._running = {lease.lease_id: (now_s + lease.ttl_s, lease) for lease in known}
        for deadline_s, _ in self._running.values():
            self._arm(deadline_s)

    def end(self, lease_id: int) -> ExpireLease | None:
        """Make a lease due now, until it is renewed; None if there is no such lease."""
        if lease_id not in self._running:
            return None
        lease = self._running[lease_id][1]
        self._running[lease_id] = self._clock.monotonic_s(), lease
        return ExpireLease(lease_id, lease.renewals)

    def due(self) -> list[ExpireLease]:
        """Commands to apply now. A lease stays due until its end was followed."""
        now_s = self._clock.monotonic_s()
        late = (lease for deadline_s, lease in self._running.values() if deadline_s <= now_s)
        return [ExpireLease(lease.lease_id, lease.renewals) for lease in late]

    def close(self) -> None:
        self._running.clear()
        if self._timer:
            self._timer.cancel()

    def _arm(self, when_s: float) -> None:
        if self._timer and self._timer_at_s <= when_s:
            return  # the earlier timer arms the next one; so a renewal costs no timer
        if self._timer:
            self._timer.cancel()
        self._timer, self._timer_at_s = self._clock.call_at(when_s, self._fired), when_s

    def _fired(self) -> None:
        self._timer = None
        self._on_due()
        now_s = self._clock.monotonic_s()
        coming = [deadline_s for deadline_s, _ in self._running.values() if deadline_s > now_s]
        if coming:
            self._arm(min(coming))
