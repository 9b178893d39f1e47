"""A data folder under metadata that was restored since the folder was used last: what the backup did not know of it.

A broker takes topics that metadata does not know for deleted, and lets go of their messages. After a restore of an old
backup that would be wrong: so it looks once, before it opens its storage, and begins only if nothing would be lost, or
if a person has accepted that. Each step can be done again: who died in the middle begins anew.
"""

import logging
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from danube.data_folder.data_folder import DataFolder, Identity
from danube.data_folder.metadata_view import MetadataView, read_metadata_view
from danube.data_folder.newer_than_metadata import NewerThanMetadata, find_newer_than_metadata
from danube.metadata.backup.raft import read_raft
from danube.metadata.high_water import Rollback
from danube.metadata.raft.folder.folder import FOLDER as RAFT
from danube.metadata.records import keys
from danube.metadata.records.record_format import decode_tombstone, decode_topic, decode_topic_storage
from danube.metadata.records.restore_mark import NEVER_RESTORED, RestoreMark, read_mark, skip_topic_ids
from danube.metadata.records.storage import StorageRecords
from danube.metadata.sqlite.store import SqliteStore
from danube.metadata.store import Entry, MetadataStore
from danube.model.errors import DamagedDataError, DanubeError, DataFolderError
from danube.model.limits.metadata import METADATA_ASIDES_READ_MAX, METADATA_TOPICS_NAMED_MAX
from danube.model.text import count_text, time_of
from danube.runtime.blocking import BlockingRunner
from danube.runtime.console import escaped
from danube.runtime.disk import LocalDisk
from danube.runtime.rng import Rng

_log = logging.getLogger(__name__)

ASIDE = "metadata-before-"
"""How the folders begin in which a restore sets aside what was there."""


@dataclass(frozen=True, slots=True)
class LostTopic:
    """A topic whose messages a start would let go of."""

    topic_id: int
    topic: str | None
    """None where no metadata from before the restore is in the folder."""
    messages: int
    """As far as they can be counted."""

    def __str__(self) -> str:
        return escaped(self.topic or f"topic id {self.topic_id}")


def lost_topics(path: Path, ahead: NewerThanMetadata, *, is_open: bool = False) -> list[LostTopic]:
    """The nameless topics of a folder, with their names where the metadata from before is in it, too. Blocks.

    `is_open` says that this process uses the folder's own metadata, which is what does not know them.
    """
    names = _names(path, {one.topic_id for one in ahead.nameless}, is_open=is_open)
    return [LostTopic(one.topic_id, names.get(one.topic_id), one.messages) for one in ahead.nameless]


def loss_text(lost: Sequence[LostTopic]) -> str:
    """What would be lost, in a few words."""
    if not lost:
        return "No topic with messages"
    named = [str(one) for one in lost[:METADATA_TOPICS_NAMED_MAX]] + ["..."] * (len(lost) > METADATA_TOPICS_NAMED_MAX)
    messages = count_text(sum(one.messages for one in lost), "message")
    return f"{count_text(len(lost), 'topic')} with {messages} ({', '.join(named)})"


def served_by(identity: Identity, entries: Iterable[Entry]) -> MetadataView:
    """What metadata says of the topics that a folder's broker will serve. Raises MetadataError.

    Topics without an owner become its own when it gets into a cluster, and not any more once it is in one.
    """
    return known_of(entries, {identity.broker_id} if identity.is_shared else {0, identity.broker_id})


def known_of(entries: Iterable[Entry], owners: Container[int] | None = None) -> MetadataView:
    """What metadata says of the topics of these owners; None for all. Raises MetadataError."""
    known = MetadataView()
    for entry in entries:
        if entry.key.startswith(f"{keys.TOPICS}/"):
            topic = decode_topic(entry)
            if owners is None or topic.owner in owners:
                known.topics[topic.topic_id] = str(topic.name)
        elif entry.key.startswith(f"{keys.STORED_TOPICS}/"):
            record = decode_topic_storage(entry)
            known.records[record.topic_id] = record
        elif entry.key.startswith(f"{keys.DELETED_TOPICS}/") and (owners is None or decode_tombstone(entry) in owners):
            known.deleted.add(keys.parse_deleted_topic(entry.key))
    return known


