"""State of the takeover model: journals, metadata, brokers, and the answers that clients got.

Everything is a tuple of small numbers, so that a state can be hashed. Brokers are kept sorted: they are told apart by
their journals only, so states that differ in nothing but the brokers' names are one state.
"""

from dataclasses import dataclass
from typing import NamedTuple

TOPICS = 2
NOBODY = -1  # no journal, or an epoch that has not ended


class Kind:
    """Kind of a record."""

    DATA = 0
    CURSOR = 1
    TORN = 2


class Record(NamedTuple):
    """One round of a journal."""

    kind: int
    topic: int
    number: int  # the offset of data, the position of a cursor
    value: int  # of data: no other write has it
    mark: int  # how many records were known to be synced when it was written


class Journal(NamedTuple):
    """One journal on the shared folder."""

    records: tuple[Record, ...] = ()
    synced: int = 0
    fenced: bool = False
    closed: int = 0  # how many records are in files that have a successor
    struck_off: bool = False
    gone: bool = False  # its folder was removed

    def sound(self, end: int) -> tuple[Record, ...]:
        """The readable ones of the first `end` records: all before a torn one."""
        records = self.records[:end]
        for number, record in enumerate(records):
            if record.kind == Kind.TORN:
                return records[:number]
        return records


class Epoch(NamedTuple):
    """Metadata: where one epoch of a topic is."""

    journal: int
    position: int
    first: int
    end: int = NOBODY


class Topic(NamedTuple):
    """Metadata of one topic."""

    version: int
    epochs: tuple[Epoch, ...]
    kept: tuple[int, ...] = ()  # what is in segments: the values of the first offsets


class Owned(NamedTuple):
    """An owner's memory of a topic; an empty tuple stands for a topic that it does not own."""

    next: int
    acknowledged: int  # the position that consumers have reached
    saved: int  # the position that is in the journal


class Told(NamedTuple):
    """Answers about a topic that clients may rely on."""

    values: tuple[int, ...] = ()  # by offset; 0 where nothing was told
    position: int = 0  # up to where an acknowledged position was confirmed


class Role:
    """The task of a broker; from `TASK` on, the number of a part of the protocol."""

    DEAD = 0
    UP = 1
    TASK = 2


class Broker(NamedTuple):
    """One broker."""

    role: int
    home: int = NOBODY  # the journal that it writes to
    owned: tuple[tuple[int, ...], ...] = ((),) * TOPICS
    step: int = 0
    data: tuple[object, ...] = ()  # what its task remembers


class Budget(NamedTuple):
    """Counts of events that may still happen."""

    writes: int = 2
    consumes: int = 1
    takes: int = 2
    power_cuts: int = 1
    kills: int = 1
    moves: int = 1
    new_files: int = 1
    cuts: int = 0
    retires: int = 0


class State(NamedTuple):
    """All of it."""

    journals: tuple[Journal, ...]
    topics: tuple[Topic, ...]
    brokers: tuple[Broker, ...]
    told: tuple[Told, ...]
    budget: Budget


def first_state(budget: Budget, brokers: int, *, spread: bool = False) -> State:
    """One broker owns every topic, the others nothing, and nothing was written; `spread`: each topic has its owner."""
    if spread:
        nothing = ((),) * TOPICS
        owned = [(*nothing[:number], Owned(0, 0, 0), *nothing[number + 1 :]) for number in range(TOPICS)]
        owners = [Broker(Role.UP, number, each) for number, each in enumerate(owned)]
        return State(
            (Journal(),) * TOPICS,
            tuple(Topic(0, (Epoch(number, 0, 0),)) for number in range(TOPICS)),
            tuple(sorted([*owners, *[Broker(Role.UP)] * (brokers - TOPICS)])),
            (Told(),) * TOPICS,
            budget,
        )
    owner = Broker(Role.UP, 0, (Owned(0, 0, 0),) * TOPICS)
    return State(
        (Journal(),),
        (Topic(0, (Epoch(0, 0, 0),)),) * TOPICS,
        tuple(sorted([owner, *[Broker(Role.UP)] * (brokers - 1)])),
        (Told(),) * TOPICS,
        budget,
    )


@dataclass(frozen=True, slots=True)
class Stored:
    """One topic as a reader finds it."""

    values: tuple[int, ...]
    position: int
    wrong: str = ""


def stored(journals: tuple[Journal, ...], topic: int, meta: Topic, *, durable: bool) -> Stored:
    """Read a topic by its metadata: all that is written, or only what survives a power cut."""
    values = list(meta.kept)
    position = 0
    for epoch in meta.epochs:
        journal = journals[epoch.journal]
        if journal.gone:
            return Stored((), 0, f"an epoch is in journal {epoch.journal}, which was removed")
        found = journal.sound(journal.synced if durable else len(journal.records))
        position = 0
        for record in found[epoch.position :]:
            if record.topic != topic:
                continue
            if record.kind == Kind.CURSOR:
                position = record.number
            elif record.number >= epoch.first and (epoch.end == NOBODY or record.number < epoch.end):
                if record.number != len(values):
                    return Stored((), 0, f"offset {record.number} stands where {len(values)} should")
                values.append(record.value)
        if epoch.end != NOBODY and len(values) != epoch.end:
            return Stored((), 0, f"an epoch that ends at {epoch.end} has its last record at {len(values)}")
    return Stored(tuple(values), position)


def violation(state: State) -> str | None:
    """Which promise is broken in this state."""
    for number, (topic, told) in enumerate(zip(state.topics, state.told, strict=True)):
        found = stored(state.journals, number, topic, durable=True)
        name = topic_name(number)
        if found.wrong:
            return f"topic {name}: {found.wrong}"
        for offset, value in enumerate(told.values):
            if value and (offset >= len(found.values) or found.values[offset] != value):
                there = f"value {found.values[offset]}" if offset < len(found.values) else "nothing"
                return f"topic {name}: at offset {offset} value {value} was shown, a power cut would leave {there}"
        if told.position > found.position:
            return f"topic {name}: position {told.position} was confirmed, a power cut would leave {found.position}"
        if found.position > len(found.values):
            return f"topic {name}: the cursor stands at {found.position}, the log ends at {len(found.values)}"
    return None


def topic_name(number: int) -> str:
    """As it is printed."""
    return "AB"[number]
