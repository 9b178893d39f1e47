"""State that outlives every broker of a simulation: topics, subscriptions, metadata, and the history so far."""

import random
from dataclasses import dataclass, field

from danube.model.calls.client import OutgoingMessage
from danube.model.plans.durability import Durability
from danube.model.subscription import SubscriptionType
from danube.storage.disk_space import Watermarks
from danube.storage.journal import JournalSettings
from danube.storage.retention.rules import Retention
from danube.storage.settings import StorageSettings
from danube.wire.encode import send_message
from danube.wire.gen import DanubeApi_pb2
from lab.kernel.chance import seeded
from lab.kernel.history import Event, Keeps
from lab.storage.environment import SimMetadata

_KEEP_ALL = Retention(None, None)
_FOR_LONG = Retention(max_age_ms=7 * 86_400_000, max_bytes=None)
"""Longer than any run, whatever its clocks say."""
_KEPT_FOR_LONG = 0.3  # of the topics


@dataclass(slots=True)
class SubscriptionPlan:
    """A subscription, from the life of the broker in which it begins."""

    name: str
    subscription_id: int
    type: SubscriptionType
    consumers: int
    first_life: int
    begun: bool = False  # whether it was told that its start is durable


@dataclass(slots=True)
class TopicPlan:
    """A topic, the producers that send to it and the subscriptions it has."""

    title: str  # what users call it; a later topic may have the same
    topic_id: int
    producers: tuple[str, ...]
    subscriptions: list[SubscriptionPlan]
    retention: Retention = _KEEP_ALL
    created: bool = False  # whether somebody was told that it exists
    deleted: bool = False  # whether somebody was told that it is gone

    @property
    def name(self) -> str:
        """Its unique name in the history."""
        return f"{self.title}#{self.topic_id}"

    @property
    def keeps(self) -> Keeps:
        by_age = self.retention.max_age_ms is not None and self.retention != _FOR_LONG
        if not by_age and self.retention.max_bytes is None:
            return Keeps.EVERYTHING
        return Keeps.UNREAD if self.retention.keep_unread else Keeps.NEWEST


@dataclass(slots=True)
class World:
    """The topics of a simulation and its history so far."""

    chance: random.Random
    titles: list[str]
    topics: dict[int, TopicPlan] = field(default_factory=dict)
    """All that there ever were, or were tried to make, by id."""
    history: list[Event] = field(default_factory=list)
    lives: list[str] = field(default_factory=list)  # what each life of the broker had to go through, in words
    sent: int = 0
    metadata: SimMetadata = field(default_factory=SimMetadata)
    clocks: random.Random = field(default_factory=random.Random)  # decides what has to do with clocks that are wrong
    clock_off_s: float = 0.0  # by which the clock is far off at the moment

    def next_message(self, topic: TopicPlan) -> str:
        """A text that no other message has."""
        self.sent += 1
        return f"{topic.topic_id}.{self.sent}"

    def next_topic(self, title: str, lives: int) -> TopicPlan:
        """Another topic of this title, with an id of its own; its subscriptions begin within so many lives."""
        topic_id = len(self.topics) + 1
        chance = self.chance
        producers = tuple(f"producer-{topic_id}-{index}" for index in range(chance.randint(1, 3)))
        subscriptions = [_plan_subscription(chance, 10 * topic_id + at, lives) for at in range(chance.randint(1, 2))]
        retention = _plan_retention(chance)
        if self.clocks.random() < _KEPT_FOR_LONG:
            retention = _FOR_LONG
        topic = TopicPlan(title, topic_id, producers, subscriptions, retention)
        self.topics[topic_id] = topic
        return topic


def plan_world(chance: random.Random) -> World:
    """Draw the topics of a run."""
    clocks = seeded(repr(chance.getstate()))  # a stream of its own: a seed's others stay as they are
    return World(chance, [f"/default/topic-{number}" for number in range(1, chance.randint(2, 4) + 1)], clocks=clocks)


def plan_settings(chance: random.Random, durability: Durability, *, is_full: bool = True) -> StorageSettings:
    """Draw the settings of a run's storage; `is_full` if it may refuse writes for want of disk space."""
    refuse_bytes = chance.choice([0, 0, 2_000]) if is_full else 0
    return StorageSettings(
        journal=JournalSettings(
            durability=durability,
            file_bytes_max=chance.choice([1_500, 5_000, 20_000]),
            round_bytes_max=chance.choice([500, 4_000, 50_000]),
            cache_bytes_max=chance.choice([0, 2_000, 50_000]),
            backlog_bytes_max=30_000,
        ),
        watermarks=Watermarks(warn_below_bytes=2 * refuse_bytes, refuse_below_bytes=refuse_bytes),
        segment_bytes_max=chance.choice([1_000, 4_000, 20_000]),
    )


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
            topic=topic.title,
            broker_addr="",
        )
    )


def decode_record(record: bytes) -> tuple[int, str]:
    """The offset that was stamped on a StreamMessage (0 when none was) and its text."""
    message = DanubeApi_pb2.StreamMessage.FromString(record)
    return message.msg_id.topic_offset, message.payload.decode().rstrip()


def _plan_subscription(chance: random.Random, subscription_id: int, lives: int) -> SubscriptionPlan:
    kind = chance.choice([SubscriptionType.EXCLUSIVE, SubscriptionType.EXCLUSIVE, SubscriptionType.SHARED])
    return SubscriptionPlan(
        name=f"subscription-{subscription_id}",
        subscription_id=subscription_id,
        type=kind,
        consumers=1 if kind is SubscriptionType.EXCLUSIVE else chance.randint(1, 3),
        first_life=chance.choice([0, 0, chance.randrange(max(lives, 1))]),
    )


def _plan_retention(chance: random.Random) -> Retention:
    if chance.random() < 0.4:
        return _KEEP_ALL
    return Retention(
        max_age_ms=chance.choice([None, 500, 20_000]),
        max_bytes=chance.choice([None, 1_500, 6_000]),
        keep_unread=chance.random() < 0.6,
    )
