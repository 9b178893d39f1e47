"""State that a service keeps as a shared log, and an empty log that begins with a state.

The reader takes part as a member does: it sees all that was in the log when it began, while brokers go on.
"""

import sys
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from danube.metadata.replication.replica import Replica
from danube.metadata.shared_log.backend import LogBackend, Snapshot
from danube.metadata.shared_log.entry_format import encode_snapshot
from danube.metadata.shared_log.sequencer import SharedLogSequencer
from danube.metadata.shared_log.snapshots import SnapshotRule
from danube.metadata.state import StateSnapshot
from danube.model.errors import MetadataError, PreconditionFailedError
from danube.model.limits.metadata import METADATA_WATCH_EVENTS_MAX
from danube.runtime.blocking import BlockingThread
from danube.runtime.clock import Clock
from danube.runtime.rng import Rng

_FIRST_NUMBER = 1


class PlantableBackend(LogBackend, Protocol):
    """A service whose log can begin with a state."""

    async def plant(self, snapshot: Snapshot) -> bool:
        """Have a log to which nothing was ever added begin after this snapshot, all at once.

        False when something was added. Safe to be cut off anywhere, and to be done again. Raises MetadataError.
        """


@dataclass(frozen=True, slots=True)
class LogState:
    """State at the end of a log."""

    snapshot: StateSnapshot
    position: int


async def read_log(backend: LogBackend, clock: Clock, rng: Rng) -> LogState:
    """All that was in the log when this was called; `backend` is closed. Raises MetadataError with the next step."""
    rule = SnapshotRule(rng, entries_max=sys.maxsize, bytes_max=sys.maxsize)  # who only looks saves nothing
    sequencer = SharedLogSequencer(backend, BlockingThread("metadata-log"), rng, snapshots=rule)
    replica = Replica(clock, lambda: None, watch_events_max=METADATA_WATCH_EVENTS_MAX)
    try:
        await sequencer.start(replica)
        await sequencer.barrier()
        replica.check()
        return LogState(replica.snapshot(), replica.position)
    finally:
        await sequencer.close()
        await replica.close()


async def begin_log(backend: PlantableBackend, state: StateSnapshot, rng: Rng) -> None:
    """Have an empty log begin with this state; `backend` is closed.

    Raises PreconditionFailedError when the log is not empty, MetadataError with the next step in it.
    """
    runner = BlockingThread("metadata-log")
    try:
        await backend.connect()
        author, link = rng.new_id(), rng.new_id()
        encode = partial(encode_snapshot, author, link, state, backend.entry_bytes_max)
        snapshot = Snapshot(_FIRST_NUMBER, await runner.run(encode))
        if not await backend.plant(snapshot):
            raise PreconditionFailedError("somebody wrote to the service's log meanwhile: nothing was restored")
    finally:
        with suppress(MetadataError):
            await backend.close()
        await runner.aclose()
