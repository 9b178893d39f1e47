"""Who votes, who learns and who was removed, in a group in simulated time."""

import pytest

from danube.metadata.cluster.membership import MemberRole
from danube.metadata.raft.core import overrides
from danube.metadata.raft.values.entries import MEMBERSHIP
from danube.model.errors import MetadataError, PreconditionFailedError, UnavailableError
from danube.model.limits.metadata import RAFT_REMOVED_S
from tests.unit.metadata.raft.groups import ENTRIES_MAX, NODES, TICK_S, Group, One, cut_off, role_of


def test_a_learner_has_the_log_and_no_vote(group: Group) -> None:
    group.form(2, learners=1)
    learner = group.ones[NODES[2]]
    group.submit(learner)
    group.run(1.0)
    assert learner.numbers == [1]
    assert learner.member.role is MemberRole.LEARNER
    shown = {member.node_id: member for member in group.leader.member.view().members}
    assert (shown[3].role, shown[3].connected, shown[3].lag) == (MemberRole.LEARNER, True, 0)


def test_a_learner_that_is_given_a_vote_votes_and_the_leader_goes_on(group: Group) -> None:
    group.form(2, learners=1)
    learner = group.ones[NODES[2]]
    group.leader.member.change("add", learner.node)
    group.run(2.0)
    assert learner.member.role is MemberRole.VOTER
    assert group.leader.error is None
    group.stop(next(one for one in group.followers if one is not learner))  # two of three go on
    group.submit(group.leader)
    group.run(1.0)
    assert learner.numbers == [1]


def test_a_learner_that_hears_of_its_vote_from_an_image_votes(group: Group) -> None:
    group.form(3, learners=1)
    learner = group.ones[NODES[3]]
    disk = group.stop(learner)
    group.leader.member.change("add", learner.node)
    for _ in range(3 * ENTRIES_MAX):
        group.submit(group.leader)
        group.run(TICK_S)
    back = group.start(learner.node, disk)
    assert role_of(back) is MemberRole.LEARNER
    group.run(3.0)
    assert role_of(back) is MemberRole.VOTER
    assert back.node not in back.member.core.voters()
    assert {node.id for node in back.member.core.voters()} == {node.id for node in NODES[:3]}


def test_one_change_of_membership_at_a_time(group: Group) -> None:
    group.form(3, learners=1)
    for one in group.followers:
        group.network.side[one.node] = 1
    group.network.cut_between_sides()
    member = group.leader.member
    member.change("add", NODES[3])
    with pytest.raises(PreconditionFailedError, match="another change"):
        member.change("rem", group.followers[0].node)


def test_a_voter_that_missed_who_got_a_vote_helps_to_elect_it(group: Group) -> None:
    """It knows the newcomer neither as a voter nor as a learner, and only the newcomer has all that was agreed on."""
    group.form(2, learners=1)
    leader, newcomer = group.leader, group.ones[NODES[2]]
    late = next(one for one in group.followers if one is not newcomer)
    disk = group.stop(late)
    leader.member.change("add", newcomer.node)
    group.run(3.0)
    group.stop(leader)
    back = group.start(late.node, disk)
    group.run(TICK_S)
    assert newcomer.node.id not in back.member.voters()
    assert newcomer.node not in back.member.core.connected()
    assert back.transport.hears(newcomer.node)
    group.run(5.0)
    assert group.leader is newcomer
    assert back.member.core.leader() == newcomer.node
    assert newcomer.node in back.member.core.connected()
    group.submit(back)
    group.run(1.0)
    assert back.numbers == newcomer.numbers


def test_a_learner_that_missed_its_vote_gives_it(group: Group) -> None:
    """Without it the two that are left could elect nobody, though they are a majority."""
    group.form(2, learners=1)
    leader, learner = group.leader, group.ones[NODES[2]]
    other = next(one for one in group.followers if one is not learner)
    cut_off(group, learner)
    leader.member.change("add", learner.node)
    group.run(0.2)
    group.stop(leader)
    assert learner.node.id in other.member.voters()
    assert role_of(learner) is MemberRole.LEARNER
    group.network.side.clear()
    group.run(6.0)
    assert group.leader is other
    assert role_of(learner) is MemberRole.VOTER
    assert learner.folder.log.getVotedForNodeId() == other.node.id  # on the disk before it was said


