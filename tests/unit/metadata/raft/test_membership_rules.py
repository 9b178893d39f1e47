"""What must not be done with the members now, and what to do first."""

from dataclasses import replace
from typing import Any

import pytest

from danube.metadata.membership import Member, MemberRole, MembershipStatus
from danube.metadata.raft.membership import (
    pack_result,
    refuse_promotion,
    refuse_removal,
    refuse_transfer,
    unpack_result,
)
from danube.model.errors import (
    LimitReachedError,
    NotFoundError,
    PreconditionFailedError,
    UnavailableError,
)
from danube.model.metadata_limits import RAFT_CATCH_UP_ENTRIES_MAX, RAFT_VOTES_MAX


def _voter(node_id: int, *, connected: bool = True) -> Member:
    address = f"10.0.0.{node_id}:7650"
    return Member(node_id=node_id, address=address, role=MemberRole.VOTER, connected=connected, lag=0)


def _learner(node_id: int, *, connected: bool = True, lag: int = 0) -> Member:
    return replace(_voter(node_id, connected=connected), role=MemberRole.LEARNER, lag=lag)


def _status(*members: Member) -> MembershipStatus:
    return MembershipStatus(kind="raft", node_id=1, leader_id=1, members=members)


@pytest.mark.parametrize(
    ("learner", "reason"),
    [
        (_learner(9, connected=False), "start it"),
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


@pytest.mark.parametrize("value", [None, 17, _voter(2), replace(_learner(3), lag=None)])
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
    "message", [{}, {"error": 1}, {"member": [1]}, {"value": b"x"}, {"member": [1, "a", "king", True, 0]}]
)
def test_an_answer_that_cannot_be_read_is_said_to_be(message: dict[str, Any]) -> None:
    assert isinstance(unpack_result(message), UnavailableError)
