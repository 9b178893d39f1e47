"""Topics that a start finds in metadata, in the folder's segments and in its journal. Metadata may be an older copy.

Files go only for a tombstone:

1. A topic's files and its records in the journal are removed only while metadata has a tombstone that names its id. It
   is written by the transaction that deletes the topic, or that has another broker own its log on a disk of its own.
   What metadata does not know at all is kept.
2. A tombstone goes last: its broker has removed the files, and no file of its journal has a record of the topic. Ids
   are never used again, so nothing comes under this one any more. There are at most as many tombstones as topics were
   deleted since the oldest file of each journal began.
3. The counter of topic ids is above every id that the folder or the journal holds, before a topic can be made.
4. The newest whole manifest counts where it ends beyond what metadata names, or covers more of a journal, or what
   metadata names is not whole any more. Metadata learns of it. A manifest that retention wrote, and that nobody named,
   does neither: it counts for nothing.
5. A topic that metadata does not name as this broker's is flushed out of the journal like all others, into a manifest
   that only the folder knows. Nothing of it is merged, trimmed or removed.
"""

import asyncio
import logging
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from danube.metadata.records.storage import StorageRecords, TopicStorage
from danube.model.errors import DamagedDataError, DanubeError, StorageChangedError, StorageUnavailableError
from danube.model.subscription import Cursor
from danube.storage.damage import fault_of
from danube.storage.flush.manifest_lookup import (
    FoundHistories,
    find_histories,
    is_whole,
    load_manifest,
    newest_whole,
)
from danube.storage.journal import Journal
from danube.storage.journal.round import TopicState
from danube.storage.log.histories import TopicHistory
from danube.storage.quarantine import TopicNames, called
from danube.storage.segment.manifest import SEGMENTS, Manifest, folder_of, manifest_name
from danube.storage.tiers.tier import SegmentTier

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class FoundTopics(FoundHistories):
    """Topics with files in a folder, or with a record in metadata."""

    unnamed: set[int] = field(default_factory=set)
    """Topics with files that are not this broker's as metadata has it."""
    newer: list[tuple[TopicStorage, int]] = field(default_factory=list)
    """Records of this broker's topics, and the newer manifest version that counts."""
    last_topic_id: int = 0
    """The highest with files."""


COPY = "copy"
"""File in the folder of a topic whose files are a copy on their way: they are no log of this broker's."""


def is_copy(tier: SegmentTier, topic_id: int) -> bool:
    """True if the files of a topic are a copy on their way. It blocks."""
    return COPY in tier.list(folder_of(topic_id))


def find_topics(
    tier: SegmentTier, own: Sequence[TopicStorage], known: Container[int] | None, deleted: Container[int]
) -> FoundTopics:
    """The topics of a folder; `own` are the records of `known` ones, `deleted` those with a tombstone. It blocks.

    Raises StorageUnavailableError when the folder cannot be listed: then no topic may be made.
    """
    try:
        stored = {int(name) for name in tier.list(SEGMENTS) if name.isdecimal()}
    except OSError as error:
        raise StorageUnavailableError(f"the segments cannot be listed: {fault_of(error, SEGMENTS)}") from error
    pointed = find_histories(tier, [one for one in own if one.topic_id not in deleted])
    histories = {one.record.topic_id: one for one in pointed.histories}
    found = FoundTopics(refused=dict(pointed.refused), last_topic_id=max(stored, default=0))
    records = {one.topic_id: one for one in own}
    for topic_id in sorted(one for one in stored if one not in deleted):
        is_known = topic_id in records or known is None or topic_id in known
        if not is_known and is_copy(tier, topic_id):
            continue
        record = records.get(topic_id) or TopicStorage(topic_id)
        newer = _newer(tier, record, histories.get(topic_id), found.refused)
        if newer is not None:
            _make_durable(tier, topic_id, newer.version)
            found.refused.pop(topic_id, None)
            histories[topic_id] = TopicHistory(replace(record, manifest_version=newer.version), newer)
        if not is_known:
            found.unnamed.add(topic_id)
        elif newer is not None:
            found.newer.append((record, newer.version))
    found.histories = list(histories.values())
    return found


