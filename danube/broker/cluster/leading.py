"""Work of the leading broker: assigns topics that have no broker, or whose broker is drained.

It goes by the whole state on every change and on a timer, so a new leader needs no memory of the one before.
"""

import logging
from collections.abc import Mapping

from danube.broker.cluster.assignment import Assignment, absent_for, assign, lost
from danube.broker.cluster.member import Cluster
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
        self._reconciler = Reconciler(clock, self._reconcile, "topics cannot be assigned")
        cluster.topics.on_change(lambda _before, _after: self._reconciler.wake())
        cluster.registry.on_change(self._reconciler.wake)
        cluster.election.on_change(self._reconciler.wake)

    def start(self, tasks: TaskScope) -> None:
        """Begin, in tasks of this scope."""
        tasks.spawn(self._reconciler.run(), "assign topics")
        tasks.spawn(self._wake_on_time(), "assignment timer")

    async def _wake_on_time(self) -> None:
        while True:
            await sleep_for(self._clock, PLACEMENT_INTERVAL_S)
            self._reconciler.wake()

    async def _reconcile(self) -> None:
        self._note_absent()
        if not self._cluster.election.is_leader:
            return
        topics = self._cluster.topics
        records = {record.topic_id: record for record in topics}
        present = self._present()
        given_up = self._given_up()
        found = list(assign(topics.ownerships(), present, topics.mode, given_up=given_up))
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
        await self._start_lost_anew()

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
        """Note the owners that do not run. It is looked at on a timer, too."""
        now_s, running = self._clock.monotonic_s(), self._cluster.registry.brokers
        owners = {one.owner for one in self._cluster.topics.ownerships()} - {NOBODY} - running.keys()
        self._absent_since_s = {each: self._absent_since_s.get(each, now_s) for each in owners}

    async def _start_lost_anew(self) -> None:
        if self._recreates_after_s is None:
            return
        topics, now_s = self._cluster.topics, self._clock.monotonic_s()
        records = {record.topic_id: record for record in topics}
        found = lost(
            topics.ownerships(), self._absent_since_s, topics.mode, now_s=now_s, after_s=self._recreates_after_s
        )
        brokers = topics.choose([records[one.topic_id].name for one in found]) if found else None
        for topic, broker in zip(found, brokers or (), strict=False):
            record = records[topic.topic_id]
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
            for topic in self._cluster.topics.ownerships():
                for broker_id in {topic.owner, topic.broker} - {0} - gone.keys() - present.keys():
                    present[broker_id] = BrokerDrain(broker_id=broker_id, parallel_moves=0)
        return present
