"""A data folder of a cluster that was repaired: its metadata is told which manifests count when the broker starts.

The repair itself cannot: the metadata is the cluster's, and nobody writes to it behind the cluster's back. So it leaves
a note in the folder, before it makes anything, and the broker names what is there before it opens its storage. Both can
be done again: who died in the middle begins anew.
"""

import json
import logging
from collections.abc import Mapping

from danube.data_folder.data_folder import REPAIRED, DataFolder
from danube.data_folder.history_scan import content_of
from danube.metadata.records import keys
from danube.metadata.records.record_format import TopicStorage, decode_topic
from danube.metadata.records.storage import StorageRecords
from danube.metadata.store import MetadataStore
from danube.model.errors import DataFolderError, NewerDataFolderError
from danube.model.text import count_text
from danube.model.untrusted_json import decode_json
from danube.runtime.blocking import BlockingRunner
from danube.runtime.disk import Disk
from danube.runtime.rng import Rng
from danube.storage.segment.manifest import manifest_name

_FORMAT = 1

_log = logging.getLogger(__name__)


def record_repair(disk: Disk, manifest_versions: Mapping[int, int]) -> None:
    """Write down, durably, which manifests count by topic id once they are there; earlier notes stay. Blocks.

    Raises DataFolderError when what was noted before cannot be read, OSError.
    """
    noted = {**recorded_repair(disk), **manifest_versions}
    topics = {str(topic_id): manifest_version for topic_id, manifest_version in sorted(noted.items())}
    disk.replace_file(REPAIRED, json.dumps({"format": _FORMAT, "topics": topics}).encode())


def recorded_repair(disk: Disk) -> dict[int, int]:
    """What was noted: manifest_versions by topic id; empty where nothing was. Blocks. Raises DataFolderError, OSError."""
    if not disk.exists(REPAIRED):
        return {}
    try:
        fields = decode_json(content_of(disk, REPAIRED))
        if (version := int(fields["format"])) > _FORMAT:
            raise NewerDataFolderError(
                f"{REPAIRED} was written by a newer version (format {version}): use that version"
            )
        return {int(topic_id): int(manifest_version) for topic_id, manifest_version in fields["topics"].items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        raise DataFolderError(f"{REPAIRED} is damaged: restore the data folder from a backup") from None


async def apply_repair(store: MetadataStore, folder: DataFolder, rng: Rng, runner: BlockingRunner) -> None:
    """Have the metadata name the manifests that a repair has made, and forget the note.

    Topics that were deleted meanwhile, and manifests that a repair did not come to, are left out. Raises
    DataFolderError, OSError, MetadataError, StorageChangedError.
    """
    records = StorageRecords(store, rng)
    noted, known = await runner.run(lambda: recorded_repair(folder.disk)), await records.all()
    topics = [decode_topic(entry) for entry in await store.list(keys.TOPICS)]
    own = {topic.topic_id for topic in topics if topic.owner == folder.broker_id}
    changes = [
        (record, version)
        for topic_id, version in noted.items()
        if topic_id in own and (record := known.get(topic_id, TopicStorage(topic_id))).manifest_version < version
    ]
    there = await runner.run(lambda: [change for change in changes if _is_there(folder.disk, change)])
    await records.point(there)
    if there:
        _log.info("the metadata learns what a repair has made: manifests of %s", count_text(len(there), "topic"))
    await runner.run(lambda: _forget(folder.disk))


def _is_there(disk: Disk, change: tuple[TopicStorage, int]) -> bool:
    record, manifest_version = change
    return disk.exists(manifest_name(record.topic_id, manifest_version))


def _forget(disk: Disk) -> None:
    disk.remove(REPAIRED)
    disk.sync_folder("")
