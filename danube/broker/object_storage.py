"""Opens storages that brokers share, in a folder or an object store, and tiering to one."""

import shutil
from collections.abc import Container
from pathlib import Path
from typing import Any

from danube.broker.cluster.metadata import Metadata, mark_opened
from danube.broker.environment import Dependencies
from danube.broker.metadata_copy import start_metadata_copies
from danube.metadata.records.journals import JournalRecords
from danube.model.errors import DataFolderError
from danube.model.limits.objects import OBJECT_READS_AHEAD, OBJECT_ROUND_PATIENCE_S
from danube.objects.bill import Bill, Cause
from danube.objects.opening import open_objects, probe, unusable
from danube.objects.retrying import Patience, RetryingStore
from danube.runtime.blocking import BlockingRunner, BlockingThread
from danube.runtime.disk import Disk, LocalDisk
from danube.storage.journal.folder import FOLDER, JOURNALS
from danube.storage.object_store.local_parts import NOT_UPLOADED
from danube.storage.object_store.object_disk import ObjectDisk
from danube.storage.object_store.object_tier import BlockCache, ObjectTier
from danube.storage.object_store.side_by_side import SideBySide
from danube.storage.object_store.tiered_tier import MARKER, SegmentMover, TieredTier
from danube.storage.settings import StorageSettings
from danube.storage.store import Storage
from danube.storage.takeover.object_storage import ObjectEnvironment, ObjectStorage, check_cluster, use_of
from danube.storage.takeover.own_journal import SharedEnvironment
from danube.storage.takeover.shared_storage import SharedStorage

SCRATCH = "object-cache"
"""Folder in the data folder with copies of what is in the object store; emptied at each start."""
LOCAL_JOURNAL = "object-journal"
"""Folder in the data folder with the journals of `object_store.journal` local."""


def open_counted(deps: Dependencies) -> RetryingStore:
    """The object store of the settings, with retries and a bill. Raises SettingsError."""
    raw = deps.environment.objects or open_objects(deps.settings.object_store.place())
    bill = Bill(deps.clock.monotonic_s(), deps.settings.object_store.prices)
    return RetryingStore(raw, deps.clock, deps.rng, bill=bill, cause=Cause.SEGMENT)


def _own_parts(deps: Dependencies, metadata: Metadata) -> dict[str, Any]:
    """Fields of the environment of any storage that brokers share."""
    return {
        "clock": deps.clock,
        "rng": deps.rng,
        "records": metadata.stored,
        "journals": JournalRecords(metadata.store, deps.rng),
        "runner": deps.writer,
        "read_runner": deps.reader,
        "flush_runner": deps.flusher,
        "broker_id": deps.folder.broker_id,
        "cluster_id": metadata.cluster_id,
    }


async def open_object_storage(deps: Dependencies, metadata: Metadata, settings: StorageSettings) -> ObjectStorage:
    """The storage of `storage.mode` object_store. Raises as `ObjectStorage.open_objects`."""
    await refuse_local_messages(deps)
    url = deps.settings.object_store.place().url
    store = open_counted(deps)
    await deps.writer.run(lambda: probe(store.charged_to(Cause.PROBE), url, deps.rng))
    own, how = _own_parts(deps, metadata), deps.settings.object_store
    is_local, folder = how.journal == "local", deps.folder.path
    entered = (await own["journals"].all()).values()
    kept = {f"{one.journal_id:016x}" for one in entered if is_local and one.broker_id == deps.folder.broker_id}
    scratch = await deps.writer.run(lambda: _empty_scratch(folder / (LOCAL_JOURNAL if is_local else SCRATCH), kept))
    patience = Patience(OBJECT_ROUND_PATIENCE_S, retries_max=None, outlasts_refusal=True)
    disk = ObjectDisk(store, scratch, deps.rng, round_patience=patience, is_local=is_local)
    cache = BlockCache(store, disk.ahead, how.cache_bytes_max)
    uploads = BlockingThread("objects-upload") if is_local else None
    if uploads is not None:
        deps.running.push_async_callback(uploads.aclose)
    storage = await ObjectStorage.open_objects(
        ObjectEnvironment(
            disk=disk,
            objects=disk,
            cache=cache,
            url=url,
            make_tier=lambda: ObjectTier(store, cache),
            remove_journal=disk.remove_journal,
            settings=settings,
            upload_runner=uploads,
            store_runner=_store_thread(deps),
            upload_interval_s=how.batch_timeout_ms / 1_000,
            lag_bytes_max=how.upload_lag_bytes_max,
            **own,
        )
    )
    deps.running.push_async_callback(storage.close)
    start_metadata_copies(deps, metadata, store)
    await mark_opened(deps, metadata)
    return storage


