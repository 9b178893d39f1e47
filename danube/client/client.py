"""`DanubeClient` and its builder: the entry point of an application."""

import asyncio
import sys
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from danube.client.connection.connection import Connection
from danube.client.connectors import ConnectorClient
from danube.client.consume.consumer import ConsumerBuilder
from danube.client.consume.fetch import fetch_batches, fetch_messages, topic_bounds
from danube.client.message import Message
from danube.client.publish.producer import ProducerBuilder
from danube.client.schedules import ScheduleClient
from danube.client.schemas import SchemaRegistryClient
from danube.client.settings import TlsMaterial, TokenSupplier
from danube.model.address import host_and_port
from danube.model.calls.stream import Bounds, Fetch, FetchedBatch, FetchFrom, FetchStart, TopicBounds
from danube.model.errors import SettingsError
from danube.model.limits.broker import CLIENT_RETRY_TOTAL_S
from danube.model.topic import TopicName
from danube.rpc.carrier import Carrier
from danube.rpc.engines import ClientTls, client_carrier
from danube.runtime.clock import Clock, SystemClock
from danube.runtime.paths import expanded
from danube.runtime.rng import Rng, SystemRng


class DanubeClient:
    """Makes producers and consumers, which share its connections. Made by `DanubeClientBuilder.build`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.uri = connection.service_url
        """The service URL."""

    @staticmethod
    def builder() -> "DanubeClientBuilder":
        """Begin to build a client."""
        return DanubeClientBuilder()

    def new_producer(self) -> ProducerBuilder:
        """Begin to build a producer."""
        return ProducerBuilder(self._connection)

    def new_consumer(self) -> ConsumerBuilder:
        """Begin to build a consumer."""
        return ConsumerBuilder(self._connection)

    def schema(self) -> SchemaRegistryClient:
        """The schema registry."""
        return SchemaRegistryClient(self._connection)

    def schedules(self) -> ScheduleClient:
        """Schedules of analytics jobs, for their runner; only our brokers keep them."""
        return ScheduleClient(self._connection)

    def connectors(self) -> ConnectorClient:
        """Connectors, for their runner; only our brokers know them."""
        return ConnectorClient(self._connection)

    def fetch(
        self, topic: str, *, start: FetchStart = FetchFrom.EARLIEST, end: int | None = None, follow: bool = False
    ) -> AsyncGenerator[Message, None]:
        """The stored messages of a reliable topic, or of one partition, by offset and without a subscription.

        From `start` (an offset, a FetchTime, or an end of the topic) to `end` (not included); without one, to what was
        stored when the call arrived, or with `follow` for ever. A broken connection is made anew, and no message
        comes twice. Raises UnsupportedError from a broker without it, InvalidRequestError for offsets that are not
        there, DanubeError. Close the generator (`contextlib.aclosing`) where it is left early.
        """
        wanted = Fetch(topic=TopicName.parse(topic), start=start, end=end, follow=follow)
        return fetch_messages(self._connection, wanted)

    def fetch_batches(
        self, topic: str, *, start: int, end: int, retry_s: float = CLIENT_RETRY_TOTAL_S
    ) -> AsyncGenerator[list[FetchedBatch], None]:
        """As `fetch`, from one offset to another, and as it is stored: for readers that take whole batches.

        A broker that was lost is tried for `retry_s`. What is wrong with a body is the caller's to find:
        `danube.storage.batches.batch.check`.
        """
        wanted = Fetch(topic=TopicName.parse(topic), start=start, end=end)
        return fetch_batches(self._connection, wanted, retry_s=retry_s)

    async def bounds(self, topic: str, append_times_ms: Sequence[int] = ()) -> TopicBounds:
        """The offsets that a reliable topic, or one partition, holds now, and the offsets of records by append time.

        Raises UnsupportedError from a broker without it, TopicNotFoundError, DanubeError.
        """
        wanted = Bounds(topic=TopicName.parse(topic), append_times_ms=tuple(append_times_ms))
        return await topic_bounds(self._connection, wanted)

    async def partitions(self, topic: str) -> tuple[str, ...]:
        """The topics behind a name: itself, the partitions of a partitioned one, or nothing. Raises DanubeError."""
        return tuple(map(str, await self._connection.partitions(TopicName.parse(topic))))

    async def base_of(self, topic: str) -> str:
        """The partitioned topic that this is a partition of; the topic itself where it is none. Raises DanubeError."""
        return str(await self._connection.base_of(TopicName.parse(topic)))

    async def close(self) -> None:
        """Close the producers and consumers that are left (as `Consumer.close` does), then disconnect. Idempotent."""
        in_order = not isinstance(sys.exception(), Exception)  # not seen any more in the tasks that close them
        await asyncio.gather(*(member.end(in_order=in_order) for member in list(self._connection.members)))
        await self._connection.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()


class DanubeClientBuilder:
    """Collects what a client is made of: the service URL at least."""

    def __init__(self) -> None:
        self._url = ""
        self._token: TokenSupplier | None = None
        self._tls: TlsMaterial | None = None
        self._carrier: Carrier | None = None
        self._clock: Clock = SystemClock()
        self._rng: Rng = SystemRng()

    def service_url(self, url: str) -> Self:
        """Begin at this broker: `http://host:port`; `https` switches TLS on.

        Several, with commas between, are brokers of one cluster: the next is asked while one cannot be reached.
        """
        self._url = url
        return self

    def with_tls(self, ca_cert_path: str) -> Self:
        """Connect over TLS and trust this authority. Reads the file now; raises SettingsError when it cannot."""
        self._tls = TlsMaterial(ca=_content(ca_cert_path))
        return self

    def with_mtls(self, ca_cert_path: str, client_cert_path: str, client_key_path: str) -> Self:
        """Connect over TLS and present this certificate. Reads the files now; raises SettingsError when it cannot."""
        self._tls = TlsMaterial(
            ca=_content(ca_cert_path), certificate=_content(client_cert_path), key=_content(client_key_path)
        )
        return self

    def with_token(self, token: str) -> Self:
        """Send this token with every request. It switches TLS on: a token never travels in the clear."""
        return self.with_token_supplier(lambda: token)

    def with_token_supplier(self, supplier: TokenSupplier) -> Self:
        """Send the token that `supplier` answers; it is asked for every request. It switches TLS on."""
        self._token = supplier
        return self

    def with_carrier(self, carrier: Carrier) -> Self:
        """Have calls carried by `carrier`, which then decides about TLS."""
        self._carrier = carrier
        return self

    def with_clock(self, clock: Clock, rng: Rng | None = None) -> Self:
        """Use this clock, and this source of randomness: for simulations."""
        self._clock = clock
        self._rng = rng or self._rng
        return self

    async def build(self) -> DanubeClient:
        """The client; it connects when it is first used. Raises SettingsError for a wrong URL."""
        urls = [url.strip() for url in self._url.split(",")]
        for url in urls:
            host_and_port(url)
        carrier = self._carrier or self._default_carrier()
        connection = Connection(urls, carrier, self._clock, self._rng, self._token)
        connection.check_loop()
        return DanubeClient(connection)

    def _default_carrier(self) -> Carrier:
        secure = self._tls is not None or self._token is not None or self._url.startswith("https://")
        if not secure:
            return client_carrier(self._clock)
        tls = self._tls or TlsMaterial()
        return client_carrier(self._clock, ClientTls(ca=tls.ca, certificate=tls.certificate, key=tls.key))


def _content(path: str) -> bytes:
    try:
        return expanded(Path(path)).read_bytes()
    except OSError as error:
        raise SettingsError(f"cannot read {path} ({error.strerror}): TLS needs it, so check the path") from error
