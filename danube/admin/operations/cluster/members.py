"""cluster.*: how brokers agree on the metadata, and who takes part."""

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Annotated, Any, TypeVar

from pydantic import Field, StringConstraints

from danube.admin.gateway import AdminGateway, not_answered
from danube.admin.operations.fields import VOLATILE, Completes, NotAnswered, Params, Result, sum_known
from danube.admin.operations.operation import Call, Example, Operation
from danube.admin.operations.plan_views import PlannedResult
from danube.model.calls.admin import AddNode, BrokerDescription, ClusterMember
from danube.model.errors import PreconditionFailedError, UnsupportedError
from danube.model.limits.metadata import NODE_ADDRESS_BYTES_MAX
from danube.model.ownership import OwnershipState, StorageMode
from danube.model.plans.plan import Effect

T = TypeVar("T")


TOOLSET = "raft"

_NodeId = Annotated[str, StringConstraints(pattern=r"^([0-9]{1,20}|.{1,300}:[0-9]{1,5})$"), Completes("node")]


class MemberRow(Result):
    """One member of the brokers that agree."""

    node_id: Annotated[str, VOLATILE] = Field(title="Node ID", description="Its id, decimal digits.")
    broker_id: Annotated[str | None, VOLATILE] = Field(title="Broker", description="The broker there; null for none.")
    address: Annotated[str, VOLATILE] = Field(description="Where it speaks to the others.")
    role: str = Field(description="`leader`, `voter`, or `learner`, which does not vote.")
    connected: bool = Field(description="As the leader sees it; without one, the asked broker.")
    lag: Annotated[int | None, VOLATILE] = Field(description="Changes that it lacks; null is not known.")


class BrokerStateRow(Result):
    """One broker."""

    broker_id: Annotated[str, VOLATILE] = Field(title="Broker", description="Its id; `0` is no broker.")
    status: str = Field(description="As list_brokers tells it; `unreachable`: nobody serves its topics.")
    topics: Annotated[int, VOLATILE] = Field(description="That it owns, partitions each; without those of `system`.")
    last_seen_ms: Annotated[int | None, VOLATILE] = Field(
        description="When an unreachable one was seen to be gone; null is not known."
    )
    lost_logs: Annotated[int, VOLATILE] = Field(
        description="Logs on its disk whose topics were started anew elsewhere, without those messages."
    )


class UnservedRow(Result):
    """Topics that nobody serves, for the same reason."""

    state: OwnershipState = Field(description="As describe_topic tells it.")
    topics: int = Field(description="How many.")
    reason: Annotated[str, VOLATILE] = Field(description="Why, and what to do.")


class MoveRow(Result):
    """One topic on its way to another broker."""

    topic: str = Field(description="Its name.")
    broker_id: Annotated[str, VOLATILE] = Field(title="Broker", description="The broker that serves it.")
    target_broker_id: Annotated[str, VOLATILE] = Field(title="Target", description="The broker that it moves to.")
    copied_bytes: Annotated[int | None, VOLATILE] = Field(
        description="Of its log, copied to that broker's disk; null: no copy, or not known to the asked broker."
    )
    log_bytes: Annotated[int | None, VOLATILE] = Field(description="Bytes of that log.")


