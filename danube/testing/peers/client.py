"""A client that makes each call by itself and retries nothing: what a broker answers is what the test sees."""

from collections.abc import Mapping

from danube.model.calls.client import (
    FIRST_REQUEST_ID,
    Acknowledge,
    ClientKind,
    CreateProducer,
    HealthCheck,
    HealthStatus,
    Lookup,
    LookupAnswer,
    NegativeAcknowledge,
    OutgoingMessage,
    Receive,
    ReceivedMessage,
    Subscribe,
)
from danube.model.errors import UnavailableError
from danube.model.subscription import SubscriptionType
from danube.model.topic import DispatchStrategy, TopicName
from danube.rpc.carrier import ClientStream
from danube.testing.peers.calls import Calls
from danube.wire import client_messages, decode, encode

REQUEST_ID = 7
"""Of every call: what an answer has to echo."""
BROKER_URL = "http://peer"
"""The broker's address in its messages."""


class Inbox:
    """The messages of one consumer's stream."""

    def __init__(self, stream: ClientStream) -> None:
        self.stream = stream

    async def next(self) -> ReceivedMessage:
        """The next message. Raises UnavailableError when the stream has ended with OK, DanubeError when it failed."""
        raw = await self.stream.receive()
        if raw is None:
            raise UnavailableError("the stream ended")
        return decode.received_message(raw)

    async def take(self, count: int) -> list[ReceivedMessage]:
        """The next `count` messages."""
        return [await self.next() for _ in range(count)]

    def close(self) -> None:
        """Drop the stream."""
        self.stream.cancel()


class Peer(Calls):
    """The calls of a client."""

    async def create_producer(
        self,
        topic: TopicName,
        name: str = "producer",
        strategy: DispatchStrategy = DispatchStrategy.RELIABLE,
        *,
        request_id: int = FIRST_REQUEST_ID,
    ) -> int:
        """Attach a producer, with a larger `request_id` as one that attaches again by itself; answers its id."""
        request = CreateProducer(request_id=request_id, topic=topic, producer_name=name, strategy=strategy)
        path = "/danube.ProducerService/CreateProducer"
        answer = await self.ask(path, client_messages.CREATE_PRODUCER, request, client_messages.PRODUCER_CREATED)
        return answer.producer_id

    async def send(
        self,
        topic: TopicName,
        producer_id: int,
        payload: bytes,
        *,
        producer: str = "producer",
        attributes: Mapping[str, str] | None = None,
    ) -> int:
        """Send a message; answers the echoed request id."""
        message = OutgoingMessage(
            REQUEST_ID, producer_id, str(topic), BROKER_URL, payload, 1, producer, attributes=dict(attributes or {})
        )
        return decode.echo(await self.call("/danube.ProducerService/SendMessage", encode.send_message(message)))

    async def subscribe(
        self,
        topic: TopicName,
        subscription: str = "subscription",
        name: str = "consumer",
        kind: SubscriptionType = SubscriptionType.EXCLUSIVE,
    ) -> int:
        """Subscribe; answers the consumer's id."""
        request = Subscribe(
            request_id=REQUEST_ID, topic=topic, consumer_name=name, subscription=subscription, type=kind
        )
        path = "/danube.ConsumerService/Subscribe"
        return (await self.ask(path, client_messages.SUBSCRIBE, request, client_messages.SUBSCRIBED)).consumer_id

    async def receive(self, consumer_id: int) -> Inbox:
        """Open a consumer's stream; it is open when this returns. Raises DanubeError where it is refused."""
        request = client_messages.RECEIVE.encode(Receive(request_id=REQUEST_ID, consumer_id=consumer_id))
        stream = self.channel.server_stream("/danube.ConsumerService/ReceiveMessages", request)
        await stream.opened()
        return Inbox(stream)

    async def acknowledge(self, topic: TopicName, offset: int, subscription: str = "subscription") -> None:
        """Acknowledge one message."""
        request = encode.acknowledge(Acknowledge(REQUEST_ID, topic, subscription, offset))
        await self.call("/danube.ConsumerService/Ack", request)

    async def nack(
        self,
        topic: TopicName,
        offset: int,
        subscription: str = "subscription",
        *,
        delay_s: float | None = None,
        reason: str | None = None,
    ) -> None:
        """Acknowledge one message negatively."""
        request = NegativeAcknowledge(
            request_id=REQUEST_ID, topic=topic, subscription=subscription, offset=offset, delay_s=delay_s, reason=reason
        )
        await self.call("/danube.ConsumerService/Nack", encode.negative_acknowledge(request))

    async def lookup(self, topic: TopicName) -> LookupAnswer:
        """Ask which broker serves a topic."""
        request = Lookup(request_id=REQUEST_ID, topic=topic)
        path = "/danube.Discovery/TopicLookup"
        return await self.ask(path, client_messages.LOOKUP, request, client_messages.LOOKUP_ANSWER)

    async def partitions(self, topic: TopicName) -> tuple[TopicName, ...]:
        """Ask for the topics behind a name."""
        request = Lookup(request_id=REQUEST_ID, topic=topic)
        path = "/danube.Discovery/TopicPartitions"
        return (await self.ask(path, client_messages.LOOKUP, request, client_messages.PARTITIONS_ANSWER)).partitions

    async def health(self, client: ClientKind, identity: int) -> HealthStatus:
        """Ask whether a producer or consumer is still attached."""
        request = HealthCheck(request_id=REQUEST_ID, client=client, id=identity)
        path = "/danube.HealthCheck/HealthCheck"
        return await self.ask(path, client_messages.HEALTH_CHECK, request, client_messages.HEALTH_STATUS)
