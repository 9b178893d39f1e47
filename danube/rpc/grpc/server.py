"""A listening gRPC server: generic methods on raw bytes, found by their path.

To gRPC all of them take streams, so that we decide when the one message of a call is read: `receive_request`.
"""

import asyncio
from collections.abc import Iterable
from contextlib import suppress

import grpc
from grpc import aio

from danube.rpc.carrier import Service
from danube.rpc.grpc.call import unary_method
from danube.rpc.grpc.context import ServerSide
from danube.rpc.grpc.stream import stream_method
from danube.runtime.clock import sleep_for

_END_WAIT_S = 5.0
"""Calls end within a moment of the server; longer than this is not waited for a handler's last coroutine."""

_LAST_TURNS_S = 0.01
"""For grpc.aio's own tasks around the coroutines; a loop that is closed under them prints tracebacks."""


class GrpcServer:
    """A listening grpc.aio server."""

    def __init__(self, server: aio.Server, address: str, side: ServerSide) -> None:
        self._server = server
        self.address = address
        self._side = side

    async def stop(self, grace_s: float) -> None:
        await self._server.stop(grace_s if grace_s > 0 else None)
        await self._wait_for_handlers()
        await self._side.tasks.close()

    async def _wait_for_handlers(self) -> None:
        """gRPC stops a little before it has told its coroutines so."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_END_WAIT_S):
                while self._side.active:
                    await self._side.changed.wait()
        await sleep_for(self._side.clock, _LAST_TURNS_S)


class Router:
    """Finds the method of a path; a `grpc.GenericRpcHandler` in all but name."""

    def __init__(self, services: Iterable[Service], side: ServerSide) -> None:
        self._methods: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {}
        for service in services:
            self._methods.update(_methods(service, side))

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> "grpc.RpcMethodHandler[bytes, bytes] | None":
        return self._methods.get(handler_call_details.method)


def _methods(service: Service, side: ServerSide) -> dict[str, "grpc.RpcMethodHandler[bytes, bytes]"]:
    methods: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {}
    for name, handler in service.unary.items():
        path = f"/{service.name}/{name}"
        methods[path] = grpc.stream_unary_rpc_method_handler(unary_method(path, handler, side))
    for both_ways, streams in ((False, service.server_streams), (True, service.streams)):
        for name, factory in streams.items():
            path = f"/{service.name}/{name}"
            method = stream_method(path, factory, side, both_ways=both_ways)
            methods[path] = grpc.stream_stream_rpc_method_handler(method)
    return methods
