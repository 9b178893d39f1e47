"""Observations of a simulated cluster by its clients and its metadata, and the promises that hold at every moment."""

from collections import defaultdict
from dataclasses import dataclass, field

from danube.model.topic import TopicName


@dataclass(slots=True)
class Topic:
    """A topic, and what anybody was told of it."""

    name: TopicName
    is_reliable: bool
    topic_id: int = 0
    told: dict[int, str] = field(default_factory=dict)
    """By offset: texts that a producer was told are stored, and that a consumer was shown."""
    sent: set[str] = field(default_factory=set)
    in_order: list[int] = field(default_factory=list)
    """Offsets of a producer's messages, each sent after the one before was acknowledged."""


class History:
    """Events of a run, and the faults that the judges found in them."""

    def __init__(self) -> None:
        self.happened: list[str] = []
        self.faults: list[str] = []
        self.is_over = False
        """True once nothing counts any more."""
        self._owners: dict[tuple[int, int], int] = {}
        self._writers: dict[tuple[int, int], int] = {}
        self._positions: dict[int, dict[int, int]] = defaultdict(dict)
        """By topic and epoch: the highest position that is durable."""

    def wrong(self, what: str) -> None:
        if what not in self.faults and not self.is_over:
            self.faults.append(what)
            self.happened.append(f"WRONG: {what}")

    def owner_changed(self, topic_id: int, epoch: int, owner: int) -> None:
        """Metadata names this owner: each epoch has one."""
        if owner and epoch and self._owners.setdefault((topic_id, epoch), owner) != owner:
            self.wrong(f"topic {topic_id}: epoch {epoch} is of broker {self._owners[topic_id, epoch]} and of {owner}")
        self.happened.append(f"topic {topic_id} is broker {owner}'s, epoch {epoch}")

    def acknowledged(self, topic: Topic, epoch: int, broker: int, offset: int, text: str) -> None:
        """A producer was told that its message is stored."""
        if (other := self._writers.setdefault((topic.topic_id, epoch), broker)) != broker:
            self.wrong(f"{topic.name}: brokers {other} and {broker} acknowledge in epoch {epoch}")
        self.shown(topic, offset, text)

    def shown(self, topic: Topic, offset: int, text: str) -> None:
        """Somebody was told that this is at this offset."""
        before = topic.told.setdefault(offset, text)
        if before != text or text not in topic.sent:
            self.wrong(f"{topic.name}: {before} and {text} were both at offset {offset}")

    def position_saved(self, topic_id: int, epoch: int, position: int) -> None:
        """The position of the subscription is durable."""
        saved = self._positions[topic_id]
        saved[epoch] = max(saved.get(epoch, 0), position)

    def position_found(self, topic_id: int, epoch: int, position: int) -> None:
        """A broker that owns the topic in this epoch goes on here."""
        saved = max((at for each, at in self._positions[topic_id].items() if each <= epoch), default=0)
        if position < saved:
            self.wrong(f"topic {topic_id}: the position went back from {saved} to {position} in epoch {epoch}")
