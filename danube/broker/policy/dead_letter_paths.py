"""Where dead letters lead to: of topics whose subscriptions send them on, none may lead back to where it begins."""

from collections.abc import Callable

from danube.broker.topics.topic import AnyTopic
from danube.model.topic import TopicName

FindTopic = Callable[[str], AnyTopic | None]


def dead_letters_reach(find: FindTopic, start: TopicName) -> set[TopicName]:
    """Every topic that a message which is published to `start` may end up in, itself included."""
    found, left = {start}, [start]
    while left:
        for name in _dead_letter_topics(find(str(left.pop()))) - found:
            found.add(name)
            left.append(name)
    return found


def _dead_letter_topics(topic: AnyTopic | None) -> set[TopicName]:
    """Where the subscriptions of a topic send their dead letters, or will once they exist."""
    if topic is None:
        return set()
    policies = [subscription.record.failure_policy for subscription in topic.subscriptions.values()]
    policies += [pending.failure_policy for pending in topic.record.pending]
    return {policy.dead_letters_go_to for policy in policies if policy and policy.dead_letters_go_to is not None}
