"""Calls of producers that send message by message: attach, send."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from danube.broker.policy.throttle import Published
from danube.broker.schemas.gate import SchemaGate
from danube.broker.services.context import ServiceContext
from danube.broker.topics.topic import AnyTopic
from danube.model.calls.client import CreateProducer, ProducerCreated
from danube.model.errors import DanubeError, MessageTooLargeError, OverloadedError
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

        gate = topic.gate
        if gate is None:
            topic.publish(request, published)
            return
        admission = SingleMessage(request, message.schema_id, message.schema_version)
        waiting = admission.admit(gate)
        if waiting is None:
            topic.publish(request, published)
        else:
            context.tasks.spawn(_publish_later(topic, admission, waiting, published), "publish a message")

    return handle


class SingleMessage(NamedTuple):
    """One message before its topic's schema gate."""

    request: bytes
    schema_id: int | None
    schema_version: int | None

    def admit(self, gate: SchemaGate) -> "asyncio.Future[None] | None":
        """As `SchemaGate.admit`."""
        payloads = lambda: (decode.received_message(self.request).payload,)  # noqa: E731 - seldom called
        return gate.admit(self.schema_id, self.schema_version, 1, payloads)


async def _publish_later(
    topic: AnyTopic, message: SingleMessage, waiting: "asyncio.Future[None]", published: Published
) -> None:
    """Publish a message once its schema is looked up."""
    try:
        await asyncio.shield(waiting)
        gate = topic.gate
        if gate is not None and message.admit(gate) is not None:
            raise OverloadedError(f"the schemas of {topic.name} change too fast: send the message again")
        topic.publish(message.request, published)
    except DanubeError as error:
        published(error)
