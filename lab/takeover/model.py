"""Model checker of the takeover protocol and its fences: every interleaving of a few brokers, to a bound.

    python -m lab.takeover.model --writes 3 --takes 2
    python -m lab.takeover.model --leave-out takeover fence

Two topics share one journal. Brokers write, begin new files, acknowledge, consume, move topics by plan, take them over
by force, flush what former owners left, remove unneeded journals, die, restart, and are paused at any point for any
time. Leases are worthless: anybody may take over at any moment. A power cut kills all of them and keeps any prefix
between what was synced and what was written. Another broker sees what was synced, and of the rest any prefix: a shared
folder shows it when it likes.

The steps and their order are those of `danube.storage.takeover.steps`. In every state that can be reached these hold:
what was told is what a power cut would leave; a confirmed position is not lost; no cursor is beyond its log; offsets
have no gap and no double; no epoch is in a journal that was removed.

Two reductions, both sound. Brokers are told apart by their journals only, so permuting them changes nothing. A step
that only tells (acknowledge, serve) is taken at once with the step before it: what was told must stay true from then
on, so telling early can only find more that is wrong.
What it leaves out: while a broker takes or gives a topic, a round of its others is one step (its steps are explored
where nothing else is under way), a round holds one record, and no disk lies.
States are known by their hash of 64 bits: with some millions of them a collision, which would hide a state, has a
chance of less than one in a million.
"""

import argparse
import gc
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import product

from danube.storage.takeover.steps import PROTOCOL, Part, Protocol, Step
from lab.takeover.effects import EFFECTS, Found, Scene, Takeover, TwoValuesError
from lab.takeover.state import (
    NOBODY,
    Broker,
    Budget,
    Kind,
    Owned,
    Role,
    State,
    first_state,
    topic_name,
    violation,
)

_PARTS = tuple(Part)
_TELLING = (Step.ACKNOWLEDGE, Step.SERVE)

Next = tuple[str, State | str]  # an event, and the state after it or the promise that it broke


@dataclass(slots=True)
class Exploration:
    """The result of an exploration."""

    states: int = 0
    depth: int = 0  # of the longest way that was looked at, in steps
    is_whole: bool = True  # whether every state within the budget was seen
    broken: str | None = None  # the first promise that was found broken, by one of the shortest ways
    story: list[str] = field(default_factory=list)  # that way
    done: set[tuple[Part, Step]] = field(default_factory=set)  # every step that some broker took