def _store_thread(deps: Dependencies) -> BlockingRunner:
    thread = BlockingThread("objects-read")
    deps.running.push_async_callback(thread.aclose)
    return thread


def _empty_scratch(path: Path, kept: Container[str]) -> LocalDisk:
    """Remove copies of journals but for those that are kept, or have what is nowhere else."""
    journals = path / JOURNALS
    for one in journals.iterdir() if journals.is_dir() else ():
        if one.name not in kept and not (one / NOT_UPLOADED).exists():
            shutil.rmtree(one, ignore_errors=True)
    path.mkdir(parents=True, exist_ok=True)
    return LocalDisk(path)


async def open_tiering(deps: Dependencies, metadata: Metadata, disk: Disk, below: str) -> dict[str, Any]:
    """Fields of a storage's environment for tiering; none where no bucket is set.

    Raises DataFolderError for a folder with segments in a bucket where none is set, or that is another cluster's.
    """
    settings = deps.settings.object_store
    was_tiered = await deps.writer.run(lambda: disk.exists(MARKER))
    if settings.url is None:
        if was_tiered:
            raise DataFolderError(
                "segments of this folder are in a bucket, which the file object-tier names: set object_store.url to it"
            )
        return {}
    place, store = settings.place(), open_counted(deps)
    asking = _store_thread(deps)
    deps.running.push_async_callback(lambda: asking.run(store.close))
    try:
        await deps.writer.run(lambda: check_cluster(store, metadata.cluster_id, place.url, is_new=not was_tiered))
    except OSError as error:
        raise unusable(error, place.url) from error
    start_metadata_copies(deps, metadata, store)
    ahead = SideBySide(OBJECT_READS_AHEAD)
    deps.running.callback(ahead.close)
    cache = BlockCache(store, ahead, settings.cache_bytes_max)

    def remote() -> ObjectTier:
        return ObjectTier(store, cache, below=below)

    mover = SegmentMover(
        disk, remote(), url=place.url, after_s=settings.tier_after_s, bytes_min=settings.tier_segment_bytes_min
    )
    return {
        "make_tier": lambda: TieredTier(disk, remote()),
        "mover": mover,
        "store_runner": asking,
        "object_use": lambda: use_of(store, cache, place.url, deps.clock),
    }


async def open_shared_storage(
    deps: Dependencies, metadata: Metadata, settings: StorageSettings, folder: Path
) -> Storage:
    """The storage of `storage.mode` shared_fs. Raises as `SharedStorage.open_shared`."""
    await refuse_local_messages(deps)
    disk = deps.environment.shared_disk or LocalDisk(folder)
    storage = await SharedStorage.open_shared(
        SharedEnvironment(
            disk=disk,
            place=f"the shared folder {folder}",
            settings=settings,
            **_own_parts(deps, metadata),
            **await open_tiering(deps, metadata, disk, "shared/"),
        )
    )
    deps.running.push_async_callback(storage.close)
    await mark_opened(deps, metadata)
    return storage


async def refuse_local_messages(deps: Dependencies) -> None:
    """Raise DataFolderError for a data folder with messages of the mode local."""
    if await deps.writer.run(lambda: deps.folder.disk.exists(FOLDER)):
        raise DataFolderError(
            f"{deps.folder.path} has messages of a broker with the storage.mode local: start it with an empty folder"
        )
