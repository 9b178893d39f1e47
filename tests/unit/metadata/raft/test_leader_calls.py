"""What a member is asked and its leader answers: how things stand, and what crosses the wire for it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from danube.metadata.cluster.membership import Member, MemberRole, MembershipStatus
from danube.metadata.raft import leader_calls
from danube.metadata.raft.leader_calls import pack_result, unpack_result
from danube.metadata.raft.sequencer import RaftSequencer
from danube.metadata.raft.values.encoding import dumps, loads
from danube.model.errors import LimitReachedError, NotFoundError, PreconditionFailedError, UnavailableError
from danube.model.limits.metadata import RAFT_ASKED_MAX, RAFT_MEMBERS_TOLD_MAX
from danube.testing.patience import PATIENCE_S
from tests.unit.metadata.raft.local import QUICK, GroupStore

VOTER = Member(node_id=2, address="10.0.0.2:7650", role=MemberRole.VOTER, connected=True, lag=0)
LEARNER = Member(node_id=3, address="10.0.0.3:7650", role=MemberRole.LEARNER, connected=False)


def leader_of(store: GroupStore) -> GroupStore:
    """The one of three that leads."""
    return next(each for each in store.others if each.sequencer.status().leader_id == each.sequencer.status().node_id)


def lags(status: MembershipStatus) -> dict[int, int | None]:
    return {member.node_id: member.lag for member in status.members}


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    """Return when it holds; what the leader hears of others has no event."""
    async with asyncio.timeout(PATIENCE_S):
        while not await holds():  # noqa: ASYNC110 - as said
            await asyncio.sleep(QUICK.tick_s)


async def looked(sequencer: RaftSequencer, holds: Callable[[MembershipStatus], bool]) -> MembershipStatus:
    """What it tells as soon as this holds."""
    async with asyncio.timeout(PATIENCE_S):
        while not holds(status := await sequencer.leader_status()):  # noqa: ASYNC110 - what it waits for has no event
            await asyncio.sleep(QUICK.tick_s)
    return status


async def test_a_follower_tells_the_lag_of_all_as_the_leader_does(three: GroupStore) -> None:
    leader = leader_of(three)
    gone = next(each for each in three.others if each is not leader)
    gone_id = gone.sequencer.status().node_id
    await gone.close()
    for number in range(5):
        await three.put(f"/{number}", b"x")
    before = three.sequencer.status()

    async def is_told() -> bool:
        told, as_leader = await three.sequencer.leader_status(), await leader.sequencer.leader_status()
        same = lags(told) == lags(as_leader) and told.node_id == before.node_id
        elected_anew = told.term != before.term  # who leads then has never heard of the one that is gone
        unreached = {member.node_id for member in told.members if not member.connected}
        return same and unreached == {gone_id} and (elected_anew or (lags(told)[gone_id] or 0) >= 5)

    await until(is_told)


async def test_a_look_waits_for_no_change_that_is_under_way(three: GroupStore) -> None:
    async with leader_of(three).sequencer._calls._changes._turn:
        await looked(three.sequencer, lambda now: None not in lags(now).values())


async def test_a_leader_that_does_not_answer_in_time_leaves_the_lag_unknown(
    three: GroupStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leader_calls, "RAFT_LOOK_TIMEOUT_S", 0.05)
    member = leader_of(three).sequencer._local_node.member
    assert member is not None
    member.on_own = lambda _node, _message: None
    status = await three.sequencer.leader_status()
    assert set(lags(status).values()) == {None}
    assert len(status.members) == 3
    assert not three.sequencer._calls._asked


async def test_a_leader_that_does_not_know_the_question_leaves_the_lag_unknown(three: GroupStore) -> None:
    member = leader_of(three).sequencer._local_node.member
    assert member is not None
    take, asked = member.on_own, []

    def take_as_of_before(node: Any, message: dict[str, Any]) -> None:
        asked.append(message["what"])
        take(node, message | {"what": "nothing it knows"})

    member.on_own = take_as_of_before
    assert set(lags(await three.sequencer.leader_status()).values()) == {None}
    assert asked == ["look"]


async def test_only_who_was_asked_answers(three: GroupStore) -> None:
    """Another member that says something under the same number is not heard."""
    member, leader = three.sequencer._local_node.member, leader_of(three)
    assert member is not None
    take, unknown_peers = member.on_own, []

    def take_a_stranger_first(node: Any, message: dict[str, Any]) -> None:
        unknown_peer = next(other for other in member.core.otherNodes if other != node)
        unknown_peers.append(unknown_peer)
        take(unknown_peer, message | {"result": pack_result(NotFoundError("not my words"))})
        take(node, message)

    member.on_own = take_a_stranger_first

    async def leader_is_heard() -> bool:
        return lags(await three.sequencer.leader_status()) == lags(await leader.sequencer.leader_status())

    await until(leader_is_heard)
    assert unknown_peers


async def test_who_has_asked_enough_tells_what_it_knows_itself(three: GroupStore) -> None:
    waiting = three.sequencer._calls._asked
    waiting |= {-number: asyncio.get_running_loop().create_future() for number in range(RAFT_ASKED_MAX)}
    assert set(lags(await three.sequencer.leader_status()).values()) == {None}
    waiting.clear()


async def test_without_a_leader_and_after_the_end_a_member_tells_what_it_knows_itself(three: GroupStore) -> None:
    for other in three.others:
        await other.close()
    status = await looked(three.sequencer, lambda now: now.leader_id == 0)
    assert set(lags(status).values()) == {None}
    await three.close()
    assert (await three.sequencer.leader_status()).node_id == status.node_id


def test_what_a_leader_tells_of_the_members_arrives_with_who_told_it_and_when() -> None:
    status = MembershipStatus(kind="raft", node_id=2, leader_id=2, term=9, members=(VOTER, LEARNER))
    assert unpack_result(loads(dumps(pack_result(status)))) == status


def test_a_leader_tells_of_no_more_members_than_are_read() -> None:
    status = MembershipStatus(kind="raft", node_id=2, leader_id=2, members=(VOTER,) * (RAFT_MEMBERS_TOLD_MAX + 5))
    assert len(unpack_result(loads(dumps(pack_result(status)))).members) == RAFT_MEMBERS_TOLD_MAX


@pytest.mark.parametrize("value", [None, 17, VOTER, LEARNER])
def test_what_the_leader_answers_arrives(value: object) -> None:
    assert unpack_result(pack_result(value)) == value


@pytest.mark.parametrize("error", [NotFoundError("a"), PreconditionFailedError("b"), UnavailableError("c")])
def test_what_the_leader_raises_is_raised_where_it_was_asked(error: Exception) -> None:
    told = unpack_result(pack_result(error))
    assert (type(told), str(told)) == (type(error), str(error))


def test_other_errors_arrive_with_their_words() -> None:
    told = unpack_result(pack_result(LimitReachedError("too many")))
    assert (type(told), str(told)) == (UnavailableError, "too many")


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"error": 1},
        {"member": [1]},
        {"value": b"x"},
        {"member": [1, "h:1", "king", True, 0]},
        {"member": [1, "h\x1b[2J:1", "voter", True, 0]},
        {"member": [1, "nowhere", "voter", True, 0]},
        {"leader": [1], "members": []},
        {"leader": [1, 1], "members": [[1, "h:1"]]},
        {"leader": [1, 1], "members": [[1, "h:1", "voter", True, 0]] * (RAFT_MEMBERS_TOLD_MAX + 1)},
    ],
)
def test_an_answer_that_cannot_be_read_is_said_to_be(message: dict[str, Any]) -> None:
    assert isinstance(unpack_result(message), UnavailableError)
