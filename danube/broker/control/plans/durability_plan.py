"""Changing what an acknowledgement means by a plan: for which topics, and what a power cut may take then.

The arguments, as JSON values: those of `danube/model/plans/durability_change.py`, with `topic` for
`set_topic_durability` and `namespace` for `set_namespace_durability`.
"""

from collections.abc import Sequence

from danube.broker.control.plans.durability import DurabilityControl, DurabilityEffect
from danube.broker.control.plans.kept_plan import KeptRule, rest
from danube.model.limits.broker import PLAN_NAMES_MAX
from danube.model.plans.durability import Durability
from danube.model.plans.durability_change import DURABILITY_ARGUMENTS, durability_change
from danube.model.plans.plan import Impact, fingerprint_of

_ALWAYS = "What a power cut has taken never comes back, though its producers were told that it is stored."


def durability_rule(control: DurabilityControl) -> KeptRule[DurabilityEffect]:
    """As plans have it."""
    return KeptRule(
        control=control,
        arguments=DURABILITY_ARGUMENTS,
        change=durability_change,
        values=lambda policies: policies.durability,
        impact=lambda change, effects, state: _impact(change, effects, state, control.sync_interval_ms),
    )


def _impact(change: str, effects: Sequence[DurabilityEffect], state: list[object], interval_ms: int) -> Impact:
    """What becomes weaker is named first. `state` is what besides the topics must not change until it is applied."""
    ordered = sorted(effects, key=lambda each: (not each.is_weaker, each.topic is None, _name(each)))
    topics = [each.topic for each in ordered if each.topic is not None]
    return Impact(
        changes=(change, *_changes(ordered, interval_ms)),
        irreversible=_losses([each for each in ordered if each.is_weaker], interval_ms),
        topics=tuple(topic.name for topic in topics[:PLAN_NAMES_MAX]),
        topic_count=len(topics),
        fingerprint=fingerprint_of([*state, sorted(map(_identity, effects))]),
    )


def _identity(effect: DurabilityEffect) -> list[object]:
    """Another one once the topic is made anew, or its durability changes."""
    topic_id = effect.topic.record.topic_id if effect.topic is not None else -1
    return [topic_id, effect.before.value, effect.after.value]


def _changes(effects: Sequence[DurabilityEffect], interval_ms: int) -> list[str]:
    if not effects:
        return ["It changes nothing for the topics that are there now."]
    lines = [
        f"{_name(each)}: acknowledged {_when(each.before, interval_ms)} now, and then {_when(each.after, interval_ms)}."
        for each in effects[:PLAN_NAMES_MAX]
    ]
    return lines + rest(len(effects), "And {}.")


def _losses(weaker: Sequence[DurabilityEffect], interval_ms: int) -> tuple[str, ...]:
    if not weaker:
        return ()
    lines = [
        f"{_name(each)}: a power cut may take what was acknowledged {_taken(each.after, interval_ms)}."
        for each in weaker[:PLAN_NAMES_MAX]
    ]
    return (*lines, *rest(len(weaker), "And as much of {}."), _ALWAYS)


def _name(effect: DurabilityEffect) -> str:
    return effect.topic.name if effect.topic is not None else "Topics that are made later"


def _when(durability: Durability, interval_ms: int) -> str:
    match durability:
        case Durability.FSYNC:
            return "after the sync (fsync)"
        case Durability.INTERVAL:
            return f"after the write, synced within {interval_ms:,} ms (interval)"
        case Durability.OS:
            return "after the write, synced when the system likes (os)"


def _taken(durability: Durability, interval_ms: int) -> str:
    if durability is Durability.INTERVAL:
        return f"in the last {interval_ms:,} ms"
    return "and the system had not written yet, often that of half a minute"