class Model:
    """The world of one protocol."""

    def __init__(self, protocol: Protocol = PROTOCOL) -> None:
        self._protocol = protocol
        self.done: set[tuple[Part, Step]] = set()

    def successors(self, state: State) -> Iterator[Next]:
        """Every state that may come next."""
        before: Broker | None = None
        for number, broker in enumerate(state.brokers):
            if broker != before:
                yield from self._of_broker(state, number)
            before = broker
        if state.budget.power_cuts:
            yield from _power_cuts(state)

    def _of_broker(self, state: State, number: int) -> Iterator[Next]:
        role = state.brokers[number].role
        if role == Role.DEAD:
            yield from self._start(state, number)
            return
        if role == Role.UP:
            yield from self._rounds(state, number)
            yield from _consumed(state, number)
            yield from self._hand_overs(state, number)
            yield from self._tidying(state, number)
        else:
            yield from self._go_on(Scene(state, number))
            yield from _meanwhile(state, number, _PARTS[role - Role.TASK])
        if state.budget.kills:
            yield from _kills(state, number)

    # What a broker may begin

    def _start(self, state: State, number: int) -> Iterator[Next]:
        scene = Scene(state, number)
        if scene.broker.home == NOBODY:
            scene.broker = Broker(Role.UP)
            yield "a broker starts anew", scene.state()
        else:
            yield from self._begin(scene, Part.RESTART, ())

    def _rounds(self, state: State, number: int) -> Iterator[Next]:
        broker = state.brokers[number]
        for topic, entry in enumerate(broker.owned):
            if not entry:
                continue
            owned = Owned(*entry)
            if state.budget.writes:
                scene = Scene(state, number)
                scene.spend(writes=1)
                yield from self._begin(scene, Part.OWN, (Kind.DATA, topic, owned.next, state.budget.writes))
            if owned.acknowledged > owned.saved:
                yield from self._begin(Scene(state, number), Part.OWN, (Kind.CURSOR, topic, owned.acknowledged, 0))
        if state.budget.new_files and broker.home != NOBODY:
            journal = state.journals[broker.home]
            if journal.closed < len(journal.records):
                scene = Scene(state, number)
                scene.spend(new_files=1)
                yield from self._begin(scene, Part.ROTATE, ())

    def _hand_overs(self, state: State, number: int) -> Iterator[Next]:
        broker = state.brokers[number]
        if state.budget.takes:
            for part, topics in _takeable(state, broker.home):
                scene = Scene(state, number)
                scene.spend(takes=1)
                metas = [state.topics[topic] for topic in topics]
                found = tuple(Found(max(meta.epochs[-1].first, meta.epochs[-1].end)) for meta in metas)
                source = metas[0].epochs[-1].journal
                yield _prepared(scene, part, Takeover(topics, tuple(meta.version for meta in metas), source, found))
        if state.budget.moves:
            for topic, entry in enumerate(broker.owned):
                if entry and state.topics[topic].epochs[-1].journal == broker.home:
                    scene = Scene(state, number)
                    scene.spend(moves=1)
                    yield _prepared(scene, Part.RELEASE, (topic, state.topics[topic].version, 0, 0, 0))

    def _tidying(self, state: State, number: int) -> Iterator[Next]:
        broker = state.brokers[number]
        for topic, entry in enumerate(broker.owned if state.budget.cuts else ()):
            meta = state.topics[topic]
            if entry and len(meta.epochs) > 1 and meta.epochs[-1].journal == broker.home:
                scene = Scene(state, number)
                scene.spend(cuts=1)
                yield from self._begin(scene, Part.FLUSH, (topic, meta.version, ()))
        for home, journal in enumerate(state.journals if state.budget.retires else ()):
            if home != broker.home and journal.fenced and not journal.gone:
                scene = Scene(state, number)
                scene.spend(retires=1)
                yield from self._begin(scene, Part.REMOVE_JOURNAL, (home,))

    # Steps

    def _begin(self, scene: Scene, part: Part, data: tuple[object, ...]) -> Iterator[Next]:
        """Begin a task whose beginning nobody can tell from its first step."""
        scene.broker = scene.broker._replace(role=Role.TASK + _PARTS.index(part), step=0, data=data)
        return self._go_on(scene)

    def _go_on(self, scene: Scene) -> Iterator[Next]:
        """Take the next step of the broker's task, and with it those that only tell."""
        broker = scene.broker
        part = _PARTS[broker.role - Role.TASK]
        steps = self._protocol[part]
        told = steps[broker.step + 1 : broker.step + 2]
        told = told if told and told[0] in _TELLING else ()
        label = f"{_name(broker)}, {part}: {', '.join([steps[broker.step], *told])}{_object(part, broker)}"
        journals, topics, all_told = list(scene.journals), list(scene.topics), list(scene.told)
        for changed in EFFECTS[part, steps[broker.step]](scene):
            try:
                yield label, self._after(changed, part, (steps[broker.step], *told))
            except TwoValuesError as error:
                yield label, str(error)
            scene.journals, scene.topics, scene.told = list(journals), list(topics), list(all_told)

    def _after(self, scene: Scene, part: Part, steps: tuple[Step, ...]) -> State:
        self.done.add((part, steps[0]))
        for step in steps[1:]:
            if scene.broker.role >= Role.TASK:
                self.done.add((part, step))
                for _ in EFFECTS[part, step](scene):
                    pass
        broker = scene.broker
        if broker.role >= Role.TASK:
            step_after = broker.step + len(steps)
            if step_after == len(self._protocol[part]):
                scene.broker = Broker(Role.UP, broker.home, broker.owned)
            else:
                scene.broker = broker._replace(step=step_after)
        return scene.state()


def explore(
    protocol: Protocol, budget: Budget, *, brokers: int = 3, depth_max: int = 1_000, spread: bool = False
) -> Exploration:
    """Go through every state within the budget, the nearest first, until one breaks a promise.

    It begins with all topics in one journal; with `spread` each is in one of its own.
    """
    with _nothing_is_garbage():
        return _explore(Model(protocol), first_state(budget, brokers, spread=spread), depth_max)


