"""Metadata of a broker that stands alone, without the broker."""

from pathlib import Path

from danube.metadata.raft.sequencer import RaftSequencer
from danube.metadata.raft.settings import LogBounds, RaftSettings
from danube.metadata.replication.replicated import ReplicatedStore
from danube.model.limits.metadata import METADATA_WATCH_EVENTS_MAX
from danube.runtime.clock import Clock
from danube.runtime.disk import LocalDisk
from danube.runtime.rng import SystemRng


async def open_alone(
    folder: Path, clock: Clock, *, watch_events_max: int = METADATA_WATCH_EVENTS_MAX, entries_max: int = 0
) -> ReplicatedStore:
    """The store in a data folder, which nobody else may have open. Raises DanubeError.

    A snapshot is taken after `entries_max` entries of the log; 0 for as many as a broker takes.
    """
    rng, bounds = SystemRng(), LogBounds(entries_max=entries_max) if entries_max else LogBounds()
    sequencer = await RaftSequencer.open(RaftSettings(is_alone=True, log=bounds), LocalDisk(folder), clock, rng)
    store = ReplicatedStore(sequencer, clock, rng, watch_events_max=watch_events_max)
    await store.start()
    return store
