"""What a data folder has beyond what its metadata knows, once that was restored from an older backup. It reads only.

A topic that was made after the backup is in the folder without a name. One that was cut since has a newer manifest
than metadata names, and what that one covers is not in the journal any more: metadata has to be told of it. It does not
matter whether it was named before, as a cut that died has left what it covers in the journal, too.
"""

from dataclasses import dataclass, field

from danube.data_folder.history_scan import topic_ids
from danube.data_folder.journal_scan import JournalScan
from danube.data_folder.metadata_view import MetadataView
from danube.metadata.records.record_format import TopicStorage
from danube.model.errors import DamagedDataError
from danube.runtime.disk import Disk
from danube.storage.batches.envelope import Envelope, Kind
from danube.storage.flush.manifest_lookup import (
    load_manifest,
    manifest_versions_beyond,
    manifest_versions_there,
    newest_whole,
)
from danube.storage.journal.walker import Damage, SoundRound
from danube.storage.tiers.directory import DirectoryTier
from danube.storage.tiers.tier import SegmentTier


@dataclass(frozen=True, slots=True)
class Nameless:
    """A topic with messages that metadata does not know."""

    topic_id: int
    messages: int
    """As far as they can be counted; 0 when nobody can say."""


@dataclass(slots=True)
class NewerThanMetadata:
    """What there is."""

    nameless: list[Nameless] = field(default_factory=list)
    newer: list[tuple[TopicStorage, int]] = field(default_factory=list)
    """Records of known topics, and the newer manifest version that each is to be pointed to."""
    last_topic_id: int = 0
    """The highest under which anything is stored."""


@dataclass(slots=True)
class _Extent:
    """Of one topic's messages in the journal."""

    start: int = 0
    end: int = 0

    def take(self, envelope: Envelope) -> None:
        if envelope.kind is Kind.DATA:
            self.start = self.start if self.end else envelope.base_offset
            self.end = envelope.base_offset + envelope.count


def find_newer_than_metadata(disk: Disk, known: MetadataView, known_to: int) -> NewerThanMetadata:
    """Look through the whole journal, and at every topic's newest manifest.

    `known` holds the topics that the folder's broker serves. What is stored under ids up to `known_to` and is not among
    them was deleted. Raises OSError, StorageUnavailableError, DataFolderError for files of a later version.
    """
    found, journal = NewerThanMetadata(), _journal_extents(disk)
    tier = DirectoryTier(disk)
    try:
        for topic_id in sorted({*topic_ids(disk, MetadataView()), *journal}):
            if topic_id in journal or manifest_versions_there(tier, topic_id):
                found.last_topic_id = topic_id
            if topic_id in known.topics:
                record = known.record(topic_id)
                if (manifest_version := _newer(tier, record)) is not None:
                    found.newer.append((record, manifest_version))
            elif topic_id > known_to and topic_id not in known.deleted:
                messages = _messages(tier, topic_id, journal.get(topic_id, _Extent()))
                if messages is not None:
                    found.nameless.append(Nameless(topic_id, messages))
    finally:
        tier.close()
    return found


def _journal_extents(disk: Disk) -> dict[int, _Extent]:
    extents: dict[int, _Extent] = {}
    for seen in JournalScan(disk).events():
        for envelope in _envelopes(seen):
            extents.setdefault(envelope.topic_id, _Extent()).take(envelope)
    return extents


def _envelopes(seen: object) -> list[Envelope]:
    """Also of what is damaged: who mends it finds the messages."""
    if isinstance(seen, SoundRound):
        return [envelope for envelope, *_ in seen.entries]
    if isinstance(seen, Damage):
        return [*(envelope for envelope, *_ in seen.kept), *(envelope for envelope, _ in seen.lost)]
    return []


def _newer(tier: SegmentTier, record: TopicStorage) -> int | None:
    """The newest whole manifest version; else the newest: then the damage is reported, and nothing is swept."""
    return newest_whole(tier, record) or max(manifest_versions_beyond(tier, record), default=None)


def _messages(tier: SegmentTier, topic_id: int, journal: "_Extent") -> int | None:
    """How many a topic has; 0 when that cannot be said, None when it has none."""
    newest = max(manifest_versions_there(tier, topic_id), default=0)
    if not newest:
        return journal.end - journal.start or None
    try:
        manifest = load_manifest(tier, topic_id, newest)
    except DamagedDataError:
        return journal.end - journal.start
    return max(manifest.end_offset, journal.end) - manifest.start_offset or None
