"""Retries: what is sent again, for how long, what is counted, and a put whose answer was lost."""

import random

import pytest

from danube.model.limits.broker import MIB
from danube.model.limits.objects import OBJECT_RETRY_BASE_S, OBJECT_RETRY_LONGEST_S
from danube.objects.bill import Bill, Cause, Line, Prices, RequestKind, cost_of, projected_month
from danube.objects.memory import MemoryObjects
from danube.objects.retrying import Patience, Pause, RetryingStore, next_wait_s
from danube.objects.store import StoreBusyError, StoreRefusedError
from danube.runtime.rng import SystemRng
from danube.testing.simulated.clock import SimClock
from danube.testing.simulated.objects import Faults, FaultyObjects


class CountedPause(Pause):
    """Waits that take simulated time, and none of ours."""

    def __init__(self, clock: SimClock) -> None:
        super().__init__()
        self._clock = clock
        self.waits_s: list[float] = []

    def wait(self, seconds: float) -> None:
        self.waits_s.append(seconds)
        self._clock.advance(seconds)


class RefusingObjects(MemoryObjects):
    """A store whose keys lack a right for the first so many requests."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.times = times

    def get(self, name: str, position: int = 0, length: int | None = None) -> bytes:
        if self.times:
            self.times -= 1
            raise StoreRefusedError("the keys may not do this")
        return super().get(name, position, length)


class World:
    """A store that fails, and one that retries over it."""

    def __init__(self, faults: Faults | None = None, patience: Patience | None = None) -> None:
        self.clock = SimClock()
        self.bucket = MemoryObjects()
        self.way = FaultyObjects(self.bucket, random.Random(1), faults)
        self.pause = CountedPause(self.clock)
        self.bill = Bill(self.clock.monotonic_s())
        self.store = RetryingStore(
            self.way,
            self.clock,
            SystemRng(seed=1),
            bill=self.bill,
            cause=Cause.READ,
            patience=patience,
            pause=self.pause,
        )


def test_a_request_is_sent_again_until_it_is_answered_and_each_try_is_counted() -> None:
    world = World(Faults(refused=0.3))
    for number in range(20):
        world.store.put(f"{number}", [b"x" * 10])
    (line,) = world.bill.lines()
    assert (line.kind, line.cause, line.requests - line.failed) == (RequestKind.PUT, Cause.READ, 20)
    assert line.failed == len(world.pause.waits_s) > 3
    assert line.sent_bytes == line.requests * 10
    assert len(world.bucket.listing("")) == 20


def test_a_store_that_is_gone_is_given_up_within_the_budget() -> None:
    world = World(patience=Patience(budget_s=10, retries_max=None))
    world.way.is_down = True
    with pytest.raises(StoreBusyError):
        world.store.get("a")
    assert 5 < world.clock.monotonic_s() <= 10
    assert world.store.outage.lasted_s(world.clock.monotonic_s()) == world.clock.monotonic_s()
    world.way.is_down = False
    with pytest.raises(FileNotFoundError):
        world.store.get("a")
    assert world.store.outage.lasted_s(world.clock.monotonic_s()) == 0


@pytest.mark.parametrize(("size", "told_s"), [(10, 4.0), (8 * MIB, 0.0)])
def test_a_request_that_hangs_is_silence_before_it_fails_unless_it_sends_much(size: int, told_s: float) -> None:
    world, seen = World(), list[float]()

    def hang(name: str, chunks: object) -> None:
        del name, chunks
        for _ in range(2):
            world.clock.advance(2)
            seen.append(world.store.outage.silent_s(world.clock.monotonic_s()))

    world.bucket.put = hang  # type: ignore[method-assign]
    world.store.put("a", [bytes(size)])
    assert seen == [0.0, told_s]
    assert world.store.outage.silent_s(world.clock.monotonic_s()) == 0


def test_a_put_whose_answer_was_lost_is_known_as_ones_own() -> None:
    world = World(Faults(unanswered=0.6))
    for number in range(20):
        world.store.put_if_absent(f"{number}", [b"mine"])
    with pytest.raises(FileExistsError):
        world.store.put_if_absent("0", [b"another's"])
    world.way.faults = Faults()
    tag = world.store.get_tagged("0").tag
    world.way.faults = Faults(unanswered=0.6)
    world.store.swap("0", [b"new"], tag)
    assert world.bucket.get("0") == b"new"


def test_a_refusal_is_raised_at_once_unless_it_is_to_be_outlasted() -> None:
    clock = SimClock()
    bucket = RefusingObjects(times=3)
    bucket.put("a", [b"x"])
    impatient = RetryingStore(
        bucket, clock, SystemRng(seed=1), bill=Bill(0.0), cause=Cause.READ, pause=CountedPause(clock)
    )
    with pytest.raises(StoreRefusedError):
        impatient.get("a")
    patient = impatient.charged_to(Cause.JOURNAL, Patience(retries_max=None, outlasts_refusal=True))
    assert patient.get("a") == b"x"


def test_a_closing_owner_waits_for_nothing() -> None:
    world = World()
    world.way.is_down = True
    world.pause.end()
    with pytest.raises(StoreBusyError):
        world.store.get("a")
    assert world.pause.waits_s == []


@pytest.mark.parametrize("drawn", [0.0, 0.5, 1.0])
def test_waits_grow_to_a_bound(drawn: float) -> None:
    wait_s, waits_s = 0.0, []
    for _ in range(20):
        wait_s = next_wait_s(wait_s, drawn)
        waits_s.append(wait_s)
    assert waits_s == sorted(waits_s)
    assert OBJECT_RETRY_BASE_S <= waits_s[0] <= waits_s[-1] <= OBJECT_RETRY_LONGEST_S


def test_the_bill_of_a_month_is_that_of_the_list_price() -> None:
    puts = Line(RequestKind.PUT, Cause.JOURNAL, 14_400, 0, 0, 0)
    gets = Line(RequestKind.GET, Cause.READ, 1_000_000, 0, 0, 10**9)
    assert projected_month(cost_of(puts, Prices()), 3_600) == pytest.approx(52.56)
    assert cost_of(gets, Prices(egress_gb=0.09)) == pytest.approx(0.4 + 0.09)
    assert cost_of(Line(RequestKind.DELETE, Cause.SEGMENT, 1_000, 0, 0, 0), Prices()) == 0
