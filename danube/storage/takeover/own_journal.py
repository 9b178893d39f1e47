"""Opens a broker's own journal in a shared folder at its start, or creates one."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from danube.metadata.records.journals import JournalEntry, JournalRecords
from danube.metadata.records.record_format import TopicStorage
from danube.model.errors import DanubeError, DataFolderError, JournalFencedError
from danube.model.limits.broker import TAKEOVER_ATTEMPTS_MAX
from danube.storage.environment import StorageEnvironment
from danube.storage.flush.manifest_lookup import FoundHistories, base_of, find_histories
from danube.storage.journal import Journal
from danube.storage.journal.folder import JOURNALS, Fence, journal_folder
from danube.storage.log.histories import TopicHistory
from danube.storage.takeover.journal_removal import named_journals
from danube.storage.takeover.previous_epochs import Restarted, is_open_in, read_for_restart

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedEnvironment(StorageEnvironment):
    """Parts that a broker's storage in a shared folder is built from; `disk` is rooted at the folder."""

    journals: JournalRecords
    place: str = "the shared folder"
    """The folder, for people."""
    cluster_id: str = ""
    """Of the cluster that the folder is to belong to; "" checks nothing."""
    remove_journal: Callable[[str], None] | None = None
    """Removes a journal's folder, where that is not done file by file."""


@dataclass(frozen=True, slots=True)
class OwnJournal:
    """A broker's journal, and its topics in it."""

    journal: Journal
    entry: JournalEntry
    fence: Fence
    folder: str
    found: FoundHistories
    """Histories of the topics that it owns."""


async def open_own_journal(environment: SharedEnvironment) -> OwnJournal:
    """Reopen the broker's journal, or create one when it has none or others have taken its topics over.

    Raises DamagedDataError, DataFolderError, MetadataError, StorageUnavailableError; also for a folder that lacks a
    journal with topics in it: it is not the broker's folder.
    """
    entered = (await environment.journals.all()).values()
    mine = sorted((one for one in entered if one.broker_id == environment.broker_id), key=lambda one: -one.revision)
    own: OwnJournal | None = None
    try:
        for entry in mine:
            own = own or await _go_on(environment, entry)
            if own is None or own.entry.journal_id != entry.journal_id:
                await environment.journals.strike_off(entry.journal_id)
    except BaseException:  # the next start must not meet a writer of the journal
        if own is not None:
            await own.journal.close()
        raise
    return own or await _begin(environment, await environment.journals.enter(environment.broker_id))


async def load_newest(
    environment: SharedEnvironment, wanted: Sequence[TopicStorage]
) -> tuple[dict[int, TopicStorage], FoundHistories]:
    """The histories of topics, and the records that they are of. Raises MetadataError.

    Other brokers may name newer manifests meanwhile and remove the old ones: a missing one counts as damaged only by
    the linearizable records.
    """
    records = {record.topic_id: record for record in wanted}
    histories: dict[int, TopicHistory] = {}
    refused: dict[int, DanubeError] = {}
    left = list(wanted)
    for _ in range(TAKEOVER_ATTEMPTS_MAX):
        asked = list(left)
        found = await environment.tier_runner.run(lambda: find_histories(environment.reading_tier, asked))  # noqa: B023 - awaited in its turn
        histories.update((history.record.topic_id, history) for history in found.histories)
        refused = {**{each: error for each, error in refused.items() if each not in histories}, **found.refused}
        newest = await environment.records.of(found.refused)
        left = [one for one in newest if one.revision not in {0, records[one.topic_id].revision}]
        records.update((record.topic_id, record) for record in left)
        if not left:
            break
    for topic_id in histories:
        refused.pop(topic_id, None)
    for topic_id, error in refused.items():
        _log.error("topic %d cannot be served: %s", topic_id, error)
    return records, FoundHistories(list(histories.values()), refused)


