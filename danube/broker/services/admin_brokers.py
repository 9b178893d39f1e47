"""`danube_admin.BrokerAdmin` and `danube_admin.ClusterAdmin`: each method one line into `control/`."""

from danube.broker.services.admin_refusals import refuse
from danube.broker.services.context import ServiceContext
from danube.rpc.carrier import Service, UnaryCall
from danube.wire import encode_admin

_NOWHERE_TO_MOVE = "a standalone broker has no other broker to move topics to: stop it instead, its clients come back"
_NEVER_DRAINED = "a standalone broker is always active"
_NOTHING_TO_BALANCE = "a standalone broker has nothing to balance its load with: this call needs a cluster"
_NO_NODES = "a standalone broker keeps its metadata by itself: this call needs a cluster"


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


def cluster_admin_service() -> Service:
    """`danube_admin.ClusterAdmin`, which a standalone broker has no use for."""
    methods = ("ClusterStatus", "AddNode", "PromoteNode", "RemoveNode")
    return Service("danube_admin.ClusterAdmin", unary=dict.fromkeys(methods, refuse(_NO_NODES)))
