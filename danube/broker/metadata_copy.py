"""Keeps a copy of the metadata in the bucket, from which `danube-broker storage rebuild` makes it anew."""

import logging
from collections.abc import Callable
from dataclasses import replace

from danube import __version__
from danube.broker.cluster.metadata import Metadata
from danube.broker.environment import Dependencies
from danube.metadata.backup.format import Backup, Origin
from danube.metadata.records import keys
from danube.metadata.state import StateSnapshot
from danube.metadata.store import Delete, Entry, MetadataStore, Transaction
from danube.metadata.transaction_builder import settle
from danube.model.errors import DanubeError, MetadataError
from danube.model.limits.metadata import CLUSTER_RETRY_S, METADATA_ATTEMPTS_MAX
from danube.model.limits.objects import METADATA_COPY_DELAY_S, METADATA_COPY_SHARE
from danube.objects.bill import Cause
from danube.objects.retrying import RetryingStore
from danube.objects.store import ObjectStore
from danube.runtime.blocking import BlockingRunner, BlockingThread
from danube.runtime.clock import Clock, sleep_for
from danube.runtime.rng import Rng
from danube.runtime.tasks import TaskScope
from danube.storage.object_store.metadata_copy import COPIED_SOON, lasting, put_copy

_log = logging.getLogger(__name__)


class MetadataCopier:
    """Stores a copy soon after topics, subscriptions, schemas or rights have changed; the leader does in a cluster.

    A broker that does not lead follows nothing, and the leader keeps none of what it follows in memory.
    """

    def __init__(
        self,
        metadata: MetadataStore,
        bucket: ObjectStore,
        origin: Origin,
        *,
        clock: Clock,
        rng: Rng,
        runner: BlockingRunner,
        is_leader: Callable[[], bool],
    ) -> None:
        self._metadata = metadata
        self._bucket = bucket
        self._origin = origin
        self._clock = clock
        self._rng = rng
        self._runner = runner
        self._is_leader = is_leader
        self._is_due = False
        self._followed: TaskScope | None = None

    async def run(self) -> None:
        """Copy whenever that is due, until cancelled. Of consecutive failures the first is logged."""
        pause_s, is_failing = METADATA_COPY_DELAY_S, False
        try:
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
        finally:
            await self._follow(is_leader=False)

    async def _copy_if_due(self) -> None:
        await self._follow(is_leader=self._is_leader())
        if self._followed is None or not self._is_due:
            return
        self._is_due = False
        try:
            await self._copy()
        except BaseException:
            self._is_due = True
            raise

    async def _follow(self, *, is_leader: bool) -> None:
        """Follow what is copied while this broker leads; a new leader does not know what is in the newest copy."""
        if not is_leader and self._followed is not None:
            await self._followed.close()
            self._followed = None
        elif is_leader and self._followed is None:
            self._is_due = True
            self._followed = TaskScope("metadata-copy")
            for prefix in COPIED_SOON:
                self._followed.spawn(self._watch(prefix), f"watch {prefix}")

    async def _watch(self, prefix: str) -> None:
        while True:
            try:
                watch = self._metadata.watch(prefix)
                try:
                    async for _ in watch:
                        self._is_due = True
                finally:
                    await watch.close()
                return
            except DanubeError as error:
                _log.warning("what is below %s cannot be followed, and is tried again: %s", prefix, error)
            self._is_due = True
            await sleep_for(self._clock, CLUSTER_RETRY_S)

    async def _copy(self) -> None:
        revision, entries = await self._read()
        origin = replace(self._origin, taken_ms=self._clock.now_ms())
        backup = Backup(origin, StateSnapshot(revision, 0, entries))
        await self._runner.run(lambda: put_copy(self._bucket, backup))

    async def _read(self) -> tuple[int, tuple[Entry, ...]]:
        """All that lasts, and the revision at which it stood. Raises MetadataError, also while it changes all the time.

        The revision is asked for by a write that changes nothing: it is agreed on, so that a leader that was cut off
        learns so and copies nothing.
        """
        before = await self._revision()
        for _ in range(METADATA_ATTEMPTS_MAX):
            entries = lasting(await self._metadata.list("/"))
            if (revision := await self._revision()) == before:
                return revision, entries
            before = revision
        raise MetadataError("it changes all the time")

    async def _revision(self) -> int:
        nothing = (Delete(f"{keys.CLUSTER}/nothing"),)
        return await settle(self._metadata, Transaction(f"{self._rng.new_id():016x}", (), nothing))


def start_metadata_copies(deps: Dependencies, metadata: Metadata, store: RetryingStore) -> None:
    """Begin to keep copies, for as long as the broker runs."""
    thread = BlockingThread("metadata-copy")
    deps.running.push_async_callback(thread.aclose)
    cluster = metadata.cluster
    copier = MetadataCopier(
        metadata.store,
        store.charged_to(Cause.SEGMENT),
        Origin(kind=str(metadata.kind), place="", taken_ms=0, danube=__version__, cluster_id=metadata.cluster_id),
        clock=deps.clock,
        rng=deps.rng,
        runner=thread,
        is_leader=lambda: cluster is None or cluster.election.is_leader,
    )
    deps.tasks.spawn(copier.run(), "copying metadata")
