"""Retention and message TTL, changed by a plan that says which messages go, and who has not read them."""

from collections.abc import Mapping

from danube.broker.control.plans.peers import Peers
from danube.broker.control.plans.policies import PlannedPolicy
from danube.broker.control.positions import unread_before
from danube.broker.policy.retention import oldest_unread, retention_of
from danube.broker.subscriptions.subscription import ReliableSubscription
from danube.broker.topics.local_topics import Topics
from danube.broker.topics.topic import AnyTopic, ReliableTopic
from danube.metadata.records.catalog import Records
from danube.model.calls.stream import FetchTime
from danube.model.limits.broker import PLAN_READERS_MAX
from danube.model.plans.plan import Arguments, canonical
from danube.model.plans.policy_changes import (
    MESSAGE_TTL_ARGUMENTS,
    RETENTION_ARGUMENTS,
    message_ttl_change,
    retention_change,
)
from danube.model.plans.policy_effects import PolicyEffect
from danube.model.policies import RETENTION_NAMES, Limits, Policies, PolicyChange
from danube.model.text import count_text, size_text, span_text, start_text
from danube.runtime.clock import Clock
from danube.storage.retention.rules import TrimPreview
from danube.storage.store import Storage


class RetentionControl(PlannedPolicy):
    """The retention of topics."""

    name = "retention"
    words = "retention"
    arguments = RETENTION_ARGUMENTS
    always = "Deleted messages never come back. What passes the limits later is deleted, too, and no plan asks again."

    def __init__(self, topics: Topics, storage: Storage, records: Records, peers: Peers) -> None:
        super().__init__(topics, records, peers)
        self._storage = storage

    def _change(self, arguments: Arguments) -> PolicyChange:
        return retention_change(arguments)

    def _values(self, policies: Policies) -> object:
        return _limits(policies)

    async def _effect(self, topic: ReliableTopic, after: Limits) -> PolicyEffect | None:
        before = topic.limits
        if _limits(before) == _limits(after):
            return None
        topic.check_open()
        going = self._storage.trim_preview(topic.record.topic_id, retention_of(after), oldest_unread(topic))
        unread = _unread_by(topic, going.end_offset)
        messages = going.messages + going.later_messages
        losing = sorted(topic.subscription(name).record.subscription_id for name in unread)
        return PolicyEffect(
            topic=topic.name,
            change=f"{topic.name}: retention: {_kept(before)} -> {_kept(after)}.",
            loss=f"{topic.name} loses {_loss(going, unread)}." if messages else "",
            messages=messages,
            bytes=going.body_bytes + going.later_bytes,
            readers=tuple(unread) if messages else (),
            lasts=bool(after.retention_time_s or after.retention_bytes),
            identity=canonical([topic.record.topic_id, _limits(before), _limits(after), losing]),
        )


class MessageTtlControl(PlannedPolicy):
    """Time after which subscriptions pass over a message that they have not acknowledged."""

    name = "message_ttl"
    words = "message TTL"
    arguments = MESSAGE_TTL_ARGUMENTS
    always = (
        "Messages that were passed over are never sent to these subscriptions. What grows older than the limit later"
        " is passed over, too, and no plan asks again."
    )

    def __init__(self, topics: Topics, records: Records, peers: Peers, clock: Clock) -> None:
        super().__init__(topics, records, peers)
        self._clock = clock

    def _change(self, arguments: Arguments) -> PolicyChange:
        return message_ttl_change(arguments)

    def _values(self, policies: Policies) -> object:
        return policies.message_ttl_s

    async def _effect(self, topic: ReliableTopic, after: Limits) -> PolicyEffect | None:
        before_s, after_s = topic.limits.message_ttl_s, after.message_ttl_s
        if before_s == after_s:
            return None
        topic.check_open()
        unread = {}
        if after_s:
            unread = _unread_by(topic, await topic.log.offset_at(self._clock.now_ms() - after_s * 1_000))
        messages = sum(unread.values())
        losing = sorted(topic.subscription(name).record.subscription_id for name in unread)
        return PolicyEffect(
            topic=topic.name,
            change=f"{topic.name}: message TTL: {_words(before_s)} -> {_words(after_s)}.",
            loss=f"{topic.name} passes over {count_text(messages, 'message')}, {_readers(unread)}." if messages else "",
            messages=messages,
            readers=tuple(unread),
            lasts=bool(after_s),
            identity=canonical([topic.record.topic_id, before_s, after_s, losing]),
        )


def _limits(limits: Limits | Policies) -> list[int | None]:
    """The limits of retention, in a fixed order."""
    return [getattr(limits, name) for name in RETENTION_NAMES]


def _unread_by(topic: AnyTopic, end_offset: int) -> dict[str, int]:
    readers = sorted(topic.subscriptions.items())
    unread = {name: unread_before(one, end_offset) for name, one in readers if isinstance(one, ReliableSubscription)}
    return {name: messages for name, messages in unread.items() if messages}


def _kept(limits: Limits) -> str:
    parts = []
    if limits.retention_time_s:
        parts.append(span_text(limits.retention_time_s))
    if limits.retention_bytes:
        parts.append(size_text(limits.retention_bytes))
    if not parts:
        return "unlimited"
    unread = "dropped" if limits.retention_drops_unread else "kept"
    return f"{' and '.join(parts)} (unread {unread})"


def _loss(going: TrimPreview, unread: Mapping[str, int]) -> str:
    said = []
    if going.segments:
        first, last = (start_text(FetchTime(ms)) for ms in (going.first_append_time_ms, going.last_append_time_ms))
        what = f"{count_text(going.messages, 'message')} of {count_text(going.body_bytes, 'byte')}"
        said.append(f"at once {what} in {count_text(going.segments, 'segment')}, stored {first} to {last}")
    if going.later_messages:
        what = f"{count_text(going.later_messages, 'message')} of {count_text(going.later_bytes, 'byte')}"
        said.append(f"up to {what} as soon as newer segments follow them")
    return f"{', and '.join(said)}; {_readers(unread)}"


def _readers(unread: Mapping[str, int]) -> str:
    if not unread:
        return "no subscription needs them"
    named = [f"{name!r} ({messages:,})" for name, messages in list(unread.items())[:PLAN_READERS_MAX]]
    left = len(unread) - len(named)
    more = f" and {count_text(left, 'more subscription')}" if left else ""
    return f"unread by {', '.join(named)}{more}"


def _words(ttl_s: int) -> str:
    return span_text(ttl_s) if ttl_s else "none"
