"""Topics that go, with all their clients: deleted, moved away, opened again, or left by a broker that ends.

A topic that moves is nowhere for a moment. Its consumers are sent away when it is served again, and not before: told
CLOSE, official clients look for it for three seconds and then end. Until then their streams are open and silent.
"""

from collections.abc import Iterable

from danube.broker.clients.consumers import Consumers
from danube.broker.clients.drain import Cause, ClientDrain
from danube.broker.clients.producers import Producers
from danube.broker.topics.local_topics import Topics
from danube.broker.topics.topic import AnyTopic
from danube.model.errors import PreconditionFailedError
from danube.model.limits.broker import MOVE_WAIT_S
from danube.model.topic import TopicName
from danube.runtime.clock import Clock, TimerHandle

_SYSTEM = "system"


class Moves:
    """Takes topics off this broker, and back on it."""

    def __init__(self, topics: Topics, producers: Producers, consumers: Consumers, clock: Clock) -> None:
        self._topics = topics
        self._producers = producers
        self._consumers = consumers
        self._clock = clock
        self._under_way: dict[str, tuple[AnyTopic, TimerHandle]] = {}
        """Topics that were unloaded, and whose clients are still here, until MOVE_WAIT_S at most."""

    def drain_clients(self, topics: Iterable[AnyTopic], cause: Cause) -> None:
        """Refuse publishes to these topics, deliver nothing of them any more, and send all their clients away.

        It returns at once: what was accepted is still stored and answered by the journal, and each consumer's stream
        ends when its client was told, in FAREWELL_WAIT_S + FAREWELL_END_S at most.
        """
        for topic in topics:
            drain = ClientDrain(cause, f"topic {topic.name}")
            if not topic.is_closed:
                topic.close(drain)
            self._producers.topic_closed(topic, drain)
            self._consumers.topic_closed(topic, drain)

    async def unload(self, name: TopicName) -> None:
        """Serve a topic no more, for good or until `open_again`: nothing acknowledged is lost, offsets go on.

        It returns when all that was accepted is settled and where subscriptions stand is durable: the next owner may
        begin. Its clients stay until `reopened`; what they have not acknowledged comes again.

        Raises:
            TopicNotFoundError, TopicNotServedError.
            PreconditionFailedError: a broker's own topics stay with it.
            UnavailableError: the journal does not get on, and the topic is served as before.
        """
        if name.namespace == _SYSTEM:
            raise PreconditionFailedError(f"{name} is written by this broker itself and stays with it")
        topic = self._topics.get(name)
        try:
            topic = await self._topics.unload(name, ClientDrain(Cause.MOVED, f"topic {name}"))
        finally:  # who cancels this at its last step has unloaded the topic
            if self._topics.is_remote(name) and topic.name not in self._under_way:
                timer = self._clock.call_at(self._clock.monotonic_s() + MOVE_WAIT_S, lambda: self.reopened(name))
                self._under_way[topic.name] = topic, timer

    def reopened(self, name: TopicName) -> None:
        """A topic that was unloaded is served again, and a lookup says where: send its clients there. Idempotent."""
        topic, timer = self._under_way.pop(str(name), (None, None))
        if timer is not None:
            timer.cancel()
        if topic is not None:
            self.drain_clients([topic], Cause.MOVED)

    def go_down(self) -> None:
        """The broker ends: send everybody away."""
        leaving = [topic for topic, _ in self._under_way.values()]
        for _, timer in self._under_way.values():
            timer.cancel()
        self._under_way.clear()
        self.drain_clients([*self._topics, *leaving], Cause.GOING_DOWN)

    async def open_again(self, name: TopicName) -> None:
        """Serve a topic that was unloaded, under a new epoch, to its producers and consumers of before and to others.

        Raises TopicExistsError for one that is served, TopicNotFoundError for one that is gone.
        """
        topic = await self._topics.open_again(name)
        self.reopened(name)
        await self._consumers.load_topic(topic)
