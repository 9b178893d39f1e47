"""Policies of reliable topics that only a plan changes: the topics concerned, and the effect on each."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, Generic, TypeVar

from danube.broker.control.plans.planned import PlannedCall, PlannedOperation, cannot_be_planned
from danube.broker.topics.local_topics import Topics
from danube.broker.topics.topic import ReliableTopic
from danube.metadata.records.catalog import ExtraWrites, Records
from danube.model.errors import PreconditionFailedError
from danube.model.limits.broker import PLAN_NAMES_MAX
from danube.model.plans.plan import Arguments, Effect, Impact
from danube.model.policies import Limits, Policies, PolicyChange
from danube.model.records.audit import AUDIT_TOPIC
from danube.model.text import count_text
from danube.model.topic import TopicName, check_name_part

E = TypeVar("E")
"""Effect of a change on one topic, at this moment."""

NO_EFFECT = "It changes nothing for the topics that are there now."
_TOPICS_PER_TURN = 100


class PlannedPolicy(ABC, Generic[E]):
    """One policy of the topics and namespaces of this broker, the audit log excepted."""

    name: ClassVar[str]
    arguments: ClassVar[Sequence[str]]
    """Arguments of its operations, besides the topic or namespace; the last is `clear`."""

    def __init__(self, topics: Topics, records: Records) -> None:
        self._topics = topics
        self._records = records

    def operations(self) -> Mapping[str, PlannedOperation]:
        """The operations for a topic and for a namespace, by their names."""
        calls = {f"set_topic_{self.name}": self._topic_call, f"set_namespace_{self.name}": self._namespace_call}
        return {name: PlannedOperation(Effect.DESTROY, parse) for name, parse in calls.items()}

    def _topic_call(self, arguments: Arguments) -> PlannedCall:
        name = TopicName.parse(self._parameter(arguments, "topic"))
        change = self._change(arguments)

        async def impact() -> Impact:
            found = self._reliable(name)
            own = [self._values(topic.record.policies) for topic in found]
            effects = await self._effects(
                (topic, self._topics.limits_with(topic, own=change.applied_to(topic.record.policies)))
                for topic in found
            )
            return self._impact(f"Set the {self.name} of topic {name}.", effects, [str(name), own])

        return PlannedCall(impact, lambda extra_writes: self.set_topic(name, change, extra_writes))

    def _namespace_call(self, arguments: Arguments) -> PlannedCall:
        name = check_name_part("namespace", self._parameter(arguments, "namespace"))
        change = self._change(arguments)

        async def impact() -> Impact:
            self._refuse_system(name)
            own = (await self._records.namespace(name)).policies
            effects = await self._namespace_effects(name, change.applied_to(own))
            said = f"Set the {self.name} of namespace {name}, for topics that are made later, too."
            return self._impact(said, effects, [name, self._values(own)])

        return PlannedCall(impact, lambda extra_writes: self.set_namespace(name, change, extra_writes))

    async def set_topic(self, name: TopicName, change: PolicyChange, extra_writes: ExtraWrites) -> None:
        """Change it for a topic, or for all partitions of a base name, with extra writes in the same transaction.

        Raises TopicNotFoundError, TopicNotServedError, what the extra writes raise, and PreconditionFailedError for the
        audit log and for a non-reliable topic.
        """
        self._reliable(name)
        await self._topics.change_topic_policies(name, change, extra_writes=extra_writes)

    async def set_namespace(self, name: str, change: PolicyChange, extra_writes: ExtraWrites) -> None:
        """Change it for a namespace. Raises NamespaceNotFoundError, and PreconditionFailedError for `system`."""
        self._refuse_system(name)
        await self._topics.change_namespace_policies(name, change, extra_writes=extra_writes)

    @abstractmethod
    def _change(self, arguments: Arguments) -> PolicyChange:
        """The change that the arguments ask for. Raises InvalidRequestError."""

    @abstractmethod
    def _values(self, policies: Policies) -> object:
        """The values of this policy, as JSON values."""

    @abstractmethod
    def _effect(self, topic: ReliableTopic, after: Limits) -> E | None:
        """Effect of these limits on a topic; None if nothing changes for it."""

    @abstractmethod
    def _impact(self, change: str, effects: Sequence[E], state: list[object]) -> Impact:
        """Impact of a change, described by a sentence; `state` must not change either until the plan is applied."""

    async def _namespace_effects(self, namespace: str, after: Policies) -> list[E]:
        """Raises TopicNotServedError when one of its topics is not served here."""
        found = [topic for topic in self._topics.in_namespace(namespace) if isinstance(topic, ReliableTopic)]
        return await self._effects((topic, self._topics.limits_with(topic, of_namespace=after)) for topic in found)

    async def _effects(self, wanted: Iterable[tuple[ReliableTopic, Limits]]) -> list[E]:
        found = []
        for number, (topic, after) in enumerate(wanted):
            if number % _TOPICS_PER_TURN == 0:
                await asyncio.sleep(0)  # a namespace may have very many of them, and others are served meanwhile
            effect = self._effect(topic, after)
            if effect is not None:
                found.append(effect)
        return found

    def _reliable(self, name: TopicName) -> list[ReliableTopic]:
        """A topic, or the partitions of a base name. Raises as `set_topic`."""
        found = [topic for topic in self._topics.behind(name) if isinstance(topic, ReliableTopic)]
        if not found:
            raise PreconditionFailedError(f"{name} is not reliable: it keeps no messages, and has no {self.name}")
        if name.is_of(AUDIT_TOPIC):
            raise PreconditionFailedError(
                f"{name} is the audit log, which stays as it is: it has no {self.name} to set"
            )
        return found

    def _refuse_system(self, namespace: str) -> None:
        if namespace == AUDIT_TOPIC.namespace:
            raise PreconditionFailedError(
                f"namespace {namespace!r} has the audit log, which stays: set the {self.name} of another topic in it"
            )

    def _parameter(self, arguments: Arguments, whose: str) -> str:
        name = arguments.get(whose)
        if not isinstance(name, str) or not arguments.keys() <= {whose, *self.arguments}:
            known = ", ".join(self.arguments[:-1])
            raise cannot_be_planned(f"set_{whose}_{self.name}", arguments, f"{whose}, {known} and clear")
        return name


def rest(count: int, sentence: str) -> list[str]:
    """A sentence on the topics that are not named because they are too many; nothing if all are named."""
    left = count - PLAN_NAMES_MAX
    return [sentence.format(count_text(left, "more topic"))] if left > 0 else []