class ClusterStatus(Result):
    """Agreement of the brokers, as the one that was asked sees it, and totals of all; null: not known, or not there."""

    mode: str = Field(description="`standalone`: one broker that agrees with nobody. `cluster`: several.")
    self_node_id: Annotated[str, VOLATILE] = Field(title="Self Node ID", description="The broker that was asked.")
    raft_addr: str | None = Field(description="Where it speaks to the others.")
    leader: Annotated[str | None, VOLATILE] = Field(description="The id of the leader.")
    current_term: int | None = Field(description="The term of the leader.")
    last_applied: int | None = Field(description="The last change that the broker has seen.")
    voters: Annotated[list[str], VOLATILE] = Field(description="Brokers that vote.")
    learners: Annotated[list[str], VOLATILE] = Field(description="Brokers that follow and do not vote.")
    cluster_name: str | None = Field(description="The name of the cluster.")
    version: str | None = Field(description="The version of the brokers; several while they are upgraded.")
    uptime_s: Annotated[float | None, VOLATILE] = Field(
        description="How long the broker that was asked has been up, seconds."
    )
    takes_messages: bool | None = Field(description="Whether all brokers take messages.")
    topics: int | None = Field(
        description="Topics that are served, partitions and topics of `system` each on their own."
    )
    subscriptions: int | None = Field(description="Subscriptions of those topics.")
    producers: Annotated[int | None, VOLATILE] = Field(description="Producers attached now.")
    consumers: int | None = Field(description="Consumers with an open stream.")
    stopped_reason: str | None = Field(description="Why a broker takes no messages.")
    not_answered: NotAnswered = Field(default=[])
    leader_broker: Annotated[str | None, VOLATILE] = Field(
        description="The broker that decides for all; null for none."
    )
    metadata: str | None = Field(description="What keeps the metadata; null is not known.")
    has_quorum: bool | None = Field(description="Whether a majority of the voters is reached.")
    members: list[MemberRow] = Field(description="Who agrees, by node id.")
    brokers: list[BrokerStateRow] = Field(description="Those that run, are gone since a while ago, or own topics.")
    storage_mode: StorageMode | None = Field(
        description="`local`: each broker on its own disk; `shared_fs`: all in one folder; null: alone, or not known."
    )
    not_served: list[UnservedRow] = Field(description="Topics that nobody serves.")
    moves_under_way: int = Field(description="Topics on their way to another broker.")
    moves: list[MoveRow] = Field(description="The first of them, by name.")


async def _status(call: Call, params: Params) -> ClusterStatus:  # noqa: ARG001 - it has none
    gateway = call.gateway
    broker, raft, brokers, cluster, leader = await asyncio.gather(
        _or_none(gateway.describe_broker()),
        _or_none(gateway.raft_status()),
        _or_none(gateway.describe_brokers()),
        _or_none(gateway.describe_cluster()),
        gateway.leader(),
    )
    told = brokers or ()
    alone = await _only_broker(gateway) if broker is None and raft is None else ""
    return ClusterStatus.of(
        raft,
        broker,
        mode=broker.mode if broker else "standalone" if alone else "cluster",
        self_node_id=raft.self_node_id if raft else broker.info.broker_id if broker else alone,
        leader=raft.leader_id if raft else None,
        voters=raft.voters if raft else (),
        learners=raft.learners if raft else (),
        uptime_s=round(broker.uptime_s, 1) if broker else None,
        **_totals([each.told for each in told if each.told is not None]),
        not_answered=not_answered(told),
        leader_broker=leader,
        metadata=cluster.kind if cluster else None,
        has_quorum=cluster.has_quorum if cluster else None,
        members=[_row(each, cluster.leader_id) for each in cluster.members] if cluster else [],
        brokers=[BrokerStateRow.of(each) for each in cluster.brokers] if cluster else [],
        storage_mode=cluster.storage_mode if cluster else None,
        not_served=[UnservedRow.of(each) for each in cluster.unserved] if cluster else [],
        moves_under_way=cluster.move_count if cluster else 0,
        moves=[MoveRow.of(each, topic=str(each.topic)) for each in cluster.moves] if cluster else [],
    )


def _totals(brokers: Sequence[BrokerDescription]) -> dict[str, Any]:
    """Counts of all brokers; None where nobody tells."""
    refusals = [f"broker {each.info.broker_id}: {each.refused_reason}" for each in brokers if each.refused_reason]
    return {
        **{name: sum_known(getattr(each, name) for each in brokers) for name in _COUNTED},
        "version": ", ".join(sorted({each.version for each in brokers})) or None,
        "takes_messages": all(each.is_healthy for each in brokers) if brokers else None,
        "stopped_reason": "; ".join(refusals) or None,
    }


_COUNTED = ("topics", "subscriptions", "producers", "consumers")


async def _only_broker(gateway: AdminGateway) -> str:
    """The id of the only broker there is. Raises UnsupportedError where there are several."""
    brokers = await gateway.brokers()
    if len(brokers) != 1:
        raise UnsupportedError(
            "this broker tells nothing of its cluster; `danube-admin brokers list` lists its brokers"
        )
    return brokers[0].broker_id


async def _or_none(answer: Awaitable[T]) -> T | None:
    """None where the broker has no such call, or there is nothing to tell of."""
    try:
        return await answer
    except (UnsupportedError, PreconditionFailedError):
        return None


