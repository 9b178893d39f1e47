"""Members of one group in simulated time, without faults but those that a test causes."""

import random
from typing import Any

import pytest

from danube.metadata.membership import MemberRole
from danube.metadata.raft import keeper, seams
from danube.metadata.raft.alignment import members_after
from danube.metadata.raft.bootstrap import begin
from danube.metadata.raft.dump import HeldImage, MemoryBytes
from danube.metadata.raft.folder import RaftFolder
from danube.metadata.raft.keeper import Wanted
from danube.metadata.raft.member import Found, Installed, Member, MemberParts, Ordered, pack_batch, unpack_batch
from danube.metadata.raft.node import RaftNode
from danube.metadata.raft.seams import LEADER, MEMBERSHIP
from danube.metadata.raft.settings import LogBounds, RaftTiming
from danube.metadata.raft.voting import Voting
from danube.model.errors import DanubeError, MetadataError, PreconditionFailedError, UnavailableError
from danube.model.metadata_limits import RAFT_DISMISSED_S, RAFT_UNAPPLIED_BYTES_MAX
from danube.testing.disk import Operation, SimDisk
from danube.testing.raft_network import Agenda, SimNetwork, SimTransport
from danube.testing.raft_world import NullPoller

NODES = [RaftNode(f"{number}@10.0.0.{number}:7650") for number in range(1, 5)]
ORIGIN = 77
ENTRIES_MAX = 30
TICK_S = 0.02


class One:
    """A member, its disk and what it found."""

    def __init__(self, group: "Group", node: RaftNode, disk: SimDisk) -> None:
        self.node, self.disk = node, disk
        self.folder = RaftFolder.open(disk)
        self.transport = SimTransport(group.network, node)
        group.network.start(self.transport)
        self.member = Member(
            MemberParts(
                own=node,
                log=self.folder.log,
                images=self.folder,
                transport=self.transport,
                poller=NullPoller(),
                timing=RaftTiming(),
                bounds=LogBounds(entries_max=ENTRIES_MAX),
                voters_after=members_after,
            )
        )
        self.found: list[Found] = []
        self.error: Exception | None = None

    def tick(self) -> None:
        if self.error is None:
            try:
                self.member.tick(0.0)
            except Exception as error:  # what ends a member is what some tests look for
                self.error = error
                self.transport.destroy()
        for found in self.member.take():
            self.found.append(found)
            if isinstance(found, Wanted):
                self.member.keeper.made(found, [b"the state"])

    @property
    def numbers(self) -> list[int]:
        """The batches that it was told, in order."""
        return [found.number for found in self.found if isinstance(found, Ordered)]


class Group:
    """Members that form a group of `voters`, and further ones that do not vote."""

    def __init__(self, agenda: Agenda) -> None:
        self.agenda = agenda
        self.network = SimNetwork(agenda, random.Random(1), lambda to, sender, message: to.deliver(sender, message))
        self.ones: dict[RaftNode, One] = {}
        self.numbers = 0

    def form(self, count: int, learners: int = 0) -> "Group":
        voters = [str(node.id) for node in NODES[:count]]
        for node in NODES[: count + learners]:
            disk = SimDisk(1)
            folder = RaftFolder.open(disk)
            begin(folder, "c1", voters)
            folder.close()
            self.start(node, disk)
        self.run(4.0)
        return self

    def start(self, node: RaftNode, disk: SimDisk) -> One:
        one = self.ones[node] = One(self, node, disk)
        return one

    def stop(self, one: One) -> SimDisk:
        self.ones.pop(one.node)
        one.member.close()
        one.transport.destroy()
        return one.disk.power_cut()

    def run(self, seconds: float) -> None:
        for _ in range(round(seconds / TICK_S)):
            self.network.connect()
            for one in list(self.ones.values()):
                one.tick()
            self.agenda.run_until(self.agenda.now_s + TICK_S)

    def submit(self, one: One, count: int = 1) -> None:
        for _ in range(count):
            self.numbers += 1
            assert one.member.propose(pack_batch(ORIGIN, self.numbers, [b"x"]))

    @property
    def leader(self) -> One:
        return max((one for one in self.ones.values() if one.member.core.is_leading()), key=_term_of)

    @property
    def followers(self) -> list[One]:
        return [one for one in self.ones.values() if one is not self.leader]


