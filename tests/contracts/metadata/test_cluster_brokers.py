"""Leases that are kept, one leader, and who runs: over every metadata store."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from danube.metadata.cluster.election import Election
from danube.metadata.cluster.lease_keeper import LeaseKeeper
from danube.metadata.cluster.registry import BrokerRegistry
from danube.metadata.records import keys
from danube.metadata.records.cluster import BrokerRegistration, encode_registration, own_cluster_id
from danube.metadata.store import MetadataStore, Watch, WatchEvent
from danube.model.errors import MetadataError, UnknownOutcomeError
from danube.model.limits.metadata import CLUSTER_RETRY_S, LEASE_RENEWALS
from danube.runtime.rng import SystemRng
from danube.runtime.tasks import TaskScope
from danube.testing.patience import PATIENCE_S
from danube.testing.simulated.clock import SimClock

TTL_S = 30.0
LOOKS_TO_RETRY = 1_000
"""Two seconds of them or more: what is not refused has happened long before."""


class Place:
    """One broker's keeper, election and view."""

    def __init__(self, store: MetadataStore, clock: SimClock, broker_id: int) -> None:
        self.broker_id = broker_id
        self.progresses = True
        self.changes: list[int] = []
        self.replaced = 0
        self.tasks = TaskScope(f"broker {broker_id}")
        self.lease_tasks = TaskScope(f"lease of broker {broker_id}")
        self.keeper = LeaseKeeper(store, clock, ttl_s=TTL_S, progresses=lambda: self.progresses)
        self.keeper.on_change(lambda: self.changes.append(self.keeper.lease_id))
        self.election = Election(store, self.keeper, clock, broker_id)
        self.registry = BrokerRegistry(store, self.keeper, clock)
        self.registry.on_replaced(self._count_replaced)

    def start(self) -> None:
        self.lease_tasks.spawn(self.keeper.run(), "lease")
        self.election.start(self.tasks)
        self.registry.start(self.tasks)

    async def leave(self) -> None:
        """Give the lease back, and follow the others on."""
        await self.lease_tasks.close()
        await self.keeper.close()

    async def die(self) -> None:
        """End, and give nothing back."""
        await self.lease_tasks.close()
        await self.tasks.close()

    def _count_replaced(self) -> None:
        self.replaced += 1


@pytest.fixture
async def places(store: MetadataStore, clock: SimClock) -> AsyncIterator[Callable[[int], Place]]:
    made: list[Place] = []

    def start(broker_id: int) -> Place:
        made.append(Place(store, clock, broker_id))
        made[-1].start()
        return made[-1]

    yield start
    for place in made:
        await place.leave()
        await place.tasks.close()


class LateWatches:
    """Watches of a store that tell nothing while `hears` is not set: those of a broker that is cut off."""

    def __init__(self, store: MetadataStore) -> None:
        self._watch = store.watch
        self.hears = asyncio.Event()
        self.hears.set()

    def watch(self, prefix: str) -> Watch:
        return LateWatch(self._watch(prefix), self.hears)


class LateWatch:
    """One of them."""

    def __init__(self, watch: Watch, hears: asyncio.Event) -> None:
        self._watch = watch
        self._events = aiter(watch)
        self._hears = hears

    def __aiter__(self) -> "LateWatch":
        return self

    async def __anext__(self) -> WatchEvent:
        event = await anext(self._events)
        await self._hears.wait()
        return event

    async def close(self) -> None:
        await self._watch.close()


async def until(clock: SimClock, holds: Callable[[], bool]) -> None:
    """Let others work until it holds; stores may work in threads and processes of their own.

    Real ones, with a clock of their own, may have refused meanwhile: who waits to try again gets the time for it.
    """
    looks = 0
    async with asyncio.timeout(PATIENCE_S):
        while not holds():
            await asyncio.sleep(0.001)
            looks += 1
            if looks % LOOKS_TO_RETRY == 0:
                clock.advance(CLUSTER_RETRY_S)


async def pass_time(clock: SimClock, seconds: float) -> None:
    """In steps shorter than a renewal, with time for whoever it wakes."""
    for _ in range(round(seconds)):
        clock.advance(1.0)
        for _ in range(4):
            await asyncio.sleep(0.001)


