"""cluster.*"""

from typing import Annotated

from pydantic import Field

from danube.admin.operations.fields import VOLATILE, Params, Result
from danube.admin.operations.operation import Call, Example, Operation
from danube.model.admin_calls import BrokerDescription, RaftStatus
from danube.model.errors import UnsupportedError
from danube.model.plans import Effect


class ClusterStatus(Result):
    """How the brokers agree, and what the one that was asked says of itself; null is not known, or not there."""

    mode: str = Field(description="`standalone`: one broker that agrees with nobody. `cluster`: several.")
    self_node_id: Annotated[str, VOLATILE] = Field(title="Self Node ID", description="The broker that was asked.")
    raft_addr: str | None = Field(description="Where it speaks to the others.")
    leader: Annotated[str | None, VOLATILE] = Field(description="The id of the leader.")
    current_term: int | None = Field(description="The term of the leader.")
    last_applied: int | None = Field(description="The last change that the broker has seen.")
    voters: Annotated[list[str], VOLATILE] = Field(description="Brokers that vote.")
    learners: Annotated[list[str], VOLATILE] = Field(description="Brokers that follow and do not vote.")
    cluster_name: str | None = Field(description="The name of the cluster.")
    version: str | None = Field(description="The version of the broker.")
    uptime_s: Annotated[float | None, VOLATILE] = Field(description="How long the broker has been up, seconds.")
    takes_messages: bool | None = Field(description="Whether the broker takes messages.")
    topics: int | None = Field(description="Topics that the broker serves, partitions each on their own.")
    subscriptions: int | None = Field(description="Subscriptions of those topics.")
    producers: int | None = Field(description="Producers attached now.")
    consumers: int | None = Field(description="Consumers with an open stream.")
    stopped_reason: str | None = Field(description="Why the broker takes no messages.")


async def _status(call: Call, params: Params) -> ClusterStatus:  # noqa: ARG001 - it has none
    description, raft = await _description(call), await _raft(call)
    if description is not None or raft is not None:
        return _merge(description, raft)
    brokers = await call.gateway.brokers()
    if len(brokers) != 1:
        raise UnsupportedError(
            "this broker tells nothing of its cluster; `danube-admin brokers list` lists its brokers"
        )
    return _merge(None, None, alone=brokers[0].broker_id)


async def _description(call: Call) -> BrokerDescription | None:
    try:
        return await call.gateway.describe_broker()
    except UnsupportedError:
        return None


async def _raft(call: Call) -> RaftStatus | None:
    try:
        return await call.gateway.raft_status()
    except UnsupportedError:
        return None


def _merge(description: BrokerDescription | None, raft: RaftStatus | None, *, alone: str = "") -> ClusterStatus:
    """`alone` is the id of a broker that tells neither, and is the only one there is."""
    return ClusterStatus(
        mode=description.mode if description else "standalone" if alone else "cluster",
        self_node_id=raft.self_node_id if raft else description.info.broker_id if description else alone,
        raft_addr=raft.raft_addr if raft else None,
        leader=raft.leader_id if raft else None,
        current_term=raft.current_term if raft else None,
        last_applied=raft.last_applied if raft else None,
        voters=list(raft.voters) if raft else [],
        learners=list(raft.learners) if raft else [],
        cluster_name=description.cluster_name if description else None,
        version=description.version if description else None,
        uptime_s=round(description.uptime_s, 1) if description else None,
        takes_messages=description.is_healthy if description else None,
        topics=description.topics if description else None,
        subscriptions=description.subscriptions if description else None,
        producers=description.producers if description else None,
        consumers=description.consumers if description else None,
        stopped_reason=description.refused_reason if description else None,
    )


CLUSTER_STATUS = Operation(
    name="cluster_status",
    words=("cluster", "status"),
    summary="Show who leads, who votes, and what the broker behind the endpoint serves.",
    description="A standalone broker has no leader and no voters. For every broker there is, call list_brokers.",
    effect=Effect.READ,
    params=Params,
    result=ClusterStatus,
    run=_status,
    examples=(Example("The cluster behind the endpoint"),),
    is_idempotent=True,
)

OPERATIONS = (CLUSTER_STATUS,)
