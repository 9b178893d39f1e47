"""Servers and clients of one carrier, for the contract suite."""

from danube.rpc.carrier import Carrier, CarrierOptions, CarrierServer, Channel, Service
from danube.rpc.grpc.carrier import GrpcCarrier
from danube.rpc.http2.carrier import Http2Carrier
from danube.runtime.clock import SystemClock
from danube.testing.simulated.network import MemoryCarrier


class CarrierNetwork:
    """Servers and channels of one carrier; all of them end with the test."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._carrier: Carrier | None = None
        self._servers: list[CarrierServer] = []
        self._channels: list[Channel] = []

    def use(self, options: CarrierOptions) -> None:
        """Choose the carrier's bounds, before anything else."""
        makers = {"memory": MemoryCarrier, "grpc": GrpcCarrier, "http2": Http2Carrier}
        self._carrier = makers[self.kind](SystemClock(), options)

    @property
    def carrier(self) -> Carrier:
        if self._carrier is None:
            self.use(CarrierOptions())
        assert self._carrier is not None
        return self._carrier

    async def serve(self, *services: Service, address: str = "127.0.0.1:0") -> CarrierServer:
        server = await self.carrier.serve(address, services)
        self._servers.append(server)
        return server

    def connect(self, server: CarrierServer | str) -> Channel:
        channel = self.carrier.connect(server if isinstance(server, str) else server.address)
        self._channels.append(channel)
        return channel

    async def channel_to(self, *services: Service) -> Channel:
        return self.connect(await self.serve(*services))

    async def close(self) -> None:
        for channel in self._channels:
            await channel.close()
        for server in self._servers:
            await server.stop(0)
