"""Effects of each step of the takeover protocol on the state of the model."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from danube.storage.takeover.steps import Part, Step
from lab.takeover.state import (
    NOBODY,
    Broker,
    Epoch,
    Journal,
    Kind,
    Owned,
    Record,
    Role,
    State,
    Told,
    Topic,
    stored,
    topic_name,
)


class Scene:
    """A state taken apart, for one broker to change."""

    __slots__ = ("broker", "budget", "journals", "others", "told", "topics")

    def __init__(self, state: State, number: int) -> None:
        self.journals = list(state.journals)
        self.topics = list(state.topics)
        self.told = list(state.told)
        self.budget = state.budget
        self.broker = state.brokers[number]
        self.others = [*state.brokers[:number], *state.brokers[number + 1 :]]

    @property
    def data(self) -> Any:  # noqa: ANN401 - of any task
        """The memory of the broker's task."""
        return self.broker.data

    def state(self) -> State:
        brokers = tuple(sorted([*self.others, self.broker]))
        return State(tuple(self.journals), tuple(self.topics), brokers, tuple(self.told), self.budget)

    def spend(self, **what: int) -> None:
        self.budget = self.budget._replace(**{name: getattr(self.budget, name) - n for name, n in what.items()})

    # One's own journal

    def append(self, *records: tuple[int, int, int, int]) -> int:
        """Append to the broker's own journal, which begins with it if need be; answers the position of the first."""
        if self.broker.home == NOBODY:
            self.broker = self.broker._replace(home=len(self.journals))
            self.journals.append(Journal())
        home = self.broker.home
        journal = self.journals[home]
        new = tuple(Record(*record, journal.synced) for record in records)
        self.journals[home] = journal._replace(records=journal.records + new)
        return len(journal.records)

    def sync(self) -> None:
        home = self.broker.home
        if home != NOBODY:
            journal = self.journals[home]
            self.journals[home] = journal._replace(synced=len(journal.records))

    @property
    def is_fenced(self) -> bool:
        return self.broker.home != NOBODY and self.journals[self.broker.home].fenced

    def give_up(self) -> None:
        """The journal is fenced: nothing is owned any more, and what comes goes into a new one."""
        self.broker = Broker(Role.UP)

    def end_task(self) -> None:
        self.broker = self.broker._replace(role=Role.UP, step=0, data=())

    def own(self, topic: int, owned: tuple[int, ...]) -> None:
        all_owned = self.broker.owned
        self.broker = self.broker._replace(owned=(*all_owned[:topic], owned, *all_owned[topic + 1 :]))

    # What is told

    def tell(self, topic: int, offset: int, value: int) -> None:
        values = list(self.told[topic].values)
        values += [0] * (offset + 1 - len(values))
        values[offset] = values[offset] or value
        self.told[topic] = self.told[topic]._replace(values=tuple(values))
        if values[offset] != value:
            raise TwoValuesError(
                f"topic {topic_name(topic)}: offset {offset} was shown as {values[offset]} and {value}"
            )

    def confirm(self, topic: int, position: int) -> None:
        told = self.told[topic]
        self.told[topic] = Told(told.values, max(told.position, position))


class TwoValuesError(Exception):
    """Somebody was shown what contradicts what was shown before."""


Effect = Callable[[Scene], Iterator[Scene]]
"""One step of a broker's task; yields each way that it can go, none when it cannot go on."""


# An owner's round. data: kind, topic, number, value


def _write(scene: Scene) -> Iterator[Scene]:
    scene.append(scene.data)
    yield scene


def _sync(scene: Scene) -> Iterator[Scene]:
    scene.sync()
    yield scene


def _look(scene: Scene) -> Iterator[Scene]:
    if scene.is_fenced:
        scene.give_up()
    yield scene


