"""The connection of a client to its cluster: channels, lookups, and the calls that producers and consumers share."""

import asyncio
import contextlib
import itertools
import logging
import math
from collections import OrderedDict
from collections.abc import Sequence
from typing import Protocol

from danube.client.connection import paths
from danube.client.connection.paths import BrokerAddress
from danube.client.connection.session import Link
from danube.client.settings import TokenSupplier
from danube.model.address import host_and_port
from danube.model.calls.client import FOLLOWS_MOVES_KEY, ClientKind, HealthCheck, HealthStatus, Lookup, LookupKind
from danube.model.errors import (
    BrokerUnreachableError,
    DanubeError,
    DeadlineExceededError,
    UnrecoverableError,
    UnsupportedError,
)
from danube.model.errors import LookupError as TopicLookupError
from danube.model.limits.broker import (
    CALL_TIMEOUT_S,
    CLIENT_CHANNELS_MAX,
    CLIENT_DETACH_TIMEOUT_S,
    CONNECT_TIMEOUT_S,
)
from danube.model.topic import TopicName
from danube.rpc.carrier import Carrier, Channel, ClientStream, NotConnectedError
from danube.runtime.clock import Clock
from danube.runtime.rng import Rng
from danube.wire import client_messages

_PROXY_KEY = "x-danube-broker-url"  # names the broker that a call is for to a proxy
_TOKEN_KEY = "authorization"  # noqa: S105 - the name of the entry, not a secret

_log = logging.getLogger(__name__)


class Closing(Protocol):
    """A producer or consumer, which a client closes with itself."""

    async def end(self, *, in_order: bool) -> None:
        """Stop and release everything; not `in_order` where the application failed. Idempotent."""


