"""`danube.control.Inspection`, ours alone: each method one line into `control/`."""

from danube.broker.services.answers import answer_later
from danube.broker.services.context import ServiceContext
from danube.rpc.carrier import Service, UnaryCall
from danube.wire import decode_control, encode_control


def inspection_service(context: ServiceContext) -> Service:
    """`danube.control.Inspection`."""
    control = context.control

    def describe_broker(request: bytes, call: UnaryCall) -> bytes:  # noqa: ARG001 - asks nothing, answered at once
        return encode_control.broker_description(control.brokers.describe())

    return Service(
        "danube.control.Inspection",
        unary={
            "DescribeTopics": answer_later(
                context, decode_control.describe_topics, control.descriptions.topics, encode_control.topics_page
            ),
            "DescribeBroker": describe_broker,
        },
    )
