"""Moves: unloading topics and opening them again, and draining the clients of deleted and moved ones.

A topic that moves is served by no broker for a moment. Its consumers are drained when it is served again, and not
before: after CLOSE, official clients look for it for three seconds and then end. Until then their streams are silent.
"""

from collections.abc import Iterable

from danube.broker.clients.consumers import Consumers
from danube.broker.clients.producers import Producers
from danube.broker.topics.drain import Cause, ClientDrain
from danube.broker.topics.local_topics import Topics
from danube.broker.topics.topic import AnyTopic
from danube.metadata.records.catalog import TopicRecord
from danube.model.errors import PreconditionFailedError
from danube.model.limits.broker import MOVE_WAIT_S
from danube.model.records.analytics import ANALYTICS_TOPIC
from danube.model.topic import TopicName
from danube.runtime.clock import Clock, TimerHandle

_SYSTEM = "system"


class Moves:
    """Unloads topics of this broker, and opens them again."""

    def __init__(self, topics: Topics, producers: Producers, consumers: Consumers, clock: Clock) -> None:
        self.topics = topics
        self._producers = producers
        self._consumers = consumers
        self._clock = clock
        self._unloaded: dict[str, tuple[AnyTopic, TimerHandle]] = {}
        """Unloaded topics whose clients are not drained yet, for MOVE_WAIT_S at most."""

    def drain_clients(self, topics: Iterable[AnyTopic], cause: Cause) -> None:
        """Refuse publishes to these topics, stop their delivery, and drain all their clients.

        It returns at once: accepted messages are still stored and answered, and each consumer's stream ends after its
        client got CLOSE, in DRAIN_WAIT_S + DRAIN_END_S at most.
        """
        for topic in topics:
            drain = ClientDrain(cause, f"topic {topic.name}")
            if not topic.is_closed:
                topic.close(drain)
            self._producers.drain_topic(topic, drain)
            self._consumers.drain_topic(topic, drain)

    async def unload(self, name: TopicName) -> None:
        """Stop serving a topic, for good or until `open_again`: nothing acknowledged is lost, offsets continue.

        It returns when accepted messages are settled and cursors are durable: the next owner may open the topic. Its
        clients stay until `reopened`; what they have not acknowledged is delivered again.

        Raises:
            TopicNotFoundError, TopicNotServedError.
            PreconditionFailedError: a broker's own topics stay with it.
            UnavailableError: the journal makes no progress, and the topic is served as before.
        """
        if name.namespace == _SYSTEM and name != ANALYTICS_TOPIC:
            raise PreconditionFailedError(f"{name} is written by this broker itself and stays with it")
        topic = self.topics.get(name)
        try:
            topic = await self.topics.unload(name, ClientDrain(Cause.MOVED, f"topic {name}"))
        finally:  # a cancel at the last step comes after the unload
            if self.topics.is_unloaded(name) and topic.name not in self._unloaded:
                timer = self._clock.call_at(self._clock.monotonic_s() + MOVE_WAIT_S, lambda: self.reopened(name))
                self._unloaded[topic.name] = topic, timer

    def reopened(self, name: TopicName) -> None:
        """Drain the clients of an unloaded topic that is served again and that lookups find. Idempotent."""
        topic, timer = self._unloaded.pop(str(name), (None, None))
        if timer is not None:
            timer.cancel()
        if topic is not None:
            self.drain_clients([topic], Cause.MOVED)

    def go_down(self) -> None:
        """Drain all clients of a broker that shuts down."""
        leaving = [topic for topic, _ in self._unloaded.values()]
        for _, timer in self._unloaded.values():
            timer.cancel()
        self._unloaded.clear()
        self.drain_clients([*self.topics, *leaving], Cause.GOING_DOWN)

    async def open_again(self, name: TopicName) -> None:
        """Serve an unloaded topic under a new epoch; its former producers and consumers may continue.

        Raises TopicExistsError for a served topic, TopicNotFoundError for a deleted one.
        """
        await self.open_owned(await self.topics.acquire(name))

    async def open_owned(self, record: TopicRecord) -> None:
        """Serve a topic that this broker owns; its former producers and consumers may continue.

        Raises TopicExistsError, MetadataError.
        """
        topic = await self.topics.open_owned(record)
        self.reopened(record.name)
        await self._consumers.load_topic(topic)

    async def close_lost(self, name: TopicName) -> None:
        """Serve a topic no more that another broker owns by now, and drain its clients."""
        topic = await self.topics.close_lost(name, ClientDrain(Cause.MOVED, f"topic {name}"))
        if topic is not None:
            self.drain_clients([topic], Cause.MOVED)

    async def close_deleted(self, name: TopicName) -> None:
        """Serve a topic no more that metadata does not have any more, and drain its clients."""
        self.drain_clients(await self.topics.forget_deleted(name), Cause.DELETED)
