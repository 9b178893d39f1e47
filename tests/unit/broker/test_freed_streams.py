"""Streams of consumers and readers, over gRPC: what the broker had of one that has ended is freed at once."""

import gc
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from weakref import WeakSet

import pytest

from danube.broker.app import Broker
from danube.broker.clients.fetch import FetchSession
from danube.broker.config.settings import BrokerSettings
from danube.broker.services.consume import ReceiveStream
from danube.broker.services.stream import FetchStream
from danube.model.calls.stream import Fetch, FetchFrom
from danube.model.errors import ConsumerNotFoundError
from danube.model.topic import TopicName
from danube.rpc.carrier import Channel
from danube.rpc.grpc.carrier import GrpcCarrier
from danube.rpc.grpc.server import GrpcServerStream
from danube.runtime.clock import SystemClock
from danube.testing.peers.client import Peer
from danube.testing.peers.stream import FETCH
from danube.wire import client_messages
from tests.unit.freed import Freed, uncollected

KINDS = (GrpcServerStream, ReceiveStream, FetchStream, FetchSession)
PAYLOADS = [bytes(512 * 1024)] * 6


@pytest.fixture(autouse=True)
def _without_collection() -> Iterator[None]:
    with uncollected():
        yield


@pytest.fixture(params=[0, 1_000], ids=["no rate", "a dispatch rate"])
async def peer(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Peer]:
    """A client of a broker whose topic has more stored than a stream queues."""
    settings: dict[str, Any] = {"broker_addr": "127.0.0.1:0", "admin_addr": "127.0.0.1:0"}
    settings |= {"data_dir": tmp_path / "data", "max_subscription_dispatch_rate": request.param}
    async with AsyncExitStack() as parts:
        broker = await Broker.start(BrokerSettings.model_validate(settings))
        parts.push_async_callback(broker.stop)
        channel = GrpcCarrier(SystemClock()).connect(broker.addresses.broker)
        parts.push_async_callback(channel.close)
        yield Peer(channel)


async def stalled_consumer(peer: Peer, topic: TopicName) -> Callable[[], None]:
    inbox = await peer.receive(await peer.subscribe(topic))
    await send_all(peer, topic)
    await inbox.next()
    return inbox.close


async def consumer_that_is_taken_over(peer: Peer, topic: TopicName) -> Callable[[], None]:
    identity = await peer.subscribe(topic)
    first = await peer.receive(identity)
    await send_all(peer, topic)
    second = await peer.receive(identity)
    await second.next()

    def close() -> None:
        first.close()
        second.close()

    return close


async def consumer_that_is_not_known(peer: Peer, topic: TopicName) -> Callable[[], None]:
    with pytest.raises(ConsumerNotFoundError):
        await (await peer.receive(7)).next()
    return lambda: None


async def stalled_reader(peer: Peer, topic: TopicName) -> Callable[[], None]:
    await send_all(peer, topic)
    wanted = client_messages.FETCH.encode(Fetch(topic=topic, start=FetchFrom.EARLIEST, follow=True))
    stream = channel_of(peer).server_stream(FETCH, wanted)
    assert await stream.receive()
    return stream.cancel


async def send_all(peer: Peer, topic: TopicName) -> None:
    producer = await peer.create_producer(topic)
    for payload in PAYLOADS:
        await peer.send(topic, producer, payload)


def channel_of(peer: Peer) -> Channel:
    return peer.channel


def streams() -> Iterator[object]:
    return (each for each in gc.get_objects() if isinstance(each, KINDS))


@pytest.mark.parametrize(
    "begin", [stalled_consumer, consumer_that_is_taken_over, consumer_that_is_not_known, stalled_reader]
)
async def test_nothing_is_left_of_a_stream_that_has_ended(
    peer: Peer, topic: TopicName, begin: Callable[[Peer, TopicName], Coroutine[Any, Any, Callable[[], None]]]
) -> None:
    others = WeakSet(streams())  # of earlier tests, whose errors have tracebacks and are parameters of tests
    await peer.create_producer(topic)
    close = await begin(peer, topic)
    freed = Freed()
    freed.watch(*(each for each in streams() if each not in others))
    close()
    await freed.all(0)
