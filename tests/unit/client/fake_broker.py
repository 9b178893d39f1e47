"""A broker small enough to be read at once: real calls over memory, with failures on order.

Topics are lists; each (topic, subscription) remembers what is acknowledged and sends everything else to the newest
stream of it. What a test wants to go wrong it puts into `failures`, one error for each call to fail.
"""

from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from danube.model.calls.client import (
    HealthStatus,
    LookupAnswer,
    LookupKind,
    PartitionsAnswer,
    ProducerCreated,
    Subscribe,
    Subscribed,
)
from danube.model.errors import (
    ConsumerNotFoundError,
    DanubeError,
    InvalidRequestError,
    ProducerNotFoundError,
    TopicNotFoundError,
)
from danube.model.message import consumer_id, producer_id
from danube.rpc.carrier import Carrier, CarrierServer, ServerStream, Service, StreamFactory, UnaryCall, UnaryHandler
from danube.wire import client_messages, decode, encode


@dataclass
class Subscription:
    acknowledged: set[int] = field(default_factory=set)
    sent: set[int] = field(default_factory=set)
    """On the stream of the moment, and so not sent again on it."""
    nacks: list[tuple[int, float | None, str | None]] = field(default_factory=list)


@dataclass
class Stream:
    """The open stream of one consumer."""

    broker: "FakeBroker"
    stream: ServerStream
    consumer: int = 0

    def on_message(self, message: bytes) -> None:
        self.broker.note("ReceiveMessages", self.stream)
        self.consumer = client_messages.RECEIVE.decode(message).consumer_id
        if self.consumer not in self.broker.consumers:
            raise ConsumerNotFoundError(f"The consumer with the id {self.consumer} does not exist")
        self.stream.open()
        self.broker.attach(self)

    def on_half_close(self) -> None:
        return

    def on_ready(self) -> None:
        self.broker.pump()

    def on_cancel(self) -> None:
        self.broker.detach(self)