def _term_of(one: One) -> int:
    return one.member.core.current_term()


def _role_of(one: One) -> MemberRole:
    return one.member.role


@pytest.fixture
def group(monkeypatch: pytest.MonkeyPatch) -> Group:
    agenda = Agenda()
    monkeypatch.setattr(seams.core, "monotonicTime", lambda: agenda.now_s)
    monkeypatch.setattr(seams.core, "random", random.Random(1))
    return Group(agenda)


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
    assert unpack_batch(pack_batch(7, 8, [b"a", b""])) == (7, 8, [b"a", b""])
    with pytest.raises(MetadataError):
        unpack_batch(b"\x00nonsense")


# Images


def test_the_log_is_cut_once_an_image_is_kept(group: Group) -> None:
    group.form(1)
    for _ in range(3 * ENTRIES_MAX):
        group.submit(group.leader)
        group.run(TICK_S)
    image = group.leader.folder.image
    assert image is not None
    assert image.index > ENTRIES_MAX
    assert len(group.leader.folder.log) <= ENTRIES_MAX + 2


def test_a_member_that_was_away_for_long_is_sent_an_image(group: Group) -> None:
    group.form(3)
    away = group.followers[0]
    disk = group.stop(away)
    for _ in range(3 * ENTRIES_MAX):
        group.submit(group.leader)
        group.run(TICK_S)
    back = group.start(away.node, disk)
    group.run(2.0)
    assert any(isinstance(found, Installed) and found.image.index > ENTRIES_MAX for found in back.found)
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
    image = leader.folder.image
    assert image is not None
    assert image.index > ENTRIES_MAX
    assert leader.folder.log.first_index <= has
    for _ in range(4 * ENTRIES_MAX):
        group.submit(leader)
        group.run(TICK_S)
    assert leader.folder.log.first_index > has  # there is an end to it


def test_a_core_that_is_built_anew_keeps_what_is_behind_the_image(group: Group) -> None:
    group.form(2, learners=1)
    learner = group.ones[NODES[2]]
    for _ in range(10):
        group.submit(group.leader)
    group.run(0.5)
    before = learner.folder.log[:]
    _, prev, last, *_ = before
    image = HeldImage(
        prev=prev, last=last, members=tuple(str(node.id) for node in NODES[:3]), payload=MemoryBytes(b"x")
    )
    learner.folder.save_image(image)  # on the disk, and the core has not been told yet
    learner.member.own_vote_changed()
    learner.tick()
    assert _role_of(learner) is MemberRole.VOTER
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
    learner.member.keeper.made(Wanted(prev, last, ()), [b"the state"])
    group.submit(group.leader, 3)
    group.run(1.0)
    assert learner.member.core.applied_index() == group.leader.member.core.applied_index()


def test_a_leader_that_waits_for_its_window_sends_one_sign_of_life_a_tick(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper, "RAFT_IMAGE_PIECE_BYTES", 2)
    monkeypatch.setattr(keeper, "RAFT_IMAGE_WINDOW_BYTES", 4)
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


def _cut_off(group: Group, *ones: One) -> None:
    for one in ones:
        group.network.side[one.node] = 1
    group.network.cut_between_sides()


