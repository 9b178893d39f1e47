"""Who founds a cluster, who waits, and who does not start."""

from dataclasses import replace
from typing import Any

import pytest

from danube.metadata.cluster.membership import MemberRole
from danube.metadata.raft.bootstrap import (
    FIRST_ENTRIES,
    Accept,
    Findings,
    FoundCluster,
    Refuse,
    Wait,
    begin,
    decide,
    is_sound,
    takes_part,
)
from danube.metadata.raft.folder.folder import RaftFolder
from danube.metadata.raft.port.inquiry import Invitation, Probe
from danube.metadata.raft.values.node import RaftNode
from danube.model.errors import PreconditionFailedError
from danube.model.limits.metadata import RAFT_VOTES_MAX
from danube.testing.simulated.disk import SimDisk

A, B, C = (RaftNode(f"{number}@10.0.0.{number}:7650") for number in (1, 2, 3))
SEEDS = (A.address, B.address, C.address)


def _probe(node: RaftNode, cluster_id: str = "", *, leads: bool = False, members: tuple[RaftNode, ...] = ()) -> Probe:
    return Probe(
        node_id=node.node_id,
        cluster_id=cluster_id,
        has_leader=leads,
        address=node.address,
        role=MemberRole.VOTER,
        more={"members": [str(member.id) for member in members]},
    )


def _standing(own: RaftNode = A, *answers: Probe, **others: Any) -> Findings:
    told: dict[str, Any] = {"seeds": SEEDS, "join": False, "refusals": {}} | others
    return Findings(own=own, answers={probe.address: probe for probe in answers}, **told)


def test_without_seeds_a_broker_is_a_cluster_of_its_own() -> None:
    assert decide(_standing(A, seeds=())) == FoundCluster(("1@10.0.0.1:7650",))
    assert decide(_standing(A, seeds=(A.address,))) == FoundCluster(("1@10.0.0.1:7650",))


def test_the_lowest_node_id_founds_the_cluster_once_all_seeds_have_answered() -> None:
    assert decide(_standing(A, _probe(B), _probe(C))) == FoundCluster(tuple(str(node.id) for node in (A, B, C)))


@pytest.mark.parametrize("own", [B, C])
def test_the_others_wait_for_the_founder(own: RaftNode) -> None:
    decision = decide(_standing(own, *(_probe(node) for node in (A, B, C) if node != own)))
    assert isinstance(decision, Wait)
    assert A.address in decision.reason


def test_with_a_seed_missing_nobody_founds_anything() -> None:
    decision = decide(_standing(A, _probe(B), refusals={C.address: "another secret"}))
    assert isinstance(decision, Wait)
    assert C.address in decision.reason
    assert "another secret" in decision.reason


def test_brokers_with_different_seeds_found_nothing_and_say_what_each_has() -> None:
    other = replace(_probe(B), more={"members": [], "seeds": [B.address, A.address]})
    for answers in ((other, _probe(C)), (other,)):
        decision = decide(_standing(A, *answers))
        assert isinstance(decision, Wait)
        assert decision.is_fault
        assert f"this one has {', '.join(SEEDS)}, and {B.address} has {A.address}, {B.address}." in decision.reason
        assert "--seed-nodes" in decision.reason


def test_the_order_of_the_seeds_is_nobody_s_business_and_an_older_version_says_none() -> None:
    same = replace(_probe(B), more={"members": [], "seeds": list(reversed(SEEDS))})
    assert isinstance(decide(_standing(A, same, _probe(C))), FoundCluster)


def test_a_seed_that_has_begun_is_waited_for() -> None:
    begun = _probe(B, "c1", members=(A, B, C))
    assert isinstance(decide(_standing(A, begun, _probe(C))), Wait)


def test_an_invitation_is_accepted() -> None:
    invitation = Invitation(cluster_id="c1", members=("2@b:1",), role=MemberRole.LEARNER)
    assert decide(_standing(A, join=True, invitation=invitation)) == Accept(invitation)


