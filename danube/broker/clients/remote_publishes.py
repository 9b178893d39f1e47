"""Publishes of this broker to topics that other brokers serve, such as dead letters."""

from collections.abc import Callable

from danube.broker.ownership.cluster_topics import ClusterTopics
from danube.metadata.records.catalog import TopicRecord
from danube.model.address import host_and_port
from danube.model.calls.client import CreateProducer
from danube.model.errors import DanubeError, TopicNotServedError
from danube.model.limits.broker import CALL_TIMEOUT_S, REMOTE_PUBLISH_CHANNELS_MAX
from danube.model.topic import TopicName
from danube.rpc.carrier import Carrier, Channel
from danube.wire import client_messages


class RemotePublishes:
    """Publishes single messages, with one channel to each broker and one producer for each topic."""

    def __init__(self, carrier: Carrier, topics: ClusterTopics, producer_name: str) -> None:
        self._carrier = carrier
        self._topics = topics
        self._producer_name = producer_name
        self._channels: dict[str, Channel] = {}
        self._producers: dict[tuple[str, TopicName], int] = {}
        """Producer ids, by broker and topic."""

    async def publish(self, record: TopicRecord, encode: Callable[[int], bytes]) -> None:
        """Publish the StreamMessage that `encode` makes of a producer's id; it is stored when this returns.

        Raises DanubeError; whether the message was stored is unknown then.
        """
        server = self._topics.server_of(record)
        if server is None:
            raise TopicNotServedError(f"{record.name} is opened by this broker at the moment: try again")
        channel = await self._channel(host_and_port(server.broker_url))
        key = (server.broker_url, record.name)
        try:
            if key not in self._producers:
                self._producers[key] = await self._attach(channel, record)
            message = encode(self._producers[key])
            await channel.call("/danube.ProducerService/SendMessage", message, timeout_s=CALL_TIMEOUT_S)
        except DanubeError:
            self._producers.pop(key, None)  # the next try attaches anew
            raise

    async def close(self) -> None:
        """Disconnect from every broker. Idempotent."""
        while self._channels:
            _, channel = self._channels.popitem()
            await channel.close()

    async def _attach(self, channel: Channel, record: TopicRecord) -> int:
        wanted = CreateProducer(
            request_id=1, topic=record.name, producer_name=self._producer_name, strategy=record.strategy
        )
        request = client_messages.CREATE_PRODUCER.encode(wanted)
        answer = await channel.call("/danube.ProducerService/CreateProducer", request, timeout_s=CALL_TIMEOUT_S)
        return client_messages.PRODUCER_CREATED.decode(answer).producer_id

    async def _channel(self, address: str) -> Channel:
        if address not in self._channels:
            if len(self._channels) >= REMOTE_PUBLISH_CHANNELS_MAX:
                await self.close()
                self._producers.clear()
            self._channels[address] = self._carrier.connect(address)
        return self._channels[address]
