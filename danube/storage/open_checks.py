"""Checks when a storage is opened: topics whose metadata is older than the data folder, cursors beyond their log.

Such topics are refused: metadata is older where an older copy was put back. What it names, if anything, is whole, and
the journal may have nothing that would have to follow on it. Taken for all there is, its offsets would be given out
again, and the newer segments removed with the next flush.
"""

import asyncio
import logging
from collections.abc import Container, Iterable, Sequence

from danube.metadata.records.storage import TopicStorage
from danube.model.errors import DamagedDataError, DanubeError
from danube.model.subscription import Cursor
from danube.storage.damage import next_step
from danube.storage.flush.manifest_lookup import FoundHistories, load_manifest, newest_whole
from danube.storage.journal import Journal
from danube.storage.journal.round import TopicState
from danube.storage.quarantine import TopicNames, called
from danube.storage.segment.manifest import SEGMENTS, Manifest, manifest_name
from danube.storage.tiers.tier import SegmentTier

_log = logging.getLogger(__name__)


def find_newer(tier: SegmentTier, found: FoundHistories, known_topics: Container[int]) -> list[Manifest]:
    """The newest whole manifest of each known topic of which metadata names an older one or none. It blocks.

    Where the disk does not tell, none: that says nothing of the metadata.
    """
    named = {history.record.topic_id: history.record for history in found.histories}
    try:
        stored = [int(name) for name in tier.list(SEGMENTS) if name.isdecimal()]
    except OSError as error:
        _log.warning("manifests that the metadata does not name could not be looked for: %s", error)
        return []
    records = (named.get(one, TopicStorage(one)) for one in stored if one in known_topics)
    return [manifest for record in records if (manifest := _newer(tier, record)) is not None]


def _newer(tier: SegmentTier, record: TopicStorage) -> Manifest | None:
    try:
        manifest_version = newest_whole(tier, record)
        return load_manifest(tier, record.topic_id, manifest_version) if manifest_version is not None else None
    except (OSError, DanubeError) as error:
        _log.warning("newer manifests of topic id %d could not be looked for: %s", record.topic_id, error)
        return None


def refuse_outdated(found: FoundHistories, newer: Sequence[Manifest], journal: Journal) -> None:
    """Refuse the topics of which one of these manifests has more than journal and history have without it.

    Manifests of flushes that died have nothing that is not in the journal.
    """
    for manifest in newer:
        topic_id = manifest.topic_id
        if topic_id not in found.refused and _end_of(journal, topic_id) < manifest.end_offset:
            found.refused[topic_id] = DamagedDataError(
                f"{manifest_name(topic_id, manifest.version)} has messages that are nowhere else, and the metadata,"
                f" which does not name it, is older. {next_step(None, 'metadata')}"
            )
    found.histories = [one for one in found.histories if one.record.topic_id not in found.refused]


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


def _end_of(journal: Journal, topic_id: int) -> int:
    topic = journal.state(topic_id)
    return topic.durable_end if topic is not None else 0


def _save(journal: Journal, topic: TopicState, subscription_id: int) -> "asyncio.Future[DanubeError | None]":
    saved: asyncio.Future[DanubeError | None] = asyncio.get_running_loop().create_future()
    start_offset = topic.index.start_offset if topic.index is not None else 0
    cursor = (topic.cursors or {}).get(subscription_id) or Cursor(start_offset)
    journal.commit.save_cursor(topic, subscription_id, cursor, saved.set_result)
    return saved