def test_a_learner_that_hears_of_a_leader_gives_no_vote(group: Group) -> None:
    group.form(2, learners=1)
    leader, learner = group.leader, group.ones[NODES[2]]
    other = next(one for one in group.followers if one is not learner)
    term = leader.member.core.current_term()
    last = {"last_log_index": other.member.core.last_index(), "last_log_term": term}
    other.member.send(learner.node, {"type": "request_vote", "term": term + 1, **last})
    group.run(1.0)
    assert learner.member.core.current_term() == term
    group.submit(leader)
    group.run(1.0)
    assert learner.numbers == [1]


def test_a_learner_that_voted_against_a_leader_has_it_elected_anew(group: Group) -> None:
    """Otherwise it would follow nobody until another one leads."""
    group.form(2, learners=1)
    learner = group.ones[NODES[2]]
    other = next(one for one in group.followers if one is not learner)
    learner.folder.log.setCurrentTerm(7, str(other.node.id))
    disk = group.stop(learner)
    back = group.start(learner.node, disk)
    group.run(4.0)
    group.submit(group.leader)
    group.run(1.0)
    assert group.leader.member.core.current_term() > 7
    assert back.numbers == [1]


def test_a_leader_that_is_not_known_to_vote_is_named_while_it_is_connected(group: Group) -> None:
    group.form(2, learners=1)
    leader, newcomer = group.leader, group.ones[NODES[2]]
    late = next(one for one in group.followers if one is not newcomer)
    disk = group.stop(late)
    leader.member.change("add", newcomer.node)
    group.run(3.0)
    back = group.start(late.node, disk)
    group.stop(leader)
    group.run(TICK_S)
    back.member.core._SyncObj__raftLeader = newcomer.node  # its first message came, and not yet that it votes
    assert back.member.core.leader() == newcomer.node
    group.network.cut(back.node, newcomer.node)
    assert back.member.core.leader() is None


def test_a_voter_that_would_have_another_removed_helps_to_elect_it(group: Group) -> None:
    """The removal reached nobody else, and was never agreed on."""
    group.form(3)
    first, second, third = group.leader, *group.followers
    cut_off(group, second, third)
    first.member.change("rem", third.node)
    first.folder.log.sync()
    disk = group.stop(first)
    group.run(6.0)
    group.submit(group.leader, 2)
    group.run(1.0)
    group.stop(second)
    group.network.side.clear()
    back = group.start(first.node, disk)
    assert third.node.id not in back.member.voters()
    group.run(5.0)
    assert group.leader is third
    assert third.node.id in back.member.voters()


def test_a_member_that_was_removed_disturbs_nobody(group: Group) -> None:
    group.form(3)
    leader, removed = group.leader, group.followers[0]
    leader.member.change("rem", removed.node)
    group.run(RAFT_REMOVED_S)
    assert removed.member.core.current_term() > leader.member.core.current_term()  # it stands, again and again
    assert group.leader is leader
    assert removed.member.missing() == removed.member.core.voters()  # it hears nothing, and asks all of them


def test_a_change_that_was_refused_is_not_made_later(group: Group) -> None:
    group.form(3)
    member, node = group.leader.member, group.followers[0].node
    member.hold_proposals(5.0)
    with pytest.raises(PreconditionFailedError, match="try again"):
        member.change("rem", node)
    member.hold_proposals(0.0)
    group.run(1.0)
    assert node.id in member.voters()


def test_a_change_goes_before_the_batches_that_wait(group: Group) -> None:
    group.form(3)
    leader, node = group.leader, group.followers[0].node
    group.submit(leader, 100)
    index = leader.member.change("rem", node)
    assert index == leader.folder.log.last_index
    assert node.id not in leader.member.voters()