async def pass_to_renewal(place: Place, clock: SimClock) -> None:
    """However long the store takes for it."""
    before_s = place.keeper.held_until_s
    clock.advance(TTL_S / LEASE_RENEWALS)
    await until(clock, lambda: place.keeper.held_until_s > before_s)


def registration(broker_id: int, start_id: int = 1) -> BrokerRegistration:
    url = f"http://broker{broker_id}"
    return BrokerRegistration(
        broker_id=broker_id, start_id=start_id, broker_url=f"{url}:1", connect_url=f"{url}:2", admin_url=f"{url}:3"
    )


async def test_a_lease_is_kept_beyond_its_time(places: Callable[[int], Place], clock: SimClock) -> None:
    place = places(1)
    await until(clock, lambda: place.keeper.lease_id != 0)
    first = place.keeper.lease_id
    for _ in range(3 * LEASE_RENEWALS):
        await pass_to_renewal(place, clock)
    assert place.keeper.lease_id == first
    assert place.changes == [first]


async def test_the_time_of_a_lease_counts_from_the_moment_its_grant_and_its_renewal_were_sent(
    places: Callable[[int], Place], store: MetadataStore, clock: SimClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    grant, renew, sent_s = store.grant_lease, store.renew_lease, []

    async def grant_late(ttl_s: float) -> int:
        sent_s.append(clock.monotonic_s())
        clock.advance(5.0)
        return await grant(ttl_s)

    async def renew_late(lease_id: int) -> None:
        sent_s.append(clock.monotonic_s())
        clock.advance(2.0)
        await renew(lease_id)

    monkeypatch.setattr(store, "grant_lease", grant_late)
    monkeypatch.setattr(store, "renew_lease", renew_late)
    place = places(1)
    await until(clock, lambda: place.keeper.lease_id != 0)
    granted_s = sent_s[-1]
    assert place.keeper.held_until_s == granted_s + TTL_S
    clock.advance(granted_s + TTL_S / LEASE_RENEWALS - clock.monotonic_s())
    await until(clock, lambda: place.keeper.held_until_s > granted_s + TTL_S)
    assert place.keeper.held_until_s == sent_s[-1] + TTL_S


async def test_who_makes_no_progress_loses_its_lease_and_gets_another_one_later(
    places: Callable[[int], Place], clock: SimClock
) -> None:
    place = places(1)
    await until(clock, lambda: place.keeper.lease_id != 0)
    first = place.keeper.lease_id
    place.progresses = False
    await pass_time(clock, TTL_S + 2)
    assert place.changes == [first, 0]
    assert place.keeper.held_until_s == 0.0
    place.progresses = True
    await pass_time(clock, 3)
    await until(clock, lambda: place.keeper.lease_id not in {0, first})


async def test_a_lease_that_others_ended_is_followed_by_a_new_one(
    places: Callable[[int], Place], store: MetadataStore, clock: SimClock
) -> None:
    place = places(1)
    await until(clock, lambda: place.keeper.lease_id != 0)
    first = place.keeper.lease_id
    await store.revoke_lease(first)
    await pass_time(clock, TTL_S)
    await until(clock, lambda: place.keeper.lease_id not in {0, first})


async def test_one_of_several_candidates_leads_and_all_know_it(places: Callable[[int], Place], clock: SimClock) -> None:
    candidates = [places(broker_id) for broker_id in (1, 2, 3)]
    for place in candidates:
        place.election.campaign()
    await until(clock, lambda: all(place.election.leader is not None for place in candidates))
    leaders = {place.election.leader for place in candidates}
    assert len(leaders) == 1
    assert [place.broker_id for place in candidates if place.election.is_leader] == list(leaders)


async def test_an_onlooker_never_leads(places: Callable[[int], Place], clock: SimClock) -> None:
    onlooker = places(1)
    await pass_time(clock, TTL_S)
    assert onlooker.election.leader is None
    assert not onlooker.election.is_leader


async def test_a_leader_that_gives_its_lease_back_is_followed_by_another_candidate(
    places: Callable[[int], Place],
    clock: SimClock,
) -> None:
    first, second = places(1), places(2)
    first.election.campaign()
    await until(clock, lambda: first.election.is_leader)
    second.election.campaign()
    await first.leave()
    await until(clock, lambda: second.election.is_leader)
    await until(clock, lambda: first.election.leader == 2)
    assert not first.election.is_leader


@pytest.fixture
async def late(
    places: Callable[[int], Place], clock: SimClock, store: MetadataStore, monkeypatch: pytest.MonkeyPatch
) -> tuple[Place, asyncio.Event]:
    """A leader, and what has it hear nothing more while it is not set."""
    watches = LateWatches(store)
    with monkeypatch.context() as patch:
        patch.setattr(store, "watch", watches.watch)
        leader = places(1)
        leader.election.campaign()
        await until(clock, lambda: leader.election.is_leader)
    return leader, watches.hears


async def test_a_leader_that_gives_its_lease_back_leads_no_more_before_it_hears_of_it(
    late: tuple[Place, asyncio.Event], places: Callable[[int], Place], clock: SimClock
) -> None:
    (first, hears), told = late, list[bool]()
    first.election.on_change(lambda: told.append(first.election.is_leader))
    second = places(2)
    second.election.campaign()
    hears.clear()
    await first.leave()
    assert not first.election.is_leader
    assert told[:1] == [False]
    await until(clock, lambda: second.election.is_leader)
    assert not first.election.is_leader


async def test_a_leader_that_hangs_stops_leading_before_another_one_leads(
    places: Callable[[int], Place], clock: SimClock
) -> None:
    first, second = places(1), places(2)
    first.election.campaign()
    await until(clock, lambda: first.election.is_leader)
    second.election.campaign()
    first.progresses = False
    led_by_both = 0
    for _ in range(round(TTL_S) + 5):
        await pass_time(clock, 1)
        led_by_both += first.election.is_leader and second.election.is_leader
    await until(clock, lambda: second.election.is_leader)
    assert led_by_both == 0
    assert not first.election.is_leader


async def test_a_leader_that_comes_back_in_time_leads_on(
    places: Callable[[int], Place], store: MetadataStore, clock: SimClock
) -> None:
    first = places(1)
    first.election.campaign()
    await until(clock, lambda: first.election.is_leader)
    await first.die()
    again = places(1)
    again.election.campaign()
    await until(clock, lambda: again.election.is_leader)
    entry = await store.get(keys.LEADER)
    assert entry is not None
    assert entry.lease_id == again.keeper.lease_id


async def test_brokers_see_each_other_and_miss_the_one_that_ended(
    places: Callable[[int], Place], clock: SimClock
) -> None:
    first, second = places(1), places(2)
    await first.registry.announce(registration(1))
    await second.registry.announce(registration(2))
    await until(clock, lambda: set(first.registry.brokers) == {1, 2})
    assert first.registry.find(2) == registration(2)
    await second.leave()
    await second.tasks.close()
    await until(clock, lambda: set(first.registry.brokers) == {1})


async def test_a_broker_that_was_killed_is_missed_when_its_lease_has_run_out(
    places: Callable[[int], Place], clock: SimClock
) -> None:
    first, second = places(1), places(2)
    await first.registry.announce(registration(1))
    await second.registry.announce(registration(2))
    await until(clock, lambda: set(first.registry.brokers) == {1, 2})
    await second.die()
    for _ in range(LEASE_RENEWALS - 1):
        await pass_to_renewal(first, clock)  # else it would be missed itself where the store takes its time
    await pass_time(clock, TTL_S / LEASE_RENEWALS - 2)
    assert set(first.registry.brokers) == {1, 2}
    await pass_time(clock, 4)
    await until(clock, lambda: set(first.registry.brokers) == {1})


async def test_a_broker_that_lost_its_lease_registers_again(
    places: Callable[[int], Place], store: MetadataStore, clock: SimClock
) -> None:
    place = places(1)
    await place.registry.announce(registration(1))
    await until(clock, lambda: set(place.registry.brokers) == {1})
    await store.revoke_lease(place.keeper.lease_id)
    await until(clock, lambda: not place.registry.brokers)
    await pass_time(clock, TTL_S)
    await until(clock, lambda: set(place.registry.brokers) == {1})


async def test_of_two_processes_with_the_id_of_one_broker_the_first_is_told_to_end(
    places: Callable[[int], Place],
    clock: SimClock,
) -> None:
    first, twin = places(1), places(1)
    await first.registry.announce(registration(1, start_id=1))
    await until(clock, lambda: 1 in first.registry.brokers)
    await twin.registry.announce(registration(1, start_id=2))
    await until(clock, lambda: first.replaced == 1)
    assert twin.replaced == 0
    assert first.registry.find(1) == registration(1, start_id=2)


async def test_a_broker_whose_first_registration_arrives_after_its_second_goes_on(
    places: Callable[[int], Place], store: MetadataStore, clock: SimClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    put, late = store.put, list[tuple[str, bytes, int]]()

    async def put_late(key: str, value: bytes, *, lease_id: int = 0) -> int:
        if not late:
            late.append((key, value, lease_id))
            raise UnknownOutcomeError(f"{key} may be set")
        return await put(key, value, lease_id=lease_id)

    monkeypatch.setattr(store, "put", put_late)
    first, second = places(1), places(2)
    announcing = asyncio.ensure_future(first.registry.announce(registration(1)))
    await until(clock, lambda: bool(late))
    await pass_time(clock, CLUSTER_RETRY_S + 1)
    async with asyncio.timeout(PATIENCE_S):
        await announcing
    key, value, lease_id = late[0]
    await put(key, value, lease_id=lease_id)
    await second.registry.announce(registration(2))
    await until(clock, lambda: set(first.registry.brokers) == {1, 2})
    await pass_time(clock, 2)
    assert first.replaced == 0


async def test_a_registration_that_arrives_under_a_lease_of_before_is_made_anew(
    places: Callable[[int], Place], store: MetadataStore
) -> None:
    place, key = places(1), keys.registered_broker(1)
    await place.registry.announce(registration(1))
    await store.put(key, encode_registration(registration(1)), lease_id=await store.grant_lease(TTL_S))
    async with asyncio.timeout(PATIENCE_S):
        while (entry := await store.get(key)) is None or entry.lease_id != place.keeper.lease_id:  # noqa: ASYNC110 - as in `until`
            await asyncio.sleep(0.001)
    assert place.replaced == 0


async def test_a_registration_of_a_former_start_that_arrives_late_ends_no_broker(
    places: Callable[[int], Place], store: MetadataStore, clock: SimClock
) -> None:
    key, former = keys.registered_broker(1), await store.grant_lease(TTL_S)
    place = places(1)
    await place.registry.announce(registration(1, start_id=2))
    await store.put(key, encode_registration(registration(1, start_id=1)), lease_id=former)
    await until(clock, lambda: place.registry.find(1) == registration(1, start_id=2))
    await pass_time(clock, 2)
    entry = await store.get(key)
    assert entry is not None
    assert (place.replaced, entry.lease_id) == (0, place.keeper.lease_id)


async def test_a_broker_that_lost_its_lease_is_told_to_end_when_another_has_its_place(
    places: Callable[[int], Place], clock: SimClock
) -> None:
    first = places(1)
    await first.registry.announce(registration(1, start_id=1))
    first.progresses = False
    await pass_time(clock, TTL_S + 2)
    twin = places(1)
    await twin.registry.announce(registration(1, start_id=2))
    first.progresses = True
    await pass_time(clock, CLUSTER_RETRY_S + 1)
    await until(clock, lambda: first.replaced == 1)
    assert twin.replaced == 0


async def test_the_id_of_a_cluster_is_made_once(store: MetadataStore) -> None:
    ids = await asyncio.gather(*(own_cluster_id(store, SystemRng()) for _ in range(3)))
    assert len(set(ids)) == 1
    assert await own_cluster_id(store, SystemRng()) == ids[0]


async def test_a_closed_store_gives_no_id(store: MetadataStore) -> None:
    await store.close()
    with pytest.raises(MetadataError):
        await own_cluster_id(store, SystemRng())
