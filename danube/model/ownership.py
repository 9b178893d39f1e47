"""Ownership of topics: the broker that serves each, the one that it is assigned to, and its state. Pure."""

from collections import Counter, defaultdict
from collections.abc import Container, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import StrEnum

from danube.model.topic import TopicName

NOBODY = 0
"""As an owner: none."""


class StorageMode(StrEnum):
    """Place where the brokers of a cluster keep messages."""

    LOCAL = "local"
    """Each broker on a disk of its own: a reliable topic moves with its log, and waits for an owner that is dead."""
    SHARED_FS = "shared_fs"
    """All brokers in one folder: another broker takes over the topics of a dead one."""
    OBJECT_STORE = "object_store"
    """All brokers in one bucket: as `shared_fs`, and no broker has a disk that matters."""
    OBJECT_STORE_LOCAL = "object_store_local"
    """In one bucket, behind journals on each broker's disk: a topic waits for an owner that is dead."""

    @property
    def shares_logs(self) -> bool:
        """True if every broker reaches the messages of all topics, those alone that were just acknowledged or not."""
        return self is not StorageMode.LOCAL


class OwnershipState(StrEnum):
    """State of a topic, as every face shows it."""

    SERVED = "served"
    MOVING = "moving"
    """Its owner serves it until another broker is ready."""
    OPENING = "opening"
    """A broker is about to open it; for the moment it is not served."""
    WAITING = "waiting"
    """Its messages are on the disk of a broker that does not run."""
    UNASSIGNED = "unassigned"
    """It is assigned to a broker that does not run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicOwnership:
    """Ownership of one topic, as metadata has it."""

    topic_id: int
    namespace: str
    is_reliable: bool
    owner: int = NOBODY
    """The broker that serves it, or served it last and has not released it."""
    epoch: int = 0
    """Counts owners."""
    broker: int = NOBODY
    """The broker that it is assigned to."""
    is_pinned: bool = False
    """True for a topic that a broker writes itself: it stays with that."""
    base: TopicName | None = None
    """The partitioned topic that it is a partition of."""

    def stays_with_disk(self, mode: StorageMode) -> bool:
        """True if its owner alone has its messages."""
        return self.is_reliable and mode is StorageMode.LOCAL and self.owner != NOBODY

    def waits_for_owner(self, mode: StorageMode) -> bool:
        """True if no other broker goes on with it while its owner does not run: that has its newest messages."""
        is_on_disk = mode in {StorageMode.LOCAL, StorageMode.OBJECT_STORE_LOCAL}
        return self.is_reliable and is_on_disk and self.owner != NOBODY

    def state(self, mode: StorageMode, running: Container[int]) -> OwnershipState:
        """State of the topic while these brokers run."""
        if self.owner in running:
            return OwnershipState.SERVED if self.broker == self.owner else OwnershipState.MOVING
        if self.stays_with_disk(mode) or (self.waits_for_owner(mode) and self.broker not in running):
            return OwnershipState.WAITING
        return OwnershipState.OPENING if self.broker in running else OwnershipState.UNASSIGNED


class Ownerships:
    """Ownership of all topics by id, indexed by owner and by assigned broker: a change costs the same at any number."""

    def __init__(self) -> None:
        self._known: dict[int, TopicOwnership] = {}
        self._owned: defaultdict[int, set[int]] = defaultdict(set)
        self._assigned: defaultdict[int, set[int]] = defaultdict(set)
        self._counts: Counter[int] = Counter()

    def __iter__(self) -> Iterator[TopicOwnership]:
        return iter(self._known.values())

    def __getitem__(self, topic_id: int) -> TopicOwnership:
        return self._known[topic_id]

    @property
    def counts(self) -> Mapping[int, int]:
        """Number of topics that are assigned to each broker, without those that a broker writes itself."""
        return self._counts

    @property
    def owners(self) -> AbstractSet[int]:
        """Owners of topics, `NOBODY` among them if a topic has none."""
        return self._owned.keys()

    @property
    def brokers(self) -> AbstractSet[int]:
        """Owners, and brokers that topics are assigned to."""
        return self._owned.keys() | self._assigned.keys()

    def owned_by(self, broker_id: int) -> AbstractSet[int]:
        """Ids of the topics that a broker owns."""
        return self._owned.get(broker_id, frozenset())

    def assigned_to(self, broker_id: int) -> AbstractSet[int]:
        """Ids of the topics that are assigned to a broker."""
        return self._assigned.get(broker_id, frozenset())

    def replace(self, topic_id: int, after: TopicOwnership | None) -> None:
        """Set the ownership of a topic; None for a topic that was deleted."""
        before = self._known.pop(topic_id, None)
        if before is not None:
            _discard(self._owned, before.owner, topic_id)
            _discard(self._assigned, before.broker, topic_id)
            self._counts[before.broker] -= not before.is_pinned
        if after is not None:
            self._known[topic_id] = after
            self._owned[after.owner].add(topic_id)
            self._assigned[after.broker].add(topic_id)
            self._counts[after.broker] += not after.is_pinned


def _discard(index: dict[int, set[int]], broker_id: int, topic_id: int) -> None:
    index[broker_id].discard(topic_id)
    if not index[broker_id]:
        del index[broker_id]