def test_only_the_leader_changes_the_membership(group: Group) -> None:
    group.form(3)
    with pytest.raises(UnavailableError):
        group.followers[0].member.change("rem", group.leader.node)


def test_after_a_restart_the_newest_membership_in_the_log_counts(group: Group) -> None:
    group.form(2, learners=1)
    leader = group.leader
    for one in group.followers:
        group.network.side[one.node] = 1
    group.network.cut_between_sides()
    leader.member.change("add", NODES[2])
    leader.folder.log.sync()
    back = group.start(leader.node, group.stop(leader))
    assert {node.id for node in back.member.core.voters()} == {node.id for node in NODES[:3]} - {leader.node.id}


def test_a_member_that_sees_its_removal_agreed_on_stops(group: Group) -> None:
    group.form(3)
    one = group.followers[0]
    command = MEMBERSHIP + overrides.core.pickle.dumps(["rem", one.node.id, one.node])
    one.member.core._SyncObj__doApplyCommand(command)  # it was given a vote again since
    index, term = one.folder.log.last_index, one.member.core.current_term()
    one.folder.log.add(command, index + 1, term)
    with pytest.raises(MetadataError, match="was removed"):
        one.member.core._SyncObj__doApplyCommand(command)


def test_a_member_that_the_others_went_on_without_stops_after_a_while(group: Group) -> None:
    group.form(3)
    one = group.followers[0]
    group.leader.member.change("rem", one.node)
    group.run(3.0)
    _hear_of_removal(group, one, RAFT_REMOVED_S + 3.0)
    assert isinstance(one.error, MetadataError)
    assert "was removed" in str(one.error)


def test_a_member_that_one_voter_once_took_for_removed_goes_on(group: Group) -> None:
    group.form(3)
    one = group.followers[0]
    cut_off(group, one)
    group.run(3.0)
    one.member.removed_member()
    group.run(RAFT_REMOVED_S + 2.0)
    one.member.removed_member()  # the first time was long ago
    group.run(TICK_S)
    assert one.error is None


def test_a_member_that_one_voter_still_knows_goes_on(group: Group) -> None:
    group.form(3)
    one = group.followers[0]
    cut_off(group, one)
    group.run(3.0)
    _hear_of_removal(group, one, RAFT_REMOVED_S - 2.0)
    one.member.not_removed()
    _hear_of_removal(group, one, RAFT_REMOVED_S - 2.0)
    assert one.error is None


def test_a_member_that_is_led_does_not_believe_that_it_was_removed(group: Group) -> None:
    group.form(3)
    _hear_of_removal(group, group.followers[0], RAFT_REMOVED_S + 2.0)
    assert group.followers[0].error is None


def test_another_voter_leads_when_it_is_told_to(group: Group) -> None:
    group.form(3)
    chosen = group.followers[0]
    group.leader.member.transfer_lead(chosen.node.node_id)
    group.run(0.3)  # far less than an election takes
    assert group.leader is chosen


def test_the_lag_of_who_is_silent_since_a_member_began_to_lead_is_not_known(group: Group) -> None:
    group.form(3)
    group.submit(group.leader)
    away, heir = group.followers
    disk = group.stop(away)
    group.leader.member.transfer_lead(heir.node.node_id)
    group.run(1.0)
    assert group.leader is heir
    assert _lag_of(away, heir) is None
    group.start(away.node, disk)
    group.run(1.0)
    assert _lag_of(away, heir) == 0


def test_nothing_new_goes_into_the_log_while_the_lead_is_handed_over(group: Group) -> None:
    group.form(1)
    group.leader.member.hold_proposals(0.5)
    group.submit(group.leader)
    group.run(0.3)
    assert group.leader.numbers == []
    group.run(0.4)
    assert group.leader.numbers == [1]


def _lag_of(one: One, leader: One) -> int | None:
    return next(each.lag for each in leader.member.view().members if each.node_id == one.node.node_id)


def _hear_of_removal(group: Group, one: One, seconds: float) -> None:
    """Be told by another voter, each second, that this member takes no part."""
    for _ in range(round(seconds)):
        group.run(1.0)
        one.member.removed_member()