def _acknowledge(scene: Scene) -> Iterator[Scene]:
    kind, topic, number, value = scene.data
    owned = Owned(*scene.broker.owned[topic])
    if kind == Kind.DATA:
        scene.own(topic, owned._replace(next=number + 1))
        scene.tell(topic, number, value)
    else:
        scene.own(topic, owned._replace(saved=number))
        scene.confirm(topic, number)
    yield scene


def _new_file(scene: Scene) -> Iterator[Scene]:
    home = scene.broker.home
    scene.journals[home] = scene.journals[home]._replace(closed=len(scene.journals[home].records))
    yield scene


# Taking over, and opening. data: a Takeover


class Found(NamedTuple):
    """One topic as its new owner read it."""

    first: int
    tail: tuple[int, ...] = ()
    position: int = 0


class Takeover(NamedTuple):
    """The memory of a new owner from step to step."""

    topics: tuple[int, ...]
    versions: tuple[int, ...]
    source: int
    found: tuple[Found, ...]
    position: int = NOBODY  # in the own journal: where its epoch begins


def _takeover(scene: Scene) -> Takeover:
    return Takeover._make(scene.data)


def _remember(scene: Scene, takeover: Takeover) -> None:
    scene.broker = scene.broker._replace(data=takeover)


def _fence(scene: Scene) -> Iterator[Scene]:
    source = _takeover(scene).source
    scene.journals[source] = scene.journals[source]._replace(fenced=True)
    yield scene


def _read(scene: Scene) -> Iterator[Scene]:
    """Read what the shared folder shows: all that is synced and any part of the rest."""
    takeover = _takeover(scene)
    source = scene.journals[takeover.source]
    broker = scene.broker
    if source.gone:
        scene.end_task()
        yield scene
        return
    results: set[tuple[Found, ...]] = set()
    for end in range(max(source.synced, source.closed), len(source.records) + 1):
        found = source.sound(end)
        mark = max([source.closed, *(record.mark for record in found)])
        if mark <= len(found):  # else the journal is damaged, and the reader refuses it
            results.add(tuple(_found(found, mark, topic, scene.topics[topic]) for topic in takeover.topics))
    for result in sorted(results):
        scene.broker = broker
        _remember(scene, takeover._replace(found=result))
        yield scene


def _found(records: tuple[Record, ...], mark: int, topic: int, meta: Topic) -> Found:
    epoch = meta.epochs[-1]
    first = epoch.first
    tail: list[int] = []
    position = 0
    for number, record in enumerate(records[epoch.position :], epoch.position):
        if record.topic != topic:
            continue
        if record.kind == Kind.CURSOR:
            position = record.number
        elif record.number >= epoch.first and epoch.end == NOBODY:
            if number < mark:
                first = record.number + 1
            else:
                tail.append(record.value)
    return Found(first if epoch.end == NOBODY else epoch.end, tuple(tail), position)


def _append_again(scene: Scene) -> Iterator[Scene]:
    takeover = _takeover(scene)
    records = [
        (Kind.DATA, topic, offset, value)
        for topic, found in zip(takeover.topics, takeover.found, strict=True)
        for offset, value in enumerate(found.tail, found.first)
    ]
    _take_in(scene, records)
    yield scene


def _copy_cursors(scene: Scene) -> Iterator[Scene]:
    takeover = _takeover(scene)
    pairs = zip(takeover.topics, takeover.found, strict=True)
    _take_in(scene, [(Kind.CURSOR, topic, found.position, 0) for topic, found in pairs if found.position])
    yield scene


def _take_in(scene: Scene, records: list[tuple[int, int, int, int]]) -> None:
    position = scene.append(*records)
    if _takeover(scene).position == NOBODY:
        _remember(scene, _takeover(scene)._replace(position=position))