async def take_in_restore(
    store: MetadataStore,
    folder: DataFolder,
    rng: Rng,
    runner: BlockingRunner,
    rollback: Rollback | None = None,
) -> None:
    """Have a folder go on under metadata that was restored, or has lost its newest changes (`rollback`).

    Metadata is told of manifests that are newer than it knows, and gives out no topic id under which something is
    stored. Raises DataFolderError when messages would be lost and nobody has accepted it, DamagedDataError for a
    rollback that nobody has accepted, MetadataError.
    """
    mark = await read_mark(store)
    is_rollback = rollback is not None and mark.restore_id == folder.identity.restore_id
    if rollback is not None and is_rollback:
        mark = replace(mark, before=mark.restore_id, last_topic_id=rollback.found.topic_id)
    entries = [*await store.list(keys.TOPICS), *await store.list(keys.STORED_TOPICS)]
    known = served_by(folder.identity, [*entries, *await store.list(keys.DELETED_TOPICS)])
    known_to = mark.known_to(folder.identity.restore_id)
    found = await runner.run(lambda: find_newer_than_metadata(folder.disk, known, known_to))
    if found.nameless or is_rollback:
        is_open = isinstance(store, SqliteStore)
        lost = loss_text(await runner.run(lambda: lost_topics(folder.path, found, is_open=is_open)))
        if folder.identity.accepted_restore_id != mark.restore_id:
            if is_rollback:
                raise DamagedDataError(_refusal_of(folder.metadata_path, rollback, lost))
            raise DataFolderError(_refusal(folder.path, mark, lost))
        _log.warning("as was accepted, what the metadata does not know is let go: %s", lost)
    if found.newer:
        _log.info("the metadata is older than this folder, and learns of newer manifests: %d", len(found.newer))
        await StorageRecords(store, rng).point(found.newer)
    given_out = rollback.marked.topic_id if rollback is not None and is_rollback else 0
    await skip_topic_ids(store, rng, max(found.last_topic_id, given_out))


def _refusal_of(path: Path, rollback: Rollback | None, lost: str) -> str:
    return (
        f"{path} is older than its data folder: {rollback}. {lost} would be lost, and what else has changed since."
        " Restore it from a backup, or see what is lost: `danube-broker storage verify --data-dir ...` shows all"
        " damage, and `danube-broker storage repair --data-dir ...` gives it up with --accept-loss"
    )


def _refusal(path: Path, mark: RestoreMark, lost: str) -> str:
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


def _names(path: Path, wanted: set[int], *, is_open: bool) -> dict[int, str]:
    """What topics are called, by the metadata from before: a restore sets it aside, a move to a cluster leaves it."""
    found: dict[int, str] = {}
    for topics in _topics_before(path, is_open=is_open) if wanted else ():
        for topic_id in wanted & topics.keys() - found.keys():
            found[topic_id] = topics[topic_id]
    return found


def _topics_before(path: Path, *, is_open: bool) -> Iterator[Mapping[int, str]]:
    """Names by topic id of each metadata from before, the newest first."""
    if not is_open:  # whoever closes the file a second time drops the lock that keeps others out of it
        with suppress(DanubeError):
            yield read_metadata_view(path).topics
    for aside in sorted(path.glob(f"{ASIDE}*"), reverse=True)[:METADATA_ASIDES_READ_MAX]:
        with suppress(DanubeError):
            yield read_metadata_view(aside).topics
        if (aside / RAFT).exists():
            with suppress(DanubeError, OSError):
                yield known_of(read_raft(LocalDisk(aside)).snapshot.entries).topics
