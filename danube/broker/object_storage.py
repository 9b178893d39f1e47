"""Opens a broker's storage in an object store. Built for this mode alone."""

import shutil
from pathlib import Path

from danube.broker.cluster.metadata import Metadata, mark_opened
from danube.broker.environment import Dependencies
from danube.metadata.records.journals import JournalRecords
from danube.model.limits.objects import OBJECT_ROUND_PATIENCE_S
from danube.objects.bill import Bill, Cause
from danube.objects.opening import open_objects, probe
from danube.objects.retrying import Patience, RetryingStore
from danube.runtime.disk import LocalDisk
from danube.storage.object_store.object_disk import ObjectDisk
from danube.storage.object_store.object_storage import ObjectEnvironment, ObjectStorage
from danube.storage.object_store.object_tier import BlockCache, ObjectTier
from danube.storage.settings import StorageSettings

SCRATCH = "object-cache"
"""Folder in the data folder with copies of what is in the object store; emptied at each start."""


def open_counted(given: Dependencies) -> RetryingStore:
    """The object store of the settings, with retries and a bill. Raises SettingsError."""
    raw = given.environment.objects or open_objects(given.settings.object_store.place())
    bill = Bill(given.clock.monotonic_s(), given.settings.object_store.prices)
    return RetryingStore(raw, given.clock, given.rng, bill=bill, cause=Cause.SEGMENT)


async def open_object_storage(given: Dependencies, metadata: Metadata, settings: StorageSettings) -> ObjectStorage:
    """The storage of `storage.mode` object_store with `journal: object`. Raises as `ObjectStorage.open_objects`."""
    url = given.settings.object_store.place().url
    store = open_counted(given)
    await given.writer.run(lambda: probe(store.charged_to(Cause.PROBE), url, given.rng))
    scratch = await given.writer.run(lambda: _empty_scratch(given.folder.path / SCRATCH))
    patience = Patience(OBJECT_ROUND_PATIENCE_S, retries_max=None, outlasts_refusal=True)
    disk = ObjectDisk(store, scratch, given.rng, round_patience=patience)
    cache = BlockCache(store, disk.ahead, given.settings.object_store.cache_bytes_max)
    storage = await ObjectStorage.open_objects(
        ObjectEnvironment(
            disk=disk,
            objects=disk,
            cache=cache,
            url=url,
            make_tier=lambda: ObjectTier(store, cache),
            remove_journal=disk.remove_journal,
            clock=given.clock,
            rng=given.rng,
            records=metadata.stored,
            journals=JournalRecords(metadata.store, given.rng),
            runner=given.writer,
            read_runner=given.reader,
            flush_runner=given.flusher,
            broker_id=given.folder.broker_id,
            settings=settings,
            cluster_id=metadata.cluster_id,
        )
    )
    given.running.push_async_callback(storage.close)
    await mark_opened(given, metadata)
    return storage


def _empty_scratch(path: Path) -> LocalDisk:
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True, exist_ok=True)
    return LocalDisk(path)
