"""Members of the agreement, as administrators see and change them."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from danube.broker.app import Broker
from danube.broker.cluster.metadata_store import MetaStore
from danube.broker.config.metadata_store import MetaStoreType
from danube.broker.config.settings import BrokerSettings
from danube.broker.environment import Environment
from danube.metadata.cluster.membership import Member, MemberRole, MembershipStatus
from danube.metadata.memory import MemoryStore
from danube.metadata.records import keys
from danube.metadata.records.cluster import BrokerRegistration, encode_registration
from danube.model.calls.admin import AddNode
from danube.model.errors import (
    InvalidRequestError,
    NotFoundError,
    PlanRefusedError,
    PreconditionFailedError,
    UnsupportedError,
)
from danube.model.plans.plan import Effect
from danube.runtime.clock import SystemClock
from danube.testing.in_process_broker import Cell
from danube.testing.peers.admin import AdminPeer
from danube.testing.simulated.network import MemoryCarrier
from danube.wire import admin_messages, control_messages
from tests.unit.broker.memory_membership import MemoryMembership

ADMIN = "/danube_admin.ClusterAdmin"
OURS = "/danube.control.Cluster"


@pytest.fixture
def membership() -> MemoryMembership:
    return MemoryMembership()


async def opened(data_dir: Path, meta_store: MetaStore) -> AsyncIterator[AdminPeer]:
    clock = SystemClock()
    carrier = MemoryCarrier(clock)
    values = {"mode": "cluster", "data_dir": data_dir, "broker_addr": "memory:0", "admin_addr": "memory:0"}
    world = Environment(clock=clock, carrier=carrier, meta_store=meta_store)
    broker = await Broker.start(BrokerSettings.model_validate(values), world)
    channel = carrier.connect(broker.addresses.admin)
    yield AdminPeer(channel)
    await channel.close()
    await broker.stop()
    await meta_store.store.close()


@pytest.fixture
async def admin(tmp_path: Path, membership: MemoryMembership) -> AsyncIterator[AdminPeer]:
    store = MetaStore(MemoryStore(SystemClock()), MetaStoreType.RAFT, membership)
    async for peer in opened(tmp_path / "data", store):
        yield peer


@pytest.fixture
async def outside(tmp_path: Path) -> AsyncIterator[AdminPeer]:
    """A broker whose metadata a service keeps."""
    async for peer in opened(tmp_path / "data", MetaStore(MemoryStore(SystemClock()), MetaStoreType.ETCD)):
        yield peer


async def test_the_original_s_call_tells_leader_voters_and_learners(admin: AdminPeer) -> None:
    status = admin_messages.CLUSTER_STATUS.decode(await admin.call(f"{ADMIN}/ClusterStatus"))
    assert (status.self_node_id, status.leader_id, status.current_term, status.last_applied) == ("1", "1", 1, 7)
    assert (status.voters, status.learners, status.raft_addr) == (("1", "2", "3"), ("4",), "127.0.0.1:7651")


async def test_our_call_tells_every_member_and_the_broker_that_runs_there(admin: AdminPeer) -> None:
    cluster = control_messages.CLUSTER_DESCRIPTION.decode(await admin.call(f"{OURS}/DescribeCluster"))
    (broker,) = await admin.brokers()
    assert (cluster.kind, cluster.node_id, cluster.has_quorum) == ("raft", "1", True)
    assert [member.broker_id for member in cluster.members] == [broker.broker_id, None, None, None]
    assert [member.votes for member in cluster.members] == [True, True, True, False]
    assert [member.connected for member in cluster.members] == [True, True, False, False]


async def test_a_broker_whose_member_is_away_is_unreachable_before_its_lease_ends(
    tmp_path: Path, membership: MemoryMembership
) -> None:
    store = MemoryStore(SystemClock())
    urls = dict.fromkeys(("broker_url", "connect_url", "admin_url"), "http://h3:1")
    for broker_id, node_id in ((72, 2), (73, 3)):  # of these 3 is not connected
        registration = BrokerRegistration(broker_id=broker_id, start_id=1, node_id=node_id, **urls)
        await store.put(keys.registered_broker(broker_id), encode_registration(registration))
    async for admin in opened(tmp_path / "data", MetaStore(store, MetaStoreType.RAFT, membership)):
        statuses = {info.broker_id: info.status for info in await admin.brokers()}
        assert (statuses["72"], statuses["73"]) == ("active", "unreachable")


async def test_calls_and_plans_tell_what_the_leader_knows(
    admin: AdminPeer, membership: MemoryMembership, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = membership.status()
    behind = Member(node_id=5, address="127.0.0.1:7655", role=MemberRole.LEARNER, connected=True, lag=12)

    async def look() -> MembershipStatus:
        return replace(known, members=(*known.members, behind))

    monkeypatch.setattr(membership, "leader_status", look)
    cluster = control_messages.CLUSTER_DESCRIPTION.decode(await admin.call(f"{OURS}/DescribeCluster"))
    assert (cluster.members[-1].node_id, cluster.members[-1].lag) == ("5", 12)
    assert admin_messages.CLUSTER_STATUS.decode(await admin.call(f"{ADMIN}/ClusterStatus")).learners == ("4", "5")
    plan = await admin.plan("promote_cluster_node", effect=Effect.MOVE, needs_approval=False, node_id="5")
    assert "which is 12 entries behind" in plan.impact.changes[0]


async def test_a_node_is_added_with_its_address_and_adding_it_again_answers_it(admin: AdminPeer) -> None:
    for _ in range(2):
        request = admin_messages.ADD_NODE.encode(AddNode(address="127.0.0.1:7654"))
        added = admin_messages.NODE_ADDED.decode(await admin.call(f"{ADMIN}/AddNode", request))
        assert added == (True, "4", "node 4 follows")


@pytest.mark.parametrize(("address", "error"), [("", InvalidRequestError), ("http://h:1", PreconditionFailedError)])
async def test_what_is_no_raft_address_is_no_node(admin: AdminPeer, address: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        await admin.call(f"{ADMIN}/AddNode", admin_messages.ADD_NODE.encode(AddNode(address=address)))


async def test_another_node_leads_when_it_is_told_to(admin: AdminPeer, membership: MemoryMembership) -> None:
    answer = await admin.call(f"{OURS}/TransferLeadership", control_messages.TRANSFER_LEADERSHIP.encode("3"))
    assert control_messages.LEADERSHIP_TRANSFERRED.decode(answer) == "3"
    assert membership.leader_id == 3
    with pytest.raises(PreconditionFailedError, match="does not vote"):
        await admin.call(f"{OURS}/TransferLeadership", control_messages.TRANSFER_LEADERSHIP.encode("4"))


async def test_a_plan_to_promote_says_how_many_have_to_run_then(admin: AdminPeer, membership: MemoryMembership) -> None:
    plan = await admin.plan("promote_cluster_node", effect=Effect.MOVE, needs_approval=False, node_id="4")
    assert plan.impact.changes[-1] == "4 nodes vote then, and 3 of them must run for any change."
    assert membership.members[4].role.value == "learner"
    await admin.apply(plan)
    assert membership.members[4].role.value == "voter"


async def test_a_plan_to_remove_acts_once(admin: AdminPeer, membership: MemoryMembership) -> None:
    plan = await admin.plan("remove_cluster_node", needs_approval=False, node_id="3")
    await admin.apply(plan)
    assert sorted(membership.members) == [1, 2, 4]
    with pytest.raises(PlanRefusedError):
        await admin.apply(plan)


async def test_a_plan_is_refused_once_the_members_have_changed(admin: AdminPeer, membership: MemoryMembership) -> None:
    plan = await admin.plan("remove_cluster_node", needs_approval=False, node_id="3")
    await membership.promote(4)
    with pytest.raises(PlanRefusedError, match="changed"):
        await admin.apply(plan)
    assert 3 in membership.members


@pytest.mark.parametrize(
    ("node_id", "error"), [("1", PreconditionFailedError), ("99", NotFoundError), ("x", NotFoundError)]
)
async def test_who_cannot_be_removed_gets_no_plan(admin: AdminPeer, node_id: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        await admin.plan("remove_cluster_node", needs_approval=False, node_id=node_id)


async def test_the_broker_that_is_asked_does_not_remove_itself(admin: AdminPeer, membership: MemoryMembership) -> None:
    membership.leader_id = 2
    with pytest.raises(PreconditionFailedError, match="ask another broker"):
        await admin.plan("remove_cluster_node", needs_approval=False, node_id="1")


async def test_the_last_voter_is_not_removed(admin: AdminPeer, membership: MemoryMembership) -> None:
    del membership.members[2], membership.members[3]
    membership.leader_id = 0
    with pytest.raises(PreconditionFailedError, match="last one that votes"):
        await admin.plan("remove_cluster_node", needs_approval=False, node_id="1")


async def test_where_a_service_keeps_the_metadata_nobody_is_added_or_removed(outside: AdminPeer) -> None:
    for call, request in (
        ("ClusterStatus", b""),
        ("AddNode", admin_messages.ADD_NODE.encode(AddNode(address="h:1"))),
        ("PromoteNode", admin_messages.NODE.encode("1")),
        ("RemoveNode", admin_messages.NODE.encode("1")),
    ):
        with pytest.raises(PreconditionFailedError, match="kept by etcd, a service outside"):
            await outside.call(f"{ADMIN}/{call}", request)
    cluster = control_messages.CLUSTER_DESCRIPTION.decode(await outside.call(f"{OURS}/DescribeCluster"))
    assert (cluster.kind, cluster.members, cluster.node_id) == ("etcd", (), None)


async def test_a_broker_that_stands_alone_has_no_members(cell: Cell) -> None:
    with pytest.raises(UnsupportedError):
        await cell.admin.call(f"{ADMIN}/RemoveNode", admin_messages.NODE.encode("1"))
    cluster = control_messages.CLUSTER_DESCRIPTION.decode(await cell.admin.call(f"{OURS}/DescribeCluster"))
    assert (cluster.kind, cluster.leader_broker_id, cluster.members) == ("raft", None, ())
    with pytest.raises(PreconditionFailedError, match="stands alone: restart it with --mode cluster"):
        await cell.admin.call(f"{OURS}/TransferLeadership", control_messages.TRANSFER_LEADERSHIP.encode(None))
