"""What a member on a shared log does with each answer of the service. All on simulated time."""

import asyncio
import os
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import wraps
from typing import Any

import pytest

from danube.metadata.replication.sequencer import NotOrderedError
from danube.metadata.shared_log.backend import Snapshot
from danube.metadata.shared_log.entry_format import decode_entry
from danube.model.errors import InvalidRequestError, MetadataError, UnknownOutcomeError
from lab.kernel.time import run_simulated
from lab.shared_log.backend import NO_FAULTS, LogFaults, SimulatedBackend, SimulatedLog
from tests.unit.metadata.shared_log.scripted import Member, put


def simulated(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @wraps(test)
    def run(**given: Any) -> None:
        run_simulated(test(**given))

    return run


def now_s() -> float:
    return asyncio.get_running_loop().time()


# Adding


@simulated
async def test_requests_that_wait_together_share_one_entry_and_keep_their_order() -> None:
    log = SimulatedLog(faults=LogFaults(latency_s=0.01))
    async with Member(log) as member:
        await asyncio.gather(*(member.sequencer.submit(put(number)) for number in range(100)))
        assert member.follower.requests == [put(number) for number in range(100)]
        assert log.head <= 3


@simulated
async def test_an_entry_is_never_larger_than_the_service_takes() -> None:
    log = SimulatedLog(entry_bytes_max=1_000)
    async with Member(log) as member:
        requests = [os.urandom(300) for _ in range(10)]
        await asyncio.gather(*map(member.sequencer.submit, requests))
        assert member.follower.requests == requests
        assert max(map(len, log.entries.values())) <= 1_000


@simulated
async def test_a_request_that_fits_no_entry_is_the_callers_fault_and_stops_nobody() -> None:
    async with Member(SimulatedLog(entry_bytes_max=1_000)) as member:
        with pytest.raises(InvalidRequestError, match="1000 is the most"):
            await member.sequencer.submit(os.urandom(1_000))
        await member.sequencer.submit(bytes(50_000))
        assert member.follower.requests == [bytes(50_000)]


@simulated
async def test_who_is_refused_reads_on_and_adds_after_what_was_there() -> None:
    log = SimulatedLog(faults=LogFaults(latency_s=0.01))
    async with Member(log, 1) as first, Member(log, 2) as second:
        await asyncio.gather(first.sequencer.submit(put(1)), second.sequencer.submit(put(2)))
        await asyncio.gather(first.sequencer.barrier(), second.sequencer.barrier())
        assert first.follower.applied == second.follower.applied
        assert sorted(first.follower.requests) == [put(1), put(2)]


@simulated
async def test_a_request_submitted_again_while_it_waits_is_added_once() -> None:
    log = SimulatedLog(faults=LogFaults(latency_s=0.01))
    async with Member(log) as member:
        await asyncio.gather(*(member.sequencer.submit(put(1)) for _ in range(3)))
        await member.sequencer.barrier()
        assert member.follower.requests == [put(1)]


class Unsaid(SimulatedBackend):
    """Does not say what became of the first additions: `happens` says it."""

    happens: "list[bool]"

    async def add(self, number: int, entry: bytes) -> bool:
        if not self.happens:
            return await super().add(number, entry)
        if self.happens.pop(0):
            await super().add(number, entry)
        raise UnknownOutcomeError("who knows")


@pytest.mark.parametrize("happens", [[True], [False], [False, False, True], [True, True]])
@simulated
async def test_an_addition_whose_outcome_is_unknown_is_in_the_log_once(happens: list[bool]) -> None:
    log = SimulatedLog()
    member = Member(log)
    unsaid = Unsaid(log)
    unsaid.happens = list(happens)
    member.sequencer._backend = member.backend = unsaid
    async with member:
        await member.sequencer.submit(put(1))
        await member.sequencer.submit(put(2))
        assert member.follower.requests == [put(1), put(2)]
        assert log.head == 2


@simulated
async def test_an_unknown_addition_that_comes_late_is_not_made_again() -> None:
    log = SimulatedLog()
    member = Member(log)
    unsaid = Unsaid(log)
    unsaid.happens = [False]
    member.sequencer._backend = member.backend = unsaid
    late: list[tuple[int, bytes]] = []

    async def keep(number: int, entry: bytes) -> bool:
        if not late:
            late.append((number, entry))
            raise UnknownOutcomeError("still on its way")
        log.add(*late[0])  # it arrives just before the second attempt
        return log.add(number, entry)

    unsaid.add = keep  # type: ignore[method-assign]
    async with member:
        await member.sequencer.submit(put(1))
        await member.sequencer.barrier()
        assert member.follower.requests == [put(1)]
        assert log.head == 1


@simulated
async def test_while_the_service_is_away_requests_are_surely_not_ordered_and_say_why() -> None:
    log = SimulatedLog()
    async with Member(log) as member:
        log.is_away = True
        with pytest.raises(NotOrderedError, match="the service is away"):
            await member.sequencer.submit(put(1))
        assert now_s() < 2.0
        log.is_away = False
        await asyncio.sleep(5.0)
        await member.sequencer.submit(put(2))
        assert member.follower.requests == [put(2)]


@simulated
async def test_a_submitter_that_was_cancelled_leaves_nothing_behind() -> None:
    log = SimulatedLog()
    async with Member(log) as member:
        log.is_away = True
        submitter = asyncio.ensure_future(member.sequencer.submit(put(1)))
        await asyncio.sleep(0.1)
        submitter.cancel()
        await asyncio.wait([submitter])
        log.is_away = False
        await asyncio.sleep(20.0)
        assert log.head == 0


@simulated
async def test_who_adds_without_end_lets_others_have_their_turn() -> None:
    log = SimulatedLog(faults=LogFaults(latency_s=0.01))
    async with Member(log, 1) as busy, Member(log, 2) as other:

        async def add_on() -> None:
            for number in range(10_000):
                await busy.sequencer.submit(put(number))

        adding = [asyncio.ensure_future(add_on()) for _ in range(4)]
        await asyncio.sleep(1.0)
        began_s = now_s()
        for number in range(10):
            await other.sequencer.submit(b"%d" % number)
        assert now_s() - began_s < 5.0
        for task in adding:
            task.cancel()
        await asyncio.wait(adding)


# Reading


@simulated
async def test_readers_that_wait_share_a_round_and_none_gets_an_older_one() -> None:
    log = SimulatedLog(faults=LogFaults(latency_s=0.01))
    async with Member(log) as member, Member(log, 2) as other:
        calls = member.backend.calls
        await asyncio.gather(*(member.sequencer.barrier() for _ in range(50)))
        assert member.backend.calls - calls <= 4
        first = asyncio.ensure_future(member.sequencer.barrier())
        await other.sequencer.submit(put(1))
        await member.sequencer.barrier()
        assert member.follower.requests == [put(1)]
        await first


@simulated
async def test_a_barrier_while_the_service_is_away_is_refused() -> None:
    log = SimulatedLog()
    async with Member(log) as member:
        log.is_away = True
        with pytest.raises(MetadataError, match="away"):
            await member.sequencer.barrier()


@simulated
async def test_a_lost_watch_costs_a_few_seconds_and_nothing_else() -> None:
    log = SimulatedLog(faults=LogFaults(lost_watches=1.0))
    async with Member(log) as member, Member(log, 2) as other:
        await other.sequencer.submit(put(1))
        await asyncio.sleep(6.0)
        assert member.follower.requests == [put(1)]


@simulated
async def test_a_member_that_starts_reads_the_snapshot_and_what_follows() -> None:
    log = SimulatedLog(entries_kept=2)
    async with Member(log, entries_max=10) as member:
        for number in range(40):
            await member.sequencer.submit(put(number))
        await asyncio.sleep(1.0)
        assert log.saved is not None
        saved = log.saved.number
        assert min(log.entries) == saved - 1
    async with Member(log, 2) as late:
        assert late.follower.resets == [saved]
        assert late.follower.state == member.follower.state
        assert late.follower.applied == member.follower.applied[saved:]


class Counting(SimulatedLog):
    saves = 0

    def save(self, snapshot: Snapshot) -> None:
        self.saves += 1
        super().save(snapshot)


@simulated
async def test_of_many_members_few_take_the_snapshot() -> None:
    log = Counting(faults=LogFaults(latency_s=0.002))
    async with Member(log, 1, entries_max=20), Member(log, 2, entries_max=20), Member(log, 3, entries_max=20) as member:
        for number in range(100):
            await member.sequencer.submit(put(number))
    assert 3 <= log.saves <= 6


# The end


@simulated
async def test_a_log_that_went_back_stops_the_member_for_good() -> None:
    log = SimulatedLog()
    async with Member(log) as member:
        await member.sequencer.submit(put(1))
        await member.sequencer.submit(put(2))
        log.head = 1
        with pytest.raises(MetadataError, match="restored from an older copy"):
            await member.sequencer.barrier()
        assert len(member.follower.failures) == 1
        with pytest.raises(MetadataError, match="restored from an older copy"):
            await member.sequencer.submit(put(3))


@simulated
async def test_a_log_that_went_on_differently_stops_the_member_for_good() -> None:
    log, other = SimulatedLog(), SimulatedLog()
    async with Member(log) as member, Member(other, 2) as elsewhere:
        await member.sequencer.submit(put(1))
        await elsewhere.sequencer.submit(put(2))
        await elsewhere.sequencer.submit(put(3))
        log.entries[2], log.head = other.entries[2], 2
        with pytest.raises(MetadataError, match="does not follow"):
            await member.sequencer.barrier()
        assert member.follower.requests == [put(1)]


@simulated
async def test_an_entry_that_nobody_has_stops_the_member_for_good() -> None:
    log = SimulatedLog()
    async with Member(log) as member:
        await member.sequencer.submit(put(1))
    log.entries.clear()
    late = Member(log, 2)
    with pytest.raises(MetadataError, match="neither in the shared log nor in a snapshot"):
        await late.sequencer.start(late.follower)
    await late.sequencer.close()


@simulated
async def test_an_entry_that_is_none_stops_the_member_for_good() -> None:
    log = SimulatedLog()
    log.add(1, b"junk")
    member = Member(log)
    with pytest.raises(MetadataError, match="its number is 1"):
        await member.sequencer.start(member.follower)
    await member.sequencer.close()


@simulated
async def test_a_closed_sequencer_refuses_and_tells_those_who_wait() -> None:
    log = SimulatedLog(faults=LogFaults(latency_s=1.0))
    member = Member(log)
    await member.sequencer.start(member.follower)
    waiting = [
        asyncio.ensure_future(member.sequencer.submit(put(1))),
        asyncio.ensure_future(member.sequencer.barrier()),
    ]
    await asyncio.sleep(0.01)
    await member.sequencer.close()
    await member.sequencer.close()
    for error in await asyncio.gather(*waiting, return_exceptions=True):
        assert isinstance(error, MetadataError)
    with pytest.raises(MetadataError, match="closed"):
        await member.sequencer.submit(put(2))
    with pytest.raises(MetadataError, match="closed"):
        await member.sequencer.barrier()


@simulated
async def test_too_many_waiting_requests_are_put_off(monkeypatch: pytest.MonkeyPatch) -> None:
    log = SimulatedLog()
    async with Member(log) as member:
        monkeypatch.setattr("danube.metadata.shared_log.requests.METADATA_LOG_QUEUE_BYTES_MAX", 1_000)
        log.is_away = True
        first = asyncio.ensure_future(member.sequencer.submit(bytes(900)))
        await asyncio.sleep(0.01)
        with pytest.raises(NotOrderedError, match="more metadata changes wait"):
            await member.sequencer.submit(bytes(200))
        log.faults, log.is_away = NO_FAULTS, False
        await first
        await member.sequencer.submit(bytes(200))
        assert [len(decode_entry(entry).requests) for entry in log.entries.values()] == [1, 1]


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(20.0):
        while not holds():  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.1)


@simulated
async def test_a_service_that_was_away_counts_as_led_anew_once_it_answers() -> None:
    log = SimulatedLog()
    async with Member(log) as member:
        sequencer, follower = member.sequencer, member.follower
        before = sequencer.leadership
        assert before
        log.is_away = True
        with suppress(MetadataError):
            await sequencer.submit(put(1))
        await until(lambda: not sequencer.leadership)
        with pytest.raises(NotOrderedError):
            await sequencer.submit(put(2), before)
        log.is_away = False
        await until(lambda: follower.led_anew_count > 0)
        assert sequencer.leadership > before
        with pytest.raises(NotOrderedError):
            await sequencer.submit(put(2), before)
        await sequencer.submit(put(3), sequencer.leadership)
        assert follower.led_anew_count == 1
