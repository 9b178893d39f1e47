"""The command `danube-broker storage rebuild`: metadata of an empty store, made anew from a bucket alone."""

import shlex
import tempfile
from dataclasses import asdict
from pathlib import Path

from danube.broker.config.settings import BrokerSettings
from danube.metadata.backup.backup import restored
from danube.model.errors import DataFolderError, PreconditionFailedError, SettingsError
from danube.model.exit_codes import ExitCode
from danube.model.limits.objects import OBJECT_READS_AHEAD
from danube.model.ownership import StorageMode
from danube.model.text import count_text, time_of
from danube.objects.bill import Bill, Cause
from danube.objects.opening import open_objects, unusable
from danube.objects.place import ObjectPlace
from danube.objects.retrying import Patience, RetryingStore
from danube.offline.cli_options import OutputFormat
from danube.offline.metadata.sources import Place, Wanted, opened
from danube.offline.output import NONE, Facts, show, table, waiting
from danube.offline.storage.rebuild.contents import read_topics
from danube.offline.storage.rebuild.entries import Rebuilt, rebuild
from danube.offline.storage.rebuild.folder import fill_folder
from danube.runtime.clock import SystemClock
from danube.runtime.console import escaped
from danube.runtime.disk import LocalDisk
from danube.runtime.rng import SystemRng
from danube.storage.object_store.metadata_copy import newest_copy
from danube.storage.object_store.object_disk import ObjectDisk
from danube.storage.object_store.object_tier import BlockCache, ObjectTier
from danube.storage.takeover.object_storage import cluster_of


def rebuild_metadata(settings: BrokerSettings, wanted: Wanted, url: str, *, output: OutputFormat) -> ExitCode:
    """Have an empty store hold the metadata of what is in the bucket. Raises DanubeError; then nothing was changed."""
    if settings.storage.mode is StorageMode.SHARED_FS:
        raise SettingsError(
            "the journals and manifests of the mode shared_fs are in the shared folder: restore that from a backup; the"
            " older segments in the bucket fit to it"
        )
    place = settings.object_store.model_copy(update={"url": url}).place()
    with opened(wanted, to_fill=True) as target:
        if not target.is_empty():
            raise PreconditionFailedError(
                f"{target.name} holds metadata already ({target.kind}): it is what counts. To rebuild all the same,"
                " name an empty folder with --data-dir, or another root (meta_store.root)"
            )
        if settings.storage.mode is StorageMode.LOCAL:
            return _rebuild_folder(settings, place, target, is_of_cluster=wanted.is_of_cluster, output=output)
        with waiting("reading the bucket"):
            made = read_bucket(settings, place)
        changed = restored(made.backup, to_cluster=True, restore_id=f"{SystemRng().new_id():016x}")
        target.check(made.backup)
        with waiting("restoring"):
            planted = target.plant(changed.snapshot, "metadata-before-rebuild")
        facts = _facts(made, place, target) | {"into": planted.what, "next": planted.next_step}
    show(facts, output, page_of)
    return ExitCode.OK


def _rebuild_folder(
    settings: BrokerSettings, place: ObjectPlace, target: Place, *, is_of_cluster: bool, output: OutputFormat
) -> ExitCode:
    """Have an empty folder hold what a broker that stood alone had moved into a bucket. Raises DanubeError."""
    if target.path is None or is_of_cluster:
        raise SettingsError(
            "a folder is rebuilt of a broker that stands alone. For the bucket of a cluster give the settings of its"
            " brokers, with storage.mode object_store, before the word storage"
        )
    made = fill_folder(settings, place, target, target.path)
    repair = f"danube-broker storage repair --accept-loss --data-dir {shlex.quote(str(target.path))}"
    next_step = f"`{repair}` makes the manifests; start the broker then"
    show(_facts(made, place, target) | {"into": target.name, "next": next_step}, output, page_of)
    return ExitCode.OK


def read_bucket(settings: BrokerSettings, place: ObjectPlace) -> Rebuilt:
    """The metadata of all topics in a bucket. Raises DanubeError."""
    clock, rng = SystemClock(), SystemRng()
    bill = Bill(clock.monotonic_s(), settings.object_store.prices)
    store = RetryingStore(open_objects(place), clock, rng, bill=bill, cause=Cause.RECOVERY)
    with tempfile.TemporaryDirectory(prefix="danube-rebuild-") as scratch:
        disk = ObjectDisk(store, LocalDisk(Path(scratch)), rng, round_patience=Patience(), threads=OBJECT_READS_AHEAD)
        try:
            cluster_id, copy = cluster_of(store), newest_copy(store, place.url)
            if not cluster_id:
                raise DataFolderError(
                    f"{place.url} has no object `cluster`: no broker has used it. Check bucket and prefix"
                )
            found = read_topics(store, disk, ObjectTier(store, BlockCache(store, disk.ahead)))
        except OSError as error:
            raise unusable(error, place.url) from error
        finally:
            disk.close()
            store.close()
    return rebuild(copy, found, cluster_id, clock.now_ms())


def _facts(made: Rebuilt, place: ObjectPlace, target: Place) -> Facts:
    origin = made.backup.origin
    has_copy = bool(origin.danube)
    return {
        "from": place.url,
        "kind": str(target.kind),
        "cluster": origin.cluster_id,
        "copy_taken_ms": origin.taken_ms if has_copy else None,
        "topics": [asdict(one) for one in made.topics],
        "deleted_topic_ids": made.deleted,
    }


def page_of(facts: Facts) -> str:
    """The report for people."""
    taken_ms = facts["copy_taken_ms"]
    rows = [
        (
            escaped(one["topic"]),
            str(one["topic_id"]),
            f"{one['start_offset']} .. {one['end_offset'] - 1}" if one["end_offset"] else NONE,
            str(one["segments"]),
        )
        for one in facts["topics"]
    ]
    unnamed = sum(not one["is_named"] for one in facts["topics"])
    lines = [
        f"Rebuilt from {escaped(facts['from'])}, cluster {escaped(facts['cluster'])}",
        f"Into:     {escaped(facts['into'])}",
        f"Names by: {f'the copy of {time_of(taken_ms)}' if taken_ms is not None else 'nothing'}",
        "",
        table("Topics", ("topic", "id", "offsets", "segments"), rows) or "The bucket has no topics.",
        "",
    ]
    if unnamed:
        why = "that copy does not know them" if taken_ms is not None else "the bucket has no copy of the metadata"
        lines.append(
            f"{count_text(unnamed, 'topic')} without a name, since {why}: each is called recovered-topic-<id>, and its"
            " subscriptions recovered-<id>."
        )
    if facts["deleted_topic_ids"]:
        count = count_text(len(facts["deleted_topic_ids"]), "topic")
        lines.append(f"Left out: what is left of {count} that had been deleted.")
    return "\n".join([*lines, f"Next: {escaped(facts['next'])}."]) + "\n"
