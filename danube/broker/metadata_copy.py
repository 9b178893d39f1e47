"""Keeps a copy of the metadata in the bucket, from which `danube-broker storage rebuild` makes it anew."""

import logging
from dataclasses import replace

from danube import __version__
from danube.broker.cluster.metadata import Metadata
from danube.broker.environment import Dependencies
from danube.metadata.backup.format import Backup, Origin
from danube.metadata.records import keys
from danube.metadata.state import StateSnapshot
from danube.metadata.store import Delete, Entry, Transaction
from danube.metadata.transaction_builder import settle
from danube.metadata.watch_cache import WatchCache
from danube.model.errors import DanubeError, MetadataError
from danube.model.limits.metadata import METADATA_ATTEMPTS_MAX
from danube.model.limits.objects import METADATA_COPY_DELAY_S, METADATA_COPY_SHARE
from danube.objects.bill import Cause
from danube.objects.retrying import RetryingStore
from danube.runtime.blocking import BlockingThread
from danube.runtime.clock import sleep_for
from danube.storage.object_store.metadata_copy import is_worth_a_copy, lasting, put_copy

_log = logging.getLogger(__name__)


class MetadataCopier:
    """Stores a copy soon after topics, subscriptions, schemas or rights have changed; the leader does in a cluster."""

    def __init__(self, given: Dependencies, metadata: Metadata, store: RetryingStore, thread: BlockingThread) -> None:
        self._metadata = metadata
        self._clock = given.clock
        self._rng = given.rng
        self._store = store.charged_to(Cause.SEGMENT)
        self._thread = thread
        self._origin = Origin(
            kind=str(metadata.kind), place="", taken_ms=0, danube=__version__, cluster_id=metadata.cluster_id
        )
        self._is_due = False
        self._was_leader = False
        self.followed = WatchCache(metadata.store, "/", given.clock, self._changed)

    def _changed(self, key: str, entry: Entry | None) -> None:
        del entry
        self._is_due = self._is_due or is_worth_a_copy(key)

    async def run(self) -> None:
        """Copy whenever that is due, until cancelled. Of consecutive failures the first is logged."""
        await self.followed.ready()
        pause_s, is_failing = METADATA_COPY_DELAY_S, False
        while True:
            await sleep_for(self._clock, pause_s)
            begun_s = self._clock.monotonic_s()
            try:
                await self._copy_if_due()
                is_failing = False
            except (OSError, DanubeError) as error:
                if not is_failing:
                    _log.warning("the metadata could not be copied into the bucket, it is tried again: %s", error)
                is_failing = True
            took_s = self._clock.monotonic_s() - begun_s
            pause_s = max(METADATA_COPY_DELAY_S, took_s / METADATA_COPY_SHARE)

    async def _copy_if_due(self) -> None:
        cluster = self._metadata.cluster
        is_leader = cluster is None or cluster.election.is_leader
        is_due = is_leader and (self._is_due or not self._was_leader)
        self._was_leader = is_leader
        if not is_due:
            return
        self._is_due = False
        try:
            await self._copy()
        except BaseException:
            self._is_due = True
            raise

    async def _copy(self) -> None:
        revision, entries = await self._read()
        taken = replace(self._origin, taken_ms=self._clock.now_ms())
        backup = Backup(taken, StateSnapshot(revision, 0, entries))
        await self._thread.run(lambda: put_copy(self._store, backup))

    async def _read(self) -> tuple[int, tuple[Entry, ...]]:
        """All that lasts, and the revision at which it stood. Raises MetadataError, also while it changes all the time.

        The revision is asked for by a write that changes nothing: it is agreed on, so that a leader that was cut off
        learns so and copies nothing.
        """
        before = await self._revision()
        for _ in range(METADATA_ATTEMPTS_MAX):
            entries = lasting(await self._metadata.store.list("/"))
            if (revision := await self._revision()) == before:
                return revision, entries
            before = revision
        raise MetadataError("it changes all the time")

    async def _revision(self) -> int:
        nothing = (Delete(f"{keys.CLUSTER}/nothing"),)
        return await settle(self._metadata.store, Transaction(f"{self._rng.new_id():016x}", (), nothing))


def start_metadata_copies(given: Dependencies, metadata: Metadata, store: RetryingStore) -> None:
    """Begin to keep copies, for as long as the broker runs."""
    thread = BlockingThread("metadata-copy")
    given.running.push_async_callback(thread.aclose)
    copier = MetadataCopier(given, metadata, store, thread)
    given.tasks.spawn(copier.followed.run(), "following metadata")
    given.tasks.spawn(copier.run(), "copying metadata")
