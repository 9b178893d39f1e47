"""A plain grpc.aio server that answers bytes at once: what a call costs before any of ours. Prints its port."""

import asyncio
import sys

import grpc
from grpc import aio


async def echo(request: bytes, context: object) -> bytes:  # noqa: ARG001 - gRPC's signature
    return request


async def main() -> None:
    server = aio.server(options=[("grpc.so_reuseport", 0)])
    methods = {"SendMessage": grpc.unary_unary_rpc_method_handler(echo)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("danube.ProducerService", methods),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(port, flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    await server.stop(0)


if __name__ == "__main__":
    asyncio.run(main())