def _seal(scene: Scene) -> Iterator[Scene]:
    """One transaction; topics that are somebody else's by now are left out. None when the own journal is struck off."""
    _take_in(scene, [])
    if scene.journals[scene.broker.home].struck_off:
        scene.give_up()
        yield scene
        return
    takeover = _takeover(scene)
    won = []
    for topic, version, found in zip(takeover.topics, takeover.versions, takeover.found, strict=True):
        meta = scene.topics[topic]
        if meta.version != version:
            scene.own(topic, ())
            continue
        won.append((topic, found))
        last = meta.epochs[-1]._replace(end=found.first)
        begun = Epoch(scene.broker.home, takeover.position, found.first)
        scene.topics[topic] = Topic(version + 1, (*meta.epochs[:-1], last, begun), meta.kept)
    _remember(scene, takeover._replace(topics=tuple(t for t, _ in won), versions=(), found=tuple(f for _, f in won)))
    yield scene


def _serve_taken(scene: Scene) -> Iterator[Scene]:
    takeover = _takeover(scene)
    for topic, found in zip(takeover.topics, takeover.found, strict=True):
        end = found.first + len(found.tail)
        scene.own(topic, Owned(end, found.position, found.position))
        _tell_all(scene, topic)
        for offset, value in enumerate(found.tail, found.first):
            scene.tell(topic, offset, value)
    yield scene


def _tell_all(scene: Scene, topic: int) -> None:
    found = stored(tuple(scene.journals), topic, scene.topics[topic], durable=False)
    if found.wrong:
        raise TwoValuesError(f"topic {topic_name(topic)}: {found.wrong}")
    for offset, value in enumerate(found.values):
        scene.tell(topic, offset, value)


# A restart


def _cut(scene: Scene) -> Iterator[Scene]:
    journal = scene.journals[scene.broker.home]
    sound = journal.sound(len(journal.records))
    scene.journals[scene.broker.home] = journal._replace(records=sound, synced=min(journal.synced, len(sound)))
    yield scene


def _serve_restarted(scene: Scene) -> Iterator[Scene]:
    for topic, meta in enumerate(scene.topics):
        if meta.epochs[-1].journal == scene.broker.home and meta.epochs[-1].end == NOBODY:
            found = stored(tuple(scene.journals), topic, meta, durable=False)
            _tell_all(scene, topic)
            scene.own(topic, Owned(len(found.values), found.position, found.position))
    yield scene


# Giving away by plan. data: topic, version, whether it is stopped, where it ends, what consumers acknowledged


def _stop(scene: Scene) -> Iterator[Scene]:
    topic, version, _, end, acknowledged = scene.data
    scene.broker = scene.broker._replace(data=(topic, version, True, end, acknowledged))
    yield scene


def _flush(scene: Scene) -> Iterator[Scene]:
    """A round of the owner's, which is explored on its own: here it is one step."""
    topic = scene.data[0]
    if scene.broker.owned[topic]:
        owned = Owned(*scene.broker.owned[topic])
        scene.own(topic, owned._replace(saved=owned.acknowledged))
        position = owned.acknowledged
    else:
        position = scene.data[4]
    if position:
        scene.append((Kind.CURSOR, topic, position, 0))
        scene.sync()
    if scene.is_fenced:
        scene.give_up()
    yield scene


def _seal_given(scene: Scene) -> Iterator[Scene]:
    topic, version, _, end, _ = scene.data
    if scene.broker.owned[topic]:
        end = Owned(*scene.broker.owned[topic]).next
    meta = scene.topics[topic]
    if meta.version == version:
        last = meta.epochs[-1]._replace(end=end)
        scene.topics[topic] = Topic(version + 1, (*meta.epochs[:-1], last), meta.kept)
        yield scene
    else:
        scene.own(topic, ())
        scene.end_task()
        yield scene


def _ready(scene: Scene) -> Iterator[Scene]:
    topic, version, stopped, _, _ = scene.data
    if scene.broker.owned[topic]:
        owned = Owned(*scene.broker.owned[topic])
        scene.confirm(topic, owned.acknowledged)  # a planned move gives every position on, confirmed or not
        scene.own(topic, ())
        scene.broker = scene.broker._replace(data=(topic, version, stopped, owned.next, owned.acknowledged))
    yield scene