class Connection:
    """One client's way to the cluster, with one channel for each pair of broker and dialled address."""

    def __init__(
        self, service_urls: Sequence[str], carrier: Carrier, clock: Clock, rng: Rng, token: TokenSupplier | None = None
    ) -> None:
        self.service_url = service_urls[0]
        self._known_urls: dict[str, None] = dict.fromkeys(service_urls)
        """Brokers that can be asked: those given, and those that lookups named. At most CLIENT_CHANNELS_MAX."""
        self._silent_urls: set[str] = set()
        """Those of them that did not answer in time when they were asked last."""
        self.clock = clock
        self.rng = rng
        self.members: set[Closing] = set()
        """The attached producers and consumers."""
        self._carrier = carrier
        self._token = token
        self._channels: OrderedDict[tuple[str, str], Channel] = OrderedDict()
        self._request_ids = itertools.count(1)
        self._without_streams: set[str] = set()
        """URLs of brokers that take no batches, such as the original's. At most CLIENT_CHANNELS_MAX."""
        self._loop: asyncio.AbstractEventLoop | None = None
        """The event loop that it is used in."""
        self.stream_bytes_max = math.inf
        """Batches sent on one stream before another one is opened: less where a proxy ended a stream for its size."""
        self._closed = False

    def check_loop(self) -> None:
        """Raise UnrecoverableError in another event loop than that of the first call: nothing would ever answer."""
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
        elif self._loop is not loop:
            raise UnrecoverableError(
                "the client belongs to the event loop that it was built in, and this call runs in another one: build a"
                " client in each event loop (each asyncio.run is one), or use danube.sync"
            )

    async def call(
        self, address: BrokerAddress, path: str, request: bytes, *, timeout_s: float = CALL_TIMEOUT_S
    ) -> bytes:
        """One unary call to the broker at `address`. Raises DanubeError."""
        channel = await self._channel(address)
        return await channel.call(path, request, timeout_s=timeout_s, metadata=self._metadata(address))

    async def call_any(self, path: str, request: bytes) -> bytes:
        """One unary call to the broker at the service URL; to others while no connection to it can be made."""
        *others, last = [self.service_url, *(known for known in self._known_urls if known != self.service_url)]
        for url in others:
            with contextlib.suppress(NotConnectedError):
                return await self.call(BrokerAddress.direct(url), path, request)
        return await self.call(BrokerAddress.direct(last), path, request)

    async def open_stream(self, address: BrokerAddress, path: str, request: bytes) -> ClientStream:
        """A stream of answers from the broker at `address`."""
        channel = await self._channel(address)
        return channel.server_stream(path, request, metadata=[*self._metadata(address), (FOLLOWS_MOVES_KEY, "yes")])

    async def open_exchange(self, address: BrokerAddress, path: str) -> ClientStream:
        """A stream with messages both ways with the broker at `address`."""
        channel = await self._channel(address)
        return channel.stream(path, metadata=[*self._metadata(address), (FOLLOWS_MOVES_KEY, "yes")])

    async def locate(self, topic: TopicName, url: str | None = None) -> BrokerAddress:
        """The broker that serves `topic`, according to the one at `url`; the service URL by default.

        Not cached: only a move makes the answer matter. Raises DanubeError.
        """
        url = url or self.service_url
        answer = client_messages.LOOKUP_ANSWER.decode(await self._look_up(paths.TOPIC_LOOKUP, url, topic))
        if not answer.proxy and answer.connect_url and len(self._known_urls) < CLIENT_CHANNELS_MAX:
            self._known_urls[answer.connect_url] = None
        if answer.kind is LookupKind.FAILED or not answer.connect_url:
            raise TopicLookupError(f"the broker at {url} cannot say who serves {topic}: try again later")
        return BrokerAddress(answer.connect_url, answer.broker_url, answer.proxy)

    async def leave_silent(self, topic: TopicName, address: BrokerAddress) -> bool:
        """Leave a broker that does not answer, if another one serves the topic by now; answers True if so.

        Other brokers are asked. What waits for an answer of the silent one fails then, for all topics of this client.
        """
        for url in [known for known in self._known_urls if known != address.connect_url]:
            try:
                found = await self.locate(topic, url)
            except DanubeError:
                continue
            if found.broker_url != address.broker_url:
                self._silent_urls.add(address.connect_url)
                channel = self._channels.pop((address.broker_url, address.connect_url), None)
                if channel is not None:
                    await channel.close(f"{address.broker_url} does not answer, and another broker has {topic}")
                return True
        return False

    async def partitions(self, topic: TopicName) -> tuple[TopicName, ...]:
        """The topics behind a name: itself, its partitions, or nothing. Raises DanubeError."""
        answer = await self._look_up(paths.TOPIC_PARTITIONS, self.service_url, topic)
        return client_messages.PARTITIONS_ANSWER.decode(answer).partitions

    async def base_of(self, topic: TopicName) -> TopicName:
        """The partitioned topic that this is a partition of; the topic itself where it is none. Raises DanubeError."""
        base = topic.base_by_form
        return base if base is not None and topic in await self.partitions(base) else topic

    async def check_health(self, kind: ClientKind, link: Link) -> HealthStatus:
        """Ask the link's broker whether the link is still valid. Raises DanubeError."""
        call = HealthCheck(request_id=next(self._request_ids), client=kind, id=link.member_id)
        request = client_messages.HEALTH_CHECK.encode(call)
        answer = await self.call(link.address, paths.HEALTH_CHECK, request, timeout_s=CONNECT_TIMEOUT_S)
        return client_messages.HEALTH_STATUS.decode(answer)

    def refuse_without_streams(self, address: BrokerAddress) -> None:
        """Raise UnsupportedError for a broker that is known to take no batches."""
        if address.broker_url in self._without_streams:
            raise UnsupportedError(f"the broker at {address.broker_url} takes no batches: send single messages")

    def mark_without_streams(self, address: BrokerAddress) -> None:
        """Remember that this broker takes no batches."""
        if len(self._without_streams) >= CLIENT_CHANNELS_MAX:
            self._without_streams.clear()
        self._without_streams.add(address.broker_url)

    async def close_producer(self, link: Link) -> None:
        """Tell the link's broker that a producer is closed. Raises nothing: a broker without notice finds out later."""
        if link.address.broker_url in self._without_streams:
            return
        request = client_messages.CLOSE_PRODUCER.encode(link.member_id)
        try:
            await self.call(link.address, paths.CLOSE_PRODUCER, request, timeout_s=CLIENT_DETACH_TIMEOUT_S)
        except Exception as error:  # the application's token supplier may raise anything
            _log.debug("the broker was not notified that a producer is closed, and will find out: %s", error)

    async def close(self) -> None:
        """Disconnect from every broker. Idempotent."""
        self.check_loop()
        self._closed = True
        while self._channels:
            _, channel = self._channels.popitem()
            await channel.close()

    async def _look_up(self, path: str, url: str, topic: TopicName) -> bytes:
        """Ask the broker at `url`, and others while that one cannot be reached: each knows the whole cluster.

        Those that did not answer when they were asked last are asked last.
        """
        request = client_messages.LOOKUP.encode(Lookup(request_id=next(self._request_ids), topic=topic))
        urls = [url, *(known for known in self._known_urls if known != url)]
        *others, last = sorted(urls, key=lambda each: each in self._silent_urls)
        for each in others:
            with contextlib.suppress(BrokerUnreachableError, DeadlineExceededError):
                return await self._ask(each, path, request)
        return await self._ask(last, path, request)

    async def _ask(self, url: str, path: str, request: bytes) -> bytes:
        try:
            answer = await self.call(BrokerAddress.direct(url), path, request, timeout_s=CONNECT_TIMEOUT_S)
        except DeadlineExceededError:
            if url in self._known_urls:
                self._silent_urls.add(url)
            raise
        self._silent_urls.discard(url)
        return answer

    def _metadata(self, address: BrokerAddress) -> Sequence[tuple[str, str]]:
        metadata = []
        if self._token is not None and (token := self._token()):
            metadata.append((_TOKEN_KEY, f"Bearer {token}"))
        if address.proxy:
            metadata.append((_PROXY_KEY, address.broker_url))
        return metadata

    async def _channel(self, address: BrokerAddress) -> Channel:
        self.check_loop()
        key = (address.broker_url, address.connect_url)
        if key in self._channels:
            self._channels.move_to_end(key)
            return self._channels[key]
        if self._closed:
            raise UnrecoverableError("the client is closed: build another one")
        channel = self._channels[key] = self._carrier.connect(host_and_port(address.connect_url))
        if len(self._channels) > CLIENT_CHANNELS_MAX:
            _, oldest = self._channels.popitem(last=False)
            await oldest.close()
        return channel
