"""Metadata store in the memory of one process: for tests, simulations and brokers that keep nothing."""

from collections.abc import Sequence

from danube.metadata.commands import Command, Outcome
from danube.metadata.leases import LeaseTimers
from danube.metadata.state import State, apply
from danube.metadata.store import Entry, Watch
from danube.metadata.watch import Begin, WatchHub
from danube.metadata.writing import CommandWriter
from danube.model.limits.metadata import METADATA_WATCH_EVENTS_MAX
from danube.runtime.clock import Clock


class MemoryStore(CommandWriter):
    """Keeps every promise of `MetadataStore` but one: nothing outlives the process. No outcome is ever unknown."""

    def __init__(self, clock: Clock, *, watch_events_max: int = METADATA_WATCH_EVENTS_MAX) -> None:
        self._state = State()
        self._hub = WatchHub(self._take_snapshot, events_max=watch_events_max)
        self._leases = LeaseTimers(clock, self._expire)

    async def get(self, key: str, *, linearizable: bool = False) -> Entry | None:  # noqa: ARG002 - always is
        self._freshen()
        return self._state.entry(key)

    async def list(self, prefix: str, *, linearizable: bool = False) -> Sequence[Entry]:  # noqa: ARG002 - always is
        self._freshen()
        return list(self._state.below(prefix))

    def watch(self, prefix: str) -> Watch:
        self._check_open()
        return self._hub.watch(prefix)

    async def close(self) -> None:
        self._closed = True
        self._leases.close()
        await self._hub.close()

    async def _submit(self, command: Command) -> Outcome:
        self._freshen()
        return self._apply(command)

    async def _take_snapshot(self, prefix: str, begin: Begin) -> None:
        self._freshen()
        begin(list(self._state.below(prefix)), self._state.revision)

    def _freshen(self) -> None:
        self._check_open()
        self._expire()

    def _expire(self) -> None:
        for command in self._leases.due():
            self._apply(command)

    def _apply(self, command: Command) -> Outcome:
        effects = apply(self._state, command)
        self._hub.publish(effects.changes)
        self._leases.follow(effects)
        return effects.outcome
