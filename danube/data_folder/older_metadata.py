"""Metadata that is older than its data folder: what the folder has that it does not know, and whether a broker starts.

It was restored from a backup since the folder was used last. A topic made since is in the folder without a name. A
broker takes topics that metadata does not know for deleted and removes their messages, so it starts only if nothing
would be lost, or if a person has accepted that. A topic flushed since has a newer manifest than metadata names, and
what that one covers is not in the journal any more: metadata has to learn of it. Each step can be done again: one that
was cut off begins anew.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from danube.data_folder.data_folder import IDENTITY, DataFolder, Identity
from danube.data_folder.history_scan import topic_ids
from danube.data_folder.journal_scan import JournalScan
from danube.data_folder.metadata_view import MetadataView, view_of
from danube.metadata.backup.raft import read_raft
from danube.metadata.records import keys
from danube.metadata.records.record_format import TopicStorage
from danube.metadata.records.restore_mark import NEVER_RESTORED, RestoreMark, read_mark, skip_topic_ids
from danube.metadata.records.storage import StorageRecords
from danube.metadata.store import Entry, MetadataStore
from danube.model.errors import DamagedDataError, DanubeError, DataFolderError
from danube.model.limits.metadata import METADATA_ASIDES_READ_MAX, METADATA_TOPICS_NAMED_MAX
from danube.model.text import count_text, time_of
from danube.runtime.blocking import BlockingRunner
from danube.runtime.console import escaped
from danube.runtime.disk import Disk, LocalDisk
from danube.runtime.rng import Rng
from danube.storage.batches.envelope import Envelope, Kind
from danube.storage.flush.manifest_lookup import (
    load_manifest,
    manifest_versions_beyond,
    manifest_versions_there,
    newest_whole,
)
from danube.storage.journal.walker import Damage, Event, SoundRound
from danube.storage.tiers.directory import DirectoryTier
from danube.storage.tiers.tier import SegmentTier

_log = logging.getLogger(__name__)

ASIDE = "metadata-before-"
"""Prefix of the folders in which a restore sets aside the metadata of before."""


@dataclass(frozen=True, slots=True)
class LostTopic:
    """A topic whose messages a start would remove."""

    topic_id: int
    topic: str | None
    """None where no metadata from before is in the folder."""
    messages: int
    """As far as they can be counted; 0 when nobody can say."""

    def __str__(self) -> str:
        return escaped(self.topic or f"topic id {self.topic_id}")

    @property
    def counted(self) -> str:
        """Its messages in words."""
        return count_text(self.messages, "message")


@dataclass(slots=True)
class NewerThanMetadata:
    """Topics and manifests of a data folder that its metadata does not know."""

    lost: list[LostTopic] = field(default_factory=list)
    newer: list[tuple[TopicStorage, int]] = field(default_factory=list)
    """Records of known topics, and the newer manifest version that each is to be pointed to."""
    last_topic_id: int = 0
    """The highest under which anything is stored."""


@dataclass(frozen=True, slots=True)
class OlderMetadata:
    """The metadata of a data folder, restored and older than the folder."""

    mark: RestoreMark
    beyond: NewerThanMetadata
    is_accepted: bool
    """True if a person has said that the broker is to start all the same."""

    @property
    def lost(self) -> Sequence[LostTopic]:
        """The topics that it does not know."""
        return self.beyond.lost


def find_older_metadata(path: Path, identity: Identity, known: MetadataView, mark: RestoreMark) -> OlderMetadata | None:
    """The excess of a folder over this metadata; None when the folder was used with it already.

    `known` holds the topics that the folder's broker serves. Blocks. Raises DanubeError, OSError.
    """
    if mark.restore_id == identity.restore_id:
        return None
    beyond = find_newer_than_metadata(LocalDisk(path), known, mark.known_to(identity.restore_id))
    beyond.lost = named(path, beyond.lost)
    return OlderMetadata(mark, beyond, identity.accepted_restore_id == mark.restore_id)


def served_by(identity: Identity, entries: Iterable[Entry]) -> MetadataView:
    """The view of the topics that a folder's broker will serve. Raises MetadataError."""
    return view_of(entries, {identity.broker_id})


def accept(path: Path, identity: Identity, mark: RestoreMark) -> None:
    """Have the broker of a folder start on this metadata, whatever is lost. Raises OSError."""
    accepted = replace(identity, accepted_restore_id=mark.restore_id)
    LocalDisk(path).replace_file(IDENTITY, accepted.encode())


async def adopt_older_metadata(store: MetadataStore, folder: DataFolder, rng: Rng, runner: BlockingRunner) -> None:
    """Start on metadata that was restored.

    Metadata learns of manifests that are newer than it knows, and gives out no topic id under which something is
    stored. Raises DataFolderError when messages would be lost and nobody has accepted it, MetadataError.
    """
    mark, identity = await read_mark(store), folder.identity
    families = (keys.TOPICS, keys.STORED_TOPICS, keys.DELETED_TOPICS, keys.LOST_LOGS)
    known = served_by(identity, [entry for family in families for entry in await store.list(family)])
    older = await runner.run(lambda: find_older_metadata(folder.path, identity, known, mark))
    if older is None:
        return
    if older.lost:
        lost = loss_text(older.lost)
        if not older.is_accepted:
            raise DataFolderError(_restored(folder.path, mark, lost))
        _log.warning("as was accepted, what the metadata does not know is removed: %s", lost)
    newer = older.beyond.newer
    if newer:
        _log.info("the metadata is older than this folder, and learns of newer manifests: %d", len(newer))
        await StorageRecords(store, rng).point(newer)
    await skip_topic_ids(store, rng, older.beyond.last_topic_id)


