"""Durability of topics, changed by a plan that says what a power cut may then lose."""

from collections.abc import Sequence

from danube.broker.control.plans.peers import Peers
from danube.broker.control.plans.policies import PlannedPolicy
from danube.broker.topics.local_topics import Topics
from danube.broker.topics.topic import ReliableTopic
from danube.metadata.records.catalog import Records
from danube.model.plans.durability import Durability, durability_of
from danube.model.plans.plan import Arguments, canonical
from danube.model.plans.policy_changes import DURABILITY_ARGUMENTS, durability_change
from danube.model.plans.policy_effects import PolicyEffect
from danube.model.policies import Limits, Policies, PolicyChange


class DurabilityControl(PlannedPolicy):
    """Durability of topics: the moment at which publishes are acknowledged."""

    name = "durability"
    words = "durability"
    arguments = DURABILITY_ARGUMENTS
    always = "What a power cut has taken never comes back, though its producers were told that it is stored."
    is_counted = False

    def __init__(
        self, topics: Topics, records: Records, peers: Peers, *, default: Durability, sync_interval_ms: int
    ) -> None:
        """`default` applies where no policy sets one; `sync_interval_ms` is the time between syncs with `interval`."""
        super().__init__(topics, records, peers)
        self._default = default
        self._interval_ms = sync_interval_ms

    def _change(self, arguments: Arguments) -> PolicyChange:
        return durability_change(arguments)

    def _values(self, policies: Policies) -> object:
        return policies.durability

    def _later(self, namespace: str, after: Policies) -> Sequence[PolicyEffect]:
        before, then = self._of(self._topics.limits_of(namespace)), durability_of(after.durability) or self._default
        return [self._changed(None, before, then)] if before is not then else []

    async def _effect(self, topic: ReliableTopic, after: Limits) -> PolicyEffect | None:
        before, then = self._of(topic.limits), self._of(after)
        return self._changed(topic, before, then) if before is not then else None

    def _changed(self, topic: ReliableTopic | None, before: Durability, after: Durability) -> PolicyEffect:
        """The effect on one topic; on those that are made later where it is None."""
        name = topic.name if topic is not None else "Topics that are made later"
        is_weaker = after.number > before.number
        return PolicyEffect(
            topic=name,
            change=f"{name}: acknowledged {self._when(before)} now, and then {self._when(after)}.",
            loss=f"{name}: a power cut may take what was acknowledged {self._taken(after)}." if is_weaker else "",
            lasts=is_weaker,
            is_later=topic is None,
            identity=canonical([topic.record.topic_id if topic is not None else -1, before.value, after.value]),
        )

    def _of(self, limits: Limits) -> Durability:
        return durability_of(limits.durability) or self._default

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