class FakeBroker:
    def __init__(self, carrier: Carrier, address: str) -> None:
        self.carrier = carrier
        self.address = address
        self.url = f"http://{address}"
        self.topics: dict[str, list[bytes]] = {}
        self.producers: set[int] = set()
        self.consumers: dict[int, Subscribe] = {}
        self.subscriptions: dict[tuple[str, str], Subscription] = defaultdict(Subscription)
        self.streams: dict[int, Stream] = {}
        self.health: dict[int, HealthStatus] = {}
        self.answers: dict[str, LookupAnswer] = {}
        """What TopicLookup answers for a topic, in place of this broker."""
        self.failures: dict[str, deque[DanubeError]] = defaultdict(deque)
        self.calls: list[str] = []
        self.metadata: list[tuple[str, dict[str, str]]] = []
        self.held: deque[Callable[[], None]] | None = None
        """When a deque, answers to SendMessage wait in it until the test lets them go."""
        self.unanswered_max = 0
        self.is_silent = False
        """True for one that takes calls and answers none, as a process that stands still."""
        self.refuse_after: int | None = None
        """Refuse every message of a topic that has this many."""
        self._server: CarrierServer | None = None

    async def start(self) -> None:
        self._server = await self.carrier.serve(self.address, self._services())
        self.address = self._server.address
        self.url = f"http://{self.address}"

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.stop(0)
            self._server = None

    def forget_members(self) -> None:
        """As after a restart of the original: no id is known any more."""
        self.producers.clear()
        self.consumers.clear()
        self.streams.clear()

    def end_streams(self) -> None:
        """Break them in good order; the consumers may open others."""
        for stream in list(self.streams.values()):
            stream.stream.finish()
        self.streams.clear()

    def payloads(self, topic: str) -> list[bytes]:
        return [decode.received_message(message).payload for message in self.topics.get(topic, [])]

    def attach(self, stream: Stream) -> None:
        old = self.streams.pop(stream.consumer, None)
        if old is not None:
            old.stream.finish()
        self.streams[stream.consumer] = stream
        self._subscription(stream).sent.clear()
        self.pump()

    def detach(self, stream: Stream) -> None:
        if self.streams.get(stream.consumer) is stream:
            del self.streams[stream.consumer]

    def pump(self) -> None:
        """Send what is neither acknowledged nor on its way."""
        for stream in list(self.streams.values()):
            topic = str(self.consumers[stream.consumer].topic)
            subscription = self._subscription(stream)
            for offset, message in enumerate(self.topics.get(topic, [])):
                if stream.stream.room > 0 and offset not in subscription.acknowledged | subscription.sent:
                    subscription.sent.add(offset)
                    stream.stream.write(message + encode.stamp_offset(offset))

    def note(self, method: str, call: UnaryCall | ServerStream) -> None:
        """Remember the call, and fail it when that is on order."""
        self.calls.append(method)
        self.metadata.append((method, dict(call.caller.metadata)))
        if self.failures[method]:
            raise self.failures[method].popleft()

    def _subscription(self, stream: Stream) -> Subscription:
        subscribe = self.consumers[stream.consumer]
        return self.subscriptions[str(subscribe.topic), subscribe.subscription]

    def _services(self) -> list[Service]:
        def unless_silent(answer: UnaryHandler) -> UnaryHandler:
            return lambda request, call: None if self.is_silent else answer(request, call)

        calls: dict[str, dict[str, UnaryHandler]] = {
            "ProducerService": {"CreateProducer": self._create, "SendMessage": self._send},
            "ConsumerService": {"Subscribe": self._subscribe, "Ack": self._ack, "Nack": self._nack},
            "Discovery": {"TopicLookup": self._lookup, "TopicPartitions": self._partitions},
            "HealthCheck": {"HealthCheck": self._health},
        }
        streams: dict[str, StreamFactory] = {"ReceiveMessages": lambda stream: Stream(self, stream)}
        return [
            Service(
                f"danube.{name}",
                {method: unless_silent(answer) for method, answer in methods.items()},
                streams if name == "ConsumerService" else {},
            )
            for name, methods in calls.items()
        ]

    def _create(self, request: bytes, call: UnaryCall) -> bytes:
        self.note("CreateProducer", call)
        create = client_messages.CREATE_PRODUCER.decode(request)
        self.topics.setdefault(str(create.topic), [])
        member = producer_id(create.topic, create.producer_name)
        self.producers.add(member)
        return client_messages.PRODUCER_CREATED.encode(
            ProducerCreated(request_id=create.request_id, producer_id=member, producer_name=create.producer_name)
        )

    def _send(self, request: bytes, call: UnaryCall) -> bytes | None:
        self.note("SendMessage", call)
        message = decode.send_message(request)
        if message.producer_id not in self.producers:
            raise ProducerNotFoundError(f"The producer with id {message.producer_id} does not exist")
        if len(self.topics[message.topic]) == self.refuse_after:
            raise InvalidRequestError("refused by order")
        self.topics[message.topic].append(request)
        self.pump()
        answer = encode.echo(message.request_id)
        if self.held is None:
            return answer
        self.held.append(lambda: call.reply(answer))
        self.unanswered_max = max(self.unanswered_max, len(self.held))
        return None

    def _subscribe(self, request: bytes, call: UnaryCall) -> bytes:
        self.note("Subscribe", call)
        subscribe = client_messages.SUBSCRIBE.decode(request)
        if str(subscribe.topic) not in self.topics:
            raise TopicNotFoundError(f"Unable to find the topic: {subscribe.topic}")
        member = consumer_id(subscribe.topic, subscribe.subscription, subscribe.consumer_name)
        self.consumers[member] = subscribe
        self.health[member] = HealthStatus.OK
        return client_messages.SUBSCRIBED.encode(
            Subscribed(request_id=subscribe.request_id, consumer_id=member, consumer_name=subscribe.consumer_name)
        )

    def _ack(self, request: bytes, call: UnaryCall) -> bytes:
        self.note("Ack", call)
        ack = decode.acknowledge(request)
        self.subscriptions[str(ack.topic), ack.subscription].acknowledged.add(ack.offset)
        return encode.echo(ack.request_id)

    def _nack(self, request: bytes, call: UnaryCall) -> bytes:
        self.note("Nack", call)
        nack = decode.negative_acknowledge(request)
        subscription = self.subscriptions[str(nack.topic), nack.subscription]
        subscription.nacks.append((nack.offset, nack.delay_s, nack.reason))
        subscription.sent.discard(nack.offset)
        self.pump()
        return encode.echo(nack.request_id)

    def _lookup(self, request: bytes, call: UnaryCall) -> bytes:
        self.note("TopicLookup", call)
        lookup = client_messages.LOOKUP.decode(request)
        answer = self.answers.get(str(lookup.topic))
        if answer is not None:
            return client_messages.LOOKUP_ANSWER.encode(answer)
        if str(lookup.topic) not in self.topics:
            raise TopicNotFoundError(f"Unable to find the requested topic: {lookup.topic}")
        return client_messages.LOOKUP_ANSWER.encode(serves(self.url, request_id=lookup.request_id))

    def _partitions(self, request: bytes, call: UnaryCall) -> bytes:
        self.note("TopicPartitions", call)
        lookup = client_messages.LOOKUP.decode(request)
        names = [lookup.topic, *(lookup.topic.partition(n) for n in range(8))]
        there = tuple(topic for topic in names if str(topic) in self.topics)
        return client_messages.PARTITIONS_ANSWER.encode(
            PartitionsAnswer(request_id=lookup.request_id, partitions=there)
        )

    def _health(self, request: bytes, call: UnaryCall) -> bytes:
        self.note("HealthCheck", call)
        return client_messages.HEALTH_STATUS.encode(
            self.health.get(client_messages.HEALTH_CHECK.decode(request).id, HealthStatus.OK)
        )


def serves(url: str, *, broker_url: str | None = None, proxy: bool = False, request_id: int = 0) -> LookupAnswer:
    """An answer that sends clients to `url`."""
    return LookupAnswer(
        request_id=request_id, kind=LookupKind.CONNECT, connect_url=url, broker_url=broker_url or url, proxy=proxy
    )