def _explore(model: Model, first: State, depth_max: int) -> Exploration:
    came_from = {hash(first): 0}
    found = Exploration(done=model.done)
    level = [first]
    while level and found.depth < depth_max:
        found.depth += 1
        following: list[State] = []
        for state in level:
            for label, after in model.successors(state):
                broken = after if isinstance(after, str) else None
                if isinstance(after, State):
                    key = hash(after)
                    if key in came_from:
                        continue
                    came_from[key] = hash(state)
                    following.append(after)
                    broken = violation(after)
                if broken is not None:
                    found.states, found.broken = len(came_from), broken
                    found.story = [*_story(model, first, came_from, hash(state)), label]
                    return found
        level = following
    found.states, found.is_whole = len(came_from), not level
    return found


@contextmanager
def _nothing_is_garbage() -> Iterator[None]:
    """States hold no cycles: the collector would go through millions of them again and again, and find nothing."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _story(model: Model, first: State, came_from: dict[int, int], key: int) -> list[str]:
    """The way to a state: its hashes are known, the steps between them are found again."""
    way = [key]
    while came_from[way[-1]]:
        way.append(came_from[way[-1]])
    state, labels = first, []
    for wanted in reversed(way[:-1]):
        for label, after in model.successors(state):
            if isinstance(after, State) and hash(after) == wanted:
                state = after
                labels.append(label)
                break
    return labels


# What needs no protocol


def _takeable(state: State, home: int) -> Iterator[tuple[Part, tuple[int, ...]]]:
    """Topics that a broker may take over by force, one or all of a journal, and those that it may open."""
    by_journal: dict[int, tuple[int, ...]] = {}
    for topic, meta in enumerate(state.topics):
        epoch = meta.epochs[-1]
        if epoch.end != NOBODY:
            yield Part.OPEN, (topic,)
        elif epoch.journal != home:
            yield Part.TAKEOVER, (topic,)
            by_journal[epoch.journal] = (*by_journal.get(epoch.journal, ()), topic)
    for topics in by_journal.values():
        if len(topics) > 1:
            yield Part.TAKEOVER, topics


def _prepared(scene: Scene, part: Part, data: tuple[object, ...]) -> Next:
    """Begin a task with what the metadata says now; the first step may come much later."""
    broker = scene.broker
    scene.broker = broker._replace(role=Role.TASK + _PARTS.index(part), step=0, data=data)
    return f"{_name(broker)} begins: {part}{_object(part, scene.broker)}", scene.state()


def _consumed(state: State, number: int) -> Iterator[Next]:
    """Consumers acknowledge all that they can see; where they stand is in memory only."""
    broker = state.brokers[number]
    for topic, entry in enumerate(broker.owned):
        if entry and state.budget.consumes and Owned(*entry).next > Owned(*entry).acknowledged:
            scene = Scene(state, number)
            scene.spend(consumes=1)
            scene.own(topic, Owned(*entry)._replace(acknowledged=Owned(*entry).next))
            yield f"{_name(broker)}: consumers of {topic_name(topic)} acknowledge all", scene.state()


def _meanwhile(state: State, number: int, part: Part) -> Iterator[Next]:
    """While it gives a topic away or takes one, an owner goes on: with that one, too, until it has stopped it."""
    broker = state.brokers[number]
    topics = [topic for topic, entry in enumerate(broker.owned) if entry]
    if part is Part.RELEASE:
        given, _, stopped, *_ = broker.data
        topics = [] if stopped or not broker.step else [topic for topic in topics if topic == given]
        if topics:
            yield from _consumed(state, number)
    elif part not in {Part.TAKEOVER, Part.OPEN}:
        return
    for topic in topics if state.budget.writes else ():
        yield _round_at_once(state, number, topic)


def _round_at_once(state: State, number: int, topic: int) -> Next:
    """All steps of an owner's round."""
    scene = Scene(state, number)
    scene.spend(writes=1)
    owned = Owned(*scene.broker.owned[topic])
    scene.append((Kind.DATA, topic, owned.next, state.budget.writes))
    scene.sync()
    if scene.is_fenced:
        scene.give_up()
    else:
        scene.own(topic, owned._replace(next=owned.next + 1))
        scene.tell(topic, owned.next, state.budget.writes)
    label = f"{_name(state.brokers[number])} writes and acknowledges {topic_name(topic)}{owned.next} meanwhile"
    return label, scene.state()


