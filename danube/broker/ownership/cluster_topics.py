"""Topics of the cluster with their owners, as the newest watch events have them; a standalone broker knows none."""

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from danube.broker.ownership.assignment import fewest_topics
from danube.metadata.records import keys
from danube.metadata.records.cluster import BrokerDrain, BrokerRegistration, decode_drain
from danube.metadata.records.record_format import (
    LostLog,
    TopicRecord,
    TopicStorage,
    decode_lost_log,
    decode_topic,
    decode_topic_storage,
)
from danube.metadata.records.storage import owner_of
from danube.metadata.store import Entry
from danube.model.errors import MetadataError, TopicNotServedError
from danube.model.ownership import Ownerships, OwnershipState, StorageMode, TopicOwnership
from danube.model.records.analytics import ANALYTICS_TOPIC
from danube.model.records.telemetry import SYSTEM_NAMESPACE
from danube.model.topic import DispatchStrategy, TopicName

_log = logging.getLogger(__name__)

Running = Callable[[], Mapping[int, BrokerRegistration]]
"""The brokers that run, by id."""


Assigner = Callable[[Sequence[TopicName], Sequence[int]], list[int]]
"""The brokers, of those given, that these topics go to; none where the strategy of the cluster has no say."""


def _by_number(names: Sequence[TopicName], brokers: Sequence[int]) -> list[int]:  # noqa: ARG001 - whatever they are
    return []


def _nobody() -> Mapping[int, BrokerRegistration]:
    return {}


