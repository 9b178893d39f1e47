"""The storage of one broker in an object store that all brokers share, with topics that change their owners."""

import asyncio
import logging
from dataclasses import dataclass, replace

from danube.model.errors import DataFolderError, StorageUnavailableError
from danube.model.limits.broker import MIB
from danube.model.limits.objects import (
    OBJECT_CLOSING_S,
    OBJECT_OUTAGE_REFUSED_S,
    OBJECT_RETRY_BUDGET_S,
    UPLOAD_LAG_BYTES_MAX,
)
from danube.objects.opening import unusable
from danube.objects.retrying import RetryingStore
from danube.objects.store import ObjectStore
from danube.objects.use import ObjectUse, TopicObjects
from danube.runtime.blocking import BlockingRunner
from danube.runtime.clock import Clock, sleep_for
from danube.storage.journal.folder import journal_folder
from danube.storage.journal.index import TopicIndex
from danube.storage.log.histories import TopicHistory
from danube.storage.object_store.object_disk import ObjectDisk
from danube.storage.object_store.object_tier import BlockCache
from danube.storage.takeover.own_journal import OwnJournal, SharedEnvironment, open_own_journal
from danube.storage.takeover.shared_storage import SharedStorage

_log = logging.getLogger(__name__)

CLUSTER = "cluster"
"""The object that holds the id of the cluster that a prefix belongs to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectEnvironment(SharedEnvironment):
    """Parts that a broker's storage in an object store is built from."""

    objects: ObjectDisk
    """The same as `disk`."""
    cache: BlockCache
    url: str
    """For messages."""
    upload_runner: BlockingRunner | None = None
    """Uploads the journal that is acknowledged by the disk; None where each round is an object."""
    upload_interval_s: float = 0.0
    lag_bytes_max: int = UPLOAD_LAG_BYTES_MAX


