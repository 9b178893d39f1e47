"""Calls of producers that send message by message: attach, send."""

from collections.abc import Awaitable, Callable

from danube.broker.services.context import ServiceContext
from danube.model.calls.client import CreateProducer, ProducerCreated
from danube.model.errors import DanubeError, MessageTooLargeError
from danube.model.limits.broker import MESSAGE_BYTES_MAX
from danube.rpc.carrier import UnaryCall, UnaryHandler
from danube.wire import decode, encode


def create_producer(context: ServiceContext) -> Callable[[CreateProducer], Awaitable[ProducerCreated]]:
    """Attach a producer to its topic."""

    async def create(wanted: CreateProducer) -> ProducerCreated:
        identity = await context.producers.create(wanted)
        return ProducerCreated(request_id=wanted.request_id, producer_id=identity, producer_name=wanted.producer_name)

    return create


def send_message(context: ServiceContext) -> UnaryHandler:
    """Publish one message. The answer follows once the message is as durable as its topic promises."""
    producers, take = context.producers, context.sent.take

    def handle(request: bytes, call: UnaryCall) -> None:
        if len(request) > MESSAGE_BYTES_MAX:
            raise MessageTooLargeError(
                f"a message of {len(request)} bytes is larger than {MESSAGE_BYTES_MAX}, the most that consumers could "
                "receive: send it in parts, or send a reference to it"
            )
        message = take(request)
        topic = producers.topic_of(message)
        if message.payload_size > topic.message_bytes_max:
            topic.check_size(message.payload_size)

        def published(error: DanubeError | None) -> None:
            if error is None:
                call.reply(encode.echo(message.request_id))
            else:
                call.fail(error)

        def admitted(error: DanubeError | None) -> None:
            try:
                if error is not None:
                    raise error
                topic.publish(request, published)
            except DanubeError as refusal:
                published(refusal)

        if topic.gate is not None:
            pair = (message.schema_id or 0, message.schema_version or 0)
            payloads = lambda: (decode.received_message(request).payload,)  # noqa: E731 - seldom called
            if topic.gate.admit(message.producer_id, pair, 1, payloads, admitted) is not None:
                return
        topic.publish(request, published)

    return handle
