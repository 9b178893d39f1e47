"""A metadata store over a shared log, put together."""

from danube.metadata.replication.replicated import ReplicatedStore
from danube.metadata.shared_log.backend import LogBackend
from danube.metadata.shared_log.sequencer import SharedLogSequencer
from danube.metadata.shared_log.snapshots import SnapshotRule
from danube.model.limits.metadata import METADATA_WATCH_EVENTS_MAX
from danube.runtime.blocking import BlockingRunner, BlockingThread
from danube.runtime.clock import Clock
from danube.runtime.rng import Rng


async def open_shared_log(
    backend: LogBackend,
    clock: Clock,
    rng: Rng,
    *,
    runner: BlockingRunner | None = None,
    snapshots: SnapshotRule | None = None,
    watch_events_max: int = METADATA_WATCH_EVENTS_MAX,
) -> ReplicatedStore:
    """A store that has all that was in the log, and closes what it was given.

    Raises MetadataError, with the next step in it, when the service cannot be used.
    """
    sequencer = SharedLogSequencer(backend, runner or BlockingThread("metadata-log"), rng, snapshots=snapshots)
    store = ReplicatedStore(sequencer, clock, rng, watch_events_max=watch_events_max)
    try:
        await store.start()
    except BaseException:
        await store.close()
        raise
    return store
