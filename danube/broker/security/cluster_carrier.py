"""Carrier of calls to other brokers: each proves by a token of the cluster's secret that a broker makes it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from danube.broker.security.gate import AUTHORIZATION
from danube.rpc.carrier import Carrier, CarrierServer, Channel, ClientStream, Service

Pairs = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class ClusterCarrier:
    """A carrier whose channels add the header `authorization`."""

    inner: Carrier
    authorization: Callable[[], str]

    async def serve(self, address: str, services: Sequence[Service]) -> CarrierServer:
        return await self.inner.serve(address, services)

    def connect(self, address: str) -> Channel:
        return _ProvingChannel(self.inner.connect(address), self.authorization)


@dataclass(frozen=True, slots=True)
class _ProvingChannel:
    inner: Channel
    authorization: Callable[[], str]

    async def call(self, path: str, request: bytes, *, timeout_s: float | None = None, metadata: Pairs = ()) -> bytes:
        return await self.inner.call(path, request, timeout_s=timeout_s, metadata=self._proof(metadata))

    def stream(self, path: str, *, timeout_s: float | None = None, metadata: Pairs = ()) -> ClientStream:
        return self.inner.stream(path, timeout_s=timeout_s, metadata=self._proof(metadata))

    def server_stream(
        self, path: str, request: bytes, *, timeout_s: float | None = None, metadata: Pairs = ()
    ) -> ClientStream:
        return self.inner.server_stream(path, request, timeout_s=timeout_s, metadata=self._proof(metadata))

    async def close(self, lost: str | None = None) -> None:
        await self.inner.close(lost)

    def _proof(self, metadata: Pairs) -> Pairs:
        return [*metadata, (AUTHORIZATION, self.authorization())]
