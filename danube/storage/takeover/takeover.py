"""Beginning with topics that another broker had: by force from one that is dead, or from where it stopped by plan.

The steps and their order are those of the table (`steps.py`), which is walked through here. In between anything may
happen: what was done can be done again, and until the compare-and-set of `Step.SEAL` or `Step.BEGIN` nothing has
changed for anybody, but that the old owner acknowledges no more.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

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
from danube.storage.journal.fence import Fence
from danube.storage.journal.journal import Journal
from danube.storage.journal.topic_base import TopicBase
from danube.storage.log.topic_log import JournalTopicLog
from danube.storage.takeover.epoch_history import base_after, empty_base, sealed_and_begun, wanted_epochs
from danube.storage.takeover.journal_reader import listed_journals
from danube.storage.takeover.previous_epochs import PreviousEpoch, folder_of, parts_of, read_previous_epochs
from danube.storage.takeover.previous_owner_tail import PreviousOwnerTail
from danube.storage.takeover.steps import PROTOCOL, Part, Protocol, Step

_LIST_FROM = 16  # topics: from so many on, listing all records is cheaper than asking for each


@dataclass(frozen=True, slots=True)
class TakenOver:
    """A topic that this broker owns now."""

    record: TopicStorage
    log: JournalTopicLog
    """What is in this broker's journal: it begins where the last of `parts` ends."""
    parts: tuple[PreviousOwnerTail, ...]
    """What is in the journals of former owners and not in segments, oldest first, without a gap."""


@dataclass(slots=True, eq=False)
class _Topic:
    """One topic on its way."""

    record: TopicStorage
    base: TopicBase
    """What is in segments."""
    epochs: list[PreviousEpoch] = field(default_factory=list)
    begin: TopicBase | None = None
    """With what it begins in the taker's journal, once that is known."""
    position: int = 0
    """Where it begins there."""
    log: JournalTopicLog | None = None

    @property
    def topic_id(self) -> int:
        """Which topic."""
        return self.record.topic_id

    @property
    def start(self) -> TopicBase:
        """With what it begins, as far as that is known."""
        return self.begin or self.base


