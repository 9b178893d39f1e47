"""Metadata of a data folder, wherever it is kept. It is read only, and nothing is written anywhere.

It is in `raft/`, which is all of a standalone broker's and what one member of a cluster knew, or in a service that the
broker's settings name. That it is not in the folder is no damage; without it topics have no names, and the newest
manifest of each counts. A repair makes newer manifests than it names until the broker starts: those count as well.
"""

import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from danube.broker.config.metadata_store import MetaStoreType
from danube.data_folder.data_folder import IDENTITY, Identity
from danube.data_folder.metadata_view import MetadataView, view_of
from danube.metadata.backup.backup import cluster_id_of
from danube.metadata.backup.raft import read_raft
from danube.metadata.raft.folder.format import FOLDER as RAFT
from danube.metadata.records.storage import TopicStorage
from danube.metadata.store import Entry
from danube.model.errors import DanubeError, DataFolderError, NewerDataFolderError, NewerRecordError
from danube.offline.metadata.sources import Wanted, kind_of, opened
from danube.runtime.disk import LocalDisk, is_environment
from danube.storage.flush.manifest_lookup import newest_whole
from danube.storage.tiers.directory import DirectoryTier

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
    """Metadata of a data folder, as far as it is known."""

    view: MetadataView
    newer: dict[int, int] = field(default_factory=dict)
    """By topic: the newest manifest, where the metadata does not name it yet."""
    named: dict[int, TopicStorage] = field(default_factory=dict)
    """What the metadata says of these topics instead."""


def metadata_of(wanted: Wanted, identity: Identity | None, disk: LocalDisk) -> FolderMetadata:
    """The metadata of the folder's own topics. Raises OSError, StorageUnavailableError, DataFolderError."""
    if identity is None:
        unread = f"{IDENTITY} cannot be read, and nobody can say which topics are in this folder"
        return FolderMetadata(MetadataView(place=_ELSEWHERE, unread=unread))
    view = _view_of(wanted, identity, disk)
    newer = {} if view.is_blind else _newest(disk, view)
    named = {topic_id: view.record(topic_id) for topic_id in newer}
    _count_newer(view, ((named[topic_id], version) for topic_id, version in newer.items()))
    return FolderMetadata(view, newer=newer, named=named)


def _count_newer(view: MetadataView, newer: Iterable[tuple[TopicStorage, int]]) -> None:
    """Have these manifests count, as they do at the next start."""
    for record, version in newer:
        view.records[record.topic_id] = replace(record, manifest_version=version)


def _view_of(wanted: Wanted, identity: Identity, disk: LocalDisk) -> MetadataView:
    kind = kind_of(wanted)
    if kind is MetaStoreType.RAFT and (disk.exists(RAFT) or not identity.is_shared):
        return _of_raft(identity, disk)
    if not kind.is_service:
        unread = f"it is not kept in this folder: {_NOT_LOOKED_AT}. To have it read, {_SAY_WHERE}"
        return MetadataView(place=_ELSEWHERE, unread=unread)
    try:
        with opened(wanted) as place:
            return _of_entries(place.read().snapshot.entries, identity, place.name)
    except (NewerDataFolderError, NewerRecordError):
        raise
    except DanubeError as error:
        return MetadataView(place=_ELSEWHERE, unread=f"{_NOT_LOOKED_AT}: {error}")


def _of_raft(identity: Identity, disk: LocalDisk) -> MetadataView:
    try:
        view = _of_entries(read_raft(disk).snapshot.entries, identity, f"{RAFT}/")
    except (NewerDataFolderError, NewerRecordError):
        raise
    except DataFolderError as error:  # of no cluster yet: that is no damage
        return MetadataView(place=f"{RAFT}/", unread=f"{_NOT_LOOKED_AT}: {error}")
    except (DanubeError, OSError) as error:
        if isinstance(error, OSError) and is_environment(error):
            raise
        return MetadataView(place=f"{RAFT}/", trouble=f"{RAFT}/ could not be read: {str(error).partition('. ')[0]}")
    view.note = None if view.is_blind or not identity.is_shared else _AS_KNOWN
    return view


def _of_entries(entries: Sequence[Entry], identity: Identity, place: str) -> MetadataView:
    own, other = identity.cluster_id, cluster_id_of(entries)
    if own and own != other:
        unread = f"{_NOT_LOOKED_AT}: it is of another cluster ({other or 'none yet'}), and this folder is of {own}"
        return MetadataView(place=place, unread=f"{unread}; {_SAY_WHERE}")
    view = view_of(entries, {identity.broker_id})
    view.place = place
    return view


def _newest(disk: LocalDisk, view: MetadataView) -> dict[int, int]:
    with contextlib.closing(DirectoryTier(disk)) as tier:
        found = {topic_id: newest_whole(tier, view.record(topic_id)) for topic_id in view.topics}
    return {topic_id: version for topic_id, version in found.items() if version is not None}
