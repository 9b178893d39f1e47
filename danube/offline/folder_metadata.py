"""What the metadata of a data folder says, wherever that is kept. Changes nothing, and writes nothing anywhere.

A broker of a cluster has its metadata in `raft/`, which is what this one member knew, or in a service that the broker's
settings name. That it is not in the folder is no damage; without it topics have no names, and the newest manifest of
each counts. A repair makes newer manifests than the cluster knows until the broker starts: those count as well.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from danube.broker.config.metadata_store import MetaStoreType
from danube.data_folder.data_folder import IDENTITY, METADATA, Identity
from danube.data_folder.metadata_view import MetadataView, read_metadata_view, view_of
from danube.data_folder.older_metadata import OlderMetadata, find_older_metadata, find_rollback
from danube.metadata.backup.backup import cluster_id_of
from danube.metadata.backup.raft import read_raft
from danube.metadata.high_water import NAME as MARK
from danube.metadata.high_water import HighWaterMark
from danube.metadata.raft.folder.folder import FOLDER as RAFT
from danube.metadata.records.storage import TopicStorage
from danube.metadata.store import Entry
from danube.model.errors import DanubeError, DataFolderError
from danube.offline.metadata.sources import Wanted, kind_of, opened
from danube.runtime.disk import LocalDisk, is_environment
from danube.storage.flush.manifest_lookup import newest_whole
from danube.storage.tiers.directory import DirectoryTier

_SERVICES = {MetaStoreType.ETCD, MetaStoreType.ZOOKEEPER}
_ELSEWHERE = "the metadata"
_NOT_LOOKED_AT = "what topics and subscriptions are called, and which manifests count, was not looked at"
_SAY_WHERE = (
    "give the broker's own settings before the word `storage` (danube-broker --config-file FILE storage ..., or its"
    " variables)"
)
_AS_KNOWN = (
    "topics and their manifests are as this member knew them; what the other brokers have decided since is not in it"
)


@dataclass(frozen=True, slots=True)
class FolderMetadata:
    """What is known of a data folder."""

    known: MetadataView
    is_shared: bool
    """Whether a cluster keeps it: then nothing is written to it while the broker does not run."""
    newer: dict[int, int] = field(default_factory=dict)
    """By topic: the newest manifest, where the metadata does not name it yet."""
    rolled_back: OlderMetadata | None = None
    """Set where it has lost its newest changes."""
    named: dict[int, TopicStorage] = field(default_factory=dict)
    """What the metadata says of these topics instead."""


def metadata_of(wanted: Wanted, identity: Identity | None, disk: LocalDisk) -> FolderMetadata:
    """What metadata says of the folder's own topics. Raises OSError, StorageUnavailableError, DataFolderError."""
    path = wanted.data_dir
    if identity is None and (path / RAFT).exists() and not (path / METADATA).exists():
        trouble = f"{IDENTITY} cannot be read, and nobody can say which of the cluster's topics are in this folder"
        return FolderMetadata(MetadataView(place=IDENTITY, trouble=trouble), is_shared=True)
    if identity is None or not identity.is_shared:
        known = read_metadata_view(path)
        rolled_back = None
        if HighWaterMark(path).is_unreadable:
            known.note = f"{MARK} is not what was written: the next start makes it anew, and cannot tell lost changes"
        if identity is not None and known.trouble is None:
            rollback = find_rollback(path, identity, known.reached, known.mark)
            if rollback is not None and known.mark.restore_id == identity.restore_id:
                rolled_back = find_older_metadata(path, identity, known, known.mark, rollback)
        for record, version in () if rolled_back is None else rolled_back.beyond.newer:  # they count at the next start
            known.records[record.topic_id] = replace(record, manifest_version=version)
        return FolderMetadata(known, is_shared=False, rolled_back=rolled_back)
    known = _of_cluster(wanted, identity, disk)
    newer = {} if known.is_blind else _newest(disk, known)
    named = {topic_id: known.record(topic_id) for topic_id in newer}
    for topic_id, manifest_version in newer.items():
        known.records[topic_id] = replace(known.record(topic_id), manifest_version=manifest_version)
    return FolderMetadata(known, is_shared=True, newer=newer, named=named)


def _of_cluster(wanted: Wanted, identity: Identity, disk: LocalDisk) -> MetadataView:
    kind = kind_of(wanted)
    if kind in _SERVICES:
        return _of_service(wanted, identity)
    if kind is MetaStoreType.RAFT:
        return _of_raft(identity, disk)
    return MetadataView(
        place=_ELSEWHERE, unread=f"it is not kept in this folder: {_NOT_LOOKED_AT}. To have it read, {_SAY_WHERE}"
    )


def _of_service(wanted: Wanted, identity: Identity) -> MetadataView:
    try:
        with opened(wanted) as place:
            return _of_entries(place.read().snapshot.entries, identity, place.name)
    except DanubeError as error:
        return MetadataView(place=_ELSEWHERE, unread=f"{_NOT_LOOKED_AT}: {error}")


def _of_raft(identity: Identity, disk: LocalDisk) -> MetadataView:
    try:
        known = _of_entries(read_raft(disk).snapshot.entries, identity, f"{RAFT}/")
    except DataFolderError as error:  # of a later version, or of no cluster yet: neither is damage
        return MetadataView(place=f"{RAFT}/", unread=f"{_NOT_LOOKED_AT}: {error}")
    except (DanubeError, OSError) as error:
        if isinstance(error, OSError) and is_environment(error):
            raise
        return MetadataView(place=f"{RAFT}/", trouble=f"{RAFT}/ could not be read: {str(error).partition('. ')[0]}")
    known.note = None if known.is_blind else _AS_KNOWN
    return known


def _of_entries(entries: Sequence[Entry], identity: Identity, place: str) -> MetadataView:
    own, other = identity.cluster_id, cluster_id_of(entries)
    if own and own != other:
        unread = f"{_NOT_LOOKED_AT}: it is of another cluster ({other or 'none yet'}), and this folder is of {own}"
        return MetadataView(place=place, unread=f"{unread}; {_SAY_WHERE}")
    known = view_of(entries, {identity.broker_id})
    known.place = place
    return known


def _newest(disk: LocalDisk, known: MetadataView) -> dict[int, int]:
    tier = DirectoryTier(disk)
    try:
        found = {topic_id: newest_whole(tier, known.record(topic_id)) for topic_id in known.topics}
    finally:
        tier.close()
    return {topic_id: version for topic_id, version in found.items() if version is not None}