def _kills(state: State, number: int) -> Iterator[Next]:
    broker = state.brokers[number]
    if broker.role == Role.UP and broker.home == NOBODY:
        return
    scene = Scene(state, number)
    scene.spend(kills=1)
    scene.broker = Broker(Role.DEAD, broker.home)
    yield f"{_name(broker)} is killed", scene.state()
    if broker.role == Role.UP and any(broker.owned) and state.budget.writes:
        scene.append((Kind.TORN, 0, 0, 0))
        yield f"{_name(broker)} is killed in the midst of a write", scene.state()


def _power_cuts(state: State) -> Iterator[Next]:
    """Everything dies; of each journal any part is left, but at least what is synced."""
    brokers = tuple(sorted(Broker(Role.DEAD, broker.home) for broker in state.brokers))
    budget = state.budget._replace(power_cuts=state.budget.power_cuts - 1)
    ends = [range(journal.synced, len(journal.records) + 1) for journal in state.journals]
    for kept in product(*ends):
        journals = tuple(
            journal._replace(records=journal.records[:end], closed=min(journal.closed, end))
            for journal, end in zip(state.journals, kept, strict=True)
        )
        label = f"power cut, {', '.join(f'journal {n} keeps {end}' for n, end in enumerate(kept))}"
        yield label, State(journals, state.topics, brokers, state.told, budget)


def _name(broker: Broker) -> str:
    return "a broker without a journal" if broker.home == NOBODY else f"broker of journal {broker.home}"


def _object(part: Part, broker: Broker) -> str:
    if part in {Part.TAKEOVER, Part.OPEN}:
        takeover = Takeover._make(broker.data)
        return f" ({', '.join(map(topic_name, takeover.topics))} of journal {takeover.source})"
    if part is Part.OWN:
        kind, topic, number, _ = broker.data
        return f" ({'data' if kind == Kind.DATA else 'cursor'} {'AB'[int(str(topic))]}{number})"
    if part is Part.REMOVE_JOURNAL:
        return f" (journal {broker.data[0]})"
    if part is Part.FLUSH:
        return f" ({topic_name(int(str(broker.data[0])))})"
    return f" ({'AB'[int(str(broker.data[0]))]})" if part is Part.RELEASE else ""


# The command


def main() -> int:
    """Explore as the command line asks; answers 1 when a promise is broken."""
    parser = argparse.ArgumentParser(prog="python -m lab.takeover.model", description=__doc__.split("\n")[0])
    for name, default in Budget()._asdict().items():
        parser.add_argument(
            f"--{name.replace('_', '-')}", type=int, default=default, help=f"how many (default {default})"
        )
    parser.add_argument("--brokers", type=int, default=3)
    parser.add_argument("--spread", action="store_true", help="begin with each topic in a journal of its own")
    parser.add_argument("--depth", type=int, default=1_000, help="explore no way longer than this")
    parser.add_argument("--leave-out", nargs=2, metavar=("PART", "STEP"), help="a step of the protocol to leave out")
    parser.add_argument("--swap", nargs=2, metavar=("PART", "STEP"), help="a step to swap with the one after it")
    asked = parser.parse_args()
    protocol = PROTOCOL
    if asked.leave_out:
        protocol = protocol.without(Part(asked.leave_out[0]), Step(asked.leave_out[1]))
    if asked.swap:
        part = Part(asked.swap[0])
        protocol = protocol.swapped(part, protocol[part].index(Step(asked.swap[1])))
    budget = Budget(*(getattr(asked, name) for name in Budget._fields))
    started_s = time.monotonic()
    found = explore(protocol, budget, brokers=asked.brokers, depth_max=asked.depth, spread=asked.spread)
    whole = "until one broke" if found.broken else "all there are" if found.is_whole else f"to depth {found.depth}"
    sys.stdout.write(f"{found.states:,} states, {whole}, {time.monotonic() - started_s:.0f} s: ")
    sys.stdout.write("every promise holds\n" if found.broken is None else f"broken: {found.broken}\n")
    for number, label in enumerate(found.story, 1):
        sys.stdout.write(f"{number:3}. {label}\n")
    return 1 if found.broken else 0


if __name__ == "__main__":
    sys.exit(main())
