"""Changing how topics keep their messages by a plan: what is the same whichever rule it is."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic

from danube.broker.control.plans.kept_rules import E, KeptTopics
from danube.metadata.records.catalog import ExtraWrites
from danube.model.errors import InvalidRequestError
from danube.model.limits.broker import PLAN_NAMES_MAX
from danube.model.plans.plan import Arguments, Impact, describe_call
from danube.model.policies import Policies, PolicyChange
from danube.model.text import count_text
from danube.model.topic import TopicName, check_name_part


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptRule(Generic[E]):
    """A rule, and how a change of it is told."""

    control: KeptTopics[E]
    arguments: Sequence[str]
    """Those of its operations, besides whose rule it is; the last is `clear`."""
    change: Callable[[Mapping[str, Any]], PolicyChange]
    """What the arguments mean. Raises InvalidRequestError."""
    values: Callable[[Policies], object]
    """What of policies is the rule."""
    impact: Callable[[str, Sequence[E], list[object]], Impact]
    """Of a change, told in a sentence, with what besides the topics must not change until the plan is applied."""


@dataclass(frozen=True, slots=True)
class TopicCall(Generic[E]):
    """Change the rule of a topic, or of all partitions of a base name."""

    rule: KeptRule[E]
    name: TopicName
    change: PolicyChange

    async def impact(self) -> Impact:
        control = self.rule.control
        own = [self.rule.values(each) for each in control.own_policies(self.name)]
        effects = await control.topic_effects(self.name, self.change)
        return self.rule.impact(f"Set the {control.rule} of topic {self.name}.", effects, [str(self.name), own])

    async def act(self, extra_writes: ExtraWrites) -> None:
        await self.rule.control.set_topic(self.name, self.change, extra_writes)


@dataclass(frozen=True, slots=True)
class NamespaceCall(Generic[E]):
    """Change the rule of the topics of a namespace that do not set their own."""

    rule: KeptRule[E]
    namespace: str
    change: PolicyChange

    async def impact(self) -> Impact:
        control = self.rule.control
        own = self.rule.values(await control.namespace_policies(self.namespace))
        effects = await control.namespace_effects(self.namespace, self.change)
        change = f"Set the {control.rule} of namespace {self.namespace}, for topics that are made later, too."
        return self.rule.impact(change, effects, [self.namespace, own])

    async def act(self, extra_writes: ExtraWrites) -> None:
        await self.rule.control.set_namespace(self.namespace, self.change, extra_writes)


def parse_topic_call(rule: KeptRule[E], arguments: Arguments) -> TopicCall[E]:
    """The call that the arguments for a topic mean. Raises InvalidRequestError, InvalidNameError."""
    name = TopicName.parse(_named(rule, arguments, "topic"))
    return TopicCall(rule, name, rule.change(arguments))


def parse_namespace_call(rule: KeptRule[E], arguments: Arguments) -> NamespaceCall[E]:
    """The same for a namespace."""
    name = check_name_part("namespace", _named(rule, arguments, "namespace"))
    return NamespaceCall(rule, name, rule.change(arguments))


def _named(rule: KeptRule[E], arguments: Arguments, whose: str) -> str:
    name = arguments.get(whose)
    if not isinstance(name, str) or not arguments.keys() <= {whose, *rule.arguments}:
        operation = f"set_{whose}_{rule.control.rule}"
        call, known = describe_call(operation, arguments)[:200], ", ".join(rule.arguments[:-1])
        raise InvalidRequestError(f"{call} cannot be planned: {operation} takes {whose}, {known} and clear")
    return name


def rest(count: int, sentence: str) -> list[str]:
    """A sentence on the topics that are too many to be named, if there are such."""
    left = count - PLAN_NAMES_MAX
    return [sentence.format(count_text(left, "more topic"))] if left > 0 else []
