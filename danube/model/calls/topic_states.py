"""Answer to the question which topics of a cluster are not simply served."""

from dataclasses import dataclass

from danube.model.ownership import OwnershipState
from danube.model.topic import TopicName


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedTopicState:
    """State of a topic that is not simply served."""

    topic: TopicName
    state: OwnershipState


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicStatesList:
    """Topics of a cluster that nobody serves, or that move; all others are served."""

    topics: tuple[NamedTopicState, ...] = ()
    """Sorted by name, at most STATES_LISTED_MAX; `topic_count` says how many there are."""
    topic_count: int = 0
    plain_topics: tuple[TopicName, ...] = ()
    """That are no partitions, though their names have the form; sorted."""
