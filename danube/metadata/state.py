"""State of the metadata in memory: `memory` serves from it, and replicas apply their sequence to it."""

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass

from danube.metadata.commands import Command, Effects, Lease, Outcome, decide, prefix_bounds
from danube.metadata.store import Changed, Entry
from danube.model.limits.metadata import METADATA_OUTCOMES_MAX


@dataclass(frozen=True, slots=True)
class StateSnapshot:
    """All of a state at one moment, as values."""

    revision: int = 0
    last_lease_id: int = 0
    entries: tuple[Entry, ...] = ()
    """Sorted by key."""
    leases: tuple[Lease, ...] = ()
    outcomes: tuple[tuple[str, Outcome], ...] = ()
    """Outcomes by command id, oldest first."""


class State:
    """All keys, leases and remembered outcomes. Only `apply` changes it."""

    def __init__(self, *, outcomes_max: int = METADATA_OUTCOMES_MAX) -> None:
        self._outcomes_max = outcomes_max
        self.revision = 0
        self.last_lease_id = 0
        self._entries: dict[str, Entry] = {}
        self._sorted_keys: list[str] = []
        self._leases: dict[int, Lease] = {}
        self._leased_keys: dict[int, set[str]] = {}
        self._outcomes: OrderedDict[str, Outcome] = OrderedDict()

    @classmethod
    def of(cls, snapshot: StateSnapshot, *, outcomes_max: int = METADATA_OUTCOMES_MAX) -> "State":
        """The state that a snapshot shows."""
        state = cls(outcomes_max=outcomes_max)
        state.revision, state.last_lease_id = snapshot.revision, snapshot.last_lease_id
        state._entries = {entry.key: entry for entry in snapshot.entries}
        state._sorted_keys = sorted(state._entries)
        state._leases = {lease.lease_id: lease for lease in snapshot.leases}
        for entry in snapshot.entries:
            if entry.lease_id:
                state._leased_keys.setdefault(entry.lease_id, set()).add(entry.key)
        state._outcomes = OrderedDict(snapshot.outcomes)
        return state

    def snapshot(self) -> StateSnapshot:
        """All of it, in a few milliseconds for a hundred thousand keys: the values are shared, not copied."""
        return StateSnapshot(
            self.revision,
            self.last_lease_id,
            tuple(self._entries[key] for key in self._sorted_keys),
            tuple(self._leases.values()),
            tuple(self._outcomes.items()),
        )

    @property
    def lease_count(self) -> int:
        return len(self._leases)

    def entry(self, key: str) -> Entry | None:
        return self._entries.get(key)

    def below(self, prefix: str) -> Iterator[Entry]:
        start, end = prefix_bounds(prefix)
        first, last = bisect_left(self._sorted_keys, start), bisect_left(self._sorted_keys, end)
        return (self._entries[key] for key in self._sorted_keys[first:last])

    def lease(self, lease_id: int) -> Lease | None:
        return self._leases.get(lease_id)

    def leased_keys(self, lease_id: int) -> Iterator[str]:
        return iter(self._leased_keys.get(lease_id, ()))

    def outcome(self, command_id: str) -> Outcome | None:
        return self._outcomes.get(command_id)

    def carry_out(self, effects: Effects) -> None:
        """Write down what `decide` answered for this very state."""
        for change in effects.changes:
            if isinstance(change, Changed):
                self._set(change.entry)
            else:
                self._remove(change.key)
        self.revision = effects.revision
        if effects.lease_set:
            self._leases[effects.lease_set.lease_id] = effects.lease_set
            self.last_lease_id = max(self.last_lease_id, effects.lease_set.lease_id)
        self._leases.pop(effects.lease_ended, None)
        if effects.command_id:
            self._remember(effects.command_id, effects.outcome)

    def validate(self) -> None:
        """Raise AssertionError where the parts of the state contradict each other."""
        leased = {(entry.lease_id, key) for key, entry in self._entries.items() if entry.lease_id}
        indexed = {(lease_id, key) for lease_id, keys in self._leased_keys.items() for key in keys}
        facts = {
            "the sorted keys are the keys": self._sorted_keys == sorted(self._entries),
            "the keys by lease are the leased keys": indexed == leased and all(self._leased_keys.values()),
            "every leased key has its lease": {lease_id for lease_id, _ in leased} <= set(self._leases),
            "no key is newer than the store": all(
                0 < entry.created_revision <= entry.revision <= self.revision for entry in self._entries.values()
            ),
            "the outcomes keep their bound": len(self._outcomes) <= self._outcomes_max,
        }
        broken = [fact for fact, holds in facts.items() if not holds]
        if broken:
            raise AssertionError(f"metadata state: not true that {', '.join(broken)}")

    def _set(self, entry: Entry) -> None:
        before = self._entries.get(entry.key)
        if before is None:
            insort(self._sorted_keys, entry.key)
        else:
            self._unlease(before)
        self._entries[entry.key] = entry
        if entry.lease_id:
            self._leased_keys.setdefault(entry.lease_id, set()).add(entry.key)

    def _remove(self, key: str) -> None:
        self._unlease(self._entries.pop(key))
        del self._sorted_keys[bisect_left(self._sorted_keys, key)]

    def _unlease(self, entry: Entry) -> None:
        keys = self._leased_keys.get(entry.lease_id, set())
        keys.discard(entry.key)
        if not keys:
            self._leased_keys.pop(entry.lease_id, None)

    def _remember(self, command_id: str, outcome: Outcome) -> None:
        self._outcomes[command_id] = outcome
        while len(self._outcomes) > self._outcomes_max:
            self._outcomes.popitem(last=False)


def apply(state: State, command: Command) -> Effects:
    """Decide what `command` does and carry it out. Replicas that apply the same commands have the same state."""
    effects = decide(state, command)
    state.carry_out(effects)
    return effects
