"""Promotion and removal of members of the Raft group, by a plan.

The membership is not a key of the metadata, so no transaction covers both: the plan is marked as applied first. A
change that fails then was not made, or may still be made; a new plan shows which.
"""

from collections.abc import Mapping

from danube.broker.control.cluster import ClusterControl, member_of
from danube.broker.control.plans.planned import PlannedCall, PlannedOperation, destroying, texts
from danube.metadata.cluster.membership import Member, MemberRole, MembershipStatus
from danube.metadata.records.catalog import ExtraWrites
from danube.metadata.store import MetadataStore
from danube.metadata.transaction_builder import commit_transaction
from danube.model.errors import PreconditionFailedError
from danube.model.plans.plan import Arguments, Effect, Impact, fingerprint_of
from danube.runtime.rng import Rng


def member_changes(cluster: ClusterControl, store: MetadataStore, rng: Rng) -> Mapping[str, PlannedOperation]:
    """The operations, by their names."""

    def promote_cluster_node(arguments: Arguments) -> PlannedCall:
        (node_id,) = texts("promote_cluster_node", arguments, "node_id")

        async def impact() -> Impact:
            status = await cluster.membership_status()
            return _promoted(status, member_of(status, node_id))

        async def act(extra_writes: ExtraWrites) -> None:
            await commit_transaction(store, rng, extra_writes)
            await cluster.promote(node_id)

        return PlannedCall(impact, act)

    def remove_cluster_node(arguments: Arguments) -> PlannedCall:
        (node_id,) = texts("remove_cluster_node", arguments, "node_id")

        async def impact() -> Impact:
            status = await cluster.membership_status()
            member = member_of(status, node_id)
            return _removed(status, member, cluster.broker_of(member))

        async def act(extra_writes: ExtraWrites) -> None:
            await commit_transaction(store, rng, extra_writes)
            await cluster.remove(node_id)

        return PlannedCall(impact, act)

    promote = PlannedOperation(Effect.MOVE, promote_cluster_node)
    return {**destroying(remove_cluster_node), "promote_cluster_node": promote}


def _promoted(status: MembershipStatus, member: Member) -> Impact:
    if member.role is MemberRole.VOTER:
        raise PreconditionFailedError(f"node {member.node_id} has a vote already: there is nothing to do")
    lag = f", which is {member.lag} entries behind" if member.lag else ""
    return Impact(
        changes=(f"Give node {member.node_id} at {member.address} a vote{lag}.", _voting(_voters(status) + 1)),
        fingerprint=_fingerprint(status, member),
    )


def _removed(status: MembershipStatus, member: Member, broker: str | None) -> Impact:
    """Impact of removing a member; `broker` is the id of the broker that runs there, if any."""
    voters, votes = _voters(status), member.role is MemberRole.VOTER
    if votes and voters == 1:
        raise PreconditionFailedError(
            f"node {member.node_id} is the last one that votes: add and promote another first"
        )
    if member.node_id == status.leader_id:
        raise PreconditionFailedError(f"node {member.node_id} leads: transfer the leadership to another one first")
    if member.node_id == status.node_id:
        raise PreconditionFailedError(
            f"node {member.node_id} is the broker that is asked, and could not tell how it ended: ask another broker"
            " of the cluster, with --endpoint"
        )
    change = f"Remove node {member.node_id} at {member.address} from the cluster."
    runs = f"Broker {broker}, which runs there, knows nothing of the metadata any more: stop it." if broker else ""
    return Impact(
        changes=(change, _voting(voters - 1)) if votes else (change,),
        irreversible=(
            *([runs] if runs else []),
            "Its topics are on its disk and nobody else serves them.",
            "It takes part again only with an empty folder `raft`, added anew.",
        ),
        fingerprint=_fingerprint(status, member),
    )


def _voters(status: MembershipStatus) -> int:
    return sum(each.role is MemberRole.VOTER for each in status.members)


def _voting(voters: int) -> str:
    return f"{voters} nodes vote then, and {voters // 2 + 1} of them must run for any change."


def _fingerprint(status: MembershipStatus, member: Member) -> str:
    """Value that changes when a member is added, removed, or gets a vote."""
    members = sorted([each.node_id, each.role.value] for each in status.members)
    return fingerprint_of([str(member.node_id), members])
