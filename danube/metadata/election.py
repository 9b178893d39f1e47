"""One leader among the brokers of a cluster: whoever has the key `/cluster/leader`, which lives with its lease."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from danube.metadata import keys
from danube.metadata.cluster_records import decode_leader, encode_leader
from danube.metadata.lease_keeper import LeaseKeeper
from danube.metadata.mirror import Mirror
from danube.metadata.store import Entry, MetadataStore
from danube.model.errors import DanubeError, NotFoundError, VersionConflictError
from danube.model.metadata_limits import CLUSTER_RETRY_S
from danube.runtime.clock import Clock
from danube.runtime.tasks import TaskScope

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Leader:
    broker_id: int
    lease_id: int
    revision: int


class Election:
    """This broker's part in it, as a candidate or as an onlooker."""

    def __init__(self, store: MetadataStore, keeper: LeaseKeeper, clock: Clock, broker_id: int) -> None:
        self._store = store
        self._keeper = keeper
        self._clock = clock
        self._broker_id = broker_id
        self._mirror = Mirror(store, keys.CLUSTER, clock, self._follow)
        self._leader: _Leader | None = None
        self._is_candidate = False
        self._given_up = 0
        """The revision of the key that this broker gave up last: the key may be another's before that is heard here."""
        self._wake = asyncio.Event()
        self._listeners: list[Callable[[], None]] = []
        self._leads_told = False
        keeper.on_change(self._changed)

    @property
    def leader(self) -> int | None:
        """The broker that leads, as far as is known here; None while nobody does."""
        return self._leader.broker_id if self._leader else None

    @property
    def leads_until_s(self) -> float:
        """Until when this broker leads for sure, monotonic; 0.0 when it does not lead."""
        leader, lease_id = self._leader, self._keeper.lease_id
        if leader is None or not (self._is_candidate and lease_id) or leader.lease_id != lease_id:
            return 0.0
        return self._keeper.held_until_s if leader.revision > self._given_up else 0.0

    @property
    def is_leader(self) -> bool:
        """Whether this broker leads, at this moment."""
        return self._clock.monotonic_s() < self.leads_until_s

    def on_change(self, listener: Callable[[], None]) -> None:
        """Have `listener` called when another broker leads, or nobody, and when this one begins or ceases to."""
        self._listeners.append(listener)

    def start(self, tasks: TaskScope) -> None:
        """Follow who leads, in tasks of this scope."""
        tasks.spawn(self._mirror.run(), "watch the leader")
        tasks.spawn(self._run(), "election")

    def campaign(self) -> None:
        """Be a candidate from now on."""
        self._is_candidate = True
        self._changed()

    async def resign(self) -> None:
        """Be no candidate any more, and lead no more from this moment on, before anybody else may.

        Raises MetadataError when the others may not know it yet: they are told again and again, in a task.
        """
        self._is_candidate = False
        leader = self._leader
        if leader is None or leader.broker_id != self._broker_id:
            return
        self._given_up = leader.revision
        self._changed()
        await self._give_up(leader)

    async def _run(self) -> None:
        await self._mirror.ready()
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                await self._stand()
            except DanubeError as error:
                _log.warning("this broker cannot stand for leader or resign, which is tried again: %s", error)
                await self._clock.sleep_until(self._clock.monotonic_s() + CLUSTER_RETRY_S)
                self._wake.set()

    async def _stand(self) -> None:
        """Have the key, or as no candidate not have it, as far as this broker has a say in it."""
        lease_id, leader = self._keeper.lease_id, self._leader
        if leader is not None and leader.broker_id != self._broker_id:
            return
        if self._is_candidate:
            await self._take(lease_id, leader)
        elif leader is not None and leader.lease_id == lease_id:
            self._given_up = leader.revision
            await self._give_up(leader)

    async def _take(self, lease_id: int, leader: _Leader | None) -> None:
        """Take the key that nobody has, or that is this broker's own from a lease of before or a time it resigned."""
        is_held = leader is not None and leader.lease_id == lease_id and leader.revision > self._given_up
        if is_held or not lease_id:
            return
        revision, value = leader.revision if leader else 0, encode_leader(self._broker_id)
        try:
            await self._store.compare_and_set(keys.LEADER, value, revision=revision, lease_id=lease_id)
        except (VersionConflictError, NotFoundError):
            return  # another was faster, or the lease has just run out: the watch and the keeper will tell

    async def _give_up(self, leader: _Leader) -> None:
        with suppress(VersionConflictError):  # it is somebody else's already
            await self._store.delete(keys.LEADER, revision=leader.revision)

    def _follow(self, key: str, entry: Entry | None) -> None:
        if key == keys.LEADER:
            self._leader = _Leader(decode_leader(entry), entry.lease_id, entry.revision) if entry else None
            self._changed()

    def _changed(self) -> None:
        if self.is_leader != self._leads_told:
            self._leads_told = self.is_leader
            _log.info("this broker leads the cluster" if self._leads_told else "this broker leads no more")
        self._wake.set()
        for listener in self._listeners:
            listener()
