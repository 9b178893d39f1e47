"""The checker of histories, against a true register, against broken ones, and against every order there is."""

import itertools
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from danube.metadata.commands import Applied, Transact
from danube.metadata.state import State, apply
from danube.metadata.store import Condition, Delete, Entry, Put, Transaction
from lab.linearizability.checker import Decision, Verdict, check, groups
from lab.linearizability.history import MODEL, Call, Change, Expiry, Operation, Read, Refused, settle_seen

KEYS = ("/a", "/b", "/c")
seeds = st.integers(0, 2**32)


@dataclass
class Store:
    """A true register: the state that every store applies its commands to."""

    state: State = field(default_factory=State)
    ids: "itertools.count[int]" = field(default_factory=itertools.count)

    def read(self, *keys: str) -> Read:
        return Read(keys, tuple(self.state.entry(key) for key in keys))

    def change(self, conditions: tuple[Condition, ...], *writes: Put | Delete) -> Change | Refused:
        outcome = apply(self.state, Transact(Transaction("", conditions, writes))).outcome
        return Change(conditions, writes, outcome.revision) if isinstance(outcome, Applied) else Refused(conditions)

    def put(self, key: str) -> Change:
        made = self.change((), Put(key, b"v%d" % next(self.ids)))
        assert isinstance(made, Change)
        return made

    def some(self, rng: random.Random, told: Sequence[int]) -> Call:
        """Any operation at all; `told` are revisions that a client knows of."""
        key, other = rng.sample(KEYS[:2], 2)
        expected = Condition(key, rng.choice([*told[-3:], 0]))
        put = Put(key, b"v%d" % next(self.ids))
        kinds: list[Callable[[], Call]] = [
            lambda: self.change((), put),
            lambda: self.change((expected,), put),
            lambda: self.change((), Delete(key)),
            lambda: self.change((expected,), put, Put(other, put.value + b"+")),
            lambda: self.read(key, other),
            lambda: self.read(KEYS[2]),
            lambda: self.change((), Put(KEYS[2], put.value)),
            lambda: self.read(key),
        ]
        return rng.choice(kinds)()


def history_of(seed: int, *, clients: int = 4, length: int = 40, unknown: float = 0.1) -> list[Operation]:
    """What clients of a true register see that answers after any time, and at times not at all."""
    rng, store = random.Random(seed), Store()
    history: list[Operation] = []
    told: list[int] = []
    free_s = [0.0] * clients
    for moment in range(length):
        client = min(range(clients), key=lambda index: free_s[index])
        now_s = max(free_s[client], float(moment))
        called_s = now_s - rng.uniform(0, now_s - free_s[client])
        returned_s = now_s + rng.choice([0.01, 0.5, 5.0]) * rng.random()
        call = store.some(rng, told)
        if rng.random() < unknown and isinstance(call, Change):
            history.append(Operation(replace(call, revision=None), f"client {client}", called_s))
        else:
            history.append(Operation(call, f"client {client}", called_s, returned_s))
            told += told_by(call)
        free_s[client] = returned_s
    return history


def told_by(call: Call) -> list[int]:
    """The revisions of keys that a client is told: what it may compare with later."""
    if isinstance(call, Read):
        return [entry.revision for entry in call.found if entry]
    if not isinstance(call, Change) or call.revision is None or _deletes_only(call):
        return []  # what a deletion answers may be the revision of a change that nobody was told of
    return [call.revision]


def seen_in(history: Sequence[Operation]) -> dict[bytes, int]:
    reads = [one.call for one in history if isinstance(one.call, Read)]
    return {entry.value: entry.revision for read in reads for entry in read.found if entry}


def judged(history: Sequence[Operation]) -> Verdict:
    return check(settled(history))


def settled(history: Sequence[Operation]) -> list[Operation]:
    return settle_seen(history, seen_in(history))


def one_by_one(*calls: Call) -> list[Operation]:
    """A history without any concurrency."""
    return [Operation(call, "client", float(moment), moment + 0.5) for moment, call in enumerate(calls)]


# What is true is accepted


@given(seeds, st.integers(1, 8))
def test_what_clients_of_a_true_register_see_is_accepted(seed: int, clients: int) -> None:
    verdict = judged(history_of(seed, clients=clients))
    assert verdict.decision is Decision.LINEARIZABLE, [str(one) for one in verdict.refusals]


@given(seeds)
def test_outcomes_that_nobody_knows_are_no_contradiction(seed: int) -> None:
    verdict = judged(history_of(seed, unknown=0.5))
    assert verdict.decision is Decision.LINEARIZABLE, [str(one) for one in verdict.refusals]