def test_who_is_to_join_waits_and_says_what_to_run() -> None:
    decision = decide(_standing(A, _probe(B), _probe(C), join=True))
    assert decision == Wait(
        "to be added: run `danube-admin --endpoint http://HOST:50051 cluster add-node --node-addr 10.0.0.1:7650`, where"
        " HOST is any broker of the cluster"
    )


def test_a_cluster_that_does_not_know_this_broker_is_left_alone() -> None:
    decision = decide(_standing(A, _probe(B, "c1", leads=True, members=(B, C))))
    assert isinstance(decision, Refuse)
    adding = "danube-admin --endpoint http://10.0.0.2:50051 cluster add-node --node-addr 10.0.0.1:7650"
    assert f"start this one with --join and run `{adding}`" in decision.reason


def test_a_broker_that_lost_its_folder_does_not_come_back_under_its_old_name() -> None:
    before = RaftNode.of(99, A.address)
    decision = decide(_standing(A, _probe(B, "c1", leads=True, members=(before, B, C))))
    assert isinstance(decision, Refuse)
    assert "was lost" in decision.reason
    assert "`danube-admin --endpoint http://10.0.0.2:50051 cluster remove-node --node-id 99`" in decision.reason


def test_a_broker_that_is_none_of_the_seeds_does_not_form_a_cluster_beside_them() -> None:
    own = RaftNode("7@10.0.0.7:7650")
    assert isinstance(decide(_standing(own, *map(_probe, (A, B, C)))), Refuse)


def test_a_seed_may_be_another_name_of_this_broker() -> None:
    seeds = ("broker-1:7650", B.address)
    decision = decide(_standing(A, _probe(B), seeds=seeds, selves=frozenset({"broker-1:7650"})))
    assert decision == FoundCluster(tuple(str(node.id) for node in (A, B)))


@pytest.mark.parametrize(
    "probe",
    [
        replace(_probe(A), address="nowhere"),
        replace(_probe(A), node_id=-1),
        replace(_probe(A), more={}),
        replace(_probe(A), more={"members": ["nobody"]}),
        replace(_probe(A), more={"members": [7]}),
    ],
)
def test_what_a_member_says_and_cannot_be_read_is_not_believed(probe: Probe) -> None:
    assert is_sound(_probe(A, members=(A, B)))
    assert not is_sound(probe)


def test_too_many_seeds_are_refused() -> None:
    seeds = tuple(f"10.0.0.{number}:7650" for number in range(1, RAFT_VOTES_MAX + 2))
    assert isinstance(decide(_standing(A, seeds=seeds)), Refuse)


def test_a_folder_that_begins_comes_up_with_its_members_whatever_the_power_does() -> None:
    for number in range(1, 40):
        disk = SimDisk(number)
        disk.stop_at(number)
        try:
            begin(RaftFolder.open(disk), "c1", ("1@a:1", "2@b:1"))
        except BaseException as error:
            assert type(error).__name__ == "MachineOffError"
        folder = RaftFolder.open(disk.power_cut())
        if folder.snapshot is None:
            begin(folder, folder.cluster_id or "c1", ("1@a:1", "2@b:1"))
        assert folder.cluster_id == "c1"
        assert folder.snapshot is not None
        assert folder.snapshot.members == ("1@a:1", "2@b:1")
        assert folder.log[:] == list(FIRST_ENTRIES)


def test_a_member_of_one_cluster_begins_no_other() -> None:
    folder = RaftFolder.open(SimDisk())
    begin(folder, "c1", ("1@a:1",))
    with pytest.raises(PreconditionFailedError):
        begin(folder, "c2", ("1@a:1",))


@pytest.mark.parametrize(
    ("leads", "members", "said"),
    [(True, (A, B), True), (False, (A, B), True), (True, (B, C), False), (False, (B, C), None)],
    ids=["known", "known, and nobody leads", "not known", "not known, and nobody leads"],
)
def test_another_voter_says_whether_this_member_takes_part(
    leads: bool,
    members: tuple[RaftNode, ...],
    said: bool | None,
) -> None:
    assert takes_part(A.node_id, _probe(B, "c1", leads=leads, members=members)) is said
