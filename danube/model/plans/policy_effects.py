"""Effects of a policy that only a plan changes, as the brokers that serve the topics tell them."""

from dataclasses import dataclass

from danube.model.plans.plan import Arguments
from danube.model.topic import TopicName


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviewPolicy:
    """Ask a broker for the effects of a planned operation on topics that it serves."""

    operation: str
    arguments: Arguments
    topics: tuple[TopicName, ...]
    """At most DESCRIBE_NAMES_MAX."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyEffect:
    """Effect of a changed policy on one topic, at this moment."""

    topic: str
    """The name; of topics that are made later, what they are called in a sentence."""
    change: str
    """A sentence: before and after."""
    loss: str = ""
    """A sentence on what is irreversible; empty for nothing."""
    messages: int = 0
    """That are deleted, or passed over."""
    bytes: int = 0
    readers: tuple[str, ...] = ()
    """Subscriptions that lose some of them."""
    lasts: bool = False
    """True if what it takes later, without a further plan, never comes back either."""
    is_later: bool = False
    """True for the effect on topics that are made later."""
    identity: str
    """JSON that changes when the topic is created again, its policy changes, or others lose messages."""
