"""Which topics a broker owns in a shared folder: they come by hand-over, and go by plan, or by somebody's force."""

import asyncio
import logging
from collections.abc import Collection, Coroutine, Iterable, Mapping, Sequence
from typing import Any
from weakref import WeakValueDictionary

from danube.metadata.records.record_format import TopicStorage
from danube.model.errors import DanubeError, MetadataError, StorageChangedError, TopicNotServedError
from danube.model.limits.broker import STORAGE_POINTERS_MAX, TAKEOVER_ATTEMPTS_MAX
from danube.storage.flush.manifest_lookup import base_of
from danube.storage.flush.manifest_versions import History
from danube.storage.log.topic_log import JournalTopicLog
from danube.storage.stored_topics import StoredTopics
from danube.storage.takeover.own_journal import OwnJournal, SharedEnvironment, load_newest
from danube.storage.takeover.release import Release, Stop
from danube.storage.takeover.takeover import TakenOver, Takeover

_log = logging.getLogger(__name__)

_LIST_FROM = 16  # topics: from so many on, listing all records is cheaper than asking for each


class Ownership:
    """The topics that one broker owns, in `topics.owned`."""

    def __init__(self, ground: SharedEnvironment, own: OwnJournal, topics: StoredTopics) -> None:
        self._ground = ground
        self._journal = own.journal
        self._topics = topics
        self._hand_over = Takeover(
            ground.disk,
            ground.records,
            own.journal,
            ground.read_runner,
            broker_id=ground.broker_id,
            fence=own.fence,
            entry=own.entry,
        )
        self._release = Release(ground.records, own.journal, entry=own.entry)
        self._turn = asyncio.Lock()
        self._turns: WeakValueDictionary[int, asyncio.Lock] = WeakValueDictionary()
        """By topic: one at a time gives it, or finds out whether it was given."""
        self._came: set[int] = set()
        """Those that the beginning that is under way has brought; they may have gone again."""
        self._leaving: dict[int, tuple[TopicStorage, JournalTopicLog]] = {}
        """By topic: those that may be sealed and are not known to be. Nobody is served, and the journal is kept."""
        self._unsure: dict[int, TopicStorage] = {}
        """By topic: the record that was to be changed by a beginning of which no answer came. It may come true yet."""
        self._owned = topics.owned = {history.record.topic_id for history in own.found.histories}

    def epoch(self, topic_id: int) -> int:
        """Under which records of a topic are written. Raises TopicNotServedError when the topic is not owned."""
        history = self._topics.histories.get(topic_id)
        if history is None or topic_id not in self._owned:
            raise TopicNotServedError(f"topic {topic_id} is not this broker's: ask its owner, or begin with it first")
        return history.record.epochs[-1].epoch

    async def named_in_own(self) -> frozenset[int]:
        """The topics whose records name this broker's journal. Raises MetadataError.

        Those of which nobody knew whether they came to it are known afterwards.
        """
        await self._rule_out(self._unsure.keys())
        own = self._journal.journal_id
        records = (await self._ground.records.all()).values()
        return frozenset(one.topic_id for one in records if any(epoch.journal_id == own for epoch in one.epochs))

    async def begin(self, topic_ids: Iterable[int]) -> frozenset[int]:
        """As `SharedStorage.begin`."""
        async with self._turn:
            wanted = frozenset(topic_ids)
            self._came.clear()
            errors = await self._settle(wanted - self._topics.deleted)
            left = wanted - self._owned - self._topics.deleted - errors.keys()
            for _ in range(TAKEOVER_ATTEMPTS_MAX):
                if not left:
                    break
                left, failed = await self._try(left)
                errors |= failed
            if errors:
                raise next(iter(errors.values()))
            if left:
                raise StorageChangedError(f"topics {sorted(left)} are cut all the time: begin with them again", left)
            return wanted & self._owned

    async def give(self, topic_id: int, stop: Stop) -> None:
        """As `SharedStorage.give`."""
        async with self._turns.setdefault(topic_id, asyncio.Lock()):
            if topic_id in self._leaving:
                await self._finish(topic_id)
                return
            epoch = self.epoch(topic_id)
            history = self._topics.histories.get(topic_id)
            assert history is not None  # noqa: S101 - `epoch` has looked
            record, log = history.record, self._journal.topic(topic_id, epoch)
            await self._see_off(
                topic_id, self._release.give(record, log, stop=stop, leave=lambda: self._leave(record, log))
            )

    def _leave(self, record: TopicStorage, log: JournalTopicLog) -> None:
        self._leaving[record.topic_id] = record, log
        self._owned.discard(record.topic_id)
        self._topics.begun.add(record.topic_id)

    async def _finish(self, topic_id: int) -> None:
        """Find out whether a topic was sealed, and seal it if not. Raises StorageChangedError, MetadataError."""
        await self._see_off(topic_id, self._release.finish(*self._leaving[topic_id]))

    async def _see_off(self, topic_id: int, release: Coroutine[Any, Any, TopicStorage]) -> None:
        """Only what is known for certain changes anything: that the topic was given, or is another's."""
        try:
            await release
        except StorageChangedError:
            self._topics.take_over(topic_id)
            self._forget(topic_id)
            raise
        self._forget(topic_id)

    def _forget(self, topic_id: int) -> None:
        self._leaving.pop(topic_id, None)
        self._topics.begun.discard(topic_id)
        self._topics.histories.forget(topic_id)
        self._topics.troubles.forget(topic_id)

    async def _settle(self, topic_ids: Collection[int]) -> dict[int, DanubeError]:
        """See off those topics that may have been given, or begun; answers of which nobody knows it still, and why.

        What is left of them is begun with as any other broker would: after the epoch that is sealed by now.
        """
        errors: dict[int, DanubeError] = {}
        try:
            await self._rule_out(self._unsure.keys() & topic_ids)
        except MetadataError as error:
            errors.update(dict.fromkeys(self._unsure.keys() & topic_ids, error))
        for topic_id in self._leaving.keys() & topic_ids:
            try:
                async with self._turns.setdefault(topic_id, asyncio.Lock()):
                    if topic_id in self._leaving:
                        await self._finish(topic_id)
            except StorageChangedError as error:
                _log.info("topic %d was not given, it is another's: %s", topic_id, error)
            except DanubeError as error:
                errors[topic_id] = error
        return errors

    async def _try(self, topic_ids: Collection[int]) -> tuple[frozenset[int], dict[int, DanubeError]]:
        """Begin with topics; answers those to be tried again, and what was wrong with the others."""
        there = [record for record in await self._records_of(topic_ids) if record.revision]  # the others are deleted
        records, found = await load_newest(self._ground, there)
        histories = {history.record.topic_id: history for history in found.histories}
        errors = dict(found.refused)
        for group in _groups([records[topic_id] for topic_id in histories]):
            errors |= await self._begin_what_can_be(group, histories)
        again: set[int] = set()
        for record in [one for one in records.values() if one.topic_id not in self._came]:
            newest = await self._ground.records.get(record.topic_id)
            begun = [epoch for epoch in newest.epochs[-1:] if epoch not in record.epochs[-1:]]
            is_own = any(epoch.journal_id == self._journal.journal_id for epoch in begun)
            if not newest.revision or (not is_own and any(epoch.end_offset is None for epoch in begun)):
                errors.pop(record.topic_id, None)  # who has it, or swept it, may have removed what was read
            elif newest.revision != record.revision and not is_own:  # it was cut or given: it is nobody else's
                again.add(record.topic_id)
        return frozenset(again), {topic_id: error for topic_id, error in errors.items() if topic_id not in again}

    async def _begin_what_can_be(
        self, group: Sequence[TopicStorage], histories: Mapping[int, History]
    ) -> dict[int, DanubeError]:
        """Begin with topics whose newest epoch is in one journal; answers what was wrong, by topic.

        Of an older journal that cannot be read, the topics that do not need it are none the worse.
        """
        try:
            await self._begin_group(group, histories)
        except DanubeError as error:
            left = [record for record in group if record.topic_id not in self._came]
            parts = _groups_by_older(left)
            if isinstance(error, MetadataError) or len(parts) == 1:
                return {record.topic_id: error for record in left}
            found = [await self._begin_what_can_be(part, histories) for part in parts]
            return {topic_id: each for errors in found for topic_id, each in errors.items()}
        return {}

    async def _begin_group(self, group: Sequence[TopicStorage], histories: Mapping[int, History]) -> None:
        """From when it is tried until it is known to have failed, the journal is kept for what may be in it."""
        ids = [record.topic_id for record in group]
        self._topics.begun.update(ids)
        taken: dict[int, TakenOver] = {}
        try:
            await self._hand_over.begin(
                ids,
                {topic_id: base_of(histories[topic_id]) for topic_id in ids},
                records={record.topic_id: record for record in group},
                taken=taken,
            )
        except (MetadataError, asyncio.CancelledError):
            self._unsure.update((record.topic_id, record) for record in group if record.topic_id not in taken)
            raise
        finally:
            for topic_id, one in taken.items():
                self._take_in(one, histories[topic_id])
            self._topics.begun.difference_update(each for each in ids if each not in self._unsure)

    async def _rule_out(self, topic_ids: Iterable[int]) -> None:
        """Have beginnings of which no answer came not come true any more, unless they have. Raises MetadataError.

        The records are written as they are, so that whoever would change the ones before comes too late. Else the next
        beginning would write the same offsets once more, behind where the first one may come to begin.
        """
        left = {topic_id: self._unsure[topic_id] for topic_id in topic_ids}
        while left:
            decided = dict([*left.items()][:STORAGE_POINTERS_MAX])
            try:
                await self._ground.records.seal_all([(record, record.epochs) for record in decided.values()])
            except StorageChangedError as error:
                if not error.topic_ids:
                    raise
                decided = {each: record for each, record in decided.items() if each in error.topic_ids}
            for topic_id, record in decided.items():
                del left[topic_id]
                if self._unsure.get(topic_id) is record:
                    del self._unsure[topic_id]
                    self._topics.begun.discard(topic_id)

    def _take_in(self, taken: TakenOver, history: History) -> None:
        topic_id, topics = taken.record.topic_id, self._topics
        self._came.add(topic_id)
        if topic_id in topics.deleted:  # somebody said so meanwhile
            self._journal.release(topic_id)
            return
        self._owned.add(topic_id)
        topics.lost.discard(topic_id)
        topics.refused.pop(topic_id, None)
        topics.troubles.forget(topic_id)
        topics.histories.put(History(taken.record, history.manifest, taken.parts))

    async def _records_of(self, topic_ids: Collection[int]) -> list[TopicStorage]:
        """As they stand now. A fence goes by them: who is behind would end a broker that has given the topic."""
        if len(topic_ids) < _LIST_FROM:
            return [
                await self._ground.records.get(one, linearizable=not number) for number, one in enumerate(topic_ids)
            ]
        everything = await self._ground.records.all(linearizable=True)
        return [everything.get(topic_id) or TopicStorage(topic_id) for topic_id in topic_ids]


def _groups(records: Iterable[TopicStorage]) -> list[list[TopicStorage]]:
    """Those whose newest epoch is in the same journal: what is wrong with one journal is wrong with its topics only."""
    by_journal: dict[tuple[int, bool], list[TopicStorage]] = {}
    for record in records:
        last = record.epochs[-1] if record.epochs else None
        key = (last.journal_id, last.end_offset is None) if last is not None else (0, False)
        by_journal.setdefault(key, []).append(record)
    return list(by_journal.values())


def _groups_by_older(records: Iterable[TopicStorage]) -> list[list[TopicStorage]]:
    """Those whose older epochs are in the same journals."""
    by_journals: dict[frozenset[int], list[TopicStorage]] = {}
    for record in records:
        by_journals.setdefault(frozenset(epoch.journal_id for epoch in record.epochs[:-1]), []).append(record)
    return list(by_journals.values())
