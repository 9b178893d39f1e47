"""Reading a system topic: the newest messages since a time, from the port for clients of the broker that serves it."""

from collections import deque
from collections.abc import Sequence

from danube.admin.gateway import SystemRecord
from danube.admin.grpc_gateway.broker_connection import BrokerConnection
from danube.client.connection import paths
from danube.client.consume.fetch import batch_messages
from danube.model.calls.stream import Bounds, Fetch, TopicBounds
from danube.model.limits.broker import ADMIN_SYSTEM_READ_BYTES_MAX
from danube.model.topic import TopicName
from danube.wire import client_messages, decode


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