class Takeover:
    """Brings topics into `journal`, the caller's own, from the journals of a shared folder.

    `reading` runs what blocks. `broker_id` is left in the fences. `fence` is that of `journal`: a broker that was
    fenced itself begins with nothing. `entry` is what metadata says of it: no topic begins in one that was struck off.
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
        self._entry = entry
        self._disk = disk
        self._fence = fence
        self._records = records
        self._journal = journal
        self._reading = reading
        self._broker_id = broker_id
        self._protocol = protocol
        self._on_its_way: set[asyncio.Future[None]] = set()
        """What the journal was handed and has not answered, of attempts that were cancelled as well."""

    async def begin(
        self,
        topic_ids: Iterable[int],
        bases: Mapping[int, TopicBase] | None = None,
        *,
        records: Mapping[int, TopicStorage] | None = None,
        taken: dict[int, TakenOver] | None = None,
    ) -> dict[int, TakenOver]:
        """Own these topics; answers those that this broker owns now, by id. The others are somebody else's by now.

        `bases` says what of them is in segments, and `records` from which records that is known: a topic whose record
        is another one by now is not taken, since its owner may have removed from its journal what is in segments since.
        Topics whose last epoch goes on are taken over by force: their
        owner's journal is fenced for good, with every topic in it. Topics that were sealed, or never had an owner, are
        opened without. What is answered is put in `taken`, also when something is raised: a transaction takes so many
        topics, and those of one that was made are this broker's, whatever became of the next.

        Raises:
            DamagedDataError: an old journal is damaged below what was known to be synced.
            StorageUnavailableError: a folder cannot be read, or this broker's own journal cannot be written.
            TopicNotServedError: this broker owns one of them already.
            MetadataError: the metadata cannot be reached.
        """
        known = bases or {}
        found = await self._records_of([*topic_ids]) if records is None else [records[one] for one in topic_ids]
        topics = [_Topic(record, known.get(record.topic_id) or empty_base(record.topic_id)) for record in found]
        groups: dict[tuple[Part, int], list[_Topic]] = {}
        for topic in topics:
            groups.setdefault(self._way(topic.record), []).append(topic)
        taken = {} if taken is None else taken
        for (part, source), group in groups.items():
            await self._check_unfenced()
            attempt = _Attempt(
                self._disk,
                self._records,
                self._journal,
                self._reading,
                broker_id=self._broker_id,
                entry=self._entry,
                is_exact=records is not None,
                on_its_way=self._on_its_way,
                taken=taken,
            )
            await attempt.run(self._protocol[part], group, source)
        return taken

    async def _check_unfenced(self) -> None:
        """A round of the journal would find it out, but there is none when nothing has to be written."""
        if self._fence is None:
            return
        try:
            is_fenced = await self._reading.run(self._fence.is_up)
        except OSError as error:
            raise StorageUnavailableError(f"the shared folder cannot be used: {error}. Check it") from error
        if is_fenced:
            raise StorageUnavailableError(self._fence.told)

    async def _records_of(self, topic_ids: Sequence[int]) -> list[TopicStorage]:
        if len(topic_ids) < _LIST_FROM:
            return [await self._records.get(one, linearizable=not number) for number, one in enumerate(topic_ids)]
        everything = await self._records.all(linearizable=True)
        return [everything.get(topic_id) or TopicStorage(topic_id) for topic_id in topic_ids]

    def _way(self, record: TopicStorage) -> tuple[Part, int]:
        """Whether the topic is taken by force or opened, and whose journal has its newest epoch (0 for none)."""
        last = record.epochs[-1] if record.epochs else None
        if last is None or last.end_offset is not None:
            return Part.OPEN, last.journal_id if last else 0
        if last.journal_id == self._journal.journal_id:
            raise TopicNotServedError(
                f"topic {record.topic_id} is in this broker's journal already: restart the broker to serve it"
            )
        return Part.TAKE, last.journal_id


class _Attempt:
    """One walk through the table, for topics whose newest epoch is in one journal."""

    def __init__(
        self,
        disk: Disk,
        records: StorageRecords,
        journal: Journal,
        reading: BlockingRunner,
        *,
        broker_id: int,
        entry: JournalEntry | None,
        is_exact: bool,
        on_its_way: set[asyncio.Future[None]],
        taken: dict[int, TakenOver],
    ) -> None:
        self._entry = entry
        self._is_exact = is_exact
        self._disk = disk
        self._records = records
        self._journal = journal
        self._reading = reading
        self._broker_id = broker_id
        self._topics: list[_Topic] = []
        self._source = 0
        self._folders: Mapping[int, str] = {}
        self._pending: list[asyncio.Future[None]] = []
        self._on_its_way = on_its_way
        self._taken = taken
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

    async def run(self, steps: Sequence[Step], topics: list[_Topic], source: int) -> None:
        """Take `steps` in their order.

        What an earlier attempt has on its way is of the same epoch: it must not come to stand behind where this begins.
        """
        await _all_answered(self._on_its_way)
        self._topics, self._source = topics, source
        try:
            self._folders = await self._reading.run(lambda: listed_journals(self._disk))
            for step in steps:
                await self._do[step]()
        except OSError as error:
            raise StorageUnavailableError(f"the shared folder cannot be used: {error}. Check it") from error
        finally:
            await self._leave_others()

    async def _fence(self) -> None:
        fence = Fence(self._disk, folder_of(self._folders, self._source))
        await self._reading.run(lambda: fence.put_up(self._broker_id))

    async def _read(self) -> None:
        """Read every journal that has an epoch of the topics; that of the newest one has its fence by now."""
        wanted = [one for topic in self._topics for one in wanted_epochs(topic.record, topic.base)]
        found = await read_previous_epochs(self._disk, self._folders, wanted, self._reading)
        for topic in self._topics:
            epochs = topic.epochs = found.get(topic.topic_id, [])
            end = max([topic.base.end_offset, *(one.part.end_offset for one in epochs)])
            cursors = epochs[-1].found.cursors if epochs else {}
            topic.begin = base_after(topic.base, [one.found for one in epochs], end, cursors)

    def _adopt(self, topic: _Topic) -> JournalTopicLog:
        """The topic's log in the own journal; what is written of it counts from here on."""
        if topic.log is None:
            topic.position = self._journal.end_position
            self._journal.adopt(topic.start)
            topic.log = self._journal.topic(topic.topic_id, self._epochs_after(topic)[-1].epoch)
        return topic.log

    def _epochs_after(self, topic: _Topic) -> tuple[EpochRange, ...]:
        end, segments_end = topic.start.end_offset, topic.base.end_offset
        own_id = self._journal.journal_id
        return sealed_and_begun(topic.record, end, own_id, topic.position, segments_end=segments_end)

    async def _append_again(self) -> None:
        for topic in self._topics:
            log = self._adopt(topic)
            for batch in topic.epochs[-1].tail if topic.epochs else ():
                self._expect(lambda done: log.append_batch(batch.body, _stored_at(batch.base_offset, done)))  # noqa: B023 - called at once

    async def _copy_cursors(self) -> None:
        for topic in self._topics:
            log = self._adopt(topic)
            for subscription_id, cursor in topic.start.cursors.items():
                self._expect(lambda done: log.save_cursor(subscription_id, cursor, _saved(done)))  # noqa: B023 - as above

    async def _sync(self) -> None:
        """The own journal writes, syncs and looks at its own fence before it says that something is stored."""
        await _all_answered(self._pending)
        for pending in self._pending:
            with contextlib.suppress(TopicNotFoundError):  # it was deleted meanwhile: the others are none the worse
                pending.result()
        self._pending.clear()

    async def _seal(self) -> None:
        for topic in self._topics:
            self._adopt(topic)
        for start in range(0, len(self._topics), STORAGE_POINTERS_MAX):
            try:
                others = await self._seal_some(self._topics[start : start + STORAGE_POINTERS_MAX])
            except BaseException:
                self._take_in(self._topics[:start])
                raise
            for lost in others:
                self._release(lost)

    async def _seal_some(self, topics: Sequence[_Topic]) -> list[_Topic]:
        """Compare and set; answers the topics that are somebody else's by now.

        A record that changed in nothing but its newest manifest is no other's yet.
        """
        mine, lost = list(topics), []
        for _ in range(METADATA_ATTEMPTS_MAX):
            try:
                changes = [(one.record, self._epochs_after(one)) for one in mine]
                sealed = await self._records.seal_all(changes, journal=self._entry)
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
        newest = await self._records.get(topic.topic_id)
        if newest.epochs != topic.record.epochs or bool(newest.revision) < bool(topic.record.revision):
            return False
        topic.record = newest
        return True

    async def _serve(self) -> None:
        self._take_in(self._topics)

    def _take_in(self, topics: Iterable[_Topic]) -> None:
        for topic in topics:
            if topic.log is not None:
                self._taken[topic.topic_id] = TakenOver(topic.record, topic.log, parts_of(topic.epochs))

    def _expect(self, write: Callable[[asyncio.Future[None]], None]) -> None:
        """Hand something to the own journal; `Step.SYNC` waits for it."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        write(done)
        done.add_done_callback(_note_error)
        self._pending.append(done)
        self._on_its_way.add(done)
        done.add_done_callback(self._on_its_way.discard)

    async def _leave_others(self) -> None:
        """Of topics that were not won nothing stays in memory; but first nothing of them may be on its way."""
        others = [topic for topic in self._topics if topic.topic_id not in self._taken]
        try:
            if others:
                await _all_answered(self._pending)
        finally:
            for topic in others:
                self._release(topic)

    def _release(self, topic: _Topic) -> None:
        if topic.log is not None:
            topic.log.close()
            topic.log = None
            self._journal.release(topic.topic_id)


async def _all_answered(pending: Collection[asyncio.Future[None]]) -> None:
    """Wait for the journal. Whoever is cancelled meanwhile cancels none of it: it is written all the same."""
    if pending:
        await asyncio.wait(pending)


def _note_error(done: asyncio.Future[None]) -> None:
    """Who waits is told; when nobody does any more, since all was cancelled, nothing is lost by it."""
    if not done.cancelled():
        done.exception()


def _stored_at(offset: int, done: asyncio.Future[None]) -> Callable[[int | DanubeError], None]:
    def stored(outcome: int | DanubeError) -> None:
        if isinstance(outcome, DanubeError):
            done.set_exception(outcome)
        elif outcome != offset:
            done.set_exception(InternalError(f"offset {offset} was appended again at {outcome}"))
        else:
            done.set_result(None)

    return stored


def _saved(done: asyncio.Future[None]) -> Callable[[DanubeError | None], None]:
    def saved(error: DanubeError | None) -> None:
        if error is None:
            done.set_result(None)
        else:
            done.set_exception(error)

    return saved
