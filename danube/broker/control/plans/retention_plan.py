"""Changing retention by a plan: what would be deleted, by which limits, and who has not read it yet.

The arguments, as JSON values: those of `danube/model/plans/retention_change.py`, with `topic` for
`set_topic_retention` and `namespace` for `set_namespace_retention`.
"""

from collections.abc import Sequence

from danube.broker.control.plans.kept_plan import KeptRule, rest
from danube.broker.control.plans.retention import RetentionControl, RetentionEffect, retention_values
from danube.model.calls.stream import FetchTime
from danube.model.limits.broker import PLAN_NAMES_MAX, PLAN_READERS_MAX
from danube.model.plans.plan import Impact, fingerprint_of
from danube.model.plans.retention_change import RETENTION_ARGUMENTS, retention_change
from danube.model.policies import Limits
from danube.model.text import count_text, start_text

_ALWAYS = "Deleted messages never come back. What passes the limits later is deleted, too, and no plan asks again."


def retention_rule(control: RetentionControl) -> KeptRule[RetentionEffect]:
    """As plans have it."""
    return KeptRule(
        control=control,
        arguments=RETENTION_ARGUMENTS,
        change=retention_change,
        values=retention_values,
        impact=_impact,
    )


def _impact(change: str, effects: Sequence[RetentionEffect], state: list[object]) -> Impact:
    """What loses most is named first. `state` is what besides the topics must not change until the plan is applied."""
    ordered = sorted(effects, key=lambda each: (-each.messages, each.topic.record.name))
    losing = [each for each in ordered if each.messages]
    deletes = any(each.after.retention_time_s or each.after.retention_bytes for each in effects)
    readers = [f"{each.topic.name} {name}" for each in losing for name in each.unread]
    return Impact(
        changes=(change, *_changes(ordered)),
        irreversible=(*_losses(losing), *((_ALWAYS,) if deletes else ())),
        topics=tuple(each.topic.name for each in ordered[:PLAN_NAMES_MAX]),
        topic_count=len(ordered),
        subscriptions=tuple(readers[:PLAN_NAMES_MAX]),
        subscription_count=len(readers),
        messages=sum(each.messages for each in effects),
        bytes=sum(each.body_bytes for each in effects),
        fingerprint=fingerprint_of([*state, sorted(map(_identity, effects))]),
    )


def _identity(effect: RetentionEffect) -> list[object]:
    """Another one once the topic is made anew, its retention changes, or one more subscription loses what it needs."""
    losing = sorted(effect.topic.subscription(name).record.subscription_id for name in effect.unread)
    return [effect.topic.record.topic_id, retention_values(effect.before), retention_values(effect.after), losing]


def _changes(effects: Sequence[RetentionEffect]) -> list[str]:
    if not effects:
        return ["It changes nothing for the topics that are there now."]
    lines = [
        f"{each.topic.name} keeps {_kept(each.before)} now, and then {_kept(each.after)}."
        for each in effects[:PLAN_NAMES_MAX]
    ]
    return lines + rest(len(effects), "And {}.")


def _kept(limits: Limits) -> str:
    parts = []
    if limits.retention_time_s:
        parts.append(f"{limits.retention_time_s:,} s of messages")
    if limits.retention_bytes:
        parts.append(count_text(limits.retention_bytes, "byte"))
    if not parts:
        return "everything"
    least = "whether it is read or not" if limits.retention_drops_unread else "and what is unread"
    return f"at most {' and '.join(parts)}, {least}"


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
    return f"{effect.topic.name} loses {', and '.join(said)}; {_unread(effect)}."


def _unread(effect: RetentionEffect) -> str:
    if not effect.unread:
        return "no subscription needs them"
    named = [f"{name!r} ({messages:,})" for name, messages in list(effect.unread.items())[:PLAN_READERS_MAX]]
    left = len(effect.unread) - len(named)
    more = f" and {count_text(left, 'more subscription')}" if left else ""
    return f"unread by {', '.join(named)}{more}"
