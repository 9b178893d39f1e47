"""Election of one leader among the brokers: the holder of the key `/cluster/leader`, which lives with its lease."""

import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from danube.metadata.cluster.lease_keeper import LeaseKeeper
from danube.metadata.cluster.reconcile import Reconciler
from danube.metadata.records import keys
from danube.metadata.records.cluster import decode_leader, encode_leader
from danube.metadata.store import Entry, MetadataStore
from danube.metadata.watch_cache import WatchCache
from danube.model.errors import NotFoundError, VersionConflictError
from danube.runtime.clock import Clock
from danube.runtime.tasks import TaskScope

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Leader:
    broker_id: int
    lease_id: int
    revision: int


class Election:
    """This broker's part in it, as a candidate or as an onlooker.

    Who gives its lease back leads no more from that moment on, before anybody else may.
    """

    def __init__(self, store: MetadataStore, keeper: LeaseKeeper, clock: Clock, broker_id: int) -> None:
        self._store = store
        self._keeper = keeper
        self._clock = clock
        self._broker_id = broker_id
        self._watch_cache = WatchCache(store, keys.CLUSTER, clock, self._follow)
        self._leader: _Leader | None = None
        self._is_candidate = False
        self._standing = Reconciler(clock, self._stand_for_election, "this broker cannot stand for leader")
        self._listeners: list[Callable[[], None]] = []
        self._leads_told = False
        keeper.on_change(self._changed)

    @property
    def leader(self) -> int | None:
        """The broker that leads, as far as is known here; None while nobody does."""
        return self._leader.broker_id if self._leader else None

    @property
    def leads_until_s(self) -> float:
        """Monotonic time until which this broker surely leads; 0.0 when it does not lead."""
        leader, lease_id = self._leader, self._keeper.lease_id
        leads = leader is not None and lease_id and leader.lease_id == lease_id
        return self._keeper.held_until_s if leads else 0.0

    @property
    def is_leader(self) -> bool:
        """True if this broker leads at this moment."""
        return self._clock.monotonic_s() < self.leads_until_s

    def on_change(self, listener: Callable[[], None]) -> None:
        """Have `listener` called when another broker leads, or nobody, and when this one begins or ceases to."""
        self._listeners.append(listener)

    def start(self, tasks: TaskScope) -> None:
        """Follow the leader, in tasks of this scope."""
        tasks.spawn(self._watch_cache.run(), "watch the leader")
        tasks.spawn(self._run(), "election")

    def campaign(self) -> None:
        self._is_candidate = True
        self._changed()

    async def _run(self) -> None:
        await self._watch_cache.ready()
        await self._standing.run()

    async def _stand_for_election(self) -> None:
        """Take the key that nobody has, or that is this broker's own from a lease of before."""
        lease_id, leader = self._keeper.lease_id, self._leader
        is_taken = leader is not None and (leader.broker_id != self._broker_id or leader.lease_id == lease_id)
        if is_taken or not (self._is_candidate and lease_id):
            return
        revision, value = leader.revision if leader else 0, encode_leader(self._broker_id)
        with suppress(VersionConflictError, NotFoundError):  # another was faster, or the lease has just run out
            await self._store.compare_and_set(keys.LEADER, value, revision=revision, lease_id=lease_id)

    def _follow(self, key: str, entry: Entry | None) -> None:
        if key == keys.LEADER:
            self._leader = _Leader(decode_leader(entry), entry.lease_id, entry.revision) if entry else None
            self._changed()

    def _changed(self) -> None:
        if self.is_leader != self._leads_told:
            self._leads_told = self.is_leader
            _log.info("this broker leads the cluster" if self._leads_told else "this broker leads no more")
        self._standing.wake()
        for listener in self._listeners:
            listener()
