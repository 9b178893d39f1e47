"""Which topics a broker owns in a shared folder: they come by hand-over, and go by plan, or by somebody's force."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence

from danube.metadata.record_format import TopicStorage
from danube.model.errors import DanubeError, MetadataError, StorageChangedError, TopicNotServedError
from danube.model.limits import HAND_OVER_ATTEMPTS_MAX
from danube.model.subscription import Cursor
from danube.storage.handover.giving import Giver
from danube.storage.handover.own_journal import OwnJournal, SharedGround, load_newest
from danube.storage.handover.taking import HandOver, Taken
from danube.storage.histories import History
from danube.storage.manifests import base_of
from danube.storage.stored_topics import StoredTopics

_log = logging.getLogger(__name__)

_LIST_FROM = 16  # topics: from so many on, listing all records is cheaper than asking for each

Stop = Callable[[], Awaitable[Mapping[int, Cursor]]]
"""Has a topic take nothing any more, and answers where its subscriptions stand: as `Giver.give` asks for it."""


class Ownership:
    """The topics that one broker owns, in `topics.owned`."""

    def __init__(self, ground: SharedGround, own: OwnJournal, topics: StoredTopics) -> None:
        self._ground = ground
        self._journal = own.journal
        self._topics = topics
        self._hand_over = HandOver(
            ground.disk,
            ground.records,
            own.journal,
            ground.read_runner,
            broker_id=ground.broker_id,
            fence=own.fence,
            entry=own.entry,
        )
        self._giver = Giver(ground.records, own.journal)
        self._turn = asyncio.Lock()
        self._owned = topics.owned = {history.record.topic_id for history in own.found.histories}

    def epoch(self, topic_id: int) -> int:
        """Under which records of a topic are written. Raises TopicNotServedError when the topic is not owned."""
        history = self._topics.histories.get(topic_id)
        if history is None or topic_id not in self._owned:
            raise TopicNotServedError(f"topic {topic_id} is not this broker's: ask its owner, or begin with it first")
        return history.record.epochs[-1].epoch

    async def named_in_own(self) -> frozenset[int]:
        """The topics whose records name this broker's journal. Raises MetadataError."""
        own = self._journal.journal_id
        records = (await self._ground.records.all()).values()
        return frozenset(one.topic_id for one in records if any(epoch.journal_id == own for epoch in one.epochs))

    async def begin(self, topic_ids: Iterable[int]) -> frozenset[int]:
        """As `SharedStorage.begin`."""
        async with self._turn:
            wanted = frozenset(topic_ids)
            left = wanted - self._owned - self._topics.deleted
            errors: dict[int, DanubeError] = {}
            for _ in range(HAND_OVER_ATTEMPTS_MAX):
                if not left:
                    break
                left, errors = await self._try(left)
            if errors:
                raise next(iter(errors.values()))
            if left:
                raise StorageChangedError(f"topics {sorted(left)} are cut all the time: begin with them again", left)
            return wanted & self._owned

    async def give(self, topic_id: int, stop: Stop) -> None:
        """As `SharedStorage.give`."""
        epoch = self.epoch(topic_id)
        history = self._topics.histories.get(topic_id)
        assert history is not None  # noqa: S101 - `epoch` has looked
        try:
            await self._giver.give(history.record, self._journal.topic(topic_id, epoch), stop=stop)
        except StorageChangedError:
            self._topics.take_over(topic_id)
            raise
        self._owned.discard(topic_id)
        self._topics.histories.forget(topic_id)

    async def _try(self, topic_ids: Collection[int]) -> tuple[frozenset[int], dict[int, DanubeError]]:
        """Begin with topics; answers those to be tried again, and what was wrong with the others."""
        there = [record for record in await self._records_of(topic_ids) if record.revision]  # the others are deleted
        records, found = await load_newest(self._ground, there)
        histories = {history.record.topic_id: history for history in found.histories}
        errors = dict(found.refused)
        for group in _groups([records[topic_id] for topic_id in histories]):
            try:
                await self._begin_group(group, histories)
            except DanubeError as error:
                errors.update((record.topic_id, error) for record in group if record.topic_id not in self._owned)
        left = [record for record in records.values() if record.topic_id not in self._owned]
        again = frozenset([record.topic_id for record in left if await self._is_still_the_same_owner(record)])
        return again, {topic_id: error for topic_id, error in errors.items() if topic_id not in again}

    async def _begin_group(self, group: Sequence[TopicStorage], histories: Mapping[int, History]) -> None:
        """From when it is tried until it is known to have failed, the journal is kept for what may be in it."""
        ids = [record.topic_id for record in group]
        self._topics.begun.update(ids)
        try:
            taken = await self._hand_over.begin(
                ids,
                {topic_id: base_of(histories[topic_id]) for topic_id in ids},
                records={record.topic_id: record for record in group},
            )
        except MetadataError:
            raise  # whether they are this broker's now nobody knows
        except DanubeError:
            self._topics.begun.difference_update(ids)
            raise
        for topic_id, one in taken.items():
            self._take_in(one, histories[topic_id])
        self._topics.begun.difference_update(ids)

    def _take_in(self, taken: Taken, history: History) -> None:
        topic_id, topics = taken.record.topic_id, self._topics
        if topic_id in topics.deleted:  # somebody said so meanwhile
            self._journal.release(topic_id)
            return
        self._owned.add(topic_id)
        topics.lost.discard(topic_id)
        topics.refused.pop(topic_id, None)
        topics.troubles.forget(topic_id)
        topics.histories.put(History(taken.record, history.manifest, taken.parts))

    async def _is_still_the_same_owner(self, record: TopicStorage) -> bool:
        """Whether nothing but the topic's manifest has changed: with the new one it can be tried again."""
        newest = await self._ground.records.get(record.topic_id)
        return newest.revision not in {0, record.revision} and newest.epochs[-1:] == record.epochs[-1:]

    async def _records_of(self, topic_ids: Collection[int]) -> list[TopicStorage]:
        if len(topic_ids) < _LIST_FROM:
            return [await self._ground.records.get(topic_id) for topic_id in topic_ids]
        everything = await self._ground.records.all()
        return [everything.get(topic_id) or TopicStorage(topic_id) for topic_id in topic_ids]


def _groups(records: Iterable[TopicStorage]) -> list[list[TopicStorage]]:
    """Those whose newest epoch is in the same journal: what is wrong with one journal is wrong with its topics only."""
    by_journal: dict[tuple[int, bool], list[TopicStorage]] = {}
    for record in records:
        last = record.epochs[-1] if record.epochs else None
        key = (last.journal_id, last.end_offset is None) if last is not None else (0, False)
        by_journal.setdefault(key, []).append(record)
    return list(by_journal.values())