class ClusterTopics:
    """All topics by name, kept up to date by `follow_…`; a moment late after a move or a creation."""

    def __init__(
        self,
        own_id: int = 0,
        running: Running = _nobody,
        mode: StorageMode = StorageMode.LOCAL,
        unreached: Callable[[], Collection[int]] = frozenset,
    ) -> None:
        """`unreached` are brokers that this one has no connection with: they may be dead, with a lease that lasts."""
        self.own_id = own_id
        """This broker; 0 for one that stands alone."""
        self.mode = mode
        self._running = running
        self._unreached = unreached
        self._records: dict[str, TopicRecord] = {}
        self._names: dict[int, str] = {}
        """By topic id."""
        self.ownerships = Ownerships()
        """Ownership of every topic."""
        self._partitions: dict[str, set[str]] = {}
        """Names by the base name."""
        self._storage: dict[int, TopicStorage] = {}
        self._drains: dict[int, BrokerDrain] = {}
        self._lost_logs: dict[int, LostLog] = {}
        self._listeners: list[Callable[[TopicRecord | None, TopicRecord | None], None]] = []
        self.assigner: Assigner = _by_number
        """Chooses brokers by load; those with the fewest topics get new ones where it does not."""

    def __iter__(self) -> Iterator[TopicRecord]:
        return iter(self._records.values())

    @property
    def is_cluster(self) -> bool:
        """True if there may be other brokers."""
        return self.own_id != 0

    @property
    def brokers(self) -> Mapping[int, BrokerDrain | None]:
        """The brokers that run, each with its drain if it has one."""
        return {broker_id: self._drains.get(broker_id) for broker_id in self._running()}

    def drain_of(self, broker_id: int) -> BrokerDrain | None:
        """The drain of a broker, if topics are to leave it."""
        return self._drains.get(broker_id)

    @property
    def lost_logs(self) -> Iterable[LostLog]:
        """Logs on lost disks, whose topics were started anew."""
        return self._lost_logs.values()

    def on_change(self, listener: Callable[[TopicRecord | None, TopicRecord | None], None]) -> None:
        """Have `listener` called with a topic's record before and after a change of it, or of its owner."""
        self._listeners.append(listener)

    def find(self, name: str) -> TopicRecord | None:
        """The topic of this name."""
        return self._records.get(name)

    def name_of(self, topic_id: int) -> TopicName | None:
        """Name of the topic with this id."""
        return self.record_of(topic_id).name if topic_id in self._names else None

    def record_of(self, topic_id: int) -> TopicRecord:
        """The topic with this id. Raises KeyError for a topic that is not known."""
        return self._records[self._names[topic_id]]

    def partitions_of(self, base: TopicName) -> list[TopicName]:
        """The partitions of a base name, in no order."""
        return [record.name for record in self.records_of(base)]

    def records_of(self, base: TopicName) -> list[TopicRecord]:
        """As `partitions_of`, their records."""
        return [self._records[name] for name in self._partitions.get(str(base), ())]

    def first_of_own(self, partitions: Iterable[TopicRecord]) -> TopicRecord | None:
        """The partition with the smallest index of those that are assigned to this broker."""
        own = (record for record in partitions if record.broker == self.own_id)
        return min(own, key=lambda record: record.name.partition_index or 0, default=None)

    def ownership(self, record: TopicRecord) -> TopicOwnership:
        """Ownership of a topic."""
        return ownership_of(record, self._storage.get(record.topic_id))

    def is_assigned_here(self, record: TopicRecord) -> bool:
        """True while this very topic is assigned to this broker."""
        known = self._records.get(str(record.name))
        return known is not None and (known.topic_id, known.broker) == (record.topic_id, self.own_id)

    def state(self, record: TopicRecord) -> OwnershipState:
        """State of a topic."""
        if not self.is_cluster:
            return OwnershipState.SERVED
        return self.ownership(record).state(self.mode, self._running())

    def choose(self, names: Sequence[TopicName]) -> list[int] | None:
        """The brokers that new topics are to be assigned to, by the strategy of the cluster; None for this one."""
        if not self.is_cluster:
            return None
        unreached = self._unreached()
        reached = {broker_id: drain for broker_id, drain in self.brokers.items() if broker_id not in unreached}
        chosen = self.assigner(names, [each for each, drain in reached.items() if drain is None])
        chosen = chosen or fewest_topics(self.ownerships.counts, reached, len(names))
        return chosen if len(chosen) == len(names) else None

    def server_of(self, record: TopicRecord) -> BrokerRegistration | None:
        """The other broker that serves a topic; None for this one. Raises TopicNotServedError while no broker does."""
        owner = self.ownership(record).owner
        if not self.is_cluster or owner == self.own_id:
            return None
        broker = self._running().get(owner)
        if broker is None:
            raise self.refusal(record)
        return broker

    def refusal(self, record: TopicRecord) -> TopicNotServedError:
        """The error of a call about a topic that this broker does not serve."""
        return TopicNotServedError(f"{record.name} {self.reason(record)}")

    def reason(self, record: TopicRecord) -> str:
        """Cause why this broker does not serve a topic, and the next step, without its name."""
        topic, running = self.ownership(record), self._running()
        owner = running.get(topic.owner)
        match topic.state(self.mode, running):
            case OwnershipState.OPENING:
                return f"is being opened by broker {topic.broker}: try again in a moment"
            case OwnershipState.WAITING:
                return f"waits for broker {topic.owner}, which has its messages and does not run: start that broker"
            case OwnershipState.UNASSIGNED:
                return f"is assigned to broker {topic.broker}, which does not run at the moment: try again"
            case _ if owner is not None and topic.owner != self.own_id:
                admin = f" (administrators: {owner.admin_url})"
                return f"is served by broker {topic.owner} at {owner.broker_url}{admin}: look it up again and retry"
            case _:
                return "is not served here at the moment: look it up again and retry"

    def follow_topic(self, key: str, entry: Entry | None) -> None:
        """Apply a change or the deletion of a topic's key."""
        try:
            name = keys.parse_topic(key)
            record = decode_topic(entry) if entry else None
        except MetadataError as error:
            _log.warning("a topic cannot be read, and is left out: %s", error)
            return
        before = self._forget(name)
        if record is not None:
            self._records[str(name)] = record
            self._names[record.topic_id] = str(name)
            self.ownerships.replace(record.topic_id, self.ownership(record))
            if record.base is not None:
                self._partitions.setdefault(str(record.base), set()).add(str(name))
        self._notify(before, record)

    def follow_owner(self, key: str, entry: Entry | None) -> None:
        """Apply a change or the deletion of an ownership's key."""
        try:
            topic_id = keys.parse_stored_topic(key)
            storage = decode_topic_storage(entry) if entry else None
        except MetadataError as error:
            _log.warning("the owner of a topic cannot be read, and is left out: %s", error)
            return
        before = self._storage.pop(topic_id, None)
        if storage is not None:
            self._storage[topic_id] = storage
        name = self._names.get(topic_id)
        if name is not None and _owner(before) != _owner(storage):
            record = self._records[name]
            self.ownerships.replace(topic_id, self.ownership(record))
            self._notify(record, record)

    def follow_drain(self, key: str, entry: Entry | None) -> None:
        """Apply a change or the end of a broker's drain."""
        try:
            self._drains.pop(keys.parse_drained_broker(key), None)
            if entry is not None:
                drain = decode_drain(entry)
                self._drains[drain.broker_id] = drain
        except MetadataError as error:
            _log.warning("the drain of a broker cannot be read, and is left out: %s", error)
        self._notify(None, None)

    def follow_lost_log(self, key: str, entry: Entry | None) -> None:
        """Apply a log that was left on a lost disk, or its end."""
        try:
            self._lost_logs.pop(keys.parse_lost_log(key), None)
            if entry is not None:
                log = decode_lost_log(entry)
                self._lost_logs[log.topic_id] = log
        except MetadataError as error:
            _log.warning("the log of a lost disk cannot be read, and is left out: %s", error)

    def _notify(self, before: TopicRecord | None, after: TopicRecord | None) -> None:
        for listener in self._listeners:
            listener(before, after)

    def _forget(self, name: TopicName) -> TopicRecord | None:
        before = self._records.pop(str(name), None)
        if before is not None:
            self._names.pop(before.topic_id, None)
            self.ownerships.replace(before.topic_id, None)
        if before is not None and before.base is not None:
            names = self._partitions.get(str(before.base), set())
            names.discard(str(name))
            if not names:
                self._partitions.pop(str(before.base), None)
        return before


def ownership_of(record: TopicRecord, storage: TopicStorage | None) -> TopicOwnership:
    """Ownership of a topic, by its two records."""
    return TopicOwnership(
        topic_id=record.topic_id,
        namespace=record.name.namespace,
        is_reliable=record.strategy is DispatchStrategy.RELIABLE,
        owner=owner_of(storage, record.broker),
        epoch=storage.epoch if storage else 0,
        broker=record.broker,
        is_pinned=record.name.namespace == SYSTEM_NAMESPACE and record.name != ANALYTICS_TOPIC,  # jobs write that
        base=record.base,
    )


def _owner(storage: TopicStorage | None) -> tuple[int, int] | None:
    return (storage.owner, storage.epoch) if storage else None