# Flushing what former owners left. data: topic, version, the values that are in segments once it is done


def _gather(scene: Scene) -> Iterator[Scene]:
    """All but the newest epoch; segments and manifest are synced with it."""
    topic, version, _ = scene.data
    meta = scene.topics[topic]
    found = stored(tuple(scene.journals), topic, meta._replace(epochs=meta.epochs[:-1]), durable=False)
    if found.wrong:
        scene.end_task()
    else:
        scene.broker = scene.broker._replace(data=(topic, version, found.values))
    yield scene


def _point(scene: Scene) -> Iterator[Scene]:
    topic, version, values = scene.data
    meta = scene.topics[topic]
    if meta.version == version:
        scene.topics[topic] = Topic(version + 1, meta.epochs[-1:], values)
    yield scene


# Removing a journal. data: which one


def _look_at(scene: Scene) -> Iterator[Scene]:
    if not scene.journals[scene.data[0]].fenced:
        scene.end_task()
    yield scene


def _strike_off(scene: Scene) -> Iterator[Scene]:
    scene.journals[scene.data[0]] = scene.journals[scene.data[0]]._replace(struck_off=True)
    yield scene


def _ask(scene: Scene) -> Iterator[Scene]:
    if any(epoch.journal == scene.data[0] for meta in scene.topics for epoch in meta.epochs):
        scene.end_task()
    yield scene


def _remove(scene: Scene) -> Iterator[Scene]:
    """Remove a journal and its fence; a missing journal counts as fenced."""
    struck_off = scene.journals[scene.data[0]].struck_off
    scene.journals[scene.data[0]] = Journal(fenced=True, struck_off=struck_off, gone=True)
    yield scene


EFFECTS: dict[tuple[Part, Step], Effect] = {
    (Part.OWN, Step.WRITE): _write,
    (Part.OWN, Step.SYNC): _sync,
    (Part.OWN, Step.LOOK): _look,
    (Part.OWN, Step.ACKNOWLEDGE): _acknowledge,
    (Part.TAKEOVER, Step.FENCE): _fence,
    (Part.TAKEOVER, Step.READ): _read,
    (Part.TAKEOVER, Step.APPEND_AGAIN): _append_again,
    (Part.TAKEOVER, Step.COPY_CURSORS): _copy_cursors,
    (Part.TAKEOVER, Step.SYNC): _sync,
    (Part.TAKEOVER, Step.SEAL): _seal,
    (Part.TAKEOVER, Step.SERVE): _serve_taken,
    (Part.RELEASE, Step.STOP): _stop,
    (Part.RELEASE, Step.FLUSH): _flush,
    (Part.RELEASE, Step.SEAL): _seal_given,
    (Part.RELEASE, Step.READY): _ready,
    (Part.OPEN, Step.READ): _read,
    (Part.OPEN, Step.COPY_CURSORS): _copy_cursors,
    (Part.OPEN, Step.SYNC): _sync,
    (Part.OPEN, Step.BEGIN): _seal,
    (Part.OPEN, Step.SERVE): _serve_taken,
    (Part.RESTART, Step.TRUNCATE): _cut,
    (Part.RESTART, Step.SYNC): _sync,
    (Part.RESTART, Step.LOOK): _look,
    (Part.RESTART, Step.SERVE): _serve_restarted,
    (Part.ROTATE, Step.SYNC): _sync,
    (Part.ROTATE, Step.NEW_FILE): _new_file,
    (Part.FLUSH, Step.GATHER): _gather,
    (Part.FLUSH, Step.POINT): _point,
    (Part.REMOVE_JOURNAL, Step.LOOK): _look_at,
    (Part.REMOVE_JOURNAL, Step.STRIKE_OFF): _strike_off,
    (Part.REMOVE_JOURNAL, Step.ASK): _ask,
    (Part.REMOVE_JOURNAL, Step.REMOVE): _remove,
}