def _row(member: ClusterMember, leader_id: str | None) -> MemberRow:
    voter = "leader" if member.node_id == leader_id else "voter"
    return MemberRow.of(member, role=voter if member.votes else "learner")


class AddNodeParams(Params):
    """Which broker."""

    node_addr: str = Field(
        min_length=1,
        max_length=NODE_ADDRESS_BYTES_MAX,
        description="Its Raft port, host:port; of the original's broker its admin URL.",
    )
    node_id: _NodeId | None = Field(None, description="Only if it is this one.")


class AddedNode(Result):
    """A node that follows."""

    node_id: Annotated[str, VOLATILE] = Field(title="Node ID", description="Its id.")
    node_addr: str = Field(description="As it was given.")
    added: bool = Field(description="True.")


class NodeParams(Params):
    """Which member."""

    node_id: _NodeId = Field(title="Node ID", description="Its id or address, as in the status of the cluster.")


class TransferParams(Params):
    """To which member."""

    node_id: _NodeId | None = Field(None, description="Who is to lead; any voter when not given.")


class Transferred(Result):
    """The leader after a transfer."""

    leader: Annotated[str, VOLATILE] = Field(description="The node that leads now.")


async def _add(call: Call, params: AddNodeParams) -> AddedNode:
    node_id = await call.gateway.add_node(AddNode(address=params.node_addr, node_id=params.node_id))
    return AddedNode(node_id=node_id, node_addr=params.node_addr, added=True)


async def _transfer(call: Call, params: TransferParams) -> Transferred:
    return Transferred(leader=await call.gateway.transfer_leadership(params.node_id))


CLUSTER_STATUS = Operation(
    name="cluster_status",
    words=("cluster", "status"),
    summary="Show leader, voters, brokers, and what they serve in all.",
    description="A standalone broker has no leader and no voters. For every broker there is, call list_brokers.",
    effect=Effect.READ,
    params=Params,
    result=ClusterStatus,
    run=_status,
    examples=(Example("The cluster behind the endpoint"),),
)

ADD_NODE = Operation(
    name="add_cluster_node",
    words=("cluster", "add-node"),
    summary="Add a broker that was started with --join, as a learner.",
    description="Returns once it has the metadata; promote_cluster_node gives it a vote.",
    effect=Effect.WRITE,
    params=AddNodeParams,
    result=AddedNode,
    run=_add,
    done="Node added: {node_id} at {node_addr}. Next, to give it a vote: `danube-admin cluster promote-node --node-id"
    " {node_id}`",
    toolset=TOOLSET,
    examples=(Example("The broker that waits at 127.0.0.1:7654", {"node_addr": "127.0.0.1:7654"}),),
    is_idempotent=True,
)

PROMOTE_NODE = Operation(
    name="promote_cluster_node",
    words=("cluster", "promote-node"),
    summary="Promote a learner to voter.",
    description="Three or five voters are best.",
    effect=Effect.MOVE,
    params=NodeParams,
    result=PlannedResult,
    toolset=TOOLSET,
    examples=(Example("The node that follows", {"node_id": "4"}),),
)

REMOVE_NODE = Operation(
    name="remove_cluster_node",
    words=("cluster", "remove-node"),
    summary="Remove a node from the Raft group.",
    description="Nobody serves its topics then. A leader is not removed: transfer_leadership first.",
    effect=Effect.DESTROY,
    params=NodeParams,
    result=PlannedResult,
    toolset=TOOLSET,
    examples=(Example("A node that is gone for good", {"node_id": "3"}),),
)

TRANSFER_LEADERSHIP = Operation(
    name="transfer_leadership",
    words=("cluster", "transfer-leader"),
    summary="Transfer leadership to another voter, such as before a broker is stopped.",
    effect=Effect.WRITE,
    params=TransferParams,
    result=Transferred,
    run=_transfer,
    done="Leader: {leader}",
    toolset=TOOLSET,
    examples=(Example("To node 2", {"node_id": "2"}),),
)

OPERATIONS = (CLUSTER_STATUS, ADD_NODE, PROMOTE_NODE, REMOVE_NODE, TRANSFER_LEADERSHIP)