class ObjectStorage(SharedStorage):
    """A `SharedStorage` whose journal, segments and manifests are objects. Made by `open_objects`."""

    def __init__(self, environment: ObjectEnvironment, own: OwnJournal) -> None:
        super().__init__(environment, own)
        self._objects = environment.objects
        self._clock = environment.clock
        self._url = environment.url
        self.cache = environment.cache
        self._uploads = environment.upload_runner
        self._upload_interval_s = environment.upload_interval_s
        self._lag_bytes_max = environment.lag_bytes_max
        self._uploaded_s = environment.clock.monotonic_s()
        """All that was synced by then is uploaded."""
        self._uploaded_to = 0
        """Position in the journal up to which that is known."""
        self._gate.outage = self._outage if self._uploads is None else self._lag
        if self._uploads is not None:
            environment.records.before_write = self._have_uploaded

    @classmethod
    async def open_objects(cls, environment: ObjectEnvironment) -> "ObjectStorage":
        """As `SharedStorage.open_shared`: the broker goes on in its own journal, if no other has fenced it.

        Raises as that, and DataFolderError for a prefix of another cluster.
        """
        entered = (await environment.journals.all()).values()
        mine = [one.journal_id for one in entered if one.broker_id == environment.broker_id]
        store = environment.objects.store
        try:
            cluster_id, url = environment.cluster_id, environment.url
            await environment.tier_runner.run(lambda: check_cluster(store, cluster_id, url, is_new=not entered))
            for journal_id in mine:
                await environment.runner.run(lambda: _claim(environment.objects, journal_id))  # noqa: B023 - in turn
        except OSError as error:
            raise unusable(error, environment.url) from error
        storage = cls(environment, await open_own_journal(environment))
        await storage.check_space()
        return storage

    @property
    def object_use(self) -> ObjectUse:
        use = use_of(self._objects.store, self.cache, self._url, self._clock)
        return replace(use, waiting_bytes=self._objects.waiting_bytes, waiting_s=self.upload_lag_s)

    @property
    def upload_lag_s(self) -> float:
        """Age of the oldest message that is acknowledged and not yet uploaded, at most; 0 where there is none."""
        return self._clock.monotonic_s() - self._uploaded_s if self._objects.waiting_bytes else 0.0

    def _topic_objects(self, topic_id: int, index: TopicIndex, history: TopicHistory | None) -> TopicObjects | None:
        is_all_uploaded = self._uploads is None or not self._objects.waiting_bytes
        uploaded_to = self.journal.synced_to if is_all_uploaded else self._uploaded_to
        return TopicObjects(
            topic_id=topic_id,
            not_uploaded_bytes=index.body_bytes_from(uploaded_to),
            not_uploaded_since_ms=index.first_append_ms_from(uploaded_to),
            stored_bytes=history.file_bytes if history is not None else 0,
            use=self.object_use,
        )

    def start(self) -> None:
        super().start()
        if self._uploads is not None:
            self._tasks.spawn(self._upload_all_the_time(), "upload")

    async def upload(self) -> None:
        """Upload what is acknowledged by now, where the disk acknowledges. Raises OSError."""
        if self._uploads is not None:
            begun_s, synced_to = self._clock.monotonic_s(), self.journal.synced_to
            await self._uploads.run(self._objects.upload)
            self._uploaded_s, self._uploaded_to = begun_s, synced_to

    async def _upload_all_the_time(self) -> None:
        while self.stopped is None:
            await sleep_for(self._clock, self._upload_interval_s)
            if self._objects.waiting_bytes or self._objects.has_leaving:
                await self._try("uploading the journal", self.upload)

    async def _have_uploaded(self) -> None:
        """Before metadata names the end of a topic: the next owner reads it in the bucket."""
        try:
            async with asyncio.timeout(OBJECT_RETRY_BUDGET_S):
                await self.upload()
        except (OSError, TimeoutError) as error:
            raise StorageUnavailableError(
                f"the journal is not uploaded yet ({str(error) or 'the object store does not answer'}), and the topic"
                " stays where it is until it is: check object_store and the network"
            ) from error

    def _lag(self) -> str | None:
        """The reason that appends are refused while too much waits to be uploaded."""
        waiting_bytes = self._objects.waiting_bytes
        if waiting_bytes < self._lag_bytes_max:
            return None
        error = self._objects.store.outage.error
        return (
            f"{waiting_bytes // MIB} MiB wait to be uploaded to the object store, the most that"
            f" object_store.upload_lag_bytes_max allows{f' ({error})' if error else ''}: messages are accepted again"
            " once it takes them. Check object_store and the network"
        )

    def _outage(self) -> str | None:
        """The reason that appends are refused while the object store does not answer."""
        outage = self._objects.store.outage
        lasted_s = outage.lasted_s(self._clock.monotonic_s())
        if lasted_s < OBJECT_OUTAGE_REFUSED_S:
            return None
        return (
            f"the object store has not taken anything for {lasted_s:.0f} s ({outage.error}): messages are accepted"
            " again once it does. Check object_store and the network"
        )

    async def close(self) -> None:
        """As `Storage.close`; a store that does not answer is waited for a moment only."""
        store = self._objects.store
        timer = self._clock.call_at(self._clock.monotonic_s() + OBJECT_CLOSING_S, store.pause.end)
        try:
            await super().close()
            await self._try("uploading the journal", self.upload)
        finally:
            timer.cancel()
            self._objects.close()
            await self._environment.tier_runner.run(store.close)


def check_cluster(store: ObjectStore, cluster_id: str, url: str, *, is_new: bool) -> None:
    """Raises DataFolderError for a prefix that another cluster uses, or an empty one where this cluster has topics."""
    found = cluster_of(store)
    if not cluster_id or found == cluster_id:
        return
    if not found and is_new:
        try:
            store.put_if_absent(CLUSTER, [cluster_id.encode()])
        except FileExistsError:
            found = cluster_of(store)
        if found in {"", cluster_id}:
            return
    raise DataFolderError(
        f"{url} is not that of this cluster, {cluster_id}, but of {found or 'none'}: give every cluster a"
        " prefix of its own in object_store.url"
    )


def use_of(store: RetryingStore, cache: BlockCache, url: str, clock: Clock) -> ObjectUse:
    """The use of a store so far."""
    now_s = clock.monotonic_s()
    return ObjectUse(
        url=url,
        bill=store.bill,
        elapsed_s=now_s - store.bill.started_s,
        unanswered_s=store.outage.silent_s(now_s),
        error=store.outage.error if store.outage.since_s is not None else "",
        cache_hits=cache.stats.hits,
        cache_misses=cache.stats.misses,
    )


def cluster_of(store: ObjectStore) -> str:
    """The id of the cluster that a prefix belongs to; "" for none yet. Raises OSError."""
    try:
        return store.get(CLUSTER).decode(errors="replace")
    except FileNotFoundError:
        return ""


def _claim(disk: ObjectDisk, journal_id: int) -> None:
    journal = disk.journal(journal_folder(journal_id))
    if journal.exists():
        journal.claim()
