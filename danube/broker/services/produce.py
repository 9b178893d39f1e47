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
    producers = context.producers

    def handle(request: bytes, call: UnaryCall) -> None:
        if len(request) > MESSAGE_BYTES_MAX:
            raise MessageTooLargeError(
                f"a message of {len(request)} bytes is larger than {MESSAGE_BYTES_MAX}, the most that consumers could "
                "receive: send it in parts, or send a reference to it"
            )
        message = decode.send_message(request)
        topic = producers.topic_of(message)
        if message.payload_size > topic.message_bytes_max:
            topic.check_size(message.payload_size)

        def published(error: DanubeError | None) -> None:
            if error is None:
                call.reply(encode.echo(message.request_id))
            else:
                call.fail(error)

        topic.publish(request, published)

    return handle
