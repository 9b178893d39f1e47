"""Topics whose metadata is older than the data folder, as where an older copy was put back: they are refused.

What such metadata names, if anything, is whole, and the journal may have nothing that would have to follow on it. Taken
for all there is, its offsets would be given out again, and the newer segments removed with the next flush.
"""

import logging
from collections.abc import Container, Sequence

from danube.metadata.records.storage import TopicStorage
from danube.model.errors import DamagedDataError, DanubeError
from danube.storage.damage import next_step
from danube.storage.flush.manifest_lookup import FoundHistories, load_manifest, newest_whole
from danube.storage.journal import Journal
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
        if topic_id not in found.refused and journal.topic(topic_id, epoch=0).durable_end < manifest.end_offset:
            found.refused[topic_id] = DamagedDataError(
                f"{manifest_name(topic_id, manifest.version)} has messages that are nowhere else, and the metadata,"
                f" which does not name it, is older. {next_step(None, 'metadata')}"
            )
    found.histories = [one for one in found.histories if one.record.topic_id not in found.refused]