def loss_text(lost: Sequence[LostTopic]) -> str:
    """A few words on what would be lost."""
    if not lost:
        return "No topic with messages"
    names = [str(one) for one in lost[:METADATA_TOPICS_NAMED_MAX]] + ["..."] * (len(lost) > METADATA_TOPICS_NAMED_MAX)
    messages = count_text(sum(one.messages for one in lost), "message")
    return f"{count_text(len(lost), 'topic')} with {messages} ({', '.join(names)})"


def _restored(path: Path, mark: RestoreMark, lost: str) -> str:
    past = (
        "from before it was restored"
        if mark == NEVER_RESTORED
        else f"restored from a backup of {time_of(mark.taken_ms)}"
    )
    return (
        f"{path} is newer than its metadata, which is {past}: {lost} would"
        " be lost. Restore a later backup, or give them up: `danube-broker metadata adopt` with the same settings shows"
        " all of them, and takes --accept-loss"
    )


def find_newer_than_metadata(disk: Disk, known: MetadataView, known_to: int) -> NewerThanMetadata:
    """Read the whole journal and every topic's newest manifest. It blocks.

    What is stored under ids up to `known_to` and is not among the known topics was deleted. Raises OSError,
    StorageUnavailableError, DataFolderError for files of a later version.
    """
    found, journal, tier = NewerThanMetadata(), _journal_extents(disk), DirectoryTier(disk)
    try:
        for topic_id in sorted({*topic_ids(disk, MetadataView()), *journal}):
            if topic_id in journal or manifest_versions_there(tier, topic_id):
                found.last_topic_id = topic_id
            if topic_id in known.topics:
                record = known.record(topic_id)
                if (version := _newer(tier, record)) is not None:
                    found.newer.append((record, version))
            elif topic_id > known_to and not known.was_deleted_here(topic_id):
                messages = _messages(tier, topic_id, journal.get(topic_id, range(0)))
                if messages is not None:
                    found.lost.append(LostTopic(topic_id, None, messages))
    finally:
        tier.close()
    return found


def _journal_extents(disk: Disk) -> dict[int, range]:
    """The offsets of each topic with a record in the journal, those of damaged records too: a repair finds them."""
    extents: dict[int, range] = {}
    for envelope in (one for event in JournalScan(disk).events() for one in _envelopes(event)):
        before = extents.setdefault(envelope.topic_id, range(0))
        if envelope.kind is Kind.DATA:
            start = before.start if before.stop else envelope.base_offset
            extents[envelope.topic_id] = range(start, envelope.base_offset + envelope.count)
    return extents


def _envelopes(event: Event) -> Iterator[Envelope]:
    if isinstance(event, SoundRound):
        yield from (envelope for envelope, *_ in event.entries)
    elif isinstance(event, Damage):
        yield from (envelope for envelope, _, _ in event.kept)
        yield from (envelope for envelope, _ in event.lost)


def _newer(tier: SegmentTier, record: TopicStorage) -> int | None:
    """The newest version that is whole; where none is, the newest: then the damage is told, and nothing is swept."""
    return newest_whole(tier, record) or max(manifest_versions_beyond(tier, record), default=None)


def _messages(tier: SegmentTier, topic_id: int, journal: range) -> int | None:
    """The messages of a topic; 0 when they cannot be counted, None when it has none."""
    newest = max(manifest_versions_there(tier, topic_id), default=0)
    if not newest:
        return journal.stop - journal.start or None
    try:
        manifest = load_manifest(tier, topic_id, newest)
    except DamagedDataError:
        return journal.stop - journal.start
    return max(manifest.end_offset, journal.stop) - manifest.start_offset or None


def named(path: Path, lost: Sequence[LostTopic]) -> list[LostTopic]:
    """The same, with names where the metadata from before is in the folder, too. Blocks.

    A restore sets it aside, a move to a service leaves it.
    """
    wanted, names = {one.topic_id for one in lost}, dict[int, str]()
    for topics in _topics_before(path) if wanted else ():
        names = {topic_id: topics[topic_id] for topic_id in wanted & topics.keys()} | names
    return [replace(one, topic=names.get(one.topic_id)) for one in lost]


def _topics_before(path: Path) -> Iterator[Mapping[int, str]]:
    """Names by topic id of each metadata in the folder, the newest first."""
    asides = sorted(path.glob(f"{ASIDE}*"), reverse=True)[:METADATA_ASIDES_READ_MAX]
    for place in (path, *asides):
        with suppress(DanubeError, OSError):
            yield view_of(read_raft(LocalDisk(place)).snapshot.entries).topics
