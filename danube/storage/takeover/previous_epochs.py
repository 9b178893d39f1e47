"""Topics' epochs in journals of former owners."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from danube.metadata.records.record_format import TopicStorage
from danube.model.errors import StorageUnavailableError
from danube.runtime.blocking import BlockingRunner
from danube.runtime.disk import Disk
from danube.storage.batches.stored_batch import StoredBatch
from danube.storage.journal.folder import listed_journals
from danube.storage.journal.index import TopicBase
from danube.storage.journal.reader import JournalReader
from danube.storage.log.parts import PreviousOwnerTail
from danube.storage.takeover.epoch_history import base_after, empty_base, own_bases, wanted_epochs
from danube.storage.takeover.journal_reader import FoundEpoch, Wanted, read_journal


@dataclass(frozen=True, slots=True)
class PreviousEpoch:
    """One epoch of a topic, as a journal has it."""

    wanted: Wanted
    found: FoundEpoch
    part: PreviousOwnerTail
    """All of it when it was sealed, else the records below the mark."""
    tail: tuple[StoredBatch, ...]
    """The batches above the mark."""


@dataclass(frozen=True, slots=True)
class Restarted:
    """State with which a broker opens its own journal again."""

    bases: dict[int, TopicBase]
    """Of all topics that it owns: the journal is to know no others."""
    parts: dict[int, tuple[PreviousOwnerTail, ...]]
    """Their parts in other epochs' journals, oldest first."""


async def read_previous_epochs(
    disk: Disk, folders: Mapping[int, str], wanted: Iterable[Wanted], runner: BlockingRunner
) -> dict[int, list[PreviousEpoch]]:
    """Read each journal that is needed once; answers by topic id, oldest epoch first.

    Raises DamagedDataError; StorageUnavailableError when a journal is not there that is needed.
    """
    by_journal: dict[int, list[Wanted]] = {}
    for one in wanted:
        if one.is_needed:
            by_journal.setdefault(one.epoch.journal_id, []).append(one)
    found: dict[int, list[PreviousEpoch]] = {}
    for journal_id, several in by_journal.items():
        folder = folder_of(folders, journal_id)
        for epoch in await _read_one(disk, journal_id, JournalReader(disk, folder), several, runner):
            found.setdefault(epoch.wanted.topic_id, []).append(epoch)
    for epochs in found.values():
        epochs.sort(key=lambda one: one.wanted.epoch.epoch)
    return found


async def read_for_restart(
    disk: Disk,
    records: Sequence[TopicStorage],
    journal_id: int,
    bases: Mapping[int, TopicBase],
    runner: BlockingRunner,
) -> Restarted:
    """The state to reopen a journal with. `bases` are the topics' states in segments.

    Raises as `read_previous_epochs`.
    """
    mine = {record.topic_id: record for record in records if is_open_in(record, journal_id)}
    known = {topic_id: bases.get(topic_id) or empty_base(topic_id) for topic_id in mine}
    wanted = [one for topic_id, record in mine.items() for one in wanted_epochs(record, known[topic_id])]
    older = [one for one in wanted if one.epoch.end_offset is not None]
    folders = await runner.run(lambda: listed_journals(disk)) if older else {}
    found = await read_previous_epochs(disk, folders, older, runner)
    for topic_id, epochs in found.items():
        end = max(known[topic_id].end_offset, mine[topic_id].epochs[-1].first_offset)
        known[topic_id] = base_after(known[topic_id], [one.found for one in epochs], end)
    return Restarted(
        own_bases(mine.values(), journal_id, known),
        {topic_id: parts_of(epochs) for topic_id, epochs in found.items()},
    )


def parts_of(epochs: Iterable[PreviousEpoch]) -> tuple[PreviousOwnerTail, ...]:
    """Tails with something in them."""
    return tuple(one.part for one in epochs if one.part.start_offset < one.part.end_offset)


def folder_of(folders: Mapping[int, str], journal_id: int) -> str:
    """The folder of a journal. Raises StorageUnavailableError."""
    folder = folders.get(journal_id)
    if folder is None:
        raise StorageUnavailableError(
            f"the journal {journal_id:016x} is not in the shared folder: is this the folder that all brokers use?"
        )
    return folder


async def _read_one(
    disk: Disk, journal_id: int, reader: JournalReader, wanted: Sequence[Wanted], runner: BlockingRunner
) -> list[PreviousEpoch]:
    journal = await runner.run(lambda: read_journal(disk, journal_id, wanted))
    epochs: list[PreviousEpoch] = []
    try:
        for one in wanted:
            found = journal.epochs[one.topic_id, one.epoch.epoch]
            end = one.epoch.end_offset
            tail: list[StoredBatch] = []
            if end is None:
                end = found.marked_end
                run = found.index.run_at(end, found.index.body_bytes)
                if run:
                    tail = await runner.run(
                        lambda: reader.read_run(one.topic_id, run, journal.files, needs_all=True)  # noqa: B023 - awaited in its turn
                    )
            part = PreviousOwnerTail(
                one.topic_id, found.index, end, folder=journal.folder, files=journal.files, reader=reader, runner=runner
            )
            epochs.append(PreviousEpoch(one, found, part, tuple(tail)))
    finally:
        await runner.run(reader.close)
    return epochs


def is_open_in(record: TopicStorage, journal_id: int) -> bool:
    """True if the topic's newest epoch is in this journal, and has not ended."""
    last = record.epochs[-1] if record.epochs else None
    return last is not None and last.journal_id == journal_id and last.end_offset is None
