"""What outlives every broker in a simulation of storage and dispatch: topics, subscriptions, what was seen of them."""

import random
from dataclasses import dataclass, field

from danube.model.calls import OutgoingMessage
from danube.model.subscription import SubscriptionType
from danube.testing.history import Event
from danube.wire.encode import send_message
from danube.wire.gen import DanubeApi_pb2

BROKER_ID = 7


@dataclass(slots=True)
class SubscriptionPlan:
    """A subscription, from the life of the broker in which it begins."""

    name: str
    subscription_id: int
    type: SubscriptionType
    consumers: int
    first_life: int
    begun: bool = False
    """Whether it was told that its start is durable."""


@dataclass(slots=True)
class TopicPlan:
    """A topic, the producers that send to it and the subscriptions it has."""

    name: str
    topic_id: int
    producers: tuple[str, ...]
    subscriptions: list[SubscriptionPlan]


@dataclass(slots=True)
class World:
    """The topics of a simulation and its history so far."""

    chance: random.Random
    topics: list[TopicPlan]
    history: list[Event] = field(default_factory=list)
    lives: list[str] = field(default_factory=list)
    """What each life of the broker had to go through, in words."""
    sent: int = 0

    def next_message(self, topic: TopicPlan) -> str:
        """A text that no other message has."""
        self.sent += 1
        return f"{topic.topic_id}.{self.sent}"


def plan_world(chance: random.Random, lives: int) -> World:
    """Draw the topics and subscriptions of a run."""
    numbers = range(1, chance.randint(2, 4) + 1)
    return World(chance, [_plan_topic(chance, number, lives) for number in numbers])


def encode_record(topic: TopicPlan, producer: str, text: str, size: int) -> bytes:
    """A StreamMessage with this text, as an official client would send it, `size` bytes larger than need be."""
    payload = text.encode() + b" " * size
    return send_message(
        OutgoingMessage(
            request_id=1,
            payload=payload,
            publish_time_ms=1,
            producer_name=producer,
            producer_id=1,
            topic=topic.name,
            broker_addr="",
        )
    )


def decode_record(record: bytes) -> tuple[int, str]:
    """The offset that was stamped on a StreamMessage (0 when none was) and its text."""
    message = DanubeApi_pb2.StreamMessage.FromString(record)
    return message.msg_id.topic_offset, message.payload.decode().rstrip()


def _plan_topic(chance: random.Random, number: int, lives: int) -> TopicPlan:
    producers = tuple(f"producer-{number}-{index}" for index in range(chance.randint(1, 3)))
    subscriptions = [_plan_subscription(chance, 10 * number + index, lives) for index in range(chance.randint(1, 2))]
    return TopicPlan(f"/default/topic-{number}", number, producers, subscriptions)


def _plan_subscription(chance: random.Random, subscription_id: int, lives: int) -> SubscriptionPlan:
    kind = chance.choice([SubscriptionType.EXCLUSIVE, SubscriptionType.EXCLUSIVE, SubscriptionType.SHARED])
    return SubscriptionPlan(
        name=f"subscription-{subscription_id}",
        subscription_id=subscription_id,
        type=kind,
        consumers=1 if kind is SubscriptionType.EXCLUSIVE else chance.randint(1, 3),
        first_life=chance.choice([0, 0, chance.randrange(lives)]),
    )
