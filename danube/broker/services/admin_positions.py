"""`danube.control.Positions`, ours alone: each method one line into `control/`."""

from danube.broker.services.answers import answer_later, answer_now
from danube.broker.services.context import ServiceContext
from danube.rpc.carrier import Service
from danube.wire import decode_positions as decode
from danube.wire import encode_positions as encode


def positions_service(context: ServiceContext) -> Service:
    """`danube.control.Positions`."""
    control = context.control
    positions = control.positions
    return Service(
        "danube.control.Positions",
        unary={
            "CreateSubscription": answer_later(context, decode.create_subscription, positions.create, encode.position),
            "Seek": answer_later(context, decode.seek, positions.seek, encode.position),
            "RetryBlocked": answer_now(decode.subscription, positions.retry_blocked, encode.position),
            "Peek": answer_later(context, decode.peek, control.peeking.peek, encode.peeked),
            "AddPartitions": answer_later(context, decode.add_partitions, positions.add_partitions, encode.partitions),
            "ListConnections": answer_now(decode.list_connections, control.connections.list, encode.connections),
            "DisconnectClient": answer_now(
                decode.disconnect_client, control.connections.disconnect, encode.disconnected
            ),
        },
    )
