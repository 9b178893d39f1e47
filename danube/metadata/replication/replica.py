"""Replica: one member's copy of the replicated metadata, with its watches and lease timers; on the event loop."""

import asyncio
from collections.abc import Callable, Sequence

from danube.metadata.commands import ExpireLease, Outcome
from danube.metadata.leases import LeaseTimers
from danube.metadata.replication.command_format import decode_request
from danube.metadata.state import State, StateSnapshot, apply
from danube.metadata.store import Entry, Watch
from danube.metadata.watch import Begin, WatchHub
from danube.model.errors import DanubeError, MetadataError
from danube.runtime.clock import Clock
from danube.runtime.tasks import resolve


class Replica:
    """A `Follower`: replicas that follow the same sequence have the same state at each position of it."""

    def __init__(self, clock: Clock, on_due: Callable[[], None], *, watch_events_max: int) -> None:
        """`on_due` is called when a lease has run out by `clock`: whoever can submit should submit `due()`."""
        self.position = 0
        """Position applied last."""
        self._state = State()
        self._hub = WatchHub(self._take_snapshot, events_max=watch_events_max)
        self._leases = LeaseTimers(clock, on_due)
        self._waiting: dict[str, asyncio.Future[Outcome]] = {}
        self._failure: Exception | None = None
        self.on_outcome: Callable[[str, Outcome], None] = lambda _request_id, _outcome: None
        """Told the outcome of each request, at once."""

    # As a follower

    def apply(self, position: int, requests: Sequence[bytes]) -> None:
        for packed in requests:
            try:
                request = decode_request(packed)
                effects = apply(self._state, request.command)
            except DanubeError as error:
                self.failed(error)
                raise
            self._hub.publish(effects.changes)
            self._leases.follow(effects)
            self.on_outcome(request.request_id, effects.outcome)
            resolve(self._waiting.get(request.request_id), effects.outcome)
        self.position = position

    def reset(self, position: int, snapshot: StateSnapshot) -> None:
        self._state = State.of(snapshot)
        self._leases.restart(snapshot.leases)
        self.position = position
        self._hub.reset()

    def snapshot(self) -> StateSnapshot:
        return self._state.snapshot()

    def led_anew(self) -> None:
        self._leases.restart()

    def failed(self, error: Exception) -> None:
        self._failure = self._failure or error

    # For readers

    def check(self) -> None:
        """Raise MetadataError when the sequence could not be followed."""
        if self._failure is not None:
            raise MetadataError(f"this broker's metadata stopped: {self._failure}") from self._failure

    def entry(self, key: str) -> Entry | None:
        return self._state.entry(key)

    def below(self, prefix: str) -> Sequence[Entry]:
        return list(self._state.below(prefix))

    def due(self) -> Sequence[ExpireLease]:
        """Commands to submit now; without effect on a lease that was renewed meanwhile."""
        return self._leases.due()

    def end_lease(self, lease_id: int) -> ExpireLease | None:
        """Make a lease due now, as often as it is renewed by now; None if there is no such lease."""
        return self._leases.end(lease_id)

    def watch(self, prefix: str) -> Watch:
        return self._hub.watch(prefix)

    def expect(self, request_id: str) -> "asyncio.Future[Outcome]":
        """Outcome of a request, once it is applied here; to be given up with `forget`."""
        return self._waiting.setdefault(request_id, asyncio.get_running_loop().create_future())

    def forget(self, request_id: str) -> None:
        """Nobody waits for the request any more."""
        self._waiting.pop(request_id, None)

    async def close(self) -> None:
        self._leases.close()
        await self._hub.close()

    async def _take_snapshot(self, prefix: str, begin: Begin) -> None:
        begin(self.below(prefix), self._state.revision)
