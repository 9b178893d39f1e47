"""What must not be done with the members now, and what to do first."""

from dataclasses import replace

import pytest

from danube.metadata.cluster.membership import Member, MemberRole, MembershipStatus
from danube.metadata.raft.membership import as_leader_knows, refuse_promotion, refuse_removal, refuse_transfer
from danube.model.errors import NotFoundError, PreconditionFailedError
from danube.model.limits.metadata import RAFT_CATCH_UP_ENTRIES_MAX, RAFT_VOTES_MAX


def _voter(node_id: int, *, connected: bool = True) -> Member:
    address = f"10.0.0.{node_id}:7650"
    return Member(node_id=node_id, address=address, role=MemberRole.VOTER, connected=connected, lag=0)


def _learner(node_id: int, *, connected: bool = True, lag: int = 0) -> Member:
    return replace(_voter(node_id, connected=connected), role=MemberRole.LEARNER, lag=lag)


def _status(*members: Member) -> MembershipStatus:
    return MembershipStatus(kind="raft", node_id=1, leader_id=1, members=members)


def _unknown(member: Member) -> Member:
    """As one that does not lead sees it."""
    return replace(member, lag=None)


def _told(*members: Member) -> MembershipStatus:
    """By the leader."""
    return replace(_status(*members), term=7)


@pytest.mark.parametrize(
    ("learner", "reason"),
    [
        (_learner(9, connected=False), "start it"),
        (replace(_learner(9), lag=None), "in a moment"),
        (_learner(9, lag=RAFT_CATCH_UP_ENTRIES_MAX + 1), "lacks"),
    ],
)
def test_a_learner_that_would_hold_up_the_others_gets_no_vote(learner: Member, reason: str) -> None:
    with pytest.raises(PreconditionFailedError, match=reason):
        refuse_promotion(_status(_voter(1), learner), learner)


def test_there_are_not_more_votes_than_help() -> None:
    status = _status(*(_voter(number) for number in range(1, RAFT_VOTES_MAX + 1)), _learner(99))
    with pytest.raises(PreconditionFailedError, match="remove one first"):
        refuse_promotion(status, _learner(99))


@pytest.mark.parametrize(
    ("members", "removed", "reason"),
    [
        ([_voter(1)], 1, "last voter"),
        ([_voter(1), _voter(2), _voter(3)], 1, "transfer-leader"),
        ([_voter(1), _voter(2), _voter(3, connected=False)], 2, "no majority"),
        ([_voter(1), _voter(2), _voter(3), _voter(4, connected=False), _voter(5, connected=False)], 2, "no majority"),
    ],
)
def test_a_removal_that_would_end_the_cluster_is_refused(members: list[Member], removed: int, reason: str) -> None:
    with pytest.raises(PreconditionFailedError, match=reason):
        refuse_removal(_status(*members), next(member for member in members if member.node_id == removed))


@pytest.mark.parametrize(
    ("members", "removed"),
    [
        ([_voter(1), _voter(2), _voter(3, connected=False)], 3),
        ([_voter(1), _voter(2)], 2),
        ([_voter(1), _learner(9, connected=False)], 9),
    ],
)
def test_a_removal_that_leaves_a_majority_is_not_refused(members: list[Member], removed: int) -> None:
    refuse_removal(_status(*members), next(member for member in members if member.node_id == removed))


def test_who_cannot_lead_is_not_made_to() -> None:
    status = _status(_voter(1), _voter(2, connected=False), _learner(9))
    with pytest.raises(PreconditionFailedError, match="promote it first"):
        refuse_transfer(status, 9)
    with pytest.raises(PreconditionFailedError, match="start one first"):
        refuse_transfer(status, 2)
    with pytest.raises(PreconditionFailedError, match="start one first"):
        refuse_transfer(status, None)
    with pytest.raises(NotFoundError):
        refuse_transfer(status, 77)
    refuse_transfer(_status(_voter(1), _voter(2)), None)


def test_a_follower_shows_the_members_as_its_leader_sees_them_and_all_else_as_its_own() -> None:
    own = replace(_status(_voter(1), _unknown(_voter(2)), _unknown(_voter(3))), node_id=3, term=7, position=40)
    told = _told(_voter(1), replace(_voter(2, connected=False), lag=12), _learner(9, lag=3))
    shown = as_leader_knows(own, told)
    assert shown.members == told.members
    assert replace(shown, members=()) == replace(own, members=())


def test_a_learner_that_only_a_follower_is_connected_with_is_shown_as_not_connected() -> None:
    own = replace(_status(_voter(1), _learner(5), _voter(6)), node_id=6, term=7)
    shown = as_leader_knows(own, _told(_voter(1), _voter(6)))
    assert [(member.node_id, member.connected, member.lag) for member in shown.members] == [
        (1, True, 0),
        (5, False, None),
        (6, True, 0),
    ]


def test_a_voter_that_the_leader_knows_no_more_is_not_shown() -> None:
    own = replace(_status(_voter(1), _voter(2), _voter(3)), node_id=3, term=7)
    assert [member.node_id for member in as_leader_knows(own, _told(_voter(1), _voter(3))).members] == [1, 3]


@pytest.mark.parametrize("other", [{"node_id": 2}, {"term": 6}, {"term": 8}])
def test_what_another_leader_told_is_not_shown(other: dict[str, int]) -> None:
    own = replace(_status(_voter(1), _unknown(_voter(3))), node_id=3, term=7)
    assert as_leader_knows(own, replace(_told(_voter(1), _voter(3)), **other)) == own  # type: ignore[arg-type]  # numbers
