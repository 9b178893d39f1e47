"""Acquires topics of other brokers: by force from a dead owner, or from where their owner released them.

The steps and their order are those of the table in `steps.py`. Each can be done again. Until the compare-and-set of
`Step.SEAL` or `Step.BEGIN` nothing has changed for any broker, but that the old owner acknowledges no more.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from danube.metadata.records.journals import JournalEntry
from danube.metadata.records.record_format import EpochRange, TopicStorage
from danube.metadata.records.storage import StorageRecords
from danube.model.errors import (
    DanubeError,
    InternalError,
    StorageChangedError,
    StorageUnavailableError,
    TopicNotFoundError,
    TopicNotServedError,
)
from danube.model.limits.broker import STORAGE_POINTERS_MAX
from danube.model.limits.metadata import METADATA_ATTEMPTS_MAX
from danube.runtime.blocking import BlockingRunner
from danube.runtime.disk import Disk
from danube.storage.journal.folder import Fence, listed_journals
from danube.storage.journal.index import TopicBase
from danube.storage.journal.journal import Journal
from danube.storage.log.parts import PreviousOwnerTail
from danube.storage.log.topic_log import TopicLog
from danube.storage.takeover.epoch_history import base_after, empty_base, sealed_and_next, wanted_epochs
from danube.storage.takeover.previous_epochs import PreviousEpoch, folder_of, parts_of, read_previous_epochs
from danube.storage.takeover.steps import PROTOCOL, Part, Protocol, Step


@dataclass(frozen=True, slots=True)
class AcquiredTopic:
    """A topic that this broker owns now."""

    record: TopicStorage
    log: TopicLog
    """In this broker's journal: it begins where the last of `parts` ends."""
    parts: tuple[PreviousOwnerTail, ...]
    """Records in former owners' journals and not in segments, oldest first, without a gap."""


@dataclass(slots=True, eq=False)
class _Topic:
    """One topic in an attempt."""

    record: TopicStorage
    base: TopicBase
    """Its state in segments."""
    epochs: list[PreviousEpoch] = field(default_factory=list)
    begin: TopicBase | None = None
    """Its state at the begin in the own journal, once that is known."""
    position: int = 0
    """Its begin there."""
    log: TopicLog | None = None

    @property
    def topic_id(self) -> int:
        """Which topic."""
        return self.record.topic_id

    @property
    def start(self) -> TopicBase:
        """Its state at the begin, as far as that is known."""
        return self.begin or self.base


class Takeover:
    """Brings topics into `journal`, the caller's own, from the journals of a shared folder.

    `reading` runs what blocks. `broker_id` is left in the fences. `fence` is that of `journal`: a broker that was
    fenced itself acquires nothing. `entry` is its entry in metadata: no topic begins in a journal that was struck off.
    """

    def __init__(
        self,
        disk: Disk,
        records: StorageRecords,
        journal: Journal,
        reading: BlockingRunner,
        *,
        broker_id: int,
        fence: Fence | None = None,
        entry: JournalEntry | None = None,
        protocol: Protocol = PROTOCOL,
    ) -> None:
        self.disk = disk
        self.records = records
        self.journal = journal
        self.reading = reading
        self.broker_id = broker_id
        self.entry = entry
        self.unanswered: set[asyncio.Future[object]] = set()
        """Writes that the journal has not answered, of cancelled attempts as well."""
        self._fence = fence
        self._protocol = protocol

    async def acquire(
        self,
        topic_ids: Iterable[int],
        bases: Mapping[int, TopicBase] | None = None,
        *,
        records: Mapping[int, TopicStorage] | None = None,
        acquired: dict[int, AcquiredTopic] | None = None,
    ) -> dict[int, AcquiredTopic]:
        """Own these topics; answers those that this broker owns now, by id. The others are another broker's by now.

        `bases` are their states in segments, and `records` those that the bases are of: a topic whose record has
        changed is not acquired, since its owner may have removed from its journal what is in segments since. Topics
        whose last epoch is open are taken over by force: their owner's journal is fenced for good, with every topic in
        it. Topics that were sealed, or never had an owner, are opened without. Each acquired topic is put in
        `acquired`, also when something is raised: a transaction covers few topics, and those of one that was made are
        this broker's, whatever became of the next.

        Raises:
            DamagedDataError: an old journal is damaged below what was known to be synced.
            StorageUnavailableError: a folder cannot be read, or this broker's own journal cannot be written.
            TopicNotServedError: this broker owns one of them already.
            MetadataError: the metadata cannot be reached.
        """
        known = bases or {}
        if records is None:
            found = await self.records.of([*topic_ids])
        else:
            found = [records[one] for one in topic_ids]
        groups: dict[tuple[Part, int], list[_Topic]] = {}
        for record in found:
            base = known.get(record.topic_id) or empty_base(record.topic_id)
            groups.setdefault(self._way(record), []).append(_Topic(record, base))
        acquired = {} if acquired is None else acquired
        for (part, source), group in groups.items():
            await self._check_unfenced()
            attempt = _Attempt(self, group, source, is_exact=records is not None, acquired=acquired)
            await attempt.run(self._protocol[part])
        return acquired

    async def _check_unfenced(self) -> None:
        """A round of the journal would find the fence, but there is none when nothing has to be written."""
        if self._fence is None:
            return
        try:
            is_fenced = await self.reading.run(self._fence.is_up)
        except OSError as error:
            raise _unusable(error) from error
        if is_fenced:
            raise StorageUnavailableError(self._fence.refusal)

    def _way(self, record: TopicStorage) -> tuple[Part, int]:
        """The part that acquires the topic, and the journal with its newest epoch (0 for none)."""
        last = record.epochs[-1] if record.epochs else None
        if last is None or last.end_offset is not None:
            return Part.OPEN, last.journal_id if last else 0
        if last.journal_id == self.journal.journal_id:
            raise TopicNotServedError(
                f"topic {record.topic_id} is in this broker's journal already: restart the broker to serve it"
            )
        return Part.TAKEOVER, last.journal_id


