"""Rebalancer: the leading broker carries out the rebalance that runs; the others do nothing until they lead."""

import logging

from danube.broker.balance.picture import figures
from danube.broker.balance.progress import Now, advanced, assignments
from danube.broker.balance.records import BalanceRecords
from danube.broker.balance.source import BalanceSource
from danube.broker.balance.view import BalanceView
from danube.broker.cluster.member import Cluster
from danube.metadata.cluster.reconcile import Reconciler
from danube.metadata.records.catalog import Records, TopicRecord
from danube.model.calls.balance import BalanceFigures, BrokerPlaceState, MoveState, Rebalance
from danube.model.limits.balance import REBALANCE_LOOK_S
from danube.runtime.clock import Clock, sleep_for
from danube.runtime.tasks import TaskScope

_log = logging.getLogger(__name__)


class Rebalancer:
    """This broker's part in rebalances, as leader."""

    def __init__(
        self, cluster: Cluster, source: BalanceSource, records: BalanceRecords, topics: Records, clock: Clock
    ) -> None:
        self._cluster = cluster
        self._source = source
        self._records = records
        self._topics = topics
        self._clock = clock
        self._reconciler = Reconciler(clock, self._reconcile, "a rebalance cannot go on")
        cluster.topics.on_change(self._topic_changed)
        cluster.registry.on_change(self._wake)
        cluster.election.on_change(self._wake)
        records.on_change(self._wake)

    def start(self, tasks: TaskScope) -> None:
        """Begin, in tasks of this scope."""
        tasks.spawn(self._reconciler.run(), "rebalance")
        tasks.spawn(self._wake_on_time(), "rebalance timer")

    def _topic_changed(self, before: TopicRecord | None, after: TopicRecord | None) -> None:
        """Look at changes of the topics that move, and of drains. Others wait for the timer: a look goes over all."""
        running, changed = self._records.running, after or before
        if running is not None:
            moving = (move.topic for move in running.preview.moves)
            if changed is None or str(changed.name) in moving:
                self._reconciler.wake()

    def _wake(self) -> None:
        if self._records.running is not None:
            self._reconciler.wake()

    async def _wake_on_time(self) -> None:
        while True:
            await sleep_for(self._clock, REBALANCE_LOOK_S)
            self._wake()

    async def _reconcile(self) -> None:
        running = self._records.running
        if running is None or not self._cluster.election.is_leader:
            return
        now = self._now(running)
        after = advanced(running, now)
        if after != running:
            after = await self._records.change(running.rebalance_id, lambda known: _changed(known, now))
            _tell(running, after)
        wanted = [
            (record, broker)
            for name, broker in assignments(after, now)
            if (record := self._cluster.topics.find(name)) is not None
        ]
        if wanted:
            await self._topics.assign(wanted)

    def _now(self, running: Rebalance) -> Now:
        view = self._source.view()
        takes = {BrokerPlaceState.ACTIVE, BrokerPlaceState.UNKNOWN}
        return Now(
            topics={str(name): one for name, one in view.facts.topics},
            brokers=frozenset(view.facts.brokers),
            takers=frozenset(each for each, one in view.statuses.items() if one.state in takes),
            now_ms=view.facts.now_ms,
            figures=self._settled(running, view),
            copy_bytes_per_s=self._source.settings.copy_bytes_per_s,
        )

    def _settled(self, running: Rebalance, view: BalanceView) -> BalanceFigures | None:
        """The imbalance, once every broker has reported a while after the last move."""
        if running.count(MoveState.WAITING, MoveState.MOVING):
            return None
        last_ms = max((move.ended_ms or 0 for move in running.preview.moves), default=0)
        since_ms = last_ms + 1_000 * self._source.settings.settle_s
        for status in view.statuses.values():
            if status.state is BrokerPlaceState.MISSING:
                continue
            if status.report is None or status.report.received_ms < since_ms:
                return None
        state = view.state()
        return figures(state.imbalance(), state.counted_scores())


def _changed(known: Rebalance, now: Now) -> Rebalance | None:
    after = advanced(known, now)
    return None if after == known else after


def _tell(before: Rebalance, after: Rebalance) -> None:
    if before.state is not after.state:
        counts = [f"{after.count(state)} {state}" for state in MoveState if after.count(state)]
        why = f": {after.reason}" if after.reason else ""
        _log.info("%s is %s (moves: %s)%s", after.rebalance_id, after.state, ", ".join(counts) or "none", why)
