"""Keeper of one lease: grants, renews, and gives it up in time when it can no longer be sure of it.

The holder counts from the moment a grant or a renewal was *sent*, the store from the later moment it was applied. So
the holder has stopped before any other broker may begin, if both clocks run alike. Data guarded by a lease has to be
fenced in the storage, too.
"""

import logging
from collections.abc import Callable

from danube.metadata.store import MetadataStore
from danube.model.errors import DanubeError, NotFoundError
from danube.model.limits.metadata import (
    BROKER_LEASE_TTL_S,
    CLUSTER_RETRY_S,
    LATE_RENEWALS,
    LEASE_RENEWALS,
    LEASE_STALL_LEASES_MAX,
)
from danube.runtime.clock import Clock, TimerHandle, sleep_for

_log = logging.getLogger(__name__)


def _always() -> bool:
    return True


class LeaseKeeper:
    """Holds a lease while `run` runs; one that was lost is followed by a new one, with another id."""

    def __init__(
        self,
        store: MetadataStore,
        clock: Clock,
        *,
        ttl_s: float = BROKER_LEASE_TTL_S,
        progresses: Callable[[], bool] = _always,
    ) -> None:
        """The lease is granted and renewed only while `progresses()`: a process that hangs must not look alive."""
        self._store = store
        self._clock = clock
        self._ttl_s = ttl_s
        self._progresses = progresses
        self._lease_id = 0
        self._until_s = 0.0
        self._sent_s = 0.0
        """Time at which a renewal was sent last, by whatever thread."""
        self._alive_s = 0.0
        """Time at which the event loop ran, and the data path made progress, last."""
        self._timer: TimerHandle | None = None
        self._listeners: list[Callable[[], None]] = []
        self._failing = False

    @property
    def lease_id(self) -> int:
        """The lease that is held at this moment; 0 for none."""
        return self._lease_id if self._clock.monotonic_s() < self._until_s else 0

    @property
    def held_until_s(self) -> float:
        """Monotonic time until which the lease is surely held; 0.0 when none is."""
        return self._until_s if self.lease_id else 0.0

    def on_change(self, listener: Callable[[], None]) -> None:
        """Have `listener` called when a lease was granted, and when it was lost."""
        self._listeners.append(listener)

    def overdue(self) -> tuple[int, float] | None:
        """The lease, and this moment, where the event loop is late with a renewal but not too late; from any thread."""
        now_s, lease_id = self._clock.monotonic_s(), self._lease_id
        is_late = now_s >= self._sent_s + LATE_RENEWALS * self._ttl_s / LEASE_RENEWALS
        is_alive = now_s < min(self._until_s, self._alive_s + LEASE_STALL_LEASES_MAX * self._ttl_s)
        if not (lease_id and is_late and is_alive):
            return None
        self._sent_s = now_s
        return lease_id, now_s

    def renewed(self, lease_id: int, sent_s: float) -> None:
        """Another thread renewed it, and asked for that at `sent_s`; on the event loop."""
        if self.lease_id == lease_id and self._is_alive():
            self._hold_until(max(self._until_s, sent_s + self._ttl_s), lease_id)

    async def run(self) -> None:
        """Hold leases for ever."""
        while True:
            if not await self._hold():
                await sleep_for(self._clock, CLUSTER_RETRY_S)

    async def close(self) -> None:
        """Give the lease back, once `run` has ended: what lives by it goes now."""
        lease_id, self._until_s = self._lease_id, 0.0
        self._lost(lease_id)
        if lease_id:
            try:
                await self._store.revoke_lease(lease_id)
            except DanubeError as error:
                _log.debug("lease %d was not given back, it runs out by itself: %s", lease_id, error)

    async def _hold(self) -> bool:
        """Be granted a lease and hold it until it is lost; answers whether there was one."""
        if not self._is_alive():
            return False
        sent_s = self._sent_s = self._clock.monotonic_s()
        try:
            lease_id = await self._store.grant_lease(self._ttl_s)
        except DanubeError as error:
            self._log_failure("a lease could not be had", error)
            return False
        self._hold_until(sent_s + self._ttl_s, lease_id)
        await self._renew_until_lost(lease_id, sent_s)
        self._lost(lease_id)
        return True

    async def _renew_until_lost(self, lease_id: int, sent_s: float) -> None:
        await self._clock.sleep_until(sent_s + self._ttl_s / LEASE_RENEWALS)
        while self.lease_id == lease_id:
            sent_s = self._sent_s = self._clock.monotonic_s()
            try:
                renewed = await self._renewed(lease_id)
            except NotFoundError:
                return
            if renewed and self.lease_id == lease_id:
                self._hold_until(max(self._until_s, sent_s + self._ttl_s), lease_id)
                await self._clock.sleep_until(sent_s + self._ttl_s / LEASE_RENEWALS)
            else:
                await sleep_for(self._clock, min(CLUSTER_RETRY_S, self._ttl_s / LEASE_RENEWALS))

    async def _renewed(self, lease_id: int) -> bool:
        if not self._is_alive():
            return False
        try:
            await self._store.renew_lease(lease_id)
        except NotFoundError:
            _log.warning("lease %d ran out before it was renewed", lease_id)
            raise
        except DanubeError as error:
            self._log_failure(f"lease {lease_id} could not be renewed", error)
            return False
        self._failing = False
        return True

    def _is_alive(self) -> bool:
        if not self._progresses():
            return False
        self._alive_s = self._clock.monotonic_s()
        return True

    def _hold_until(self, until_s: float, lease_id: int) -> None:
        is_new = self._lease_id != lease_id
        self._lease_id, self._until_s = lease_id, until_s
        self._failing = False
        if self._timer is None:
            self._timer = self._clock.call_at(until_s, self._check)
        if is_new:
            self._notify()

    def _check(self) -> None:
        """The time is up, unless the lease was renewed meanwhile."""
        self._timer = None
        if self.lease_id:
            self._timer = self._clock.call_at(self._until_s, self._check)
        else:
            self._lost(self._lease_id)

    def _lost(self, lease_id: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if lease_id and self._lease_id == lease_id:
            self._lease_id, self._until_s = 0, 0.0
            self._notify()

    def _notify(self) -> None:
        for listener in self._listeners:
            listener()

    def _log_failure(self, what: str, error: DanubeError) -> None:
        if not self._failing:
            _log.warning("%s, and is tried again: %s", what, error)
        self._failing = True
