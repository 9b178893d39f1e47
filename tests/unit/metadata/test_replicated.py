"""The store over a sequencer that does as the test says: loses, refuses, hangs. All on simulated time."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from functools import wraps
from typing import Any

import pytest

from danube.metadata.commands import ExpireLease, Transact
from danube.metadata.replication.command_format import Request, decode_request, encode_request
from danube.metadata.replication.replicated import ReplicatedStore
from danube.metadata.replication.sequencer import Follower, NotOrderedError
from danube.metadata.store import Put, Transaction
from danube.model.errors import InvalidRequestError, MetadataError, UnknownOutcomeError
from danube.model.limits.metadata import METADATA_OUTCOMES_MAX, METADATA_SUBMIT_TIMEOUT_S
from danube.runtime.rng import SystemRng
from danube.testing.simulated.clock import SimClock
from lab.kernel.time import LoopClock, run_simulated


def simulated(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @wraps(test)
    def run(**given: Any) -> None:
        run_simulated(test(**given))

    return run


class Scripted:
    """A sequencer: each submission takes the next word of the script, and `order` when there is none left.

    order: applied at once. lose: nobody hears of it. refuse: surely not ordered. hang: never answers.
    late: ordered, and this member hears of it with the next barrier.
    """

    def __init__(self, *script: str) -> None:
        self._script = list(script)
        self._follower: Follower | None = None
        self.submitted: list[bytes] = []
        self.position = 0
        self.leadership = 1
        self.barriers = 0
        self.late: list[bytes] = []
        """Stands in the sequence, and this member learns of it with the next barrier."""

    @property
    def follower(self) -> Follower:
        assert self._follower is not None
        return self._follower

    async def start(self, follower: Follower) -> None:
        self._follower = follower

    async def submit(self, request: bytes, leadership: int | None = None) -> None:
        if leadership not in {None, self.leadership}:
            raise NotOrderedError("another one leads")
        self.submitted.append(request)
        word = self._script.pop(0) if self._script else "order"
        if word == "order":
            self.order(request)
        elif word == "late":
            self.late.append(request)
        elif word == "refuse":
            raise NotOrderedError("there is no leader")
        elif word == "hang":
            await asyncio.Event().wait()

    async def barrier(self) -> None:
        self.barriers += 1
        late, self.late = self.late, []
        for request in late:
            self.order(request)

    async def close(self) -> None:
        return None

    def order(self, *requests: bytes) -> None:
        self.position += 1
        self.follower.apply(self.position, requests)


async def opened(sequencer: Scripted) -> ReplicatedStore:
    store = ReplicatedStore(sequencer, LoopClock(), SystemRng(seed=1))
    await store.start()
    return store


def now_s() -> float:
    return asyncio.get_running_loop().time()


@pytest.mark.parametrize("script", [["lose"], ["refuse", "refuse"], ["lose", "refuse", "lose"]])
@simulated
async def test_the_same_change_is_submitted_until_it_is_applied(script: Sequence[str]) -> None:
    sequencer = Scripted(*script)
    store = await opened(sequencer)
    assert await store.put("/a", b"1") == 1
    assert len(set(sequencer.submitted)) == 1
    assert len(sequencer.submitted) > 1
    await store.close()


@simulated
async def test_a_change_that_was_ordered_twice_has_effect_once() -> None:
    sequencer = Scripted("lose")
    store = await opened(sequencer)
    writing = asyncio.ensure_future(store.put("/a", b"1"))
    await asyncio.sleep(0.1)
    sequencer.order(sequencer.submitted[0], sequencer.submitted[0])
    assert await writing == 1
    assert sequencer.position == 1
    entry = await store.get("/a")
    assert entry is not None
    assert entry.revision == 1
    await store.close()


@simulated
async def test_a_member_that_slept_finds_its_change_applied_before_it_submits_it_again() -> None:
    sequencer = Scripted("late")
    store = await opened(sequencer)
    assert await store.put("/a", b"1") == 1
    assert len(sequencer.submitted) == 1, "its outcome may be forgotten by now: a second copy would undo newer changes"
    await store.close()


@simulated
async def test_a_change_of_unknown_outcome_undoes_nothing_newer_when_it_is_submitted_again_much_later() -> None:
    sequencer = Scripted(*["lose"] * 20)
    store = await opened(sequencer)
    old = Transaction("old", (), (Put("/a", b"old"),))
    with pytest.raises(UnknownOutcomeError):
        await store.transact(old)
    sequencer.order(sequencer.submitted[0])
    sequencer.order(*(_request(f"other-{number}", b"") for number in range(METADATA_OUTCOMES_MAX)))
    sequencer.order(_request("new", b"new"))
    assert await store.transact(old) == 1
    entry = await store.get("/a")
    assert entry is not None
    assert entry.value == b"new"
    await store.close()


def _request(command_id: str, value: bytes) -> bytes:
    return encode_request(Request(command_id, Transact(Transaction(command_id, (), (Put("/a", value),)))))


@simulated
async def test_a_change_that_is_never_ordered_is_unknown_in_the_end() -> None:
    store = await opened(Scripted(*["lose"] * 100))
    with pytest.raises(UnknownOutcomeError, match="submit it again"):
        await store.put("/a", b"")
    assert METADATA_SUBMIT_TIMEOUT_S <= now_s() <= METADATA_SUBMIT_TIMEOUT_S + 3.0
    await store.close()


@simulated
async def test_a_change_of_unknown_outcome_tells_why_other_attempts_were_refused() -> None:
    store = await opened(Scripted("lose", *["refuse"] * 1_000))
    with pytest.raises(UnknownOutcomeError, match=r"within 10 s \(another attempt was refused: there is no leader\)"):
        await store.put("/a", b"")
    await store.close()


@simulated
async def test_a_change_that_hangs_is_unknown_in_the_end() -> None:
    store = await opened(Scripted("refuse", "hang"))
    with pytest.raises(UnknownOutcomeError):
        await store.put("/a", b"")
    assert now_s() <= METADATA_SUBMIT_TIMEOUT_S + 3.0
    await store.close()


@simulated
async def test_a_change_that_was_always_refused_was_surely_not_made() -> None:
    store = await opened(Scripted(*["refuse"] * 1_000))
    with pytest.raises(MetadataError, match="was not made: there is no leader") as caught:
        await store.put("/a", b"")
    assert not isinstance(caught.value, UnknownOutcomeError)
    await store.close()


@simulated
async def test_one_attempt_that_may_have_worked_leaves_the_outcome_unknown() -> None:
    store = await opened(Scripted("lose", *["refuse"] * 1_000))
    with pytest.raises(UnknownOutcomeError):
        await store.put("/a", b"")
    await store.close()


@simulated
async def test_a_transaction_whose_outcome_was_unknown_is_settled_by_submitting_it_again() -> None:
    sequencer = Scripted(*["lose"] * 8)
    store = await opened(sequencer)
    change = Transaction("mine", (), (Put("/a", b""),))
    with pytest.raises(UnknownOutcomeError):
        await store.transact(change)
    sequencer.order(sequencer.submitted[0])  # it comes after all
    assert await store.transact(change) == 1
    assert (await store.list("/"))[0].revision == 1
    await store.close()


@simulated
async def test_a_caller_that_is_cancelled_leaves_its_change_to_be_settled() -> None:
    sequencer = Scripted("lose")
    store = await opened(sequencer)
    caller = asyncio.ensure_future(store.put("/a", b""))
    await asyncio.sleep(0.1)
    caller.cancel()
    await asyncio.wait([caller])
    assert caller.cancelled()
    await asyncio.sleep(5.0)
    assert await store.get("/a") is not None
    await store.close()


@simulated
async def test_closing_the_store_tells_callers_that_the_outcome_is_unknown() -> None:
    store = await opened(Scripted("lose"))
    caller = asyncio.ensure_future(store.put("/a", b""))
    await asyncio.sleep(0.1)
    await store.close()
    with pytest.raises(UnknownOutcomeError, match="closed"):
        await caller
    with pytest.raises(MetadataError, match="closed"):
        await store.put("/a", b"")


@simulated
async def test_a_sequence_that_cannot_be_followed_fails_every_call_and_does_not_hide_unknown_outcomes() -> None:
    sequencer = Scripted("lose")
    store = await opened(sequencer)
    caller = asyncio.ensure_future(store.put("/a", b""))
    await asyncio.sleep(0.1)
    sequencer.follower.failed(MetadataError("the log is damaged"))
    with pytest.raises(UnknownOutcomeError, match="may still be made"):
        await caller
    with pytest.raises(MetadataError, match="the log is damaged") as caught:
        await store.put("/b", b"")
    assert not isinstance(caught.value, UnknownOutcomeError)
    with pytest.raises(MetadataError, match="the log is damaged"):
        await store.get("/a")
    await store.close()


@simulated
async def test_what_no_sequence_could_hold_is_refused_before_it_is_submitted() -> None:
    sequencer = Scripted()
    store = await opened(sequencer)
    with pytest.raises(InvalidRequestError):
        await store.renew_lease(2**70)
    assert sequencer.submitted == []
    await store.close()


@simulated
async def test_only_a_linearizable_read_asks_the_others() -> None:
    sequencer = Scripted()
    store = await opened(sequencer)
    await store.get("/a")
    await store.list("/")
    assert sequencer.barriers == 0
    await store.get("/a", linearizable=True)
    await store.list("/", linearizable=True)
    assert sequencer.barriers == 2
    await store.close()


@simulated
async def test_a_lease_that_ran_out_is_ended_by_one_submission_however_many_read() -> None:
    sequencer = Scripted()
    store = await opened(sequencer)
    lease_id = await store.grant_lease(5.0)
    await store.put("/a", b"", lease_id=lease_id)
    submitted = len(sequencer.submitted)
    await asyncio.sleep(5.0)
    assert await asyncio.gather(*(store.get("/a") for _ in range(20))) == [None] * 20
    ends = [decode_request(request).command for request in sequencer.submitted[submitted:]]
    assert ends == [ExpireLease(lease_id, 0)]
    await store.close()


@simulated
async def test_a_lease_that_cannot_be_ended_now_does_not_keep_readers_for_long() -> None:
    clock = SimClock()
    sequencer = Scripted("order", "order", *["lose"] * 100)
    store = ReplicatedStore(sequencer, clock, SystemRng(seed=1))
    await store.start()
    await store.put("/a", b"", lease_id=await store.grant_lease(5.0))
    clock.advance(5.0)
    began_s = now_s()
    assert await store.get("/a") is not None, "nobody agreed on its end yet"
    assert now_s() - began_s <= 3.0
    await store.close()


@simulated
async def test_a_lease_whose_end_could_not_be_agreed_on_is_ended_later_without_anyone_asking() -> None:
    sequencer = Scripted("order", "order", *["refuse"] * 250)
    store = await opened(sequencer)
    await store.put("/a", b"", lease_id=await store.grant_lease(5.0))
    await asyncio.sleep(5.0 + 2 * METADATA_SUBMIT_TIMEOUT_S)
    assert sequencer.position == 3
    await store.close()


def ends_in(sequencer: Scripted) -> list[ExpireLease]:
    commands = [decode_request(request).command for request in sequencer.submitted]
    return [command for command in commands if isinstance(command, ExpireLease)]


@simulated
async def test_a_lease_that_ran_out_while_nobody_led_lasts_for_all_of_its_time_once_more() -> None:
    sequencer = Scripted()
    store = await opened(sequencer)
    await store.put("/a", b"", lease_id=await store.grant_lease(5.0))
    sequencer.leadership = 0
    await asyncio.sleep(9.0)
    assert await store.get("/a") is not None
    assert not ends_in(sequencer), "a renewal may be on its way, too"
    sequencer.leadership = 2
    sequencer.follower.led_anew()
    await asyncio.sleep(4.9)
    assert await store.get("/a") is not None
    await asyncio.sleep(0.2)
    assert await store.get("/a") is None
    await store.close()


@simulated
async def test_the_end_of_a_lease_that_was_meant_for_one_leader_is_not_given_to_the_next() -> None:
    sequencer = Scripted("order", "order", *["refuse"] * 20)
    store = await opened(sequencer)
    await store.put("/a", b"", lease_id=await store.grant_lease(5.0))
    await asyncio.sleep(5.5)
    assert ends_in(sequencer)
    sequencer.leadership = 2
    sequencer.follower.led_anew()
    sequencer._script.clear()
    await asyncio.sleep(1.0)
    assert await store.get("/a") is not None
    await store.close()


@simulated
async def test_the_lease_of_a_dead_holder_ends_at_once_and_one_that_is_renewed_meanwhile_stays() -> None:
    sequencer = Scripted()
    store = await opened(sequencer)
    dead, alive = await store.grant_lease(60.0), await store.grant_lease(60.0)
    await store.put("/dead", b"", lease_id=dead)
    await store.put("/alive", b"", lease_id=alive)
    await store.expire_lease(dead)
    assert await store.get("/dead") is None
    sequencer._script = ["lose"]
    ending = asyncio.ensure_future(store.expire_lease(alive))
    await asyncio.sleep(0.1)
    late = sequencer.submitted[-1]
    await store.renew_lease(alive)
    sequencer.order(late)
    await ending
    assert await store.get("/alive") is not None
    await store.expire_lease(dead)
    await store.close()