def test_a_deposed_leader_whose_image_was_not_finished_catches_up(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has the entry of the others' image, and does not know yet that this was agreed on."""
    group.form(3)
    deposed, others = group.leader, group.followers
    monkeypatch.setattr(deposed.member.keeper, "made", lambda *_: None)
    for _ in range(ENTRIES_MAX + 2):
        group.submit(deposed)
        group.run(3 * TICK_S)
    _cut_off(group, *others)
    group.submit(deposed, 5)
    group.run(0.2)
    disk = group.stop(deposed)
    group.run(5.0)
    group.submit(group.leader, 8)
    group.run(1.0)
    again = group.leader  # its log is cut at its image, and the deposed one's reaches beyond that
    group.start(again.node, group.stop(again))
    group.run(5.0)
    group.network.side.clear()
    back = group.start(deposed.node, disk)
    group.run(5.0)
    assert back.member.core.commit_index() == group.leader.member.core.commit_index()


def test_a_new_leader_forgets_what_it_sent_and_changed_when_it_led_before(group: Group) -> None:
    group.form(3)
    leader = group.leader
    _cut_off(group, *group.followers)
    leader.member.change("rem", group.ones[NODES[2]].node if leader.node != NODES[2] else NODES[1])
    leader.member.keeper.sent_index[NODES[3]] = 7
    assert leader.member.core.changing()
    leader.member.core._SyncObj__onBecomeLeader()
    assert not leader.member.core.changing()
    assert not leader.member.keeper.sent_index


def test_no_image_is_wanted_while_more_was_told_than_is_applied(group: Group) -> None:
    group.form(1)
    member, image = group.leader.member, group.leader.folder.image
    member._told += 1_000  # as by a core that was here before
    for _ in range(2 * ENTRIES_MAX):
        group.submit(group.leader)
        group.run(TICK_S)
    assert image is not None
    assert group.leader.folder.image is image


def test_an_image_has_whom_was_agreed_on_at_its_moment(group: Group) -> None:
    group.form(2, learners=1)
    leader, learner = group.leader, group.ones[NODES[2]]
    for one in group.followers:
        group.network.side[one.node] = 1  # the change is not agreed on
    group.network.cut_between_sides()
    assert leader.member.change("add", learner.node)
    assert str(learner.node.id) in leader.member.voters()
    assert str(learner.node.id) not in leader.member.core.applied_voters()


# Membership


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
    assert _role_of(back) is MemberRole.LEARNER
    group.run(3.0)
    assert _role_of(back) is MemberRole.VOTER
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


def test_a_change_that_was_refused_is_not_made_later(group: Group) -> None:
    group.form(3)
    member, node = group.leader.member, group.followers[0].node
    member.hold_back(5.0)
    with pytest.raises(PreconditionFailedError, match="try again"):
        member.change("rem", node)
    member.hold_back(0.0)
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
    command = MEMBERSHIP + seams.core.pickle.dumps(["rem", one.node.id, one.node])
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
    with pytest.raises(MetadataError, match="was removed"):
        _hear_of_dismissal(group, one, RAFT_DISMISSED_S + 2.0)


def test_a_member_that_one_voter_once_took_for_removed_goes_on(group: Group) -> None:
    group.form(3)
    one = group.followers[0]
    _cut_off(group, one)
    group.run(3.0)
    one.member.dismissed()
    group.run(RAFT_DISMISSED_S + 2.0)
    one.member.dismissed()  # the first time was long ago
    assert one.error is None


def test_a_member_that_one_voter_still_knows_goes_on(group: Group) -> None:
    group.form(3)
    one = group.followers[0]
    _cut_off(group, one)
    group.run(3.0)
    _hear_of_dismissal(group, one, RAFT_DISMISSED_S - 2.0)
    one.member.not_dismissed()
    _hear_of_dismissal(group, one, RAFT_DISMISSED_S - 2.0)
    assert one.error is None


def test_a_member_that_is_led_does_not_believe_that_it_was_removed(group: Group) -> None:
    group.form(3)
    _hear_of_dismissal(group, group.followers[0], RAFT_DISMISSED_S + 2.0)
    assert group.followers[0].error is None


def _hear_of_dismissal(group: Group, one: One, seconds: float) -> None:
    """Be told by another voter, each second, that this member takes no part."""
    for _ in range(round(seconds)):
        group.run(1.0)
        one.member.dismissed()


def test_another_voter_leads_when_it_is_told_to(group: Group) -> None:
    group.form(3)
    chosen = group.followers[0]
    group.leader.member.hand_over(chosen.node.node_id)
    group.run(0.3)  # far less than an election takes
    assert group.leader is chosen


def test_nothing_new_goes_into_the_log_while_the_lead_is_handed_over(group: Group) -> None:
    group.form(1)
    group.leader.member.hold_back(0.5)
    group.submit(group.leader)
    group.run(0.3)
    assert group.leader.numbers == []
    group.run(0.4)
    assert group.leader.numbers == [1]


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
    for name in vars(Voting):
        if name.startswith("_SyncObj__"):
            assert hasattr(seams.SyncObj, name)
