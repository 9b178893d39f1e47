"""How the log calls a topic: by its name, where that is known, and by its id, after which its files are named."""

from collections.abc import Mapping

from danube.model.topic import TopicName

TopicNames = Mapping[int, TopicName]
"""By topic id, as far as somebody has said them."""


def called(topic_id: int, names: TopicNames) -> str:
    """What stands in a sentence: `topic /default/orders (id 4)`, or `topic 4`."""
    name = names.get(topic_id)
    return f"topic {topic_id}" if name is None else f"topic {name} (id {topic_id})"
