"""A membership in memory, for tests of what administrators see of one: nobody agrees on anything here."""

from dataclasses import replace

from danube.metadata.cluster.membership import Member, MemberRole, MembershipStatus
from danube.model.errors import NotFoundError, PreconditionFailedError

SEEDED = tuple(
    Member(node_id=node_id, address=f"127.0.0.1:{7650 + node_id}", role=role, connected=node_id < 3, lag=0)
    for node_id, role in ((1, MemberRole.VOTER), (2, MemberRole.VOTER), (3, MemberRole.VOTER), (4, MemberRole.LEARNER))
)
"""Three voters, of which 1 leads and 3 is away, and a learner."""


class MemoryMembership:
    """Keeps the promises of `Membership` as one member, node 1, sees them."""

    def __init__(self, members: tuple[Member, ...] = SEEDED) -> None:
        self.members = {member.node_id: member for member in members}
        self.leader_id = 1
        self.term = 1

    def status(self) -> MembershipStatus:
        return MembershipStatus(
            kind="raft",
            node_id=1,
            address=self.members[1].address,
            leader_id=self.leader_id,
            term=self.term,
            position=7,
            members=tuple(self.members[node_id] for node_id in sorted(self.members)),
        )

    async def leader_status(self) -> MembershipStatus:
        return self.status()

    async def add(self, address: str, node_id: int | None = None) -> Member:
        known = next((member for member in self.members.values() if member.address == address), None)
        if known is None:
            number = node_id or max(self.members) + 1
            known = Member(node_id=number, address=address, role=MemberRole.LEARNER, connected=True, lag=0)
            self.members[known.node_id] = known
        return known

    async def promote(self, node_id: int) -> Member:
        promoted = self.members[node_id] = replace(self._member(node_id), role=MemberRole.VOTER)
        return promoted

    async def remove(self, node_id: int) -> None:
        if self._member(node_id).node_id == self.leader_id:
            raise PreconditionFailedError(f"node {node_id} leads: transfer the leadership to another one first")
        del self.members[node_id]

    async def transfer(self, node_id: int | None = None) -> int:
        if node_id is not None and self._member(node_id).role is MemberRole.LEARNER:
            raise PreconditionFailedError(f"node {node_id} does not vote, and so cannot lead: promote it first")
        self.leader_id, self.term = node_id or 2, self.term + 1
        return self.leader_id

    def _member(self, node_id: int) -> Member:
        if node_id not in self.members:
            raise NotFoundError(f"there is no node {node_id} in this cluster: its status lists those that there are")
        return self.members[node_id]
