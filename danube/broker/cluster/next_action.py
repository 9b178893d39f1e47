"""Next action of one broker for one topic: the difference between metadata and what it serves. Pure."""

from collections.abc import Container
from enum import Enum

from danube.model.ownership import NOBODY, StorageMode, TopicOwnership


class Action(Enum):
    """An action of a broker for one topic."""

    NOTHING = "nothing"
    OPEN = "open"
    """Own it, and serve it: nobody has it, or its owner is dead and its log can be read."""
    RESUME = "resume"
    """Serve what this broker owns already."""
    RELEASE = "release"
    """Stop, flush cursors, and release it."""
    COPY = "copy the log of"
    """Copy its log from its owner, which serves it until the last step."""
    CLOSE = "close"
    """Serve it no more: it is another broker's."""


def next_action(
    topic: TopicOwnership, *, own_id: int, is_served: bool, running: Container[int], mode: StorageMode
) -> Action:
    """The action for a topic. `running` are all brokers with a lease."""
    if topic.owner == own_id:
        leaves = topic.broker != own_id and not topic.stays_with_disk(mode) and not topic.is_pinned
        if leaves:
            return Action.RELEASE
        return Action.NOTHING if is_served else Action.RESUME
    if is_served:
        return Action.CLOSE
    if topic.broker != own_id:
        return Action.NOTHING
    if topic.stays_with_disk(mode):
        return Action.COPY if topic.owner in running else Action.NOTHING
    is_free = topic.owner == NOBODY or topic.owner not in running
    return Action.OPEN if is_free else Action.NOTHING