@settings(max_examples=5)
@given(seeds)
def test_a_long_history_is_decided_in_about_as_many_steps_as_it_has_changes(seed: int) -> None:
    verdict = judged(history_of(seed, clients=10, length=1_000, unknown=0.02))
    assert verdict.decision is Decision.LINEARIZABLE
    assert verdict.steps < 3_000


# What is not true is refused, and said in few words


@settings(max_examples=25)
@given(seeds)
def test_a_read_that_is_older_than_a_change_that_returned_before_it_is_refused(seed: int) -> None:
    store, history = after(seed)
    old = store.put("/a"), store.read("/a")
    new = store.put("/a")
    refused_for(history, (*old, new, old[1]), few=3)


@settings(max_examples=25)
@given(seeds)
def test_a_change_that_was_acknowledged_and_is_gone_is_refused(seed: int) -> None:
    store, history = after(seed)
    lost = Change((), (Put("/a", b"lost"),), store.state.revision + 1)
    refused_for(history, (lost, store.read("/a")), few=3)


@settings(max_examples=25)
@given(seeds)
def test_a_change_that_took_effect_twice_is_refused(seed: int) -> None:
    store, history = after(seed)
    first, between = store.put("/a"), store.put("/a")
    store.change((), *first.writes)
    refused_for(history, (first, between, store.read("/a")), few=3)


@settings(max_examples=25)
@given(seeds)
def test_changes_that_took_effect_in_the_order_opposite_to_their_calls_are_refused(seed: int) -> None:
    store, history = after(seed)
    first, second = store.put("/a"), store.put("/a")
    swapped = replace(first, revision=second.revision), replace(second, revision=first.revision)
    refused_for(history, swapped, few=2)


def test_a_refusal_names_what_cannot_be_ordered_and_where_every_order_ends() -> None:
    store = Store()
    calls: list[Call] = [store.put("/other"), store.put("/a"), store.read("/a"), store.put("/a"), store.read("/b")]
    (refusal,) = judged(one_by_one(*calls, calls[2])).refusals
    assert str(refusal).splitlines() == [
        "no order explains these operations on /a:",
        "       0.000 ..   500.000 ms  client       put /a = v1 -> revision 2",
        "    2000.000 ..  2500.000 ms  client       put /a = v2 -> revision 3",
        ">   4000.000 ..  4500.000 ms  client       read /a -> v1 at 2",
    ]


def test_a_chain_of_comparisons_is_not_part_of_a_refusal_that_needs_only_its_end() -> None:
    store = Store()
    chain = [store.put("/a")]
    for _ in range(50):
        made = store.change((Condition("/a", store.state.revision),), Put("/a", b"v%d" % next(store.ids)))
        assert isinstance(made, Change)
        chain.append(made)
    stale = Read(("/a",), (Entry("/a", b"v49", 1, 50),))
    (refusal,) = judged(one_by_one(*chain, stale)).refusals
    assert [one.call for one in refusal.operations] == [*chain[-2:], stale]


@pytest.mark.parametrize(("revision", "fits"), [(0, True), (1, False), (2, True)])
def test_who_was_refused_must_have_had_a_condition_that_did_not_hold(revision: int, fits: bool) -> None:
    assert accepts(one_by_one(Store().put("/a"), Refused((Condition("/a", revision),)))) is fits


def test_who_was_not_refused_must_have_had_conditions_that_held() -> None:
    store = Store()
    compared = Change((Condition("/a", 1),), (Put("/a", b"x"),), 3)
    assert not accepts(one_by_one(store.put("/a"), store.put("/a"), compared))


def test_keys_of_one_transaction_change_together() -> None:
    both = Change((), (Put("/a", b"x"), Put("/b", b"x")), 1)
    torn = Read(("/a", "/b"), (Entry("/a", b"x", 1, 1), None))
    assert not accepts([Operation(both, "one", 0.0, 9.0), Operation(torn, "two", 1.0, 2.0)])


# Unknown outcomes


def test_an_unknown_change_may_take_effect_long_after_its_call_but_once() -> None:
    put = Put("/a", b"late")
    unknown = Operation(Change((), (put,)), "one", 0.0)
    absent, there = Read(("/a",), (None,)), Read(("/a",), (Entry("/a", b"late", 1, 1),))
    seen = [Operation(call, "two", at, at + 0.5) for at, call in ((1.0, absent), (2.0, absent), (3.0, there))]
    assert accepts([unknown, *seen])
    assert not accepts([unknown, *seen, Operation(absent, "two", 4.0, 4.5)])


def test_an_unknown_change_does_not_take_effect_before_its_call() -> None:
    there = Operation(Read(("/a",), (Entry("/a", b"x", 1, 1),)), "two", 0.0, 0.5)
    assert not accepts([there, Operation(Change((), (Put("/a", b"x"),)), "one", 1.0)])