async def _go_on(environment: SharedEnvironment, entry: JournalEntry) -> OwnJournal | None:
    """Reopen the journal; None when it is fenced, was only entered, or was removed."""
    folder = journal_folder(entry.journal_id)
    fence = Fence(environment.disk, folder, made=True)
    try:
        if await environment.runner.run(fence.is_up):
            await _check_not_missing(environment, entry, folder)
            return None
        renewed = await environment.journals.renew(
            entry.journal_id
        )  # before the records are read: none changes late then
        if renewed is None:
            return None
        everything = (await environment.records.all()).values()
        mine = [record for record in everything if is_open_in(record, entry.journal_id)]
        records, found = await load_newest(environment, mine)
        restarted = await _read_older(environment, records, entry.journal_id, found)
        journal = await _open(environment, renewed, fence, restarted)
    except JournalFencedError:
        return None
    except OSError as error:
        raise DataFolderError(f"the journal in {folder} cannot be read: {error}. Check the shared folder") from error
    found.histories[:] = [
        TopicHistory(history.record, history.manifest, restarted.parts.get(history.record.topic_id, ()))
        for history in found.histories
    ]
    return OwnJournal(journal, renewed, fence, folder, found)


async def _check_not_missing(environment: SharedEnvironment, entry: JournalEntry, folder: str) -> None:
    """Raises DataFolderError when a journal with topics in it is not there."""
    is_there = await environment.runner.run(lambda: environment.disk.exists(folder))
    if not is_there and entry.journal_id in named_journals((await environment.records.all()).values()):
        raise DataFolderError(
            f"{folder} is not in the shared folder, and topics of this broker are in it: is this the folder that all "
            f"brokers use, and is it mounted? If it is, restore {folder} from a backup"
        )


async def _begin(environment: SharedEnvironment, entry: JournalEntry) -> OwnJournal:
    folder = journal_folder(entry.journal_id)
    fence = Fence(environment.disk, folder)
    journal = await _open(environment, entry, fence, Restarted({}, {}))
    return OwnJournal(journal, entry, fence, folder, FoundHistories())


async def _open(environment: SharedEnvironment, entry: JournalEntry, fence: Fence, restarted: Restarted) -> Journal:
    journal = await Journal.open(
        environment.disk,
        environment.clock,
        rng=environment.rng,
        runner=environment.runner,
        read_runner=environment.read_runner,
        settings=environment.settings.journal,
        broker_id=environment.broker_id,
        known_topics=restarted.bases,
        bases=restarted.bases,
        folder=journal_folder(entry.journal_id),
        fence=fence,
        journal_id=entry.journal_id,
    )
    if journal.journal_id != entry.journal_id:
        await journal.close()
        raise DataFolderError(
            f"{journal_folder(entry.journal_id)} holds the journal {journal.journal_id:016x}: restore the folder "
            f"{JOURNALS} from a backup"
        )
    return journal


async def _read_older(
    environment: SharedEnvironment, records: Mapping[int, TopicStorage], journal_id: int, found: FoundHistories
) -> Restarted:
    """The topics' epochs in other journals; a topic whose former owner's journal cannot be read is refused alone."""
    bases = {history.record.topic_id: base_of(history) for history in found.histories}

    async def read(topic_ids: Sequence[int]) -> Restarted:
        mine = [records[topic_id] for topic_id in topic_ids]
        return await read_for_restart(environment.disk, mine, journal_id, bases, environment.tier_runner)

    try:
        return await read([*bases])
    except DanubeError:
        together = Restarted({}, {})
    for topic_id in bases:
        try:
            one = await read([topic_id])
        except DanubeError as error:
            _log.error("topic %d cannot be served: %s", topic_id, error)
            found.refused[topic_id] = error
            continue
        together.bases.update(one.bases)
        together.parts.update(one.parts)
    found.histories[:] = [one for one in found.histories if one.record.topic_id not in found.refused]
    return together
