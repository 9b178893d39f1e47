"""When publishes of topics are acknowledged: what a change would mean, and making it."""

from dataclasses import dataclass

from danube.broker.control.plans.kept_rules import KeptTopics
from danube.broker.topics.local_topics import Topics
from danube.broker.topics.topic import ReliableTopic
from danube.metadata.records.catalog import Records
from danube.model.plans.durability import Durability, durability_of
from danube.model.policies import Limits, PolicyChange


@dataclass(frozen=True, slots=True)
class DurabilityEffect:
    """What a change means for one topic; without a topic, for those that are made later in a namespace."""

    topic: ReliableTopic | None
    before: Durability
    after: Durability

    @property
    def is_weaker(self) -> bool:
        """Whether a power cut may take more than before."""
        return self.after.number > self.before.number


class DurabilityControl(KeptTopics[DurabilityEffect]):
    """What administrators do, by a plan alone, with the durability of this broker's topics."""

    def __init__(self, topics: Topics, records: Records, *, default: Durability, sync_interval_ms: int) -> None:
        """`default` is the broker's, where no policy says anything."""
        super().__init__(topics, records, "durability")
        self._default = default
        self.sync_interval_ms = sync_interval_ms
        """Between syncs with durability `interval`."""

    async def namespace_effects(self, namespace: str, change: PolicyChange) -> list[DurabilityEffect]:
        """As of all rules; the last one is of topics to come."""
        effects = await super().namespace_effects(namespace, change)
        after = change.applied_to(await self.namespace_policies(namespace))
        before = self._of(self._topics.limits_of(namespace))
        to_come = DurabilityEffect(None, before, durability_of(after.durability) or self._default)
        return effects if to_come.before is to_come.after else [*effects, to_come]

    def _effect(self, topic: ReliableTopic, after: Limits) -> DurabilityEffect | None:
        effect = DurabilityEffect(topic, self._of(topic.limits), self._of(after))
        return effect if effect.before is not effect.after else None

    def _of(self, limits: Limits) -> Durability:
        return durability_of(limits.durability) or self._default