def test_many_unknown_changes_that_are_alike_do_not_multiply_the_search() -> None:
    unknown = [Operation(Change((), (Put("/a", b"u%d" % i),)), "one", i / 100) for i in range(40)]
    store = Store()
    wrong = one_by_one(store.put("/a"), store.put("/a"), Read(("/a",), (Entry("/a", b"v0", 1, 1),)))
    verdict = judged([*unknown, *wrong])
    assert verdict.decision is Decision.REFUSED
    assert verdict.steps < 1_000


def test_a_search_past_its_bound_is_undecided_and_names_the_keys() -> None:
    verdict = check(settled(history_of(1, clients=8, length=200)), steps_max=10)
    assert verdict.decision is Decision.UNDECIDED
    assert "/a" in verdict.undecided


@pytest.mark.parametrize(("at_s", "fits"), [(1.0, False), (3.0, True)])
def test_a_key_goes_with_its_lease_and_no_earlier(at_s: float, fits: bool) -> None:
    put = Operation(Change((), (Put("/a", b"x", 7),), 1), "one", 0.0, 0.5)
    ends = Operation(Expiry("/a", 7), "lease", 2.0)
    gone = Operation(Read(("/a",), (None,)), "two", at_s, at_s + 0.5)
    assert accepts([put, ends, gone]) is fits


# Against every order there is


@settings(max_examples=300)
@given(seeds)
def test_the_checker_agrees_with_the_trial_of_every_order(seed: int) -> None:
    rng = random.Random(seed)
    history = history_of(seed, clients=rng.randint(1, 4), length=5, unknown=0.3)
    history = [_changed(rng, one) if rng.random() < 0.3 else one for one in history]
    assert accepts(history) is any_order_fits(history)


def _changed(rng: random.Random, operation: Operation) -> Operation:
    """Another history, which may be true or not."""
    call = operation.call
    if isinstance(call, Read):
        entry = Entry(call.wanted[0], b"v%d" % rng.randrange(5), rng.randrange(1, 4), rng.randrange(1, 5))
        return replace(operation, call=Read(call.wanted, (rng.choice([None, entry]), *call.found[1:])))
    if isinstance(call, Change) and operation.is_settled:
        return replace(operation, call=replace(call, revision=rng.choice([None, rng.randrange(1, 5)])))
    return replace(operation, returned_s=max(operation.called_s, operation.returned_s - 1))


def any_order_fits(history: Sequence[Operation]) -> bool:
    return all(_any_order_of_one_group_fits(operations) for _, operations in groups(settled(history)))


def _any_order_of_one_group_fits(history: Sequence[Operation]) -> bool:
    known = [one for one in history if one.is_settled]
    unknown = [one for one in history if not one.is_settled]
    for count in range(len(unknown) + 1):
        for some in itertools.combinations(unknown, count):
            if any(_fits(order) for order in itertools.permutations([*known, *some])):
                return True
    return False


def _fits(order: Sequence[Operation]) -> bool:
    earliest = -math.inf
    state = MODEL.initial()
    for one in order:
        earliest = max(earliest, one.called_s)
        after_it = MODEL.step(state, one.call)
        if after_it is None or one.returned_s < earliest:
            return False
        state = after_it
    return True


def accepts(history: Sequence[Operation]) -> bool:
    return judged(history).decision is Decision.LINEARIZABLE


def after(seed: int) -> tuple[Store, list[Operation]]:
    """A true history, and the register as it left it: nothing is under way and everything is known."""
    history = history_of(seed, length=15, unknown=0)
    return replayed(history), history


def replayed(history: Sequence[Operation]) -> Store:
    store = Store(ids=itertools.count(1_000))
    for operation in history:
        if isinstance(operation.call, Change):
            store.change((), *operation.call.writes)
    return store


def refused_for(history: list[Operation], calls: tuple[Call, ...], *, few: int) -> None:
    end_s = max(one.returned_s for one in history)
    more = [Operation(call, "last", end_s + 1 + at, end_s + 1.5 + at) for at, call in enumerate(calls)]
    verdict = judged([*history, *more])
    assert verdict.decision is Decision.REFUSED
    (refusal,) = verdict.refusals
    assert refusal.stuck in more
    # who finds nothing may have met any deletion
    needed = [one for one in refusal.operations if one in more or not _deletes_only(one.call)]
    assert len(needed) <= few, str(refusal)


def _deletes_only(call: Call) -> bool:
    return isinstance(call, Change) and all(isinstance(one, Delete) for one in call.writes)
