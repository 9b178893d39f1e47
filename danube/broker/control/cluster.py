"""Members of the Raft group, for administrators: status, roles, and changes."""

from dataclasses import replace
from typing import TYPE_CHECKING

from danube.broker.topics.topic_states import TopicStates
from danube.metadata.cluster.membership import Member, MemberRole, Membership, MembershipStatus
from danube.model.calls.admin import AddNode, ClusterDescription, ClusterMember, RaftStatus
from danube.model.errors import NotFoundError, PreconditionFailedError

if TYPE_CHECKING:
    from danube.broker.cluster.member import Cluster
    from danube.broker.control.brokers import BrokerControl

_NODE_ID_END = 1 << 64


class ClusterControl:
    """The Raft group of the brokers: its status and its changes. Ids are decimal digits.

    Where brokers do not agree among themselves, all but `describe` raise PreconditionFailedError with the reason.
    """

    def __init__(self, cluster: "Cluster | None", kind: str, brokers: "BrokerControl", states: TopicStates) -> None:
        self._cluster = cluster
        self._brokers = brokers
        self._states = states
        self._kind = kind

    @property
    def is_alone(self) -> bool:
        """True for a standalone broker."""
        return self._cluster is None

    async def describe(self) -> ClusterDescription:
        """Members of the group: connections and lag as the leader reports them, all else as this broker knows it."""
        move_count, moves = self._states.moves()
        description = ClusterDescription(
            kind=self._kind,
            leader_broker_id=self._brokers.leader(),
            brokers=self._brokers.states(),
            storage_mode=self._states.mode,
            unserved=self._states.reasons(),
            move_count=move_count,
            moves=moves,
        )
        membership = self._cluster.membership if self._cluster else None
        if membership is None:
            return description
        status = await membership.leader_status()
        return replace(
            description,
            kind=status.kind,
            node_id=str(status.node_id),
            address=status.address,
            leader_id=str(status.leader_id) if status.leader_id else None,
            term=status.term,
            position=status.position,
            has_quorum=status.has_quorum,
            members=tuple(self._member(each) for each in status.members),
        )

    async def status(self) -> RaftStatus:
        """The status in the original's terms."""
        status = await self.membership_status()
        voters = [str(each.node_id) for each in status.members if each.role is MemberRole.VOTER]
        learners = [str(each.node_id) for each in status.members if each.role is MemberRole.LEARNER]
        return RaftStatus(
            self_node_id=str(status.node_id),
            raft_addr=status.address,
            leader_id=str(status.leader_id) if status.leader_id else None,
            current_term=status.term,
            last_applied=status.position,
            voters=tuple(voters),
            learners=tuple(learners),
        )

    async def membership_status(self) -> MembershipStatus:
        """As `Membership.leader_status`. Raises PreconditionFailedError where there is no Raft group."""
        return await self._membership().leader_status()

    def broker_of(self, member: Member) -> str | None:
        """The id of the broker that runs at a member, if one is registered."""
        brokers = self._cluster.registry.brokers.values() if self._cluster else ()
        return next((str(each.broker_id) for each in brokers if each.node_id == member.node_id), None)

    async def add(self, wanted: AddNode) -> str:
        """Add a waiting broker as a member without a vote; answers its node id. Raises as `Membership.add`."""
        membership = self._membership()
        if "://" in wanted.address:
            raise PreconditionFailedError(
                "a broker is added by the address of its Raft port, as host:port: its log says which that is"
            )
        return str((await membership.add(wanted.address, _number(wanted.node_id) or None)).node_id)

    async def promote(self, node_id: str) -> None:
        """Give a member a vote. Raises as `Membership.promote`."""
        await self._membership().promote(_number(node_id))

    async def remove(self, node_id: str) -> None:
        """Remove a member. Raises as `Membership.remove`."""
        await self._membership().remove(_number(node_id))

    async def transfer(self, node_id: str | None) -> str:
        """Transfer the leadership to another voter; answers the new leader. Raises as `Membership.transfer`."""
        return str(await self._membership().transfer(_number(node_id) or None))

    def _membership(self) -> Membership:
        membership = self._cluster.membership if self._cluster else None
        if membership is not None:
            return membership
        if self._cluster is None:
            raise PreconditionFailedError(
                "this broker stands alone: restart it with --mode cluster, and with the address at which the others"
                " will reach it (--raft-addr), then add nodes to it"
            )
        raise PreconditionFailedError(
            f"the metadata of this cluster is kept by {self._kind}, a service outside, which has its own tools for its "
            "members: brokers come and go by starting and stopping them"
        )

    def _member(self, member: Member) -> ClusterMember:
        return ClusterMember(
            node_id=str(member.node_id),
            address=member.address,
            votes=member.role is MemberRole.VOTER,
            connected=member.connected,
            lag=member.lag,
            broker_id=self.broker_of(member),
        )


def member_of(status: MembershipStatus, node_id: str) -> Member:
    """The member with this id. Raises NotFoundError."""
    for each in status.members:
        if str(each.node_id) == node_id:
            return each
    raise NotFoundError(f"there is no node {node_id[:40]!r} in this cluster: its status lists those that there are")


def _number(node_id: str | None) -> int:
    """The node id as a number; 0 for an empty one. Raises NotFoundError for text that is no node id."""
    if node_id is None:
        return 0
    if not (node_id.isascii() and node_id.isdigit() and 0 < int(node_id) < _NODE_ID_END):
        raise NotFoundError(f"{node_id[:40]!r} is no node's id: the status of the cluster lists those that there are")
    return int(node_id)
