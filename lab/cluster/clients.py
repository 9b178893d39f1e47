"""Clients of a simulated cluster: for each topic a producer that tries again, and a consumer that acknowledges.

They go to any broker that takes itself for the topic's: also to one that should not any more.
"""

import random
from functools import partial

from danube.broker.topics.topic import ReliableTopic
from danube.model.calls.client import OutgoingMessage, Subscribe
from danube.model.errors import DanubeError
from danube.model.subscription import SubscriptionType
from danube.rpc.carrier import Caller
from danube.storage.batches.batch import encode_messages
from danube.wire.decode import received_message
from danube.wire.encode import send_message
from lab.cluster.broker import SUBSCRIPTION, SimBroker, epoch_of
from lab.cluster.history import History, Topic
from lab.kernel.time import loop_s

_ANSWER_S = 2.0  # after which a producer asks another broker
_DONE = 0.8  # of the messages are acknowledged
_DONE_S = 1.0  # after this long at most


class Producer:
    """Sends one message after the other, each until it is acknowledged."""

    def __init__(self, topic: Topic, history: History, chance: random.Random) -> None:
        self.topic = topic
        self.acknowledged = 0
        self._history = history
        self._chance = chance
        self._text = ""
        self._asked_s = -_ANSWER_S

    def send(self, broker: SimBroker) -> None:
        """Ask a broker, unless another one may still answer."""
        if loop_s() >= self._asked_s + _ANSWER_S:
            self._text = self._text or f"{self.topic.name}-{len(self.topic.sent)}"
            self.topic.sent.add(self._text)
            self._asked_s = loop_s()
            broker.machine.call_later(0.0, self._publish, broker, self._text)

    def _publish(self, broker: SimBroker, text: str) -> None:
        found = broker.find(self.topic.name)
        payload = f"{text} ".encode() + b"." * self._chance.choice([0, 100, 800])
        message = send_message(OutgoingMessage(0, 1, str(self.topic.name), "http://peer", payload, 1, "p"))
        try:
            if isinstance(found, ReliableTopic):
                self.topic.topic_id = found.record.topic_id
                found.publish_batch(encode_messages([message]), 1, partial(self._told, broker, epoch_of(found), text))
            elif found is not None:
                found.publish(message, lambda error: self._answered(text) if error is None else None)
        except DanubeError:
            self._asked_s = -_ANSWER_S

    def _told(self, broker: SimBroker, epoch: int, text: str, result: int | DanubeError) -> None:
        if not isinstance(result, DanubeError):
            self._history.acknowledged(self.topic, epoch, broker.number, result, text)
            if text == self._text:
                self.topic.in_order.append(result)
            self._answered(text)

    def _answered(self, text: str) -> None:
        if text == self._text:
            self._text, self._asked_s = "", -_ANSWER_S
            self.acknowledged += 1


class Consumer:
    """Reads its subscription at one broker after the other: the stream that a broker writes to. It takes everything."""

    room = 1_000_000
    caller = Caller(address="memory")

    def __init__(self, topic: Topic, history: History, chance: random.Random) -> None:
        self.topic = topic
        self._history = history
        self._chance = chance
        self._broker: SimBroker | None = None

    def receive(self, broker: SimBroker) -> None:
        """Be attached to a broker, from now on if need be."""
        if self._broker is not broker:
            self._broker = broker
            broker.machine.spawn(self._attach(broker))

    def write(self, message: bytes) -> None:
        received = received_message(message)
        self._history.shown(self.topic, received.offset, bytes(received.payload).partition(b" ")[0].decode())
        if self._broker is not None and self._chance.random() < _DONE:
            late_s = self._chance.uniform(0.0, _DONE_S)
            self._broker.machine.call_later(late_s, self._acknowledge, self._broker, received.offset)

    def finish(self) -> None:
        self._broker = None

    def fail(self, error: DanubeError) -> None:  # noqa: ARG002 - what the protocol gives
        self._broker = None

    def open(self) -> None:
        return None

    async def _attach(self, broker: SimBroker) -> None:
        assert broker.serving is not None  # noqa: S101 - it serves
        consumers = broker.serving.consumers
        wanted = Subscribe(
            request_id=0,
            topic=self.topic.name,
            consumer_name="consumer",
            subscription=SUBSCRIPTION,
            type=SubscriptionType.EXCLUSIVE,
        )
        try:
            consumers.attach(consumers.get(await consumers.subscribe(wanted)), self)  # type: ignore[arg-type]
        except DanubeError:
            self._broker = None

    def _acknowledge(self, broker: SimBroker, offset: int) -> None:
        topic = broker.find(self.topic.name)
        if topic is not None and SUBSCRIPTION in topic.subscriptions:
            topic.acknowledge(SUBSCRIPTION, offset)
