"""A client's connections: one channel for each (broker, what to dial), and the metadata that each call carries.

The carrier decides what a channel is made of; nothing here knows gRPC.
"""

from collections import OrderedDict
from collections.abc import Sequence

from danube.client.connection.address import BrokerAddress, host_and_port
from danube.client.settings import TokenSupplier
from danube.model.errors import UnrecoverableError
from danube.model.limits.broker import CALL_TIMEOUT_S, CLIENT_CHANNELS_MAX
from danube.rpc.carrier import Carrier, Channel, ClientStream

PROXY_KEY = "x-danube-broker-url"
"""Tells a proxy which broker a call is for."""
TOKEN_KEY = "authorization"  # noqa: S105 - the name of the entry, not a secret

Metadata = Sequence[tuple[str, str]]


class Transport:
    """The only owner of channels."""

    def __init__(self, carrier: Carrier, token: TokenSupplier | None = None) -> None:
        self._carrier = carrier
        self._token = token
        self._channels: OrderedDict[tuple[str, str], Channel] = OrderedDict()
        self._closed = False

    async def call(
        self, address: BrokerAddress, path: str, request: bytes, *, timeout_s: float = CALL_TIMEOUT_S
    ) -> bytes:
        """One unary call to the broker at `address`. Raises DanubeError."""
        channel = await self._channel(address)
        return await channel.call(path, request, timeout_s=timeout_s, metadata=self._metadata(address))

    async def open_stream(self, address: BrokerAddress, path: str, request: bytes) -> ClientStream:
        """A stream of answers from the broker at `address`."""
        channel = await self._channel(address)
        return channel.server_stream(path, request, metadata=self._metadata(address))

    async def open_exchange(self, address: BrokerAddress, path: str) -> ClientStream:
        """A stream with messages both ways with the broker at `address`."""
        channel = await self._channel(address)
        return channel.stream(path, metadata=self._metadata(address))

    async def close(self) -> None:
        """Disconnect from every broker. Idempotent."""
        self._closed = True
        while self._channels:
            _, channel = self._channels.popitem()
            await channel.close()

    def _metadata(self, address: BrokerAddress) -> Metadata:
        metadata = []
        if self._token is not None and (token := self._token()):
            metadata.append((TOKEN_KEY, f"Bearer {token}"))
        if address.proxy:
            metadata.append((PROXY_KEY, address.broker_url))
        return metadata

    async def _channel(self, address: BrokerAddress) -> Channel:
        key = (address.broker_url, address.connect_url)
        channel = self._channels.get(key)
        if channel is not None:
            self._channels.move_to_end(key)
            return channel
        return await self._connect(key)

    async def _connect(self, key: tuple[str, str]) -> Channel:
        if self._closed:
            raise UnrecoverableError("the client is closed: build another one")
        channel = self._channels[key] = self._carrier.connect(host_and_port(key[1]))
        if len(self._channels) > CLIENT_CHANNELS_MAX:
            _, oldest = self._channels.popitem(last=False)
            await oldest.close()
        return channel
