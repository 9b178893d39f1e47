"""A Raft group of real processes: `kill -9`, restarts, members that come and go. Nothing acknowledged is lost."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from danube.metadata.store import MetadataStore
from danube.model.errors import MetadataError, PreconditionFailedError, UnavailableError, UnknownOutcomeError
from danube.testing.patience import PATIENCE_S
from lab.metadata.clusters import write_secret
from tests.cluster.raft_group import RaftGroup
from tests.cluster.seeing import until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]

SEEDS = 3
QUICK = ("--time-scale", "0.5")

Form = Callable[..., Awaitable[RaftGroup]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_secret(tmp_path)
    return tmp_path


@pytest.fixture
async def form(folder: Path) -> AsyncIterator[Form]:
    """Starts groups; they are killed when the test ends."""
    groups: list[RaftGroup] = []

    async def start(seeds: int = SEEDS, *flags: str) -> RaftGroup:
        group = RaftGroup(folder, seeds, flags=(*QUICK, *flags))
        groups.append(group)
        await group.start(range(seeds))
        return group

    yield start
    for group in groups:
        await group.close()


async def _write(store: MetadataStore, acknowledged: dict[str, bytes], name: str, until: asyncio.Event) -> None:
    """Put keys until it is enough; what was acknowledged is written down."""
    number = 0
    while not until.is_set():
        number += 1
        key, value = f"/{name}/{number}", b"%d" % number
        try:
            await store.put(key, value)
        except MetadataError:
            await asyncio.sleep(0.05)  # its member is dead, or has no leader: the next one is tried
        else:
            acknowledged[key] = value


async def _is_put(store: MetadataStore, key: str) -> bool:
    await store.put(key, b"x")
    return True


async def _assert_all_there(store: MetadataStore, acknowledged: dict[str, bytes]) -> None:
    found = {entry.key: entry.value for entry in await store.list("/", linearizable=True)}
    lost = {key for key, value in acknowledged.items() if found.get(key) != value}
    assert not lost


async def test_three_members_form_one_cluster_and_write_on_each(form: Form) -> None:
    group = await form()
    for number in range(SEEDS):
        await group[number].put(f"/{number}", b"x")
    keys = [entry.key for entry in await group[0].list("/", linearizable=True)]
    assert keys == ["/0", "/1", "/2"]

    async def all_agree() -> bool:
        statuses = [await group.status(number) for number in range(SEEDS)]
        leaders = {status["leader_id"] for status in statuses}
        whole = all(len(status["members"]) == SEEDS and status["has_quorum"] for status in statuses)
        return whole and len(leaders) == 1 and 0 not in leaders

    await until(all_agree)


async def test_whoever_is_asked_tells_the_lag_of_all_as_the_leader_does(form: Form) -> None:
    group = await form()
    leader = await group.leader()
    gone, asked = (leader + 1) % SEEDS, (leader + 2) % SEEDS
    gone_id = (await group.status(gone))["node_id"]
    await group.kill(gone)
    for number in range(20):
        await group[asked].put(f"/{number}", b"x")

    async def is_told() -> bool:
        told, leading = await group.look(asked), await group.leader()
        unreached = [member["node_id"] for member in told["members"] if not member["connected"]]
        if _lags(told) != _lags(await group.look(leading)) or unreached != [gone_id]:
            return False
        if leading != leader:
            return True  # elected meanwhile, it has never heard of the one that is gone
        return None not in _lags(told).values() and (_lags(told)[gone_id] or 0) >= 20

    await until(is_told)
    await group.start([gone])

    async def all_are_level() -> bool:
        looks = [await group.look(number) for number in range(SEEDS)]
        return all(set(_lags(look).values()) == {0} for look in looks)

    await until(all_are_level)


async def test_while_the_leader_is_stopped_a_member_tells_what_it_knows_in_time(form: Form) -> None:
    """Nobody is left to vote for another one, however long it takes."""
    group = await form(SEEDS, "--time-scale", "3")
    leader = await group.leader()
    asked, *others = [number for number in range(SEEDS) if number != leader]
    for number in (leader, *others):
        group[number].pause()
    async with asyncio.timeout(PATIENCE_S):
        told = await group.look(asked)
    for number in (leader, *others):
        group[number].resume()
    assert set(_lags(told).values()) == {None}
    assert len(told["members"]) == SEEDS


def _lags(status: dict[str, Any]) -> dict[int, int | None]:
    return {member["node_id"]: member["lag"] for member in status["members"]}


async def test_the_leader_is_killed_and_the_others_go_on_without_losing_anything(form: Form) -> None:
    group = await form()
    leader = await group.leader()
    acknowledged: dict[str, bytes] = {}
    enough = asyncio.Event()
    async with asyncio.TaskGroup() as writers:
        for number in range(SEEDS):
            writers.create_task(_write(group[number], acknowledged, str(number), enough))
        await asyncio.sleep(0.5)
        await group.kill(leader)
        next_leader = await group.leader(but=leader)
        await until(lambda: _is_put(group[next_leader], "/after"))
        await asyncio.sleep(0.5)
        enough.set()
    assert next_leader != leader
    await _assert_all_there(group[next_leader], acknowledged)
    await group.start([leader])
    await _assert_all_there(group[leader], acknowledged)


async def test_all_members_are_killed_at_once_and_come_back_with_everything(form: Form) -> None:
    group = await form(SEEDS, "--log-entries", "50")
    acknowledged: dict[str, bytes] = {}
    for round_number in (1, 2):
        enough = asyncio.Event()
        async with asyncio.TaskGroup() as writers:
            for number in range(SEEDS):
                name = f"{len(acknowledged)}-{number}"
                writers.create_task(_write(group[number], acknowledged, name, enough))
            async with asyncio.timeout(PATIENCE_S):
                while len(acknowledged) < 200 * round_number:  # noqa: ASYNC110 - what it waits for has no event
                    await asyncio.sleep(0.05)
            enough.set()
            await group.kill(*range(SEEDS))
        await group.start(range(SEEDS))
        for number in range(SEEDS):
            await _assert_all_there(group[number], acknowledged)


async def test_a_member_that_was_away_for_long_gets_the_state_as_an_image(form: Form) -> None:
    group = await form(SEEDS, "--log-entries", "20")
    leader = await group.leader()
    away = (leader + 1) % SEEDS
    await group.kill(away)
    for number in range(100):
        await group[leader].put(f"/{number}", b"x" * 10_000)
    await group.start([away])
    assert len(await group[away].list("/", linearizable=True)) == 100


async def test_a_broker_is_added_learns_gets_a_vote_and_is_removed_again(form: Form) -> None:
    group = await form()
    follower = (await group.leader() + 1) % SEEDS
    await group[follower].put("/before", b"x")
    starting = asyncio.create_task(group.start([SEEDS]))  # it serves only once it takes part
    added = await group.added(follower, SEEDS)
    await starting
    assert added["role"] == "learner"
    assert (await group[SEEDS].get("/before", linearizable=True)) is not None
    promoted = await group.promoted(follower, added["node_id"])
    assert promoted["role"] == "voter"
    await group[SEEDS].put("/by the new one", b"x")
    for number in range(SEEDS + 1):
        await group.until(number, lambda status: sum(m["role"] == "voter" for m in status["members"]) == SEEDS + 1)
    gone = (await group.leader() + 1) % SEEDS
    await group[SEEDS].call("remove", (await group.status(gone))["node_id"])
    await group.until((gone + 1) % SEEDS, lambda status: len(status["members"]) == SEEDS)
    await group[SEEDS].put("/after", b"x")


async def test_a_voter_that_missed_a_promotion_helps_to_elect_who_got_the_vote(form: Form) -> None:
    """It does not know the newcomer, and the one that knew both is gone for good."""
    group = await form(2)
    starting = asyncio.create_task(group.start([2]))
    added = await group.added(0, 2)
    await starting
    leader = await group.leader()
    late = 1 - leader
    await group.kill(late)
    await group.promoted(leader, added["node_id"])
    await group[2].put("/by the new one", b"x")
    await group.kill(leader)
    await group.start([late])
    assert await group.leader() == 2
    assert (await group[late].get("/by the new one", linearizable=True)) is not None


async def test_a_removed_member_says_so_and_stops(form: Form) -> None:
    group = await form()
    leader = await group.leader()
    gone = (leader + 1) % SEEDS
    await group[leader].call("remove", (await group.status(gone))["node_id"])
    with pytest.raises(MetadataError, match="was removed from the cluster"):
        async with asyncio.timeout(PATIENCE_S):
            while True:
                await group[gone].get("/a")
                await asyncio.sleep(0.1)


async def test_leadership_is_handed_over_while_writes_go_on(form: Form) -> None:
    group = await form()
    leader = await group.leader()
    follower = (leader + 1) % SEEDS
    acknowledged: dict[str, bytes] = {}
    enough = asyncio.Event()
    async with asyncio.TaskGroup() as writers:
        writers.create_task(_write(group[follower], acknowledged, "a", enough))
        follower_id = (await group.status(follower))["node_id"]

        async def takes_over() -> bool:
            return bool(await group[follower].call("transfer", follower_id) == follower_id)

        await until(takes_over)  # it may be that nobody leads just now
        enough.set()
    await _assert_all_there(group[leader], acknowledged)


async def test_what_must_not_be_done_is_refused_with_the_next_step(form: Form) -> None:
    group = await form()
    leader = await group.leader()
    follower = (leader + 1) % SEEDS
    other = 3 - leader - follower
    await group.kill(other)
    other_id = next(
        member["node_id"]
        for member in (await group.status(leader))["members"]
        if member["address"] == group.address(other)
    )
    await group.until(leader, lambda status: not all(member["connected"] for member in status["members"]))
    ids = [(await group.status(number))["node_id"] for number in (leader, follower)]

    async def both_are_refused() -> bool:
        """Each for its own reason; which of them leads may change."""
        told = []
        for node_id in ids:
            with pytest.raises(PreconditionFailedError) as refused:
                await group[follower].call("remove", node_id)
            told.append(str(refused.value))
        return all(any(words in one for one in told) for words in ("transfer-leader", "no majority"))

    await until(both_are_refused)
    await group[leader].call("remove", other_id)


async def test_without_a_majority_reads_say_so_and_writes_have_no_known_outcome(form: Form) -> None:
    group = await form()
    leader = await group.leader()
    await group[leader].put("/a", b"x")
    await group.kill(*(number for number in range(SEEDS) if number != leader))
    await group.until(leader, lambda status: not status["has_quorum"] and status["leader_id"] == 0)
    assert (await group[leader].get("/a")) is not None
    with pytest.raises(MetadataError, match="majority of its voters runs"):
        await group[leader].get("/a", linearizable=True)
    with pytest.raises(MetadataError, match="was not made: no broker leads") as refused:
        await group[leader].put("/b", b"x")
    assert not isinstance(refused.value, UnknownOutcomeError)
    with pytest.raises(UnavailableError, match="majority"):
        await group[leader].call("transfer")


async def test_a_broker_that_the_seeds_do_not_know_does_not_start(form: Form) -> None:
    group = await form()
    group.be_seed(SEEDS, [group.address(number) for number in range(SEEDS)])
    stranger = await asyncio.create_subprocess_exec(*group.command(SEEDS), stderr=asyncio.subprocess.PIPE)
    async with asyncio.timeout(PATIENCE_S):
        _, said = await stranger.communicate()
    assert stranger.returncode == 1
    assert f"cluster add-node --node-addr {group.address(SEEDS)}" in said.decode()
