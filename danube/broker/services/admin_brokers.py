"""Brokers and the agreement among them, on the admin port: each method one line into `control/`."""

from collections.abc import Awaitable

from danube.broker.services.admin_refusals import refuse
from danube.broker.services.answers import answer_later
from danube.broker.services.context import ServiceContext
from danube.model.calls.admin import ClusterDescription
from danube.rpc.carrier import Service, UnaryCall
from danube.wire import decode_cluster, encode_admin, encode_cluster

_NOWHERE_TO_MOVE = "a standalone broker has no other broker to move topics to: stop it instead, its clients come back"
_NEVER_DRAINED = "a standalone broker is always active"
_NO_NODES = "a standalone broker keeps its metadata by itself: this call needs a cluster"
_NOTHING_TO_BALANCE = "a standalone broker has nothing to balance its load with: this call needs a cluster"


def broker_admin_service(context: ServiceContext) -> Service:
    """`danube_admin.BrokerAdmin`."""
    brokers, namespaces = context.control.brokers, context.control.namespaces

    def list_brokers(request: bytes, call: UnaryCall) -> bytes:  # noqa: ARG001 - asks nothing, answered at once
        return encode_admin.brokers(brokers.list())

    def get_leader_broker(request: bytes, call: UnaryCall) -> bytes:  # noqa: ARG001 - as above
        return encode_admin.leader(brokers.leader())

    def list_namespaces(request: bytes, call: UnaryCall) -> None:  # noqa: ARG001 - asks nothing
        async def work() -> bytes:
            return encode_admin.namespaces(await namespaces.names())

        context.answer_later(call, "list namespaces", work)

    return Service(
        "danube_admin.BrokerAdmin",
        unary={
            "ListBrokers": list_brokers,
            "GetLeaderBroker": get_leader_broker,
            "ListNamespaces": list_namespaces,
            "UnloadBroker": refuse(_NOWHERE_TO_MOVE),
            "ActivateBroker": refuse(_NEVER_DRAINED),
            "GetClusterBalance": refuse(_NOTHING_TO_BALANCE),
            "TriggerRebalance": refuse(_NOTHING_TO_BALANCE),
        },
    )


def cluster_admin_service(context: ServiceContext) -> Service:
    """`danube_admin.ClusterAdmin`."""
    cluster, decode, encode = context.control.cluster, decode_cluster, encode_cluster
    if cluster.is_alone:
        methods = ("ClusterStatus", "AddNode", "PromoteNode", "RemoveNode")
        return Service("danube_admin.ClusterAdmin", unary=dict.fromkeys(methods, refuse(_NO_NODES)))

    def cluster_status(request: bytes, call: UnaryCall) -> None:  # noqa: ARG001 - asks nothing
        async def work() -> bytes:
            return encode_admin.cluster_status(await cluster.status())

        context.answer_later(call, "cluster status", work)

    async def promote(node_id: str) -> str:
        await cluster.promote(node_id)
        return node_id

    async def remove(node_id: str) -> str:
        await cluster.remove(node_id)
        return node_id

    return Service(
        "danube_admin.ClusterAdmin",
        unary={
            "ClusterStatus": cluster_status,
            "AddNode": answer_later(context, decode.add_node, cluster.add, encode.node_added),
            "PromoteNode": answer_later(context, decode.node, promote, encode.node_promoted),
            "RemoveNode": answer_later(context, decode.node, remove, encode.node_removed),
        },
    )


def cluster_service(context: ServiceContext) -> Service:
    """`danube.control.Cluster`, ours alone."""
    cluster, decode, encode = context.control.cluster, decode_cluster, encode_cluster

    def describe(_nothing: None) -> Awaitable[ClusterDescription]:
        return cluster.describe()

    return Service(
        "danube.control.Cluster",
        unary={
            "DescribeCluster": answer_later(context, decode.describe_cluster, describe, encode.cluster_description),
            "TransferLeadership": answer_later(
                context, decode.transfer_leadership, cluster.transfer, encode.leadership_transferred
            ),
        },
    )
