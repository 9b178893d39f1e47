"""Policies that only a plan changes: the topics concerned, and the effect on each; and failure policies that drop.

The broker that serves a topic tells the effect on it, so that each broker makes the same plan of the whole cluster.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, replace
from typing import ClassVar

from danube.broker.control.plans.peers import Peers
from danube.broker.control.plans.planned import (
    PlannedCall,
    PlannedOperation,
    cannot_be_planned,
    destroying,
    subscription_of,
)
from danube.broker.control.policies import PolicyControl
from danube.broker.topics.local_topics import Topics
from danube.broker.topics.topic import ReliableTopic
from danube.metadata.records.catalog import ExtraWrites, Records, TopicRecord
from danube.model.errors import PreconditionFailedError
from danube.model.limits.broker import PLAN_NAMES_MAX
from danube.model.plans.plan import Arguments, Effect, Impact, fingerprint_of
from danube.model.plans.policy_changes import DROP_ARGUMENTS, drop_policy
from danube.model.plans.policy_effects import PolicyEffect, PreviewPolicy
from danube.model.policies import FailurePolicy, Limits, Policies, PolicyChange, SetFailurePolicy, SubscriptionName
from danube.model.records.audit import AUDIT_TOPIC
from danube.model.text import count_text
from danube.model.topic import DispatchStrategy, TopicName, check_name_part
from danube.wire.plan_messages import POLICY_EFFECTS, PREVIEW_POLICY

_NO_EFFECT = "It changes nothing for the topics that are there now."
_PREVIEW = "/danube.control.Partitions/PreviewPolicy"
_TOPICS_PER_TURN = 100


class PlannedPolicy(ABC):
    """One policy of the topics and namespaces of the cluster, the audit log excepted."""

    name: ClassVar[str]
    words: ClassVar[str]
    """The name in a sentence."""
    arguments: ClassVar[Sequence[str]]
    """Arguments of its operations, besides the topic or namespace; the last is `clear`."""
    always: ClassVar[str]
    """A sentence on what it takes later, without a further plan."""
    is_counted: ClassVar[bool] = True
    """True where its effects count messages."""

    def __init__(self, topics: Topics, records: Records, peers: Peers) -> None:
        self._topics = topics
        self._records = records
        self._peers = peers

    def operations(self) -> Mapping[str, PlannedOperation]:
        """The operations for a topic and for a namespace, by their names."""
        calls = {f"set_topic_{self.name}": self._topic_call, f"set_namespace_{self.name}": self._namespace_call}
        return {
            name: PlannedOperation(Effect.DESTROY, parse, effects=self.effects_here) for name, parse in calls.items()
        }

    def _topic_call(self, arguments: Arguments) -> PlannedCall:
        name = TopicName.parse(self._parameter(arguments, "topic"))
        change = self._change(arguments)

        async def impact() -> Impact:
            found = self._reliable(name)
            own = [self._values(record.policies) for record in found]
            effects = await self._effects(f"set_topic_{self.name}", arguments, found)
            return self._impact(f"Set the {self.words} of topic {name}.", effects, [str(name), own])

        return PlannedCall(impact, lambda extra_writes: self.set_topic(name, change, extra_writes))

    def _namespace_call(self, arguments: Arguments) -> PlannedCall:
        name = check_name_part("namespace", self._parameter(arguments, "namespace"))
        change = self._change(arguments)

        async def impact() -> Impact:
            self._refuse_system(name)
            own = (await self._records.namespace(name)).policies
            found = self._topics.in_namespace(name)
            effects = await self._effects(f"set_namespace_{self.name}", arguments, found)
            later = self._later(name, change.applied_to(own))
            said = f"Set the {self.words} of namespace {name}, for topics that are made later, too."
            return self._impact(said, [*effects, *later], [name, self._values(own)])

        return PlannedCall(impact, lambda extra_writes: self.set_namespace(name, change, extra_writes))

    async def set_topic(self, name: TopicName, change: PolicyChange, extra_writes: ExtraWrites) -> None:
        """Change it for a topic, or for all partitions of a base name, with extra writes in the same transaction.

        Raises TopicNotFoundError, what the extra writes raise, and PreconditionFailedError for the audit log and for a
        non-reliable topic.
        """
        self._reliable(name)
        await self._topics.change_topic_policies(name, change, extra_writes=extra_writes)

    async def set_namespace(self, name: str, change: PolicyChange, extra_writes: ExtraWrites) -> None:
        """Change it for a namespace. Raises NamespaceNotFoundError, and PreconditionFailedError for `system`."""
        self._refuse_system(name)
        await self._topics.change_namespace_policies(name, change, extra_writes=extra_writes)

    async def effects_here(self, wanted: PreviewPolicy) -> list[PolicyEffect]:
        """Effects on topics of this broker. Raises InvalidRequestError, and TopicNotServedError for any other."""
        after = await self._limits_after(wanted)
        found = []
        for number, name in enumerate(wanted.topics):
            if number % _TOPICS_PER_TURN == 0:
                await asyncio.sleep(0)  # a namespace may have very many of them, and others are served meanwhile
            topic = self._topics.get(name)
            effect = await self._effect(topic, after(topic)) if isinstance(topic, ReliableTopic) else None
            if effect is not None:
                found.append(effect)
        return found

    @abstractmethod
    def _change(self, arguments: Arguments) -> PolicyChange:
        """The change that the arguments ask for. Raises InvalidRequestError."""

    @abstractmethod
    def _values(self, policies: Policies) -> object:
        """The values of this policy, as JSON values."""

    @abstractmethod
    async def _effect(self, topic: ReliableTopic, after: Limits) -> PolicyEffect | None:
        """Effect of these limits on a topic; None if nothing changes for it."""

    def _later(self, namespace: str, after: Policies) -> Sequence[PolicyEffect]:  # noqa: ARG002
        """Effect on topics that are made later in a namespace with these policies, where that is shown."""
        return ()

    async def _limits_after(self, wanted: PreviewPolicy) -> Callable[[ReliableTopic], Limits]:
        """Limits of a topic once the change is made."""
        change, namespace = self._change(wanted.arguments), wanted.arguments.get("namespace")
        if namespace is None:
            return lambda topic: self._topics.limits_with(topic, own=change.applied_to(topic.record.policies))
        of_namespace = change.applied_to((await self._records.namespace(str(namespace))).policies)
        return lambda topic: self._topics.limits_with(topic, of_namespace=of_namespace)

    async def _effects(
        self, operation: str, arguments: Arguments, records: Sequence[TopicRecord]
    ) -> list[PolicyEffect]:
        """Effects on topics, whichever brokers serve them. Raises TopicNotServedError while none serves one of them."""
        names = [record.name for record in records if record.strategy is DispatchStrategy.RELIABLE]
        here = tuple(name for name in names if self._topics.find(str(name)) is not None)
        wanted = PreviewPolicy(operation=operation, arguments=arguments, topics=here)
        elsewhere = sorted(set(names).difference(here))
        remote = await self._peers.ask_servers(
            elsewhere, _PREVIEW, PREVIEW_POLICY, lambda part: replace(wanted, topics=tuple(part)), POLICY_EFFECTS
        )
        return [*await self.effects_here(wanted), *remote]

    def _impact(self, change: str, effects: Sequence[PolicyEffect], state: list[object]) -> Impact:
        """Impact of a change; `state` must not change either until the plan is applied. What loses most is first."""
        ordered = sorted(effects, key=lambda each: (-each.messages, not each.loss, each.is_later, each.topic))
        losing = [each for each in ordered if each.loss]
        topics = [each.topic for each in ordered if not each.is_later]
        readers = [f"{each.topic} {name}" for each in losing for name in each.readers]
        lines = [each.change for each in ordered[:PLAN_NAMES_MAX]]
        unnamed = sum(each.messages for each in losing[PLAN_NAMES_MAX:])
        as_well = f"{count_text(unnamed, 'message')} of {{}} go as well." if unnamed else "And as much of {}."
        return Impact(
            changes=(change, *(lines or [_NO_EFFECT]), *_rest(len(ordered), "And {}.")),
            irreversible=(
                *(each.loss for each in losing[:PLAN_NAMES_MAX]),
                *_rest(len(losing), as_well),
                *((self.always,) if any(each.lasts for each in effects) else ()),
            ),
            topics=tuple(topics[:PLAN_NAMES_MAX]),
            topic_count=len(topics),
            subscriptions=tuple(readers[:PLAN_NAMES_MAX]),
            subscription_count=len(readers),
            messages=sum(each.messages for each in effects) if self.is_counted else None,
            bytes=sum(each.bytes for each in effects) if self.is_counted else None,
            fingerprint=fingerprint_of([*state, sorted(each.identity for each in effects)]),
        )

    def _reliable(self, name: TopicName) -> list[TopicRecord]:
        """A topic, or the partitions of a base name. Raises as `set_topic`."""
        found = [record for record in self._topics.records_behind(name) if record.strategy is DispatchStrategy.RELIABLE]
        if not found:
            raise PreconditionFailedError(f"{name} is not reliable: it keeps no messages, and has no {self.words}")
        if name.is_of(AUDIT_TOPIC):
            raise PreconditionFailedError(
                f"{name} is the audit log, which stays as it is: it has no {self.words} to set"
            )
        return found

    def _refuse_system(self, namespace: str) -> None:
        if namespace == AUDIT_TOPIC.namespace:
            raise PreconditionFailedError(
                f"namespace {namespace!r} has the audit log, which stays: set the {self.words} of another topic in it"
            )

    def _parameter(self, arguments: Arguments, whose: str) -> str:
        name = arguments.get(whose)
        if not isinstance(name, str) or not arguments.keys() <= {whose, *self.arguments}:
            known = ", ".join(self.arguments[:-1])
            raise cannot_be_planned(f"set_{whose}_{self.name}", arguments, f"{whose}, {known} and clear")
        return name


def _rest(count: int, sentence: str) -> list[str]:
    """A sentence on the topics that are not named because they are too many; nothing if all are named."""
    left = count - PLAN_NAMES_MAX
    return [sentence.format(count_text(left, "more topic"))] if left > 0 else []


def drop_policies(policies: PolicyControl) -> Mapping[str, PlannedOperation]:
    """The operation that sets a failure policy which drops, by its name. It takes DROP_ARGUMENTS besides the names."""

    def set_subscription_drop_policy(arguments: Arguments) -> PlannedCall:
        name = subscription_of("set_subscription_drop_policy", arguments, *DROP_ARGUMENTS)
        policy = drop_policy(arguments)

        async def impact() -> Impact:
            return _dropping(name, policy, *policies.dropping(name))

        wanted = SetFailurePolicy(name=name, policy=policy)
        return PlannedCall(impact, lambda extra_writes: policies.set_failure_policy(wanted, extra_writes=extra_writes))

    return destroying(set_subscription_drop_policy)


def _dropping(
    name: SubscriptionName, policy: FailurePolicy, topic_id: int, before: FailurePolicy | None, blocked: int
) -> Impact:
    now = "the broker's defaults hold" if before is None else f"it is {before.poison.name.lower()}"
    often = count_text(policy.max_redelivery_count, "time")
    return Impact(
        changes=(f"Set the failure policy of {name.subscription!r} of {name.topic} to drop; {now} now.",),
        irreversible=(
            f"A message that fails after it was sent again {often} is passed over for good, and kept nowhere else.",
            *((f"{count_text(blocked, 'message')} that block now may be dropped.",) if blocked else ()),
        ),
        topics=(str(name.topic),),
        topic_count=1,
        subscriptions=(f"{name.topic} {name.subscription}",),
        subscription_count=1,
        fingerprint=fingerprint_of([topic_id, None if before is None else [str(one) for one in astuple(before)]]),
    )
