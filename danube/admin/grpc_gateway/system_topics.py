"""Reading a system topic: the newest messages since a time, from the port for clients of the broker that serves it."""

import asyncio
from abc import abstractmethod
from collections import deque
from collections.abc import Sequence

from danube.admin.gateway import SystemRecord
from danube.admin.grpc_gateway.broker_connection import BrokerConnection, ConnectionPool
from danube.admin.grpc_gateway.calls import AdminCalls
from danube.client.connection import paths
from danube.client.consume.fetch import batch_messages
from danube.model.calls.admin import BrokerDescription, TopicDetails, TopicInfo
from danube.model.calls.stream import Bounds, Fetch, TopicBounds
from danube.model.errors import DeadlineExceededError, TopicNotFoundError, UnavailableError
from danube.model.limits.broker import ADMIN_SYSTEM_READ_BYTES_MAX
from danube.model.topic import TopicName
from danube.wire import client_messages, decode


class SystemTopicCalls:
    """The calls of `AdminGateway` about system topics."""

    _pool: ConnectionPool
    _calls: AdminCalls

    @abstractmethod
    async def describe_broker(self) -> BrokerDescription: ...

    @abstractmethod
    async def topic(self, topic: TopicName) -> TopicDetails: ...

    @abstractmethod
    async def topics(self, namespace: str) -> Sequence[TopicInfo]: ...

    @abstractmethod
    async def _require_ours(self, act: str) -> None: ...

    async def system_records(self, topic: TopicName, *, since_ms: int, limit: int) -> Sequence[SystemRecord]:
        await self._require_ours("tell what it publishes about itself")
        try:
            return await self._system_records(topic, since_ms=since_ms, limit=limit)
        except TopicNotFoundError:  # in a cluster each broker has a partition of its own
            infos = [info for info in await self.topics(topic.namespace) if info.base == topic]
        share = limit // max(1, len(infos))
        found = await asyncio.gather(*(self._if_served(info.topic, since_ms, share) for info in infos))
        full = [index for index, records in enumerate(found) if len(records) == share]
        spare = limit - sum(map(len, found))
        if full and spare >= len(full):  # others, such as old ones that nobody writes any more, have less
            more = share + spare // len(full)
            again = await asyncio.gather(*(self._if_served(infos[index].topic, since_ms, more) for index in full))
            for index, records in zip(full, again, strict=True):
                found[index] = records
        return [record for records in found for record in records]

    async def _if_served(self, topic: TopicName, since_ms: int, limit: int) -> Sequence[SystemRecord]:
        try:
            return await self._system_records(topic, since_ms=since_ms, limit=limit)
        except (TopicNotFoundError, UnavailableError, DeadlineExceededError):  # a broker that does not run says nothing
            return ()

    async def _system_records(self, topic: TopicName, *, since_ms: int, limit: int) -> Sequence[SystemRecord]:
        broker = self._pool.to(await self._client_url(topic))
        return await read_system_topic(broker, topic, since_ms=since_ms, limit=limit)

    async def _client_url(self, topic: TopicName) -> str:
        """The URL at which clients dial the broker that serves a topic."""
        broker_id = (await self.topic(topic)).info.broker_id
        description = await self.describe_broker()
        if broker_id in {None, description.info.broker_id}:
            return description.connect_url
        urls = {info.broker_id: info.broker_url for info in await self._calls.running()}
        return urls.get(broker_id or "", description.connect_url)


async def read_system_topic(
    broker: BrokerConnection, topic: TopicName, *, since_ms: int, limit: int
) -> Sequence[SystemRecord]:
    """The newest `limit` messages appended since then, in order, within ADMIN_SYSTEM_READ_BYTES_MAX.

    What is older than that many messages is not read at all. Raises DanubeError.
    """
    wanted = Bounds(topic=topic, append_times_ms=(since_ms,))
    bounds = await broker.ask(paths.BOUNDS, client_messages.BOUNDS, wanted, client_messages.TOPIC_BOUNDS)
    first = _first(bounds, limit)
    if first >= bounds.end_offset:
        return ()
    return await _read(broker, Fetch(topic=topic, start=first, end=bounds.end_offset), bounds.end_offset - first)


def _first(bounds: TopicBounds, limit: int) -> int:
    of_time = bounds.offsets[0] if bounds.offsets else bounds.start_offset
    return max(of_time, bounds.end_offset - limit, bounds.start_offset)


async def _read(broker: BrokerConnection, wanted: Fetch, count: int) -> Sequence[SystemRecord]:
    records: deque[SystemRecord] = deque(maxlen=count)
    held_bytes = 0
    stream = broker.stream(paths.FETCH, client_messages.FETCH.encode(wanted))
    try:
        while (raw := await stream.receive()) is not None:
            for batch in decode.fetched(raw):
                for message in batch_messages(batch):
                    records.append(SystemRecord(offset=message.offset, payload=message.payload))
                    held_bytes += len(message.payload)
            while held_bytes > ADMIN_SYSTEM_READ_BYTES_MAX:
                held_bytes -= len(records.popleft().payload)
    finally:
        stream.cancel()
    return tuple(records)
