"""Moves of topics to other brokers, as administrators ask for them: a topic, or all topics of a broker.

A move is asked for by assigning the topic, or by draining its broker; the brokers concerned carry it out
(`danube/broker/cluster/placement.py`), and go on after a restart of any of them.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from danube.broker.ownership.assignment import fewest_topics, leaves
from danube.broker.topics.local_topics import Topics
from danube.metadata.records import keys
from danube.metadata.records.catalog import ExtraWrites, Records, TopicRecord
from danube.metadata.records.cluster import BrokerDrain, encode_drain
from danube.metadata.store import MetadataStore
from danube.metadata.transaction_builder import TransactionBuilder, commit_transaction
from danube.model.calls.admin import ActivateBroker, UnloadBroker, UnloadedBroker
from danube.model.errors import NotFoundError, PreconditionFailedError, TopicNotFoundError, UnsupportedError
from danube.model.ownership import OwnershipState, TopicOwnership
from danube.model.topic import TopicName
from danube.runtime.rng import Rng

if TYPE_CHECKING:
    from danube.broker.cluster.member import Cluster


@dataclass(frozen=True, slots=True)
class TopicMove:
    """A topic that is to move."""

    record: TopicRecord
    ownership: TopicOwnership
    broker: int
    """The broker that it goes to."""
    is_copied: bool = False
    """True if its log is copied to another disk."""


class MoveControl:
    """Moves between the brokers of a cluster. Every method raises UnsupportedError on a broker that stands alone."""

    def __init__(
        self, cluster: "Cluster | None", topics: Topics, records: Records, store: MetadataStore, rng: Rng
    ) -> None:
        self._member = cluster
        self._topics = topics
        self._records = records
        self._store = store
        self._rng = rng

    @property
    def _cluster(self) -> "Cluster":
        if self._member is None:
            raise UnsupportedError("a standalone broker has no other broker to move topics to")
        return self._member

    def moves_of(self, name: TopicName, broker_id: str | None = None) -> list[TopicMove]:
        """Moves of a topic, or of all partitions of a base name, to this broker, or to those with the fewest topics.

        Raises TopicNotFoundError; NotFoundError for a broker that does not run; PreconditionFailedError where a topic
        cannot move now, is there already, or there is no broker to move it to.
        """
        cluster = self._cluster.topics
        records = [record for each in self._topics.matching(name) if (record := cluster.find(str(each))) is not None]
        if not records:
            raise TopicNotFoundError(f"there is no topic {name}: list the topics of its namespace to see their names")
        topics = [cluster.ownership(record) for record in records]
        for record, topic in zip(records, topics, strict=True):
            self._check_movable(record, topic)
        targets = self._targets(topics, broker_id)
        moves = [self._move_of(*each) for each in zip(records, topics, targets, strict=True)]
        left = [one for one in moves if one.broker != one.ownership.owner]
        if not left:
            raise PreconditionFailedError(f"{name} is served by broker {targets[0]} already: there is nothing to move")
        return left

    async def move(self, moves: Sequence[TopicMove], extra_writes: ExtraWrites | None = None) -> None:
        """Have these moves begin. Raises MetadataError, and what `extra_writes` raises."""
        await self._records.assign([(one.record, one.broker) for one in moves], extra_writes=extra_writes)

    async def unload_topic(self, name: TopicName) -> None:
        """Have a topic move to another broker. Raises as `moves_of`."""
        await self.move(self.moves_of(name))

    def topics_to_leave(self, drain: BrokerDrain) -> list[TopicMove]:
        """Topics that leave a broker once it is drained so, by name, to those that have the fewest topics now.

        Raises NotFoundError for a broker that does not run, PreconditionFailedError where no other broker takes topics.
        """
        cluster = self._cluster
        self._require(drain.broker_id)
        others = [each for each, other in cluster.topics.brokers.items() if each != drain.broker_id and other is None]
        if not others:
            raise PreconditionFailedError(
                f"no other broker takes topics: start one, or activate one, before broker {drain.broker_id} is unloaded"
            )
        mode, topics = cluster.topics.mode, cluster.topics.ownerships
        leaving = [
            one for one in map(topics.__getitem__, sorted(topics.owned_by(drain.broker_id))) if leaves(one, drain, mode)
        ]
        takers = {each: other for each, other in cluster.topics.brokers.items() if each in others}
        targets = fewest_topics(topics.counts, takers, len(leaving))
        record_of = cluster.topics.record_of
        moves = [self._move_of(record_of(one.topic_id), one, to) for one, to in zip(leaving, targets, strict=True)]
        return sorted(moves, key=lambda one: one.record.name)

    async def drain(self, drain: BrokerDrain, extra_writes: ExtraWrites | None = None) -> None:
        """Have topics leave a broker, which gets no new ones until `activate`. Raises as `topics_to_leave`."""
        self.topics_to_leave(drain)

        async def change(builder: TransactionBuilder) -> None:
            builder.put(keys.drained_broker(drain.broker_id), encode_drain(drain))
            if extra_writes is not None:
                await extra_writes(builder)

        await commit_transaction(self._store, self._rng, change)

    async def unload_broker(self, wanted: UnloadBroker) -> UnloadedBroker:
        """As the original's call: drain a broker, or show how many topics would leave. Raises as `drain`."""
        drain = self.drain_of(wanted)
        count = len(self.topics_to_leave(drain))
        if not wanted.dry_run:
            await self.drain(drain)
        return UnloadedBroker(started=not wanted.dry_run, total=count, pending=count)

    def drain_of(self, wanted: UnloadBroker) -> BrokerDrain:
        """The drain that a call asks for. Raises NotFoundError for what is no broker's id."""
        return BrokerDrain(
            broker_id=self._id(wanted.broker_id),
            parallel_moves=max(1, wanted.max_parallel),
            include=wanted.namespaces_include,
            exclude=wanted.namespaces_exclude,
            reason="admin_unload",
        )

    async def activate(self, broker_id: str, extra_writes: ExtraWrites | None = None) -> None:
        """Have a drained broker get topics again; those that left stay away. Raises NotFoundError, MetadataError."""
        cluster, number = self._cluster, self._id(broker_id)
        if cluster.topics.drain_of(number) is None:
            self._require(number)

        async def change(builder: TransactionBuilder) -> None:
            if await builder.read(keys.drained_broker(number)) is not None:
                builder.delete(keys.drained_broker(number))
            if extra_writes is not None:
                await extra_writes(builder)

        await commit_transaction(self._store, self._rng, change)

    async def activate_broker(self, wanted: ActivateBroker) -> None:
        """As the original's call. Raises as `activate`."""
        await self.activate(wanted.broker_id)

    def is_drained(self, broker_id: str) -> bool:
        """True for a broker that topics leave, or have left."""
        return self._cluster.topics.drain_of(self._id(broker_id)) is not None

    def _move_of(self, record: TopicRecord, topic: TopicOwnership, broker: int) -> TopicMove:
        return TopicMove(record, topic, broker, topic.stays_with_disk(self._cluster.topics.mode))

    def _check_movable(self, record: TopicRecord, topic: TopicOwnership) -> None:
        if topic.is_pinned:
            raise PreconditionFailedError(f"{record.name} is written by its broker itself and stays with it")
        state = self._cluster.topics.state(record)
        if state is OwnershipState.WAITING:
            raise PreconditionFailedError(
                f"{record.name} is on the disk of broker {topic.owner}, which does not run: start that broker first"
            )
        if state is OwnershipState.MOVING:
            raise PreconditionFailedError(f"{record.name} moves to broker {topic.broker} already: wait for it")

    def _targets(self, topics: Sequence[TopicOwnership], broker_id: str | None) -> list[int]:
        cluster = self._cluster.topics
        if broker_id is not None:
            target = self._id(broker_id)
            self._require(target)
            if cluster.drain_of(target) is not None:
                raise PreconditionFailedError(f"broker {broker_id} is drained and takes no topics: activate it first")
            return [target] * len(topics)
        targets, counts = list[int](), Counter(cluster.ownerships.counts)
        for topic in topics:
            others = {each: drain for each, drain in cluster.brokers.items() if each != topic.owner}
            chosen = fewest_topics(counts, others, 1)
            if not chosen:
                raise PreconditionFailedError("there is no other broker that takes topics: start or activate one first")
            targets += chosen
            counts.update(chosen)
        return targets

    def _require(self, broker_id: int) -> None:
        if self._cluster.registry.find(broker_id) is None:
            raise NotFoundError(f"there is no broker {broker_id} that runs: list the brokers to see which do")

    @staticmethod
    def _id(broker_id: str) -> int:
        if not (broker_id.isascii() and broker_id.isdecimal()):
            raise NotFoundError(f"there is no broker {broker_id[:40]!r}: list the brokers to see their ids")
        return int(broker_id)
