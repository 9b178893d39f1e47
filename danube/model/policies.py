"""Rules that administrators set: what a subscription does with messages that fail, what a topic or namespace allows.

Times are milliseconds here, as on the wire of the original, so that what was set is what is read back.
"""

from dataclasses import dataclass, fields, replace
from enum import IntEnum
from functools import lru_cache

from danube.model.errors import InvalidRequestError
from danube.model.limits.broker import (
    ACK_TIMEOUT_S,
    MESSAGE_BYTES_MAX,
    MESSAGE_TTL_S_MAX,
    POLICY_DELAY_MS_MAX,
    POLICY_NUMBER_MAX,
    POLICY_SETS_CACHE_MAX,
    REDELIVERIES_DEFAULT,
    REDELIVERIES_MAX,
    REDELIVERY_DELAY_BASE_S,
    REDELIVERY_DELAY_MAX_S,
    RETENTION_BYTES_MAX,
    RETENTION_TIME_S_MAX,
    UNACKED_MESSAGES_MAX,
)
from danube.model.plans.durability import Durability
from danube.model.topic import TopicName


class BackoffStrategy(IntEnum):
    """Growth of the delay from one redelivery to the next; the numbers are those on the wire."""

    FIXED = 0
    EXPONENTIAL = 1


class PoisonPolicy(IntEnum):
    """End of a message whose deliveries are exhausted; the numbers are those on the wire."""

    DEAD_LETTER = 0
    """It goes to another topic, and then counts as acknowledged."""
    BLOCK = 1
    """It stays, and nothing new is sent until somebody decides."""
    DROP = 2
    """It counts as acknowledged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailurePolicy:
    """Failure policy of a subscription of a reliable topic. Raises InvalidRequestError."""

    max_redelivery_count: int = REDELIVERIES_DEFAULT
    """Times that a message is sent again after the first time."""
    ack_timeout_ms: int = round(ACK_TIMEOUT_S * 1_000)
    base_redelivery_delay_ms: int = round(REDELIVERY_DELAY_BASE_S * 1_000)
    max_redelivery_delay_ms: int = round(REDELIVERY_DELAY_MAX_S * 1_000)
    """Caps every delay, one that the consumer asked for included."""
    backoff: BackoffStrategy = BackoffStrategy.EXPONENTIAL
    dead_letter_topic: TopicName | None = None
    poison: PoisonPolicy = PoisonPolicy.BLOCK

    def __post_init__(self) -> None:
        _require("max_redelivery_count", self.max_redelivery_count, 0, REDELIVERIES_MAX)
        _require("ack_timeout_ms", self.ack_timeout_ms, 1, POLICY_DELAY_MS_MAX)
        _require("base_redelivery_delay_ms", self.base_redelivery_delay_ms, 0, POLICY_DELAY_MS_MAX)
        _require("max_redelivery_delay_ms", self.max_redelivery_delay_ms, 0, POLICY_DELAY_MS_MAX)
        if self.base_redelivery_delay_ms > self.max_redelivery_delay_ms:
            raise InvalidRequestError(
                f"base_redelivery_delay_ms {self.base_redelivery_delay_ms} is above max_redelivery_delay_ms "
                f"{self.max_redelivery_delay_ms}: raise the second or lower the first"
            )
        if self.poison is PoisonPolicy.DEAD_LETTER and self.dead_letter_topic is None:
            raise InvalidRequestError("poison policy dead_letter needs dead_letter_topic: name a topic, or use block")

    @property
    def dead_letters_go_to(self) -> TopicName | None:
        """Topic of messages that failed too often; None unless the policy is dead_letter."""
        return self.dead_letter_topic if self.poison is PoisonPolicy.DEAD_LETTER else None


@dataclass(frozen=True, slots=True)
class PendingPolicies:
    """Policies of a subscription that does not exist yet; it takes them over when it is created."""

    subscription: str
    failure_policy: FailurePolicy | None = None
    window: int | None = None

    @property
    def is_empty(self) -> bool:
        """True while nothing is set."""
        return self.failure_policy is None and self.window is None


def check_window(messages: int) -> int:
    """Answer how many messages one consumer may hold unacknowledged. Raises InvalidRequestError."""
    return _require("max_unacked_messages", messages, 1, UNACKED_MESSAGES_MAX)


_MOST = {
    "message_ttl_s": MESSAGE_TTL_S_MAX,
    "retention_time_s": RETENTION_TIME_S_MAX,
    "retention_bytes": RETENTION_BYTES_MAX,
    "retention_drops_unread": 1,
    "durability": max(each.number for each in Durability),
}
"""Upper bounds below POLICY_NUMBER_MAX."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policies:
    """Limits of a topic, or of each topic of a namespace: None is not set, 0 is no limit. Raises InvalidRequestError.

    What a topic does not set its namespace may, and what neither sets the broker's settings do.
    """

    max_producers_per_topic: int | None = None
    max_subscriptions_per_topic: int | None = None
    max_consumers_per_topic: int | None = None
    max_consumers_per_subscription: int | None = None
    max_publish_rate: int | None = None
    """Messages a second."""
    max_publish_rate_bytes: int | None = None
    """Bytes a second."""
    max_subscription_dispatch_rate: int | None = None
    """Messages a second that one subscription sends, redeliveries included."""
    max_message_size: int | None = None
    """Bytes of the payload; whatever is set, no message is larger than clients can receive."""
    message_ttl_s: int | None = None
    """Seconds after which a message that a subscription has not acknowledged is passed over, at the next sweep."""
    retention_time_s: int | None = None
    """Seconds for which stored messages are kept; older ones are deleted, whole segments at a time."""
    retention_bytes: int | None = None
    """Bytes of a topic above which its oldest messages are deleted, whole segments at a time."""
    retention_drops_unread: int | None = None
    """1: retention deletes what a subscription has not acknowledged, too. 0: that stays, whatever the limits say."""
    durability: int | None = None
    """When a publish is acknowledged: the number of a `Durability`."""

    def __post_init__(self) -> None:
        for name, value in self.given().items():
            _require(name, value, 0, _MOST.get(name, POLICY_NUMBER_MAX))

    def given(self) -> dict[str, int]:
        """The limits that are set, by name."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if value is not None}

    def over(self, below: "Policies") -> "Policies":
        """These, and where one is not set, that of `below`."""
        return replace(below, **self.given())


NO_POLICIES = Policies()
"""Nothing is set."""

POLICY_NAMES = tuple(field.name for field in fields(Policies))

RETENTION_NAMES = ("retention_time_s", "retention_bytes", "retention_drops_unread")
"""Limits that delete messages for good: they change by a plan alone."""

DURABILITY_NAME = "durability"
"""The meaning of an acknowledgement: it changes by a plan alone."""

MESSAGE_TTL_NAME = "message_ttl_s"
"""Passes over messages for good: it changes by a plan alone."""

PLANNED_NAMES = (*RETENTION_NAMES, MESSAGE_TTL_NAME, DURABILITY_NAME)
"""Limits that change by a plan alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Effective limits of one topic; 0 is no limit."""

    max_producers_per_topic: int = 0
    max_subscriptions_per_topic: int = 0
    max_consumers_per_topic: int = 0
    max_consumers_per_subscription: int = 0
    max_publish_rate: int = 0
    max_publish_rate_bytes: int = 0
    max_subscription_dispatch_rate: int = 0
    max_message_size: int = 0
    message_ttl_s: int = 0
    retention_time_s: int = 0
    retention_bytes: int = 0
    retention_drops_unread: int = 0
    """1 or 0, which is no."""
    durability: int | None = None
    """The number of a `Durability`; None where nobody has said it, or the broker does not tell."""

    @property
    def message_bytes_max(self) -> int:
        """The largest payload that is taken."""
        return min(self.max_message_size or MESSAGE_BYTES_MAX, MESSAGE_BYTES_MAX)


NO_LIMITS = Limits()


@lru_cache(POLICY_SETS_CACHE_MAX)
def limits_of(*policies: Policies) -> Limits:
    """Effective limits: the first of these policies that sets one wins. Topics with equal policies share the answer."""
    merged = NO_POLICIES
    for each in policies:
        merged = merged.over(each)
    return Limits(**merged.given())


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyChange:
    """Set some limits and unset others; what is not named stays. Raises InvalidRequestError."""

    given: Policies = NO_POLICIES
    unset: frozenset[str] = frozenset()
    """Names of limits that are inherited again."""

    def __post_init__(self) -> None:
        unknown = self.unset - set(POLICY_NAMES)
        if unknown:
            raise InvalidRequestError(f"{min(unknown)[:60]!r} is no policy: use one of {', '.join(POLICY_NAMES)}")
        both = self.unset & self.given.given().keys()
        if both:
            raise InvalidRequestError(f"{min(both)} cannot be set and unset at once: do one of them")

    @property
    def names(self) -> frozenset[str]:
        """The limits that are set or unset."""
        return self.unset | self.given.given().keys()

    def applied_to(self, policies: Policies) -> Policies:
        """The policies after the change."""
        left = {name: value for name, value in policies.given().items() if name not in self.unset}
        return self.given.over(Policies(**left))


@dataclass(frozen=True, slots=True, kw_only=True)
class PoliciesView:
    """Limits as they were set at one place, and as they hold there."""

    own: Policies
    holding: Limits


# Calls of administrators


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionName:
    """One subscription of one topic."""

    topic: TopicName
    subscription: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SetFailurePolicy:
    """Replace the failure policy of a subscription."""

    name: SubscriptionName
    policy: FailurePolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class SetDispatchWindow:
    """Replace how many messages a consumer of a subscription may hold unacknowledged."""

    name: SubscriptionName
    window: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SetNamespacePolicies:
    """Change the limits of a namespace, but those that take a plan. Raises InvalidRequestError."""

    namespace: str
    change: PolicyChange

    def __post_init__(self) -> None:
        _refuse_planned(self.change, "namespace")


@dataclass(frozen=True, slots=True, kw_only=True)
class SetTopicPolicies:
    """Change the limits of a topic, but those that take a plan; of a base name, of all its partitions.

    Raises InvalidRequestError.
    """

    topic: TopicName
    change: PolicyChange

    def __post_init__(self) -> None:
        _refuse_planned(self.change, "topic")


def _refuse_planned(change: PolicyChange, of_what: str) -> None:
    found = [name for name in PLANNED_NAMES if name in change.names]
    if not found:
        return
    rule, does = {
        DURABILITY_NAME: ("durability", "says what an acknowledgement means"),
        MESSAGE_TTL_NAME: ("message_ttl", "passes over unread messages"),
    }.get(found[0], ("retention", "deletes messages for good"))
    raise InvalidRequestError(
        f"{found[0]} {does} and is changed by a plan: plan set_{of_what}_{rule}, look at the plan, and apply it"
    )


def _require(name: str, value: int, least: int, most: int) -> int:
    if not least <= value <= most:
        raise InvalidRequestError(f"{name} {value} cannot be: use {least} to {most}")
    return value
