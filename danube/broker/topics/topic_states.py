"""States of topics, as administrators see them: served, on the move, or why not."""

from collections import Counter
from collections.abc import Callable, Sequence
from heapq import nsmallest

from danube.broker.ownership.cluster_topics import ClusterTopics
from danube.broker.topics.topic_directory import TopicDirectory
from danube.metadata.records.catalog import TopicRecord
from danube.model.calls.admin import TopicMove, TopicState, UnservedTopics
from danube.model.calls.topic_states import NamedTopicState, TopicStatesList
from danube.model.limits.moves import MOVES_SHOWN_MAX, STATES_LISTED_MAX, UNSERVED_SHOWN_MAX
from danube.model.ownership import OwnershipState, StorageMode
from danube.model.records.telemetry import SYSTEM_NAMESPACE

_OWNED = {OwnershipState.SERVED, OwnershipState.MOVING}
Progress = Callable[[int], tuple[int, int] | None]
"""Bytes of a topic's log that are copied to another disk, and of all of it; None when no copy is under way."""


class TopicStates:
    """States of the topics of a cluster; a topic of a broker that stands alone is served."""

    def __init__(self, topics: TopicDirectory, cluster: ClusterTopics | None) -> None:
        self._topics = topics
        self._cluster = cluster
        self._progress: list[Progress] = []

    @property
    def mode(self) -> StorageMode | None:
        """Place where the brokers of the cluster keep messages; None for a broker that stands alone."""
        return self._cluster.mode if self._cluster else None

    def follow_copies(self, progress: Progress) -> None:
        """Have the progress of copies from or to this broker shown."""
        self._progress.append(progress)

    def of(self, record: TopicRecord) -> TopicState:
        """State of a topic."""
        if self._cluster is None:
            return TopicState(state=OwnershipState.SERVED)
        is_served = self._topics.find(str(record.name)) is not None
        record = self._cluster.find(str(record.name)) or record  # a served topic keeps the record of its opening
        state = self._cluster.state(record)
        if state is not OwnershipState.MOVING:
            seen = OwnershipState.SERVED if is_served else state  # metadata that lags behind
            return TopicState(state=seen, reason="" if is_served else self._cluster.reason(record))
        copied, total = self._copied(record.topic_id)
        return TopicState(
            state=state,
            reason="" if is_served else self._cluster.reason(record),
            target_broker_id=str(record.broker),
            copied_bytes=copied,
            log_bytes=total,
        )

    def owner_id(self, record: TopicRecord) -> str | None:
        """As `Topics.owner_id`."""
        return self._topics.owner_id(record)

    def unserved(self) -> Sequence[TopicRecord]:
        """Topics that no other broker can tell more of than this one: nobody serves them now."""
        return [one for one in self._cluster or () if self.is_unserved(one)]

    def is_unserved(self, record: TopicRecord) -> bool:
        """True for a topic that neither this broker nor any other one serves."""
        if self._cluster is None or self._topics.find(str(record.name)) is not None:
            return False
        is_own = self._topics.owner_of(record) == self._cluster.own_id
        return is_own or self._cluster.state(record) not in _OWNED

    def list(self, namespace: str | None) -> TopicStatesList:
        """Topics of a namespace, or of all, that nobody serves or that move."""
        cluster = self._cluster
        of_names = (one for one in self._topics.records() if namespace in {None, one.name.namespace})
        plain = tuple(sorted(one.name for one in of_names if one.is_plain))
        if cluster is None:
            return TopicStatesList(plain_topics=plain)
        states = ((cluster.state(one), one.name) for one in cluster if namespace in {None, one.name.namespace})
        found = [(name, state) for state, name in states if state is not OwnershipState.SERVED]
        listed = nsmallest(STATES_LISTED_MAX, found)
        topics = tuple(NamedTopicState(topic=name, state=state) for name, state in listed)
        return TopicStatesList(topics=topics, topic_count=len(found), plain_topics=plain)

    def reasons(self) -> tuple[UnservedTopics, ...]:
        """Reasons why topics of users are not served, those of the most topics first; moves are none."""
        if self._cluster is None:
            return ()
        states = ((self._cluster.state(one), one) for one in self._cluster if _is_of_users(one))
        counts = Counter((state, self._cluster.reason(one)) for state, one in states if state not in _OWNED)
        return tuple(
            UnservedTopics(state=state, reason=reason, topics=count)
            for (state, reason), count in counts.most_common(UNSERVED_SHOWN_MAX)
        )

    def moves(self) -> tuple[int, tuple[TopicMove, ...]]:
        """Topics on the move: how many, and the first of them by name."""
        moving = [
            one
            for one in self._cluster or ()
            if self._cluster and _is_of_users(one) and self._cluster.state(one) is OwnershipState.MOVING
        ]
        moving.sort(key=lambda record: record.name)
        return len(moving), tuple(self._move(record) for record in moving[:MOVES_SHOWN_MAX])

    def _move(self, record: TopicRecord) -> TopicMove:
        copied, total = self._copied(record.topic_id)
        return TopicMove(
            topic=record.name,
            broker_id=str(self._topics.owner_of(record)),
            target_broker_id=str(record.broker),
            copied_bytes=copied,
            log_bytes=total,
        )

    def _copied(self, topic_id: int) -> tuple[int, int] | tuple[None, None]:
        return next((found for each in self._progress if (found := each(topic_id)) is not None), (None, None))


def _is_of_users(record: TopicRecord) -> bool:
    return record.name.namespace != SYSTEM_NAMESPACE
