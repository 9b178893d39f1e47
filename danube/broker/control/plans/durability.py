"""Durability of topics, changed by a plan that says what a power cut may then lose."""

from collections.abc import Sequence
from dataclasses import dataclass

from danube.broker.control.plans.policies import NO_EFFECT, PlannedPolicy, rest
from danube.broker.topics.local_topics import Topics
from danube.broker.topics.topic import ReliableTopic
from danube.metadata.records.catalog import Records
from danube.model.limits.broker import PLAN_NAMES_MAX
from danube.model.plans.durability import Durability, durability_of
from danube.model.plans.plan import Arguments, Impact, fingerprint_of
from danube.model.plans.policy_changes import DURABILITY_ARGUMENTS, durability_change
from danube.model.policies import Limits, Policies, PolicyChange

_ALWAYS = "What a power cut has taken never comes back, though its producers were told that it is stored."


@dataclass(frozen=True, slots=True)
class DurabilityEffect:
    """Change of one topic; of topics created later in a namespace where `topic` is None."""

    topic: ReliableTopic | None
    before: Durability
    after: Durability

    @property
    def is_weaker(self) -> bool:
        """True if a power cut may lose more than before."""
        return self.after.number > self.before.number

    @property
    def name(self) -> str:
        """The name of the topic."""
        return self.topic.name if self.topic is not None else "Topics that are made later"

    @property
    def identity(self) -> list[object]:
        """Value that changes when the topic is created again or its durability changes."""
        topic_id = self.topic.record.topic_id if self.topic is not None else -1
        return [topic_id, self.before.value, self.after.value]


class DurabilityControl(PlannedPolicy[DurabilityEffect]):
    """Durability of this broker's topics: the moment at which publishes are acknowledged."""

    name = "durability"
    arguments = DURABILITY_ARGUMENTS

    def __init__(self, topics: Topics, records: Records, *, default: Durability, sync_interval_ms: int) -> None:
        """`default` applies where no policy sets one; `sync_interval_ms` is the time between syncs with `interval`."""
        super().__init__(topics, records)
        self._default = default
        self._interval_ms = sync_interval_ms

    def _change(self, arguments: Arguments) -> PolicyChange:
        return durability_change(arguments)

    def _values(self, policies: Policies) -> object:
        return policies.durability

    async def _namespace_effects(self, namespace: str, after: Policies) -> list[DurabilityEffect]:
        """The last effect is that of topics created later."""
        effects = await super()._namespace_effects(namespace, after)
        before = self._of(self._topics.limits_of(namespace))
        to_come = DurabilityEffect(None, before, durability_of(after.durability) or self._default)
        return effects if to_come.before is to_come.after else [*effects, to_come]

    def _effect(self, topic: ReliableTopic, after: Limits) -> DurabilityEffect | None:
        effect = DurabilityEffect(topic, self._of(topic.limits), self._of(after))
        return effect if effect.before is not effect.after else None

    def _of(self, limits: Limits) -> Durability:
        return durability_of(limits.durability) or self._default

    def _impact(self, change: str, effects: Sequence[DurabilityEffect], state: list[object]) -> Impact:
        """Topics whose durability becomes weaker are named first."""
        ordered = sorted(effects, key=lambda each: (not each.is_weaker, each.topic is None, each.name))
        topics = [each.topic for each in ordered if each.topic is not None]
        lines = [
            f"{each.name}: acknowledged {self._when(each.before)} now, and then {self._when(each.after)}."
            for each in ordered[:PLAN_NAMES_MAX]
        ]
        return Impact(
            changes=(change, *(lines or [NO_EFFECT]), *rest(len(ordered), "And {}.")),
            irreversible=self._losses([each for each in ordered if each.is_weaker]),
            topics=tuple(topic.name for topic in topics[:PLAN_NAMES_MAX]),
            topic_count=len(topics),
            fingerprint=fingerprint_of([*state, sorted(each.identity for each in effects)]),
        )

    def _losses(self, weaker: Sequence[DurabilityEffect]) -> tuple[str, ...]:
        if not weaker:
            return ()
        lines = [
            f"{each.name}: a power cut may take what was acknowledged {self._taken(each.after)}."
            for each in weaker[:PLAN_NAMES_MAX]
        ]
        return (*lines, *rest(len(weaker), "And as much of {}."), _ALWAYS)

    def _when(self, durability: Durability) -> str:
        match durability:
            case Durability.FSYNC:
                return "after the sync (fsync)"
            case Durability.INTERVAL:
                return f"after the write, synced within {self._interval_ms:,} ms (interval)"
            case Durability.OS:
                return "after the write, synced when the system likes (os)"

    def _taken(self, durability: Durability) -> str:
        if durability is Durability.INTERVAL:
            return f"in the last {self._interval_ms:,} ms"
        return "and the system had not written yet, often that of half a minute"