def _newer(
    tier: SegmentTier, record: TopicStorage, named: TopicHistory | None, refused: dict[int, DanubeError]
) -> Manifest | None:
    """The manifest that counts instead of the one that metadata names; None where that one counts (invariant 4)."""
    topic_id = record.topic_id
    try:
        version = newest_whole(tier, record)
        if version is None:
            return None
        manifest = load_manifest(tier, topic_id, version)
        if named is None:
            return manifest if isinstance(refused.get(topic_id, DamagedDataError("")), DamagedDataError) else None
        if is_ahead(manifest, named.manifest):
            return manifest
        is_named_whole = not record.manifest_version or is_whole(tier, topic_id, record.manifest_version)
    except (OSError, DanubeError) as error:
        _log.warning("newer manifests of topic id %d could not be looked for: %s", topic_id, error)
        return None
    return None if is_named_whole else manifest


def _make_durable(tier: SegmentTier, topic_id: int, version: int) -> None:
    """A flush that died may not have come to that, and what is older goes once this one counts."""
    name = manifest_name(topic_id, version)
    try:
        tier.put(name, [tier.read_whole(name)])
    except OSError as error:
        raise StorageUnavailableError(f"a manifest cannot be synced: {fault_of(error, name)}") from error


def is_ahead(manifest: Manifest, before: Manifest) -> bool:
    """True if the first one has messages, or a part of a journal, that the other one has not."""
    covers_more = any(position > before.journals.get(each, 0) for each, position in manifest.journals.items())
    return manifest.end_offset > before.end_offset or covers_more


def refuse_detached(found: FoundTopics, detached: Mapping[int, int]) -> None:
    """Refuse topics whose records in the journal do not follow on what is known of them; nothing of them is removed."""
    for topic_id, offset in detached.items():
        found.refused[topic_id] = DamagedDataError(
            f"the journal goes on at offset {offset} of topic id {topic_id}, and nothing here holds what is before it"
        )
    found.histories = [one for one in found.histories if one.record.topic_id not in detached]


async def learn(records: StorageRecords, found: FoundTopics, journal: Journal) -> None:
    """Have metadata name the manifests that count, and give out no id that is used here. Raises MetadataError."""
    for record, version in found.newer:
        _log.warning("the metadata is older than %s, and names it from now on", manifest_name(record.topic_id, version))
        try:
            (named,) = await records.point([(record, version)])
        except StorageChangedError as error:
            found.refused[record.topic_id] = error
        else:
            found.histories = [
                TopicHistory(named, one.manifest) if one.record.topic_id == record.topic_id else one
                for one in found.histories
            ]
    last = max(found.last_topic_id, max(journal.topic_ids(), default=0))
    if last:
        await records.raise_counter(last)


async def keep_cursors_within(journal: Journal, manifests: Iterable[Manifest], names: TopicNames) -> None:
    """Write the cursors that were beyond the end of their log; returns when it is done.

    A manifest holds cursors, while the log's newest batches are in the journal. With a durability other than fsync a
    power cut may take those batches and leave the manifest. A cursor beyond the end would skip messages that are yet to
    come. The journal has moved it back in memory when it was opened; it is written before anything is appended. A
    failed write is logged, and tried again.
    """
    waiting: list[asyncio.Future[DanubeError | None]] = []
    for manifest in manifests:
        topic = journal.state(manifest.topic_id)
        if topic is None:
            continue
        beyond = [each for each, cursor in manifest.cursors.items() if cursor.end > topic.durable_end]
        if beyond:
            waiting += [_save(journal, topic, subscription_id) for subscription_id in beyond]
            _log.warning(
                "%s ends at offset %d: %d subscriptions stood beyond it and were brought back",
                called(topic.topic_id, names),
                topic.durable_end,
                len(beyond),
            )
    errors = [error for saved in waiting if (error := await saved) is not None]
    if errors:
        _log.warning("%d subscriptions that were brought back could not be saved: %s", len(errors), errors[0])


def _save(journal: Journal, topic: TopicState, subscription_id: int) -> "asyncio.Future[DanubeError | None]":
    saved: asyncio.Future[DanubeError | None] = asyncio.get_running_loop().create_future()
    start_offset = topic.index.start_offset if topic.index is not None else 0
    cursor = (topic.cursors or {}).get(subscription_id) or Cursor(start_offset)
    journal.commit.save_cursor(topic, subscription_id, cursor, saved.set_result)
    return saved
