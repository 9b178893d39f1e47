"""Placement: has this broker serve the topics that metadata says, and no others.

It goes by what metadata says now, not by what was announced: after each change it works out the next action of the
topics that changed, and on a timer that of every topic that is not where it should be. An action that fails is tried
again, unless something else is to be done by then.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from itertools import islice

from danube.broker.clients.moves import Moves
from danube.broker.cluster.log_copy import LogCopies
from danube.broker.cluster.log_offer import LogOffers
from danube.broker.cluster.member import Cluster
from danube.broker.cluster.next_action import Action, next_action
from danube.broker.ownership.owner import TopicOwner
from danube.broker.topics.drain import Cause, ClientDrain
from danube.broker.topics.local_topics import Topics
from danube.metadata.cluster.reconcile import Reconciler
from danube.metadata.records.catalog import TopicRecord
from danube.model.errors import DanubeError, TopicExistsError, TopicNotServedError
from danube.model.limits.moves import (
    CARRY_RETRY_S_MAX,
    LEAVE_LOOK_S,
    LEAVE_TIMEOUT_S,
    PLACEMENT_INTERVAL_S,
    PLACEMENT_RETRY_S,
    RELEASES_AT_ONCE_MAX,
    UNOWNED_LOGS_LOOK_S,
)
from danube.model.subscription import Cursor
from danube.runtime.clock import Clock, sleep_for
from danube.runtime.tasks import TaskScope

_log = logging.getLogger(__name__)


class Placement:
    """Opens, releases and closes topics of one broker of a cluster."""

    def __init__(
        self,
        cluster: Cluster,
        topics: Topics,
        moves: Moves,
        owner: TopicOwner,
        *,
        offers: LogOffers,
        copies: LogCopies,
        copies_at_once: int,
        clock: Clock,
        on_fenced: Callable[[], None],
    ) -> None:
        """`on_fenced` is called once others have taken over all topics of this broker: it is to start again."""
        self._cluster = cluster
        self._topics = topics
        self._moves = moves
        self._owner = owner
        self._offers = offers
        self._copies = copies
        self._copies_at_once = copies_at_once
        self._failures: dict[int, tuple[int, float]] = {}
        """Copies that failed, by topic id: how often one after the other, and the time of the next attempt."""
        self._clock = clock
        self._on_fenced = on_fenced
        self._reconciler = Reconciler(clock, self._reconcile, "topics of this broker are not where they should be")
        self._tasks = TaskScope("placement")
        self._changed: set[int] = set()
        """Ids of topics whose next action is not known."""
        self._due: dict[Action, dict[int, None]] = {action: {} for action in Action}
        """Ids of topics by their next action, in the order in which it is taken."""
        self._running: dict[int, Action] = {}
        """Releases and copies that are under way, by topic id."""
        self._deleted: dict[int, TopicRecord] = {}
        """Topics that the metadata does not have any more, by id, and that may be served here."""
        self._cut_off = ClientDrain(Cause.CUT_OFF, "this broker")
        offers.on_resume(self._wake_all)
        cluster.topics.on_change(self._topic_changed)
        cluster.registry.on_change(self._wake_all)
        cluster.keeper.on_change(self._lease_changed)

    def start(self) -> None:
        """Begin; `close` ends it."""
        self._tasks.spawn(self._reconciler.run(), "placement")
        self._tasks.spawn(self._wake_on_time(), "placement timer")
        self._tasks.spawn(self._sweep_unowned(), "sweep logs of other brokers")
        self._wake_all()

    async def close(self) -> None:
        """Open and release nothing any more. Idempotent."""
        await self._tasks.close()

    async def leave(self) -> None:
        """Have the others serve what this broker can release, before it stops: for LEAVE_TIMEOUT_S at most."""
        cluster = self._cluster
        brokers, own_id = cluster.topics.brokers, cluster.topics.own_id
        takers = [each for each, drain in brokers.items() if drain is None and each != own_id]
        if not takers or not cluster.keeper.lease_id:
            return
        try:
            async with asyncio.timeout(LEAVE_TIMEOUT_S):
                await cluster.announce_leave()
                while any(not self._stays(topic.record) for topic in self._topics) or self._topics.unloaded:
                    await sleep_for(self._clock, LEAVE_LOOK_S)
        except TimeoutError:
            _log.warning("%d topics of this broker are left to be taken over: the time is up", len(self._topics))
        except DanubeError as error:
            _log.warning("topics of this broker are left to be taken over: %s", error)

    async def _wake_on_time(self) -> None:
        while True:
            await sleep_for(self._clock, PLACEMENT_INTERVAL_S)
            self._wake_all()

    def _wake(self, topic_id: int) -> None:
        self._changed.add(topic_id)
        self._reconciler.wake()

    def _wake_all(self) -> None:
        """Have every topic looked at that this broker does not serve, own and keep."""
        topics, own_id = self._cluster.topics.ownerships, self._cluster.topics.own_id
        owned, served = topics.owned_by(own_id), {topic.record.topic_id for topic in self._topics}
        self._changed |= (owned ^ topics.assigned_to(own_id)) | (owned ^ served)
        self._reconciler.wake()

    async def _sweep_unowned(self) -> None:
        """Now and then: files of topics that were carried away while this broker did not run, or not to the end."""
        while True:
            try:
                await self._owner.sweep_unowned(self._cluster.topics)
            except DanubeError as error:
                _log.warning("logs of other brokers' topics cannot be looked for: %s", error)
            await sleep_for(self._clock, UNOWNED_LOGS_LOOK_S)

    def _topic_changed(self, before: TopicRecord | None, after: TopicRecord | None) -> None:
        if before is not None and (after is None or after.topic_id != before.topic_id):
            self._deleted[before.topic_id] = before
        if after is not None:
            self._topics.follow_topic(after)
            self._changed.add(after.topic_id)
        self._reconciler.wake()

    def _lease_changed(self) -> None:
        """Without a lease others may serve this broker's topics: it takes no messages for them until it has one."""
        if self._cluster.keeper.lease_id:
            self._resume_publishes()
        else:
            for topic in self._topics:
                if topic.drain is None and not self._stays(topic.record):
                    topic.refuse_publishes(self._cut_off)
        self._wake_all()

    def _resume_publishes(self) -> None:
        for topic in self._topics:
            if topic.drain is self._cut_off:
                topic.accept_publishes()

    def _stays(self, record: TopicRecord) -> bool:
        """True for a topic that no other broker takes over while this one is away."""
        topic = self._cluster.topics.ownership(record)
        return topic.is_pinned or topic.waits_for_owner(self._cluster.topics.mode)

    async def _reconcile(self) -> None:
        try:
            await self._act()
        except BaseException:  # of the topics that it was about, some may have no action noted any more
            self._wake_all()
            raise

    async def _act(self) -> None:
        await self._owner.check_fence(self._on_fenced)
        await self._close_deleted()
        await self._drain_moved()
        self._find_due()
        for record in self._next(Action.CLOSE):
            _log.info("%s is another broker's by now, and is closed here", record.name)
            await self._moves.close_lost(record.name)
        if not self._cluster.keeper.lease_id:  # the others take this broker for dead
            return
        for action, at_once_max, work in (
            (Action.RELEASE, RELEASES_AT_ONCE_MAX, self._release),
            (Action.COPY, self._copies_at_once, self._copy),
        ):
            for record in self._next(action, at_once_max - [*self._running.values()].count(action)):
                self._running[record.topic_id] = action
                self._tasks.spawn(work(record), f"{action.value} {record.name}")
        await self._open([*self._next(Action.OPEN), *self._next(Action.RESUME)])

    def _find_due(self) -> None:
        """Sort the topics that changed by their next action."""
        while self._changed:
            topic_id = self._changed.pop()
            for due in self._due.values():
                due.pop(topic_id, None)
            self._due[self._action(topic_id)][topic_id] = None
        self._due[Action.NOTHING].clear()

    def _next(self, action: Action, count: int | None = None) -> list[TopicRecord]:
        """The next topics that an action is due for; all of them if `count` is None."""
        due, found = self._due[action], list[TopicRecord]()
        for topic_id in list(islice(due, count if count is None else max(0, count))):
            del due[topic_id]
            if self._action(topic_id) is action:
                found.append(self._cluster.topics.record_of(topic_id))
            else:
                self._wake(topic_id)
        return found

    def _action(self, topic_id: int) -> Action:
        """The next action for a topic, by what this broker knows now; none while an earlier one is not finished."""
        topics = self._cluster.topics
        if (name := topics.name_of(topic_id)) is None:
            return Action.NOTHING
        served = self._topics.find(str(name))
        if served and served.record.topic_id != topic_id:
            return Action.NOTHING
        if topic_id in self._running or self._offers.is_paused(topic_id):
            return Action.NOTHING
        if self._failures.get(topic_id, (0, 0.0))[1] > self._clock.monotonic_s():
            return Action.NOTHING
        return next_action(
            topics.ownerships[topic_id],
            own_id=topics.own_id,
            is_served=served is not None,
            running=self._cluster.registry,
            mode=topics.mode,
        )

    async def _open(self, records: Sequence[TopicRecord]) -> None:
        if not records:
            return
        owned = await self._owner.acquire(records, lambda owner: self._cluster.registry.find(owner) is None)
        for record in records:
            if record.topic_id in owned:
                try:
                    await self._moves.open_owned(record)
                except TopicExistsError:  # it was created here, and opened, meanwhile
                    continue
                _log.info("%s is served here now", record.name)
        for topic_id in {record.topic_id for record in records} - owned:
            self._wake(topic_id)

    async def _release(self, record: TopicRecord) -> None:
        try:
            await self._owner.release(record, lambda: self._stop(record))
            _log.info("%s is released, for broker %d", record.name, record.broker)
        except DanubeError as error:
            _log.warning("%s could not be released, which is tried again: %s", record.name, error)
            await sleep_for(self._clock, PLACEMENT_RETRY_S)
        except Exception:
            _log.exception("the release of %s met a fault of its own, and is tried again", record.name)
            await sleep_for(self._clock, PLACEMENT_INTERVAL_S)
        finally:
            self._running.pop(record.topic_id, None)
            self._wake(record.topic_id)

    async def _copy(self, record: TopicRecord) -> None:
        try:
            await self._copies.copy(record)
            await self._moves.open_owned(record)
            self._failures.pop(record.topic_id, None)
            _log.info("%s is served here now, with its log", record.name)
        except DanubeError as error:
            await self._copy_failed(record, error)
        except Exception:
            _log.exception("the copy of the log of %s met a fault of its own, and is tried again", record.name)
            self._failures[record.topic_id] = 0, self._clock.monotonic_s() + CARRY_RETRY_S_MAX
        finally:
            self._running.pop(record.topic_id, None)
            self._wake(record.topic_id)
        if record.topic_id in self._failures:
            await self._clock.sleep_until(self._failures[record.topic_id][1])
            self._wake(record.topic_id)

    async def _copy_failed(self, record: TopicRecord, error: DanubeError) -> None:
        """Try again after a while that grows, unless the topic goes elsewhere: then what was copied is removed."""
        if not self._cluster.topics.is_assigned_here(record):
            self._failures.pop(record.topic_id, None)
            _log.info("the log of %s is not copied here any more: %s", record.name, error)
            try:
                await self._owner.abandon([record.topic_id])
            except DanubeError as failure:
                _log.warning("what was copied of %s is removed later: %s", record.name, failure)
            return
        count = self._failures.get(record.topic_id, (0, 0.0))[0]
        wait_s = min(PLACEMENT_RETRY_S * 2**count, CARRY_RETRY_S_MAX)
        self._failures[record.topic_id] = count + 1, self._clock.monotonic_s() + wait_s
        _log.warning(
            "the log of %s could not be copied here, and its owner serves it: %s. The next attempt is in %d s",
            record.name,
            error,
            wait_s,
        )

    async def _stop(self, record: TopicRecord) -> dict[int, Cursor]:
        """End the service of a topic. Its cursors are durable then, so that none are left to be written."""
        try:
            await self._moves.unload(record.name)
        except TopicNotServedError:
            _log.debug("%s was stopped before", record.name)
        return {}

    async def _close_deleted(self) -> None:
        while self._deleted:
            topic_id, record = next(iter(self._deleted.items()))
            served = self._topics.find(str(record.name))
            if served is not None and served.record.topic_id == topic_id:
                if await self._owner.is_kept(topic_id):
                    await self._moves.close_lost(record.name)
                else:
                    await self._moves.close_deleted(record.name)
            elif self._cluster.topics.find(str(record.name)) is None:
                if self._topics.is_unloaded(record.name):
                    self._owner.forget(topic_id)
                self._topics.forget_unloaded(record.name)
                self._moves.reopened(record.name)
            self._deleted.pop(topic_id, None)
            if (anew := self._cluster.topics.find(str(record.name))) is not None:
                self._wake(anew.topic_id)

    async def _drain_moved(self) -> None:
        """Drain the clients of topics that have left, and remove what is left of them: a lookup finds them now."""
        topics = self._cluster.topics
        for name in self._topics.unloaded:
            record = topics.find(str(name))
            if record is not None and topics.ownership(record).owner in self._others():
                self._topics.forget_unloaded(name)
                self._moves.reopened(name)
                self._offers.forget(record.topic_id)
                await self._owner.abandon([record.topic_id])

    def _others(self) -> set[int]:
        return self._cluster.registry.brokers.keys() - {self._cluster.topics.own_id}
