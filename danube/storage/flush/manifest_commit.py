"""A generation becomes the truth: metadata names it, memory follows, then the files that nobody needs any more go.

In this order: what metadata names is on the disk whole, and what readers have in memory is never gone for good. A crash
between any two steps leaves files that are found and removed later, and nothing else.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

from danube.metadata.records.storage import StorageRecords, TopicStorage
from danube.model.errors import StorageChangedError
from danube.runtime.blocking import BlockingRunner
from danube.storage.flush.manifest_builder import ManifestVersion, named
from danube.storage.flush.manifest_lookup import load_history
from danube.storage.flush.manifest_versions import Histories, remaining_tails
from danube.storage.stored_topics import StoredTopics
from danube.storage.tiers.tier import SegmentTier

_log = logging.getLogger(__name__)


class Publisher:
    """Names generations in metadata. Files are deleted where they are read, after the reads that were asked before."""

    def __init__(
        self,
        records: StorageRecords,
        histories: Histories,
        *,
        reading_tier: SegmentTier,
        read_runner: BlockingRunner,
        let_go: Callable[[int, int], None],
    ) -> None:
        self._records = records
        self._histories = histories
        self._tier = reading_tier
        self._runner = read_runner
        self._let_go = let_go

    async def publish(self, made: Sequence[ManifestVersion]) -> frozenset[int]:
        """Name these generations, of one topic each; answers the topics that somebody else changed meanwhile.

        Raises MetadataError when the store fails: then none of them is named, or nobody knows.
        """
        lost: frozenset[int] = frozenset()
        while made:
            try:
                records = await self._records.point([one.change for one in made])
            except StorageChangedError as error:
                if not error.topic_ids - lost:
                    raise
                lost |= error.topic_ids
                made = [one for one in made if one.manifest.topic_id not in lost]
            else:
                self._take_in(made, records)
                await self.remove([name for one in made for name in one.orphans])
                break
        return lost

    async def reload(self, topic_id: int) -> bool:
        """Learn what metadata names now of a topic that was lost; answers whether its owner is still the same.

        Raises MetadataError, and as `load_history`.
        """
        before = self._histories.get(topic_id)
        record = await self._records.settled(before.record if before is not None else TopicStorage(topic_id))
        history = await self._runner.run(lambda: load_history(self._tier, record))
        foreign = remaining_tails(before.foreign if before is not None else (), history.manifest)
        self._histories.put(replace(history, foreign=foreign))
        if record.epochs[-1:] != (before.record.epochs[-1:] if before is not None else ()):
            return False
        self._let_go(topic_id, history.manifest.end_offset)
        return True

    async def remove(self, names: Sequence[str]) -> None:
        """Have files gone that nobody needs; what cannot be removed is found again by the topic's next cut."""
        if names:
            await self._runner.run(lambda: self._remove(names))

    def _take_in(self, made: Sequence[ManifestVersion], records: Sequence[TopicStorage]) -> None:
        """In one turn of the event loop: whoever reads sees all of a topic before, or all of it after."""
        for one, record in zip(made, records, strict=True):
            self._histories.put(named(one, record))
            self._let_go(record.topic_id, one.manifest.end_offset)

    def _remove(self, names: Sequence[str]) -> None:
        """What cannot be removed keeps nothing else, and is said once for each topic."""
        faults: dict[str, str] = {}
        for name in names:
            try:
                self._tier.delete(name)
            except OSError as error:
                faults.setdefault(name.rpartition("/")[0], f"{name} could not be removed: {error}")
        for fault in faults.values():
            _log.warning("%s", fault)


async def look_up(topics: StoredTopics, publisher: Publisher, topic_id: int) -> bool:
    """Learn what metadata names of a topic that was lost; answers whether it is still this broker's to change.

    One that was deleted meanwhile is not remembered again. Raises as `Publisher.reload`.
    """
    is_ours = await publisher.reload(topic_id)
    if topics.is_dead(topic_id):
        topics.histories.forget(topic_id)
        return False
    if not is_ours:
        topics.take_over(topic_id)
        return False
    topics.lost.discard(topic_id)
    return True
