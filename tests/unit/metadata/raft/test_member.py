"""What one member of a group does: what it is told, its snapshots, and what ends it."""

from typing import Any

import pytest

from danube.metadata.cluster.membership import MemberRole
from danube.metadata.raft.core import overrides, snapshot_keeper
from danube.metadata.raft.core.overrides import LEADER
from danube.metadata.raft.core.raft_core import RaftCore
from danube.metadata.raft.core.snapshot_keeper import SnapshotRequest
from danube.metadata.raft.folder.snapshot import HeldSnapshot, MemoryBytes
from danube.metadata.raft.member import Installed, pack_batch, unpack_batch
from danube.model.errors import DanubeError, MetadataError
from danube.model.limits.metadata import RAFT_UNAPPLIED_BYTES_MAX
from danube.testing.simulated.disk import Operation
from tests.unit.metadata.raft.groups import ENTRIES_MAX, NODES, ORIGIN, TICK_S, Group, cut_off, role_of


def test_a_voter_that_is_alone_leads_at_once(group: Group) -> None:
    begun = group.form(1)
    assert begun.leader.member.role is MemberRole.VOTER
    begun.submit(begun.leader)
    begun.run(2 * TICK_S)
    assert begun.leader.numbers == [1]


def test_what_one_submits_all_are_told_in_one_order(group: Group) -> None:
    group.form(3)
    for one in group.ones.values():
        group.submit(one, 5)
    group.run(1.0)
    first, *others = (one.numbers for one in group.ones.values())
    assert sorted(first) == list(range(1, 16))
    assert all(numbers == first for numbers in others)


def test_without_a_leader_nothing_is_taken(group: Group) -> None:
    group.form(3)
    leader = group.leader
    for one in group.followers:
        group.stop(one)
    group.run(3.0)
    assert not leader.member.propose(pack_batch(ORIGIN, 1, []))
    assert not leader.member.view().has_quorum
    assert leader.member.view().leader_id == 0


def test_a_follower_that_is_cut_off_names_no_leader(group: Group) -> None:
    group.form(3)
    one = group.followers[0]
    group.network.side[one.node] = 1
    group.network.cut_between_sides()
    one.tick()
    assert one.member.view().leader_id == 0


def test_a_batch_survives_its_bytes() -> None:
    assert unpack_batch(pack_batch(7, 8, [b"a", b""])) == (7, 8, (b"a", b""))
    with pytest.raises(MetadataError):
        unpack_batch(b"\x00nonsense")


# Snapshots


def test_the_log_is_cut_once_an_image_is_kept(group: Group) -> None:
    group.form(1)
    for _ in range(3 * ENTRIES_MAX):
        group.submit(group.leader)
        group.run(TICK_S)
    snapshot = group.leader.folder.snapshot
    assert snapshot is not None
    assert snapshot.index > ENTRIES_MAX
    assert len(group.leader.folder.log) <= ENTRIES_MAX + 2


def test_a_member_that_was_away_for_long_is_sent_an_snapshot(group: Group) -> None:
    group.form(3)
    away = group.followers[0]
    disk = group.stop(away)
    for _ in range(3 * ENTRIES_MAX):
        group.submit(group.leader)
        group.run(TICK_S)
    back = group.start(away.node, disk)
    group.run(2.0)
    assert any(isinstance(found, Installed) and found.snapshot.index > ENTRIES_MAX for found in back.found)
    assert back.member.core.applied_index() == group.leader.member.core.applied_index()