class _Attempt:
    """One walk through the table, for topics whose newest epoch is in one journal."""

    def __init__(
        self,
        parts: Takeover,
        topics: list[_Topic],
        source: int,
        *,
        is_exact: bool,
        acquired: dict[int, AcquiredTopic],
    ) -> None:
        self._parts = parts
        self._journal = parts.journal
        self._topics = topics
        self._source = source
        self._is_exact = is_exact
        self._acquired = acquired
        self._folders: Mapping[int, str] = {}
        self._pending: list[tuple[asyncio.Future[object], int | None]] = []
        """Writes to the own journal, and the answer of each that succeeds."""
        self._do: Mapping[Step, Callable[[], Awaitable[None]]] = {
            Step.FENCE: self._fence,
            Step.READ: self._read,
            Step.APPEND_AGAIN: self._append_again,
            Step.COPY_CURSORS: self._copy_cursors,
            Step.SYNC: self._sync,
            Step.SEAL: self._seal,
            Step.BEGIN: self._seal,
            Step.SERVE: self._serve,
        }

    async def run(self, steps: Sequence[Step]) -> None:
        """Take `steps` in their order.

        Writes of an earlier attempt are of the same epoch: they must not come to stand behind the begin of this one.
        """
        await _all_answered(self._parts.unanswered)
        try:
            self._folders = await self._parts.reading.run(lambda: listed_journals(self._parts.disk))
            for step in steps:
                await self._do[step]()
        except OSError as error:
            raise _unusable(error) from error
        finally:
            await self._release_others()

    async def _fence(self) -> None:
        fence = Fence(self._parts.disk, folder_of(self._folders, self._source))
        await self._parts.reading.run(lambda: fence.put_up(self._parts.broker_id))

    async def _read(self) -> None:
        """Read every journal that has an epoch of the topics; that of the newest one has its fence by now."""
        wanted = [one for topic in self._topics for one in wanted_epochs(topic.record, topic.base)]
        found = await read_previous_epochs(self._parts.disk, self._folders, wanted, self._parts.reading)
        for topic in self._topics:
            epochs = topic.epochs = found.get(topic.topic_id, [])
            end = max([topic.base.end_offset, *(one.part.end_offset for one in epochs)])
            cursors = epochs[-1].found.cursors if epochs else {}
            topic.begin = base_after(topic.base, [one.found for one in epochs], end, cursors)

    def _adopt(self, topic: _Topic) -> TopicLog:
        """The topic's log in the own journal; its records there count from here on."""
        if topic.log is None:
            topic.position = self._journal.end_position
            self._journal.adopt(topic.start)
            state = self._journal.open_topic(topic.topic_id, self._epochs_after(topic)[-1].epoch)
            topic.log = TopicLog(state, self._journal)
        return topic.log

    def _epochs_after(self, topic: _Topic) -> tuple[EpochRange, ...]:
        end, segments_end = topic.start.end_offset, topic.base.end_offset
        own_id = self._journal.journal_id
        return sealed_and_next(topic.record, end, own_id, topic.position, segments_end=segments_end)

    async def _append_again(self) -> None:
        for topic in self._topics:
            log = self._adopt(topic)
            for batch in topic.epochs[-1].tail if topic.epochs else ():
                self._expect(batch.base_offset, partial(log.append_batch, batch.body))

    async def _copy_cursors(self) -> None:
        for topic in self._topics:
            log = self._adopt(topic)
            for subscription_id, cursor in topic.start.cursors.items():
                self._expect(None, partial(log.save_cursor, subscription_id, cursor))

    def _expect(self, wanted: int | None, write: Callable[[Callable[[object], None]], None]) -> None:
        """Hand a write to the own journal; `Step.SYNC` waits for its answer, which is `wanted` on success."""
        done: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        write(done.set_result)
        self._pending.append((done, wanted))
        self._parts.unanswered.add(done)
        done.add_done_callback(self._parts.unanswered.discard)

    async def _sync(self) -> None:
        """The own journal writes, syncs and looks at its own fence before it answers that something is stored."""
        await self._answered()
        for pending, wanted in self._pending:
            answer = pending.result()
            if isinstance(answer, TopicNotFoundError):  # it was deleted meanwhile: the others are none the worse
                continue
            if isinstance(answer, DanubeError):
                raise answer
            if answer != wanted:
                raise InternalError(f"offset {wanted} was appended again at {answer}")
        self._pending.clear()

    async def _answered(self) -> None:
        await _all_answered([pending for pending, _ in self._pending])

    async def _seal(self) -> None:
        for topic in self._topics:
            self._adopt(topic)
        for start in range(0, len(self._topics), STORAGE_POINTERS_MAX):
            try:
                others = await self._seal_some(self._topics[start : start + STORAGE_POINTERS_MAX])
            except BaseException:
                self._enter(self._topics[:start])
                raise
            for lost in others:
                self._release(lost)

    async def _seal_some(self, topics: Sequence[_Topic]) -> list[_Topic]:
        """Compare and set; answers the topics that are another broker's by now.

        A record that changed in nothing but its newest manifest is no other broker's yet.
        """
        mine, lost = list(topics), []
        for _ in range(METADATA_ATTEMPTS_MAX):
            try:
                changes = [(one.record, self._epochs_after(one)) for one in mine]
                sealed = await self._parts.records.seal_all(
                    changes, journal=self._parts.entry, owner=self._parts.broker_id
                )
            except StorageChangedError as error:
                changed = [one for one in mine if not error.topic_ids or one.topic_id in error.topic_ids]
                gone = [one for one in changed if not await self._is_as_it_was(one)]
                lost += gone
                mine = [one for one in mine if one not in gone]
            else:
                for one, record in zip(mine, sealed, strict=True):
                    one.record = record
                return lost
        return lost + mine

    async def _is_as_it_was(self, topic: _Topic) -> bool:
        if self._is_exact:
            return False
        newest = await self._parts.records.get(topic.topic_id)
        if newest.epochs != topic.record.epochs or bool(newest.revision) < bool(topic.record.revision):
            return False
        topic.record = newest
        return True

    async def _serve(self) -> None:
        self._enter(self._topics)

    def _enter(self, topics: Iterable[_Topic]) -> None:
        for topic in topics:
            if topic.log is not None:
                self._acquired[topic.topic_id] = AcquiredTopic(topic.record, topic.log, parts_of(topic.epochs))

    async def _release_others(self) -> None:
        """Topics that were not won leave memory; but first the journal answers all writes of them."""
        others = [topic for topic in self._topics if topic.topic_id not in self._acquired]
        try:
            if others:
                await self._answered()
        finally:
            for topic in others:
                self._release(topic)

    def _release(self, topic: _Topic) -> None:
        if topic.log is not None:
            topic.log.close()
            topic.log = None
            self._journal.forget(topic.topic_id)


async def _all_answered(pending: Collection[asyncio.Future[object]]) -> None:
    """Wait for the journal; a waiter that is cancelled meanwhile cancels no write."""
    if pending:
        await asyncio.wait(pending)


def _unusable(error: OSError) -> StorageUnavailableError:
    return StorageUnavailableError(f"the shared folder cannot be used: {error}. Check it")
