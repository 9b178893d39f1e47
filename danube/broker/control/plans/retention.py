"""Retention of topics, changed by a plan that says which messages are deleted, and who has not read them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from danube.broker.control.plans.policies import NO_EFFECT, PlannedPolicy, rest
from danube.broker.control.positions import unread_before
from danube.broker.policy.retention import oldest_unread, retention_of
from danube.broker.topics.local_topics import Topics
from danube.broker.topics.subscription import ReliableSubscription
from danube.broker.topics.topic import AnyTopic, ReliableTopic
from danube.metadata.records.catalog import Records
from danube.model.calls.stream import FetchTime
from danube.model.limits.broker import PLAN_NAMES_MAX, PLAN_READERS_MAX
from danube.model.plans.plan import Arguments, Impact, fingerprint_of
from danube.model.plans.policy_changes import RETENTION_ARGUMENTS, retention_change
from danube.model.policies import RETENTION_NAMES, Limits, Policies, PolicyChange
from danube.model.text import count_text, size_text, span_text, start_text
from danube.storage.retention.rules import TrimPreview
from danube.storage.store import Storage

_ALWAYS = "Deleted messages never come back. What passes the limits later is deleted, too, and no plan asks again."


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionEffect:
    """Change of one topic, at this moment."""

    topic: ReliableTopic
    before: Limits
    after: Limits
    going: TrimPreview
    unread: Mapping[str, int]
    """Unacknowledged messages among the deleted ones, by the subscription that loses them."""

    @property
    def messages(self) -> int:
        """The number of messages deleted, at once or soon."""
        return self.going.messages + self.going.later_messages

    @property
    def body_bytes(self) -> int:
        """The bytes of those messages."""
        return self.going.body_bytes + self.going.later_bytes

    @property
    def identity(self) -> list[object]:
        """Value that changes when the topic is created again, its retention changes, or others lose messages."""
        losing = sorted(self.topic.subscription(name).record.subscription_id for name in self.unread)
        return [self.topic.record.topic_id, _limits(self.before), _limits(self.after), losing]


class RetentionControl(PlannedPolicy[RetentionEffect]):
    """The retention of this broker's topics."""

    name = "retention"
    arguments = RETENTION_ARGUMENTS

    def __init__(self, topics: Topics, storage: Storage, records: Records) -> None:
        super().__init__(topics, records)
        self._storage = storage

    def _change(self, arguments: Arguments) -> PolicyChange:
        return retention_change(arguments)

    def _values(self, policies: Policies) -> object:
        return _limits(policies)

    def _effect(self, topic: ReliableTopic, after: Limits) -> RetentionEffect | None:
        if _limits(topic.limits) == _limits(after):
            return None
        topic.check_open()
        going = self._storage.trim_preview(topic.record.topic_id, retention_of(after), oldest_unread(topic))
        unread = _unread(topic, going.end_offset)
        return RetentionEffect(topic=topic, before=topic.limits, after=after, going=going, unread=unread)

    def _impact(self, change: str, effects: Sequence[RetentionEffect], state: list[object]) -> Impact:
        """Topics that lose most are named first."""
        ordered = sorted(effects, key=lambda each: (-each.messages, each.topic.record.name))
        losing = [each for each in ordered if each.messages]
        deletes = any(each.after.retention_time_s or each.after.retention_bytes for each in effects)
        readers = [f"{each.topic.name} {name}" for each in losing for name in each.unread]
        lines = [
            f"{each.topic.name}: retention: {_kept(each.before)} -> {_kept(each.after)}."
            for each in ordered[:PLAN_NAMES_MAX]
        ]
        return Impact(
            changes=(change, *(lines or [NO_EFFECT]), *rest(len(ordered), "And {}.")),
            irreversible=(*_losses(losing), *((_ALWAYS,) if deletes else ())),
            topics=tuple(each.topic.name for each in ordered[:PLAN_NAMES_MAX]),
            topic_count=len(ordered),
            subscriptions=tuple(readers[:PLAN_NAMES_MAX]),
            subscription_count=len(readers),
            messages=sum(each.messages for each in effects),
            bytes=sum(each.body_bytes for each in effects),
            fingerprint=fingerprint_of([*state, sorted(each.identity for each in effects)]),
        )


def _limits(limits: Limits | Policies) -> list[int | None]:
    """The limits of retention, in a fixed order."""
    return [getattr(limits, name) for name in RETENTION_NAMES]


def _unread(topic: AnyTopic, end_offset: int) -> dict[str, int]:
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


def _losses(losing: Sequence[RetentionEffect]) -> list[str]:
    lines = [_loss(each) for each in losing[:PLAN_NAMES_MAX]]
    messages = sum(each.messages for each in losing[PLAN_NAMES_MAX:])
    return lines + rest(len(losing), f"{count_text(messages, 'message')} of {{}} go as well.")


def _loss(effect: RetentionEffect) -> str:
    going, said = effect.going, []
    if going.segments:
        first, last = (start_text(FetchTime(ms)) for ms in (going.first_append_time_ms, going.last_append_time_ms))
        what = f"{count_text(going.messages, 'message')} of {count_text(going.body_bytes, 'byte')}"
        said.append(f"at once {what} in {count_text(going.segments, 'segment')}, stored {first} to {last}")
    if going.later_messages:
        what = f"{count_text(going.later_messages, 'message')} of {count_text(going.later_bytes, 'byte')}"
        said.append(f"up to {what} as soon as newer segments follow them")
    return f"{effect.topic.name} loses {', and '.join(said)}; {_readers(effect)}."


def _readers(effect: RetentionEffect) -> str:
    if not effect.unread:
        return "no subscription needs them"
    named = [f"{name!r} ({messages:,})" for name, messages in list(effect.unread.items())[:PLAN_READERS_MAX]]
    left = len(effect.unread) - len(named)
    more = f" and {count_text(left, 'more subscription')}" if left else ""
    return f"unread by {', '.join(named)}{more}"
