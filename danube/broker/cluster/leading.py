"""Work of the leading broker: assigns topics that have no broker, or whose broker is drained.

On every change it goes by the topics that changed. It goes by the whole state on a timer, after a fault, and when it
begins to lead or brokers change, so a new leader needs no memory of the one before.
"""

import logging
from collections.abc import Mapping

from danube.broker.cluster.member import Cluster
from danube.broker.ownership.assignment import Assignment, absent_for, assign, lost
from danube.metadata.cluster.reconcile import Reconciler
from danube.metadata.records.catalog import Records, TopicRecord
from danube.metadata.records.cluster import BrokerDrain
from danube.model.limits.moves import ABSENT_BROKER_GRACE_S, ASSIGNMENTS_PER_CHANGE_MAX, PLACEMENT_INTERVAL_S
from danube.model.ownership import NOBODY
from danube.runtime.clock import Clock, sleep_for
from danube.runtime.tasks import TaskScope

_log = logging.getLogger(__name__)


class Leading:
    """This broker's part as leader; it does nothing while another one leads."""

    def __init__(
        self, cluster: Cluster, records: Records, clock: Clock, *, recreates_after_s: float | None = None
    ) -> None:
        """Topics that have waited `recreates_after_s` for the disk with their messages start anew; None is never."""
        self._cluster = cluster
        self._records = records
        self._clock = clock
        self._started_s = clock.monotonic_s()
        self._recreates_after_s = recreates_after_s
        self._absent_since_s: dict[int, float] = {}
        """Owners that do not run, and since when as far as this broker has seen."""
        self._changed: set[int] | None = None
        """Ids of topics that changed since the last assignment; None for all."""
        self._reconciler = Reconciler(clock, self._reconcile, "topics cannot be assigned")
        cluster.topics.on_change(self._topic_changed)
        cluster.registry.on_change(self._wake)
        cluster.election.on_change(self._wake)

    def start(self, tasks: TaskScope) -> None:
        """Begin, in tasks of this scope."""
        tasks.spawn(self._reconciler.run(), "assign topics")
        tasks.spawn(self._wake_on_time(), "assignment timer")

    async def _wake_on_time(self) -> None:
        while True:
            await sleep_for(self._clock, PLACEMENT_INTERVAL_S)
            self._wake()

    def _wake(self) -> None:
        self._changed = None
        self._reconciler.wake()

    def _topic_changed(self, before: TopicRecord | None, after: TopicRecord | None) -> None:
        if before is None and after is None:  # a drain
            self._changed = None
        elif after is not None and self._changed is not None:
            self._changed.add(after.topic_id)
        self._reconciler.wake()

    async def _reconcile(self) -> None:
        self._note_absent()
        changed, self._changed = self._changed, None
        if not self._cluster.election.is_leader:
            return
        self._changed = set()
        try:
            await self._assign(changed)
            await self._start_lost_anew()
        except BaseException:
            self._changed = None
            raise

    async def _assign(self, changed: set[int] | None) -> None:
        topics, present, given_up = self._cluster.topics, self._present(), self._given_up()
        found = list(assign(topics.ownerships, present, topics.mode, changed=changed, given_up=given_up))
        records = {one.topic.topic_id: topics.record_of(one.topic.topic_id) for one in found}
        wanted = self._by_load(found, records, present)
        for start in range(0, len(wanted), ASSIGNMENTS_PER_CHANGE_MAX):
            part = wanted[start : start + ASSIGNMENTS_PER_CHANGE_MAX]
            done = await self._records.assign([(records[one.topic.topic_id], one.broker) for one in part])
            _log.info("assigned %d topics to other brokers, such as %s", done, records[part[0].topic.topic_id].name)
            for one in part:
                if one.topic.owner in given_up and one.topic.waits_for_owner(topics.mode):
                    _log.error(
                        "%s goes on on broker %d with what is in the object store: broker %d does not run, and what it"
                        " acknowledged and had not yet uploaded is lost to the cluster, and stays on its disk",
                        *(records[one.topic.topic_id].name, one.broker, one.topic.owner),
                    )

    def _given_up(self) -> set[int]:
        if self._recreates_after_s is None:
            return set()
        now_s = self._clock.monotonic_s()
        return absent_for(self._absent_since_s, now_s=now_s, after_s=self._recreates_after_s)

    def _by_load(
        self, wanted: list[Assignment], records: Mapping[int, TopicRecord], present: Mapping[int, BrokerDrain | None]
    ) -> list[Assignment]:
        """These assignments with those of topics that nobody serves by the strategy of the cluster."""
        orphans = [one for one in wanted if one.topic.owner not in present]
        names = [records[one.topic.topic_id].name for one in orphans]
        takers = [broker_id for broker_id, drain in self._cluster.topics.brokers.items() if drain is None]
        chosen = self._cluster.topics.assigner(names, takers) if orphans else []
        if len(chosen) != len(orphans):
            return wanted
        better = {one.topic.topic_id: broker for one, broker in zip(orphans, chosen, strict=True)}
        return [Assignment(one.topic, better.get(one.topic.topic_id, one.broker)) for one in wanted]

    def _note_absent(self) -> None:
        """Record since when owners do not run."""
        now_s, running = self._clock.monotonic_s(), self._cluster.registry.brokers
        owners = self._cluster.topics.ownerships.owners - {NOBODY} - running.keys()
        self._absent_since_s = {each: self._absent_since_s.get(each, now_s) for each in owners}

    async def _start_lost_anew(self) -> None:
        topics = self._cluster.topics
        found = lost(topics.ownerships, self._given_up(), topics.mode)
        records = [topics.record_of(one.topic_id) for one in found]
        brokers = topics.choose([one.name for one in records]) if found else None
        for topic, record, broker in zip(found, records, brokers or (), strict=False):
            topic_id = await self._records.start_anew(record, topic.owner, broker, self._clock.now_ms())
            if topic_id is not None:
                _log.error(
                    "%s starts anew, without messages, as topic id %d on broker %d: broker %d does not run, and has the"
                    " messages so far on its disk, as topic id %d. They stay there",
                    *(record.name, topic_id, broker, topic.owner, topic.topic_id),
                )

    def _present(self) -> Mapping[int, BrokerDrain | None]:
        """The brokers that run, and those that this one has not seen yet: a cluster does not start all at once."""
        present = dict(self._cluster.topics.brokers)
        if self._clock.monotonic_s() < self._started_s + ABSENT_BROKER_GRACE_S:
            gone = self._cluster.registry.gone
            for broker_id in self._cluster.topics.ownerships.brokers - {NOBODY} - gone.keys() - present.keys():
                present[broker_id] = BrokerDrain(broker_id=broker_id, parallel_moves=0)
        return present
