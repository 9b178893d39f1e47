"""How long topics keep their messages: what a change would take from them, and making it."""

from collections.abc import Mapping
from dataclasses import dataclass

from danube.broker.control.plans.kept_rules import KeptTopics
from danube.broker.control.positions import unread_before
from danube.broker.policy.retention import oldest_unread, retention_of
from danube.broker.topics.local_topics import Topics
from danube.broker.topics.subscription import ReliableSubscription
from danube.broker.topics.topic import AnyTopic, ReliableTopic
from danube.metadata.records.catalog import Records
from danube.model.policies import RETENTION_NAMES, Limits, Policies
from danube.storage.retention.rules import Going
from danube.storage.store import Storage


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionEffect:
    """What a change means for one topic, at this moment."""

    topic: ReliableTopic
    before: Limits
    after: Limits
    going: Going
    unread: Mapping[str, int]
    """Of what goes: how many messages the subscriptions have not acknowledged that lose some, by their names."""

    @property
    def messages(self) -> int:
        """That go, at once or soon."""
        return self.going.messages + self.going.later_messages

    @property
    def body_bytes(self) -> int:
        """Of them."""
        return self.going.body_bytes + self.going.later_bytes


class RetentionControl(KeptTopics[RetentionEffect]):
    """What administrators do, by a plan alone, with the retention of this broker's topics."""

    def __init__(self, topics: Topics, storage: Storage, records: Records) -> None:
        super().__init__(topics, records, "retention")
        self._storage = storage

    def _effect(self, topic: ReliableTopic, after: Limits) -> RetentionEffect | None:
        if retention_values(topic.limits) == retention_values(after):
            return None
        topic.check_open()
        going = self._storage.going(topic.record.topic_id, retention_of(after), oldest_unread(topic))
        return RetentionEffect(
            topic=topic, before=topic.limits, after=after, going=going, unread=_unread(topic, going.end_offset)
        )


def retention_values(limits: Limits | Policies) -> list[int | None]:
    """The limits that are retention, in a fixed order."""
    return [getattr(limits, name) for name in RETENTION_NAMES]


def _unread(topic: AnyTopic, end_offset: int) -> dict[str, int]:
    readers = sorted(topic.subscriptions.items())
    unread = {name: unread_before(one, end_offset) for name, one in readers if isinstance(one, ReliableSubscription)}
    return {name: messages for name, messages in unread.items() if messages}
