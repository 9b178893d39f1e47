"""The state against a dictionary: random commands, the same answers, the same state."""

import asyncio
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from danube.metadata.commands import (
    Applied,
    Command,
    Conflicted,
    ExpireLease,
    GrantLease,
    Lease,
    LeaseGiven,
    LeaseMissing,
    Outcome,
    RenewLease,
    RevokeLease,
    Transact,
)
from danube.metadata.memory import MemoryStore
from danube.metadata.state import State, apply
from danube.metadata.store import (
    Changed,
    Condition,
    Delete,
    DeletePrefix,
    Put,
    Removed,
    Resync,
    Transaction,
    Watch,
    Write,
)
from danube.testing.simulated.clock import SimClock

KEYS = ["/a", "/a/b", "/a/b/c", "/a/bc", "/a/b0", "/é", "/a/b-"]
LAST_KEY = "/a/~"  # told last in every snapshot
PREFIXES = ["/a", "/a/b", "/a/b/c", "/é"]

keys = st.sampled_from(KEYS)
lease_ids = st.integers(0, 4)
writes = st.one_of(
    st.builds(Put, keys, st.binary(max_size=3), lease_ids),
    st.builds(Delete, keys),
    st.builds(DeletePrefix, st.sampled_from(PREFIXES)),
)
conditions = st.builds(Condition, keys, st.integers(0, 6))
transactions = st.builds(
    Transaction,
    st.sampled_from(["", "", "x", "y", "z"]),
    st.lists(conditions, max_size=2).map(tuple),
    st.lists(writes, max_size=4).map(tuple),
)
commands = st.lists(
    st.one_of(
        st.builds(Transact, transactions),
        st.builds(Transact, transactions),
        st.builds(GrantLease, st.just(""), st.just(5.0)),
        st.builds(RenewLease, lease_ids),
        st.builds(RevokeLease, lease_ids),
        st.builds(ExpireLease, lease_ids, st.integers(0, 1)),
    ),
    max_size=20,
)


@dataclass
class Model:
    """What the store should be, written as simply as it can be."""

    revision: int = 0
    keys: dict[str, tuple[bytes, int, int, int]] = field(default_factory=dict)
    leases: dict[int, int] = field(default_factory=dict)
    granted: int = 0
    outcomes: dict[str, Outcome] = field(default_factory=dict)

    def apply(self, command: Command) -> Outcome:
        match command:
            case Transact(transaction):
                return self.transact(transaction)
            case GrantLease():
                self.granted += 1
                self.leases[self.granted] = 0
                return LeaseGiven(Lease(self.granted, 5.0))
            case RenewLease(lease_id):
                if lease_id not in self.leases:
                    return LeaseMissing(lease_id)
                self.leases[lease_id] += 1
                return LeaseGiven(Lease(lease_id, 5.0, self.leases[lease_id]))
            case RevokeLease(lease_id):
                return self.end(lease_id)
            case ExpireLease(lease_id, renewals):
                return self.end(lease_id if self.leases.get(lease_id) == renewals else 0)

    def transact(self, transaction: Transaction) -> Outcome:
        name = transaction.transaction_id
        if not name:
            return self.transact_now(transaction)
        if name not in self.outcomes:
            self.outcomes[name] = self.transact_now(transaction)
        return self.outcomes[name]

    def transact_now(self, transaction: Transaction) -> Outcome:
        for condition in transaction.conditions:
            found = self.keys[condition.key][2] if condition.key in self.keys else 0
            if found != condition.revision:
                return Conflicted(condition.key, condition.revision, found)
        for write in transaction.writes:
            if isinstance(write, Put) and write.lease_id and write.lease_id not in self.leases:
                return LeaseMissing(write.lease_id)
        before = dict(self.keys)
        for write in transaction.writes:
            self.write(write)
        self.revision += self.keys != before
        return Applied(self.revision)

    def write(self, write: Write) -> None:
        new = self.revision + 1
        match write:
            case Put(key, value, lease_id):
                created = self.keys[key][1] if key in self.keys else new
                self.keys[key] = (value, created, new, lease_id)
            case Delete(key):
                self.keys.pop(key, None)
            case DeletePrefix(prefix):
                self.keys = {
                    key: rest for key, rest in self.keys.items() if key != prefix and not key.startswith(f"{prefix}/")
                }

    def end(self, lease_id: int) -> Outcome:
        if self.leases.pop(lease_id, None) is not None:
            kept = {key: rest for key, rest in self.keys.items() if rest[3] != lease_id}
            self.revision += kept != self.keys
            self.keys = kept
        return Applied(self.revision)

    def below(self, prefix: str) -> list[tuple[str, bytes, int, int, int]]:
        return sorted((key, *rest) for key, rest in self.keys.items() if key.startswith(f"{prefix}/"))


def check(store: State, model: Model) -> None:
    for prefix in ("", *PREFIXES):
        found = [(e.key, e.value, e.created_revision, e.revision, e.lease_id) for e in store.below(prefix)]
        assert found == model.below(prefix)
    assert store.revision == model.revision
    assert {lease_id: store.lease(lease_id) for lease_id in range(5)} == {
        lease_id: Lease(lease_id, 5.0, model.leases[lease_id]) if lease_id in model.leases else None
        for lease_id in range(5)
    }


@given(commands)
def test_state_in_memory_agrees_with_the_model(history: list[Command]) -> None:
    state, model = State(), Model()
    for command in history:
        assert apply(state, command).outcome == model.apply(command)
        check(state, model)
        state.validate()


@settings(max_examples=30)
@given(commands, st.sets(st.integers(0, 20)))
def test_watcher_that_reads_now_and_then_always_ends_up_with_what_is_there(
    history: list[Command], reads: set[int]
) -> None:
    asyncio.run(follow(history, reads))


async def follow(history: list[Command], reads: set[int]) -> None:
    store = MemoryStore(SimClock(), watch_events_max=3)
    watch = store.watch("/a")
    seen: dict[str, bytes] = {}
    for step, command in enumerate(history):
        store._apply(command)
        if step in reads:
            await read_up_to(watch, await store.put(LAST_KEY, b""), seen)
    await read_up_to(watch, await store.put(LAST_KEY, b""), seen)
    assert seen == {entry.key: entry.value for entry in await store.list("/a")}
    await store.close()


async def read_up_to(watch: Watch, revision: int, seen: dict[str, bytes]) -> None:
    async for event in watch:
        match event:
            case Resync():
                seen.clear()
            case Removed(key):
                del seen[key]
            case Changed(entry):
                seen[entry.key] = entry.value
                if entry.revision == revision:
                    return
