"""Loads the manifests that metadata names, and finds newer ones. All of it blocks."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from danube.metadata.records.storage import TopicStorage
from danube.model.errors import DamagedDataError, DanubeError, StorageUnavailableError
from danube.model.limits.broker import MANIFEST_EXPECTED_BYTES, MANIFESTS_AHEAD
from danube.storage.damage import fault_of, next_step
from danube.storage.flush.orphans import highest_manifest_version
from danube.storage.journal.index import TopicBase
from danube.storage.log.histories import TopicHistory
from danube.storage.segment.manifest import Manifest, folder_of, manifest_name, segment_name
from danube.storage.segment.manifest_format import decode_manifest, refuse_other_manifest
from danube.storage.tiers.tier import SegmentTier

_MANIFEST = ".manifest"


@dataclass(slots=True)
class FoundHistories:
    """Histories of the topics that metadata knows."""

    histories: list[TopicHistory] = field(default_factory=list)
    refused: dict[int, DanubeError] = field(default_factory=dict)
    """By topic: why its history cannot be read."""


def find_histories(tier: SegmentTier, records: Sequence[TopicStorage]) -> FoundHistories:
    """The history of each topic that has one. The next manifests are fetched while one is waited for."""
    found = FoundHistories()
    for number, record in enumerate(records):
        if number % MANIFESTS_AHEAD == 0:
            for one in records[number : number + MANIFESTS_AHEAD]:
                if one.manifest_version:
                    tier.expect(manifest_name(one.topic_id, one.manifest_version), 0, MANIFEST_EXPECTED_BYTES)
        try:
            found.histories.append(load_history(tier, record))
        except DanubeError as error:
            found.refused[record.topic_id] = error
    return found


def load_history(tier: SegmentTier, record: TopicStorage) -> TopicHistory:
    """A topic's history as its record names it.

    Raises DamagedDataError for a manifest that is missing or not what was written, DataFolderError for one of a later
    version, StorageUnavailableError for one that cannot be read.
    """
    if not record.manifest_version:
        return TopicHistory(record, Manifest(topic_id=record.topic_id, version=0))
    name = manifest_name(record.topic_id, record.manifest_version)
    try:
        encoded = tier.read_whole(name)
    except FileNotFoundError as error:
        raise DamagedDataError(f"{name} is damaged: the file is not there. {next_step(None)}") from error
    except OSError as error:
        raise StorageUnavailableError(f"a manifest could not be read: {fault_of(error, name)}") from error
    manifest = decode_manifest(encoded)
    if manifest is None:
        refuse_other_manifest(name, encoded)
        raise _damaged(name, "it is not what was written")
    if (manifest.topic_id, manifest.version) != (record.topic_id, record.manifest_version):
        raise _damaged(name, f"it is manifest version {manifest.version} of topic {manifest.topic_id}")
    return TopicHistory(record, manifest)


def load_manifest(tier: SegmentTier, topic_id: int, manifest_version: int) -> Manifest:
    """One manifest version of a topic, named or not. Raises as `load_history`."""
    return load_history(tier, TopicStorage(topic_id, manifest_version=manifest_version)).manifest


def manifest_versions_there(tier: SegmentTier, topic_id: int) -> list[int]:
    """Versions of a topic's manifests, the newest first. Raises OSError."""
    names = tier.list(folder_of(topic_id))
    found = (highest_manifest_version([name]) for name in names if name.endswith(_MANIFEST))
    return sorted(filter(None, found), reverse=True)


def manifest_versions_beyond(tier: SegmentTier, record: TopicStorage) -> list[int]:
    """Versions newer than the record's, the newest first. Raises OSError."""
    return [
        manifest_version
        for manifest_version in manifest_versions_there(tier, record.topic_id)
        if manifest_version > record.manifest_version
    ]


def newest_whole(tier: SegmentTier, record: TopicStorage) -> int | None:
    """The newest version beyond the record's whose manifest and segments are all there.

    Raises OSError, StorageUnavailableError, DataFolderError for files of a later version.
    """
    return next((one for one in manifest_versions_beyond(tier, record) if is_whole(tier, record.topic_id, one)), None)


def unnamed_history(tier: SegmentTier, record: TopicStorage, end_offset: int) -> Manifest | None:
    """The newest whole manifest, if it goes beyond `end_offset`, where journal and named manifest end.

    The journal still has what a flush that died wrote. So this one was named once, and the record is of older metadata.
    Raises as `newest_whole`.
    """
    manifest_version = newest_whole(tier, record)
    manifest = load_manifest(tier, record.topic_id, manifest_version) if manifest_version is not None else None
    return manifest if manifest is not None and manifest.end_offset > end_offset else None


def base_of(history: TopicHistory) -> TopicBase:
    """The base of the topic in a journal."""
    manifest = history.manifest
    return TopicBase(
        topic_id=manifest.topic_id,
        end_offset=manifest.end_offset,
        last_append_time_ms=manifest.last_append_time_ms,
        cursors=manifest.cursors,
        producer_states=manifest.producer_states,
        covered=manifest.journals,
    )


def is_whole(tier: SegmentTier, topic_id: int, manifest_version: int) -> bool:
    """True if the manifest can be read and all segments that it names are there."""
    try:
        segments = load_manifest(tier, topic_id, manifest_version).segments
        return all(tier.size(segment_name(topic_id, one)) == one.file_bytes for one in segments)
    except (DamagedDataError, FileNotFoundError):
        return False


def _damaged(name: str, what: str) -> DamagedDataError:
    return DamagedDataError(f"{name} is damaged: {what}. {next_step(name)}")
