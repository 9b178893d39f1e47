"""Planned operation: parsed arguments, the impact of this moment, and the act."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from danube.metadata.records.catalog import ExtraWrites
from danube.model.errors import InvalidRequestError
from danube.model.plans.plan import Arguments, Effect, Impact, Plan, describe_call
from danube.model.plans.policy_effects import PolicyEffect, PreviewPolicy
from danube.model.policies import SubscriptionName
from danube.model.subscription import check_member_name
from danube.model.text import count_text
from danube.model.topic import TopicName


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """One operation with its arguments."""

    impact: Callable[[], Awaitable[Impact]]
    """Impact at this moment; counters that are not named are 0. Raises what `act` would raise now."""
    act: Callable[[ExtraWrites], Awaitable[object]]
    """Carries it out, with the extra writes in the same transaction."""


@dataclass(frozen=True, slots=True)
class PlannedOperation:
    """An operation that acts by a plan."""

    effect: Effect
    parse: Callable[[Arguments], PlannedCall]
    """Raises InvalidRequestError for arguments that the operation does not have."""
    resume: Callable[[Plan], PlannedCall] | None = None
    """The call of a plan that is applied, where that does exactly what was planned and not what is best by now."""
    effects: Callable[[PreviewPolicy], Awaitable[Sequence[PolicyEffect]]] | None = None
    """Effects on topics of this broker, for the plan of another one."""


def destroying(*parsers: Callable[[Arguments], PlannedCall]) -> Mapping[str, PlannedOperation]:
    """Operations with the effect DESTROY, by the names of the functions that parse their arguments."""
    return {parse.__name__: PlannedOperation(Effect.DESTROY, parse) for parse in parsers}


def texts(operation: str, arguments: Arguments, *names: str) -> list[str]:
    """The values of an operation's parameters, all of them texts. Raises InvalidRequestError."""
    if arguments.keys() != set(names) or not all(isinstance(value, str) for value in arguments.values()):
        raise cannot_be_planned(operation, arguments, f"{' and '.join(names)}, as text")
    return [arguments[name] for name in names]


def subscription_of(operation: str, arguments: Arguments, *others: str) -> SubscriptionName:
    """The subscription of an operation that takes `others` besides. Raises InvalidRequestError."""
    topic, subscription = arguments.get("topic"), arguments.get("subscription")
    known = arguments.keys() == {"topic", "subscription", *others}
    if not known or not isinstance(topic, str) or not isinstance(subscription, str):
        raise cannot_be_planned(operation, arguments, f"topic, subscription and {', '.join(others)}")
    return SubscriptionName(topic=TopicName.parse(topic), subscription=check_member_name("subscription", subscription))


def cannot_be_planned(operation: str, arguments: Arguments, known: str) -> InvalidRequestError:
    """The error for arguments that an operation does not take."""
    call = describe_call(operation, arguments)[:200]
    return InvalidRequestError(f"{call} cannot be planned: {operation} takes {known}")


def if_any(count: int, sentence: str, noun: str) -> tuple[str, ...]:
    """A sentence with a counted noun; nothing for 0."""
    return (sentence.format(count_text(count, noun)),) if count else ()
