"""Giving a member of the cluster a vote, and removing one, by a plan.

The membership is not a key of the metadata, so no transaction has both: the plan is marked as applied first. Where the
change fails then, it was not made or may still be, and a new plan shows which.
"""

from dataclasses import dataclass

from danube.broker.control.cluster import ClusterControl, member_of
from danube.metadata.cluster.membership import MemberRole, MembershipStatus
from danube.metadata.records.catalog import ExtraWrites
from danube.metadata.store import MetadataStore
from danube.metadata.transaction_builder import commit_transaction
from danube.model.errors import PreconditionFailedError
from danube.model.plans.plan import Impact, fingerprint_of
from danube.runtime.rng import Rng


@dataclass(frozen=True, slots=True)
class MarkPlan:
    """Marks a plan as applied, in a transaction of its own."""

    store: MetadataStore
    rng: Rng

    async def __call__(self, extra_writes: ExtraWrites) -> None:
        """Raises what `extra_writes` raises."""
        await commit_transaction(self.store, self.rng, extra_writes)


@dataclass(frozen=True, slots=True)
class Members:
    """What plans about members need."""

    cluster: ClusterControl
    mark: MarkPlan


@dataclass(frozen=True, slots=True)
class PromoteCall:
    """A learner gets a vote."""

    members: Members
    node_id: str

    async def impact(self) -> Impact:
        status = await self.members.cluster.look()
        member = member_of(status, self.node_id)
        if member.role is MemberRole.VOTER:
            raise PreconditionFailedError(f"node {self.node_id} has a vote already: there is nothing to do")
        voters = _voters(status)
        return Impact(
            changes=(
                f"Give node {self.node_id} at {member.address} a vote{_behind(member.lag)}.",
                f"{voters + 1} nodes vote then, and {_majority(voters + 1)} of them must run for any change.",
            ),
            fingerprint=_fingerprint(status, self.node_id),
        )

    async def act(self, extra_writes: ExtraWrites) -> None:
        await self.members.mark(extra_writes)
        await self.members.cluster.promote(self.node_id)


@dataclass(frozen=True, slots=True)
class RemoveCall:
    """A member takes part no more."""

    members: Members
    node_id: str

    async def impact(self) -> Impact:
        status = await self.members.cluster.look()
        member = member_of(status, self.node_id)
        voters, votes = _voters(status), member.role is MemberRole.VOTER
        if votes and voters == 1:
            raise PreconditionFailedError(
                f"node {self.node_id} is the last one that votes: add and promote another first"
            )
        if member.node_id == status.leader_id:
            raise PreconditionFailedError(f"node {self.node_id} leads: transfer the leadership to another one first")
        if member.node_id == status.node_id:
            raise PreconditionFailedError(
                f"node {self.node_id} is the broker that is asked, and could not tell how it ended: ask another broker"
                " of the cluster, with --endpoint"
            )
        broker = self.members.cluster.broker_of(member)
        changes = [f"Remove node {self.node_id} at {member.address} from the cluster."]
        if votes:
            changes.append(
                f"{voters - 1} nodes vote then, and {_majority(voters - 1)} of them must run for any change."
            )
        runs = f"Broker {broker}, which runs there, knows nothing of the metadata any more: stop it." if broker else ""
        return Impact(
            changes=tuple(changes),
            irreversible=(
                *([runs] if runs else []),
                "Its topics are on its disk and nobody else serves them.",
                "It takes part again only with an empty folder `raft`, added anew.",
            ),
            fingerprint=_fingerprint(status, self.node_id),
        )

    async def act(self, extra_writes: ExtraWrites) -> None:
        await self.members.mark(extra_writes)
        await self.members.cluster.remove(self.node_id)


def _voters(status: MembershipStatus) -> int:
    return sum(each.role is MemberRole.VOTER for each in status.members)


def _majority(voters: int) -> int:
    return voters // 2 + 1


def _behind(lag: int | None) -> str:
    return f", which is {lag} entries behind" if lag else ""


def _fingerprint(status: MembershipStatus, node_id: str) -> str:
    """Another one once somebody came, went, or got a vote."""
    return fingerprint_of([node_id, sorted([each.node_id, each.role.value] for each in status.members)])