def test_what_a_follower_still_needs_of_the_log_is_kept_for_it(group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    group.form(3)
    leader, silent = group.leader, group.followers[0]
    has = leader.member.core.match_index(silent.node)
    assert has
    monkeypatch.setattr(silent.transport, "send", lambda *_: True)  # it gets all, and says nothing
    for _ in range(2 * ENTRIES_MAX):
        group.submit(leader)
        group.run(TICK_S)
    snapshot = leader.folder.snapshot
    assert snapshot is not None
    assert snapshot.index > ENTRIES_MAX
    assert leader.folder.log.first_index <= has
    for _ in range(4 * ENTRIES_MAX):
        group.submit(leader)
        group.run(TICK_S)
    assert leader.folder.log.first_index > has  # there is an end to it


def test_a_core_that_is_built_anew_keeps_what_is_behind_the_snapshot(group: Group) -> None:
    group.form(2, learners=1)
    learner = group.ones[NODES[2]]
    for _ in range(10):
        group.submit(group.leader)
    group.run(0.5)
    before = learner.folder.log[:]
    _, prev, last, *_ = before
    snapshot = HeldSnapshot(
        prev=prev, last=last, members=tuple(str(node.id) for node in NODES[:3]), payload=MemoryBytes(b"x")
    )
    learner.folder.save_snapshot(snapshot)  # on the disk, and the core has not been told yet
    learner.member.own_vote_changed()
    learner.tick()
    assert role_of(learner) is MemberRole.VOTER
    assert learner.folder.log[:] == before[1:]
    assert learner.member.core.applied_index() == before[-1][1]


def test_an_image_that_is_made_while_the_core_is_built_anew_does_not_stop_it(group: Group) -> None:
    group.form(2, learners=1)
    learner = group.ones[NODES[2]]
    group.submit(group.leader, 10)
    group.run(0.5)
    core = learner.member.core
    *_, prev, last = learner.folder.log[:]
    learner.member.keeper.serialize((None, last, prev, ()), prev[1])
    group.leader.member.change("add", learner.node)
    group.run(0.5)
    assert learner.member.core is not core
    learner.member.keeper.snapshot_made(SnapshotRequest(prev, last, ()), [b"the state"])
    group.submit(group.leader, 3)
    group.run(1.0)
    assert learner.member.core.applied_index() == group.leader.member.core.applied_index()


def test_a_leader_that_waits_for_its_window_sends_one_sign_of_life_a_tick(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot_keeper, "RAFT_SNAPSHOT_PIECE_BYTES", 2)
    monkeypatch.setattr(snapshot_keeper, "RAFT_SNAPSHOT_WINDOW_BYTES", 4)
    group.form(3)
    away = group.followers[0]
    disk = group.stop(away)
    for _ in range(3 * ENTRIES_MAX):
        group.submit(group.leader)
        group.run(TICK_S)
    back = group.start(away.node, disk)
    sent: list[object] = []
    send = group.network.send

    def counted(*message: Any) -> bool:
        sent.append(message)
        assert len(sent) < 1_000
        return send(*message)

    monkeypatch.setattr(group.network, "send", counted)
    group.run(3.0)
    assert back.member.core.applied_index() == group.leader.member.core.applied_index()


def test_a_deposed_leader_whose_image_was_not_finished_catches_up(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has the entry of the others' snapshot, and does not know yet that this was agreed on."""
    group.form(3)
    deposed, others = group.leader, group.followers
    monkeypatch.setattr(deposed.member.keeper, "snapshot_made", lambda *_: None)
    for _ in range(ENTRIES_MAX + 2):
        group.submit(deposed)
        group.run(3 * TICK_S)
    cut_off(group, *others)
    group.submit(deposed, 5)
    group.run(0.2)
    disk = group.stop(deposed)
    group.run(5.0)
    group.submit(group.leader, 8)
    group.run(1.0)
    again = group.leader  # its log is cut at its snapshot, and the deposed one's reaches beyond that
    group.start(again.node, group.stop(again))
    group.run(5.0)
    group.network.side.clear()
    back = group.start(deposed.node, disk)
    group.run(5.0)
    assert back.member.core.commit_index() == group.leader.member.core.commit_index()


def test_a_new_leader_forgets_what_it_sent_and_changed_when_it_led_before(group: Group) -> None:
    group.form(3)
    leader = group.leader
    cut_off(group, *group.followers)
    leader.member.change("rem", group.ones[NODES[2]].node if leader.node != NODES[2] else NODES[1])
    leader.member.keeper.sent_index[NODES[3]] = 7
    assert leader.member.core.changing()
    leader.member.core._SyncObj__onBecomeLeader()
    assert not leader.member.core.changing()
    assert not leader.member.keeper.sent_index


def test_no_image_is_wanted_while_more_was_told_than_is_applied(group: Group) -> None:
    group.form(1)
    member, snapshot = group.leader.member, group.leader.folder.snapshot
    member._told += 1_000  # as by a core that was here before
    for _ in range(2 * ENTRIES_MAX):
        group.submit(group.leader)
        group.run(TICK_S)
    assert snapshot is not None
    assert group.leader.folder.snapshot is snapshot


def test_an_image_has_whom_was_agreed_on_at_its_moment(group: Group) -> None:
    group.form(2, learners=1)
    leader, learner = group.leader, group.ones[NODES[2]]
    for one in group.followers:
        group.network.side[one.node] = 1  # the change is not agreed on
    group.network.cut_between_sides()
    assert leader.member.change("add", learner.node)
    assert str(learner.node.id) in leader.member.voters()
    assert str(learner.node.id) not in leader.member.core.applied_voters


# What ends a member, and what it bears


def test_a_failed_sync_ends_the_member(group: Group) -> None:
    group.form(3)
    one = group.leader
    one.disk.fail(Operation.SYNC, name="raft/*", times=100)
    group.submit(one)
    group.run(0.5)
    assert isinstance(one.error, DanubeError)
    assert "Check the disk" in str(one.error)


def test_entries_that_were_agreed_on_are_not_cut_for_anyone(group: Group) -> None:
    group.form(3)
    group.submit(group.leader)
    group.run(0.5)
    one = group.followers[0]
    with pytest.raises(MetadataError, match="agreed on"):
        one.member.core._SyncObj__deleteEntriesFrom(one.member.core.applied_index())


def test_a_follower_that_is_slow_to_apply_is_told_no_more_until_it_has(group: Group) -> None:
    group.form(1)
    member = group.leader.member
    member.applied(-RAFT_UNAPPLIED_BYTES_MAX)
    group.submit(group.leader)
    group.run(0.2)
    assert group.leader.numbers == []
    member.applied(RAFT_UNAPPLIED_BYTES_MAX)
    group.run(0.2)
    assert group.leader.numbers == [1]


def test_a_learner_whose_vote_came_meanwhile_may_disconnect(group: Group) -> None:
    """pysyncobj forgets how far it is, and its leader stumbles over that at each tick."""
    group.form(2, learners=1)
    leader, learner = group.leader, group.ones[NODES[2]]
    leader.member.change("add", learner.node)
    group.network.cut(leader.node, learner.node)
    group.run(0.5)
    assert leader.error is None


def test_a_leader_that_sees_no_majority_leads_no_more(group: Group) -> None:
    group.form(3)
    leader = group.leader
    group.network.side[leader.node] = 1
    group.network.cut_between_sides()
    group.run(3.0)
    assert leader.member.core._SyncObj__raftState != LEADER


def test_every_method_that_is_taken_over_is_the_cores() -> None:
    for name in vars(RaftCore):
        if name.startswith("_SyncObj__"):
            assert hasattr(overrides.SyncObj, name)
