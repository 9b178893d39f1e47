"""Telemetry changes: selects the readings to publish now. Pure: readings and time in, a selection out.

A tick is `begin`, `observe` for everything the broker serves, `select`, and `commit` once the selection is durable. A
selection that is not committed changes nothing: what was in it is selected again.

Promises: a reading that differs from the last published one is published, in its turn, as it is in that tick; others
only in full rounds. Turns go by waiting time, so none waits for more ticks than the bound makes necessary. A deleted
entity is published once more. The system's own topics appear in full rounds only: telemetry about telemetry would
never end.
"""

from collections.abc import Callable
from dataclasses import dataclass

from danube.model.records.telemetry import SYSTEM_NAMESPACE, SubscriptionReading, TopicReading

EntityReading = TopicReading | SubscriptionReading
Entity = tuple[str, str | None]
"""A topic's name, and for a subscription its own: a plain tuple, which costs the garbage collector nothing."""
Mark = tuple[int | None, ...]
"""Differs whenever the reading does, and costs less: a reading is only made of what has changed."""

_QUIET = f"/{SYSTEM_NAMESPACE}/"
_NEVER_S = float("-inf")


@dataclass(frozen=True, slots=True)
class Chosen:
    """One reading to publish."""

    entity: Entity
    reading: EntityReading
    full: bool
    """It is part of a full round."""
    gone: bool
    """It is the last reading of something that the broker serves no longer."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The readings to publish in one tick; false when there are none."""

    chosen: tuple[Chosen, ...]
    ends_full_round: bool

    def __bool__(self) -> bool:
        return bool(self.chosen) or self.ends_full_round


@dataclass(slots=True, eq=False)
class _Tracked:
    """The state of one entity."""

    mark: Mark
    reading: EntityReading
    seen: int
    """The last tick."""
    published: EntityReading | None = None

    @property
    def is_settled(self) -> bool:
        return self.reading == self.published


class TelemetryChanges:
    """The published readings, and those that wait."""

    def __init__(self, *, records_max: int, full_interval_s: float) -> None:
        """At most `records_max` readings in one selection; a full round begins every `full_interval_s`."""
        self._records_max = records_max
        self._full_interval_s = full_interval_s
        self._full_begun_s = _NEVER_S
        self._full_left: set[Entity] | None = None
        """What a full round under way has not published yet."""
        self._tracked: dict[Entity, _Tracked] = {}
        self._tick = 0
        self._observed = 0
        """How many in this tick."""
        self._waiting: dict[Entity, None] = {}
        """In the order of their turns."""

    def begin(self) -> None:
        """A tick begins: nothing has been observed yet."""
        self._tick += 1
        self._observed = 0

    def observe(self, entity: Entity, mark: Mark, read: Callable[[], EntityReading]) -> None:
        """Observe an entity, once a tick; `read` is called now or not at all."""
        self._observed += 1
        tracked = self._tracked.get(entity)
        if tracked is None:
            tracked = self._tracked[entity] = _Tracked(mark, read(), self._tick)
        else:
            tracked.seen = self._tick
            if tracked.mark == mark:
                return
            tracked.mark, tracked.reading = mark, read()
        if not entity[0].startswith(_QUIET):
            self._waiting.setdefault(entity)

    def select(self, now_s: float) -> Selection:
        """Select what to publish at monotonic time `now_s`, after everything was observed."""
        self._find_gone()
        if self._full_left is None and now_s >= self._full_begun_s + self._full_interval_s:
            self._full_begun_s = now_s
            self._full_left = set(self._tracked)
            self._waiting.update(dict.fromkeys(self._tracked))
        chosen = self._next_turns()
        chosen_entities = {each.entity for each in chosen}
        return Selection(chosen, self._full_left is not None and self._full_left <= chosen_entities)

    def commit(self, selection: Selection) -> None:
        """The selection of this tick is durable."""
        for each in selection.chosen:
            self._leave(each.entity)
            if each.gone:
                del self._tracked[each.entity]
            else:
                self._tracked[each.entity].published = each.reading
        if selection.ends_full_round:
            self._full_left = None

    def _find_gone(self) -> None:
        """Forget deleted entities that were never published; the others are published once more."""
        if self._observed == len(self._tracked):
            return
        for entity in [each for each, tracked in self._tracked.items() if tracked.seen != self._tick]:
            if self._tracked[entity].published is None:
                del self._tracked[entity]
                self._leave(entity)
            else:
                self._waiting.setdefault(entity)

    def _next_turns(self) -> tuple[Chosen, ...]:
        chosen: list[Chosen] = []
        settled: list[Entity] = []
        for entity in self._waiting:
            if len(chosen) == self._records_max:
                break
            tracked = self._tracked[entity]
            full = self._full_left is not None and entity in self._full_left
            gone = tracked.seen != self._tick
            if gone or full or not tracked.is_settled:
                chosen.append(Chosen(entity, tracked.reading, full, gone))
            else:
                settled.append(entity)
        for entity in settled:
            self._leave(entity)
        return tuple(chosen)

    def _leave(self, entity: Entity) -> None:
        """It had its turn."""
        self._waiting.pop(entity, None)
        if self._full_left is not None:
            self._full_left.discard(entity)
