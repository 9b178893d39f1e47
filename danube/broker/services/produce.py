"""ProducerService: attach producers, take messages."""

from danube.broker.services.context import ServiceContext
from danube.model.calls.client import ProducerCreated
from danube.model.errors import DanubeError, MessageTooLargeError
from danube.model.limits.broker import MESSAGE_BYTES_MAX
from danube.rpc.carrier import Service, UnaryCall
from danube.wire import decode, encode


def producer_service(context: ServiceContext) -> Service:
    """`danube.ProducerService`."""
    producers = context.producers

    def create_producer(request: bytes, call: UnaryCall) -> None:
        wanted = decode.create_producer(request)

        async def work() -> bytes:
            identity = await producers.create(wanted)
            return encode.producer_created(
                ProducerCreated(request_id=wanted.request_id, producer_id=identity, producer_name=wanted.producer_name)
            )

        context.answer_later(call, "create producer", work)

    def send_message(request: bytes, call: UnaryCall) -> None:
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

    return Service("danube.ProducerService", unary={"CreateProducer": create_producer, "SendMessage": send_message})
