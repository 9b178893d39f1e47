"""Clients connected to a topic: listing and disconnecting them."""

from collections.abc import Iterator

from danube.broker.clients.consumers import Consumers
from danube.broker.clients.producers import Producers
from danube.broker.control.topics import served_topic
from danube.broker.topics.drain import Cause, ClientDrain
from danube.broker.topics.local_topics import Topics
from danube.broker.topics.topic import AnyTopic
from danube.model.calls.positions import Connection, DisconnectClient
from danube.model.errors import NotFoundError, PreconditionFailedError
from danube.model.limits.broker import CONNECTIONS_SHOWN_MAX
from danube.model.topic import TopicName


class Connections:
    """The clients of this broker's topics."""

    def __init__(self, topics: Topics, producers: Producers, consumers: Consumers) -> None:
        self._topics = topics
        self._producers = producers
        self._consumers = consumers

    def list(self, name: TopicName) -> tuple[tuple[Connection, ...], int]:
        """At most CONNECTIONS_SHOWN_MAX clients of a topic, or of all partitions of a base name, and their count.

        Raises TopicNotFoundError.
        """
        found = [each for topic in self._topics.behind(name) for each in self._of(topic)]
        found.sort(key=lambda each: (each.subscription is None, each.topic, each.subscription or "", each.name))
        return tuple(found[:CONNECTIONS_SHOWN_MAX]), len(found)

    def disconnect(self, wanted: DisconnectClient) -> None:
        """Disconnect one client; one that runs connects again by itself.

        A consumer gets no further messages, its unacknowledged ones go to others, and its place is free at once. Its
        stream ends after it was sent CLOSE. A producer is detached.

        Raises:
            TopicNotFoundError.
            NotFoundError: no such client is connected to the topic.
            PreconditionFailedError: the producer has a stream of batches open.
        """
        topic = served_topic(self._topics, wanted.topic)
        for subscription in topic.subscriptions.values():
            for consumer in subscription.consumers.values():
                if consumer.consumer_id == wanted.client_id and consumer.stream is not None:
                    self._consumers.disconnect(subscription, consumer, ClientDrain(Cause.DISCONNECTED, topic.name))
                    return
        for session in self._producers.attached_to(topic):
            if session.producer_id == wanted.client_id:
                if session.streams:
                    raise PreconditionFailedError(f"producer {session.name!r} has a stream of batches open: stop it")
                self._producers.disconnect(session)
                return
        raise NotFoundError(f"client {wanted.client_id} is not connected to {topic.name}: list its connections")

    def _of(self, topic: AnyTopic) -> Iterator[Connection]:
        name = topic.record.name
        for subscription in topic.subscriptions.values():
            for consumer in subscription.consumers.values():
                if consumer.stream is not None:
                    conflict = self._consumers.conflict_of(consumer)
                    yield Connection(
                        topic=name,
                        client_id=consumer.consumer_id,
                        name=consumer.name,
                        subscription=subscription.record.name,
                        takeovers=conflict.takeovers,
                        held_off=conflict.held_off,
                        rival=conflict.rival,
                    )
        for session in self._producers.attached_to(topic):
            yield Connection(topic=name, client_id=session.producer_id, name=session.name, subscription=None)
