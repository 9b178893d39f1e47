"""A broker's folder made anew from the segments that it had moved into a bucket.

Manifests are not in the bucket: `storage repair` makes them of the segments.
"""

from collections.abc import Mapping
from pathlib import Path

from danube.broker.config.settings import BrokerSettings
from danube.data_folder.data_folder import IDENTITY, JOURNAL, Identity
from danube.metadata.backup.backup import cluster_id_of, restored
from danube.metadata.backup.format import Backup
from danube.model.errors import DataFolderError, InvalidRequestError, PreconditionFailedError
from danube.objects.bill import Bill, Cause
from danube.objects.opening import open_objects, unusable
from danube.objects.place import ObjectPlace
from danube.objects.retrying import RetryingStore
from danube.objects.store import ObjectInfo, ObjectStore
from danube.offline.metadata.sources import Place
from danube.offline.output import progress
from danube.offline.storage.rebuild.contents import FoundTopic
from danube.offline.storage.rebuild.entries import Rebuilt, rebuild
from danube.runtime.clock import SystemClock
from danube.runtime.disk import LocalDisk
from danube.runtime.rng import SystemRng
from danube.storage.flush.orphans import highest_manifest_version
from danube.storage.object_store.metadata_copy import newest_copy
from danube.storage.segment.manifest import SEGMENTS, Manifest, folder_of
from danube.storage.takeover.object_storage import cluster_of

_BROKERS = "brokers"


def fill_folder(settings: BrokerSettings, place: ObjectPlace, target: Place, path: Path) -> Rebuilt:
    """Have an empty folder hold the segments and the metadata of the broker that moved them. Raises DanubeError."""
    disk, clock, rng = LocalDisk(path), SystemClock(), SystemRng()
    if disk.exists(JOURNAL):
        raise PreconditionFailedError(f"{path} has messages of a broker: name an empty folder with --data-dir")
    bill = Bill(clock.monotonic_s(), settings.object_store.prices)
    store = RetryingStore(open_objects(place), clock, rng, bill=bill, cause=Cause.RECOVERY)
    try:
        broker_id, copy = _broker_of(store, place.url), newest_copy(store, place.url)
        cluster_id = cluster_of(store) or (cluster_id_of(copy.snapshot.entries) if copy is not None else "")
        listed = _listed(store, broker_id)
        found = {one: FoundTopic(one, _missing_manifest(one, objects), ()) for one, objects in listed.items()}
        made = rebuild(copy, found, cluster_id, clock.now_ms(), owner=broker_id, kind=str(target.kind))
        kept = {one: objects for one, objects in listed.items() if one not in made.deleted}
        _check(target, made.backup, kept, disk)
        _download(store, disk, kept)
    except OSError as error:
        raise unusable(error, place.url) from error
    finally:
        store.close()
    changed = restored(made.backup, to_cluster=False, restore_id=f"{rng.new_id():016x}")
    disk.replace_file(IDENTITY, Identity(broker_id=broker_id, cluster_id=cluster_id).encode())
    target.plant(changed.snapshot, "metadata-before-rebuild")
    return made


def _missing_manifest(topic_id: int, objects: list[ObjectInfo]) -> Manifest:
    """The manifest that metadata is to name, and that is not there: without it the repair would miss nothing."""
    return Manifest(topic_id=topic_id, version=highest_manifest_version(one.name.rpartition("/")[2] for one in objects))


def _check(target: Place, backup: Backup, kept: Mapping[int, list[ObjectInfo]], disk: LocalDisk) -> None:
    target.check(backup)
    wanted = sum(one.size for objects in kept.values() for one in objects)
    if (free := disk.room().free_bytes) < wanted:
        raise DataFolderError(
            f"the segments have {wanted:,} bytes, and {free:,} are free in {target.name}: give it more room"
        )


def _broker_of(store: ObjectStore, url: str) -> int:
    found = [name for name in store.folders(f"{_BROKERS}/") if name.isdecimal()]
    if len(found) != 1:
        many = f"{len(found)} brokers have" if found else "no broker has"
        raise InvalidRequestError(
            f"{many} moved segments into {url}, and a folder is rebuilt of one: check bucket and prefix. This version"
            " rebuilds brokers that stand alone"
        )
    return int(found[0])


def _listed(store: ObjectStore, broker_id: int) -> dict[int, list[ObjectInfo]]:
    """Segments by topic id."""
    below = f"{_BROKERS}/{broker_id}/{SEGMENTS}/"
    found: dict[int, list[ObjectInfo]] = {}
    for one in store.listing(below):
        topic, _, name = one.name.removeprefix(below).partition("/")
        if topic.isdecimal() and name.endswith(".segment") and "/" not in name:
            found.setdefault(int(topic), []).append(one)
    return found


def _download(store: ObjectStore, disk: LocalDisk, kept: Mapping[int, list[ObjectInfo]]) -> None:
    """Have the disk hold them; one that is there of an attempt before is made anew."""
    with progress("copying", sum(one.size for objects in kept.values() for one in objects)) as copied:
        for topic_id, objects in kept.items():
            disk.make_folder(folder_of(topic_id))
            for one in objects:
                disk.replace_file(f"{folder_of(topic_id)}/{one.name.rpartition('/')[2]}", store.get(one.name))
                copied(one.size)
