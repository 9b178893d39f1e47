"""A topic's epochs: which are read from journals, and what its next journal begins with. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from danube.metadata.records.record_format import EpochRange, TopicStorage
from danube.model.subscription import Cursor
from danube.storage.batches.producer_state import StoredProducerStates
from danube.storage.journal.index import TopicBase
from danube.storage.takeover.journal_reader import FoundEpoch, Wanted

_NO_CURSORS: Mapping[int, Cursor] = {}


def wanted_epochs(record: TopicStorage, base: TopicBase) -> list[Wanted]:
    """The epochs of a topic that are to be read from journals; `base` is its state in segments."""
    return [
        Wanted(
            record.topic_id,
            epoch,
            max(epoch.first_offset, base.end_offset),
            position=max(epoch.position, base.covered.get(epoch.journal_id, 0)),
            last_append_time_ms=base.last_append_time_ms,
            is_newest=epoch is record.epochs[-1],
        )
        for epoch in record.epochs
    ]


def base_after(
    base: TopicBase, epochs: Iterable[FoundEpoch], end_offset: int, cursors: Mapping[int, Cursor] = _NO_CURSORS
) -> TopicBase:
    """State at the begin of a topic's next journal: `base`, and the found `epochs` up to `end_offset`.

    `cursors` are those of the newest epoch alone: each new epoch starts with a copy of all of them.
    """
    producer_states = StoredProducerStates()
    producer_states.restore(base.producer_states)
    last_ms = base.last_append_time_ms
    for found in epochs:
        for stored in found.numbers:
            producer_states.add(stored.batch, stored.base_offset)
        last = found.index.find(end_offset) - 1
        last_ms = max(last_ms, found.index[last].append_time_ms if last >= 0 else 0)
    producer_states.drop_from(end_offset)
    return replace(
        base,
        end_offset=end_offset,
        last_append_time_ms=last_ms,
        cursors={**base.cursors, **cursors},
        producer_states=producer_states.rows(),
    )


def own_bases(records: Iterable[TopicStorage], journal_id: int, bases: Mapping[int, TopicBase]) -> dict[int, TopicBase]:
    """The bases of a broker's own journal at a restart: of the topics whose newest epoch is in it, and open.

    `bases` are their states in segments, or as `base_after` answers them. The journal is to know these ids only.
    """
    found: dict[int, TopicBase] = {}
    for record in records:
        epoch = record.epochs[-1] if record.epochs else None
        if epoch is None or epoch.journal_id != journal_id or epoch.end_offset is not None:
            continue
        base = bases.get(record.topic_id) or empty_base(record.topic_id)
        covered = {**base.covered, journal_id: max(epoch.position, base.covered.get(journal_id, 0))}
        found[record.topic_id] = replace(base, end_offset=max(base.end_offset, epoch.first_offset), covered=covered)
    return found


def empty_base(topic_id: int) -> TopicBase:
    """The base of a topic without segments."""
    return TopicBase(topic_id=topic_id, end_offset=0, last_append_time_ms=0)


def sealed_and_next(
    record: TopicStorage, end_offset: int, journal_id: int, position: int, *, segments_end: int = 0
) -> tuple[EpochRange, ...]:
    """The epochs of a topic once its newest one ends at `end_offset` and the next one begins in another journal.

    Epochs with nothing above `segments_end` are left out, since the next one has the cursors: a topic may move any
    number of times.
    """
    number = max(record.epoch, record.epochs[-1].epoch if record.epochs else 0) + 1
    begun = EpochRange(number, journal_id, end_offset, None, position)
    return (*(one for one in sealed(record, end_offset) if _holds_something(one, segments_end)), begun)


def sealed(record: TopicStorage, end_offset: int) -> tuple[EpochRange, ...]:
    """The epochs of a topic once its newest one ends at `end_offset`."""
    if not record.epochs:
        return ()
    return (*record.epochs[:-1], replace(record.epochs[-1], end_offset=end_offset))


def _holds_something(epoch: EpochRange, segments_end: int) -> bool:
    return epoch.end_offset is None or epoch.end_offset > max(epoch.first_offset, segments_end)
