"""What the metadata says of a topic's epochs, and what a broker makes of it when it begins with the topic. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from danube.metadata.records.record_format import EpochRange, TopicStorage
from danube.model.subscription import Cursor
from danube.storage.batches.producer_state import StoredProducerStates
from danube.storage.journal.topic_base import TopicBase
from danube.storage.takeover.journal_reader import FoundEpoch, Wanted

_NO_CURSORS: Mapping[int, Cursor] = {}


def wanted_epochs(record: TopicStorage, base: TopicBase) -> list[Wanted]:
    """The epochs of a topic, as far as they are in journals only; `base` is what its segments hold."""
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
    """What a topic's next journal begins with: `base`, and on top of it what was found of `epochs`, to `end_offset`.

    `cursors` are those of the newest epoch: whoever begins one copies all of them into its journal, so that older ones
    say nothing.
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
    """With what a broker that starts again opens its journal: the topics whose newest epoch is in it, and goes on.

    `bases` says what is in segments, and of topics that had other owners, what their journals hold: as `base_after`
    answers it. The ids are all that the journal is to know.
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
    """Of a topic without segments."""
    return TopicBase(topic_id=topic_id, end_offset=0, last_append_time_ms=0)


def sealed_and_begun(
    record: TopicStorage, end_offset: int, journal_id: int, position: int, *, segments_end: int = 0
) -> tuple[EpochRange, ...]:
    """The epochs of a topic once its newest one ends at `end_offset` and the next one begins in another journal.

    Those that hold nothing above `segments_end` are told of no more: the cursors were copied to the next one, and so a
    topic may move as often as one likes.
    """
    number = record.epochs[-1].epoch + 1 if record.epochs else 1
    begun = EpochRange(number, journal_id, end_offset, None, position)
    return (*(one for one in sealed(record, end_offset) if _holds_something(one, segments_end)), begun)


def sealed(record: TopicStorage, end_offset: int) -> tuple[EpochRange, ...]:
    """The epochs of a topic once its newest one ends at `end_offset`."""
    if not record.epochs:
        return ()
    return (*record.epochs[:-1], replace(record.epochs[-1], end_offset=end_offset))


def _holds_something(epoch: EpochRange, segments_end: int) -> bool:
    return epoch.end_offset is None or epoch.end_offset > max(epoch.first_offset, segments_end)
