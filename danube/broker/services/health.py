"""HealthCheck: whether a producer or consumer is still attached here.

One that has to go, and an unknown id, is told to close, twice at most, and then NOT_FOUND: leftover pollers of official
clients go on asking about ids they have given up, and each further CLOSE would make them attach once more.
"""

from danube.broker.services.context import ServiceContext
from danube.model.calls.client import ClientKind, HealthStatus
from danube.rpc.carrier import Service, UnaryCall
from danube.wire import decode, encode


def health_service(context: ServiceContext) -> Service:
    """`danube.HealthCheck`."""
    disconnected_clients = context.disconnected_clients

    def health_check(request: bytes, call: UnaryCall) -> bytes:  # noqa: ARG001 - answered at once
        asked = decode.health_check(request)
        if asked.client is ClientKind.PRODUCER:
            is_known = context.producers.is_attached(asked.id)
        else:
            is_known = context.consumers.is_known(asked.id)
        if is_known and not disconnected_clients.is_leaving(asked.client, asked.id):
            return encode.health_status(HealthStatus.OK)
        return encode.health_status(disconnected_clients.health(asked.client, asked.id))

    return Service("danube.HealthCheck", unary={"HealthCheck": health_check})
