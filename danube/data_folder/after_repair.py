"""Repaired data folder of a cluster: the metadata learns which manifests count when the broker starts.

The repair itself does not write to the cluster's metadata. It leaves a file in the folder before it makes anything, and
the broker has the metadata name what is there before it opens its storage. Both can be done again after a crash.
"""

import json
import logging
from collections.abc import Mapping

from danube.data_folder.data_folder import REPAIRED, DataFolder
from danube.metadata.records import keys
from danube.metadata.records.record_format import TopicStorage, decode_topic
from danube.metadata.records.storage import StorageRecords, owner_of
from danube.metadata.store import MetadataStore
from danube.model.errors import DataFolderError
from danube.model.text import count_text
from danube.model.untrusted_json import decode_json
from danube.runtime.blocking import BlockingRunner
from danube.runtime.checksum import other_version
from danube.runtime.disk import Disk, content_of
from danube.runtime.rng import Rng
from danube.storage.segment.manifest import manifest_name

_FORMAT = 1

_log = logging.getLogger(__name__)


def record_repair(disk: Disk, manifest_versions: Mapping[int, int]) -> None:
    """Record durably which manifests count by topic id once they are there; earlier records stay. Blocks.

    Raises DataFolderError when what was recorded before cannot be read, OSError.
    """
    recorded = {**recorded_repair(disk), **manifest_versions}
    topics = {str(topic_id): manifest_version for topic_id, manifest_version in sorted(recorded.items())}
    disk.replace_file(REPAIRED, json.dumps({"format": _FORMAT, "topics": topics}).encode())


def recorded_repair(disk: Disk) -> dict[int, int]:
    """The recorded manifest versions by topic id. Blocks. Raises DataFolderError, OSError."""
    if not disk.exists(REPAIRED):
        return {}
    try:
        fields = decode_json(content_of(disk, REPAIRED))
        if (version := int(fields["format"])) != _FORMAT:
            raise other_version(REPAIRED, version, _FORMAT)
        return {int(topic_id): int(manifest_version) for topic_id, manifest_version in fields["topics"].items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        raise DataFolderError(f"{REPAIRED} is damaged: restore the data folder from a backup") from None


async def apply_repair(store: MetadataStore, folder: DataFolder, rng: Rng, runner: BlockingRunner) -> None:
    """Have the metadata name the manifests that a repair has made, and remove the record.

    Topics that were deleted meanwhile, and manifests that a repair did not come to, are left out. Raises
    DataFolderError, OSError, MetadataError, StorageChangedError.
    """
    records = StorageRecords(store, rng)
    recorded, known = await runner.run(lambda: recorded_repair(folder.disk)), await records.all()
    topics = [decode_topic(entry) for entry in await store.list(keys.TOPICS)]
    own = {one.topic_id for one in topics if owner_of(known.get(one.topic_id), one.broker) == folder.broker_id}
    changes = [
        (record, version)
        for topic_id, version in recorded.items()
        if topic_id in own and (record := known.get(topic_id, TopicStorage(topic_id))).manifest_version < version
    ]
    there = await runner.run(
        lambda: [one for one in changes if folder.disk.exists(manifest_name(one[0].topic_id, one[1]))]
    )
    await records.point(there)
    if there:
        _log.info("the metadata learns what a repair has made: manifests of %s", count_text(len(there), "topic"))
    await runner.run(lambda: _remove_record(folder.disk))


def _remove_record(disk: Disk) -> None:
    disk.remove(REPAIRED)
    disk.sync_folder("")
